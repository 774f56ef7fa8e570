//! Faults in packet headers.

use crate::named::named;

named! {
    /// A fault in a packet; the first one that the walk finds is reported.
    ///
    /// A header counts as truncated only if the packet itself ends inside it: what the snaplen cut
    /// off is no fault of the packet. Faults in tunnels and what they carry are found only
    /// by [`Decapsulate::Innermost`](crate::Decapsulate::Innermost), those after MPLS and PPPoE
    /// only by [`Decapsulate::Link`](crate::Decapsulate::Link) and deeper. A UDP port does not prove a
    /// tunnel, nor does a pseudowire say what it carries: faults behind them count if the tunnel's header
    /// is right in every bit, or if an IP header was found inside.
    pub enum Malformed {
        /// The frame ends inside its link-layer header (Ethernet, PPP, cooked, loopback).
        LinkHeaderTruncated => "link_header_truncated",
        /// The frame ends inside a VLAN tag (IEEE 802.1Q).
        VlanTruncated => "vlan_truncated",
        /// More VLAN tags than [`MAX_VLAN_TAGS`](crate::MAX_VLAN_TAGS).
        VlanTooManyTags => "vlan_too_many_tags",
        /// An IEEE 802.3 length says more bytes than follow it.
        LlcLengthTooLong => "llc_length_too_long",
        /// The frame ends inside its LLC or SNAP header.
        LlcTruncated => "llc_truncated",
        /// The frame ends inside its MPLS labels, before one that is the bottom of the stack.
        MplsTruncated => "mpls_truncated",
        /// More MPLS labels than [`MAX_MPLS_LABELS`](crate::MAX_MPLS_LABELS).
        MplsTooManyLabels => "mpls_too_many_labels",
        /// The frame ends inside its PPPoE header.
        PppoeTruncated => "pppoe_truncated",
        /// PPPoE version or type is not 1 (RFC 2516 section 4).
        PppoeBadVersion => "pppoe_bad_version",
        /// The PPPoE length says more bytes than follow it.
        PppoeLengthTooLong => "pppoe_length_too_long",
        /// The packet ends inside its PPP protocol field.
        PppTruncated => "ppp_truncated",
        /// A packet that must be IP by its link type begins with neither version 4 nor 6.
        IpVersionUnknown => "ip_version_unknown",
        /// The packet ends inside the 20 bytes of an IPv4 header.
        Ipv4Truncated => "ipv4_truncated",
        /// Announced as IPv4, but its version is not 4.
        Ipv4BadVersion => "ipv4_bad_version",
        /// The IPv4 header length is below 20 bytes (RFC 791 section 3.1).
        Ipv4HeaderLengthTooShort => "ipv4_header_length_too_short",
        /// The IPv4 header with its options is longer than the packet.
        Ipv4HeaderLengthTooLong => "ipv4_header_length_too_long",
        /// The IPv4 total length is below the header length; 0 is none (segmentation offload).
        Ipv4TotalLengthTooShort => "ipv4_total_length_too_short",
        /// The IPv4 total length is more than was on the wire.
        Ipv4TotalLengthTooLong => "ipv4_total_length_too_long",
        /// An IPv4 fragment ends beyond the 65,535 bytes that a datagram can have.
        Ipv4FragmentTooFar => "ipv4_fragment_too_far",
        /// The IPv4 packet ends inside an authentication header (RFC 4302).
        AuthenticationTruncated => "authentication_truncated",
        /// More authentication headers in IPv4 than
        /// [`MAX_EXTENSION_HEADERS`](crate::MAX_EXTENSION_HEADERS).
        AuthenticationTooMany => "authentication_too_many",
        /// The packet ends inside the 40 bytes of an IPv6 header.
        Ipv6Truncated => "ipv6_truncated",
        /// Announced as IPv6, but its version is not 6.
        Ipv6BadVersion => "ipv6_bad_version",
        /// The IPv6 payload length is more than was on the wire.
        Ipv6PayloadLengthTooLong => "ipv6_payload_length_too_long",
        /// The packet ends inside an IPv6 extension header.
        Ipv6ExtensionTruncated => "ipv6_extension_truncated",
        /// A hop-by-hop options header that is not the first one (RFC 8200 section 4.1).
        Ipv6HopByHopNotFirst => "ipv6_hop_by_hop_not_first",
        /// More extension headers in a frame than
        /// [`MAX_EXTENSION_HEADERS`](crate::MAX_EXTENSION_HEADERS).
        Ipv6TooManyExtensions => "ipv6_too_many_extensions",
        /// An IPv6 fragment ends beyond the 65,535 bytes that a payload can have.
        Ipv6FragmentTooFar => "ipv6_fragment_too_far",
        /// The packet ends inside the 20 bytes of a TCP header.
        TcpTruncated => "tcp_truncated",
        /// The TCP data offset is below 5 words (RFC 9293 section 3.1).
        TcpDataOffsetTooShort => "tcp_data_offset_too_short",
        /// The TCP header with its options is longer than the packet.
        TcpDataOffsetTooLong => "tcp_data_offset_too_long",
        /// The packet ends inside the 8 bytes of a UDP header.
        UdpTruncated => "udp_truncated",
        /// The UDP length is below 8 (RFC 768).
        UdpLengthTooShort => "udp_length_too_short",
        /// The UDP length says more bytes than the packet has.
        UdpLengthTooLong => "udp_length_too_long",
        /// The packet ends inside the 12 bytes of the SCTP common header.
        SctpTruncated => "sctp_truncated",
        /// The packet ends inside the type, code and checksum of ICMP or ICMPv6.
        IcmpTruncated => "icmp_truncated",
        /// The packet ends inside its GRE header or the fields that its flags announce.
        GreTruncated => "gre_truncated",
        /// A GRE version other than 0 (RFC 2784) and 1 (PPTP, RFC 2637).
        GreBadVersion => "gre_bad_version",
        /// More GRE source routes (RFC 1701) than
        /// [`MAX_EXTENSION_HEADERS`](crate::MAX_EXTENSION_HEADERS).
        GreTooManyRoutes => "gre_too_many_routes",
        /// The packet ends inside its ERSPAN header.
        ErspanTruncated => "erspan_truncated",
        /// The packet ends inside its VXLAN header.
        VxlanTruncated => "vxlan_truncated",
        /// The packet ends inside its GENEVE header or options.
        GeneveTruncated => "geneve_truncated",
        /// The packet ends inside its GTP-U header or extension headers.
        GtpUTruncated => "gtp_u_truncated",
        /// A GTP-U extension header of length 0 (3GPP TS 29.281 section 5.2.1).
        GtpUExtensionEmpty => "gtp_u_extension_empty",
        /// More GTP-U extension headers than
        /// [`MAX_EXTENSION_HEADERS`](crate::MAX_EXTENSION_HEADERS).
        GtpUTooManyExtensions => "gtp_u_too_many_extensions",
        /// The packet ends inside a Teredo authentication or origin header.
        TeredoTruncated => "teredo_truncated",
        /// The Ethernet header that a tunnel or a pseudowire carries is cut off.
        InnerEthernetTruncated => "inner_ethernet_truncated",
        /// More encapsulations than [`MAX_ENCAPSULATIONS`](crate::MAX_ENCAPSULATIONS).
        EncapsulationTooDeep => "encapsulation_too_deep",
    }
}
