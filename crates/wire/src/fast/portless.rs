//! Parses one IPv4 frame without ports.

use super::ipv4::key_to_source;
use super::{offset, rule};
use crate::field::bytes_at;
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::packet_view::PacketView;

/// Ethernet and IPv4 headers.
const HEADERS: usize = offset::ipv4::TRANSPORT;

/// A parsed IPv4 frame without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portless {
    /// The flow key, as [`FlowKey::compact`](crate::FlowKey::compact) packs it.
    pub key: u128,
    /// Whether it is a fragment.
    pub is_fragment: bool,
}

/// Parses an Ethernet frame of `wire_length` bytes on the wire if it is IPv4 without options and without
/// a further header to parse: a later fragment, or a packet of a protocol like IGMP.
#[inline]
#[must_use]
pub fn portless_ipv4(frame: &[u8], wire_length: u32) -> Option<Portless> {
    let headers = frame.first_chunk::<HEADERS>()?;
    if !rule::has_ipv4(headers) {
        return None;
    }
    let packet = PacketView::new(frame, wire_length as usize);
    let (header, rest) = Ipv4::split(packet.skip(offset::NETWORK).ok()?).ok()?;
    let (protocol, offset) = (header.protocol(), header.fragment_offset());
    let has_header =
        offset == 0 && (header.more_fragments() || ip_protocol::is_looked_into(protocol));
    // The ICMP type of a later fragment is unknown, which is not 0.
    let is_icmp = matches!(protocol, ip_protocol::ICMP | ip_protocol::ICMPV6);
    if has_header || is_icmp {
        return None;
    }
    let payload = header.total_length().checked_sub(Ipv4::LENGTH)?;
    let fits =
        payload <= rest.length() && offset + payload <= Ipv4::MAX_TOTAL_LENGTH - Ipv4::LENGTH;
    fits.then(|| Portless {
        key: compact_addresses(headers),
        is_fragment: offset > 0,
    })
}

/// Returns the compact key of a frame without ports.
#[inline]
fn compact_addresses(headers: &[u8; HEADERS]) -> u128 {
    let destination = bytes_at::<{ offset::ipv4::DESTINATION }, 4, _>(headers);
    key_to_source(headers) | u128::from(u32::from_le_bytes(destination)) << 64
}
