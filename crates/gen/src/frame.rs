//! The frame that a flow sends: where its headers stand, and how they are first written.

use crate::checksum::{self, Sum};
use crate::fields::Protocol;
use wire::{FlowKey, ether_type, ip_protocol};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// Bytes of a UDP header, and of a TCP header without options.
const UDP: usize = 8;
const TCP: usize = 20;

/// The two Ethernet addresses of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddresses {
    /// Sender.
    pub source: [u8; 6],
    /// Receiver.
    pub destination: [u8; 6],
}

impl Default for MacAddresses {
    /// Two locally administered ones.
    fn default() -> Self {
        Self {
            source: [0x02, 0, 0, 0, 0, 0x01],
            destination: [0x02, 0, 0, 0, 0, 0x02],
        }
    }
}

/// Offsets within frames of one family and protocol.
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

    /// That of a frame that was written here.
    #[inline]
    pub(crate) fn of_frame(frame: &[u8]) -> Self {
        let ipv6 = frame[ETHERNET] >> 4 == 6;
        let protocol = frame[if ipv6 { ETHERNET + 6 } else { ETHERNET + 9 }];
        Self {
            ipv6,
            udp: protocol == ip_protocol::UDP,
        }
    }

    /// A number from 0 to 3 for each.
    pub(crate) fn index(self) -> usize {
        usize::from(self.ipv6) * 2 + usize::from(self.udp)
    }

    /// Where source and destination address stand, and how long each is.
    #[inline]
    pub(crate) fn addresses(self) -> (usize, usize) {
        if self.ipv6 {
            (ETHERNET + 8, 16)
        } else {
            (ETHERNET + 12, 4)
        }
    }

    /// Where the transport header stands, with the two ports first.
    #[inline]
    pub(crate) fn transport(self) -> usize {
        ETHERNET + if self.ipv6 { IPV6 } else { IPV4 }
    }

    /// Where the transport checksum stands.
    #[inline]
    pub(crate) fn checksum(self) -> usize {
        self.transport() + if self.udp { 6 } else { 16 }
    }

    /// Where the payload begins.
    #[inline]
    pub(crate) fn payload(self) -> usize {
        self.transport() + if self.udp { UDP } else { TCP }
    }
}

/// Fields of the network header.
pub(crate) mod field {
    use super::ETHERNET;
    /// IPv4: type of service.
    pub(crate) const TOS: usize = ETHERNET + 1;
    pub(crate) const TOTAL_LENGTH: usize = ETHERNET + 2;
    pub(crate) const IDENTIFICATION: usize = ETHERNET + 4;
    pub(crate) const TTL: usize = ETHERNET + 8;
    pub(crate) const IPV4_CHECKSUM: usize = ETHERNET + 10;
    /// IPv6.
    pub(crate) const PAYLOAD_LENGTH: usize = ETHERNET + 4;
    pub(crate) const HOP_LIMIT: usize = ETHERNET + 7;
}

/// Time to live of every packet where it is not drawn.
const TTL: u8 = 64;

/// Do not fragment: so that an identification of 0 is right (RFC 6864, section 4.1).
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// The TCP window.
const WINDOW: u16 = 0xffff;

#[inline]
pub(crate) fn get_u16(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[inline]
pub(crate) fn put_u16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// What the pseudo header adds to the checksum of a segment of `length` bytes (RFC 9293, section
/// 3.1; RFC 8200, section 8.1). Addresses are added with it.
pub(crate) fn pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> Sum {
    Sum::default()
        .add_bytes(addresses)
        .add_u16(u16::from(protocol))
        .add_u32(length as u32)
}

/// Writes the headers of a frame of `length` bytes, all lengths and checksums right for a payload
/// of zeroes. `image` may end within the payload.
pub(crate) fn write_headers(image: &mut [u8], key: &FlowKey, mac: &MacAddresses, length: usize) {
    let layout = Layout {
        ipv6: key.version == 6,
        udp: key.protocol == ip_protocol::UDP,
    };
    image[..6].copy_from_slice(&mac.destination);
    image[6..12].copy_from_slice(&mac.source);
    let ether_type = if layout.ipv6 {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    put_u16(image, 12, ether_type);
    let (addresses, width) = layout.addresses();
    if layout.ipv6 {
        image[ETHERNET] = 0x60;
        put_u16(
            image,
            field::PAYLOAD_LENGTH,
            (length - ETHERNET - IPV6) as u16,
        );
        image[ETHERNET + 6] = key.protocol;
        image[field::HOP_LIMIT] = TTL;
    } else {
        image[ETHERNET] = 0x45;
        put_u16(image, field::TOTAL_LENGTH, (length - ETHERNET) as u16);
        put_u16(image, ETHERNET + 6, DO_NOT_FRAGMENT);
        image[field::TTL] = TTL;
        image[ETHERNET + 9] = key.protocol;
    }
    image[addresses..addresses + width].copy_from_slice(&key.source[..width]);
    image[addresses + width..addresses + 2 * width].copy_from_slice(&key.destination[..width]);
    if !layout.ipv6 {
        let header = &image[ETHERNET..ETHERNET + IPV4];
        let checksum = Sum::default().add_bytes(header).checksum();
        put_u16(image, field::IPV4_CHECKSUM, checksum);
    }
    let transport = layout.transport();
    put_u16(image, transport, key.source_port);
    put_u16(image, transport + 2, key.destination_port);
    let segment = length - transport;
    if layout.udp {
        put_u16(image, transport + 4, segment as u16);
    } else {
        image[transport + 12] = (TCP as u8 / 4) << 4;
        image[transport + 13] = wire::tcp::flag::ACK;
        put_u16(image, transport + 14, WINDOW);
    }
    let checksum = pseudo_header(
        &image[addresses..addresses + 2 * width],
        key.protocol,
        segment,
    )
    .add_bytes(&image[transport..layout.payload()])
    .checksum();
    let checksum = if layout.udp {
        checksum::for_udp(checksum)
    } else {
        checksum
    };
    put_u16(image, layout.checksum(), checksum);
}

/// The flow of a frame that was written here.
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

/// Makes a frame that has the length `old` one of the length `new`, its zero payload cut or
/// lengthened: the lengths in the headers, the IPv4 checksum, and what the transport checksum changes by.
#[inline]
pub(crate) fn resize(frame: &mut [u8], layout: Layout, old: usize, new: usize) -> Sum {
    let transport = layout.transport();
    let (old_segment, new_segment) = ((old - transport) as u16, (new - transport) as u16);
    if layout.ipv6 {
        put_u16(frame, field::PAYLOAD_LENGTH, (new - ETHERNET - IPV6) as u16);
    } else {
        let (before, after) = ((old - ETHERNET) as u16, (new - ETHERNET) as u16);
        put_u16(frame, field::TOTAL_LENGTH, after);
        let checksum = get_u16(frame, field::IPV4_CHECKSUM);
        let checksum = Sum::default().replace_u16(before, after).update(checksum);
        put_u16(frame, field::IPV4_CHECKSUM, checksum);
    }
    let mut change = Sum::default().replace_u16(old_segment, new_segment);
    if layout.udp {
        put_u16(frame, transport + 4, new_segment);
        // The length stands in the header as well as in the pseudo header.
        change = change.replace_u16(old_segment, new_segment);
    }
    change
}

/// Mends the transport checksum by `change`.
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
