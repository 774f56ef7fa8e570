//! UDP header (RFC 768).

use crate::field::u16_at;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 8;
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const TOTAL_LENGTH: usize = 4;
}

/// UDP ports of tunnels (IANA service names).
pub mod port {
    /// GTP-U (3GPP TS 29.281).
    pub const GTP_U: u16 = 2152;
    /// Teredo (RFC 4380).
    pub const TEREDO: u16 = 3544;
    /// VXLAN (RFC 7348).
    pub const VXLAN: u16 = 4789;
    /// VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
    pub const VXLAN_GPE: u16 = 4790;
    /// GENEVE (RFC 8926).
    pub const GENEVE: u16 = 6081;
    /// MPLS in UDP (RFC 7510).
    pub const MPLS: u16 = 6635;
    /// VXLAN on Linux from before the port was assigned.
    pub const VXLAN_LINUX: u16 = 8472;
}

view! {
    /// View of a UDP header.
    pub struct Udp(field::LENGTH);
}

impl Udp<'_> {
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

    /// Bytes of header and data; 0 in a jumbogram (RFC 2675 section 4).
    #[inline]
    #[must_use]
    pub const fn total_length(&self) -> usize {
        u16_at::<{ field::TOTAL_LENGTH }, _>(self.0) as usize
    }
}
