//! Parses one simple IPv6 frame.

use super::offset;
use super::offset::transport::{DESTINATION_PORT, PORTS};
use super::rule::{self, Lengths};
use crate::field::{byte, bytes_at, u16_at};
use crate::ipv6::Ipv6;
use crate::{FlowKey, ether_type};

/// Ethernet, IPv6 and TCP headers without options.
pub(super) const HEADERS: usize = offset::ipv6::TRANSPORT + rule::TRANSPORT_LENGTH;

/// A parsed simple IPv6 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleIpv6 {
    /// The flow key.
    pub key: FlowKey,
    /// TCP control bits (CWR to FIN), 0 for UDP.
    pub tcp_flags: u8,
}

/// Parses an Ethernet frame of `wire_length` bytes on the wire if it is a simple IPv6 frame.
#[inline]
#[must_use]
pub fn simple_ipv6(frame: &[u8], wire_length: u32) -> Option<SimpleIpv6> {
    let headers = frame.first_chunk::<HEADERS>()?;
    let is_ipv6 = u16_at::<{ offset::ETHER_TYPE }, _>(headers) == ether_type::IPV6
        && byte::<{ offset::ipv6::VERSION_AND_CLASS }, _>(headers) >> 4 == 6;
    if !is_ipv6 {
        return None;
    }
    let protocol = byte::<{ offset::ipv6::NEXT_HEADER }, _>(headers);
    let payload = u32::from(u16_at::<{ offset::ipv6::PAYLOAD_LENGTH }, _>(headers));
    let lengths = Lengths {
        network_header: Ipv6::LENGTH,
        packet: Ipv6::LENGTH as u32 + payload,
        wire: wire_length,
    };
    let transport = rule::transport_header(headers);
    let (is_valid, tcp_flags) = rule::check_transport(transport, protocol, &lengths);
    is_valid.then(|| SimpleIpv6 {
        key: FlowKey {
            version: 6,
            protocol,
            source: bytes_at::<{ offset::ipv6::SOURCE }, 16, _>(headers),
            destination: bytes_at::<{ offset::ipv6::DESTINATION }, 16, _>(headers),
            source_port: u16_at::<PORTS, _>(transport),
            destination_port: u16_at::<DESTINATION_PORT, _>(transport),
            vlan: [0; 2],
        },
        tcp_flags,
    })
}
