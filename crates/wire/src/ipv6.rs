//! IPv6 header (RFC 8200 section 3).

use crate::field::{byte, bytes_at, u16_at, u32_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 40;
    pub(super) const VERSION_CLASS_LABEL: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// Bits of the first word below the traffic class.
const TRAFFIC_CLASS_SHIFT: u32 = 20;
/// Bits of the first word below the version.
const VERSION_SHIFT: u32 = 28;

view! {
    /// View of an IPv6 header, without extension headers.
    pub struct Ipv6(field::LENGTH);
}

impl Ipv6<'_> {
    #[inline]
    const fn first_word(&self) -> u32 {
        u32_at::<{ field::VERSION_CLASS_LABEL }, _>(self.0)
    }

    /// Version field; 6 in a valid header.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        (self.first_word() >> VERSION_SHIFT) as u8
    }

    /// Traffic class: DSCP and ECN.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        (self.first_word() >> TRAFFIC_CLASS_SHIFT) as u8
    }

    /// Bytes after this header, extension headers included; 0 in a jumbogram (RFC 2675).
    #[inline]
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        u16_at::<{ field::PAYLOAD_LENGTH }, _>(self.0) as usize
    }

    /// What follows: an extension header or a protocol (see [`ip_protocol`](crate::ip_protocol)).
    #[inline]
    #[must_use]
    pub const fn next_header(&self) -> u8 {
        byte::<{ field::NEXT_HEADER }, _>(self.0)
    }

    /// Hop limit.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        byte::<{ field::HOP_LIMIT }, _>(self.0)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> [u8; 16] {
        bytes_at::<{ field::SOURCE }, 16, _>(self.0)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> [u8; 16] {
        bytes_at::<{ field::DESTINATION }, 16, _>(self.0)
    }
}
