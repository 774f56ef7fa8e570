//! What a packet begins with where no field says it: behind MPLS labels, in GTP-U, Teredo and WCCP.
//!
//! The first four bits say 4 or 6 for IP, but so do those of many MAC addresses. Therefore lengths and
//! checksums are compared as well, and the better supported header wins.

use crate::ethernet::Ethernet;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::ipv6_extension::Extension;
use crate::packet_view::PacketView;
use crate::pppoe::Pppoe;
use crate::vlan::Vlan;
use crate::{ether_type, ip_protocol};

/// How much supports a guess: 0 means that it is contradicted or that nothing supports it.
type Support = u8;

/// Least support of an Ethernet header whose first bits are of no help: a known EtherType, and what follows
/// it agrees.
const CREDIBLE: Support = 2;

/// VLAN tags that are skipped to find out what a frame holds.
const TAGS: usize = 2;

/// Bytes of the control word that may stand before the Ethernet frame of a pseudowire (RFC 4385 section 3).
pub(crate) const CONTROL_WORD_LENGTH: usize = 4;

/// Starts of an ARP packet of Ethernet and IPv4, and of LLC headers that bridges send.
const ARP: [u8; 4] = [0, 1, 8, 0];
const LLC: [[u8; 3]; 3] = [[0x42, 0x42, 3], [0xaa, 0xaa, 3], [0xfe, 0xfe, 3]];

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
    /// An Ethernet header after a control word.
    ControlWord,
    /// An Ethernet header.
    Ethernet,
    /// Anything else.
    Other,
    /// The snaplen cut off all of it.
    NotCaptured,
}

/// Guesses what follows MPLS labels. With `in_doubt`, the labels themselves may be something else, and what
/// follows has to be [`CREDIBLE`].
///
/// A first nibble of 0 is a control word, or the first address of an Ethernet frame without one; in doubt
/// it is a control word.
pub(crate) fn behind_labels(packet: PacketView<'_>, in_doubt: bool) -> Content {
    if packet.first_nibble() != Some(0) {
        return in_tunnel(packet, in_doubt);
    }
    let inner = packet.skip(CONTROL_WORD_LENGTH).map_or(0, ethernet);
    let outer = ethernet(packet);
    match outer > inner {
        _ if in_doubt && outer.max(inner) < CREDIBLE => Content::Other,
        true => Content::Ethernet,
        false => Content::ControlWord,
    }
}

/// Guesses what a tunnel holds that may hold IP or Ethernet. With `in_doubt`, it may be no tunnel.
pub(crate) fn in_tunnel(packet: PacketView<'_>, in_doubt: bool) -> Content {
    let content = match packet.first_nibble() {
        Some(4) => Content::Ipv4,
        Some(6) => Content::Ipv6,
        Some(_) if ethernet(packet) >= CREDIBLE => return Content::Ethernet,
        None if packet.length() > 0 => return Content::NotCaptured,
        _ => return Content::Other,
    };
    let least = if in_doubt { CREDIBLE } else { 1 };
    match (ip(packet), ethernet(packet)) {
        (ip, ethernet) if ip.max(ethernet) < least => Content::Other,
        (ip, ethernet) if ethernet > ip => Content::Ethernet,
        _ => content,
    }
}

/// How much supports an IP header of the version in the first nibble.
///
/// One point if the lengths fit into the packet, and another one if they are those of the packet. Another
/// one for the header checksum of IPv4, or for addresses and a next header of IPv6 that are in use: it has
/// no checksum.
pub(crate) fn ip(packet: PacketView<'_>) -> Support {
    match packet.first_nibble() {
        Some(4) => ipv4(packet),
        Some(6) => ipv6(packet),
        _ => 0,
    }
}

fn ipv4(packet: PacketView<'_>) -> Support {
    let Ok((header, _)) = Ipv4::split(packet) else {
        // Nothing contradicts the version.
        return 1;
    };
    let header_length = header.header_length();
    let total_length = header.total_length();
    if header_length < Ipv4::LENGTH {
        return 0;
    }
    // 0 leaves segmentation to the device.
    let fits = total_length == 0 || (header_length..=packet.length()).contains(&total_length);
    let header = packet.bytes().get(..header_length);
    Support::from(fits)
        + Support::from(total_length == packet.length())
        + Support::from(header.is_some_and(has_checksum))
}

fn ipv6(packet: PacketView<'_>) -> Support {
    let Ok((header, rest)) = Ipv6::split(packet) else {
        return 1;
    };
    let fits = header.payload_length() <= rest.length();
    let next = header.next_header();
    let is_known = Extension::is_extension(next) || ip_protocol::is_looked_into(next);
    // Unspecified, loopback and translated (0), global unicast (RFC 4291), unique local, link-local, multicast.
    let is_used = |address: [u8; 16]| matches!(address[0], 0 | 0x20..=0x3f | 0xfc..=0xff);
    let is_plausible = is_known && is_used(header.source()) && is_used(header.destination());
    let is_exact = header.payload_length() == rest.length();
    Support::from(fits) + Support::from(is_exact) + Support::from(is_plausible)
}

/// Whether the sum of an IPv4 header is right (RFC 1071).
fn has_checksum(header: &[u8]) -> bool {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|&word| u32::from(u16::from_be_bytes(word)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) + (folded >> 16) == 0xffff
}

