//! Every kind of fault, met in a frame made for it; and the same frame cut by the snaplen.

use wire::{
    Decapsulate, Headers, LinkType, MAX_ENCAPSULATIONS, MAX_EXTENSION_HEADERS, MAX_MPLS_LABELS,
    MAX_VLAN_TAGS, Malformed, NoFlow, dissect,
};

/// A frame under construction: layers are added around it or after it.
#[derive(Clone, Default)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

impl Frame {
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn ethernet(ether_type: u16) -> Self {
        Self(vec![2; 12]).bytes(&ether_type.to_be_bytes())
    }

    /// An IPv4 header that holds `payload` more bytes of `protocol`.
    pub(crate) fn ipv4(self, protocol: u8, payload: u16) -> Self {
        let length = (20 + payload).to_be_bytes();
        self.bytes(&[
            0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0,
        ])
        .bytes(&[10, 0, 0, 1, 10, 0, 0, 2])
    }

    pub(crate) fn ipv6(self, next: u8, payload: u16) -> Self {
        let length = payload.to_be_bytes();
        self.bytes(&[0x60, 0, 0, 0, length[0], length[1], next, 64])
            .bytes(&[1; 32])
    }

    fn udp(self, destination: u16, payload: u16) -> Self {
        self.bytes(&1024u16.to_be_bytes())
            .bytes(&destination.to_be_bytes())
            .bytes(&(8 + payload).to_be_bytes())
            .bytes(&[0, 0])
    }

    /// UDP to `destination` in IPv4 in Ethernet, with `payload`.
    pub(crate) fn tunnel(destination: u16, payload: &[u8]) -> Self {
        let length = u16::try_from(payload.len()).unwrap();
        Self::ethernet(0x0800)
            .ipv4(17, 8 + length)
            .udp(destination, length)
            .bytes(payload)
    }

    /// GRE in IPv4 in Ethernet.
    pub(crate) fn gre(gre: &[u8]) -> Self {
        Self::ethernet(0x0800)
            .ipv4(47, u16::try_from(gre.len()).unwrap())
            .bytes(gre)
    }

    pub(crate) fn with(mut self, at: usize, byte: u8) -> Self {
        self.0[at] = byte;
        self
    }
}

/// Offset of the IP header in an Ethernet frame.
const IP: usize = 14;

pub(crate) fn whole(frame: &Frame) -> Headers {
    let length = u32::try_from(frame.0.len()).unwrap();
    dissect(LinkType::Ethernet, &frame.0, length, Decapsulate::Innermost)
}

