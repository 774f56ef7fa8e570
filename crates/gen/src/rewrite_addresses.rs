//! Rewrites the addresses of captured packets, and updates the checksums that cover them.

use crate::checksum::{Sum, for_udp};
use crate::frame::{get_u16, put_u16};
use wire::{FlowKey, LinkType, ether_type, ip_protocol};

/// The offsets of the addresses of the outermost IP header and of the checksums; 0 if absent.
///
/// Packets in a tunnel, and packets quoted by an ICMP error, are payload and do not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressRewrite {
    addresses: u16,
    ipv4_checksum: u16,
    transport_checksum: u16,
    ipv6: bool,
    /// The transport checksum is of UDP, where 0 means that there is none.
    udp: bool,
    /// The transport checksum covers the final destination in a routing header instead of the
    /// destination address (RFC 8200, section 8.1).
    routed: bool,
}

/// The maximum number of VLAN tags.
const TAGS_MAX: usize = 4;

/// EtherTypes of VLAN tags besides 0x8100: IEEE 802.1ad and its predecessor.
const SERVICE_TAGS: [u16; 2] = [0x88a8, 0x9100];

/// The EtherType of PPPoE sessions (RFC 2516), and the PPP protocol numbers of IPv4 and IPv6 (RFC 1332,
/// RFC 5072).
const PPPOE_SESSION: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// UDP-Lite (RFC 3828), whose checksum has the same offset as in UDP.
const UDP_LITE: u8 = 136;

/// Finds the addresses and checksums of a frame.
pub(crate) fn locate_addresses(link: LinkType, frame: &[u8]) -> AddressRewrite {
    network_offset(link, frame)
        .and_then(|at| match frame.get(at).map(|byte| byte >> 4) {
            Some(4) => ipv4(frame, at),
            Some(6) => ipv6(frame, at),
            _ => None,
        })
        .unwrap_or_default()
}

/// The offset of the IP header, after the link-layer header, VLAN tags, PPPoE and MPLS.
pub(crate) fn network_offset(link: LinkType, frame: &[u8]) -> Option<usize> {
    match link {
        LinkType::Ethernet => ethernet(frame, 12),
        LinkType::LinuxSll => ethernet(frame, 14),
        LinkType::LinuxSll2 => at_ether_type(frame, u16_at(frame, 0), 20),
        LinkType::Null | LinkType::Loop => Some(4),
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => Some(0),
        _ => None,
    }
}

fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    (frame.len() >= at + 2).then(|| get_u16(frame, at))
}

/// The offset of the IP header, given the offset of the first EtherType.
fn ethernet(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..TAGS_MAX {
        let found = u16_at(frame, at)?;
        if found != ether_type::VLAN && !SERVICE_TAGS.contains(&found) {
            break;
        }
        at += 4;
    }
    at_ether_type(frame, u16_at(frame, at), at + 2)
}

