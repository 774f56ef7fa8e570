//! Volume and timing measures of each side of a flow.

use crate::Packet;
use app::InspectState;
use hw::pool::FreeListNode;
use wire::packet_info::present;
use wire::{PacketInfo, Tunnel};

/// Number of a flow's first packets whose size, direction and gap are kept.
pub const FIRST_PACKETS: usize = 10;

/// Volume and timing state of a flow of any protocol. Side 0 is the initiator: the sender of the first
/// packet or, if that is a SYN-ACK, its receiver.
///
/// It takes five cache lines, the last of which only the flow's first packets touch.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Volume {
    /// Time of the flow's first packet. If timeouts cut the flow, that of its first record.
    pub origin_ns: i64,
    /// Sum of the response times.
    pub response_sum_ns: u64,
    /// The longest response time.
    pub response_max_ns: u64,
    /// The first response time.
    pub response_first_ns: u64,
    /// Number of times that payload of the responder followed payload of the initiator.
    pub responses: u32,
    /// Handle of the TCP state.
    pub tcp: u32,
    /// State of payload inspection.
    pub app: InspectState,
    /// Outer and inner VLAN tags of the first packet, as in [`FlowKey`](wire::FlowKey).
    pub vlan: [u16; 2],
    /// The first packet's MPLS label, as in [`Outline`](wire::Outline).
    pub mpls_label: u32,
    /// Number of the flow's earlier records, which its active timeout ended.
    pub record: u16,
    /// Direction of side 0 relative to the table key.
    pub initiator: u8,
    /// Protocol of the first packet's transport header: 6, 17, or 0 if there is none or it is cut.
    pub transport: u8,
    /// Innermost tunnel of the first packet.
    pub tunnel: Tunnel,
    /// Side of the last packet with payload, plus one; 0 if none had payload.
    last_sender: u8,
    /// Number of packets in `first_packets`.
    pub first_count: u8,
    /// Measures of each side.
    pub sides: [VolumeSide; 2],
    /// The first packets.
    pub first_packets: FirstPackets,
}

/// Volume and timing of one side of a flow.
///
/// Minima are stored as complements (the type's maximum minus the value), so that zero means that there
/// is none yet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct VolumeSide {
    /// Sum of the squares of the inter-arrival times, in square nanoseconds.
    gap_squares: u128,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Time of the first packet.
    pub first_ns: i64,
    /// Latest packet time so far.
    pub last_ns: i64,
    /// Time of the first packet with payload. Valid if `data_packets` is not zero.
    pub first_payload_ns: i64,
    /// Time of the last packet with payload. Valid if `data_packets` is not zero.
    pub last_payload_ns: i64,
    gap_min_complement: u64,
    /// The longest inter-arrival time.
    pub gap_max_ns: u64,
    /// Packets.
    pub packets: u32,
    /// Packets with payload.
    pub data_packets: u32,
    /// IP fragments.
    pub fragments: u32,
    size_min_complement: u16,
    /// Length of the longest frame on the wire, at most 65,535.
    pub size_max: u16,
    /// The lowest TTL.
    pub ttl_min: u8,
    /// TOS of a packet that, together with `ttl_min`, adds nothing new. Never the TOS of a CE-marked
    /// packet: each of these must be counted.
    known_tos: u8,
    /// The highest TTL.
    pub ttl_max: u8,
    /// DSCP of the first packet in the upper six bits, and [`DSCP_CHANGED`].
    dscp_and_changed: u8,
    /// Packets marked CE, congestion experienced (RFC 3168).
    pub congestion_marks: u32,
}

/// Sizes, directions and gaps of a flow's first packets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct FirstPackets {
    /// Microseconds since the latest earlier packet, at most 2^32 - 1.
    pub gaps_us: [u32; FIRST_PACKETS],
    /// Bytes on the wire, at most 65,535 each.
    pub sizes: [u16; FIRST_PACKETS],
    /// Bit i is set if the responder sent packet i.
    pub directions: u16,
}

impl FreeListNode for Volume {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.tcp
    }
}

/// The ECN bits of the TOS byte.
const ECN: u8 = 0x03;

