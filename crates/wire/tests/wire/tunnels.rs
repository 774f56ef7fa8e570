//! A tunnel counts only where it holds an IP packet; what only has the port of one leaves no trace.

use proptest::prelude::*;
use wire::{Decapsulate, Headers, LinkType, Malformed, Outline, Tunnel, dissect};

use crate::malformed::{Frame, whole};

/// UDP ports of tunnels.
const PORTS: [u16; 7] = [4789, 8472, 4790, 6081, 2152, 6635, 3544];

/// IPv4 with UDP from port 1234 to port 5678, with a valid checksum.
fn packet() -> Vec<u8> {
    let mut packet = Frame::default()
        .ipv4(17, 12)
        .bytes(&[0x04, 0xd2, 0x16, 0x2e, 0, 12, 0, 0, 1, 2, 3, 4]);
    packet.0[10..12].copy_from_slice(&[0x66, 0xcb]);
    let sum: u32 = packet.0[..20]
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{sum:x}");
    packet.0
}

/// IPv6 between Teredo addresses with the same content.
fn packet_of_teredo() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    packet.extend([&[0x20, 1, 0, 0][..], &[9; 12]].concat().repeat(2));
    packet.extend(&packet_of_udp());
    packet
}

fn packet_of_udp() -> Vec<u8> {
    packet().split_off(20)
}

fn framed(address: u8, ether_type: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![address, 0x5e, 0x0c, 0x99, 0x88, 0x77, 2, 0, 0, 0, 0, 1];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(content);
    frame
}

/// A GTP-U header of a message.
fn gtp_u(message: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [
        &[0x30, message, length[0], length[1], 0, 0, 0, 7][..],
        content,
    ]
    .concat()
}

/// UDP to `port` with `payload`, with the key that it has without decapsulation.
fn in_port(port: u16, payload: &[u8]) -> (Headers, Headers) {
    let frame = Frame::tunnel(port, payload);
    let length = u32::try_from(frame.0.len()).unwrap();
    let outer = dissect(LinkType::Ethernet, &frame.0, length, Decapsulate::No);
    (whole(&frame), outer)
}

#[track_caller]
fn assert_inner(headers: &Headers, tunnel: Tunnel) {
    assert_eq!((headers.no_flow, headers.malformed), (None, None));
    assert_eq!(headers.outline.tunnel, tunnel);
    let ports = (headers.key.source_port, headers.key.destination_port);
    assert_eq!((headers.key.protocol, ports), (17, (1234, 5678)));
}

#[test]
fn every_tunnel_is_named_where_it_holds_a_packet() {
    let ethernet = framed(0x4c, 0x0800, &packet());
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &ethernet].concat();
    let gpe = [&[12, 0, 0, 1, 0, 0, 7, 0][..], &packet()].concat();
    let geneve = [&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], &ethernet].concat();
    let labelled = [&[0, 0, 0x71, 64][..], &packet()].concat();
    let wire = [&[0, 0, 0x71, 64][..], &ethernet].concat();
    for (port, payload, tunnel) in [
        (4789, vxlan.clone(), Tunnel::Vxlan),
        (8472, vxlan, Tunnel::Vxlan),
        (4790, gpe, Tunnel::Vxlan),
        (6081, geneve, Tunnel::Geneve),
        (2152, gtp_u(0xff, &packet()), Tunnel::GtpU),
        (2152, gtp_u(0xff, &ethernet), Tunnel::GtpU),
        (6635, labelled, Tunnel::Mpls),
        (6635, wire, Tunnel::Mpls),
        (3544, packet_of_teredo(), Tunnel::Teredo),
    ] {
        let (headers, _) = in_port(port, &payload);
        assert_inner(&headers, tunnel);
        let label = if tunnel == Tunnel::Mpls {
            Outline::MPLS_PRESENT | 7
        } else {
            0
        };
        assert_eq!(headers.outline.mpls_label, label);
    }
    for gre in [
        [&[0, 0, 0x65, 0x58][..], &ethernet].concat(),
        [&[0, 0, 0x08, 0][..], &packet()].concat(),
        // WCCP without its redirect header, and with one whose first bits are those of IPv4.
        [&[0, 0, 0x88, 0x3e][..], &packet()].concat(),
        [&[0, 0, 0x88, 0x3e, 0x40, 0, 0, 0][..], &packet()].concat(),
    ] {
        assert_inner(&whole(&Frame::gre(&gre)), Tunnel::Gre);
    }
    let in_ip = Frame::ethernet(0x0800).ipv4(4, 32).bytes(&packet());
    assert_inner(&whole(&in_ip), Tunnel::IpInIp);
}

