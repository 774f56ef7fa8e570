//! Properties that hold for any bytes.

use proptest::prelude::*;
use wire::{CommunityId, Decapsulate, FlowKey, LinkType, Malformed, NoFlow, dissect};

use crate::agreement;

fn any_key() -> impl Strategy<Value = FlowKey> {
    let tag = prop_oneof![
        Just(0u16),
        (0u16..4096).prop_map(|id| FlowKey::VLAN_PRESENT | id)
    ];
    let ends = (
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
        any::<u16>(),
        any::<u16>(),
    );
    (any::<bool>(), any::<u8>(), ends, [tag.clone(), tag]).prop_map(
        |(v6, protocol, (source, destination, source_port, destination_port), vlan)| {
            let mut key = FlowKey {
                version: if v6 { 6 } else { 4 },
                protocol,
                source,
                destination,
                source_port,
                destination_port,
                vlan,
            };
            if !v6 {
                key.source[4..].fill(0);
                key.destination[4..].fill(0);
            }
            key
        },
    )
}

/// Bytes that get past the first checks: a header of each kind, then anything.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        Just(&b""[..]),
        Just(&b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x08\x00\x45\x00"[..]),
        Just(&b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x81\x00\x00\x01\x08\x00\x46"[..]),
        Just(
            &b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x86\xdd\x60\x00\x00\x00\x00\x40\x00"[..]
        ),
        Just(&b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x88\x47\x00\x00\x01\x40"[..]),
        Just(&b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x88\x64\x11\x00\x00\x01"[..]),
        Just(
            &b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x08\x00\
              \x45\x00\x00\x40\x00\x00\x00\x00\x40\x2f\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08"[..]
        ),
        Just(
            &b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x08\x00\
              \x45\x00\x00\x40\x00\x00\x00\x00\x40\x11\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\
              \x00\x01\x08\x68\x00\x2c\x00\x00\x34\xff"[..]
        ),
    ];
    (start, prop::collection::vec(any::<u8>(), 0..160))
        .prop_map(|(start, rest)| [start, &rest].concat())
}

fn any_link() -> impl Strategy<Value = LinkType> {
    prop::sample::select(vec![0u16, 1, 9, 50, 101, 108, 113, 228, 229, 276, 105])
        .prop_map(LinkType::from_linktype)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_bytes_make_a_parser_panic_or_contradict_itself(
        link in any_link(), frame in any_frame(), beyond in 0u32..2000,
    ) {
        let length = u32::try_from(frame.len()).unwrap();
        agreement::check(link, &frame, length);
        agreement::check(link, &frame, length + beyond);
        agreement::check(LinkType::Ethernet, &frame, length);
        agreement::check(link, &frame, beyond);
    }

    /// Frames that are simple, or differ from a simple frame in a byte or two. `dissect` must agree with
    /// the fast path about all of them.
    #[test]
    fn the_fast_path_agrees_with_dissect_on_nearly_simple_frames(
        is_tcp: bool,
        lengths in (40u16..70, 4u16..40, 54usize..80, 50u32..90),
        changes in prop::collection::vec((12usize..54, any::<u8>()), 0..3),
    ) {
        let (total, udp, captured, wire) = lengths;
        let mut frame = [2; 80];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[18..24].copy_from_slice(&[0, 0, 0x40, 0, 64, if is_tcp { 6 } else { 17 }]);
        frame[38..40].copy_from_slice(&udp.to_be_bytes());
        frame[46] = 0x50;
        for (at, byte) in changes {
            frame[at] = byte;
        }
        agreement::check(LinkType::Ethernet, &frame[..captured], wire);
    }

    /// The same of IPv6, and of frames with a VLAN tag.
    #[test]
    fn the_fast_path_agrees_with_dissect_on_ipv6_and_vlan_tags(
        is_tcp: bool, is_ipv6: bool, is_tagged: bool, options in any::<[u8; 12]>(),
        lengths in (0u16..60, 4u16..60, 54usize..110, 50u32..120, 4u8..9),
        changes in prop::collection::vec((12usize..84, any::<u8>()), 0..3),
    ) {
        let (payload, udp, captured, wire, words) = lengths;
        let mut frame = vec![2; 12];
        if is_tagged {
            frame.extend([0x81, 0, 0x60, 7]);
        }
        let protocol = if is_tcp { 6 } else { 17 };
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x6a, 0xb3, 0, 0]);
            frame.extend(payload.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0xfe; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + payload).to_be_bytes());
            frame.extend([0, 9, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend([0x10, 1, 0, 53]);
        frame.extend(udp.to_be_bytes());
        frame.extend([1, 2, 3, 4, 5, 6, words << 4, 0x18, 7, 8, 0, 0, 0, 0]);
        frame.extend(options);
        frame.resize(120, 3);
        for (at, byte) in changes {
            frame[at] = byte;
        }
        agreement::check(LinkType::Ethernet, &frame[..captured], wire);
    }

    #[test]
    fn a_compact_key_is_the_key(key in any_key()) {
        match key.compact() {
            Some(compact) => {
                prop_assert_ne!(compact, 0);
                prop_assert_eq!(compact & FlowKey::WIDE_MARK, 0);
                prop_assert_eq!(FlowKey::from_compact(compact), key);
            }
            None => prop_assert!(key.version == 6 || key.vlan[1] != 0),
        }
    }

    #[test]
    fn a_key_reversed_twice_is_the_key(key in any_key()) {
        prop_assert_eq!(key.reversed().reversed(), key);
        prop_assert_eq!(key.reversed().source_address(), key.destination_address());
    }

    #[test]
    fn both_directions_of_a_flow_have_one_community_id(key in any_key(), seed: u16) {
        prop_assume!(!matches!(key.protocol, 1 | 58));
        let id = CommunityId::new(&key, 0, seed);
        prop_assert_eq!(id, CommunityId::new(&key.reversed(), 0, seed));
        prop_assert!(id.as_str().starts_with("1:") && id.as_str().ends_with('='));
    }
}

/// Names are what programs know the kinds by: none may be empty, taken twice, or written in
/// another way than the rest.
#[test]
fn names_are_unique_and_snake_case() {
    let malformed = Malformed::ALL.iter().map(|kind| kind.name());
    let no_flow = NoFlow::ALL.iter().map(|reason| reason.name());
    for mut names in [malformed.collect::<Vec<_>>(), no_flow.collect()] {
        for name in &names {
            assert!(!name.is_empty());
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
    for (index, kind) in Malformed::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, index);
    }
}

/// ICMP type 0 is an echo reply, so a packet without a captured type must not get it.
#[test]
fn icmp_without_its_header_has_no_type() {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&[8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0]);
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0]);
    let read = |frame: &[u8]| {
        let headers = dissect(LinkType::Ethernet, frame, 42, Decapsulate::No);
        assert_eq!(headers.no_flow, None);
        headers.icmp_type_code
    };
    assert_eq!(read(&frame), 0x0800);
    assert_eq!(read(&frame[..36]), wire::icmp::UNKNOWN);
    // A later fragment, of ICMP for either version.
    frame[21] = 5;
    for protocol in [wire::ip_protocol::ICMP, wire::ip_protocol::ICMPV6] {
        frame[23] = protocol;
        assert_eq!(read(&frame), wire::icmp::UNKNOWN);
        agreement::check(LinkType::Ethernet, &frame, 42);
    }
}
