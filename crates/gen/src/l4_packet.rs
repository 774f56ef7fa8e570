//! A minimal parser for received UDP and TCP packets.

use crate::rewrite_addresses::network_offset;
use wire::{FlowKey, LinkType, ip_protocol};

/// A UDP datagram or TCP segment that is not fragmented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct L4Packet<'a> {
    pub(crate) key: FlowKey,
    /// The L4 header with its options.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Bytes of a UDP header, and of a TCP header without options.
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

impl<'a> L4Packet<'a> {
    /// Parses a frame. Returns `None` for fragments, truncated headers and other protocols.
    pub(crate) fn parse(link: LinkType, frame: &'a [u8]) -> Option<Self> {
        let packet = frame.get(network_offset(link, frame)?..)?;
        let mut key = FlowKey::default();
        let (protocol, rest) = match packet.first()? >> 4 {
            4 => {
                let length = usize::from(packet[0] & 0xf) * 4;
                let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
                let header = packet.get(..20)?;
                // The flag "more fragments" or a fragment offset.
                if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                    return None;
                }
                key.version = 4;
                key.source[..4].copy_from_slice(&header[12..16]);
                key.destination[..4].copy_from_slice(&header[16..20]);
                (header[9], packet.get(length..total.min(packet.len()))?)
            }
            6 => {
                let header = packet.get(..40)?;
                let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
                key.version = 6;
                key.source.copy_from_slice(&header[8..24]);
                key.destination.copy_from_slice(&header[24..40]);
                let end = (40 + length).min(packet.len());
                (header[6], packet.get(40..end)?)
            }
            _ => return None,
        };
        let header = match protocol {
            ip_protocol::UDP => UDP_HEADER,
            ip_protocol::TCP => usize::from(rest.get(12)? >> 4) * 4,
            _ => return None,
        };
        if protocol == ip_protocol::TCP && header < TCP_HEADER {
            return None;
        }
        let (header, payload) = rest.split_at_checked(header)?;
        key.protocol = protocol;
        key.source_port = u16::from_be_bytes([header[0], header[1]]);
        key.destination_port = u16::from_be_bytes([header[2], header[3]]);
        Some(Self {
            key,
            header,
            payload,
        })
    }
}