/// A frame for each fault, and whether it still has a key.
fn examples() -> Vec<(Malformed, bool, Frame)> {
    let tcp = |payload: u16| Frame::ethernet(0x0800).ipv4(6, payload);
    let many_options: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(17);
    let many_length = u16::try_from(many_options.len()).unwrap();
    let mut deep = Frame::ethernet(0x0800);
    for inner in (1..=u16::from(MAX_ENCAPSULATIONS) + 1).rev() {
        deep = deep.ipv4(4, 20 * inner);
    }
    let deep = deep.ipv4(59, 0);
    vec![
        (Malformed::LinkHeaderTruncated, false, Frame(vec![2; 13])),
        (
            Malformed::VlanTruncated,
            false,
            Frame::ethernet(0x8100).bytes(&[0, 1, 8]),
        ),
        (
            Malformed::VlanTooManyTags,
            false,
            Frame::ethernet(0x8100).bytes(&[0, 1, 0x81, 0].repeat(usize::from(MAX_VLAN_TAGS))),
        ),
        (
            Malformed::LlcLengthTooLong,
            false,
            Frame::ethernet(40).bytes(&[0x42, 0x42, 3, 0]),
        ),
        (
            Malformed::LlcTruncated,
            false,
            Frame::ethernet(2).bytes(&[0x42, 0x42]),
        ),
        (
            Malformed::MplsTruncated,
            false,
            Frame::ethernet(0x8847).bytes(&[0, 0, 0x10, 64, 0]),
        ),
        (
            Malformed::MplsTooManyLabels,
            false,
            Frame::ethernet(0x8847).bytes(&[0, 0, 0x10, 64].repeat(17)),
        ),
        (
            Malformed::PppoeTruncated,
            false,
            Frame::ethernet(0x8864).bytes(&[0x11, 0, 0, 1, 0]),
        ),
        (
            Malformed::PppoeBadVersion,
            false,
            Frame::ethernet(0x8864).bytes(&[0x21, 0, 0, 1, 0, 2, 0, 0x21]),
        ),
        (
            Malformed::PppoeLengthTooLong,
            true,
            Frame::ethernet(0x8864)
                .bytes(&[0x11, 0, 0, 1, 0, 60, 0, 0x21])
                .ipv4(59, 0),
        ),
        (
            Malformed::PppTruncated,
            false,
            Frame::ethernet(0x8864).bytes(&[0x11, 0, 0, 1, 0, 1, 0]),
        ),
        (
            Malformed::Ipv4Truncated,
            false,
            Frame::ethernet(0x0800).bytes(&[0x45; 19]),
        ),
        (Malformed::Ipv4BadVersion, false, tcp(0).with(IP, 0x65)),
        (
            Malformed::Ipv4HeaderLengthTooShort,
            false,
            tcp(0).with(IP, 0x44),
        ),
        (
            Malformed::Ipv4HeaderLengthTooLong,
            true,
            tcp(4).with(IP, 0x46).with(IP + 3, 0),
        ),
        (
            Malformed::Ipv4TotalLengthTooShort,
            true,
            tcp(0).with(IP + 3, 19).bytes(&[0x50; 20]),
        ),
        (
            Malformed::Ipv4TotalLengthTooLong,
            true,
            tcp(21).bytes(&[0x50; 20]),
        ),
        (
            Malformed::Ipv4FragmentTooFar,
            true,
            tcp(4).with(IP + 6, 0x1f).with(IP + 7, 0xff).bytes(&[0; 4]),
        ),
        (
            Malformed::AuthenticationTruncated,
            true,
            Frame::ethernet(0x0800)
                .ipv4(51, 20)
                .bytes(&[17, 4, 0, 0, 0, 0, 0, 1])
                .bytes(&[0; 12]),
        ),
        (
            Malformed::AuthenticationTooMany,
            true,
            Frame::ethernet(0x0800)
                .ipv4(51, 17 * 12)
                .bytes(&[51, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0].repeat(17)),
        ),
        (
            Malformed::Ipv6Truncated,
            false,
            Frame::ethernet(0x86dd).bytes(&[0x60; 39]),
        ),
        (
            Malformed::Ipv6BadVersion,
            false,
            Frame::ethernet(0x86dd).ipv6(59, 0).with(IP, 0x45),
        ),
        (
            Malformed::Ipv6PayloadLengthTooLong,
            true,
            Frame::ethernet(0x86dd).ipv6(59, 1),
        ),
        (
            Malformed::Ipv6ExtensionTruncated,
            true,
            Frame::ethernet(0x86dd)
                .ipv6(60, 8)
                .bytes(&[59, 1, 1, 4, 0, 0, 0, 0]),
        ),
        (
            Malformed::Ipv6HopByHopNotFirst,
            true,
            Frame::ethernet(0x86dd)
                .ipv6(60, 16)
                .bytes(&[0, 0, 1, 4, 0, 0, 0, 0])
                .bytes(&[59, 0, 1, 4, 0, 0, 0, 0]),
        ),
        (
            Malformed::Ipv6TooManyExtensions,
            true,
            Frame::ethernet(0x86dd)
                .ipv6(60, many_length)
                .bytes(&many_options),
        ),
        (
            Malformed::Ipv6FragmentTooFar,
            true,
            Frame::ethernet(0x86dd)
                .ipv6(44, 24)
                .bytes(&[17, 0, 0xff, 0xf8, 0, 0, 0, 1])
                .bytes(&[0; 16]),
        ),
        (Malformed::TcpTruncated, true, tcp(19).bytes(&[0x50; 19])),
        (
            Malformed::TcpDataOffsetTooShort,
            true,
            tcp(20).bytes(&[0x40; 20]),
        ),
        (
            Malformed::TcpDataOffsetTooLong,
            true,
            tcp(20).bytes(&[0x60; 20]),
        ),
        (
            Malformed::UdpTruncated,
            true,
            Frame::ethernet(0x0800).ipv4(17, 7).bytes(&[0; 7]),
        ),
        (
            Malformed::UdpLengthTooShort,
            true,
            Frame::ethernet(0x0800)
                .ipv4(17, 8)
                .bytes(&[0, 1, 0, 2, 0, 7, 0, 0]),
        ),
        (
            Malformed::UdpLengthTooLong,
            true,
            Frame::ethernet(0x0800)
                .ipv4(17, 8)
                .bytes(&[0, 1, 0, 2, 0, 9, 0, 0]),
        ),
        (
            Malformed::SctpTruncated,
            true,
            Frame::ethernet(0x0800).ipv4(132, 11).bytes(&[0; 11]),
        ),
        (
            Malformed::IcmpTruncated,
            true,
            Frame::ethernet(0x0800).ipv4(1, 3).bytes(&[8, 0, 0]),
        ),
        // A key is announced, and the packet ends after the protocol type.
        (
            Malformed::GreTruncated,
            true,
            Frame::gre(&[0x20, 0, 0x08, 0]),
        ),
        (Malformed::GreBadVersion, true, Frame::gre(&[0, 2, 0x08, 0])),
        (
            Malformed::GreTooManyRoutes,
            true,
            Frame::gre(&[&[0x40, 0, 8, 0, 0, 0, 0, 0][..], &[8, 0, 0, 0].repeat(17)].concat()),
        ),
        (
            Malformed::ErspanTruncated,
            true,
            Frame::gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0]),
        ),
        (
            Malformed::VxlanTruncated,
            true,
            Frame::tunnel(4789, &[8, 0, 0, 0, 0, 0, 1]),
        ),
        (
            Malformed::GeneveTruncated,
            true,
            Frame::tunnel(6081, &[1, 0, 8, 0, 0, 0, 1, 0]),
        ),
        (
            Malformed::GtpUTruncated,
            true,
            Frame::tunnel(2152, &[0x32, 0xff, 0, 2, 0, 0, 0, 1, 0, 0]),
        ),
        (
            Malformed::GtpUExtensionEmpty,
            true,
            Frame::tunnel(
                2152,
                &[0x34, 0xff, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 0, 0],
            ),
        ),
        (
            Malformed::GtpUTooManyExtensions,
            true,
            Frame::tunnel(
                2152,
                &[
                    &[0x34, 0xff, 0, 72, 0, 0, 0, 1, 0, 0, 0, 0x85][..],
                    &[1, 0, 0, 0x85].repeat(17),
                ]
                .concat(),
            ),
        ),
        (
            Malformed::TeredoTruncated,
            true,
            Frame::tunnel(3544, &[0, 1, 0, 0, 1]),
        ),
        (
            Malformed::InnerEthernetTruncated,
            true,
            Frame::tunnel(4789, &[8, 0, 0, 0, 0, 0, 1, 0, 2, 2, 2, 2]),
        ),
        (Malformed::EncapsulationTooDeep, true, deep),
    ]
}

