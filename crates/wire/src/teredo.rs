//! Teredo: optional headers between UDP and the IPv6 packet (RFC 4380 section 5.1.1).

use crate::ipv6::Ipv6;
use crate::packet_view::{Cut, PacketView};

/// First byte of both headers; no IPv6 packet begins with it.
const INDICATOR: u8 = 0;
/// Second byte of the authentication header.
const AUTHENTICATION: u8 = 1;
/// Bytes of the origin header.
const ORIGIN_LENGTH: usize = 8;
/// Bytes of nonce and confirmation at the end of the authentication header.
const NONCE_AND_CONFIRMATION: usize = 9;

/// Prefix of Teredo addresses.
const PREFIX: [u8; 4] = [0x20, 0x01, 0, 0];
/// Prefix of Teredo addresses before RFC 4380.
const EXPERIMENTAL_PREFIX: [u8; 4] = [0x3f, 0xfe, 0x83, 0x1f];
/// Prefix of link-local addresses, with which clients ask servers.
const LINK_LOCAL: [u8; 2] = [0xfe, 0x80];

/// Whether a payload begins with an authentication header as servers and clients send it, without
/// identifier and value: the port may be a client's, who talks something else.
#[must_use]
pub fn is_strict_start(bytes: &[u8]) -> bool {
    bytes.starts_with(&[INDICATOR, AUTHENTICATION, 0, 0])
}

/// Whether `packet` is IPv6 of Teredo: its length fits, and an address is of Teredo or link-local.
/// The first nibble alone would take one in sixteen DNS responses for it.
#[must_use]
pub fn is_packet(packet: PacketView<'_>) -> bool {
    let Ok((header, rest)) = Ipv6::split(packet) else {
        return false;
    };
    let is_of_teredo = |address: [u8; 16]| {
        address.starts_with(&PREFIX)
            || address.starts_with(&EXPERIMENTAL_PREFIX)
            || address.starts_with(&LINK_LOCAL)
    };
    header.version() == 6
        && header.payload_length() <= rest.length()
        && (is_of_teredo(header.source()) || is_of_teredo(header.destination()))
}

/// Skips an authentication and an origin header, if present.
///
/// # Errors
/// [`Cut`] where one is not whole.
pub fn skip_indicators(packet: PacketView<'_>) -> Result<PacketView<'_>, Cut> {
    let packet = match *packet.bytes() {
        [INDICATOR, AUTHENTICATION, ..] => {
            let (&[_, _, client, value], rest) = packet.split::<4>()?;
            rest.skip(usize::from(client) + usize::from(value) + NONCE_AND_CONFIRMATION)?
        }
        _ => packet,
    };
    match *packet.bytes() {
        [INDICATOR, 0, ..] => packet.skip(ORIGIN_LENGTH),
        _ => Ok(packet),
    }
}
