//! Plain frames with the details that an analysis asks for.

use super::{
    ETHERNET_LENGTH, HEADERS, IPV4_LENGTH, SimpleIpv4, TCP_LENGTH, UDP_LENGTH, field, has_ipv4,
    is_fragment, little_endian,
};
use core::hint::cold_path;

use crate::field::{byte, u16_at};
use crate::ip_protocol;
use crate::packet_info::simple::{Network, Payload};
use crate::{FlowKey, PacketInfo};

/// Where the transport header begins.
const TRANSPORT_AT: u32 = ETHERNET_LENGTH + IPV4_LENGTH;

/// [`simple_ipv4_masked`](super::simple_ipv4_masked()) with the details of the frame, which is `number` of its
/// burst: whether it is plain. Then `take` is told what it says, before the details are written;
/// otherwise `segment` is left alone.
///
/// The details of TCP and UDP are so different that here a branch decides between them.
#[inline(always)]
#[must_use]
pub fn simple_ipv4_with_info(
    frame: &[u8],
    wire_length: u32,
    number: u16,
    segment: &mut PacketInfo,
    take: impl FnOnce(SimpleIpv4),
) -> bool {
    let Some(headers) = frame.first_chunk::<HEADERS>() else {
        return false;
    };
    if !has_ipv4(headers) || is_fragment(headers) {
        return false;
    }
    let total = u32::from(u16_at::<{ field::TOTAL_LENGTH }, _>(headers));
    if wire_length < ETHERNET_LENGTH + total {
        return false;
    }
    match byte::<{ field::PROTOCOL }, _>(headers) {
        ip_protocol::TCP => {
            let length = u32::from(byte::<{ field::TCP_DATA_OFFSET }, _>(headers) >> 4) * 4;
            let payload = total.wrapping_sub(IPV4_LENGTH + length);
            if length < TCP_LENGTH || payload.cast_signed() < 0 {
                return false;
            }
            let payload = Payload {
                at: TRANSPORT_AT + length,
                length: payload,
            };
            take(SimpleIpv4 {
                key: key::<{ ip_protocol::TCP }>(headers),
                tcp_flags: byte::<{ field::TCP_FLAGS }, _>(headers),
            });
            let network = Network::of_ipv4(headers);
            segment.set_tcp(number, frame, network, transport(headers), length, payload);
        }
        ip_protocol::UDP => {
            let length = u32::from(u16_at::<{ field::UDP_LENGTH }, _>(headers));
            let behind = total.wrapping_sub(IPV4_LENGTH + length);
            if length < UDP_LENGTH || behind.cast_signed() < 0 {
                return false;
            }
            let payload = Payload {
                at: TRANSPORT_AT + UDP_LENGTH,
                length: length - UDP_LENGTH,
            };
            take(SimpleIpv4 {
                key: key::<{ ip_protocol::UDP }>(headers),
                tcp_flags: 0,
            });
            let network = Network::of_ipv4(headers);
            segment.set_udp(number, network, transport(headers), payload);
        }
        _ => return false,
    }
    if frame.len() < wire_length as usize {
        cold_path();
        segment.limit_captured(frame.len());
    }
    true
}

/// [`FlowKey::compact`] of a frame whose protocol is known.
#[inline(always)]
fn key<const PROTOCOL: u8>(headers: &[u8; HEADERS]) -> u128 {
    let protocol = u64::from(PROTOCOL) << 8 | u64::from(FlowKey::COMPACT_MARK);
    let source = little_endian::<{ field::SOURCE }, _>(headers);
    let destination = little_endian::<{ field::DESTINATION }, _>(headers);
    let ports = little_endian::<{ field::PORTS }, _>(headers);
    let low = u64::from(source) << 32 | protocol;
    let high = u64::from(ports) << 32 | u64::from(destination);
    u128::from(low) | u128::from(high) << 64
}

/// The transport header: the last bytes of the headers.
#[inline(always)]
fn transport(headers: &[u8; HEADERS]) -> &[u8; TCP_LENGTH as usize] {
    headers.last_chunk().unwrap_or(&[0; TCP_LENGTH as usize])
}
