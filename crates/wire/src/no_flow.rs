//! Why a packet belongs to no flow.

use crate::named::named;

named! {
    /// Why a packet belongs to no flow.
    pub enum NoFlow {
        /// ARP or RARP.
        Arp => "arp",
        /// MPLS labels, and `Decapsulate::No`.
        Mpls => "mpls",
        /// PPPoE, and `Decapsulate::No`, or a stage of PPPoE that carries no packet.
        Pppoe => "pppoe",
        /// IEEE 802.3 with a length instead of an EtherType (LLC: spanning tree and others), unless
        /// a SNAP header gives an EtherType.
        Llc => "llc",
        /// Any other protocol above the link layer.
        OtherProtocol => "other_protocol",
        /// A link type that flowatch does not read.
        UnknownLink => "unknown_link",
        /// A header needed for the key is malformed: see [`Malformed`](crate::Malformed).
        Malformed => "malformed",
        /// A header needed for the key is beyond the captured bytes (snaplen).
        Truncated => "truncated",
    }
}