/// How much supports an Ethernet header: one point for a known EtherType, behind VLAN tags too, and
/// as many as what follows has.
fn ethernet(packet: PacketView<'_>) -> Support {
    let Ok((header, mut rest)) = Ethernet::split(packet) else {
        return 0;
    };
    let mut ether_type = header.ether_type();
    let mut is_tagged = false;
    for _ in 0..TAGS {
        if !matches!(ether_type, ether_type::VLAN | ether_type::SERVICE_VLAN) {
            break;
        }
        let Ok((tag, behind)) = Vlan::split(rest) else {
            return 1;
        };
        (ether_type, rest, is_tagged) = (tag.ether_type(), behind, true);
    }
    let bytes = rest.bytes();
    let content = match (ether_type, rest.first_nibble()) {
        (ether_type::IPV4, Some(4)) | (ether_type::IPV6, Some(6)) => 1 + ip(rest),
        (ether_type::IPV4 | ether_type::IPV6, None) => 1,
        (ether_type::ARP, _) => 1 + Support::from(bytes.starts_with(&ARP)),
        (ether_type::PPPOE_SESSION | ether_type::PPPOE_DISCOVERY, _) => {
            let is_known = Pppoe::split(rest).is_ok_and(|(header, _)| header.is_known_version());
            1 + Support::from(is_known)
        }
        (ether_type::MPLS | ether_type::MPLS_UPSTREAM, _) => 1,
        (length, _) if length < ether_type::LEAST && usize::from(length) <= rest.length() => {
            let is_known = LLC.iter().any(|start| bytes.starts_with(start));
            CREDIBLE * Support::from(is_known)
        }
        _ => 0,
    };
    // The tags count too: without them the frame could begin after a control word, four bytes later.
    content + Support::from(is_tagged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header of `length` bytes in all, from `source`.
    fn header(length: u16, source: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        bytes.extend(source);
        bytes.extend([10, 0, 0, 2]);
        let sum: u32 = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn guessed(bytes: &[u8]) -> Content {
        behind_labels(PacketView::new(bytes, bytes.len()), false)
    }

    /// A frame to an address that begins with `first`, which holds `packet`.
    fn frame(first: u8, ether_type: u16, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first, 0x5e, 0x0c, 0x11, 0x22, 0x33, 0x02, 1, 2, 3, 4, 5];
        bytes.extend(ether_type.to_be_bytes());
        bytes.extend(packet);
        bytes
    }

    /// Whatever the first byte of the address is, and with a control word as without one.
    #[test]
    fn an_ethernet_frame_is_found_behind_labels_whatever_its_first_address_is() {
        let packet = [header(40, [10, 0, 0, 1]), vec![0; 20]].concat();
        let mut arp = ARP.to_vec();
        arp.resize(46, 0);
        let tagged = [&[0, 7, 8, 0][..], &packet].concat();
        let bridge = [&[0x42, 0x42, 3][..], &[0; 43]].concat();
        for first in 0..=255 {
            for (ether_type, held) in [
                (0x0800, &packet),
                (0x0806, &arp),
                (0x8100, &tagged),
                (38, &bridge),
            ] {
                let bytes = frame(first, ether_type, held);
                assert_eq!(
                    guessed(&bytes),
                    Content::Ethernet,
                    "{first:02x} {ether_type:04x}"
                );
                let word = [&[0; CONTROL_WORD_LENGTH][..], &bytes].concat();
                assert_eq!(
                    guessed(&word),
                    Content::ControlWord,
                    "{first:02x} {ether_type:04x}"
                );
            }
        }
    }

    /// Addresses that look like an EtherType do not make a frame of a packet.
    #[test]
    fn an_ip_packet_is_found_behind_labels_whatever_its_addresses_are() {
        for source in [
            [10, 0, 0, 1],
            [8, 0, 0x45, 0],
            [8, 6, 0, 1],
            [0x81, 0, 0, 7],
        ] {
            let mut packet = [header(40, source), vec![0; 20]].concat();
            assert_eq!(guessed(&packet), Content::Ipv4, "{source:?}");
            // Left to the device.
            packet[10..12].fill(0);
            assert_eq!(guessed(&packet), Content::Ipv4, "{source:?}");
            // One of lengths and checksum is damaged.
            let damaged = [header(1000, source), vec![0; 20]].concat();
            assert_eq!(guessed(&damaged), Content::Ipv4, "{source:?}");
        }
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        packet.extend([0x20, 1, 0x0d, 0xb8, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(2));
        packet.extend([0; 8]);
        assert_eq!(guessed(&packet), Content::Ipv6);
    }

    #[test]
    fn what_lengths_and_checksum_contradict_is_no_ip_packet() {
        // Link discovery, to addresses that begin like IP.
        for first in [0x4c, 0x45, 0x60, 0x6c] {
            let bytes = frame(
                first,
                0x88cc,
                &[
                    2, 7, 4, 0, 1, 2, 3, 4, 5, 4, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 0,
                ],
            );
            assert_eq!(guessed(&bytes), Content::Other, "{first:02x}");
        }
    }

    #[test]
    fn a_content_that_was_not_captured_is_not_guessed() {
        for (bytes, length, expected) in [
            (&[][..], 60, Content::NotCaptured),
            (&[], 0, Content::Other),
            (&[0x45], 60, Content::Ipv4),
        ] {
            assert_eq!(
                behind_labels(PacketView::new(bytes, length), false),
                expected
            );
        }
    }
}
