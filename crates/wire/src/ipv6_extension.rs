//! IPv6 extension headers (RFC 8200 section 4; which numbers are such headers: RFC 7045).

use crate::field::{byte, u16_at};
use crate::ip_protocol;
use crate::packet_view::{Cut, PacketView};

mod field {
    /// Length of the shortest extension header.
    pub(super) const LEAST_LENGTH: usize = 8;
    pub(super) const NEXT_HEADER: usize = 0;
    /// The length field, in the header's units.
    pub(super) const LENGTH: usize = 1;
    /// Only in the fragment header.
    pub(super) const FRAGMENT: usize = 2;
}

/// Fragment header: more fragments follow.
const MORE_FRAGMENTS: u16 = 0x0001;
/// Fragment header: the offset in bytes, as the low three bits are other fields.
const OFFSET_MASK: u16 = 0xfff8;

/// View of the first 8 bytes of an extension header, the least that any of them has.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    header: &'a [u8; field::LEAST_LENGTH],
    kind: u8,
}

impl<'a> Extension<'a> {
    /// Bytes of the shortest extension header.
    pub const LENGTH: usize = field::LEAST_LENGTH;

    /// Whether the next-header number `kind` is an extension header whose length can be read.
    #[inline]
    #[must_use]
    pub const fn is_extension(kind: u8) -> bool {
        matches!(
            kind,
            ip_protocol::HOP_BY_HOP
                | ip_protocol::ROUTING
                | ip_protocol::FRAGMENT
                | ip_protocol::AUTHENTICATION
                | ip_protocol::DESTINATION_OPTIONS
                | ip_protocol::MOBILITY
                | ip_protocol::HOST_IDENTITY
                | ip_protocol::SHIM6
        )
    }

    /// Splits the first 8 bytes of the extension header `kind` off; [`Extension::rest_length`]
    /// more belong to it.
    ///
    /// # Errors
    /// [`Cut`] where they are not whole.
    #[inline]
    pub fn split(packet: PacketView<'a>, kind: u8) -> Result<(Self, PacketView<'a>), Cut> {
        let (header, rest) = packet.split()?;
        Ok((Self { header, kind }, rest))
    }

    /// The number of what follows this extension header.
    #[inline]
    #[must_use]
    pub const fn next_header(&self) -> u8 {
        byte::<{ field::NEXT_HEADER }, _>(self.header)
    }

    /// Bytes of this header after its first 8.
    ///
    /// The length field counts units of 8 bytes after the first 8 (RFC 8200 section 4.3); in the
    /// authentication header units of 4, less two (RFC 4302 section 2.2); the fragment header has
    /// no such field.
    #[inline]
    #[must_use]
    pub const fn rest_length(&self) -> usize {
        let units = byte::<{ field::LENGTH }, _>(self.header) as usize;
        match self.kind {
            ip_protocol::FRAGMENT => 0,
            ip_protocol::AUTHENTICATION => units * 4,
            _ => units * 8,
        }
    }

    /// Fragment header: offset of the fragment in the payload, in bytes.
    #[inline]
    #[must_use]
    pub const fn fragment_offset(&self) -> usize {
        (u16_at::<{ field::FRAGMENT }, _>(self.header) & OFFSET_MASK) as usize
    }

    /// Fragment header: whether more fragments follow.
    #[inline]
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        u16_at::<{ field::FRAGMENT }, _>(self.header) & MORE_FRAGMENTS != 0
    }
}
