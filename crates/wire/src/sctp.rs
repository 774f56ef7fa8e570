//! SCTP common header (RFC 9260 section 3.1).

use crate::field::u16_at;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 12;
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
}

view! {
    /// View of the SCTP common header.
    pub struct Sctp(field::LENGTH);
}

impl Sctp<'_> {
    /// Source port.
    #[inline]
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        u16_at::<{ field::SOURCE_PORT }, _>(self.0)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        u16_at::<{ field::DESTINATION_PORT }, _>(self.0)
    }
}
