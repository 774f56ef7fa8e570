//! The walk over the headers of one frame, from the link type to the transport header.

use crate::{FlowKey, LinkType};

/// How far to look into a packet that carries another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decapsulate {
    /// The outermost IP header that stands behind a link-layer header and VLAN tags.
    #[default]
    No,
    /// Also behind MPLS labels and PPPoE, the outermost IP header there.
    Link,
    /// The innermost IP header: through MPLS, PPPoE, IP in IP, GRE, VXLAN, GENEVE and GTP-U.
    Innermost,
}

/// Whether a packet is a fragment, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Not fragmented.
    #[default]
    No,
    /// An IPv6 fragment header with nothing fragmented (RFC 6946).
    Atomic,
    /// The first fragment, with the transport header.
    First,
    /// A later fragment, without a transport header: its ports are 0.
    Later,
}

/// Why a packet belongs to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoFlow {
    /// ARP or RARP.
    Arp,
    /// MPLS labels, and `Decapsulate::No`.
    Mpls,
    /// PPPoE, and `Decapsulate::No`, or a stage of PPPoE that carries no packet.
    Pppoe,
    /// IEEE 802.3 with a length instead of an EtherType (LLC: spanning tree and others).
    Llc,
    /// Any other protocol above the link layer.
    OtherProtocol,
    /// A link type that flowatch does not read.
    UnknownLink,
    /// A header that must be there for a key is damaged: see [`Malformed`].
    Malformed,
    /// A header that must be there for a key lies beyond the captured bytes (snap length).
    Truncated,
}

/// What is wrong in a packet; the first fault that the walk meets is the one told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Malformed {
    /// The frame ends inside its link-layer header.
    LinkHeaderTruncated,
}

/// What the headers of a frame say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers {
    /// The 5-tuple and VLAN tags; meaningful where `no_flow` is `None`.
    pub key: FlowKey,
    /// Why there is no key.
    pub no_flow: Option<NoFlow>,
    /// The fault in the packet, if one was met. A packet can be malformed and have a key.
    pub malformed: Option<Malformed>,
    /// Whether the transport header is cut off by the snap length, so that ports or TCP flags are 0.
    pub truncated: bool,
    /// Fragment or not.
    pub fragment: Fragment,
    /// TCP control bits (CWR to FIN), 0 where there is no TCP header.
    pub tcp_flags: u8,
    /// ICMP type (high byte) and code (low byte), as in icmpTypeCodeIPv4 and icmpTypeCodeIPv6.
    pub icmp_type_code: u16,
}

/// Reads the headers of `frame`, of which `wire_length` bytes were on the wire.
#[must_use]
pub fn dissect(
    _link: LinkType,
    _frame: &[u8],
    _wire_length: u32,
    _decapsulate: Decapsulate,
) -> Headers {
    Headers {
        no_flow: Some(NoFlow::UnknownLink),
        ..Headers::default()
    }
}
