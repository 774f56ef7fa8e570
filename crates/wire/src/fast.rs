//! The fast path: parses the frames that make up nearly all traffic without a walk.

mod detailed;

use core::hint::select_unpredictable;

use crate::FlowKey;
use crate::ether_type;
use crate::ethernet::Ethernet;
use crate::field::{byte, bytes_at, u16_at};
use crate::ip_protocol;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::packet_view::PacketView;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::vlan::{self, Vlan};
use hw::simple_ipv4::KeyBits;

pub use detailed::simple_ipv4_with_info;
pub use hw::simple_ipv4::{Avx512, FrameGroups, Frames4, GROUP, Parsed4, SWAPPED};

/// A parsed simple IPv4 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleIpv4 {
    /// The flow key, as [`FlowKey::compact`] packs it.
    pub key: u128,
    /// TCP control bits (CWR to FIN), 0 in UDP.
    pub tcp_flags: u8,
}

/// Bytes that one bounds check covers: Ethernet, IPv4 and TCP headers without options. A frame with
/// fewer captured bytes is not simple, even if its UDP header is complete.
pub const HEADERS: usize = hw::simple_ipv4::HEADER_BYTES;
/// With an IPv6 header.
const HEADERS_V6: usize = 74;
/// Ethernet and IPv4 headers.
const HEADERS_IPV4: usize = 34;

/// Offsets within an Ethernet frame with an IPv4 header without options.
mod field {
    pub(super) const ETHER_TYPE: usize = 12;
    /// Where the VLAN tag is, if there is one.
    pub(super) const VLAN: usize = 14;
    /// The IPv4 header: version and length.
    pub(super) const IPV4: usize = 14;
    pub(super) const TOTAL_LENGTH: usize = 16;
    /// Flags and fragment offset.
    pub(super) const FRAGMENT: usize = 20;
    pub(super) const TIME_TO_LIVE: usize = 22;
    pub(super) const PROTOCOL: usize = 23;
    pub(super) const SOURCE: usize = 26;
    pub(super) const DESTINATION: usize = 30;
    /// Both ports.
    pub(super) const PORTS: usize = 34;
    pub(super) const UDP_LENGTH: usize = 38;
    pub(super) const TCP_DATA_OFFSET: usize = 46;
    pub(super) const TCP_FLAGS: usize = 47;
}

/// Offsets within an Ethernet frame with an IPv6 header.
mod field_v6 {
    pub(super) const VERSION: usize = 14;
    pub(super) const PAYLOAD_LENGTH: usize = 18;
    pub(super) const NEXT_HEADER: usize = 20;
    pub(super) const SOURCE: usize = 22;
    pub(super) const DESTINATION: usize = 38;
    pub(super) const SOURCE_PORT: usize = 54;
    pub(super) const DESTINATION_PORT: usize = 56;
    pub(super) const UDP_LENGTH: usize = 58;
    pub(super) const TCP_DATA_OFFSET: usize = 66;
    pub(super) const TCP_FLAGS: usize = 67;
}

/// Lengths of headers without options, in the type that length fields are added up in.
const ETHERNET_LENGTH: u32 = Ethernet::LENGTH as u32;
const IPV4_LENGTH: u32 = Ipv4::LENGTH as u32;
const IPV6_LENGTH: u32 = Ipv6::LENGTH as u32;
const TCP_LENGTH: u32 = Tcp::LENGTH as u32;
const UDP_LENGTH: u32 = Udp::LENGTH as u32;
/// Version 4 and a header of five words.
const VERSION_AND_LENGTH: u8 = 0x45;
/// More-fragments flag and fragment offset, as a little-endian word.
const FRAGMENT: u16 = u16::from_le_bytes([0x3f, 0xff]);
/// The key's bits in the eight bytes from the TTL on: all but the header checksum.
const PROTOCOL_AND_SOURCE: u64 = !0xffff_00ff;

/// What a transport header must satisfy.
#[derive(Clone, Copy)]
struct Transport {
    /// Minimum length; larger than any length field can say for protocols other than TCP and UDP.
    least: u32,
    /// Mask of the byte that holds the TCP flags.
    flags: u8,
}

/// Indexed by protocol number.
static TRANSPORTS: [Transport; 256] = {
    let mut transports = [Transport {
        least: 1 << 20,
        flags: 0,
    }; 256];
    transports[ip_protocol::TCP as usize] = Transport {
        least: TCP_LENGTH,
        flags: 0xff,
    };
    transports[ip_protocol::UDP as usize].least = UDP_LENGTH;
    transports
};

/// Reads `frame`, an Ethernet frame of `wire_length` bytes, if it is simple: TCP or UDP in IPv4
/// without options, fragments and VLAN tag, with all headers captured and no fault.
///
/// If it returns `Some`, [`dissect`](crate::dissect()) finds the same key and TCP flags and no fault
/// (except with [`Decapsulate::Innermost`](crate::Decapsulate::Innermost) on a tunnel's frame). `None`
/// says nothing about the frame.
///
/// Values for TCP and UDP are selected without a branch: their order is unpredictable, so a branch
/// costs more than it saves.
#[inline]
#[must_use]
pub fn simple_ipv4(frame: &[u8], wire_length: u32) -> Option<SimpleIpv4> {
    simple_ipv4_masked(frame, wire_length, !0)
}

