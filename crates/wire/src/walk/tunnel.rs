//! What tunnels put between the outer packet and the inner one.
//!
//! A tunnel that is known by its UDP port alone may be something else: where its header does not
//! look right, the walk ends without a fault.

use super::{Layer, Step, Walk};
use crate::geneve::Geneve;
use crate::gre::Gre;
use crate::gtp_u::{Fault, GtpU};
use crate::packet_view::{Cut, PacketView};
use crate::vxlan::{Next, Vxlan};
use crate::{Malformed, erspan, ether_type, teredo};

/// Bytes of the redirect header that version 2 of WCCP puts before the IPv4 packet.
const WCCP_REDIRECT_LENGTH: usize = 4;

impl Walk {
    pub(super) fn gre<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match Gre::split(packet) {
            Ok(split) => split,
            Err(cut) => return self.cut(cut, Malformed::GreTruncated),
        };
        let version = header.version();
        if version > 1 {
            return self.malformed(Malformed::GreBadVersion);
        }
        let rest = match header.skip_optional(rest) {
            Ok(rest) => rest,
            Err(cut) => return self.cut(cut, Malformed::GreTruncated),
        };
        match header.protocol() {
            // Without a sequence number PPTP only acknowledges.
            ether_type::PPP if version == 1 && !header.has_sequence() => None,
            ether_type::PPP => Some((Layer::Ppp, crate::ppp::without_address_and_control(rest))),
            _ if version == 1 => None,
            ether_type::TRANSPARENT_ETHERNET => Some((Layer::Ethernet, rest)),
            // Type I has no header of its own.
            ether_type::ERSPAN if !header.has_sequence() => Some((Layer::Ethernet, rest)),
            ether_type::ERSPAN => self.mirrored(erspan::skip_type_2(rest)),
            ether_type::ERSPAN_3 => self.mirrored(erspan::skip_type_3(rest)),
            ether_type::WCCP if rest.first_nibble() == Some(4) => Some((Layer::Ipv4, rest)),
            ether_type::WCCP => match rest.skip(WCCP_REDIRECT_LENGTH) {
                Ok(rest) => Some((Layer::Ipv4, rest)),
                Err(cut) => self.cut(cut, Malformed::GreTruncated),
            },
            protocol => self.carried(protocol, rest),
        }
    }

    fn mirrored<'a>(&mut self, rest: Result<PacketView<'a>, Cut>) -> Step<'a> {
        match rest {
            Ok(rest) => Some((Layer::Ethernet, rest)),
            Err(cut) => self.cut(cut, Malformed::ErspanTruncated),
        }
    }

    /// Follows the EtherType in a tunnel header. A value below the EtherTypes is invalid here: there is
    /// no frame whose length it could be.
    fn carried<'a>(&mut self, protocol: u16, rest: PacketView<'a>) -> Step<'a> {
        match protocol {
            ether_type::TRANSPARENT_ETHERNET => Some((Layer::Ethernet, rest)),
            ether_type::LEAST.. => Some((Layer::EtherType(protocol), rest)),
            _ => None,
        }
    }

    pub(super) fn vxlan<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match Vxlan::split(packet) {
            Ok((header, rest)) if header.is_valid() => Some((Layer::Ethernet, rest)),
            Ok(_) => None,
            Err(cut) => self.cut(cut, Malformed::VxlanTruncated),
        }
    }

    pub(super) fn vxlan_gpe<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match Vxlan::split(packet) {
            Ok((header, rest)) if header.is_valid() => match header.next() {
                Next::Ethernet => Some((Layer::Ethernet, rest)),
                Next::Ipv4 => Some((Layer::Ipv4, rest)),
                Next::Ipv6 => Some((Layer::Ipv6, rest)),
                Next::Other => None,
            },
            Ok(_) => None,
            Err(cut) => self.cut(cut, Malformed::VxlanTruncated),
        }
    }

    pub(super) fn geneve<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match Geneve::split(packet) {
            Ok((header, rest)) if header.version() == 0 => (header, rest),
            Ok(_) => return None,
            Err(cut) => return self.cut(cut, Malformed::GeneveTruncated),
        };
        match rest.skip(header.options_length()) {
            Ok(rest) => self.carried(header.protocol(), rest),
            Err(cut) => self.cut(cut, Malformed::GeneveTruncated),
        }
    }

    pub(super) fn gtp_u<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match GtpU::split(packet) {
            Ok((header, rest)) if header.is_packet() => (header, rest),
            Ok(_) => return None,
            Err(cut) => return self.cut(cut, Malformed::GtpUTruncated),
        };
        match header.skip_optional(rest.limit(header.payload_length())) {
            // A T-PDU may also be Ethernet, PPP or unstructured, which only the control plane knows.
            Ok(rest) if matches!(rest.first_nibble(), Some(4 | 6)) => Some((Layer::Ip, rest)),
            Ok(_) => None,
            Err(Fault::Cut(cut)) => self.cut(cut, Malformed::GtpUTruncated),
            Err(Fault::EmptyExtension) => self.malformed(Malformed::GtpUExtensionEmpty),
        }
    }

    pub(super) fn teredo<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match teredo::skip_indicators(packet) {
            Ok(rest) if rest.first_nibble() == Some(6) => Some((Layer::Ipv6, rest)),
            Ok(_) => None,
            Err(cut) => self.cut(cut, Malformed::TeredoTruncated),
        }
    }
}
