//! Ethernet header (IEEE 802.3 clause 3, with an EtherType or a length).

use crate::field::{bytes_at, u16_at};
use crate::packet::{Cut, Packet};

mod field {
    pub(super) const LENGTH: usize = 14;
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 6;
    pub(super) const ETHER_TYPE: usize = 12;
}

/// View of an Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a>(&'a [u8; field::LENGTH]);

impl<'a> Ethernet<'a> {
    /// Bytes of the header, without preamble.
    pub const LENGTH: usize = field::LENGTH;

    /// Splits the header off.
    ///
    /// # Errors
    /// [`Cut`] where it is not whole.
    #[inline]
    pub fn split(packet: Packet<'a>) -> Result<(Self, Packet<'a>), Cut> {
        let (header, rest) = packet.split()?;
        Ok((Self(header), rest))
    }

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
