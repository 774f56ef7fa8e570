//! PPP encapsulation: HDLC address and control (RFC 1662), protocol field (RFC 1661 section 2), and
//! Cisco's HDLC (RFC 1547 section 4.3.1).

use crate::packet_view::{Cut, PacketView};

/// Protocol field of IPv4.
pub const IPV4: u16 = 0x0021;
/// Protocol field of IPv6.
pub const IPV6: u16 = 0x0057;
/// Protocol field of MPLS unicast.
pub const MPLS: u16 = 0x0281;
/// Protocol field of MPLS multicast.
pub const MPLS_MULTICAST: u16 = 0x0283;

/// Address "all stations" and control "unnumbered information", which peers may agree to leave out.
const ADDRESS_AND_CONTROL: [u8; 2] = [0xff, 0x03];
/// Cisco HDLC address of a unicast frame.
const CISCO_UNICAST: u8 = 0x0f;
/// Cisco HDLC address of a broadcast frame.
const CISCO_BROADCAST: u8 = 0x8f;

/// Drops address and control, where they are there.
#[must_use]
pub fn without_address_and_control(packet: PacketView<'_>) -> PacketView<'_> {
    match packet.split::<2>() {
        Ok((&ADDRESS_AND_CONTROL, rest)) => rest,
        _ => packet,
    }
}

/// Splits the protocol field off: two bytes, or one if it is compressed, in which case the lowest bit of
/// the first byte is set (RFC 1661 section 6.5).
///
/// # Errors
/// [`Cut`] where it is not whole.
pub fn split_protocol(packet: PacketView<'_>) -> Result<(u16, PacketView<'_>), Cut> {
    let (&[first], rest) = packet.split::<1>()?;
    if first & 1 == 1 {
        return Ok((u16::from(first), rest));
    }
    let (&field, rest) = packet.split::<2>()?;
    Ok((u16::from_be_bytes(field), rest))
}

/// Splits off the four bytes of Cisco's HDLC, where `packet` begins with them, giving the EtherType.
#[must_use]
pub fn split_cisco_hdlc(packet: PacketView<'_>) -> Option<(u16, PacketView<'_>)> {
    match packet.split::<4>() {
        Ok((&[CISCO_UNICAST | CISCO_BROADCAST, 0, high, low], rest)) => {
            Some((u16::from_be_bytes([high, low]), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(bytes: &[u8]) -> Option<(u16, &[u8])> {
        let packet = without_address_and_control(PacketView::new(bytes, bytes.len()));
        split_protocol(packet)
            .ok()
            .map(|(protocol, rest)| (protocol, rest.bytes()))
    }

    /// RFC 1662 section 3.2 (address and control may be left out), RFC 1661 section 6.5 (the
    /// protocol field may be one byte).
    #[test]
    fn every_agreed_compression_is_read() {
        let expected = Some((IPV4, &[0x45][..]));
        assert_eq!(protocol(&[0xff, 0x03, 0x00, 0x21, 0x45]), expected);
        assert_eq!(protocol(&[0xff, 0x03, 0x21, 0x45]), expected);
        assert_eq!(protocol(&[0x00, 0x21, 0x45]), expected);
        assert_eq!(protocol(&[0x21, 0x45]), expected);
        assert_eq!(protocol(&[0xff, 0x03, 0x00]), None);
    }

    #[test]
    fn recognises_cisco_hdlc_by_its_address() {
        let packet = PacketView::new(&[0x0f, 0, 0x08, 0, 0x45], 5);
        assert_eq!(
            split_cisco_hdlc(packet).map(|(found, _)| found),
            Some(0x0800)
        );
        assert_eq!(
            split_cisco_hdlc(PacketView::new(&[0xff, 3, 0, 0x21], 4)),
            None
        );
    }
}
