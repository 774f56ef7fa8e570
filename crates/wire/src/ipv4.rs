//! IPv4 header (RFC 791 section 3.1).

use crate::field::{byte, bytes_at, u16_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 20;
    pub(super) const VERSION_AND_LENGTH: usize = 0;
    pub(super) const TYPE_OF_SERVICE: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TIME_TO_LIVE: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// Fragment field: more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;
/// Fragment field: the offset, in units of 8 bytes.
const OFFSET_MASK: u16 = 0x1fff;

view! {
    /// View of the fixed part of an IPv4 header; options, if any, stay in front of what follows.
    pub struct Ipv4(field::LENGTH);
}

impl Ipv4<'_> {
    /// The most bytes a datagram can have.
    pub const MAX_TOTAL_LENGTH: usize = 0xffff;

    /// Version field; 4 in a valid header.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        byte::<{ field::VERSION_AND_LENGTH }, _>(self.0) >> 4
    }

    /// Header length in bytes, with options; a valid one has at least [`Ipv4::LENGTH`].
    #[inline]
    #[must_use]
    pub const fn header_length(&self) -> usize {
        (byte::<{ field::VERSION_AND_LENGTH }, _>(self.0) & 0x0f) as usize * 4
    }

    /// Type of service: DSCP and ECN.
    #[must_use]
    pub const fn type_of_service(&self) -> u8 {
        byte::<{ field::TYPE_OF_SERVICE }, _>(self.0)
    }

    /// Total length in bytes, header included; 0 in a capture of a sender that leaves segmentation
    /// to its device.
    #[inline]
    #[must_use]
    pub const fn total_length(&self) -> usize {
        u16_at::<{ field::TOTAL_LENGTH }, _>(self.0) as usize
    }

    /// Identification, the same in all fragments of a datagram.
    #[must_use]
    pub const fn identification(&self) -> u16 {
        u16_at::<{ field::IDENTIFICATION }, _>(self.0)
    }

    /// Whether more fragments follow this one.
    #[inline]
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        u16_at::<{ field::FRAGMENT }, _>(self.0) & MORE_FRAGMENTS != 0
    }

    /// Where in the datagram's payload this fragment begins, in bytes.
    #[inline]
    #[must_use]
    pub const fn fragment_offset(&self) -> usize {
        (u16_at::<{ field::FRAGMENT }, _>(self.0) & OFFSET_MASK) as usize * 8
    }

    /// Time to live.
    #[must_use]
    pub const fn time_to_live(&self) -> u8 {
        byte::<{ field::TIME_TO_LIVE }, _>(self.0)
    }

    /// Protocol of the payload: see [`ip_protocol`](crate::ip_protocol).
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        byte::<{ field::PROTOCOL }, _>(self.0)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> [u8; 4] {
        bytes_at::<{ field::SOURCE }, 4, _>(self.0)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> [u8; 4] {
        bytes_at::<{ field::DESTINATION }, 4, _>(self.0)
    }
}
