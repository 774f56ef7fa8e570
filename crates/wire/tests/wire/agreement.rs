//! What must hold between the ways of reading one frame, whatever is in it.

use wire::fast::{Untagged, simple_ipv4_with_info};
use wire::{
    Decapsulate, FlowKey, Fragment, Headers, LinkType, NoFlow, PacketInfo, Tunnel, dissect,
    simple_ipv4,
};

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
    if link == LinkType::Ethernet {
        check_plain(frame, wire_length, outer);
    }
    all
}

/// What is read without a walk is what the walk has found.
fn check_plain(frame: &[u8], wire_length: u32, walked: &Headers) {
    // What stands in a place before is another packet's.
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
    let mut segment = before;
    let untagged = Untagged::new(frame, wire_length);
    let plain = simple_ipv4(frame, wire_length);
    if let Some(plain) = plain {
        assert_eq!((untagged.tag, untagged.simple_ipv4()), (0, Some(plain)));
    }
    let mut in_detail = before;
    let mut same = None;
    let is_plain = simple_ipv4_with_info(frame, wire_length, 0, &mut in_detail, |plain| {
        same = Some(plain);
    });
    assert_eq!((same, is_plain), (plain, plain.is_some()));
    let expected = match plain {
        Some(_) => PacketInfo::from_headers(frame, walked),
        None => before,
    };
    assert_eq!(in_detail, expected);
    if let Some(plain) = untagged.simple_ipv4() {
        assert_eq!(Some(plain.key), walked.key.compact());
        assert_eq!(plain.tcp_flags, walked.tcp_flags);
        segment.read_simple_ipv4(0, untagged.frame);
    } else if let Some(plain) = untagged.simple_ipv6() {
        assert_eq!(plain.key, walked.key);
        assert_eq!(plain.tcp_flags, walked.tcp_flags);
        segment.read_simple_ipv6(0, untagged.frame);
    } else if let Some(portless) = untagged.portless_ipv4() {
        assert_eq!(Some(portless.key), walked.key.compact());
        assert_eq!((walked.tcp_flags, walked.icmp_type_code), (0, 0));
        let is_fragment = walked.fragment == Fragment::Later;
        assert_eq!(portless.is_fragment, is_fragment);
        assert!(is_fragment || walked.fragment == Fragment::No);
        segment.read_portless_ipv4(0, untagged.frame, is_fragment);
    } else {
        return;
    }
    assert_eq!(walked.key.vlan, [untagged.tag, 0]);
    assert_eq!((walked.no_flow, walked.malformed), (None, None));
    assert!(!walked.truncated);
    segment.restore_vlan_tag(untagged.tag);
    assert_eq!(segment, PacketInfo::from_headers(frame, walked));
}
