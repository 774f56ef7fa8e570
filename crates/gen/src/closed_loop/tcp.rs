//! TCP segments read and written (RFC 9293, section 3.1).

use crate::checksum::Sum;
use crate::frame::{self, Layout, MacAddresses, get_u16};
use crate::l4_packet::L4Packet;
use wire::tcp::flag;
use wire::{FlowKey, LinkType, ip_protocol};

/// What a segment says.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpSegment<'a> {
    pub(super) key: FlowKey,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    pub(super) fn parse(link: LinkType, frame: &'a [u8]) -> Option<Self> {
        let segment = L4Packet::parse(link, frame)?;
        if segment.key.protocol != ip_protocol::TCP {
            return None;
        }
        let long = |at: usize| {
            let high = u32::from(get_u16(segment.header, at));
            high << 16 | u32::from(get_u16(segment.header, at + 2))
        };
        Some(Self {
            key: segment.key,
            sequence: long(4),
            acknowledgement: long(8),
            flags: segment.header[13],
            payload: segment.payload,
        })
    }

    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The sequence number behind it: SYN and FIN take one each.
    pub(super) fn end(&self) -> u32 {
        let syn = u32::from(self.has(flag::SYN));
        let fin = u32::from(self.has(flag::FIN));
        self.sequence
            .wrapping_add(self.payload.len() as u32)
            .wrapping_add(syn + fin)
    }
}

/// The least length of an Ethernet frame without its check sequence.
const LENGTH_MIN: usize = 60;

/// Room for a frame of so many bytes of payload.
pub(super) const fn slot_bytes(payload: usize) -> usize {
    // Ethernet, IPv6 and TCP.
    14 + 40 + 20 + payload
}

/// Writes a segment into a frame; its length.
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
    let flags_before = get_u16(frame, transport + 12);
    frame[transport + 13] = segment.flags;
    frame[payload..length].copy_from_slice(segment.payload);
    let change = Sum::default()
        .add_u32(segment.sequence)
        .add_u32(segment.acknowledgement)
        .replace_u16(flags_before, get_u16(frame, transport + 12))
        .add_bytes(segment.payload);
    frame::update_transport_checksum(frame, layout, change);
    // Short frames are padded behind the IP packet.
    if length < LENGTH_MIN {
        frame[length..LENGTH_MIN].fill(0);
    }
    length.max(LENGTH_MIN)
}
