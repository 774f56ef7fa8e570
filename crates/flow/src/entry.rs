//! The 64 bytes that every packet of a flow touches: whole key, counters, times.
//!
//! ```text
//! word 0, 1  key, compact or digest of a wide one; zero: no flow
//! word 2     packets in direction 0 (48 bits), tick of the active time-out (16)
//! word 3     packets in direction 1 (48 bits), number of the last packet, high part (16)
//! word 4     bytes in direction 0 (56 bits), TCP control bits seen (8)
//! word 5     bytes in direction 1 (56 bits), TCP control bits seen (8)
//! word 6     time of the last packet, ns
//! word 7     meter's clock at the last packet, ms (32), number of the last packet, low part (32)
//! ```
//! 48 bits of packets last 218 days at 14.88 Mpps, 56 bits of bytes 66 days at 100 Gbps, for one
//! direction of one flow; [`Expiry`](crate::expiry::Expiry) ends flows long before.

use crate::batch::Packet;
use hw::memory::Line;
use std::num::NonZeroU32;

/// One flow's line in a table.
pub type Entry = Line<u64, 8>;

const LOW_48: u64 = (1 << 48) - 1;
const LOW_56: u64 = (1 << 56) - 1;

/// Reading and counting in an [`Entry`].
pub trait FlowEntry {
    /// The table key.
    fn key(&self) -> u128;
    /// Packets in each direction.
    fn packets(&self) -> [u64; 2];
    /// Bytes in each direction.
    fn bytes(&self) -> [u64; 2];
    /// TCP control bits seen in each direction.
    fn tcp_flags(&self) -> [u8; 2];
    /// Time of the last packet.
    fn last_ns(&self) -> i64;
    /// Number of the last packet, 48 bits, where it is kept.
    fn last_number(&self) -> u64;
    /// The meter's clock at the last packet.
    fn last_clock_ms(&self) -> u32;
    /// The tick of the clock at which the active time-out comes.
    fn active_tick(&self) -> u16;
    /// Begins a flow with its first packet.
    fn open(&mut self, key: u128, packet: &Packet, active_tick: u16);
    /// Ends the flow: no key is found here.
    fn close(&mut self);
    /// Counts a further packet, and keeps its number if `NUMBER`.
    fn count<const NUMBER: bool>(&mut self, packet: &Packet);
    /// How much higher the number of `packet` is than the last one, which is kept: where their low 32
    /// bits tell it, as of all packets but one in 2^32.
    fn passed(&self, packet: &Packet) -> Option<NonZeroU32>;
    /// [`FlowEntry::count`] of a packet of which [`FlowEntry::passed`] tells it, or where no number is kept.
    fn count_near<const NUMBER: bool>(&mut self, packet: &Packet);
}

impl FlowEntry for Entry {
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.0[0]) | u128::from(self.0[1]) << 64
    }

    fn packets(&self) -> [u64; 2] {
        [self.0[2] & LOW_48, self.0[3] & LOW_48]
    }

    fn bytes(&self) -> [u64; 2] {
        [self.0[4] & LOW_56, self.0[5] & LOW_56]
    }

    #[inline(always)]
    fn tcp_flags(&self) -> [u8; 2] {
        [(self.0[4] >> 56) as u8, (self.0[5] >> 56) as u8]
    }

    #[inline(always)]
    fn last_ns(&self) -> i64 {
        self.0[6].cast_signed()
    }

    #[inline(always)]
    fn last_number(&self) -> u64 {
        self.0[7] >> 32 | self.0[3] >> 48 << 32
    }

    #[inline(always)]
    fn last_clock_ms(&self) -> u32 {
        self.0[7] as u32
    }

    #[inline(always)]
    fn active_tick(&self) -> u16 {
        (self.0[2] >> 48) as u16
    }

    #[inline]
    fn open(&mut self, key: u128, packet: &Packet, active_tick: u16) {
        let back = u64::from(packet.direction & 1);
        let bytes = u64::from(packet.length) | u64::from(packet.tcp_flags) << 56;
        // Each word is written once: counting would read what was just written.
        self.0 = [
            key as u64,
            (key >> 64) as u64,
            (back ^ 1) | u64::from(active_tick) << 48,
            back | packet.number >> 32 << 48,
            bytes * (back ^ 1),
            bytes * back,
            packet.time_ns.cast_unsigned(),
            u64::from(packet.clock_ms) | packet.number << 32,
        ];
    }

    #[inline(always)]
    fn close(&mut self) {
        (self.0[0], self.0[1]) = (0, 0);
    }

    #[inline(always)]
    fn passed(&self, packet: &Packet) -> Option<NonZeroU32> {
        let (number, last) = (packet.number as u32, (self.0[7] >> 32) as u32);
        if packet.number << 16 >> 48 != self.0[3] >> 48 || number < last {
            return None;
        }
        NonZeroU32::new(number - last)
    }

    #[inline(always)]
    fn count<const NUMBER: bool>(&mut self, packet: &Packet) {
        self.count_near::<NUMBER>(packet);
        if NUMBER {
            self.0[3] = (self.0[3] << 16 | packet.number << 16 >> 48).rotate_right(16);
        }
    }

    #[inline(always)]
    fn count_near<const NUMBER: bool>(&mut self, packet: &Packet) {
        let direction = usize::from(packet.direction & 1);
        let words = &mut self.0;
        words[2 + direction] += 1;
        words[4 + direction] =
            (words[4 + direction] + u64::from(packet.length)) | u64::from(packet.tcp_flags) << 56;
        words[6] = words[6].cast_signed().max(packet.time_ns).cast_unsigned();
        words[7] = u64::from(packet.clock_ms);
        if NUMBER {
            words[7] |= packet.number << 32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A plain struct that counts the same way is the reference.
        #[test]
        fn equals_plain_fields(
            key in 1u128.., tick: u16,
            packets in prop::collection::vec((any::<u32>(), any::<u8>(), 0u8..2, 0u64..1 << 48, any::<u32>(), any::<i64>()), 1..40)
        ) {
            let mut entry = Entry::default();
            let mut expected = ([0u64; 2], [0u64; 2], [0u8; 2]);
            let mut latest = i64::MIN;
            for (index, &(length, tcp_flags, direction, number, clock_ms, time_ns)) in packets.iter().enumerate() {
                let packet = Packet { length, tcp_flags, direction, number, clock_ms, time_ns, ..Packet::default() };
                if index == 0 { entry.open(key, &packet, tick) } else { entry.count::<true>(&packet) }
                let side = usize::from(direction);
                expected.0[side] += 1;
                expected.1[side] += u64::from(length);
                expected.2[side] |= tcp_flags;
                latest = latest.max(time_ns);
                prop_assert_eq!((entry.packets(), entry.bytes(), entry.tcp_flags()), expected);
                prop_assert_eq!((entry.last_number(), entry.last_clock_ms(), entry.last_ns()), (number, clock_ms, latest));
                prop_assert_eq!((entry.key(), entry.active_tick()), (key, tick));
            }
        }
    }
}
