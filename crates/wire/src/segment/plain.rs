//! Details of frames that are read without a walk. Each field is written once, whatever stood there.

use super::options::{PADDED_TIMESTAMPS, padded_timestamps};
use super::{Segment, seen};
use crate::Tunnel;
use crate::field::{byte, bytes_at, u16_at, u32_at};
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::packet::Packet;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// Bytes of a plain frame's headers without TCP options; see [`plain_ipv4`](crate::plain_ipv4).
const PLAIN: usize = 54;

/// The same with an IPv6 header.
const PLAIN_V6: usize = 74;

/// Bytes of a TCP header without options: as many are read of UDP.
const TRANSPORT: usize = Tcp::LENGTH;

/// Offsets in a plain frame.
mod field {
    /// The IPv4 header.
    pub(super) const IPV4: usize = 14;
    pub(super) const TYPE_OF_SERVICE: usize = 15;
    pub(super) const TOTAL_LENGTH: usize = 16;
    pub(super) const IDENTIFICATION: usize = 18;
    pub(super) const TIME_TO_LIVE: usize = 22;
    pub(super) const PROTOCOL: usize = 23;
    pub(super) const TRANSPORT: usize = 34;
}

/// Offsets in a plain frame of IPv6.
mod field_v6 {
    pub(super) const TRAFFIC_CLASS: usize = 14;
    pub(super) const PAYLOAD_LENGTH: usize = 18;
    pub(super) const NEXT_HEADER: usize = 20;
    pub(super) const HOP_LIMIT: usize = 21;
    pub(super) const TRANSPORT: usize = 54;
}

/// Offsets in the transport header.
mod transport {
    /// Both ports.
    pub(super) const PORTS: usize = 0;
    pub(super) const UDP_LENGTH: usize = 4;
    /// Sequence and acknowledgement number.
    pub(super) const NUMBERS: usize = 4;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
}

/// What stands before the transport header of a plain frame, and where that begins.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    transport_at: usize,
    identification: u16,
    time_to_live: u8,
    type_of_service: u8,
}

impl Network {
    /// In IPv4.
    #[inline(always)]
    pub(crate) fn of_ipv4(headers: &[u8; PLAIN]) -> Self {
        Self {
            transport_at: field::TRANSPORT,
            identification: u16_at::<{ field::IDENTIFICATION }, _>(headers),
            time_to_live: byte::<{ field::TIME_TO_LIVE }, _>(headers),
            type_of_service: byte::<{ field::TYPE_OF_SERVICE }, _>(headers),
        }
    }

    /// In IPv6.
    #[inline(always)]
    fn of_ipv6(headers: &[u8; PLAIN_V6]) -> Self {
        let class_and_label = u16_at::<{ field_v6::TRAFFIC_CLASS }, _>(headers);
        Self {
            transport_at: field_v6::TRANSPORT,
            identification: 0,
            time_to_live: byte::<{ field_v6::HOP_LIMIT }, _>(headers),
            type_of_service: (class_and_label >> 4) as u8,
        }
    }
}

/// Where a payload begins, and how many bytes it has on the wire.
#[derive(Clone, Copy)]
pub(crate) struct Payload {
    pub(crate) at: u32,
    pub(crate) length: u32,
}

impl Segment {
    /// Takes the details of frame `number`, which [`plain_ipv4`](crate::plain_ipv4) knows.
    #[inline(always)]
    pub fn read_plain(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN>() else {
            return *self = Self::default();
        };
        let total = usize::from(u16_at::<{ field::TOTAL_LENGTH }, _>(headers));
        let transport = byte::<{ field::PROTOCOL }, _>(headers);
        let end = field::IPV4 + total;
        self.read_plain_transport(
            number,
            frame,
            Network::of_ipv4(headers),
            transport,
            last(headers),
            end,
        );
    }

    /// The same of a frame that [`plain_ipv6`](crate::plain::plain_ipv6) knows.
    #[inline]
    pub fn read_plain_ipv6(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN_V6>() else {
            return *self = Self::default();
        };
        let length = usize::from(u16_at::<{ field_v6::PAYLOAD_LENGTH }, _>(headers));
        let transport = byte::<{ field_v6::NEXT_HEADER }, _>(headers);
        let end = field_v6::TRANSPORT + length;
        self.read_plain_transport(
            number,
            frame,
            Network::of_ipv6(headers),
            transport,
            last(headers),
            end,
        );
    }

