//! Parses one simple IPv4 frame.

use super::offset;
use super::rule::{self, Lengths};
use crate::FlowKey;
use crate::field::{byte, bytes_at, u16_at};
use crate::ipv4::Ipv4;

/// Bytes that one bounds check covers: Ethernet, IPv4 and TCP headers without options.
pub const HEADERS: usize = hw::headers::HEADER_BYTES;

const _: () = assert!(HEADERS == offset::ipv4::TRANSPORT + rule::TRANSPORT_LENGTH);

/// The key's bits in the eight bytes from the TTL on: all except the TTL and the header checksum.
pub(super) const PROTOCOL_AND_SOURCE: u64 = !0xffff_00ff;

/// A parsed simple IPv4 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleIpv4 {
    /// The flow key, as [`FlowKey::compact`] packs it.
    pub key: u128,
    /// TCP control bits (CWR to FIN), 0 for UDP.
    pub tcp_flags: u8,
}

/// Parses an Ethernet frame of `wire_length` bytes on the wire if it is a simple IPv4 frame.
#[inline]
#[must_use]
pub fn simple_ipv4(frame: &[u8], wire_length: u32) -> Option<SimpleIpv4> {
    let headers = frame.first_chunk()?;
    let (is_simple, tcp_flags) = check(headers, wire_length);
    is_simple.then(|| SimpleIpv4 {
        key: compact_key(headers),
        tcp_flags,
    })
}

/// Returns whether the frame is simple, and its TCP flags. Without a branch, so that frames that are not
/// simple cost no misprediction in a loop over many frames.
#[inline]
pub(super) fn check(headers: &[u8; HEADERS], wire_length: u32) -> (bool, u8) {
    let protocol = byte::<{ offset::ipv4::PROTOCOL }, _>(headers);
    let lengths = Lengths {
        network_header: Ipv4::LENGTH,
        packet: u32::from(u16_at::<{ offset::ipv4::TOTAL_LENGTH }, _>(headers)),
        wire: wire_length,
    };
    let transport = rule::transport_header(headers);
    let (is_valid, tcp_flags) = rule::check_transport(transport, protocol, &lengths);
    let is_simple = is_valid & rule::has_ipv4(headers) & !rule::is_fragment(headers);
    (is_simple, tcp_flags)
}

/// Returns the compact key of a frame, whose fields are in the key's order.
#[inline]
pub(super) fn compact_key(headers: &[u8; HEADERS]) -> u128 {
    let to_ports = bytes_at::<{ offset::ipv4::DESTINATION }, 8, _>(headers);
    key_to_source(headers) | u128::from(u64::from_le_bytes(to_ports)) << 64
}

/// Returns the first half of a compact key: up to the source address.
#[inline]
pub(super) fn key_to_source<const N: usize>(headers: &[u8; N]) -> u128 {
    let to_source = bytes_at::<{ offset::ipv4::TIME_TO_LIVE }, 8, N>(headers);
    let fields = u64::from_le_bytes(to_source) & PROTOCOL_AND_SOURCE;
    u128::from(fields | u64::from(FlowKey::COMPACT_MARK))
}
