//! Frames that are not plain: most of them are nearly so.

use super::{Intake, packet_of};
use flow::Packet;
use flow::batch::Places;
use port::Burst;
use wire::ether_type;
use wire::plain::Untagged;

impl Intake {
    /// Reads a frame of Ethernet that is not plain into its place: one with a VLAN tag, of IPv6 or
    /// without ports by a short way, all others [whatever they are](Self::walk). Whether it has a flow.
    #[inline(never)]
    pub(super) fn read_other(
        &mut self,
        burst: &Burst<'_>,
        index: usize,
        number: u64,
        mut places: Places<'_>,
        at: usize,
    ) -> bool {
        let frame = &burst.frames[index];
        let untagged = Untagged::new(frame.bytes, frame.wire_length);
        let packet = packet_of(frame, number, self.clock.now_ms());
        let is_known = match untagged.ether_type() {
            Some(ether_type::IPV4) => {
                untagged.tag != 0 && self.read_tagged(index, &untagged, packet, &mut places, at)
                    || self.read_portless(index, &untagged, packet, &mut places, at)
            }
            Some(ether_type::IPV6) => self.read_ipv6(index, &untagged, packet, &mut places, at),
            _ => false,
        };
        if !is_known {
            return self.walk(burst.link, index, frame, number, places.place(at));
        }
        self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        true
    }

    /// Puts a frame that is plain behind its VLAN tag into its place; whether it is.
    #[inline(always)]
    fn read_tagged(
        &self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        places: &mut Places<'_>,
        at: usize,
    ) -> bool {
        let Some(plain) = untagged.plain_ipv4() else {
            return false;
        };
        let mut place = places.place(at);
        let (key, direction) = self.keys.from_compact(plain.key);
        let packet = Packet {
            tcp_flags: plain.tcp_flags,
            direction,
            ..packet
        };
        place.put(key, packet);
        if let Some(segment) = place.segment {
            segment.read_plain(index as u16, untagged.frame);
            segment.put_tag_back(untagged.tag);
        }
        true
    }

    /// Puts a frame of IPv6 without extension headers into its place; whether it is one.
    #[inline(always)]
    fn read_ipv6(
        &self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        places: &mut Places<'_>,
        at: usize,
    ) -> bool {
        let Some(mut plain) = untagged.plain_ipv6() else {
            return false;
        };
        let mut place = places.place(at);
        self.put_key(&mut plain.key, plain.tcp_flags, packet, &mut place);
        if let Some(segment) = place.segment {
            segment.read_plain_ipv6(index as u16, untagged.frame);
            segment.put_tag_back(untagged.tag);
        }
        true
    }

    /// Puts a frame of IPv4 without ports into its place; whether it is one.
    #[inline(always)]
    fn read_portless(
        &mut self,
        index: usize,
        untagged: &Untagged<'_>,
        packet: Packet,
        places: &mut Places<'_>,
        at: usize,
    ) -> bool {
        let Some(portless) = untagged.portless_ipv4() else {
            return false;
        };
        let mut place = places.place(at);
        let (key, direction) = self.keys.from_compact(portless.key);
        place.put(
            key,
            Packet {
                direction,
                ..packet
            },
        );
        self.books.fragments += u64::from(portless.is_fragment);
        if let Some(segment) = place.segment {
            segment.read_portless(index as u16, untagged.frame, portless.is_fragment);
            segment.put_tag_back(untagged.tag);
        }
        true
    }
}
