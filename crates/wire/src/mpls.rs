//! MPLS label stack (RFC 3032 section 2.1).

use crate::field::u32_at;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 4;
    pub(super) const ENTRY: usize = 0;
}

/// Bit of an entry that ends the stack.
const BOTTOM_OF_STACK: u32 = 0x100;
/// Bits of an entry below the label.
const LABEL_SHIFT: u32 = 12;

view! {
    /// View of one entry of the label stack.
    pub struct Label(field::LENGTH);
}

impl Label<'_> {
    /// The label, 20 bits.
    #[must_use]
    pub const fn label(&self) -> u32 {
        u32_at::<{ field::ENTRY }, _>(self.0) >> LABEL_SHIFT
    }

    /// Whether this is the last label.
    #[inline]
    #[must_use]
    pub const fn is_bottom(&self) -> bool {
        u32_at::<{ field::ENTRY }, _>(self.0) & BOTTOM_OF_STACK != 0
    }
}