fn at_ether_type(frame: &[u8], found: Option<u16>, mut at: usize) -> Option<usize> {
    match found? {
        ether_type::IPV4 | ether_type::IPV6 => Some(at),
        PPPOE_SESSION => {
            let protocol = u16_at(frame, at + 6)?;
            (protocol == PPP_IPV4 || protocol == PPP_IPV6).then_some(at + 8)
        }
        ether_type::MPLS | ether_type::MPLS_UPSTREAM => {
            // The last label has the lowest bit of its third byte set (RFC 3032).
            while frame.get(at + 2)? & 1 == 0 {
                at += 4;
            }
            Some(at + 4)
        }
        _ => None,
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<AddressRewrite> {
    let header = frame.get(at..at + 20)?;
    let length = usize::from(header[0] & 0xf) * 4;
    if length < 20 {
        return None;
    }
    let is_first = get_u16(header, 6) & 0x1fff == 0;
    let (checksum, udp) = if is_first {
        transport(frame, header[9], at + length)
    } else {
        (0, false)
    };
    Some(AddressRewrite {
        addresses: offset(at + 12)?,
        ipv4_checksum: offset(at + 10)?,
        transport_checksum: checksum,
        ipv6: false,
        udp,
        routed: false,
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<AddressRewrite> {
    let header = frame.get(at..at + 40)?;
    let mut rewrite = AddressRewrite {
        addresses: offset(at + 8)?,
        ipv6: true,
        ..AddressRewrite::default()
    };
    let (mut next, mut at) = (header[6], at + 40);
    for _ in 0..wire::MAX_EXTENSION_HEADERS {
        let Some(extension) = frame.get(at..at + 8) else {
            break;
        };
        let length_field = usize::from(extension[1]);
        let length = match next {
            ip_protocol::HOP_BY_HOP | ip_protocol::DESTINATION_OPTIONS => 8 * (length_field + 1),
            ip_protocol::ROUTING => {
                rewrite.routed |= extension[3] > 0;
                8 * (length_field + 1)
            }
            ip_protocol::FRAGMENT if get_u16(extension, 2) & 0xfff8 != 0 => return Some(rewrite),
            ip_protocol::FRAGMENT => 8,
            ip_protocol::AUTHENTICATION => 4 * (length_field + 2),
            _ => break,
        };
        next = extension[0];
        at += length;
    }
    (rewrite.transport_checksum, rewrite.udp) = match next {
        ip_protocol::ICMPV6 => (offset_if_captured(frame, at + 2), false),
        protocol => transport(frame, protocol, at),
    };
    Some(rewrite)
}

/// Returns the offset of the transport checksum, or 0 if it was not captured or does not cover the
/// addresses, and whether it is of UDP.
fn transport(frame: &[u8], protocol: u8, at: usize) -> (u16, bool) {
    match protocol {
        ip_protocol::TCP => (offset_if_captured(frame, at + 16), false),
        ip_protocol::UDP => (offset_if_captured(frame, at + 6), true),
        UDP_LITE => (offset_if_captured(frame, at + 6), false),
        _ => (0, false),
    }
}

/// Returns the offset `at` if the 16 bits there were captured, otherwise 0.
fn offset_if_captured(frame: &[u8], at: usize) -> u16 {
    if frame.len() >= at + 2 {
        offset(at).unwrap_or(0)
    } else {
        0
    }
}

fn offset(at: usize) -> Option<u16> {
    u16::try_from(at).ok()
}

impl AddressRewrite {
    /// Adds `shift` to both addresses, with carry. Correct checksums stay correct, and wrong ones stay
    /// wrong.
    #[inline]
    pub(crate) fn shift(self, frame: &mut [u8], shift: u128) {
        if self.addresses == 0 || shift == 0 {
            return;
        }
        let at = usize::from(self.addresses);
        let width = if self.ipv6 { 16 } else { 4 };
        let source = add(&mut frame[at..at + width], shift);
        let destination = add(&mut frame[at + width..at + 2 * width], shift);
        if self.ipv4_checksum > 0 {
            update_checksum(frame, self.ipv4_checksum, source.add_sum(destination));
        }
        if self.transport_checksum == 0 {
            return;
        }
        let covered = if self.routed {
            source
        } else {
            source.add_sum(destination)
        };
        let checksum = usize::from(self.transport_checksum);
        let old = get_u16(frame, checksum);
        if self.udp && old == 0 {
            return;
        }
        let new = covered.update(old);
        put_u16(frame, checksum, if self.udp { for_udp(new) } else { new });
    }
}

fn update_checksum(frame: &mut [u8], at: u16, change: Sum) {
    let at = usize::from(at);
    let checksum = change.update(get_u16(frame, at));
    put_u16(frame, at, checksum);
}

/// Adds `shift` to an address. Returns the change of a checksum that covers it.
#[inline]
fn add(address: &mut [u8], shift: u128) -> Sum {
    let old = Sum::default().add_bytes(address).fold();
    if let Ok(bytes) = <[u8; 4]>::try_from(&*address) {
        let shifted = u32::from_be_bytes(bytes).wrapping_add(shift as u32);
        address.copy_from_slice(&shifted.to_be_bytes());
    } else if let Ok(bytes) = <[u8; 16]>::try_from(&*address) {
        let shifted = u128::from_be_bytes(bytes).wrapping_add(shift);
        address.copy_from_slice(&shifted.to_be_bytes());
    }
    Sum::default().add_u16(!old).add_bytes(address)
}

/// Adds `shift` to both addresses of a key.
pub(crate) fn shift_key(key: &FlowKey, shift: u128) -> FlowKey {
    let mut key = *key;
    let width = if key.version == 4 { 4 } else { 16 };
    let _ = add(&mut key.source[..width], shift);
    let _ = add(&mut key.destination[..width], shift);
    key
}
