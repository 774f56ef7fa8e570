//! Linux cooked capture headers, version 1 and 2 (LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2).

use crate::field::u16_at;
use crate::view::view;

mod sll {
    pub(super) const LENGTH: usize = 16;
    pub(super) const HARDWARE_TYPE: usize = 2;
    pub(super) const PROTOCOL: usize = 14;
}

mod sll2 {
    pub(super) const LENGTH: usize = 20;
    pub(super) const PROTOCOL: usize = 0;
    pub(super) const HARDWARE_TYPE: usize = 8;
}

/// ARPHRD numbers of devices on which the protocol field is not an EtherType.
mod hardware {
    pub(super) const FRAME_RELAY_ACCESS: u16 = 770;
    pub(super) const IEEE_802_11_RADIOTAP: u16 = 803;
    pub(super) const NETLINK: u16 = 824;
}

/// Protocol value of an IEEE 802.2 LLC frame, below the EtherTypes.
const PROTOCOL_LLC: u16 = 0x0004;

/// The protocol field of a cooked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// An EtherType (on a GRE device GRE's protocol type, which uses the same numbers).
    EtherType(u16),
    /// An LLC header follows.
    Llc,
    /// A number of another kind (netlink family, raw 802.3, CAN and others).
    Other,
}

view! {
    /// View of a version 1 header.
    pub struct LinuxSll(sll::LENGTH);
}

impl LinuxSll<'_> {
    /// What follows.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        protocol(
            u16_at::<{ sll::HARDWARE_TYPE }, _>(self.0),
            u16_at::<{ sll::PROTOCOL }, _>(self.0),
        )
    }
}

view! {
    /// View of a version 2 header.
    pub struct LinuxSll2(sll2::LENGTH);
}

impl LinuxSll2<'_> {
    /// What follows.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        protocol(
            u16_at::<{ sll2::HARDWARE_TYPE }, _>(self.0),
            u16_at::<{ sll2::PROTOCOL }, _>(self.0),
        )
    }
}

const fn protocol(hardware_type: u16, protocol: u16) -> Protocol {
    match hardware_type {
        hardware::FRAME_RELAY_ACCESS | hardware::IEEE_802_11_RADIOTAP | hardware::NETLINK => {
            Protocol::Other
        }
        _ if protocol >= crate::ether_type::LEAST => Protocol::EtherType(protocol),
        _ if protocol == PROTOCOL_LLC => Protocol::Llc,
        _ => Protocol::Other,
    }
}