#[test]
fn each_fault_is_reported_by_its_kind() {
    for (kind, has_key, frame) in examples() {
        let headers = whole(&frame);
        assert_eq!(headers.malformed, Some(kind), "{}", kind.name());
        assert_eq!(headers.no_flow.is_none(), has_key, "{}", kind.name());
        assert!(!headers.truncated, "{}", kind.name());
    }
}

/// The one fault that Ethernet cannot have: it announces the version of IP.
#[test]
fn raw_ip_must_have_a_version() {
    for frame in [&[][..], &[0x50; 40]] {
        let length = u32::try_from(frame.len()).unwrap();
        let headers = dissect(LinkType::Raw, frame, length, Decapsulate::No);
        assert_eq!(headers.malformed, Some(Malformed::IpVersionUnknown));
        assert_eq!(headers.no_flow, Some(NoFlow::Malformed));
    }
}

#[test]
fn there_is_an_example_of_every_fault() {
    for kind in Malformed::ALL {
        let is_raw = *kind == Malformed::IpVersionUnknown;
        assert!(
            is_raw || examples().iter().any(|(example, ..)| example == kind),
            "{kind:?}"
        );
    }
}

/// Headers beyond the snaplen are not malformed. If the key is among them, the packet counts as
/// truncated.
#[test]
fn a_header_cut_by_the_snaplen_is_truncated_and_not_malformed() {
    let starts = [
        Frame(vec![2; 13]),
        Frame::ethernet(0x8100).bytes(&[0, 1, 8]),
        Frame::ethernet(0x8847).bytes(&[0, 0, 0x10]),
        Frame::ethernet(0x8864).bytes(&[0x11, 0, 0]),
        Frame::ethernet(100).bytes(&[0xaa, 0xaa, 3, 0, 0]),
        Frame::ethernet(0x0800).bytes(&[0x45; 19]),
        Frame::ethernet(0x86dd).bytes(&[0x60; 39]),
    ];
    for frame in starts {
        let headers = dissect(LinkType::Ethernet, &frame.0, 1500, Decapsulate::Link);
        assert_eq!(headers.no_flow, Some(NoFlow::Truncated), "{:x?}", frame.0);
        assert_eq!(headers.malformed, None);
    }
}

