//! What must hold between the ways of reading one frame, whatever is in it.

use wire::plain::plain_tagged_ipv4;
use wire::{Decapsulate, FlowKey, Headers, LinkType, NoFlow, Segment, dissect, plain_ipv4};

/// Reads `frame` in every way, and asserts what must hold between the answers.
pub(crate) fn check(link: LinkType, frame: &[u8], wire_length: u32) -> [Headers; 3] {
    let all = [Decapsulate::No, Decapsulate::Link, Decapsulate::Innermost]
        .map(|decapsulate| dissect(link, frame, wire_length, decapsulate));
    for headers in &all {
        let malformed_and_lost = headers.no_flow == Some(NoFlow::Malformed);
        assert!(!malformed_and_lost || headers.malformed.is_some());
        assert!(headers.no_flow.is_none() || headers.key == FlowKey::default());
        if let Some(compact) = headers.key.compact() {
            assert_eq!(FlowKey::from_compact(compact), headers.key);
        }
        assert_eq!(headers.key.reversed().reversed(), headers.key);
    }
    let [outer, behind_link, innermost] = &all;
    if outer.no_flow.is_none() {
        assert_eq!(outer, behind_link, "what has a key needs no opening");
        assert!(innermost.no_flow.is_none(), "a tunnel lost the outer key");
    }
    if link == LinkType::Ethernet
        && let Some(plain) = plain_ipv4(frame, wire_length)
    {
        assert_eq!(Some(plain.key), outer.key.compact());
        assert_eq!(plain.tcp_flags, outer.tcp_flags);
        assert_eq!(outer.no_flow, None);
        assert_eq!(outer.malformed, None);
        assert!(!outer.truncated);
        let mut segment = Segment::default();
        segment.read_plain(frame);
        assert_eq!(segment, Segment::of_headers(frame, outer));
    }
    if link == LinkType::Ethernet
        && let Some((plain, tag)) = plain_tagged_ipv4(frame, wire_length)
    {
        assert_eq!(Some(plain.key), outer.key.compact());
        assert_eq!([tag, 0], outer.key.vlan);
        assert_eq!(plain.tcp_flags, outer.tcp_flags);
        assert_eq!(
            [
                outer.no_flow.is_some(),
                outer.malformed.is_some(),
                outer.truncated
            ],
            [false; 3]
        );
        let mut segment = Segment::default();
        segment.read_plain_tagged(frame, tag);
        assert_eq!(segment, Segment::of_headers(frame, outer));
    }
    all
}
