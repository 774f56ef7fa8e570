//! Packet details of simple frames. Each field is written exactly once, whatever it held before.

use super::options::{PADDED_TIMESTAMPS, padded_timestamps};
use super::{PacketInfo, present};
use crate::Tunnel;
use crate::field::{byte, bytes_at, u16_at, u32_at};
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::packet_view::PacketView;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// Header bytes of a simple frame without TCP options; see [`simple_ipv4`](crate::simple_ipv4).
const PLAIN: usize = 54;

/// With an IPv6 header.
const PLAIN_V6: usize = 74;

/// Bytes of a TCP header without options; of UDP the same number is read.
const TRANSPORT: usize = Tcp::LENGTH;

/// Offsets in a simple IPv4 frame.
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

/// Offsets in a simple IPv6 frame.
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

/// The IP header fields of a simple frame, and the offset of its transport header.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    transport_at: usize,
    identification: u16,
    time_to_live: u8,
    type_of_service: u8,
}

impl Network {
    /// Reads them from IPv4.
    #[inline(always)]
    pub(crate) fn of_ipv4(headers: &[u8; PLAIN]) -> Self {
        Self {
            transport_at: field::TRANSPORT,
            identification: u16_at::<{ field::IDENTIFICATION }, _>(headers),
            time_to_live: byte::<{ field::TIME_TO_LIVE }, _>(headers),
            type_of_service: byte::<{ field::TYPE_OF_SERVICE }, _>(headers),
        }
    }

    /// Reads them from IPv6.
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

/// Offset of a payload, and its length on the wire.
#[derive(Clone, Copy)]
pub(crate) struct Payload {
    pub(crate) at: u32,
    pub(crate) length: u32,
}

impl PacketInfo {
    /// Reads the details of frame `number`, which [`simple_ipv4`](crate::simple_ipv4) accepted.
    #[inline(always)]
    pub fn read_simple_ipv4(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN>() else {
            return *self = Self::default();
        };
        let total = usize::from(u16_at::<{ field::TOTAL_LENGTH }, _>(headers));
        let transport = byte::<{ field::PROTOCOL }, _>(headers);
        let end = field::IPV4 + total;
        self.read_transport(
            number,
            frame,
            Network::of_ipv4(headers),
            transport,
            last_bytes(headers),
            end,
        );
    }

    /// The same of a frame that [`simple_ipv6`](crate::fast::simple_ipv6) knows.
    #[inline]
    pub fn read_simple_ipv6(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<PLAIN_V6>() else {
            return *self = Self::default();
        };
        let length = usize::from(u16_at::<{ field_v6::PAYLOAD_LENGTH }, _>(headers));
        let transport = byte::<{ field_v6::NEXT_HEADER }, _>(headers);
        let end = field_v6::TRANSPORT + length;
        self.read_transport(
            number,
            frame,
            Network::of_ipv6(headers),
            transport,
            last_bytes(headers),
            end,
        );
    }

    /// The same of a frame that [`portless_ipv4`](crate::fast::portless_ipv4) knows.
    #[inline]
    pub fn read_portless_ipv4(&mut self, number: u16, frame: &[u8], is_fragment: bool) {
        *self = Self::default();
        self.frame = number;
        let Some(header) = frame.get(field::IPV4..) else {
            return;
        };
        let packet = PacketView::new(header, header.len());
        let payload = field::IPV4 + Ipv4::LENGTH;
        if let Ok((header, _)) = Ipv4::split(packet) {
            let length = header.total_length().saturating_sub(Ipv4::LENGTH);
            self.payload_at = payload as u32;
            self.payload_length = length as u32;
            self.payload_captured = length.min(frame.len() - payload) as u32;
        }
        self.network(4, &packet);
        if is_fragment {
            self.present |= present::FRAGMENT;
        }
    }

    /// Reads the transport header of a simple frame whose IP packet ends at `end`.
    #[inline(always)]
    fn read_transport(
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
            self.set_tcp(number, frame, network, header, length as u32, payload);
        } else {
            let length = u16_at::<{ transport::UDP_LENGTH }, _>(header);
            let payload = Payload {
                at: (network.transport_at + Udp::LENGTH) as u32,
                length: u32::from(length).saturating_sub(Udp::LENGTH as u32),
            };
            self.set_udp(number, network, header, payload);
        }
        self.limit_captured(frame.len());
    }

    /// Sets the details of frame `number`, TCP with a header of `length` bytes that begins with `header`.
    ///
    /// Written field by field as they are read: together they need more registers than there are.
    #[inline(always)]
    pub(crate) fn set_tcp(
        &mut self,
        number: u16,
        frame: &[u8],
        network: Network,
        header: &[u8; TRANSPORT],
        length: u32,
        payload: Payload,
    ) {
        self.set_network(network);
        self.set_payload(number, ip_protocol::TCP, header, payload);
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
            self.present |= present::TIMESTAMPS;
            return;
        }
        self.timestamps = [0; 2];
        if length as usize > TRANSPORT {
            let end = (payload.at as usize).min(frame.len());
            let options = frame.get(options_at..end).unwrap_or_default();
            self.read_options(options, length as usize - TRANSPORT);
        }
    }

    /// The same for UDP.
    #[inline(always)]
    pub(crate) fn set_udp(
        &mut self,
        number: u16,
        network: Network,
        header: &[u8; TRANSPORT],
        payload: Payload,
    ) {
        self.set_network(network);
        self.set_payload(number, ip_protocol::UDP, header, payload);
        self.acknowledgement = 0;
        self.sequence = 0;
        self.timestamps = [0; 2];
        self.window = 0;
        self.tcp_flags = 0;
    }

    /// Limits the payload to the captured bytes of the frame.
    #[inline(always)]
    pub(crate) fn limit_captured(&mut self, captured: usize) {
        let payload = (captured as u32).saturating_sub(self.payload_at);
        self.payload_captured = payload.min(self.payload_length);
    }

    #[inline(always)]
    fn set_network(&mut self, network: Network) {
        self.present = u8::from(network.identification != 0) * present::IDENTIFICATION;
        self.identification = network.identification;
        self.time_to_live = network.time_to_live;
        self.type_of_service = network.type_of_service;
    }

    /// Sets ports and payload as if fully captured, and clears what simple frames do not have.
    #[inline(always)]
    fn set_payload(
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

/// The transport header: the last bytes of the headers.
#[inline(always)]
fn last_bytes<const HEADERS: usize>(headers: &[u8; HEADERS]) -> &[u8; TRANSPORT] {
    const { assert!(HEADERS >= TRANSPORT) };
    headers.last_chunk().unwrap_or(&[0; TRANSPORT])
}
