//! ERSPAN headers between GRE and a mirrored Ethernet frame (draft-foschiano-erspan-03 section 4).

use crate::packet_view::{Cut, PacketView};

/// Bytes of the header of type II.
const TYPE_2_LENGTH: usize = 8;
/// Bytes of the header of type III.
const TYPE_3_LENGTH: usize = 12;
/// Byte of the type III header with the flag of the platform-specific subheader.
const TYPE_3_FLAGS: usize = 11;
/// The flag itself.
const SUBHEADER_FLAG: u8 = 0x01;
/// Bytes of the subheader.
const SUBHEADER_LENGTH: usize = 8;

/// Drops the header of type II.
///
/// # Errors
/// [`Cut`] where it is not whole.
pub fn skip_type_2(packet: PacketView<'_>) -> Result<PacketView<'_>, Cut> {
    packet.skip(TYPE_2_LENGTH)
}

/// Drops the header of type III, with its subheader where it has one.
///
/// # Errors
/// [`Cut`] where it is not whole.
pub fn skip_type_3(packet: PacketView<'_>) -> Result<PacketView<'_>, Cut> {
    let (header, rest) = packet.split::<TYPE_3_LENGTH>()?;
    if header[TYPE_3_FLAGS] & SUBHEADER_FLAG == 0 {
        Ok(rest)
    } else {
        rest.skip(SUBHEADER_LENGTH)
    }
}