/// Ports that were captured count, even if the rest of the header was not.
#[test]
fn ports_of_a_cut_header_are_read_where_they_were_captured() {
    for protocol in [6, 17, 132] {
        let frame = Frame::ethernet(0x0800)
            .ipv4(protocol, 100)
            .bytes(&[0x12, 0x34, 0x56, 0x78, 0, 0]);
        for (captured, ports) in [(6, (0x1234, 0x5678)), (4, (0x1234, 0x5678)), (3, (0, 0))] {
            let headers = dissect(
                LinkType::Ethernet,
                &frame.0[..IP + 20 + captured],
                134,
                Decapsulate::No,
            );
            assert_eq!(
                (headers.key.source_port, headers.key.destination_port),
                ports
            );
            assert!(headers.truncated);
            assert_eq!((headers.no_flow, headers.malformed), (None, None));
        }
    }
}

/// The first byte of an extension header has the type of the next header, and is enough if the rest was
/// not captured.
#[test]
fn what_follows_a_cut_extension_header_is_read_where_it_was_captured() {
    let chain = Frame::ethernet(0x86dd)
        .ipv6(0, 36)
        .bytes(&[60, 0, 1, 4, 0, 0, 0, 0])
        .bytes(&[6, 0, 1, 4, 0, 0, 0, 0])
        .bytes(&[0, 80, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12])
        .bytes(&[0; 6]);
    // The second part of a datagram, authentication, and ICMPv6.
    let fragment = Frame::ethernet(0x86dd)
        .ipv6(44, 36)
        .bytes(&[17, 0, 0, 8, 0, 0, 0, 1])
        .bytes(&[0; 28]);
    let authentication = Frame::ethernet(0x86dd)
        .ipv6(51, 36)
        .bytes(&[58, 4, 0, 0, 0, 0, 0, 1])
        .bytes(&[0; 16])
        .bytes(&[128; 12]);
    for (frame, own, last, between) in [
        (chain, 0, 6, Some(60)),
        (fragment, 44, 17, None),
        (authentication, 51, 58, None),
    ] {
        let length = u32::try_from(frame.0.len()).unwrap();
        for captured in 0..=36 {
            let cut = &frame.0[..IP + 40 + captured];
            let headers = dissect(LinkType::Ethernet, cut, length, Decapsulate::No);
            let expected = match (captured, between) {
                (0, _) => own,
                (1..=8, Some(between)) => between,
                _ => last,
            };
            assert_eq!(headers.key.protocol, expected, "{own}: {captured}");
            assert_eq!((headers.no_flow, headers.malformed), (None, None));
            if captured < 8 {
                assert!(headers.truncated, "{own}: {captured}");
            }
        }
    }
}

