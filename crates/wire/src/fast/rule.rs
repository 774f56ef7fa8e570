//! What makes a frame simple: the one validity rule of the fast path.
//!
//! [`IPV4`] is the same rule as data, for the AVX-512 parser; a property test compares the two.

use core::hint::select_unpredictable;

use super::offset::{self, transport};
use crate::ethernet::Ethernet;
use crate::field::{byte, bytes_at, u16_at};
use crate::ipv4::Ipv4;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::{ether_type, ip_protocol};
use hw::headers::{Layout, Rule};

/// Version 4 and a header of five words.
const VERSION_AND_LENGTH: u8 = 0x45;
/// The More Fragments flag and the fragment offset.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

/// Bytes of a TCP header without options. As many are read of UDP, so that one bounds check covers both:
/// a frame with fewer captured bytes is not simple, even if its UDP header is complete.
pub(super) const TRANSPORT_LENGTH: usize = Tcp::LENGTH;

/// The transport header: the last bytes of the headers.
#[inline]
pub(super) fn transport_header<const HEADERS: usize>(
    headers: &[u8; HEADERS],
) -> &[u8; TRANSPORT_LENGTH] {
    const { assert!(HEADERS >= TRANSPORT_LENGTH) };
    headers.last_chunk().unwrap_or(&[0; TRANSPORT_LENGTH])
}

/// Returns whether IPv4 without options follows the Ethernet header.
#[inline]
pub(super) fn has_ipv4<const N: usize>(headers: &[u8; N]) -> bool {
    (u16_at::<{ offset::ETHER_TYPE }, N>(headers) == ether_type::IPV4)
        & (byte::<{ offset::ipv4::VERSION_AND_LENGTH }, N>(headers) == VERSION_AND_LENGTH)
}

/// Returns whether an IPv4 packet is a fragment.
#[inline]
pub(super) fn is_fragment<const N: usize>(headers: &[u8; N]) -> bool {
    let fragment = bytes_at::<{ offset::ipv4::FRAGMENT }, 2, N>(headers);
    u16::from_ne_bytes(fragment) & u16::from_ne_bytes(FRAGMENT) != 0
}

/// The length fields of a frame, in bytes.
pub(super) struct Lengths {
    /// The IP header.
    pub(super) network_header: usize,
    /// The IP packet, with its header.
    pub(super) packet: u32,
    /// The frame on the wire.
    pub(super) wire: u32,
}

/// What a transport header must satisfy.
#[derive(Clone, Copy)]
struct Requirement {
    /// Minimum length; for protocols other than TCP and UDP, more than any length field can say.
    length_min: u32,
    /// Mask of the byte that has the TCP flags.
    flags: u8,
}

/// Indexed by protocol number.
static REQUIREMENTS: [Requirement; 256] = {
    let mut all = [Requirement {
        length_min: 1 << 20,
        flags: 0,
    }; 256];
    all[ip_protocol::TCP as usize] = Requirement {
        length_min: Tcp::LENGTH as u32,
        flags: 0xff,
    };
    all[ip_protocol::UDP as usize].length_min = Udp::LENGTH as u32;
    all
};

/// Returns whether `protocol` is TCP or UDP and the lengths agree, and the TCP flags (0 for UDP).
///
/// Values for TCP and UDP are selected without a branch: their order is unpredictable, so a branch
/// costs more than it saves.
#[inline]
pub(super) fn check_transport(
    header: &[u8; TRANSPORT_LENGTH],
    protocol: u8,
    lengths: &Lengths,
) -> (bool, u8) {
    let tcp_length = u32::from(byte::<{ transport::TCP_DATA_OFFSET }, _>(header) >> 4) * 4;
    let udp_length = u32::from(u16_at::<{ transport::UDP_LENGTH }, _>(header));
    let length = select_unpredictable(protocol == ip_protocol::TCP, tcp_length, udp_length);
    let required = &REQUIREMENTS[usize::from(protocol)];
    let agree = (length >= required.length_min)
        & (lengths.packet >= lengths.network_header as u32 + length)
        & (lengths.wire >= Ethernet::LENGTH as u32 + lengths.packet);
    let flags = byte::<{ transport::TCP_FLAGS }, _>(header) & required.flags;
    (agree, flags)
}

/// The rule for IPv4 as data.
pub(super) static IPV4: Rule = {
    use offset::ipv4;
    let [type_high, type_low] = ether_type::IPV4.to_be_bytes();
    Rule::new(Layout {
        key: ipv4::TIME_TO_LIVE as u8,
        kind: [
            offset::ETHER_TYPE as u8,
            offset::ETHER_TYPE as u8 + 1,
            ipv4::VERSION_AND_LENGTH as u8,
            ipv4::PROTOCOL as u8,
        ],
        tcp: [type_high, type_low, VERSION_AND_LENGTH, ip_protocol::TCP],
        udp: [type_high, type_low, VERSION_AND_LENGTH, ip_protocol::UDP],
        fragment: ipv4::FRAGMENT as u8,
        fragment_mask: FRAGMENT,
        total_length: ipv4::TOTAL_LENGTH as u8,
        tcp_data_offset: (ipv4::TRANSPORT + transport::TCP_DATA_OFFSET) as u8,
        tcp_flags: (ipv4::TRANSPORT + transport::TCP_FLAGS) as u8,
        udp_length: (ipv4::TRANSPORT + transport::UDP_LENGTH) as u8,
        link_header: Ethernet::LENGTH as u32,
        network_header: Ipv4::LENGTH as u32,
        tcp_min: Tcp::LENGTH as u32,
        udp_min: Udp::LENGTH as u32,
    })
};
