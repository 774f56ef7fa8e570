//! A flow's entry in the table: the 64 bytes that each of its packets updates. It holds the key,
//! counters and times.
//!
//! ```text
//! word 0, 1  compact key, or digest of a wide key; zero: no flow
//! word 2     packets in direction 0 (48 bits), tick of the active timeout (16)
//! word 3     packets in direction 1 (48 bits), number of the last packet, high part (16)
//! word 4     bytes in direction 0 (56 bits), TCP control bits seen (8)
//! word 5     bytes in direction 1 (56 bits), TCP control bits seen (8)
//! word 6     time of the last packet, ns
//! word 7     meter's clock at the last packet, ms (32), number of the last packet, low part (32)
//! ```
//! For one direction of one flow, 48 bits count 218 days of packets at 14.88 Mpps, and 56 bits count
//! 66 days of bytes at 100 Gbps. [`Expiry`](crate::expiry::Expiry) ends flows long before that.

use crate::batch::Packet;
use hw::memory::Line;
use std::num::NonZeroU32;

/// The cache line of one flow in the table.
pub type Entry = Line<u64, 8>;

const MASK_48: u64 = (1 << 48) - 1;
const MASK_56: u64 = (1 << 56) - 1;

/// Access to the fields of an [`Entry`].
pub trait FlowEntry {
    /// Returns the table key.
    fn key(&self) -> u128;
    /// Returns the packets in each direction.
    fn packets(&self) -> [u64; 2];
    /// Returns the bytes in each direction.
    fn bytes(&self) -> [u64; 2];
    /// Returns the TCP control bits seen in each direction.
    fn tcp_flags(&self) -> [u8; 2];
    /// Returns the time of the last packet, nanoseconds since the Unix epoch.
    fn last_ns(&self) -> i64;
    /// Returns the number of the last packet (48 bits), if the table stores it.
    fn last_number(&self) -> u64;
    /// Returns the meter's clock at the last packet.
    fn last_clock_ms(&self) -> u32;
    /// Returns the clock tick at which the active timeout expires.
    fn active_tick(&self) -> u16;
    /// Starts a flow with its first packet.
    fn open(&mut self, key: u128, packet: &Packet, active_tick: u16);
    /// Frees the entry: lookups no longer find its key.
    fn close(&mut self);
    /// Counts a further packet, and stores its number if `NUMBER`.
    fn count<const NUMBER: bool>(&mut self, packet: &Packet);
    /// Returns how much higher the number of `packet` is than that of the last packet.
    ///
    /// `None` if their upper 16 bits differ, which happens once in 2^32 packets, or if the number has
    /// not increased.
    fn number_delta(&self, packet: &Packet) -> Option<NonZeroU32>;
    /// Does the same as [`FlowEntry::count`] for a packet with a [`FlowEntry::number_delta`], or when
    /// `NUMBER` is false: only the lower 32 bits of the number change.
    fn count_low_number<const NUMBER: bool>(&mut self, packet: &Packet);
}

impl FlowEntry for Entry {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.0[0]) | u128::from(self.0[1]) << 64
    }

    fn packets(&self) -> [u64; 2] {
        [self.0[2] & MASK_48, self.0[3] & MASK_48]
    }

    fn bytes(&self) -> [u64; 2] {
        [self.0[4] & MASK_56, self.0[5] & MASK_56]
    }

    #[inline]
    fn tcp_flags(&self) -> [u8; 2] {
        [(self.0[4] >> 56) as u8, (self.0[5] >> 56) as u8]
    }

    #[inline]
    fn last_ns(&self) -> i64 {
        self.0[6].cast_signed()
    }

    #[inline]
    fn last_number(&self) -> u64 {
        self.0[7] >> 32 | self.0[3] >> 48 << 32
    }

    #[inline]
    fn last_clock_ms(&self) -> u32 {
        self.0[7] as u32
    }

    #[inline]
    fn active_tick(&self) -> u16 {
        (self.0[2] >> 48) as u16
    }

    #[inline]
    fn open(&mut self, key: u128, packet: &Packet, active_tick: u16) {
        let reverse = u64::from(packet.direction & 1);
        let bytes = u64::from(packet.length) | u64::from(packet.tcp_flags) << 56;
        // Each word is written once. Clearing the entry and then counting would read words just
        // written.
        self.0 = [
            key as u64,
            (key >> 64) as u64,
            (reverse ^ 1) | u64::from(active_tick) << 48,
            reverse | packet.number >> 32 << 48,
            bytes * (reverse ^ 1),
            bytes * reverse,
            packet.time_ns.cast_unsigned(),
            u64::from(packet.clock_ms) | packet.number << 32,
        ];
    }

    #[inline]
    fn close(&mut self) {
        (self.0[0], self.0[1]) = (0, 0);
    }

    #[inline]
    fn number_delta(&self, packet: &Packet) -> Option<NonZeroU32> {
        let (number, last) = (packet.number as u32, (self.0[7] >> 32) as u32);
        if packet.number << 16 >> 48 != self.0[3] >> 48 || number < last {
            return None;
        }
        NonZeroU32::new(number - last)
    }

    #[inline]
    fn count<const NUMBER: bool>(&mut self, packet: &Packet) {
        self.count_low_number::<NUMBER>(packet);
        if NUMBER {
            self.0[3] = (self.0[3] << 16 | packet.number << 16 >> 48).rotate_right(16);
        }
    }

    #[inline]
    fn count_low_number<const NUMBER: bool>(&mut self, packet: &Packet) {
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
        /// Compares the packed fields with plain integers.
        #[test]
        fn packed_fields_equal_plain_integers(
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
