//! The layout of generated frames, and how their headers are written and resized.

use crate::checksum::{self, Sum};
use crate::fields::Protocol;
use wire::{FlowKey, ether_type, ip_protocol};

/// Header lengths in bytes, without options.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const TCP: usize = 20;

/// The Ethernet addresses of all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddresses {
    /// Source address.
    pub source: [u8; 6],
    /// Destination address.
    pub destination: [u8; 6],
}

impl Default for MacAddresses {
    /// Two locally administered addresses.
    fn default() -> Self {
        Self {
            source: [0x02, 0, 0, 0, 0, 0x01],
            destination: [0x02, 0, 0, 0, 0, 0x02],
        }
    }
}

/// The offsets in frames of one IP version and transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ipv6: bool,
    pub(crate) udp: bool,
}

impl Layout {
    pub(crate) fn new(version: u8, protocol: Protocol) -> Self {
        Self {
            ipv6: version == 6,
            udp: protocol == Protocol::Udp,
        }
    }

    /// The layout of a generated frame.
    #[inline]
    pub(crate) fn of_frame(frame: &[u8]) -> Self {
        let ipv6 = frame[ETHERNET] >> 4 == 6;
        let protocol = frame[if ipv6 { ETHERNET + 6 } else { ETHERNET + 9 }];
        Self {
            ipv6,
            udp: protocol == ip_protocol::UDP,
        }
    }

    /// A distinct number from 0 to 3 for each layout.
    pub(crate) fn index(self) -> usize {
        usize::from(self.ipv6) * 2 + usize::from(self.udp)
    }

    /// The offset of the source address, which the destination address follows, and the length of each.
    #[inline]
    pub(crate) fn addresses(self) -> (usize, usize) {
        if self.ipv6 {
            (ETHERNET + 8, 16)
        } else {
            (ETHERNET + 12, 4)
        }
    }

    /// The offset of the transport header, which starts with the two ports.
    #[inline]
    pub(crate) fn transport(self) -> usize {
        ETHERNET + if self.ipv6 { IPV6 } else { IPV4 }
    }

    /// The offset of the transport checksum.
    #[inline]
    pub(crate) fn checksum(self) -> usize {
        self.transport() + if self.udp { 6 } else { 16 }
    }

    /// The offset of the payload.
    #[inline]
    pub(crate) fn payload(self) -> usize {
        self.transport() + if self.udp { UDP } else { TCP }
    }
}

/// Offsets of fields in the IP header.
pub(crate) mod field {
    use super::ETHERNET;
    /// Fields of IPv4.
    pub(crate) const TOS: usize = ETHERNET + 1;
    pub(crate) const TOTAL_LENGTH: usize = ETHERNET + 2;
    pub(crate) const IDENTIFICATION: usize = ETHERNET + 4;
    pub(crate) const TTL: usize = ETHERNET + 8;
    pub(crate) const IPV4_CHECKSUM: usize = ETHERNET + 10;
    /// Fields of IPv6.
    pub(crate) const PAYLOAD_LENGTH: usize = ETHERNET + 4;
    pub(crate) const HOP_LIMIT: usize = ETHERNET + 7;
}

/// TTL or hop limit, unless it is random.
const TTL: u8 = 64;

/// The flag DF, which allows an identification of 0 (RFC 6864, section 4.1).
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// TCP window size.
const WINDOW: u16 = 0xffff;

