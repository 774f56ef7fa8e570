//! Ethernet header (IEEE 802.3 clause 3, with an EtherType or a length).

use crate::field::{bytes_at, u16_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 14;
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 6;
    pub(super) const ETHER_TYPE: usize = 12;
}

view! {
    /// View of an Ethernet header, without preamble.
    pub struct Ethernet(field::LENGTH);
}

impl Ethernet<'_> {
    /// Address of the receiving station.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        bytes_at::<{ field::DESTINATION }, 6, _>(self.0)
    }

    /// Address of the sending station.
    #[must_use]
    pub fn source(&self) -> [u8; 6] {
        bytes_at::<{ field::SOURCE }, 6, _>(self.0)
    }

    /// EtherType, or below [`ether_type::LEAST`](crate::ether_type::LEAST) the frame's length.
    #[inline]
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        u16_at::<{ field::ETHER_TYPE }, _>(self.0)
    }
}
