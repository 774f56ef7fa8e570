//! Link types: which header a captured frame begins with.

/// The link-layer header types that flowatch reads; the numbers are libpcap's LINKTYPE_ values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// BSD loopback, a protocol family in the byte order of the capturing host (LINKTYPE_NULL, 0).
    Null,
    /// Ethernet (LINKTYPE_ETHERNET, 1).
    Ethernet,
    /// PPP (LINKTYPE_PPP, 9), with or without address and control bytes.
    Ppp,
    /// PPP in HDLC-like framing (LINKTYPE_PPP_HDLC, 50).
    PppHdlc,
    /// An IPv4 or IPv6 packet with nothing before it (LINKTYPE_RAW, 101; also 12 and 14).
    Raw,
    /// OpenBSD loopback, a protocol family in network byte order (LINKTYPE_LOOP, 108).
    Loop,
    /// Linux cooked capture (LINKTYPE_LINUX_SLL, 113).
    LinuxSll,
    /// An IPv4 packet with nothing before it (LINKTYPE_IPV4, 228).
    Ipv4,
    /// An IPv6 packet with nothing before it (LINKTYPE_IPV6, 229).
    Ipv6,
    /// Linux cooked capture, version 2 (LINKTYPE_LINUX_SLL2, 276).
    LinuxSll2,
    /// Any other: its frames are counted, and it is reported once.
    Other(u16),
}

impl LinkType {
    /// The link type with libpcap's number `value`, as in a pcap or pcapng header.
    #[must_use]
    pub const fn from_linktype(value: u16) -> Self {
        match value {
            0 => Self::Null,
            1 => Self::Ethernet,
            9 => Self::Ppp,
            50 => Self::PppHdlc,
            12 | 14 | 101 => Self::Raw,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }

    /// libpcap's number for this link type.
    #[must_use]
    pub const fn linktype(self) -> u16 {
        match self {
            Self::Null => 0,
            Self::Ethernet => 1,
            Self::Ppp => 9,
            Self::PppHdlc => 50,
            Self::Raw => 101,
            Self::Loop => 108,
            Self::LinuxSll => 113,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::LinuxSll2 => 276,
            Self::Other(other) => other,
        }
    }
}
