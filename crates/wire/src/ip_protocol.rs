//! IP protocol numbers (IANA).

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP.
pub const ICMP: u8 = 1;
/// IPv4 within IP (RFC 2003).
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 within IP (RFC 4213).
pub const IPV6: u8 = 41;
/// IPv6 routing header.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// Authentication header.
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// IPv6 destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// IPv6 mobility header.
pub const MOBILITY: u8 = 135;
/// MPLS within IP (RFC 4023).
pub const MPLS: u8 = 137;
/// Host identity protocol.
pub const HOST_IDENTITY: u8 = 139;
/// Shim6.
pub const SHIM6: u8 = 140;

/// Whether the walk parses what follows the IP header: ports, an ICMP type, a tunnelled packet, or what an
/// authentication header precedes. (For IPv4, where the numbers of other IPv6 extension headers are
/// payload.)
#[inline]
#[must_use]
pub const fn is_looked_into(protocol: u8) -> bool {
    matches!(
        protocol,
        TCP | UDP | SCTP | ICMP | ICMPV6 | IPV4 | IPV6 | GRE | MPLS | AUTHENTICATION
    )
}