#[inline]
pub(crate) fn get_u16(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[inline]
pub(crate) fn put_u16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Returns the sum of the pseudo header with these addresses, for a segment or datagram of `length`
/// bytes (RFC 9293, section 3.1; RFC 8200, section 8.1).
pub(crate) fn pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> Sum {
    Sum::default()
        .add_bytes(addresses)
        .add_u16(u16::from(protocol))
        .add_u32(length as u32)
}

/// Writes the headers of a frame of `length` bytes, with lengths and checksums for a payload of zeros.
/// `frame` must be zero, and may be truncated within the payload.
pub(crate) fn write_headers(frame: &mut [u8], key: &FlowKey, mac: &MacAddresses, length: usize) {
    let layout = Layout {
        ipv6: key.version == 6,
        udp: key.protocol == ip_protocol::UDP,
    };
    frame[..6].copy_from_slice(&mac.destination);
    frame[6..12].copy_from_slice(&mac.source);
    let ether_type = if layout.ipv6 {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    put_u16(frame, 12, ether_type);
    let (addresses, width) = layout.addresses();
    if layout.ipv6 {
        frame[ETHERNET] = 0x60;
        put_u16(
            frame,
            field::PAYLOAD_LENGTH,
            (length - ETHERNET - IPV6) as u16,
        );
        frame[ETHERNET + 6] = key.protocol;
        frame[field::HOP_LIMIT] = TTL;
    } else {
        frame[ETHERNET] = 0x45;
        put_u16(frame, field::TOTAL_LENGTH, (length - ETHERNET) as u16);
        put_u16(frame, ETHERNET + 6, DO_NOT_FRAGMENT);
        frame[field::TTL] = TTL;
        frame[ETHERNET + 9] = key.protocol;
    }
    frame[addresses..addresses + width].copy_from_slice(&key.source[..width]);
    frame[addresses + width..addresses + 2 * width].copy_from_slice(&key.destination[..width]);
    if !layout.ipv6 {
        let header = &frame[ETHERNET..ETHERNET + IPV4];
        let checksum = Sum::default().add_bytes(header).checksum();
        put_u16(frame, field::IPV4_CHECKSUM, checksum);
    }
    let transport = layout.transport();
    put_u16(frame, transport, key.source_port);
    put_u16(frame, transport + 2, key.destination_port);
    let segment = length - transport;
    if layout.udp {
        put_u16(frame, transport + 4, segment as u16);
    } else {
        frame[transport + 12] = (TCP as u8 / 4) << 4;
        frame[transport + 13] = wire::tcp::flag::ACK;
        put_u16(frame, transport + 14, WINDOW);
    }
    let checksum = pseudo_header(
        &frame[addresses..addresses + 2 * width],
        key.protocol,
        segment,
    )
    .add_bytes(&frame[transport..layout.payload()])
    .checksum();
    let checksum = if layout.udp {
        checksum::for_udp(checksum)
    } else {
        checksum
    };
    put_u16(frame, layout.checksum(), checksum);
}

/// The flow key of a generated frame.
pub(crate) fn key_of(frame: &[u8]) -> FlowKey {
    let layout = Layout::of_frame(frame);
    let (addresses, width) = layout.addresses();
    let mut key = FlowKey {
        version: if layout.ipv6 { 6 } else { 4 },
        protocol: if layout.udp {
            ip_protocol::UDP
        } else {
            ip_protocol::TCP
        },
        source_port: get_u16(frame, layout.transport()),
        destination_port: get_u16(frame, layout.transport() + 2),
        ..FlowKey::default()
    };
    key.source[..width].copy_from_slice(&frame[addresses..addresses + width]);
    key.destination[..width].copy_from_slice(&frame[addresses + width..addresses + 2 * width]);
    key
}

/// Changes the length of a frame with a zero payload from `old` to `new` bytes: updates the lengths in
/// the headers and the IPv4 checksum. Returns the change of the transport checksum.
#[inline]
pub(crate) fn resize(frame: &mut [u8], layout: Layout, old: usize, new: usize) -> Sum {
    let transport = layout.transport();
    let (old_segment, new_segment) = ((old - transport) as u16, (new - transport) as u16);
    if layout.ipv6 {
        put_u16(frame, field::PAYLOAD_LENGTH, (new - ETHERNET - IPV6) as u16);
    } else {
        let (old_total, new_total) = ((old - ETHERNET) as u16, (new - ETHERNET) as u16);
        put_u16(frame, field::TOTAL_LENGTH, new_total);
        let checksum = get_u16(frame, field::IPV4_CHECKSUM);
        let checksum = Sum::default()
            .replace_u16(old_total, new_total)
            .update(checksum);
        put_u16(frame, field::IPV4_CHECKSUM, checksum);
    }
    let mut change = Sum::default().replace_u16(old_segment, new_segment);
    if layout.udp {
        put_u16(frame, transport + 4, new_segment);
        // The length is both in the UDP header and in the pseudo header.
        change = change.replace_u16(old_segment, new_segment);
    }
    change
}

/// Updates the transport checksum by `change`.
#[inline]
pub(crate) fn update_transport_checksum(frame: &mut [u8], layout: Layout, change: Sum) {
    let at = layout.checksum();
    let checksum = change.update(get_u16(frame, at));
    let checksum = if layout.udp {
        checksum::for_udp(checksum)
    } else {
        checksum
    };
    put_u16(frame, at, checksum);
}
