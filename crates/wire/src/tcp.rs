//! TCP header (RFC 9293 section 3.1) and its options (section 3.2).

use crate::field::{byte, u16_at, u32_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 20;
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ACKNOWLEDGEMENT: usize = 8;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
}

/// The control bits, as they stand in the flags byte.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

view! {
    /// View of the fixed part of a TCP header; options, if any, stay in front of what follows.
    pub struct Tcp(field::LENGTH);
}

impl Tcp<'_> {
    /// Length and control bits of a header of which only `bytes` were captured: the shortest, and
    /// none, where they are not among them.
    #[must_use]
    pub(crate) fn of_part(bytes: &[u8]) -> (usize, u8) {
        let length = bytes
            .get(field::DATA_OFFSET)
            .map_or(0, |byte| usize::from(byte >> 4) * 4);
        let flags = bytes.get(field::FLAGS).copied().unwrap_or_default();
        (length.max(Self::LENGTH), flags)
    }

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

    /// Sequence number of the first byte of data.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        u32_at::<{ field::SEQUENCE }, _>(self.0)
    }

    /// Sequence number that the sender expects next.
    #[must_use]
    pub const fn acknowledgement(&self) -> u32 {
        u32_at::<{ field::ACKNOWLEDGEMENT }, _>(self.0)
    }

    /// Header length in bytes, with options; a valid one has at least [`Tcp::LENGTH`].
    #[inline]
    #[must_use]
    pub const fn header_length(&self) -> usize {
        (byte::<{ field::DATA_OFFSET }, _>(self.0) >> 4) as usize * 4
    }

    /// Control bits, CWR to FIN: see [`flag`].
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> u8 {
        byte::<{ field::FLAGS }, _>(self.0)
    }

    /// Window, not scaled.
    #[must_use]
    pub const fn window(&self) -> u16 {
        u16_at::<{ field::WINDOW }, _>(self.0)
    }
}

/// One TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// Option kind.
    pub kind: u8,
    /// The bytes after kind and length.
    pub data: &'a [u8],
}

/// The options of a TCP header, without padding; ends at the end of the list, or silently at an
/// option whose length is wrong.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions<'a>(&'a [u8]);

impl<'a> TcpOptions<'a> {
    /// Option kind that ends the list.
    const END: u8 = 0;
    /// Option kind that is one byte of padding.
    const NO_OPERATION: u8 = 1;
    /// Bytes of kind and length.
    const HEAD: usize = 2;

    /// The options in `bytes`, which stand between the fixed header and the data.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.0.split_first()?;
            match kind {
                Self::NO_OPERATION => self.0 = rest,
                Self::END => return None,
                _ => {
                    let length = usize::from(*rest.first()?);
                    let (option, rest) = self.0.split_at_checked(length).unwrap_or_default();
                    self.0 = rest;
                    let Some(data) = option.get(Self::HEAD..) else {
                        self.0 = &[];
                        return None;
                    };
                    return Some(TcpOption { kind, data });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_at_the_first_invalid_length() {
        // MSS 1460, NOP, window scale 7, then an option of length 1, which cannot be (RFC 9293 3.2).
        let bytes = [2, 4, 0x05, 0xb4, 1, 3, 3, 7, 8, 1, 0, 0];
        let options: Vec<_> = TcpOptions::new(&bytes).map(|o| (o.kind, o.data)).collect();
        assert_eq!(options, [(2, &[0x05, 0xb4][..]), (3, &[7][..])]);
    }

    #[test]
    fn options_end_at_the_end_of_the_list() {
        let bytes = [1, 1, 0, 2, 4, 0x05, 0xb4];
        assert_eq!(TcpOptions::new(&bytes).count(), 0);
    }
}
