//! The start that all messages of ICMP (RFC 792) and ICMPv6 (RFC 4443 section 2.1) share.

use crate::field::{byte, u16_at};
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 4;
    pub(super) const TYPE: usize = 0;
    pub(super) const TYPE_AND_CODE: usize = 0;
    pub(super) const CODE: usize = 1;
}

/// For [`Icmp::type_code`] of a packet of which it is not known: a later fragment, or cut off. (Type
/// 255 is reserved.)
pub const UNKNOWN: u16 = u16::MAX;

view! {
    /// View of type, code and checksum.
    pub struct Icmp(field::LENGTH);
}

impl Icmp<'_> {
    /// Message type.
    #[must_use]
    pub const fn message_type(&self) -> u8 {
        byte::<{ field::TYPE }, _>(self.0)
    }

    /// Code within the type.
    #[must_use]
    pub const fn code(&self) -> u8 {
        byte::<{ field::CODE }, _>(self.0)
    }

    /// Type in the high byte and code in the low one (IPFIX icmpTypeCodeIPv4, icmpTypeCodeIPv6).
    #[inline]
    #[must_use]
    pub const fn type_code(&self) -> u16 {
        u16_at::<{ field::TYPE_AND_CODE }, _>(self.0)
    }
}

/// The ICMP type that answers `message_type`, or that it answers; `None` for one without a
/// counterpart (an error message, a redirect).
#[must_use]
pub const fn counterpart(message_type: u8) -> Option<u8> {
    Some(match message_type {
        0 => 8, // Echo reply, echo
        8 => 0,
        9 => 10, // Router advertisement, solicitation (RFC 1256)
        10 => 9,
        13 => 14, // Timestamp
        14 => 13,
        15 => 16, // Information
        16 => 15,
        17 => 18, // Address mask (RFC 950)
        18 => 17,
        _ => return None,
    })
}

/// The same for ICMPv6.
#[must_use]
pub const fn counterpart_v6(message_type: u8) -> Option<u8> {
    Some(match message_type {
        128 => 129, // Echo
        129 => 128,
        130 => 131, // Multicast listener query and report (RFC 2710)
        131 => 130,
        133 => 134, // Router solicitation, advertisement (RFC 4861)
        134 => 133,
        135 => 136, // Neighbour solicitation, advertisement
        136 => 135,
        139 => 140, // Node information (RFC 4620)
        140 => 139,
        144 => 145, // Home agent address discovery (RFC 6275)
        145 => 144,
        _ => return None,
    })
}
