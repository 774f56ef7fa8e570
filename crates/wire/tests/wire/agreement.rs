//! Compares the results of all parsers for one frame.

use wire::fast::{Untagged, read_simple_chunk};
use wire::{
    Decapsulate, FlowKey, Fragment, Headers, LinkType, NoFlow, PacketInfo, Tunnel, dissect,
    simple_ipv4,
};

/// Parses `frame` with every parser, and asserts that the results agree.
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
    let [outer, after_link, innermost] = &all;
    if outer.no_flow.is_none() {
        assert_eq!(outer, after_link, "a packet with a key was decapsulated");
        assert!(innermost.no_flow.is_none(), "a tunnel lost the outer key");
    }
    if link == LinkType::Ethernet {
        check_fast_path(frame, wire_length, outer);
    }
    all
}

/// Asserts that the fast path finds what `dissect` found.
fn check_fast_path(frame: &[u8], wire_length: u32, walked: &Headers) {
    // A slot holds the details of another packet before.
    let before = PacketInfo {
        timestamps: [1, 2],
        sack: [3, 4],
        vlan: [5, 6],
        mpls_label: 7,
        frame: 8,
        segment_size: 9,
        window_scale: 10,
        sack_blocks: 11,
        present: !0,
        tunnel: Tunnel::Gre,
        ..PacketInfo::default()
    };
    let mut info = before;
    let untagged = Untagged::new(frame, wire_length);
    let simple = simple_ipv4(frame, wire_length);
    if let Some(simple) = simple {
        assert_eq!((untagged.tag, untagged.simple_ipv4()), (0, Some(simple)));
        let mut infos = [before; 3];
        read_simple_chunk(&[(frame, wire_length); 3], 0b101, 7, &mut infos);
        let mut expected = PacketInfo::from_headers(frame, walked);
        for (info, number) in [(infos[0], 7), (infos[2], 9)] {
            expected.frame = number;
            assert_eq!(info, expected);
        }
        assert_eq!(infos[1], before, "a frame outside the mask was read");
    }
    if let Some(simple) = untagged.simple_ipv4() {
        assert_eq!(Some(simple.key), walked.key.compact());
        assert_eq!(simple.tcp_flags, walked.tcp_flags);
        info.read_simple_ipv4(0, untagged.frame);
    } else if let Some(simple) = untagged.simple_ipv6() {
        assert_eq!(simple.key, walked.key);
        assert_eq!(simple.tcp_flags, walked.tcp_flags);
        info.read_simple_ipv6(0, untagged.frame);
    } else if let Some(portless) = untagged.portless_ipv4() {
        assert_eq!(Some(portless.key), walked.key.compact());
        assert_eq!((walked.tcp_flags, walked.icmp_type_code), (0, 0));
        let is_fragment = walked.fragment == Fragment::Later;
        assert_eq!(portless.is_fragment, is_fragment);
        assert!(is_fragment || walked.fragment == Fragment::No);
        info.read_portless_ipv4(0, untagged.frame, is_fragment);
    } else {
        return;
    }
    assert_eq!(walked.key.vlan, [untagged.tag, 0]);
    assert_eq!((walked.no_flow, walked.malformed), (None, None));
    assert!(!walked.truncated);
    info.restore_vlan_tag(untagged.tag);
    assert_eq!(info, PacketInfo::from_headers(frame, walked));
}