/// [`simple_ipv4()`] with a key masked to the fields of the flow definition.
#[inline(always)]
#[must_use]
pub fn simple_ipv4_masked(frame: &[u8], wire_length: u32, mask: u128) -> Option<SimpleIpv4> {
    let headers = frame.first_chunk::<HEADERS>()?;

    if !has_ipv4(headers) || is_fragment(headers) {
        return None;
    }
    let protocol = byte::<{ field::PROTOCOL }, _>(headers);
    let is_tcp = protocol == ip_protocol::TCP;

    let total = u32::from(u16_at::<{ field::TOTAL_LENGTH }, _>(headers));
    let tcp_length = u32::from(byte::<{ field::TCP_DATA_OFFSET }, _>(headers) >> 4) * 4;
    let udp_length = u32::from(u16_at::<{ field::UDP_LENGTH }, _>(headers));
    let transport = select_unpredictable(is_tcp, tcp_length, udp_length);
    let known = &TRANSPORTS[usize::from(protocol)];
    let flags = byte::<{ field::TCP_FLAGS }, _>(headers) & known.flags;
    if transport < known.least
        || total < IPV4_LENGTH + transport
        || wire_length < ETHERNET_LENGTH + total
    {
        return None;
    }
    Some(SimpleIpv4 {
        key: compact_key(headers, mask),
        tcp_flags: flags,
    })
}

/// [`simple_ipv4_masked`] for the frames of `run`, four at a time, up to the first that is not simple.
/// `BOTH_DIRECTIONS`: puts the endpoints of keys [in order](FlowKey::compact_in_order).
#[inline]
pub fn simple_ipv4_groups<'f, const BOTH_DIRECTIONS: bool>(
    instructions: Avx512,
    mask: u128,
    run: &mut impl FrameGroups<'f>,
) {
    let keys = KeyBits {
        keep: mask & (u128::MAX << 64 | u128::from(PROTOCOL_AND_SOURCE)),
        set: u128::from(FlowKey::COMPACT_MARK),
    };
    instructions.parse::<BOTH_DIRECTIONS>(keys, run);
}

/// A frame without its VLAN tag: shifted by the tag's length, so that the fields after the tag are at
/// the offsets of an untagged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untagged<'a> {
    /// Captured bytes.
    pub frame: &'a [u8],
    /// Length on the wire, in bytes.
    pub wire_length: u32,
    /// The tag, as in [`FlowKey::vlan`]; 0 for none.
    pub tag: u16,
}

impl<'a> Untagged<'a> {
    /// Strips the outer VLAN tag, if any, from an Ethernet frame of `wire_length` bytes.
    #[inline]
    #[must_use]
    pub fn new(frame: &'a [u8], wire_length: u32) -> Self {
        if let Some(start) = frame.first_chunk::<{ field::VLAN + 2 }>()
            && u16_at::<{ field::ETHER_TYPE }, _>(start) == ether_type::VLAN
            && let Some(rest) = wire_length.checked_sub(Vlan::LENGTH as u32)
        {
            let identifier = u16_at::<{ field::VLAN }, _>(start) & vlan::IDENTIFIER_MASK;
            return Self {
                frame: &frame[Vlan::LENGTH..],
                wire_length: rest,
                tag: FlowKey::VLAN_PRESENT | identifier,
            };
        }
        Self {
            frame,
            wire_length,
            tag: 0,
        }
    }

    /// The EtherType after the tag; `None` if it was not captured.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        let start = self.frame.first_chunk::<{ field::VLAN }>()?;
        Some(u16_at::<{ field::ETHER_TYPE }, _>(start))
    }

    /// [`simple_ipv4`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn simple_ipv4(&self) -> Option<SimpleIpv4> {
        let plain = simple_ipv4(self.frame, self.wire_length)?;
        let key = plain.key | FlowKey::compact_vlan(self.tag);
        Some(SimpleIpv4 { key, ..plain })
    }

    /// [`portless_ipv4`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn portless_ipv4(&self) -> Option<Portless> {
        let portless = portless_ipv4(self.frame, self.wire_length)?;
        let key = portless.key | FlowKey::compact_vlan(self.tag);
        Some(Portless { key, ..portless })
    }

    /// [`simple_ipv6`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn simple_ipv6(&self) -> Option<SimpleIpv6> {
        let mut plain = simple_ipv6(self.frame, self.wire_length)?;
        plain.key.vlan[0] = self.tag;
        Some(plain)
    }
}

/// A parsed simple IPv6 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleIpv6 {
    /// The flow key.
    pub key: FlowKey,
    /// TCP control bits (CWR to FIN), 0 in UDP.
    pub tcp_flags: u8,
}

