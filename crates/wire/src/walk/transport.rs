//! The transport header: ports, TCP flags, ICMP type; and which tunnels begin here.

use super::network::Carried;
use super::{Guess, Layer, Step, Walk};
use crate::icmp::Icmp;
use crate::packet_view::{Cut, PacketView};
use crate::sctp::Sctp;
use crate::tcp::Tcp;
use crate::udp::{self, Udp};
use crate::{Decapsulate, Fragment, Malformed, Tunnel, ip_protocol};

impl Walk {
    pub(super) fn transport<'a>(&mut self, carried: Carried<'a>) -> Step<'a> {
        let packet = carried.packet;
        self.take_payload(packet);
        match carried.protocol {
            ip_protocol::TCP => self.tcp(packet),
            ip_protocol::UDP => return self.udp(carried),
            ip_protocol::SCTP => match Sctp::split(packet) {
                Ok((header, _)) => self.ports(header.source_port(), header.destination_port()),
                Err(cut) => self.cut_transport(packet, cut, Malformed::SctpTruncated),
            },
            ip_protocol::ICMP | ip_protocol::ICMPV6 => match Icmp::split(packet) {
                Ok((header, _)) => self.icmp_type_code = Some(header.type_code()),
                Err(cut) => {
                    let _: Step<'_> = self.cut(cut, Malformed::IcmpTruncated);
                }
            },
            ip_protocol::IPV4 if self.looks_into_tunnels() => {
                return self.open(Tunnel::IpInIp, Layer::Ipv4, packet);
            }
            ip_protocol::IPV6 if self.looks_into_tunnels() => {
                return self.open(Tunnel::IpInIp, Layer::Ipv6, packet);
            }
            ip_protocol::GRE if self.looks_into_tunnels() => return Some((Layer::Gre, packet)),
            ip_protocol::MPLS if self.looks_into_tunnels() => return Some((Layer::Mpls, packet)),
            _ => {}
        }
        None
    }

    /// Notes where a whole transport header is.
    fn take_transport(&mut self, protocol: u8, packet: PacketView<'_>) {
        self.headers.outline.transport = self.place(packet);
        self.headers.outline.transport_protocol = protocol;
    }

    fn ports(&mut self, source: u16, destination: u16) {
        self.headers.key.source_port = source;
        self.headers.key.destination_port = destination;
    }

    /// A transport header that is not whole. Its ports count if they are there: they are the first
    /// thing in TCP, UDP and SCTP alike.
    fn cut_transport(&mut self, packet: PacketView<'_>, cut: Cut, fault: Malformed) {
        if let Ok((&[s0, s1, d0, d1], _)) = packet.split::<4>() {
            self.ports(u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        }
        let _: Step<'_> = self.cut(cut, fault);
    }

    fn tcp(&mut self, packet: PacketView<'_>) {
        let header = match Tcp::split(packet) {
            Ok((header, _)) => header,
            Err(cut) => {
                if cut == Cut::Capture {
                    self.part_of_tcp(packet);
                }
                return self.cut_transport(packet, cut, Malformed::TcpTruncated);
            }
        };
        self.ports(header.source_port(), header.destination_port());
        self.headers.tcp_flags = header.flags();
        self.take_transport(ip_protocol::TCP, packet);
        // Options that the snaplen cut off still tell where the payload begins, and how long it is.
        let length = header.header_length().max(Tcp::LENGTH);
        self.headers.outline.payload += length as u32;
        self.headers.outline.payload_length = packet.length().saturating_sub(length) as u32;
        if header.header_length() < Tcp::LENGTH {
            self.note(Malformed::TcpDataOffsetTooShort);
        } else if header.header_length() > packet.length() {
            self.note(Malformed::TcpDataOffsetTooLong);
        }
    }

    /// Reads the TCP flags, if captured, of a header that the snaplen cut. Such a header is no payload.
    fn part_of_tcp(&mut self, packet: PacketView<'_>) {
        let (length, flags) = Tcp::of_part(packet.bytes());
        self.headers.tcp_flags = flags;
        self.headers.outline.payload += length as u32;
        self.headers.outline.payload_length = packet.length().saturating_sub(length) as u32;
    }

    fn udp<'a>(&mut self, carried: Carried<'a>) -> Step<'a> {
        let packet = carried.packet;
        let (header, rest) = match Udp::split(packet) {
            Ok(split) => split,
            Err(cut) => {
                self.cut_transport(packet, cut, Malformed::UdpTruncated);
                return None;
            }
        };
        let (source, destination) = (header.source_port(), header.destination_port());
        self.ports(source, destination);
        self.take_transport(ip_protocol::UDP, packet);
        let mut rest = rest;
        self.take_payload(rest);
        match header.total_length() {
            // RFC 2675 section 4, and what the device is to cut into segments.
            0 if !carried.has_length => {}
            length if length < Udp::LENGTH => {
                self.note(Malformed::UdpLengthTooShort);
                return None;
            }
            length if length > packet.length() => {
                // The first fragment has the length of the whole.
                if self.headers.fragment != Fragment::First {
                    self.note(Malformed::UdpLengthTooLong);
                }
            }
            length => rest = rest.limit(length - Udp::LENGTH),
        }
        self.take_payload(rest);
        let layer = match destination {
            udp::port::VXLAN | udp::port::VXLAN_LINUX => Layer::Vxlan,
            udp::port::VXLAN_GPE => Layer::VxlanGpe,
            udp::port::GENEVE => Layer::Geneve,
            udp::port::GTP_U => Layer::GtpU,
            udp::port::MPLS => Layer::Mpls,
            _ if source == udp::port::TEREDO || destination == udp::port::TEREDO => Layer::Teredo,
            _ => return None,
        };
        if !self.looks_into_tunnels() {
            return None;
        }
        self.doubt(Guess::Port);
        Some((layer, rest))
    }

    /// Whether tunnels of the packet are looked into: if that is wanted, and if it is whole.
    const fn looks_into_tunnels(&self) -> bool {
        matches!(self.decapsulate, Decapsulate::Innermost)
            && matches!(self.headers.fragment, Fragment::No | Fragment::Atomic)
    }
}
