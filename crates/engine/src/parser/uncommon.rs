//! Frames that are not simple. Most of them differ from a simple frame in one respect only and have a
//! short path of their own.

use super::PacketParser;
use flow::Packet;
use flow::batch::BatchSlots;
use port::Burst;
use wire::ether_type;
use wire::fast::Untagged;

impl PacketParser {
    /// Parses an Ethernet frame that is not simple into slot `at`, whose packet has all that is known before
    /// headers are parsed: directly if it has a VLAN tag, is IPv6 or has no ports, otherwise by the
    /// [slow path](Self::parse_slow). Returns whether it has a flow.
    #[inline(never)]
    pub(super) fn parse_uncommon(
        &mut self,
        burst: &Burst<'_>,
        index: usize,
        slots: &mut BatchSlots<'_>,
        at: usize,
    ) -> bool {
        let frame = &burst.frames[index];
        let untagged = Untagged::new(frame.bytes, frame.wire_length);
        let packet = Packet {
            tcp_flags: 0,
            direction: 0,
            ..slots.packets[at]
        };
        let is_parsed = match untagged.ether_type() {
            Some(ether_type::IPV4) => {
                untagged.tag != 0 && self.parse_tagged_ipv4(index, &untagged, packet, slots, at)
                    || self.parse_portless_ipv4(index, &untagged, packet, slots, at)
            }
            Some(ether_type::IPV6) => self.parse_ipv6(index, &untagged, packet, slots, at),
            _ => false,
        };
        is_parsed || self.parse_slow(burst.link, index, frame, packet, slots.slot(at))
    }

    /// Parses a frame that is simple except for its VLAN tag. Returns `false` for any other frame.
    #[inline]
    fn parse_tagged_ipv4(
        &self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        slots: &mut BatchSlots<'_>,
        at: usize,
    ) -> bool {
        let Some(simple) = untagged.simple_ipv4() else {
            return false;
        };
        let mut slot = slots.slot(at);
        let (key, direction) = self.keys.from_compact(simple.key);
        let packet = Packet {
            tcp_flags: simple.tcp_flags,
            direction,
            ..packet
        };
        slot.write(key, packet);
        if let Some(info) = slot.details {
            info.read_simple_ipv4(index as u16, untagged.frame);
            info.restore_vlan_tag(untagged.tag);
        }
        true
    }

    /// Parses an IPv6 frame without extension headers. Returns `false` for any other frame.
    #[inline]
    fn parse_ipv6(
        &self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        slots: &mut BatchSlots<'_>,
        at: usize,
    ) -> bool {
        let Some(mut simple) = untagged.simple_ipv6() else {
            return false;
        };
        let mut slot = slots.slot(at);
        self.write_key(&mut simple.key, simple.tcp_flags, packet, &mut slot);
        if let Some(info) = slot.details {
            info.read_simple_ipv6(index as u16, untagged.frame);
            info.restore_vlan_tag(untagged.tag);
        }
        true
    }

    /// Parses an IPv4 frame without ports. Returns `false` for any other frame.
    #[inline]
    fn parse_portless_ipv4(
        &mut self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        slots: &mut BatchSlots<'_>,
        at: usize,
    ) -> bool {
        let Some(portless) = untagged.portless_ipv4() else {
            return false;
        };
        let mut slot = slots.slot(at);
        let (key, direction) = self.keys.from_compact(portless.key);
        slot.write(
            key,
            Packet {
                direction,
                ..packet
            },
        );
        self.books.fragments += u64::from(portless.is_fragment);
        if let Some(info) = slot.details {
            info.read_portless_ipv4(index as u16, untagged.frame, portless.is_fragment);
            info.restore_vlan_tag(untagged.tag);
        }
        true
    }
}
