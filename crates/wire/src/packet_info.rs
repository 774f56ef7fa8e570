//! The header details of a packet, besides its key, that an analysis of its flow needs.

pub(crate) mod options;

use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::packet_view::PacketView;
use crate::tcp::Tcp;
use crate::vlan::Vlan;
use crate::{Fragment, Headers, Malformed, Tunnel};

/// What is present in a packet: bits of [`PacketInfo::present`].
pub mod present {
    /// The IP header has an identification that distinguishes packets: IPv4, not zero.
    pub const IDENTIFICATION: u8 = 0x01;
    /// The packet is a fragment.
    pub const FRAGMENT: u8 = 0x02;
    /// TCP: a maximum segment size.
    pub const SEGMENT_SIZE: u8 = 0x04;
    /// TCP: a window scale.
    pub const WINDOW_SCALE: u8 = 0x08;
    /// TCP: selective acknowledgement is permitted.
    pub const SACK_PERMITTED: u8 = 0x10;
    /// TCP: timestamps.
    pub const TIMESTAMPS: u8 = 0x20;
    /// TCP: options that the snaplen cut off.
    pub const OPTIONS_CUT: u8 = 0x40;
    /// TCP: a first SACK block within the second, which reports a duplicate (RFC 2883).
    pub const SACK_WITHIN_SECOND: u8 = 0x80;
}

/// Details of one packet. What a packet does not have is zero.
///
/// The order lets the compiler write together the fields that are adjacent in a header, and those that
/// hardly any packet has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// TCP acknowledgement number.
    pub acknowledgement: u32,
    /// TCP sequence number.
    pub sequence: u32,
    /// Value of the TCP timestamp, and its echo.
    pub timestamps: [u32; 2],
    /// Left and right edge of the first SACK block (a duplicate's, RFC 2883, if there is one).
    pub sack: [u32; 2],
    /// Outer and inner VLAN tag, as in [`FlowKey`](crate::FlowKey).
    pub vlan: [u16; 2],
    /// As in [`Outline`](crate::Outline).
    pub mpls_label: u32,
    /// TCP maximum segment size option.
    pub segment_size: u16,
    /// TCP window scale option.
    pub window_scale: u8,
    /// SACK blocks.
    pub sack_blocks: u8,
    /// Bytes of payload on the wire.
    pub payload_length: u32,
    /// Bytes of payload captured.
    pub payload_captured: u32,
    /// Offset of the payload: in the frame, or in the batch's payload buffer.
    pub payload_at: u32,
    /// Destination port, 0 without TCP or UDP.
    pub destination_port: u16,
    /// Source port.
    pub source_port: u16,
    /// Number of the frame in its burst.
    pub frame: u16,
    /// IPv4 identification.
    pub identification: u16,
    /// TCP window, not scaled.
    pub window: u16,
    /// Time to live, or hop limit.
    pub time_to_live: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub type_of_service: u8,
    /// TCP control bits.
    pub tcp_flags: u8,
    /// Bits of [`present`].
    pub present: u8,
    /// Its encapsulation.
    pub tunnel: Tunnel,
    /// 6 with a complete TCP header, 17 with a complete UDP header, else 0.
    pub transport: u8,
}

impl PacketInfo {
    /// Adds the VLAN tag that [`Untagged`](crate::fast::Untagged) stripped before the details were read.
    #[inline]
    pub fn restore_vlan_tag(&mut self, tag: u16) {
        if tag != 0 {
            self.payload_at += Vlan::LENGTH as u32;
            self.vlan = [tag, 0];
        }
    }

    /// The details of a frame whose headers [`dissect`](crate::dissect()) has read.
    #[must_use]
    pub fn from_headers(frame: &[u8], headers: &Headers) -> Self {
        let outline = &headers.outline;
        let mut segment = Self {
            source_port: headers.key.source_port,
            destination_port: headers.key.destination_port,
            transport: outline.transport_protocol,
            tcp_flags: headers.tcp_flags,
            payload_at: outline.payload,
            payload_length: outline.payload_length,
            payload_captured: outline
                .payload_length
                .min((frame.len() as u32).saturating_sub(outline.payload)),
            tunnel: outline.tunnel,
            vlan: headers.key.vlan,
            mpls_label: outline.mpls_label,
            ..Self::default()
        };
        if matches!(headers.fragment, Fragment::First | Fragment::Later) {
            segment.present |= present::FRAGMENT;
        }
        segment.network(headers.key.version, &part(frame, outline.network));
        if outline.transport_protocol == ip_protocol::TCP {
            segment.tcp(frame, headers);
        }
        segment
    }

    pub(crate) fn network(&mut self, version: u8, packet: &PacketView<'_>) {
        if version == 4 {
            if let Ok((header, _)) = Ipv4::split(*packet) {
                self.time_to_live = header.time_to_live();
                self.type_of_service = header.type_of_service();
                self.identification = header.identification();
                self.present |= u8::from(self.identification != 0);
            }
        } else if let Ok((header, _)) = Ipv6::split(*packet) {
            self.time_to_live = header.hop_limit();
            self.type_of_service = header.traffic_class();
        }
    }

    fn tcp(&mut self, frame: &[u8], headers: &Headers) {
        let Ok((header, rest)) = Tcp::split(part(frame, headers.outline.transport)) else {
            return;
        };
        self.sequence = header.sequence();
        self.acknowledgement = header.acknowledgement();
        self.window = header.window();
        let length = header.header_length().saturating_sub(Tcp::LENGTH);
        let options = rest.bytes();
        let captured = length.min(options.len());
        // A header whose length exceeds its packet is malformed, not cut.
        let is_malformed = headers.malformed == Some(Malformed::TcpDataOffsetTooLong);
        let length = if is_malformed { captured } else { length };
        self.read_options(&options[..captured], length);
    }

    /// Whether all bits of `what` (see [`present`]) are present.
    #[inline]
    #[must_use]
    pub const fn has(&self, what: u8) -> bool {
        self.present & what == what
    }
}

/// The bytes of a frame from `at` on; how many there were on the wire does not matter here.
fn part(frame: &[u8], at: u32) -> PacketView<'_> {
    let bytes = frame.get(at as usize..).unwrap_or_default();
    PacketView::new(bytes, bytes.len())
}
