//! GENEVE header (RFC 8926 section 3.4).

use crate::ether_type;
use crate::field::{byte, u16_at, u24_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 8;
    pub(super) const VERSION_AND_LENGTH: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
    pub(super) const NETWORK: usize = 4;
}

/// Bits of the first byte that are the length of the options, in units of 4 bytes.
const OPTIONS_MASK: u8 = 0x3f;
/// Bits of the second byte that have no meaning.
const RESERVED_MASK: u8 = 0x3f;
/// Bits of the first byte below the version.
const VERSION_SHIFT: u8 = 6;

view! {
    /// View of the fixed part of a GENEVE header; [`Geneve::options_length`] more bytes belong to it.
    pub struct Geneve(field::LENGTH);
}

impl Geneve<'_> {
    /// Whether a header that begins with `start` is as senders must write it: the port may be a client's,
    /// who talks something else.
    #[must_use]
    pub const fn is_strict_start([lengths, flags, high, low]: [u8; 4]) -> bool {
        let protocol = u16::from_be_bytes([high, low]);
        lengths >> VERSION_SHIFT == 0
            && flags & RESERVED_MASK == 0
            && matches!(
                protocol,
                ether_type::TRANSPARENT_ETHERNET
                    | ether_type::IPV4
                    | ether_type::IPV6
                    | ether_type::ARP
                    | ether_type::MPLS
                    | ether_type::MPLS_UPSTREAM
            )
    }

    /// Version: 0.
    #[must_use]
    pub const fn version(&self) -> u8 {
        byte::<{ field::VERSION_AND_LENGTH }, _>(self.0) >> VERSION_SHIFT
    }

    /// Bytes of options.
    #[must_use]
    pub const fn options_length(&self) -> usize {
        (byte::<{ field::VERSION_AND_LENGTH }, _>(self.0) & OPTIONS_MASK) as usize * 4
    }

    /// EtherType of the payload.
    #[must_use]
    pub const fn protocol(&self) -> u16 {
        u16_at::<{ field::PROTOCOL }, _>(self.0)
    }

    /// Network identifier, 24 bits.
    #[must_use]
    pub const fn network(&self) -> u32 {
        u24_at::<{ field::NETWORK }, _>(self.0)
    }
}