/// [`simple_ipv4`] for TCP or UDP in IPv6 without extension headers.
#[inline]
#[must_use]
pub fn simple_ipv6(frame: &[u8], wire_length: u32) -> Option<SimpleIpv6> {
    let headers = frame.first_chunk::<HEADERS_V6>()?;
    let is_ipv6 = u16_at::<{ field::ETHER_TYPE }, _>(headers) == ether_type::IPV6
        && byte::<{ field_v6::VERSION }, _>(headers) >> 4 == 6;
    let protocol = byte::<{ field_v6::NEXT_HEADER }, _>(headers);
    let is_tcp = protocol == ip_protocol::TCP;
    if !is_ipv6 || !is_tcp && protocol != ip_protocol::UDP {
        return None;
    }
    let payload = u32::from(u16_at::<{ field_v6::PAYLOAD_LENGTH }, _>(headers));
    let transport = if is_tcp {
        u32::from(byte::<{ field_v6::TCP_DATA_OFFSET }, _>(headers) >> 4) * 4
    } else {
        u32::from(u16_at::<{ field_v6::UDP_LENGTH }, _>(headers))
    };
    let least = if is_tcp { TCP_LENGTH } else { UDP_LENGTH };
    if !(least..=payload).contains(&transport)
        || wire_length < ETHERNET_LENGTH + IPV6_LENGTH + payload
    {
        return None;
    }
    Some(SimpleIpv6 {
        key: FlowKey {
            version: 6,
            protocol,
            source: bytes_at::<{ field_v6::SOURCE }, 16, _>(headers),
            destination: bytes_at::<{ field_v6::DESTINATION }, 16, _>(headers),
            source_port: u16_at::<{ field_v6::SOURCE_PORT }, _>(headers),
            destination_port: u16_at::<{ field_v6::DESTINATION_PORT }, _>(headers),
            vlan: [0; 2],
        },
        tcp_flags: if is_tcp {
            byte::<{ field_v6::TCP_FLAGS }, _>(headers)
        } else {
            0
        },
    })
}

/// A parsed simple IPv4 frame without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portless {
    /// The flow key, as [`FlowKey::compact`] packs it.
    pub key: u128,
    /// Whether it is a fragment.
    pub is_fragment: bool,
}

/// [`simple_ipv4`] for packets without ports or another header to parse: a later fragment, or a
/// packet of a protocol like IGMP, in IPv4 without options.
#[inline]
#[must_use]
pub fn portless_ipv4(frame: &[u8], wire_length: u32) -> Option<Portless> {
    let headers = frame.first_chunk::<HEADERS_IPV4>()?;
    if !has_ipv4(headers) {
        return None;
    }
    let packet = PacketView::new(frame, wire_length as usize);
    let (header, rest) = Ipv4::split(packet.skip(field::IPV4).ok()?).ok()?;
    let (protocol, offset) = (header.protocol(), header.fragment_offset());
    let has_header =
        offset == 0 && (header.more_fragments() || ip_protocol::is_looked_into(protocol));
    // A fragment of ICMP has a type that is not known.
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

/// Whether IPv4 without options follows the Ethernet header.
#[inline(always)]
fn has_ipv4<const N: usize>(headers: &[u8; N]) -> bool {
    u16_at::<{ field::ETHER_TYPE }, N>(headers) == ether_type::IPV4
        && byte::<{ field::IPV4 }, N>(headers) == VERSION_AND_LENGTH
}

/// Whether it is a fragment.
#[inline(always)]
fn is_fragment(headers: &[u8; HEADERS]) -> bool {
    let fragment = u16::from_le_bytes(bytes_at::<{ field::FRAGMENT }, 2, _>(headers));
    fragment & FRAGMENT != 0
}

/// [`FlowKey::compact`] of the frame, whose fields stand in the key's order.
#[inline]
fn compact_key(headers: &[u8; HEADERS], mask: u128) -> u128 {
    let to_ports = u64::from_le_bytes(bytes_at::<{ field::DESTINATION }, 8, _>(headers));
    let rest = to_ports & (mask >> 64) as u64;
    key_to_source(headers, mask as u64) | u128::from(rest) << 64
}

/// The same without ports.
#[inline]
fn compact_addresses(headers: &[u8; HEADERS_IPV4]) -> u128 {
    let destination = little_endian::<{ field::DESTINATION }, _>(headers);
    key_to_source(headers, !0) | u128::from(destination) << 64
}

/// The first half of a compact key: up to the source address.
#[inline]
fn key_to_source<const N: usize>(headers: &[u8; N], mask: u64) -> u128 {
    let to_source = u64::from_le_bytes(bytes_at::<{ field::TIME_TO_LIVE }, 8, N>(headers));
    let fields = to_source & (PROTOCOL_AND_SOURCE & mask);
    u128::from(fields | u64::from(FlowKey::COMPACT_MARK))
}

/// Four bytes, the first the lowest: as an x86 processor loads them, so that nothing is swapped.
#[inline(always)]
fn little_endian<const OFFSET: usize, const N: usize>(headers: &[u8; N]) -> u32 {
    u32::from_le_bytes(bytes_at::<OFFSET, 4, N>(headers))
}
