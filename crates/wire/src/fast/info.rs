//! Fills [`PacketInfo`] for frames that a parser of the fast path accepted. Each field is written exactly
//! once, whatever it was before.

use super::chunk::CHUNK;
use super::offset::{self, transport};
use super::{ipv4, ipv6, rule};
use crate::field::{byte, bytes_at, u16_at, u32_at};
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::packet_info::options::{PADDED_TIMESTAMPS, padded_timestamps};
use crate::packet_info::present;
use crate::packet_view::PacketView;
use crate::udp::Udp;
use crate::{PacketInfo, Tunnel};
use hw::headers::{RawFrame, headers_of};

const TRANSPORT: usize = rule::TRANSPORT_LENGTH;

/// The IP header fields of a simple frame, and the offset of its transport header.
#[derive(Clone, Copy)]
struct Network {
    transport_at: usize,
    identification: u16,
    time_to_live: u8,
    type_of_service: u8,
}

impl Network {
    /// Reads them from IPv4.
    #[inline]
    fn of_ipv4(headers: &[u8; ipv4::HEADERS]) -> Self {
        Self {
            transport_at: offset::ipv4::TRANSPORT,
            identification: u16_at::<{ offset::ipv4::IDENTIFICATION }, _>(headers),
            time_to_live: byte::<{ offset::ipv4::TIME_TO_LIVE }, _>(headers),
            type_of_service: byte::<{ offset::ipv4::TYPE_OF_SERVICE }, _>(headers),
        }
    }

    /// Reads them from IPv6.
    #[inline]
    fn of_ipv6(headers: &[u8; ipv6::HEADERS]) -> Self {
        let class_and_label = u16_at::<{ offset::ipv6::VERSION_AND_CLASS }, _>(headers);
        Self {
            transport_at: offset::ipv6::TRANSPORT,
            identification: 0,
            time_to_live: byte::<{ offset::ipv6::HOP_LIMIT }, _>(headers),
            type_of_service: (class_and_label >> 4) as u8,
        }
    }
}

/// Offset of a payload, and its length on the wire.
#[derive(Clone, Copy)]
struct Payload {
    at: u32,
    length: u32,
}

/// Reads the details of those of `frames` that are simple IPv4 frames, by a mask (bit 0 is the first) that
/// [`ChunkParser::parse`](crate::fast::ChunkParser::parse) returned. `first` is the number of frame 0 in its burst.
///
/// TCP before UDP, although they alternate in `frames`: a branch on the protocol of each frame would often
/// be mispredicted.
pub fn read_simple_chunk<F: RawFrame>(
    frames: &[F],
    simple: u64,
    first: u16,
    infos: &mut [PacketInfo],
) {
    let mut tcp = 0;
    for (at, frame) in frames.iter().enumerate().take(CHUNK) {
        let protocol = byte::<{ offset::ipv4::PROTOCOL }, _>(headers_of(frame));
        tcp |= u64::from(protocol == ip_protocol::TCP) << at;
    }
    read_masked::<{ ip_protocol::TCP }, F>(frames, simple & tcp, first, infos);
    read_masked::<{ ip_protocol::UDP }, F>(frames, simple & !tcp, first, infos);
}

/// Reads the details of the frames in `mask`, all of which have the transport protocol `TRANSPORT`.
fn read_masked<const TRANSPORT: u8, F: RawFrame>(
    frames: &[F],
    mut mask: u64,
    first: u16,
    infos: &mut [PacketInfo],
) {
    while mask != 0 {
        let at = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        if let (Some(frame), Some(info)) = (frames.get(at), infos.get_mut(at)) {
            let number = first + at as u16;
            info.read_ipv4(number, frame.bytes(), headers_of(frame), TRANSPORT);
        }
    }
}

impl PacketInfo {
    /// Reads the details of frame `number` of a burst, which [`simple_ipv4`](crate::simple_ipv4) accepted.
    #[inline]
    pub fn read_simple_ipv4(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<{ ipv4::HEADERS }>() else {
            return *self = Self::default();
        };
        let transport = byte::<{ offset::ipv4::PROTOCOL }, _>(headers);
        self.read_ipv4(number, frame, headers, transport);
    }

    /// Reads the details of frame `number`, simple IPv4 with the protocol `transport`.
    // So that `transport` is a constant in the loops of `read_simple_chunk`.
    #[inline(always)]
    fn read_ipv4(
        &mut self,
        number: u16,
        frame: &[u8],
        headers: &[u8; ipv4::HEADERS],
        transport: u8,
    ) {
        let total = usize::from(u16_at::<{ offset::ipv4::TOTAL_LENGTH }, _>(headers));
        self.read_transport(
            number,
            frame,
            Network::of_ipv4(headers),
            transport,
            rule::transport_header(headers),
            offset::NETWORK + total,
        );
    }

    /// Reads the details of frame `number`, which [`simple_ipv6`](crate::fast::simple_ipv6) accepted.
    #[inline]
    pub fn read_simple_ipv6(&mut self, number: u16, frame: &[u8]) {
        let Some(headers) = frame.first_chunk::<{ ipv6::HEADERS }>() else {
            return *self = Self::default();
        };
        let length = usize::from(u16_at::<{ offset::ipv6::PAYLOAD_LENGTH }, _>(headers));
        let transport = byte::<{ offset::ipv6::NEXT_HEADER }, _>(headers);
        let end = offset::ipv6::TRANSPORT + length;
        self.read_transport(
            number,
            frame,
            Network::of_ipv6(headers),
            transport,
            rule::transport_header(headers),
            end,
        );
    }

    /// Reads the details of frame `number`, which [`portless_ipv4`](crate::fast::portless_ipv4) accepted.
    #[inline]
    pub fn read_portless_ipv4(&mut self, number: u16, frame: &[u8], is_fragment: bool) {
        *self = Self::default();
        self.frame = number;
        let Some(header) = frame.get(offset::NETWORK..) else {
            return;
        };
        let packet = PacketView::new(header, header.len());
        let payload = offset::NETWORK + Ipv4::LENGTH;
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
    // So that `transport` is a constant in the loops of `read_simple_chunk`.
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
            let length = usize::from(byte::<{ transport::TCP_DATA_OFFSET }, _>(header) >> 4) * 4;
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
    #[inline]
    fn set_tcp(
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
        self.window = u16_at::<{ transport::TCP_WINDOW }, _>(header);
        self.tcp_flags = byte::<{ transport::TCP_FLAGS }, _>(header);
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

    /// Sets the details of frame `number`, UDP.
    #[inline]
    fn set_udp(
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
    #[inline]
    fn limit_captured(&mut self, captured: usize) {
        let payload = (captured as u32).saturating_sub(self.payload_at);
        self.payload_captured = payload.min(self.payload_length);
    }

    #[inline]
    fn set_network(&mut self, network: Network) {
        self.present = u8::from(network.identification != 0) * present::IDENTIFICATION;
        self.identification = network.identification;
        self.time_to_live = network.time_to_live;
        self.type_of_service = network.type_of_service;
    }

    /// Sets ports and payload as if fully captured, and clears what simple frames do not have.
    #[inline]
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
