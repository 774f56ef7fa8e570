//! Offsets of the fields in simple frames: those of the IP header from the start of the frame, those of
//! the transport header from its start.

use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;

pub(super) const ETHER_TYPE: usize = 12;
/// The VLAN tag, if there is one.
pub(super) const VLAN: usize = 14;
/// The IP header.
pub(super) const NETWORK: usize = 14;

/// IPv4 without options.
pub(super) mod ipv4 {
    use super::{Ipv4, NETWORK};

    pub(in crate::fast) const VERSION_AND_LENGTH: usize = NETWORK;
    pub(in crate::fast) const TYPE_OF_SERVICE: usize = NETWORK + 1;
    pub(in crate::fast) const TOTAL_LENGTH: usize = NETWORK + 2;
    pub(in crate::fast) const IDENTIFICATION: usize = NETWORK + 4;
    /// Flags and fragment offset.
    pub(in crate::fast) const FRAGMENT: usize = NETWORK + 6;
    pub(in crate::fast) const TIME_TO_LIVE: usize = NETWORK + 8;
    pub(in crate::fast) const PROTOCOL: usize = NETWORK + 9;
    pub(in crate::fast) const DESTINATION: usize = NETWORK + 16;
    pub(in crate::fast) const TRANSPORT: usize = NETWORK + Ipv4::LENGTH;
}

/// IPv6 without extension headers.
pub(super) mod ipv6 {
    use super::{Ipv6, NETWORK};

    /// Version, traffic class and the start of the flow label.
    pub(in crate::fast) const VERSION_AND_CLASS: usize = NETWORK;
    pub(in crate::fast) const PAYLOAD_LENGTH: usize = NETWORK + 4;
    pub(in crate::fast) const NEXT_HEADER: usize = NETWORK + 6;
    pub(in crate::fast) const HOP_LIMIT: usize = NETWORK + 7;
    pub(in crate::fast) const SOURCE: usize = NETWORK + 8;
    pub(in crate::fast) const DESTINATION: usize = NETWORK + 24;
    pub(in crate::fast) const TRANSPORT: usize = NETWORK + Ipv6::LENGTH;
}

/// TCP or UDP.
pub(super) mod transport {
    /// Both ports.
    pub(in crate::fast) const PORTS: usize = 0;
    pub(in crate::fast) const DESTINATION_PORT: usize = 2;
    pub(in crate::fast) const UDP_LENGTH: usize = 4;
    /// TCP sequence and acknowledgement number.
    pub(in crate::fast) const NUMBERS: usize = 4;
    pub(in crate::fast) const TCP_DATA_OFFSET: usize = 12;
    pub(in crate::fast) const TCP_FLAGS: usize = 13;
    pub(in crate::fast) const TCP_WINDOW: usize = 14;
}
