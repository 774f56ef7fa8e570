//! VLAN tag after its EtherType (IEEE 802.1Q clause 9.6).

use crate::field::u16_at;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 4;
    pub(super) const CONTROL: usize = 0;
    pub(super) const ETHER_TYPE: usize = 2;
}

/// Bits of the tag control information that are the VLAN identifier.
pub(crate) const IDENTIFIER_MASK: u16 = 0x0fff;
/// Bits of the tag control information below the priority.
const PRIORITY_SHIFT: u16 = 13;

view! {
    /// View of a VLAN tag: control information, and the EtherType of what follows.
    pub struct Vlan(field::LENGTH);
}

impl Vlan<'_> {
    /// VLAN identifier, 12 bits; 0 in a tag that only gives a priority.
    #[inline]
    #[must_use]
    pub const fn identifier(&self) -> u16 {
        u16_at::<{ field::CONTROL }, _>(self.0) & IDENTIFIER_MASK
    }

    /// Priority code point, 3 bits.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        (u16_at::<{ field::CONTROL }, _>(self.0) >> PRIORITY_SHIFT) as u8
    }

    /// EtherType of what follows, or its length as in [`Ethernet`](crate::ethernet::Ethernet).
    #[inline]
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        u16_at::<{ field::ETHER_TYPE }, _>(self.0)
    }
}
