//! The headers of one frame, from the link type to the transport header.

use crate::{FlowKey, Malformed, NoFlow};

/// How far to look into encapsulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decapsulate {
    /// Stops at the outermost IP header, after the link-layer header and VLAN tags.
    #[default]
    No,
    /// Also looks through MPLS labels and PPPoE, to the outermost IP header there.
    Link,
    /// Walks to the innermost IP header: through MPLS, PPPoE, IP in IP, GRE, VXLAN, GENEVE, GTP-U and Teredo.
    /// (The authentication header, RFC 4302, is no tunnel: it is always walked.)
    ///
    /// A fragment of a tunnel's packet is not opened, so that all fragments of one packet stay in
    /// one flow. Where the packet inside is damaged, cut off or of another kind, the last good
    /// IP header before it gives the key.
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

/// The parsed headers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The 5-tuple and VLAN tags; meaningful where `no_flow` is `None`.
    ///
    /// The VLAN tags are the first two of the Ethernet frame that directly holds the IP header, the
    /// outer one first; an IP header in another one has the tags of the outer one's frame.
    pub key: FlowKey,
    /// Why there is no key.
    pub no_flow: Option<NoFlow>,
    /// The fault in the packet, if one was met. A packet can be malformed and have a key.
    pub malformed: Option<Malformed>,
    /// Whether the snaplen cut off a header after the one that gave the key: the
    /// transport header, so that ports or TCP flags may be 0, or that of a tunnel to look through.
    pub truncated: bool,
    /// Fragment or not.
    pub fragment: Fragment,
    /// TCP control bits (CWR to FIN), 0 where there is no TCP header.
    pub tcp_flags: u8,
    /// ICMP type (high byte) and code (low byte), as in icmpTypeCodeIPv4 and icmpTypeCodeIPv6, or
    /// [`icmp::UNKNOWN`](crate::icmp::UNKNOWN); 0 in other protocols.
    pub icmp_type_code: u16,
    /// Offsets of its parts.
    pub outline: Outline,
}

/// Offsets in the frame of the packet that gave the key, and its encapsulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Offset of its IP header.
    pub network: u32,
    /// Offset of its TCP or UDP header, if `transport_protocol` is not 0.
    pub transport: u32,
    /// 6 or 17 where a whole TCP or UDP header was captured, else 0.
    pub transport_protocol: u8,
    /// Offset of its payload: after the TCP or UDP header, or else after the IP header.
    pub payload: u32,
    /// Bytes of the payload on the wire, without padding and trailers.
    pub payload_length: u32,
    /// The innermost encapsulation around its IP header. One that holds no IP packet does not count.
    pub tunnel: Tunnel,
    /// The top label of the last MPLS stack before its IP header, with [`Outline::MPLS_PRESENT`]; 0 for
    /// none.
    pub mpls_label: u32,
}

impl Outline {
    /// Set in `mpls_label` when there is one.
    pub const MPLS_PRESENT: u32 = 1 << 31;
}

/// The encapsulation of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Tunnel {
    /// Nothing.
    #[default]
    None,
    /// MPLS labels (RFC 3032).
    Mpls,
    /// PPP over Ethernet (RFC 2516).
    Pppoe,
    /// IP within IP (RFC 2003, RFC 4213).
    IpInIp,
    /// GRE (RFC 2784, RFC 2637).
    Gre,
    /// VXLAN or VXLAN-GPE (RFC 7348).
    Vxlan,
    /// GENEVE (RFC 8926).
    Geneve,
    /// GTP-U (3GPP TS 29.281).
    GtpU,
    /// Teredo (RFC 4380).
    Teredo,
}

impl Tunnel {
    /// All of them, by number.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Mpls,
        Self::Pppoe,
        Self::IpInIp,
        Self::Gre,
        Self::Vxlan,
        Self::Geneve,
        Self::GtpU,
        Self::Teredo,
    ];

    /// Its name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mpls => "mpls",
            Self::Pppoe => "pppoe",
            Self::IpInIp => "ip-in-ip",
            Self::Gre => "gre",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::GtpU => "gtp-u",
            Self::Teredo => "teredo",
        }
    }
}
