//! What the headers of a packet say besides its key: what an analysis of its flow asks for.

use crate::field::{byte, u16_at, u32_at};
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::packet::Packet;
use crate::tcp::{Tcp, TcpOptions};
use crate::udp::Udp;
use crate::vlan::Vlan;
use crate::{Fragment, Headers, Malformed, Tunnel};

/// What was seen in a packet: bits of [`Segment::seen`].
pub mod seen {
    /// The IP header has an identification that tells packets apart: IPv4, not zero.
    pub const IDENTIFICATION: u8 = 0x01;
    /// The packet is a fragment.
    pub const FRAGMENT: u8 = 0x02;
    /// TCP: a maximum segment size.
    pub const SEGMENT_SIZE: u8 = 0x04;
    /// TCP: a window scale.
    pub const WINDOW_SCALE: u8 = 0x08;
    /// TCP: selective acknowledgement is permitted.
    pub const SACK_PERMITTED: u8 = 0x10;
    /// TCP: time stamps.
    pub const TIMESTAMPS: u8 = 0x20;
    /// TCP: options that the snap length cut off.
    pub const OPTIONS_CUT: u8 = 0x40;
    /// TCP: a first SACK block within the second, which reports a duplicate (RFC 2883).
    pub const SACK_WITHIN_SECOND: u8 = 0x80;
}

/// Details of one packet. What a packet does not have is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// TCP sequence number.
    pub sequence: u32,
    /// TCP acknowledgement number.
    pub acknowledgement: u32,
    /// Value of the TCP time stamp, and its echo.
    pub timestamps: [u32; 2],
    /// Left and right edge of the first SACK block (a duplicate's, RFC 2883, if there is one).
    pub sack: [u32; 2],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
    /// Bytes of payload captured.
    pub payload_captured: u32,
    /// Where the payload begins: in the frame, or wherever whoever keeps it has put it.
    pub payload_at: u32,
    /// Number of the frame in its burst.
    pub frame: u16,
    /// Source port, 0 without TCP or UDP.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// TCP window, not scaled.
    pub window: u16,
    /// IPv4 identification.
    pub identification: u16,
    /// TCP maximum segment size option.
    pub segment_size: u16,
    /// 6 where there is a whole TCP header, 17 for UDP, else 0.
    pub transport: u8,
    /// TCP control bits.
    pub tcp_flags: u8,
    /// Time to live, or hop limit.
    pub time_to_live: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub type_of_service: u8,
    /// TCP window scale option.
    pub window_scale: u8,
    /// SACK blocks.
    pub sack_blocks: u8,
    /// Bits of [`seen`].
    pub seen: u8,
    /// What it was wrapped in.
    pub tunnel: Tunnel,
    /// Outer and inner VLAN tag, as in [`FlowKey`](crate::FlowKey).
    pub vlan: [u16; 2],
    /// As in [`Outline`](crate::Outline).
    pub mpls_label: u32,
}

/// Bytes of a plain frame's headers without TCP options; see [`plain_ipv4`](crate::plain_ipv4).
const PLAIN: usize = 54;

/// The same with an IPv6 header.
const PLAIN_V6: usize = 74;

/// Bytes of a TCP header without options: as many are read of UDP.
const TRANSPORT: usize = Tcp::LENGTH;

/// Offsets in a plain frame.
mod plain {
    /// The IPv4 header.
    pub(super) const IPV4: usize = 14;
    pub(super) const TYPE_OF_SERVICE: usize = 15;
    pub(super) const TOTAL_LENGTH: usize = 16;
    pub(super) const IDENTIFICATION: usize = 18;
    pub(super) const TIME_TO_LIVE: usize = 22;
    pub(super) const PROTOCOL: usize = 23;
}

/// Offsets in a plain frame of IPv6.
mod plain_v6 {
    pub(super) const TRAFFIC_CLASS: usize = 14;
    pub(super) const PAYLOAD_LENGTH: usize = 18;
    pub(super) const NEXT_HEADER: usize = 20;
    pub(super) const HOP_LIMIT: usize = 21;
}

/// Offsets in the transport header.
mod transport {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const UDP_LENGTH: usize = 4;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ACKNOWLEDGEMENT: usize = 8;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
}

/// Bytes of the time stamp option with the padding that nearly every sender puts before it.
const PADDED_TIMESTAMPS: usize = 12;
/// The first four of those bytes: two no-operations, kind and length.
const TIMESTAMPS_START: [u8; 4] = [1, 1, 8, 10];

/// Kinds of TCP options (IANA).
mod kind {
    pub(super) const SEGMENT_SIZE: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

impl Segment {
    /// Takes in the details of a frame that [`plain_ipv4`](crate::plain_ipv4) knows, where all but
    /// the frame's number is zero.
    #[inline(always)]
    pub fn read_plain(&mut self, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN>() else {
            return;
        };
        let identification = u16_at::<{ plain::IDENTIFICATION }, _>(headers);
        let transport = byte::<{ plain::PROTOCOL }, _>(headers);
        self.identification = identification;
        self.time_to_live = byte::<{ plain::TIME_TO_LIVE }, _>(headers);
        self.type_of_service = byte::<{ plain::TYPE_OF_SERVICE }, _>(headers);
        self.seen = u8::from(identification != 0);
        let end = 14 + usize::from(u16_at::<{ plain::TOTAL_LENGTH }, _>(headers));
        self.read_plain_transport::<PLAIN>(frame, transport, last(headers), end);
    }