/// A total length of 0 is what a sender writes that leaves segmentation to its device.
#[test]
fn an_ipv4_total_length_of_zero_is_no_fault() {
    let frame = Frame::ethernet(0x0800)
        .ipv4(6, 0)
        .bytes(&[0, 80, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12])
        .bytes(&[0; 6000])
        .with(IP + 3, 0);
    let headers = whole(&frame);
    assert_eq!((headers.no_flow, headers.malformed), (None, None));
    assert_eq!(
        (headers.key.source_port, headers.key.destination_port),
        (80, 8080)
    );
    assert_eq!(headers.tcp_flags, 0x12);
}

/// The first fault is reported, and the key is that of the last valid header.
#[test]
fn damage_inside_a_tunnel_leaves_the_outer_key() {
    let inner = Frame::default().ipv4(17, 0).with(0, 0x43);
    let mut gre = vec![0, 0, 0x08, 0];
    gre.extend_from_slice(&inner.0);
    let headers = whole(&Frame::gre(&gre));
    assert_eq!(headers.no_flow, None);
    assert_eq!(headers.key.protocol, 47);
    assert_eq!(headers.malformed, Some(Malformed::Ipv4HeaderLengthTooShort));
}

/// The deepest nesting that is followed, and one more.
#[test]
fn encapsulations_are_followed_up_to_the_limit() {
    let nest = |inner: u16| {
        let mut frame = Frame::ethernet(0x0800);
        for left in (1..=inner).rev() {
            frame = frame.ipv4(4, 20 * left);
        }
        whole(&frame.ipv4(50, 0))
    };
    let deepest = nest(u16::from(MAX_ENCAPSULATIONS));
    assert_eq!((deepest.malformed, deepest.key.protocol), (None, 50));
    let deeper = nest(u16::from(MAX_ENCAPSULATIONS) + 1);
    assert_eq!(deeper.malformed, Some(Malformed::EncapsulationTooDeep));
    assert_eq!(deeper.key.protocol, 4);
}

/// As many VLAN tags, labels and extension headers as are followed, and one more.
#[test]
fn headers_are_followed_up_to_the_limit() {
    let limits = [MAX_VLAN_TAGS, MAX_MPLS_LABELS, MAX_EXTENSION_HEADERS];
    for (kind, limit) in limits.into_iter().enumerate() {
        for (count, is_followed) in [(limit, true), (limit + 1, false)] {
            let more = usize::from(count) - 1;
            let frame = match kind {
                0 => Frame::ethernet(0x8100)
                    .bytes(&[0, 1, 0x81, 0].repeat(more))
                    .bytes(&[0, 1, 8, 0]),
                1 => Frame::ethernet(0x8847)
                    .bytes(&[0, 0, 0x10, 64].repeat(more))
                    .bytes(&[0, 0, 0x11, 64]),
                _ => Frame::ethernet(0x0800)
                    .ipv4(51, 12 * u16::from(count))
                    .bytes(&[51, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0].repeat(more))
                    .bytes(&[50, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
            };
            let frame = if kind < 2 { frame.ipv4(50, 0) } else { frame };
            let headers = whole(&frame);
            assert_eq!(headers.malformed.is_none(), is_followed, "{kind} {count}");
            assert_eq!(headers.key.protocol == 50, is_followed, "{kind} {count}");
        }
    }
}
