//! Parses and writes TCP segments (RFC 9293, section 3.1).

use crate::checksum::Sum;
use crate::frame::{self, Layout, MacAddresses, get_u16};
use crate::l4_packet::L4Packet;
use wire::tcp::flag;
use wire::{FlowKey, LinkType, ip_protocol};

/// The fields of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpSegment<'a> {
    pub(super) key: FlowKey,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    /// Parses a frame. Returns `None` if it is not a TCP segment.
    pub(super) fn parse(link: LinkType, frame: &'a [u8]) -> Option<Self> {
        let packet = L4Packet::parse(link, frame)?;
        if packet.key.protocol != ip_protocol::TCP {
            return None;
        }
        let field = |at: usize| {
            let high = u32::from(get_u16(packet.header, at));
            high << 16 | u32::from(get_u16(packet.header, at + 2))
        };
        Some(Self {
            key: packet.key,
            sequence: field(4),
            acknowledgement: field(8),
            flags: packet.header[13],
            payload: packet.payload,
        })
    }

    /// Whether all of these flags are set.
    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The sequence number after the segment. SYN and FIN consume one each.
    pub(super) fn end(&self) -> u32 {
        let syn = u32::from(self.has(flag::SYN));
        let fin = u32::from(self.has(flag::FIN));
        self.sequence
            .wrapping_add(self.payload.len() as u32)
            .wrapping_add(syn + fin)
    }
}

/// The minimum length of an Ethernet frame, without the frame check sequence.
const LENGTH_MIN: usize = 60;

/// The slot size in bytes for a frame with `payload` bytes of payload.
pub(super) const fn slot_bytes(payload: usize) -> usize {
    // Ethernet, IPv6 and TCP.
    14 + 40 + 20 + payload
}

/// Writes a segment into a frame. Returns the frame length in bytes.
pub(super) fn write(frame: &mut [u8], segment: &TcpSegment<'_>, mac: &MacAddresses) -> usize {
    let version = segment.key.version;
    let layout = Layout::new(version, crate::fields::Protocol::Tcp);
    let payload = layout.payload();
    let length = payload + segment.payload.len();
    frame[..payload].fill(0);
    frame::write_headers(frame, &segment.key, mac, length);
    let transport = layout.transport();
    frame[transport + 4..transport + 8].copy_from_slice(&segment.sequence.to_be_bytes());
    frame[transport + 8..transport + 12].copy_from_slice(&segment.acknowledgement.to_be_bytes());
    let old_flags = get_u16(frame, transport + 12);
    frame[transport + 13] = segment.flags;
    frame[payload..length].copy_from_slice(segment.payload);
    let change = Sum::default()
        .add_u32(segment.sequence)
        .add_u32(segment.acknowledgement)
        .replace_u16(old_flags, get_u16(frame, transport + 12))
        .add_bytes(segment.payload);
    frame::update_transport_checksum(frame, layout, change);
    // Pad short frames after the IP packet.
    if length < LENGTH_MIN {
        frame[length..LENGTH_MIN].fill(0);
    }
    length.max(LENGTH_MIN)
}
