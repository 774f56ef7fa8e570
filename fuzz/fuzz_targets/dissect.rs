//! Any bytes as a frame of any link type: nothing panics, and the ways of reading it agree.
//!
//! Input: a byte that picks the link type, one that picks how far to decapsulate, two (little
//! endian) by how much the frame was longer on the wire, then the frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::plain::Untagged;
use wire::{CommunityId, Decapsulate, FlowKey, Headers, LinkType, NoFlow, Segment, dissect};

/// Every link type that is read, and one that is not.
const LINKS: [LinkType; 11] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Ppp,
    LinkType::PppHdlc,
    LinkType::Raw,
    LinkType::Loop,
    LinkType::LinuxSll,
    LinkType::Ipv4,
    LinkType::Ipv6,
    LinkType::LinuxSll2,
    LinkType::Other(105),
];

const DEPTHS: [Decapsulate; 3] = [Decapsulate::No, Decapsulate::Link, Decapsulate::Innermost];

fuzz_target!(|input: &[u8]| {
    let Some((&[link, depth, low, high], frame)) = input.split_first_chunk::<4>() else {
        return;
    };
    let link = LINKS[usize::from(link) % LINKS.len()];
    let decapsulate = DEPTHS[usize::from(depth) % DEPTHS.len()];
    let beyond = u32::from(u16::from_le_bytes([low, high]));
    let wire_length = frame.len() as u32 + beyond;

    let headers = dissect(link, frame, wire_length, decapsulate);
    if headers.no_flow == Some(NoFlow::Malformed) {
        assert!(headers.malformed.is_some(), "lost without a fault");
    }
    if headers.no_flow.is_some() {
        assert_eq!(headers.key, FlowKey::default());
    } else {
        assert!(matches!(headers.key.version, 4 | 6));
        let id = CommunityId::new(&headers.key, headers.icmp_type_code, 0);
        assert_eq!(id.as_str().len(), CommunityId::LENGTH);
    }
    if beyond == 0 {
        // Nothing was cut off, so nothing may be called cut off.
        assert!(!headers.truncated);
        assert_ne!(headers.no_flow, Some(NoFlow::Truncated));
    }
    if let Some(compact) = headers.key.compact() {
        assert_eq!(FlowKey::from_compact(compact), headers.key);
    }

    let outer = dissect(link, frame, wire_length, Decapsulate::No);
    if outer.no_flow.is_none() {
        assert!(headers.no_flow.is_none(), "a tunnel lost the outer key");
    }
    if link == LinkType::Ethernet {
        check_plain(frame, wire_length, &outer);
    }
});

/// What is read without a walk is what the walk has found.
fn check_plain(frame: &[u8], wire_length: u32, walked: &Headers) {
    let mut segment = Segment::default();
    let untagged = Untagged::new(frame, wire_length);
    if let Some(plain) = untagged.plain_ipv4() {
        assert_eq!(Some(plain.key), walked.key.compact());
        assert_eq!(plain.tcp_flags, walked.tcp_flags);
        segment.read_plain(untagged.frame);
    } else if let Some(plain) = untagged.plain_ipv6() {
        assert_eq!((plain.key, plain.tcp_flags), (walked.key, walked.tcp_flags));
        segment.read_plain_ipv6(untagged.frame);
    } else {
        return;
    }
    assert_eq!(walked.key.vlan, [untagged.tag, 0]);
    assert_eq!((walked.no_flow, walked.malformed), (None, None));
    assert!(!walked.truncated);
    segment.put_tag_back(untagged.tag);
    assert_eq!(segment, Segment::of_headers(frame, walked));
}