    /// The same of a frame that [`portless_ipv4`](crate::plain::portless_ipv4) knows.
    #[inline]
    pub fn read_portless(&mut self, frame: &[u8], is_fragment: bool) {
        let Some(header) = frame.get(plain::IPV4..) else {
            return;
        };
        let packet = Packet::new(header, header.len());
        let payload = plain::IPV4 + Ipv4::LENGTH;
        if let Ok((header, _)) = Ipv4::split(packet) {
            let length = header.total_length().saturating_sub(Ipv4::LENGTH);
            self.payload_at = payload as u32;
            self.payload_length = length as u32;
            self.payload_captured = length.min(frame.len() - payload) as u32;
        }
        self.network(4, &packet);
        if is_fragment {
            self.seen |= seen::FRAGMENT;
        }
    }

    /// The same of a frame that [`plain_ipv6`](crate::plain::plain_ipv6) knows.
    #[inline]
    pub fn read_plain_ipv6(&mut self, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN_V6>() else {
            return;
        };
        let transport = byte::<{ plain_v6::NEXT_HEADER }, _>(headers);
        self.time_to_live = byte::<{ plain_v6::HOP_LIMIT }, _>(headers);
        let class_and_label = u16_at::<{ plain_v6::TRAFFIC_CLASS }, _>(headers);
        self.type_of_service = (class_and_label >> 4) as u8;
        let length = usize::from(u16_at::<{ plain_v6::PAYLOAD_LENGTH }, _>(headers));
        let end = PLAIN_V6 - TRANSPORT + length;
        self.read_plain_transport::<PLAIN_V6>(frame, transport, last(headers), end);
    }

    /// The transport header and where the payload is, of a frame with so many bytes of `HEADERS`
    /// without TCP options, whose IP packet ends at `end`.
    #[inline(always)]
    fn read_plain_transport<const HEADERS: usize>(
        &mut self,
        frame: &[u8],
        transport: u8,
        header: &[u8; TRANSPORT],
        end: usize,
    ) {
        let start = HEADERS - TRANSPORT;
        self.transport = transport;
        self.source_port = u16_at::<{ transport::SOURCE_PORT }, _>(header);
        self.destination_port = u16_at::<{ transport::DESTINATION_PORT }, _>(header);
        let (payload, end) = if transport == ip_protocol::TCP {
            self.sequence = u32_at::<{ transport::SEQUENCE }, _>(header);
            self.acknowledgement = u32_at::<{ transport::ACKNOWLEDGEMENT }, _>(header);
            self.tcp_flags = byte::<{ transport::FLAGS }, _>(header);
            self.window = u16_at::<{ transport::WINDOW }, _>(header);
            let length = usize::from(byte::<{ transport::DATA_OFFSET }, _>(header) >> 4) * 4;
            let payload = start + length;
            if payload > HEADERS {
                self.options(
                    &frame[HEADERS..payload.min(frame.len())],
                    length - TRANSPORT,
                );
            }
            (payload, end)
        } else {
            let length = usize::from(u16_at::<{ transport::UDP_LENGTH }, _>(header));
            (start + Udp::LENGTH, start + length)
        };
        self.payload_at = payload as u32;
        self.payload_length = end.saturating_sub(payload) as u32;
        self.payload_captured = end.min(frame.len()).saturating_sub(payload) as u32;
    }

    /// Notes the VLAN tag that [`Untagged`](crate::plain::Untagged) took off the frame that was read.
    #[inline]
    pub fn put_tag_back(&mut self, tag: u16) {
        if tag != 0 {
            self.payload_at += Vlan::LENGTH as u32;
            self.vlan = [tag, 0];
        }
    }

    /// The details of a frame whose headers [`dissect`](crate::dissect()) has read.
    #[must_use]
    pub fn of_headers(frame: &[u8], headers: &Headers) -> Self {
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
            segment.seen |= seen::FRAGMENT;
        }
        segment.network(headers.key.version, &part(frame, outline.network));
        if outline.transport_protocol == ip_protocol::TCP {
            segment.tcp(frame, headers);
        }
        segment
    }

