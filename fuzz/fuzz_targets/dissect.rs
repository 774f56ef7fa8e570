//! Parses any bytes as a frame of any link type. Nothing panics, and all ways to parse it agree.
//!
//! Input: a byte that selects the link type, a byte that selects the decapsulation, two bytes (little
//! endian) with the number of bytes beyond the snaplen, and the frame.

#![no_main]

use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;
use wire::{CommunityId, Decapsulate, FlowKey, LinkType, NoFlow, dissect};

#[path = "../../crates/wire/tests/wire/agreement.rs"]
mod agreement;

/// All supported link types, and an unsupported one.
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

    budget::start();
    let headers = dissect(link, frame, wire_length, decapsulate);
    budget::check_frame();
    if headers.no_flow == Some(NoFlow::Malformed) {
        assert!(headers.malformed.is_some(), "malformed without a fault");
    }
    if headers.no_flow.is_some() {
        assert_eq!(headers.key, FlowKey::default());
    } else {
        assert!(matches!(headers.key.version, 4 | 6));
        let id = CommunityId::new(&headers.key, headers.icmp_type_code, 0);
        assert_eq!(id.as_str().len(), CommunityId::LENGTH);
    }
    if beyond == 0 {
        // A complete frame must not be reported as truncated.
        assert!(!headers.truncated);
        assert_ne!(headers.no_flow, Some(NoFlow::Truncated));
    }
    agreement::check(link, frame, wire_length);
});
