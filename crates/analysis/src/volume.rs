//! Volume and timing of a flow, each measure for each side.

use crate::Packet;
use app::Progress;
use hw::pool::Linked;
use wire::segment::seen;
use wire::{Segment, Tunnel};

/// Of how many of a flow's first packets size, direction and gap are kept.
pub const FIRST_PACKETS: usize = 10;

/// What is kept of every flow whatever its protocol: five cache lines, the last one touched by the
/// first packets alone. Side 0 is the initiator, the sender of the first packet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Volume {
    /// Time of the first packet of the flow: of its first record, where time-outs cut it into several.
    pub origin_ns: i64,
    /// Sum of the response times.
    pub response_sum_ns: u64,
    /// The longest response time.
    pub response_max_ns: u64,
    /// The first response time.
    pub response_first_ns: u64,
    /// How often the responder's payload followed the initiator's.
    pub responses: u32,
    /// Handle of the TCP state.
    pub tcp: u32,
    /// How far the names of its application are.
    pub names: Progress,
    /// Outer and inner VLAN tag of the first packet, as in [`FlowKey`](wire::FlowKey).
    pub vlan: [u16; 2],
    /// The first packet's MPLS label, as in [`Outline`](wire::Outline).
    pub mpls_label: u32,
    /// Records of the flow before this one, which its active time-out has ended.
    pub record: u16,
    /// The direction, by the table's key, that is side 0.
    pub initiator: u8,
    /// Protocol of the first packet's whole transport header: 6, 17 or 0.
    pub transport: u8,
    /// What the first packet was wrapped in.
    pub tunnel: Tunnel,
    /// The side whose payload came last, plus one.
    spoke: u8,
    /// Packets seen, up to [`FIRST_PACKETS`].
    pub first_count: u8,
    /// Each side.
    pub sides: [Side; 2],
    /// The first packets.
    pub first: First,
}

/// What is counted of one side.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Side {
    /// Sum of the squares of the times between two consecutive packets.
    gap_squares: u128,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Time of the first packet.
    pub first_ns: i64,
    /// Time of the last packet: the latest so far.
    pub last_ns: i64,
    /// Time of the first packet with payload, if there is one.
    pub first_payload_ns: i64,
    /// Time of the last packet with payload.
    pub last_payload_ns: i64,
    /// The shortest time between two packets, subtracted from the largest number there is.
    gap_min: u64,
    /// The longest time between two packets.
    pub gap_max_ns: u64,
    /// Packets.
    pub packets: u32,
    /// Packets with payload.
    pub data_packets: u32,
    /// Fragments of IP packets.
    pub fragments: u32,
    /// The shortest frame on the wire, subtracted from the largest number there is.
    size_min: u16,
    /// The longest frame, 65,535 for one that is longer.
    pub size_max: u16,
    /// The lowest time to live.
    pub ttl_min: u8,
    /// A type of service: a packet that has it and the lowest time to live says nothing about its way
    /// that is not known. Never that of a marked packet, which is to be counted.
    steady_service: u8,
    /// The highest time to live.
    pub ttl_max: u8,
    /// DSCP of the first packet, and [`CHANGED`].
    services: u8,
    /// Packets marked by a router that was congested (ECN 3, RFC 3168).
    pub congestion_marks: u32,
}

/// The first packets of a flow, both sides together.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct First {
    /// Microseconds since the packet before, at most 2^32 - 1.
    pub gaps_us: [u32; FIRST_PACKETS],
    /// Bytes on the wire, at most 65,535.
    pub sizes: [u16; FIRST_PACKETS],
    /// Bit i: packet i is the responder's.
    pub directions: u16,
}

impl Linked for Volume {
    fn link(&mut self) -> &mut u32 {
        &mut self.tcp
    }
}

/// Bits of the type of service that are ECN.
const ECN: u8 = 0x03;

/// Beside a DSCP: another packet had another one.
const CHANGED: u8 = 0x01;

impl Volume {
    /// Begins with the flow's first packet, which is yet to be counted.
    pub fn open(&mut self, packet: &Packet, segment: &Segment) {
        self.origin_ns = packet.time_ns;
        self.initiator = packet.direction;
        self.transport = segment.transport;
        self.vlan = segment.vlan;
        self.mpls_label = segment.mpls_label;
        self.tunnel = segment.tunnel;
    }

