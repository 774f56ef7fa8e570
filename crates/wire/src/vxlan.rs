//! VXLAN header (RFC 7348 section 5), with the next-protocol field of VXLAN-GPE
//! (draft-ietf-nvo3-vxlan-gpe-12 section 3).

use crate::field::{byte, u24_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 8;
    pub(super) const FLAGS: usize = 0;
    pub(super) const NEXT_PROTOCOL: usize = 3;
    pub(super) const NETWORK: usize = 4;
}

/// Flag: the network identifier is valid; set in every VXLAN header.
const FLAG_NETWORK: u8 = 0x08;
/// Flag of VXLAN-GPE: the next-protocol field is valid.
const FLAG_NEXT_PROTOCOL: u8 = 0x04;

/// What follows a VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An Ethernet frame: always in VXLAN without GPE.
    Ethernet,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// Anything else.
    Other,
}

view! {
    /// View of a VXLAN header.
    pub struct Vxlan(field::LENGTH);
}

impl Vxlan<'_> {
    /// Whether a header that begins with `start` is as RFC 7348 has it: the port may be a client's, who
    /// talks something else.
    #[must_use]
    pub const fn is_strict_start(start: [u8; 4]) -> bool {
        matches!(start, [FLAG_NETWORK, 0, 0, 0])
    }

    /// The same of VXLAN-GPE, with a next protocol or without.
    #[must_use]
    pub const fn is_strict_gpe_start(start: [u8; 4]) -> bool {
        const WITH_PROTOCOL: u8 = FLAG_NETWORK | FLAG_NEXT_PROTOCOL;
        matches!(start, [WITH_PROTOCOL, 0, 0, 1..=3]) || Self::is_strict_start(start)
    }

    /// Whether the flag that every VXLAN header must have is set.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        byte::<{ field::FLAGS }, _>(self.0) & FLAG_NETWORK != 0
    }

    /// Network identifier, 24 bits.
    #[must_use]
    pub const fn network(&self) -> u32 {
        u24_at::<{ field::NETWORK }, _>(self.0)
    }

    /// What follows, read as VXLAN-GPE.
    #[must_use]
    pub const fn next(&self) -> Next {
        if byte::<{ field::FLAGS }, _>(self.0) & FLAG_NEXT_PROTOCOL == 0 {
            return Next::Ethernet;
        }
        match byte::<{ field::NEXT_PROTOCOL }, _>(self.0) {
            1 => Next::Ipv4,
            2 => Next::Ipv6,
            3 => Next::Ethernet,
            _ => Next::Other,
        }
    }
}
