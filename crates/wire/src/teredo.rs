//! Teredo: optional headers between UDP and the IPv6 packet (RFC 4380 section 5.1.1).

use crate::packet_view::{Cut, PacketView};

/// First byte of both headers; no IPv6 packet begins with it.
const INDICATOR: u8 = 0;
/// Second byte of the authentication header.
const AUTHENTICATION: u8 = 1;
/// Bytes of the origin header.
const ORIGIN_LENGTH: usize = 8;
/// Bytes of nonce and confirmation at the end of the authentication header.
const NONCE_AND_CONFIRMATION: usize = 9;

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
