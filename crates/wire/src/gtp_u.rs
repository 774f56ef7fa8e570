//! GTP-U header (3GPP TS 29.281 section 5).

use crate::field::{byte, u16_at, u32_at};
use crate::packet_view::{Cut, PacketView};
use crate::view::view;
use crate::work;

mod field {
    pub(super) const LENGTH: usize = 8;
    pub(super) const FLAGS: usize = 0;
    pub(super) const MESSAGE_TYPE: usize = 1;
    pub(super) const PAYLOAD_LENGTH: usize = 2;
    pub(super) const TUNNEL: usize = 4;
}

/// Version and protocol type bits of the first byte.
const VERSION_MASK: u8 = 0xf0;
/// Version 1 of GTP (and not of GTP').
const VERSION: u8 = 0x30;
/// Extension header, sequence number or N-PDU number: any of them brings the optional word.
const OPTIONAL_MASK: u8 = 0x07;
/// Extension header.
const EXTENSION: u8 = 0x04;
/// Message type of a tunnelled packet.
const T_PDU: u8 = 0xff;
/// Bytes of the optional word: sequence number, N-PDU number, type of the first extension.
const OPTIONAL_LENGTH: usize = 4;
/// Bit of the first byte that is 0.
const SPARE: u8 = 0x08;
/// Units in which extension headers tell their length, in bytes.
const EXTENSION_UNIT: usize = 4;

/// What is wrong with the optional part of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is cut off.
    Cut(Cut),
    /// An extension header of length 0: where the next one begins is unknown.
    EmptyExtension,
    /// More extension headers than are followed.
    TooManyExtensions,
}

impl From<Cut> for Fault {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

view! {
    /// View of the fixed part of a GTP-U header; [`GtpU::skip_optional`] drops the rest of it.
    pub struct GtpU(field::LENGTH);
}

impl<'a> GtpU<'a> {
    const fn flags(&self) -> u8 {
        byte::<{ field::FLAGS }, _>(self.0)
    }

    /// Whether this is GTP version 1 with a tunnelled packet.
    #[must_use]
    pub const fn is_packet(&self) -> bool {
        self.flags() & VERSION_MASK == VERSION
            && byte::<{ field::MESSAGE_TYPE }, _>(self.0) == T_PDU
    }

    /// Whether the bit that has no meaning is 0, as senders must set it.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        self.flags() & SPARE == 0
    }

    /// Bytes after the fixed part.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        u16_at::<{ field::PAYLOAD_LENGTH }, _>(self.0) as usize
    }

    /// Tunnel endpoint identifier.
    #[must_use]
    pub const fn tunnel(&self) -> u32 {
        u32_at::<{ field::TUNNEL }, _>(self.0)
    }

    /// Drops the optional word and the extension headers from `rest`, and decreases `left` by the number of
    /// the latter.
    ///
    /// # Errors
    /// [`Fault`] where they are cut off or damaged.
    pub fn skip_optional(
        &self,
        rest: PacketView<'a>,
        left: &mut u8,
    ) -> Result<PacketView<'a>, Fault> {
        if self.flags() & OPTIONAL_MASK == 0 {
            return Ok(rest);
        }
        let (&[_, _, _, first], mut rest) = rest.split::<OPTIONAL_LENGTH>()?;
        let mut next = if self.flags() & EXTENSION == 0 {
            0
        } else {
            first
        };
        while next != 0 {
            work::count(work::CALL);
            *left = left.checked_sub(1).ok_or(Fault::TooManyExtensions)?;
            let (&[units], _) = rest.split::<1>()?;
            let Some(to_type) = (usize::from(units) * EXTENSION_UNIT).checked_sub(1) else {
                return Err(Fault::EmptyExtension);
            };
            let (&[following], after) = rest.skip(to_type)?.split::<1>()?;
            (next, rest) = (following, after);
        }
        Ok(rest)
    }
}
