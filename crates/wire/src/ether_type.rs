//! EtherTypes: what follows an Ethernet header, a VLAN tag, or a tunnel header that uses them
//! (IANA, IEEE 802 Numbers).

/// IPv4.
pub const IPV4: u16 = 0x0800;
/// ARP.
pub const ARP: u16 = 0x0806;
/// Transparent Ethernet Bridging: a whole Ethernet frame (RFC 1701, RFC 7637).
pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
/// RARP.
pub const RARP: u16 = 0x8035;
/// VLAN tag, customer (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// WCCP redirection in GRE, an IPv4 packet after an optional header.
pub const WCCP: u16 = 0x883e;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// PPP in GRE (RFC 2637 section 4.1).
pub const PPP: u16 = 0x880b;
/// MPLS, downstream-assigned label (RFC 5332).
pub const MPLS: u16 = 0x8847;
/// MPLS, upstream-assigned label (RFC 5332).
pub const MPLS_UPSTREAM: u16 = 0x8848;
/// PPPoE discovery stage (RFC 2516).
pub const PPPOE_DISCOVERY: u16 = 0x8863;
/// PPPoE session stage (RFC 2516).
pub const PPPOE_SESSION: u16 = 0x8864;
/// VLAN tag, service provider (IEEE 802.1ad).
pub const SERVICE_VLAN: u16 = 0x88a8;
/// ERSPAN types I and II in GRE.
pub const ERSPAN: u16 = 0x88be;
/// ERSPAN type III in GRE.
pub const ERSPAN_3: u16 = 0x22eb;
/// Stacked VLAN tag from before IEEE 802.1ad.
pub const STACKED_VLAN: u16 = 0x9100;

/// Smallest EtherType; a lower value is the length of an IEEE 802.3 frame.
pub const LEAST: u16 = 0x0600;
