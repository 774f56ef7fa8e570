//! The names of IP protocols.

/// Returns the name of a well-known IP protocol.
pub(crate) fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        0 => "hopopt",
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        41 => "ipv6",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        58 => "icmp6",
        88 => "eigrp",
        89 => "ospf",
        103 => "pim",
        112 => "vrrp",
        132 => "sctp",
        _ => return None,
    })
}