    /// The same of a frame that [`portless_ipv4`](crate::plain::portless_ipv4) knows.
    #[inline]
    pub fn read_portless(&mut self, number: u16, frame: &[u8], is_fragment: bool) {
        *self = Self::default();
        self.frame = number;
        let Some(header) = frame.get(field::IPV4..) else {
            return;
        };
        let packet = Packet::new(header, header.len());
        let payload = field::IPV4 + Ipv4::LENGTH;
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

    /// Takes the details of a plain frame whose IP packet ends at `end`.
    #[inline(always)]
    fn read_plain_transport(
        &mut self,
        number: u16,
        frame: &[u8],
        network: Network,
        transport: u8,
        header: &[u8; TRANSPORT],
        end: usize,
    ) {
        if transport == ip_protocol::TCP {
            let length = usize::from(byte::<{ transport::DATA_OFFSET }, _>(header) >> 4) * 4;
            let at = network.transport_at + length;
            let payload = Payload {
                at: at as u32,
                length: end.saturating_sub(at) as u32,
            };
            self.take_tcp(number, frame, network, header, length as u32, payload);
        } else {
            let length = u16_at::<{ transport::UDP_LENGTH }, _>(header);
            let payload = Payload {
                at: (network.transport_at + Udp::LENGTH) as u32,
                length: u32::from(length).saturating_sub(Udp::LENGTH as u32),
            };
            self.take_udp(number, network, header, payload);
        }
        self.cut(frame.len());
    }

    /// Takes the details of frame `number`, TCP whose header of so many bytes begins so.
    ///
    /// Field by field, as they are read: of all of them together there are more than a processor's
    /// registers hold.
    #[inline(always)]
    pub(crate) fn take_tcp(
        &mut self,
        number: u16,
        frame: &[u8],
        network: Network,
        header: &[u8; TRANSPORT],
        length: u32,
        payload: Payload,
    ) {
        self.take_network(network);
        self.take_payload(number, ip_protocol::TCP, header, payload);
        let numbers = u64::from_be_bytes(bytes_at::<{ transport::NUMBERS }, 8, _>(header));
        self.acknowledgement = numbers as u32;
        self.sequence = (numbers >> 32) as u32;
        self.window = u16_at::<{ transport::WINDOW }, _>(header);
        self.tcp_flags = byte::<{ transport::FLAGS }, _>(header);
        let options_at = network.transport_at + TRANSPORT;
        if length as usize == TRANSPORT + PADDED_TIMESTAMPS
            && let Some(timestamps) = frame.get(options_at..).and_then(padded_timestamps)
        {
            self.timestamps = timestamps;
            self.seen |= seen::TIMESTAMPS;
            return;
        }
        self.timestamps = [0; 2];
        if length as usize > TRANSPORT {
            let end = (payload.at as usize).min(frame.len());
            let options = frame.get(options_at..end).unwrap_or_default();
            self.read_options(options, length as usize - TRANSPORT);
        }
    }

    /// The same of UDP.
    #[inline(always)]
    pub(crate) fn take_udp(
        &mut self,
        number: u16,
        network: Network,
        header: &[u8; TRANSPORT],
        payload: Payload,
    ) {
        self.take_network(network);
        self.take_payload(number, ip_protocol::UDP, header, payload);
        self.acknowledgement = 0;
        self.sequence = 0;
        self.timestamps = [0; 2];
        self.window = 0;
        self.tcp_flags = 0;
    }

    /// Of the frame so many bytes were captured, which may not be all.
    #[inline(always)]
    pub(crate) fn cut(&mut self, captured: usize) {
        let payload = (captured as u32).saturating_sub(self.payload_at);
        self.payload_captured = payload.min(self.payload_length);
    }

    #[inline(always)]
    fn take_network(&mut self, network: Network) {
        self.seen = u8::from(network.identification != 0) * seen::IDENTIFICATION;
        self.identification = network.identification;
        self.time_to_live = network.time_to_live;
        self.type_of_service = network.type_of_service;
    }

    /// Takes ports and payload, as if it was captured whole, and empties what plain frames do not have.
    #[inline(always)]
    fn take_payload(
        &mut self,
        number: u16,
        transport: u8,
        header: &[u8; TRANSPORT],
        payload: Payload,
    ) {
        self.payload_length = payload.length;
        self.payload_captured = payload.length;
        self.payload_at = payload.at;
        let ports = u32_at::<{ transport::PORTS }, _>(header);
        self.destination_port = ports as u16;
        self.source_port = (ports >> 16) as u16;
        self.frame = number;
        self.sack = [0; 2];
        self.vlan = [0; 2];
        self.mpls_label = 0;
        self.segment_size = 0;
        self.window_scale = 0;
        self.sack_blocks = 0;
        self.tunnel = Tunnel::None;
        self.transport = transport;
    }
}

/// The transport header, which is the last of the headers.
#[inline(always)]
fn last<const HEADERS: usize>(headers: &[u8; HEADERS]) -> &[u8; TRANSPORT] {
    const { assert!(HEADERS >= TRANSPORT) };
    headers.last_chunk().unwrap_or(&[0; TRANSPORT])
}
