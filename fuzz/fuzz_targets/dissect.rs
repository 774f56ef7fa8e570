//! Any bytes as a frame of any link type: nothing panics, and the ways of reading it agree.
//!
//! Input: a byte that picks the link type, one that picks how far to decapsulate, two (little
//! endian) by how much the frame was longer on the wire, then the frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::plain::plain_tagged_ipv4;
use wire::{CommunityId, Decapsulate, FlowKey, LinkType, NoFlow, Segment, dissect, plain_ipv4};

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
    if link == LinkType::Ethernet
        && let Some(plain) = plain_ipv4(frame, wire_length)
    {
        assert_eq!(Some(plain.key), outer.key.compact());
        assert_eq!(plain.tcp_flags, outer.tcp_flags);
        assert_eq!((outer.no_flow, outer.malformed), (None, None));
        assert!(!outer.truncated);
    }
    if link == LinkType::Ethernet
        && let Some((plain, tag)) = plain_tagged_ipv4(frame, wire_length)
    {
        assert_eq!(Some(plain.key), outer.key.compact());
        assert_eq!(
            (plain.tcp_flags, [tag, 0]),
            (outer.tcp_flags, outer.key.vlan)
        );
        assert_eq!((outer.no_flow, outer.malformed), (None, None));
        assert!(!outer.truncated);
        let mut segment = Segment::default();
        segment.read_plain_tagged(frame, tag);
        assert_eq!(segment, Segment::of_headers(frame, &outer));
    }
});