    /// Begins another record of the same flow: what was counted goes. What was asked may be answered
    /// in it.
    pub fn next_record(&mut self) {
        let asked = Side {
            last_payload_ns: self.sides[0].last_payload_ns,
            ..Side::default()
        };
        *self = Self {
            spoke: self.spoke,
            sides: [asked, Side::default()],
            origin_ns: self.origin_ns,
            tcp: self.tcp,
            names: self.names,
            vlan: self.vlan,
            mpls_label: self.mpls_label,
            record: self.record.saturating_add(1),
            initiator: self.initiator,
            transport: self.transport,
            tunnel: self.tunnel,
            ..Self::default()
        };
    }

    /// Counts a packet of `side`.
    #[inline(always)]
    pub fn count(&mut self, side: usize, packet: &Packet, segment: &Segment) {
        let now_ns = packet.time_ns;
        if usize::from(self.first_count) < FIRST_PACKETS {
            self.count_first(side, packet);
        }
        let size = packet.length.min(0xffff) as u16;
        let this = &mut self.sides[side & 1];
        if this.packets == 0 {
            this.open(now_ns, size, segment);
        } else {
            this.gap(now_ns);
            this.size_min = this.size_min.max(u16::MAX - size);
            this.size_max = this.size_max.max(size);
            if way(segment.time_to_live, segment.type_of_service) != this.steady_way() {
                this.take_way(segment);
            }
        }
        count_one(&mut this.packets);
        if segment.has(seen::FRAGMENT) {
            this.count_fragment();
        }
        if segment.payload_length > 0 {
            this.payload_bytes += u64::from(segment.payload_length);
            if this.data_packets == 0 {
                this.first_payload_ns = now_ns;
            }
            count_one(&mut this.data_packets);
            this.last_payload_ns = now_ns;
            let speaks = side as u8 + 1;
            if self.spoke != speaks {
                if self.spoke == 1 {
                    self.answered(now_ns);
                }
                self.spoke = speaks;
            }
        }
    }

    #[inline(never)]
    fn count_first(&mut self, side: usize, packet: &Packet) {
        let at = usize::from(self.first_count);
        let [initiator, responder] = &self.sides;
        let last_ns = match at {
            0 => packet.time_ns,
            _ if responder.packets == 0 => initiator.last_ns,
            _ if initiator.packets == 0 => responder.last_ns,
            _ => initiator.last_ns.max(responder.last_ns),
        };
        let gap_us = match packet.time_ns > last_ns {
            true => packet.time_ns.abs_diff(last_ns) / 1000,
            false => 0,
        };
        self.first.gaps_us[at] = u32::try_from(gap_us).unwrap_or(u32::MAX);
        self.first.sizes[at] = packet.length.min(0xffff) as u16;
        self.first.directions |= (side as u16) << at;
        self.first_count += 1;
    }

    #[inline(never)]
    fn answered(&mut self, now_ns: i64) {
        let asked_ns = self.sides[0].last_payload_ns;
        let response_ns = now_ns.saturating_sub(asked_ns).max(0).cast_unsigned();
        if self.responses == 0 {
            self.response_first_ns = response_ns;
        }
        self.responses += 1;
        self.response_sum_ns += response_ns;
        self.response_max_ns = self.response_max_ns.max(response_ns);
    }
}

impl Side {
    fn open(&mut self, now_ns: i64, size: u16, segment: &Segment) {
        self.first_ns = now_ns;
        self.last_ns = now_ns;
        self.size_min = u16::MAX - size;
        self.size_max = size;
        self.ttl_min = segment.time_to_live;
        self.ttl_max = segment.time_to_live;
        self.services = segment.type_of_service & !ECN;
        self.take_service(segment.type_of_service);
    }

    /// The way of a packet that adds nothing to what is known, as [`way`] tells it.
    #[inline(always)]
    const fn steady_way(&self) -> u16 {
        way(self.ttl_min, self.steady_service)
    }

    /// Takes in what a packet tells of its way. Most have the same as the one before.
    #[inline(never)]
    fn take_way(&mut self, segment: &Segment) {
        self.ttl_min = self.ttl_min.min(segment.time_to_live);
        self.ttl_max = self.ttl_max.max(segment.time_to_live);
        self.take_service(segment.type_of_service);
    }

    #[inline(always)]
    fn take_service(&mut self, type_of_service: u8) {
        if (self.services ^ type_of_service) & !ECN != 0 {
            self.services |= CHANGED;
        }
        let is_marked = type_of_service & ECN == ECN;
        self.congestion_marks += u32::from(is_marked);
        self.steady_service = type_of_service & if is_marked { !ECN } else { !0 };
    }

    #[cold]
    #[inline(never)]
    fn count_fragment(&mut self) {
        self.fragments += 1;
    }