/// Messages of a tunnel's own protocol, and frames that hold no IP.
#[test]
fn a_tunnel_without_a_packet_is_none() {
    let arp = framed(0x4c, 0x0806, &[0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0]);
    let discovery = framed(0x4c, 0x88cc, &[2, 7, 4, 0, 1, 2, 3, 4, 5]);
    for (port, payload) in [
        // Echo request and response, error indication, end marker.
        (2152, gtp_u(1, &[])),
        (2152, gtp_u(2, &[14, 0])),
        (2152, gtp_u(26, &[16, 0, 0, 0, 1])),
        (2152, gtp_u(254, &[])),
        (2152, gtp_u(0xff, &arp)),
        (4789, [&[8, 0, 0, 0, 0, 0, 7, 0][..], &arp].concat()),
        (4789, [&[8, 0, 0, 0, 0, 0, 7, 0][..], &discovery].concat()),
        // Network service header.
        (4790, [12, 0, 0, 4, 0, 0, 7, 0].to_vec()),
        (6081, [&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], &arp].concat()),
        (6081, vec![0x80, 0, 0x88, 0x0b, 0, 0, 7, 0]),
        (6635, [&[0, 0, 0x71, 64][..], &discovery].concat()),
        // A bubble is a packet, a lone origin header is none.
        (3544, vec![0, 0, 1, 2, 3, 4, 5, 6]),
    ] {
        let (headers, outer) = in_port(port, &payload);
        assert_eq!(headers, outer, "{port} {payload:x?}");
    }
    for gre in [
        // An acknowledgement of PPTP, a keepalive, link control of PPP, routing of IS-IS.
        &[0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 1, 0, 0, 0, 0][..],
        &[0, 0, 0, 0],
        &[
            0x30, 1, 0x88, 0x0b, 0, 4, 0, 1, 0, 0, 0, 0, 0xc0, 0x21, 9, 0,
        ],
        &[0, 0, 0, 0xfe, 0x83, 0x1b, 1, 0],
    ] {
        let headers = whole(&Frame::gre(gre));
        assert_eq!(headers.outline.tunnel, Tunnel::None, "{gre:x?}");
        assert_eq!(
            (headers.malformed, headers.key.protocol),
            (None, 47),
            "{gre:x?}"
        );
    }
}

/// A damaged packet inside a tunnel is the tunnel's fault, but its name is that of the key.
#[test]
fn damage_inside_a_strict_tunnel_counts_and_names_no_tunnel() {
    let short = framed(0x4c, 0x0800, &packet()[..12]);
    for (port, payload) in [
        (4789, [&[8, 0, 0, 0, 0, 0, 7, 0][..], &short].concat()),
        (6081, [&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], &short].concat()),
        (2152, gtp_u(0xff, &packet()[..12])),
    ] {
        let (headers, outer) = in_port(port, &payload);
        assert_eq!(headers.malformed, Some(Malformed::Ipv4Truncated), "{port}");
        assert_eq!((headers.key, headers.outline), (outer.key, outer.outline));
    }
}

/// A pseudowire whose first address begins like IP, like a control word or in any other way.
#[test]
fn a_pseudowire_is_not_guessed_from_a_nibble() {
    for address in 0..=255 {
        for word in [&[][..], &[0; 4]] {
            let frame = Frame::ethernet(0x8847)
                .bytes(&[0, 0, 0x71, 64])
                .bytes(word)
                .bytes(&framed(address, 0x0800, &packet()));
            assert_inner(&whole(&frame), Tunnel::Mpls);
        }
    }
}