    fn network(&mut self, version: u8, packet: &Packet<'_>) {
        if version == 4 {
            if let Ok((header, _)) = Ipv4::split(*packet) {
                self.time_to_live = header.time_to_live();
                self.type_of_service = header.type_of_service();
                self.identification = header.identification();
                self.seen |= u8::from(self.identification != 0);
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
        // A header that says to be longer than its packet is malformed, not cut.
        let is_lie = headers.malformed == Some(Malformed::TcpDataOffsetTooLong);
        self.options(&options[..captured], if is_lie { captured } else { length });
    }

    /// Reads TCP options, which were so many bytes on the wire.
    #[inline(always)]
    fn options(&mut self, options: &[u8], length: usize) {
        if let Some(padded) = options.first_chunk::<PADDED_TIMESTAMPS>()
            && options.len() == PADDED_TIMESTAMPS
            && padded[..4] == TIMESTAMPS_START
        {
            self.timestamps = [u32_at::<4, _>(padded), u32_at::<8, _>(padded)];
            self.seen |= seen::TIMESTAMPS;
        } else {
            if options.len() < length {
                self.seen |= seen::OPTIONS_CUT;
            }
            let told = Told::read(options);
            self.timestamps = told.timestamps;
            self.sack = told.sack;
            self.sack_blocks = told.sack_blocks;
            self.segment_size = told.segment_size;
            self.window_scale = told.window_scale;
            self.seen |= told.seen;
        }
    }

    /// Whether all bits of `what` (see [`seen`]) were seen.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, what: u8) -> bool {
        self.seen & what == what
    }
}

/// What TCP options tell: apart from the segment, which so need not be in memory meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    timestamps: [u32; 2],
    sack: [u32; 2],
    segment_size: u16,
    window_scale: u8,
    sack_blocks: u8,
    seen: u8,
}

impl Told {
    #[inline(never)]
    fn read(options: &[u8]) -> Self {
        let mut told = Self::default();
        for option in TcpOptions::new(options) {
            match (option.kind, option.data) {
                (kind::SEGMENT_SIZE, &[high, low]) => {
                    told.segment_size = u16::from_be_bytes([high, low]);
                    told.seen |= seen::SEGMENT_SIZE;
                }
                (kind::WINDOW_SCALE, &[shift]) => {
                    told.window_scale = shift;
                    told.seen |= seen::WINDOW_SCALE;
                }
                (kind::SACK_PERMITTED, []) => told.seen |= seen::SACK_PERMITTED,
                (kind::SACK, blocks) => {
                    if let Some(block) = blocks.first_chunk::<8>() {
                        told.sack = [u32_at::<0, _>(block), u32_at::<4, _>(block)];
                        told.sack_blocks = (blocks.len() / 8) as u8;
                        if is_within_second(told.sack, blocks) {
                            told.seen |= seen::SACK_WITHIN_SECOND;
                        }
                    }
                }
                (kind::TIMESTAMPS, data) => {
                    if let Ok(pair) = <&[u8; 8]>::try_from(data) {
                        told.timestamps = [u32_at::<0, _>(pair), u32_at::<4, _>(pair)];
                        told.seen |= seen::TIMESTAMPS;
                    }
                }
                _ => {}
            }
        }
        told
    }
}

/// Whether the first of these SACK blocks lies within the second.
fn is_within_second([left, right]: [u32; 2], blocks: &[u8]) -> bool {
    let second = blocks.get(8..).and_then(|rest| rest.first_chunk::<8>());
    second.is_some_and(|second| {
        let from = u32_at::<0, _>(second);
        let length = u32_at::<4, _>(second).wrapping_sub(from);
        left.wrapping_sub(from) <= length && right.wrapping_sub(from) <= length
    })
}

/// The bytes of a frame from `at` on; how many there were on the wire does not matter here.
fn part(frame: &[u8], at: u32) -> Packet<'_> {
    let bytes = frame.get(at as usize..).unwrap_or_default();
    Packet::new(bytes, bytes.len())
}

/// The transport header, which is the last of the headers.
#[inline(always)]
fn last<const HEADERS: usize>(headers: &[u8; HEADERS]) -> &[u8; TRANSPORT] {
    const { assert!(HEADERS >= TRANSPORT) };
    headers.last_chunk().unwrap_or(&[0; TRANSPORT])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option with these SACK blocks.
    fn sack(blocks: &[[u32; 2]]) -> Vec<u8> {
        let mut option = vec![kind::SACK, 2 + 8 * blocks.len() as u8];
        option.extend(blocks.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
        option
    }

    #[test]
    fn a_first_sack_block_within_the_second_is_seen() {
        let within = |blocks: &[[u32; 2]]| {
            let told = Told::read(&sack(blocks));
            assert_eq!(
                (told.sack, usize::from(told.sack_blocks)),
                (blocks[0], blocks.len())
            );
            told.seen & seen::SACK_WITHIN_SECOND != 0
        };
        assert!(within(&[[200, 300], [100, 400]]));
        assert!(within(&[[100, 400], [100, 400]]));
        // Sequence numbers wrap.
        assert!(within(&[[u32::MAX - 5, 3], [u32::MAX - 9, 9], [20, 30]]));
        assert!(!within(&[[200, 300]]));
        assert!(!within(&[[500, 600], [100, 400], [400, 700]]));
        assert!(!within(&[[50, 300], [100, 400]]));
        assert!(!within(&[[200, 500], [100, 400]]));
    }
}
