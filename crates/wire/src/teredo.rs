//! Teredo: what may stand between UDP and the IPv6 packet (RFC 4380 section 5.1.1).

use crate::packet::{Cut, Packet};

/// First byte of both indicators; no IPv6 packet begins with it.
const INDICATOR: u8 = 0;
/// Second byte of the authentication header.
const AUTHENTICATION: u8 = 1;
/// Bytes of the origin header.
const ORIGIN_LENGTH: usize = 8;
/// Bytes of nonce and confirmation, which end the authentication header.
const NONCE_AND_CONFIRMATION: usize = 9;

/// Drops an authentication and an origin header, each where it is there.
///
/// # Errors
/// [`Cut`] where one is not whole.
pub fn skip_indicators(packet: Packet<'_>) -> Result<Packet<'_>, Cut> {
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