    /// Takes the time since the packet before in, 0 where the clock went back: so that all of them
    /// add up to the time from the first packet to the latest. (So it is where it went forward by
    /// 292 years, more than can be told.)
    #[inline(always)]
    fn gap(&mut self, now_ns: i64) {
        let mut gap_ns = now_ns.wrapping_sub(self.last_ns);
        if now_ns >= self.last_ns && gap_ns >= 0 {
            self.last_ns = now_ns;
        } else {
            std::hint::cold_path();
            self.last_ns = self.last_ns.max(now_ns);
            gap_ns = gap_ns.max(0);
        }
        let gap_ns = gap_ns.cast_unsigned();
        self.gap_min = self.gap_min.max(u64::MAX - gap_ns);
        self.gap_max_ns = self.gap_max_ns.max(gap_ns);
        self.gap_squares += u128::from(gap_ns) * u128::from(gap_ns);
    }

    /// Times between two consecutive packets of this side.
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.packets.saturating_sub(1)
    }

    /// The shortest of them, if there is one.
    #[must_use]
    pub fn gap_min_ns(&self) -> Option<u64> {
        (self.gaps() > 0).then(|| u64::MAX - self.gap_min)
    }

    /// Their mean in nanoseconds, NaN without any.
    #[must_use]
    pub fn gap_mean_ns(&self) -> f64 {
        self.gap_sum_ns() as f64 / f64::from(self.gaps())
    }

    /// Their standard deviation (of the population) in nanoseconds, NaN without any.
    #[must_use]
    pub fn gap_deviation_ns(&self) -> f64 {
        deviation(self.gaps(), self.gap_sum_ns(), self.gap_squares)
    }

    fn gap_sum_ns(&self) -> u64 {
        self.last_ns
            .saturating_sub(self.first_ns)
            .max(0)
            .cast_unsigned()
    }

    /// The shortest frame on the wire.
    #[must_use]
    pub const fn size_min(&self) -> u16 {
        u16::MAX - self.size_min
    }

    /// DSCP of the first packet (RFC 2474).
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.services >> 2
    }

    /// Whether another packet had another DSCP: 1.
    #[must_use]
    pub const fn dscp_changed(&self) -> u8 {
        self.services & CHANGED
    }
}

/// A time to live and a type of service in one, to be compared at once.
#[inline(always)]
const fn way(time_to_live: u8, type_of_service: u8) -> u16 {
    u16::from_le_bytes([time_to_live, type_of_service])
}

/// Counts one more, unless there is no greater number.
#[inline(always)]
const fn count_one(packets: &mut u32) {
    if let Some(more) = packets.checked_add(1) {
        *packets = more;
    }
}

/// Standard deviation of `count` numbers by their sum and the sum of their squares: all of it in
/// integers until the difference is taken, so nothing cancels.
pub fn deviation(count: u32, sum: u64, squares: u128) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    let square = u128::from(sum) * u128::from(sum);
    let around_mean = squares.saturating_sub(square / u128::from(count));
    (around_mean as f64 / f64::from(count)).sqrt()
}

