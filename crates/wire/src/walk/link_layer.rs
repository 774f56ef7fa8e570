//! The layers below IP.

use super::{Guess, Layer, MAX_MPLS_LABELS, MAX_VLAN_TAGS, Step, Walk};
use crate::ethernet::Ethernet;
use crate::guess::{self, Content};
use crate::linux_sll::{LinuxSll, LinuxSll2, Protocol};
use crate::loopback::{self, Family, FamilyOrder};
use crate::mpls::Label;
use crate::packet_view::{Cut, PacketView};
use crate::pppoe::Pppoe;
use crate::vlan::Vlan;
use crate::{
    Decapsulate, FlowKey, LinkType, Malformed, NoFlow, Outline, Tunnel, ether_type, llc, ppp, work,
};

impl Walk {
    pub(super) fn link_type<'a>(&mut self, link: LinkType, packet: PacketView<'a>) -> Step<'a> {
        match link {
            LinkType::Ethernet => self.ethernet(packet),
            LinkType::Raw => Some((Layer::Ip, packet)),
            LinkType::Ipv4 => Some((Layer::Ipv4, packet)),
            LinkType::Ipv6 => Some((Layer::Ipv6, packet)),
            LinkType::Null => self.loopback(packet, FamilyOrder::Host),
            LinkType::Loop => self.loopback(packet, FamilyOrder::Network),
            LinkType::LinuxSll => {
                let split = LinuxSll::split(packet);
                self.cooked(split.map(|(header, rest)| (header.protocol(), rest)))
            }
            LinkType::LinuxSll2 => {
                let split = LinuxSll2::split(packet);
                self.cooked(split.map(|(header, rest)| (header.protocol(), rest)))
            }
            LinkType::Ppp | LinkType::PppHdlc => match ppp::split_cisco_hdlc(packet) {
                Some((ether_type, rest)) => Some((Layer::EtherType(ether_type), rest)),
                None => Some((Layer::Ppp, ppp::without_address_and_control(packet))),
            },
            LinkType::Other(_) => self.end(NoFlow::UnknownLink),
        }
    }

    fn loopback<'a>(&mut self, packet: PacketView<'a>, order: FamilyOrder) -> Step<'a> {
        match loopback::split(packet, order) {
            Ok((Family::Ipv4, rest)) => Some((Layer::Ipv4, rest)),
            Ok((Family::Ipv6, rest)) => Some((Layer::Ipv6, rest)),
            Ok((Family::EtherType(ether_type), rest)) => Some((Layer::EtherType(ether_type), rest)),
            Ok((Family::Other, _)) => self.end(NoFlow::OtherProtocol),
            Err(cut) => self.cut(cut, Malformed::LinkHeaderTruncated),
        }
    }

    fn cooked<'a>(&mut self, split: Result<(Protocol, PacketView<'a>), Cut>) -> Step<'a> {
        match split {
            Ok((Protocol::EtherType(ether_type), rest)) => {
                Some((Layer::EtherType(ether_type), rest))
            }
            Ok((Protocol::Llc, rest)) => Some((Layer::Llc, rest)),
            Ok((Protocol::Other, _)) => self.end(NoFlow::OtherProtocol),
            Err(cut) => self.cut(cut, Malformed::LinkHeaderTruncated),
        }
    }

    pub(super) fn ethernet<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match Ethernet::split(packet) {
            Ok((header, rest)) => {
                // Tags of an outer frame are not this frame's.
                self.vlan = [0; 2];
                self.ether_type(header.ether_type(), rest)
            }
            Err(cut) if self.encapsulations > 0 => self.cut(cut, Malformed::InnerEthernetTruncated),
            Err(cut) => self.cut(cut, Malformed::LinkHeaderTruncated),
        }
    }

    /// Follows an EtherType, after the VLAN tags.
    ///
    /// Calls IP directly instead of returning a step, since nearly all packets are IP.
    pub(super) fn ether_type<'a>(
        &mut self,
        mut ether_type: u16,
        mut packet: PacketView<'a>,
    ) -> Step<'a> {
        while let ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::STACKED_VLAN =
            ether_type
        {
            if self.tags == MAX_VLAN_TAGS {
                return self.malformed(Malformed::VlanTooManyTags);
            }
            self.tags += 1;
            work::count(work::CALL);
            match Vlan::split(packet) {
                Ok((tag, rest)) => {
                    self.tag(tag);
                    (ether_type, packet) = (tag.ether_type(), rest);
                }
                Err(cut) => return self.cut(cut, Malformed::VlanTruncated),
            }
        }
        match ether_type {
            ether_type::IPV4 => self.ipv4(packet),
            ether_type::IPV6 => self.ipv6(packet),
            ether_type::ARP | ether_type::RARP => self.end(NoFlow::Arp),
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => Some((Layer::Mpls, packet)),
            ether_type::PPPOE_SESSION => Some((Layer::Pppoe, packet)),
            ether_type::PPPOE_DISCOVERY => self.end(NoFlow::Pppoe),
            length if length < ether_type::LEAST => {
                let length = usize::from(length);
                if length > packet.length() {
                    self.note(Malformed::LlcLengthTooLong);
                }
                Some((Layer::Llc, packet.limit(length)))
            }
            _ => self.end(NoFlow::OtherProtocol),
        }
    }

    fn tag(&mut self, tag: Vlan<'_>) {
        // The key has room for two tags; further ones are skipped.
        if let Some(free) = self.vlan.iter_mut().find(|tag| **tag == 0) {
            *free = FlowKey::VLAN_PRESENT | tag.identifier();
        }
    }

    pub(super) fn llc<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        if !llc::is_snap(&packet) {
            return match packet.skip(llc::LEAST_LENGTH) {
                Err(Cut::Packet) => {
                    self.note(Malformed::LlcTruncated);
                    self.end(NoFlow::Llc)
                }
                _ => self.end(NoFlow::Llc),
            };
        }
        match llc::Snap::split(packet) {
            Ok((snap, rest)) => match snap.ether_type() {
                // A length here would nest LLC frames without end.
                Some(ether_type) if ether_type >= ether_type::LEAST => {
                    Some((Layer::EtherType(ether_type), rest))
                }
                _ => self.end(NoFlow::Llc),
            },
            Err(Cut::Capture) => self.end(NoFlow::Truncated),
            Err(Cut::Packet) => {
                self.note(Malformed::LlcTruncated);
                self.end(NoFlow::Llc)
            }
        }
    }

    pub(super) fn ppp<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match ppp::split_protocol(packet) {
            Ok((ppp::IPV4, rest)) => Some((Layer::Ipv4, rest)),
            Ok((ppp::IPV6, rest)) => Some((Layer::Ipv6, rest)),
            Ok((ppp::MPLS | ppp::MPLS_MULTICAST, rest)) => Some((Layer::Mpls, rest)),
            Ok(_) => self.end(NoFlow::OtherProtocol),
            Err(cut) => self.cut(cut, Malformed::PppTruncated),
        }
    }

    pub(super) fn mpls<'a>(&mut self, mut packet: PacketView<'a>) -> Step<'a> {
        if self.decapsulate == Decapsulate::No {
            return self.end(NoFlow::Mpls);
        }
        let mut is_first = true;
        loop {
            if self.labels == MAX_MPLS_LABELS {
                return self.malformed(Malformed::MplsTooManyLabels);
            }
            match Label::split(packet) {
                Ok((label, rest)) => {
                    packet = rest;
                    if is_first {
                        self.mpls_label = Outline::MPLS_PRESENT | label.label();
                    }
                    self.labels += 1;
                    work::count(work::CALL);
                    is_first = false;
                    if label.is_bottom() {
                        break;
                    }
                }
                Err(cut) => return self.cut(cut, Malformed::MplsTruncated),
            }
        }
        match guess::behind_labels(packet, self.is_in_doubt()) {
            Content::Ipv4 => self.open(Tunnel::Mpls, Layer::Ipv4, packet),
            Content::Ipv6 => self.open(Tunnel::Mpls, Layer::Ipv6, packet),
            Content::Ethernet => {
                self.doubt(Guess::Pseudowire);
                self.open(Tunnel::Mpls, Layer::Ethernet, packet)
            }
            Content::ControlWord => {
                self.doubt(Guess::Pseudowire);
                match packet.skip(guess::CONTROL_WORD_LENGTH) {
                    Ok(rest) => self.open(Tunnel::Mpls, Layer::Ethernet, rest),
                    Err(cut) => self.cut(cut, Malformed::MplsTruncated),
                }
            }
            Content::Other => self.end(NoFlow::OtherProtocol),
            Content::NotCaptured => self.cut(Cut::Capture, Malformed::MplsTruncated),
        }
    }

    pub(super) fn pppoe<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        if self.decapsulate == Decapsulate::No {
            return self.end(NoFlow::Pppoe);
        }
        let (header, rest) = match Pppoe::split(packet) {
            Ok(split) => split,
            Err(cut) => return self.cut(cut, Malformed::PppoeTruncated),
        };
        if !header.is_known_version() {
            return self.malformed(Malformed::PppoeBadVersion);
        }
        if !header.is_session() {
            return self.end(NoFlow::Pppoe);
        }
        let length = usize::from(header.payload_length());
        if length > rest.length() {
            self.note(Malformed::PppoeLengthTooLong);
        }
        let rest = rest.limit(length);
        match ppp::split_protocol(rest) {
            Ok((ppp::IPV4 | ppp::IPV6 | ppp::MPLS | ppp::MPLS_MULTICAST, _)) => {
                self.open(Tunnel::Pppoe, Layer::Ppp, rest)
            }
            // Link control, authentication and the like carry no user packet.
            Ok(_) => self.end(NoFlow::Pppoe),
            Err(cut) => self.cut(cut, Malformed::PppTruncated),
        }
    }
}
