//! PPPoE header (RFC 2516 section 4).

use crate::field::{byte, u16_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 6;
    pub(super) const VERSION_AND_TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const SESSION: usize = 2;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
}

/// Version 1, type 1: the only one there is.
const VERSION_AND_TYPE: u8 = 0x11;
/// Code of a packet of the session.
const CODE_SESSION: u8 = 0;

view! {
    /// View of a PPPoE header.
    pub struct Pppoe(field::LENGTH);
}

impl Pppoe<'_> {
    /// Whether version and type are those of RFC 2516.
    #[must_use]
    pub const fn is_known_version(&self) -> bool {
        byte::<{ field::VERSION_AND_TYPE }, _>(self.0) == VERSION_AND_TYPE
    }

    /// Whether this is a packet of the session, and not of the talk that makes or ends it.
    #[must_use]
    pub const fn is_session(&self) -> bool {
        byte::<{ field::CODE }, _>(self.0) == CODE_SESSION
    }

    /// Session identifier.
    #[must_use]
    pub const fn session(&self) -> u16 {
        u16_at::<{ field::SESSION }, _>(self.0)
    }

    /// Bytes of the PPP packet that follows.
    #[must_use]
    pub const fn payload_length(&self) -> u16 {
        u16_at::<{ field::PAYLOAD_LENGTH }, _>(self.0)
    }
}