const _: () = assert!(size_of::<Volume>() == 320);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list of what came.
        #[test]
        fn equals_a_list_of_all_packets(
            packets in prop::collection::vec((0usize..2, -2i64..2_000_000_000, 1u32..70_000, 0u32..3, any::<u8>()), 1..30)
        ) {
            let mut volume = Volume::default();
            let mut now_ns = 1_700_000_000_000_000_000;
            let mut all: Vec<(usize, i64, u32, u32, u8)> = Vec::new();
            for (number, (side, step, length, payload_length, ttl)) in packets.into_iter().enumerate() {
                let side = if number == 0 { 0 } else { side };
                now_ns += step;
                let packet = Packet { time_ns: now_ns, length, ..Packet::default() };
                let segment = Segment { payload_length, time_to_live: ttl, type_of_service: ttl, ..Segment::default() };
                if number == 0 {
                    volume.open(&packet, &segment);
                }
                volume.count(side, &packet, &segment);
                all.push((side, now_ns, length, payload_length, ttl));
            }
            for side in 0..2 {
                let mine: Vec<_> = all.iter().filter(|packet| packet.0 == side).collect();
                let state = &volume.sides[side];
                prop_assert_eq!(state.packets as usize, mine.len());
                prop_assert_eq!(state.payload_bytes, mine.iter().map(|packet| u64::from(packet.3)).sum::<u64>());
                prop_assert_eq!(state.data_packets as usize, mine.iter().filter(|packet| packet.3 > 0).count());
                let Some(first) = mine.first() else { continue };
                prop_assert_eq!(state.ttl_min, mine.iter().map(|packet| packet.4).min().unwrap());
                prop_assert_eq!(state.dscp(), first.4 >> 2);
                prop_assert_eq!(state.dscp_changed() == 1, mine.iter().any(|packet| packet.4 >> 2 != first.4 >> 2));
                prop_assert_eq!(u32::from(state.size_min()), mine.iter().map(|packet| packet.2.min(65_535)).min().unwrap());
                prop_assert_eq!(u32::from(state.size_max), mine.iter().map(|packet| packet.2.min(65_535)).max().unwrap());
                let mut latest = first.1;
                let gaps: Vec<f64> = mine[1..].iter().map(|packet| {
                    let gap = (packet.1 - latest).max(0);
                    latest = latest.max(packet.1);
                    gap as f64
                }).collect();
                if gaps.is_empty() {
                    prop_assert!(state.gap_mean_ns().is_nan() && state.gap_min_ns().is_none());
                    continue;
                }
                let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
                let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
                prop_assert!((state.gap_mean_ns() - mean).abs() <= 1e-6 * mean);
                prop_assert!((state.gap_deviation_ns() - variance.sqrt()).abs() <= 1e-6 * mean + 1.0);
                prop_assert_eq!(state.gap_min_ns().unwrap() as f64, gaps.iter().copied().fold(f64::INFINITY, f64::min));
            }
            prop_assert_eq!(usize::from(volume.first_count), all.len().min(FIRST_PACKETS));
        }
    }

    proptest! {
        /// Few ways, so that many packets come the way of the one before.
        #[test]
        fn equals_a_list_of_all_ways(ways in prop::collection::vec((0usize..2, 62u8..65, 0u8..6), 1..40)) {
            let mut volume = Volume::default();
            let mut all: [Vec<(u8, u8)>; 2] = Default::default();
            for (side, time_to_live, service) in ways {
                // Without ECN, with ECT(0), marked, and another DSCP.
                let type_of_service = [0, 2, 3, 0xb8, 0xba, 0xbb][usize::from(service)];
                let segment = Segment { time_to_live, type_of_service, ..Segment::default() };
                volume.count(side, &Packet::default(), &segment);
                all[side].push((time_to_live, type_of_service));
            }
            for (state, all) in volume.sides.iter().zip(all) {
                let marked = all.iter().filter(|way| way.1 & ECN == ECN).count();
                prop_assert_eq!(state.congestion_marks as usize, marked);
                let Some(first) = all.first() else { continue };
                prop_assert_eq!(state.ttl_min, all.iter().map(|way| way.0).min().unwrap());
                prop_assert_eq!(state.ttl_max, all.iter().map(|way| way.0).max().unwrap());
                prop_assert_eq!(state.dscp(), first.1 >> 2);
                let changed = all.iter().any(|way| way.1 >> 2 != first.1 >> 2);
                prop_assert_eq!(state.dscp_changed(), u8::from(changed));
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_gap() {
        let mut volume = Volume::default();
        for time_ns in [100, 70, 130, i64::MAX, i64::MIN] {
            let packet = Packet {
                time_ns,
                ..Packet::default()
            };
            volume.count(0, &packet, &Segment::default());
        }
        let side = &volume.sides[0];
        assert_eq!((side.first_ns, side.last_ns), (100, i64::MAX));
        assert_eq!(side.gap_min_ns(), Some(0));
        assert_eq!(side.gap_max_ns, (i64::MAX - 130).cast_unsigned());
        assert_eq!(volume.first.gaps_us[..4], [0, 0, 0, u32::MAX]);
    }

    #[test]
    fn a_response_is_counted_once_an_exchange() {
        let mut volume = Volume::default();
        let mut at = |side: usize, now_ns: i64, payload_length: u32| {
            let packet = Packet {
                time_ns: now_ns,
                length: 100,
                ..Packet::default()
            };
            let segment = Segment {
                payload_length,
                ..Segment::default()
            };
            volume.count(side, &packet, &segment);
        };
        for (side, now_ns, payload) in [
            (0, 0, 0),
            (1, 5, 0),
            (0, 10, 7),
            (0, 20, 7),
            (1, 25, 0),
            (1, 50, 9),
            (1, 60, 9),
            (0, 70, 1),
            (1, 110, 1),
        ] {
            at(side, now_ns, payload);
        }
        assert_eq!(
            (
                volume.responses,
                volume.response_first_ns,
                volume.response_max_ns
            ),
            (2, 30, 40)
        );
        assert_eq!(volume.response_sum_ns, 70);
        assert_eq!(volume.first.directions, 0b1_0111_0010);
    }
}
