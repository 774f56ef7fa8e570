//! GRE header: version 0 (RFC 2784, with RFC 1701's routing and RFC 2890's key and sequence
//! number) and version 1 (PPTP, RFC 2637 section 4.1).

use crate::field::u16_at;
use crate::packet_view::{Cut, PacketView};
use crate::view::view;
use crate::work;

mod field {
    pub(super) const LENGTH: usize = 4;
    pub(super) const FLAGS: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
}

mod flag {
    /// A checksum is there, and a word with it and an offset.
    pub(super) const CHECKSUM: u16 = 0x8000;
    /// Source routes are there, and the same word (RFC 1701).
    pub(super) const ROUTING: u16 = 0x4000;
    /// A key is there.
    pub(super) const KEY: u16 = 0x2000;
    /// A sequence number is there.
    pub(super) const SEQUENCE: u16 = 0x1000;
    /// Version 1: an acknowledgement number is there.
    pub(super) const ACKNOWLEDGEMENT: u16 = 0x0080;
    /// The version.
    pub(super) const VERSION: u16 = 0x0007;
}

/// Bytes of each optional field.
const WORD: usize = 4;

/// What is wrong with the optional fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They are cut off.
    Cut(Cut),
    /// More source routes than are followed.
    TooManyRoutes,
}

impl From<Cut> for Fault {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

view! {
    /// View of the fixed part of a GRE header; [`Gre::skip_optional`] drops the rest of it.
    pub struct Gre(field::LENGTH);
}

impl<'a> Gre<'a> {
    const fn has(&self, flag: u16) -> bool {
        u16_at::<{ field::FLAGS }, _>(self.0) & flag != 0
    }

    /// Version: 0, or 1 for PPTP.
    #[must_use]
    pub const fn version(&self) -> u8 {
        (u16_at::<{ field::FLAGS }, _>(self.0) & flag::VERSION) as u8
    }

    /// Protocol type of the payload, an EtherType.
    #[must_use]
    pub const fn protocol(&self) -> u16 {
        u16_at::<{ field::PROTOCOL }, _>(self.0)
    }

    /// Whether there is a sequence number. It distinguishes ERSPAN types I and II, and in PPTP it
    /// means that there is a payload.
    #[must_use]
    pub const fn has_sequence(&self) -> bool {
        self.has(flag::SEQUENCE)
    }

    /// Skips the optional fields that the flags announce, and decreases `left` by the number of source
    /// routes.
    ///
    /// # Errors
    /// [`Fault`] where they are cut off or too many.
    pub fn skip_optional(
        &self,
        rest: PacketView<'a>,
        left: &mut u8,
    ) -> Result<PacketView<'a>, Fault> {
        let mut length = WORD * usize::from(self.has(flag::KEY) || self.version() == 1);
        length += WORD * usize::from(self.has(flag::SEQUENCE));
        if self.version() == 1 {
            length += WORD * usize::from(self.has(flag::ACKNOWLEDGEMENT));
            return Ok(rest.skip(length)?);
        }
        length += WORD * usize::from(self.has(flag::CHECKSUM) || self.has(flag::ROUTING));
        let rest = rest.skip(length)?;
        if self.has(flag::ROUTING) {
            skip_source_routes(rest, left)
        } else {
            Ok(rest)
        }
    }
}

/// Drops source route entries up to the empty one that ends them (RFC 1701).
fn skip_source_routes<'a>(
    mut rest: PacketView<'a>,
    left: &mut u8,
) -> Result<PacketView<'a>, Fault> {
    loop {
        work::count(work::CALL);
        let (&[family_high, family_low, _offset, length], after) = rest.split::<WORD>()?;
        rest = after.skip(usize::from(length))?;
        if family_high == 0 && family_low == 0 && length == 0 {
            return Ok(rest);
        }
        *left = left.checked_sub(1).ok_or(Fault::TooManyRoutes)?;
    }
}