/// What walks the authentication header in IPv6 walks it in IPv4.
#[test]
fn an_authentication_header_is_walked_in_both_versions_of_ip() {
    for length in [1, 4, 7] {
        let mut held = vec![17, length, 0, 0, 0, 0, 0, 1];
        held.resize(8 + 4 * usize::from(length), 9);
        held.extend(packet_of_udp());
        let size = u16::try_from(held.len()).unwrap();
        let frames = [
            Frame::ethernet(0x0800).ipv4(51, size).bytes(&held),
            Frame::ethernet(0x86dd).ipv6(51, size).bytes(&held),
        ];
        for frame in &frames {
            assert_inner(&whole(frame), Tunnel::None);
            assert_eq!(whole(frame).outline.payload_length, 4);
        }
        // As much of it as was captured.
        let length = u32::try_from(frames[0].0.len()).unwrap();
        for captured in 0..=held.len() {
            let cut = &frames[0].0[..34 + captured];
            let headers = dissect(LinkType::Ethernet, cut, length, Decapsulate::No);
            let expected = if captured == 0 { 51 } else { 17 };
            assert_eq!(headers.key.protocol, expected, "{captured}");
            assert_eq!((headers.no_flow, headers.malformed), (None, None));
        }
    }
    let tunnel = [&[4, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], &packet()].concat();
    let size = u16::try_from(tunnel.len()).unwrap();
    let frame = Frame::ethernet(0x0800).ipv4(51, size).bytes(&tunnel);
    assert_inner(&whole(&frame), Tunnel::IpInIp);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// DNS, or anything else that is no tunnel, to a client whose port happens to be one of a tunnel.
    #[test]
    fn dns_to_the_port_of_a_tunnel_is_no_tunnel(
        port in prop::sample::select(&PORTS[..]),
        id: u16,
        flags in prop::sample::select(vec![0x8180u16, 0x8100, 0x8500, 0x8580, 0x8183, 0x8182, 0x8181, 0x0100, 0]),
        counts in (0u16..3, 0u16..4),
        labels in prop::collection::vec("[a-z0-9-]{1,20}", 0..4),
        answer in prop::collection::vec(any::<u8>(), 0..40),
        cut in prop::option::of(0usize..80),
    ) {
        let mut payload = [id, flags, 1, counts.0, counts.1, 0].map(u16::to_be_bytes).concat();
        for label in labels {
            payload.push(label.len() as u8);
            payload.extend(label.bytes());
        }
        payload.extend([0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        payload.extend(answer);
        payload.truncate(cut.unwrap_or(payload.len()));
        let (headers, outer) = in_port(port, &payload);
        prop_assert_eq!(headers, outer);
        // The same, cut by the snaplen.
        let frame = Frame::tunnel(port, &payload);
        let length = u32::try_from(frame.0.len()).unwrap() ;
        let captured = &frame.0[..42 + payload.len() / 2];
        let [walked, outer] = [Decapsulate::Innermost, Decapsulate::No]
            .map(|decapsulate| dissect(LinkType::Ethernet, captured, length, decapsulate));
        prop_assert_eq!(walked, outer);
    }

    /// Whatever is in it: a tunnel without a name left the outer packet as it is, and one with a name
    /// has the key of an inner one.
    #[test]
    fn a_tunnel_has_a_name_exactly_where_the_key_is_an_inner_one(
        port in prop::sample::select(&PORTS[..]),
        start in prop::sample::select(vec![
            vec![], vec![8, 0, 0, 0], vec![12, 0, 0, 1], vec![0, 0, 0x65, 0x58], vec![0, 0, 8, 0],
            vec![0x30, 0xff, 0, 60], vec![0x34, 0xff, 0, 60], vec![0, 0, 0x11, 64], vec![0, 1, 0, 0],
        ]),
        content in prop::collection::vec(any::<u8>(), 0..100),
        (held_at, held) in (0usize..40, prop::sample::select(vec![packet(), framed(0x46, 0x0800, &packet()), packet_of_teredo()])),
    ) {
        let mut payload = [start, content].concat();
        if payload.len() > held_at {
            payload.truncate(held_at);
            payload.extend(held);
        }
        let (headers, outer) = in_port(port, &payload);
        let is_inner = headers.outline.network != outer.outline.network;
        prop_assert_eq!(is_inner, headers.outline.tunnel != Tunnel::None);
        if !is_inner {
            prop_assert_eq!((headers.key, headers.outline), (outer.key, outer.outline));
        }
    }
}
