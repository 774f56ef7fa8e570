//! What tunnels put between the outer packet and the inner one.
//!
//! A tunnel that is known by its UDP port alone may be something else: where its header does not
//! look right, the walk ends without a fault.

use super::{Layer, MAX_EXTENSION_HEADERS, Step, Walk};
use crate::geneve::Geneve;
use crate::gre::{self, Gre};
use crate::gtp_u::{self, GtpU};
use crate::guess::{self, Content};
use crate::packet_view::{Cut, PacketView};
use crate::vxlan::{Next, Vxlan};
use crate::{Malformed, Tunnel, erspan, ether_type, teredo};

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
        let mut left = MAX_EXTENSION_HEADERS - self.extensions;
        let skipped = header.skip_optional(rest, &mut left);
        self.extensions = MAX_EXTENSION_HEADERS - left;
        let rest = match skipped {
            Ok(rest) => rest,
            Err(gre::Fault::Cut(cut)) => return self.cut(cut, Malformed::GreTruncated),
            Err(gre::Fault::TooManyRoutes) => return self.malformed(Malformed::GreTooManyRoutes),
        };
        let (layer, rest) = match header.protocol() {
            // Without a sequence number PPTP only acknowledges.
            ether_type::PPP if version == 1 && !header.has_sequence() => return None,
            ether_type::PPP => (Layer::Ppp, crate::ppp::without_address_and_control(rest)),
            _ if version == 1 => return None,
            // Type I of ERSPAN has no header of its own.
            ether_type::ERSPAN if !header.has_sequence() => (Layer::Ethernet, rest),
            ether_type::ERSPAN => match erspan::skip_type_2(rest) {
                Ok(rest) => (Layer::Ethernet, rest),
                Err(cut) => return self.cut(cut, Malformed::ErspanTruncated),
            },
            ether_type::ERSPAN_3 => match erspan::skip_type_3(rest) {
                Ok(rest) => (Layer::Ethernet, rest),
                Err(cut) => return self.cut(cut, Malformed::ErspanTruncated),
            },
            ether_type::WCCP => match skip_redirect(rest) {
                Ok(rest) => (Layer::Ipv4, rest),
                Err(cut) => return self.cut(cut, Malformed::GreTruncated),
            },
            protocol => match carried(protocol) {
                Some(layer) => (layer, rest),
                None => return None,
            },
        };
        self.open(Tunnel::Gre, layer, rest)
    }

    pub(super) fn vxlan<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match self.vxlan_header(packet, Vxlan::is_strict_start) {
            Some((header, rest)) if header.is_valid() => {
                self.open(Tunnel::Vxlan, Layer::Ethernet, rest)
            }
            _ => None,
        }
    }

    pub(super) fn vxlan_gpe<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = self.vxlan_header(packet, Vxlan::is_strict_gpe_start)?;
        if !header.is_valid() {
            return None;
        }
        let layer = match header.next() {
            Next::Ethernet => Layer::Ethernet,
            Next::Ipv4 => Layer::Ipv4,
            Next::Ipv6 => Layer::Ipv6,
            Next::Other => return None,
        };
        self.open(Tunnel::Vxlan, layer, rest)
    }

    /// Splits a VXLAN header off; `is_strict` says whether one that starts with four such bytes is no guess.
    fn vxlan_header<'a>(
        &mut self,
        packet: PacketView<'a>,
        is_strict: fn([u8; 4]) -> bool,
    ) -> Option<(Vxlan<'a>, PacketView<'a>)> {
        if packet
            .bytes()
            .first_chunk()
            .is_some_and(|start| is_strict(*start))
        {
            self.confirm();
        }
        match Vxlan::split(packet) {
            Ok(split) => Some(split),
            Err(cut) => {
                let _: Step<'_> = self.cut(cut, Malformed::VxlanTruncated);
                None
            }
        }
    }

    pub(super) fn geneve<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let start = packet.bytes().first_chunk();
        if start.is_some_and(|start| Geneve::is_strict_start(*start)) {
            self.confirm();
        }
        let (header, rest) = match Geneve::split(packet) {
            Ok((header, rest)) if header.version() == 0 => (header, rest),
            Ok(_) => return None,
            Err(cut) => return self.cut(cut, Malformed::GeneveTruncated),
        };
        match (
            rest.skip(header.options_length()),
            carried(header.protocol()),
        ) {
            (Ok(rest), Some(layer)) => self.open(Tunnel::Geneve, layer, rest),
            (Ok(_), None) => None,
            (Err(cut), _) => self.cut(cut, Malformed::GeneveTruncated),
        }
    }

    pub(super) fn gtp_u<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match GtpU::split(packet) {
            Ok((header, rest)) if header.is_packet() => (header, rest),
            Ok(_) => return None,
            Err(cut) => return self.cut(cut, Malformed::GtpUTruncated),
        };
        if header.is_strict() && header.payload_length() == rest.length() {
            self.confirm();
        }
        let mut left = MAX_EXTENSION_HEADERS - self.extensions;
        let skipped = header.skip_optional(rest.limit(header.payload_length()), &mut left);
        self.extensions = MAX_EXTENSION_HEADERS - left;
        let rest = match skipped {
            Ok(rest) => rest,
            Err(gtp_u::Fault::Cut(cut)) => return self.cut(cut, Malformed::GtpUTruncated),
            Err(gtp_u::Fault::EmptyExtension) => {
                return self.malformed(Malformed::GtpUExtensionEmpty);
            }
            Err(gtp_u::Fault::TooManyExtensions) => {
                return self.malformed(Malformed::GtpUTooManyExtensions);
            }
        };
        // A T-PDU is IP, Ethernet, PPP or unstructured, which only the control plane knows.
        match guess::in_tunnel(rest, self.is_in_doubt()) {
            Content::Ipv4 => self.open(Tunnel::GtpU, Layer::Ipv4, rest),
            Content::Ipv6 => self.open(Tunnel::GtpU, Layer::Ipv6, rest),
            Content::Ethernet => self.open(Tunnel::GtpU, Layer::Ethernet, rest),
            Content::NotCaptured => self.cut(Cut::Capture, Malformed::GtpUTruncated),
            Content::ControlWord | Content::Other => None,
        }
    }

    pub(super) fn teredo<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        if teredo::is_strict_start(packet.bytes()) {
            self.confirm();
        }
        match teredo::skip_indicators(packet) {
            Ok(rest) if teredo::is_packet(rest) => self.open(Tunnel::Teredo, Layer::Ipv6, rest),
            Ok(_) => None,
            Err(cut) => self.cut(cut, Malformed::TeredoTruncated),
        }
    }
}

/// What an EtherType in a tunnel header leads to. A value below the EtherTypes is invalid here: there is
/// no frame whose length it could be.
const fn carried(protocol: u16) -> Option<Layer> {
    match protocol {
        ether_type::TRANSPARENT_ETHERNET => Some(Layer::Ethernet),
        ether_type::LEAST.. => Some(Layer::EtherType(protocol)),
        _ => None,
    }
}

/// Skips the redirect header of WCCP, which version 1 does not have. Its first bits may be those of IPv4.
fn skip_redirect(packet: PacketView<'_>) -> Result<PacketView<'_>, Cut> {
    let redirected = packet.skip(WCCP_REDIRECT_LENGTH);
    let behind = redirected.map_or(0, guess::ip);
    if packet.first_nibble() == Some(4) && guess::ip(packet) >= behind {
        return Ok(packet);
    }
    redirected
}