/// Set if a later packet had another DSCP than the first.
const DSCP_CHANGED: u8 = 0x01;

impl Volume {
    /// Initializes the state from the flow's first packet and the direction of its initiator. Does not
    /// count the packet.
    pub fn open(&mut self, packet: &Packet, initiator: u8, info: &PacketInfo) {
        self.origin_ns = packet.time_ns;
        self.initiator = initiator;
        self.transport = info.transport;
        self.vlan = info.vlan;
        self.mpls_label = info.mpls_label;
        self.tunnel = info.tunnel;
    }

    /// Starts the next record of the same flow: resets the counters. A request of the record that ended
    /// may still get its response, so the last sender and the time of the request stay.
    pub fn next_record(&mut self) {
        let initiator = VolumeSide {
            last_payload_ns: self.sides[0].last_payload_ns,
            ..VolumeSide::default()
        };
        *self = Self {
            last_sender: self.last_sender,
            sides: [initiator, VolumeSide::default()],
            origin_ns: self.origin_ns,
            tcp: self.tcp,
            app: self.app,
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
    // Out of line, it and `Tcp::count` cost full analysis 2 % more instructions.
    #[inline(always)]
    pub fn count(&mut self, side: usize, packet: &Packet, info: &PacketInfo) {
        let now_ns = packet.time_ns;
        if usize::from(self.first_count) < FIRST_PACKETS {
            self.count_first(side, packet);
        }
        let size = packet.length.min(0xffff) as u16;
        let this = &mut self.sides[side & 1];
        if this.packets == 0 {
            this.open(now_ns, size, info);
        } else {
            this.add_gap(now_ns);
            this.size_min_complement = this.size_min_complement.max(u16::MAX - size);
            this.size_max = this.size_max.max(size);
            if ttl_tos(info.time_to_live, info.type_of_service) != this.known_ttl_tos() {
                this.update_ttl_tos(info);
            }
        }
        saturating_increment(&mut this.packets);
        if info.has(present::FRAGMENT) {
            this.count_fragment();
        }
        if info.payload_length > 0 {
            this.payload_bytes += u64::from(info.payload_length);
            if this.data_packets == 0 {
                this.first_payload_ns = now_ns;
            }
            saturating_increment(&mut this.data_packets);
            this.last_payload_ns = now_ns;
            let sender = side as u8 + 1;
            if self.last_sender != sender {
                if self.last_sender == 1 {
                    self.count_response(now_ns);
                }
                self.last_sender = sender;
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
        self.first_packets.gaps_us[at] = u32::try_from(gap_us).unwrap_or(u32::MAX);
        self.first_packets.sizes[at] = packet.length.min(0xffff) as u16;
        self.first_packets.directions |= (side as u16) << at;
        self.first_count += 1;
    }

    #[inline(never)]
    fn count_response(&mut self, now_ns: i64) {
        let request_ns = self.sides[0].last_payload_ns;
        let response_ns = now_ns.saturating_sub(request_ns).max(0).cast_unsigned();
        if self.responses == 0 {
            self.response_first_ns = response_ns;
        }
        self.responses += 1;
        self.response_sum_ns += response_ns;
        self.response_max_ns = self.response_max_ns.max(response_ns);
    }
}

impl VolumeSide {
    fn open(&mut self, now_ns: i64, size: u16, info: &PacketInfo) {
        self.first_ns = now_ns;
        self.last_ns = now_ns;
        self.size_min_complement = u16::MAX - size;
        self.size_max = size;
        self.ttl_min = info.time_to_live;
        self.ttl_max = info.time_to_live;
        self.dscp_and_changed = info.type_of_service & !ECN;
        self.update_tos(info.type_of_service);
    }

    /// Returns the TTL and TOS of packets that need no update, in the form of [`ttl_tos`].
    #[inline]
    const fn known_ttl_tos(&self) -> u16 {
        ttl_tos(self.ttl_min, self.known_tos)
    }

    /// Updates the measures of TTL and TOS. Not inlined: most packets have those of the packet before.
    #[inline(never)]
    fn update_ttl_tos(&mut self, info: &PacketInfo) {
        self.ttl_min = self.ttl_min.min(info.time_to_live);
        self.ttl_max = self.ttl_max.max(info.time_to_live);
        self.update_tos(info.type_of_service);
    }

    #[inline]
    fn update_tos(&mut self, type_of_service: u8) {
        if (self.dscp_and_changed ^ type_of_service) & !ECN != 0 {
            self.dscp_and_changed |= DSCP_CHANGED;
        }
        let is_ce = type_of_service & ECN == ECN;
        self.congestion_marks += u32::from(is_ce);
        self.known_tos = type_of_service & if is_ce { !ECN } else { !0 };
    }

    #[cold]
    #[inline(never)]
    fn count_fragment(&mut self) {
        self.fragments += 1;
    }

    /// Adds the inter-arrival time of a packet. It is 0 if the clock went back, so that all of them add
    /// up to the time from the first packet to the latest. (It is also 0 if the clock jumped forward by
    /// more than 292 years, which overflows.)
    #[inline]
    fn add_gap(&mut self, now_ns: i64) {
        let mut gap_ns = now_ns.wrapping_sub(self.last_ns);
        if now_ns >= self.last_ns && gap_ns >= 0 {
            self.last_ns = now_ns;
        } else {
            std::hint::cold_path();
            self.last_ns = self.last_ns.max(now_ns);
            gap_ns = gap_ns.max(0);
        }
        let gap_ns = gap_ns.cast_unsigned();
        self.gap_min_complement = self.gap_min_complement.max(u64::MAX - gap_ns);
        self.gap_max_ns = self.gap_max_ns.max(gap_ns);
        self.gap_squares += u128::from(gap_ns) * u128::from(gap_ns);
    }

    /// Returns the number of inter-arrival times.
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.packets.saturating_sub(1)
    }

    /// Returns the shortest inter-arrival time, if there is one.
    #[must_use]
    pub fn gap_min_ns(&self) -> Option<u64> {
        (self.gaps() > 0).then(|| u64::MAX - self.gap_min_complement)
    }

    /// Returns the mean inter-arrival time, NaN if there is none.
    #[must_use]
    pub fn gap_mean_ns(&self) -> f64 {
        self.gap_sum_ns() as f64 / f64::from(self.gaps())
    }

    /// Returns the (population) standard deviation of the inter-arrival times, NaN if there is none.
    #[must_use]
    pub fn gap_standard_deviation_ns(&self) -> f64 {
        standard_deviation(self.gaps(), self.gap_sum_ns(), self.gap_squares)
    }

    fn gap_sum_ns(&self) -> u64 {
        self.last_ns
            .saturating_sub(self.first_ns)
            .max(0)
            .cast_unsigned()
    }

    /// Returns the length of the shortest frame on the wire, at most 65,535.
    #[must_use]
    pub const fn size_min(&self) -> u16 {
        u16::MAX - self.size_min_complement
    }

    /// Returns the DSCP of the first packet (RFC 2474).
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.dscp_and_changed >> 2
    }

    /// Returns 1 if a later packet had another DSCP than the first, otherwise 0.
    #[must_use]
    pub const fn dscp_changed(&self) -> u8 {
        self.dscp_and_changed & DSCP_CHANGED
    }
}

/// Returns TTL and TOS as one number, so that one comparison checks both.
#[inline]
const fn ttl_tos(time_to_live: u8, type_of_service: u8) -> u16 {
    u16::from_le_bytes([time_to_live, type_of_service])
}

#[inline]
const fn saturating_increment(counter: &mut u32) {
    if let Some(next) = counter.checked_add(1) {
        *counter = next;
    }
}

/// Returns the (population) standard deviation of `count` numbers, from their sum and the sum of their
/// squares; NaN if `count` is 0.
///
/// The difference is taken in integers: in floating point its terms would cancel.
pub fn standard_deviation(count: u32, sum: u64, squares: u128) -> f64 {
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
        /// Compares with measures computed from a list of all packets.
        #[test]
        fn measures_equal_those_of_a_packet_list(
            packets in prop::collection::vec((0usize..2, -2i64..2_000_000_000, 1u32..70_000, 0u32..3, any::<u8>()), 1..30)
        ) {
            let mut volume = Volume::default();
            let mut now_ns = 1_700_000_000_000_000_000;
            let mut all: Vec<(usize, i64, u32, u32, u8)> = Vec::new();
            for (number, (side, step, length, payload_length, ttl)) in packets.into_iter().enumerate() {
                let side = if number == 0 { 0 } else { side };
                now_ns += step;
                let packet = Packet { time_ns: now_ns, length, ..Packet::default() };
                let info = PacketInfo { payload_length, time_to_live: ttl, type_of_service: ttl, ..PacketInfo::default() };
                if number == 0 {
                    volume.open(&packet, packet.direction, &info);
                }
                volume.count(side, &packet, &info);
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
                prop_assert!((state.gap_standard_deviation_ns() - variance.sqrt()).abs() <= 1e-6 * mean + 1.0);
                prop_assert_eq!(state.gap_min_ns().unwrap() as f64, gaps.iter().copied().fold(f64::INFINITY, f64::min));
            }
            prop_assert_eq!(usize::from(volume.first_count), all.len().min(FIRST_PACKETS));
        }
    }

    proptest! {
        /// Few values of TTL and TOS, so that many packets repeat those of the packet before.
        #[test]
        fn ttl_and_tos_measures_equal_those_of_a_list(packets in prop::collection::vec((0usize..2, 62u8..65, 0u8..6), 1..40)) {
            let mut volume = Volume::default();
            let mut all: [Vec<(u8, u8)>; 2] = Default::default();
            for (side, time_to_live, index) in packets {
                // Two DSCPs, each with Not-ECT, ECT(0) and CE.
                let type_of_service = [0, 2, 3, 0xb8, 0xba, 0xbb][usize::from(index)];
                let info = PacketInfo { time_to_live, type_of_service, ..PacketInfo::default() };
                volume.count(side, &Packet::default(), &info);
                all[side].push((time_to_live, type_of_service));
            }
            for (state, all) in volume.sides.iter().zip(all) {
                let marked = all.iter().filter(|(_, tos)| tos & ECN == ECN).count();
                prop_assert_eq!(state.congestion_marks as usize, marked);
                let Some((_, first_tos)) = all.first() else { continue };
                prop_assert_eq!(state.ttl_min, all.iter().map(|(ttl, _)| *ttl).min().unwrap());
                prop_assert_eq!(state.ttl_max, all.iter().map(|(ttl, _)| *ttl).max().unwrap());
                prop_assert_eq!(state.dscp(), first_tos >> 2);
                let changed = all.iter().any(|(_, tos)| tos >> 2 != first_tos >> 2);
                prop_assert_eq!(state.dscp_changed(), u8::from(changed));
            }
        }
    }

    #[test]
    fn the_gap_is_zero_when_the_clock_goes_back() {
        let mut volume = Volume::default();
        for time_ns in [100, 70, 130, i64::MAX, i64::MIN] {
            let packet = Packet {
                time_ns,
                ..Packet::default()
            };
            volume.count(0, &packet, &PacketInfo::default());
        }
        let side = &volume.sides[0];
        assert_eq!((side.first_ns, side.last_ns), (100, i64::MAX));
        assert_eq!(side.gap_min_ns(), Some(0));
        assert_eq!(side.gap_max_ns, (i64::MAX - 130).cast_unsigned());
        assert_eq!(volume.first_packets.gaps_us[..4], [0, 0, 0, u32::MAX]);
    }

    #[test]
    fn counts_one_response_per_exchange() {
        let mut volume = Volume::default();
        let mut count = |side: usize, now_ns: i64, payload_length: u32| {
            let packet = Packet {
                time_ns: now_ns,
                length: 100,
                ..Packet::default()
            };
            let info = PacketInfo {
                payload_length,
                ..PacketInfo::default()
            };
            volume.count(side, &packet, &info);
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
            count(side, now_ns, payload);
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
        assert_eq!(volume.first_packets.directions, 0b1_0111_0010);
    }
}
