//! CLOCK eviction (Corbató 1968) for a full bucket table. A hand moves from bucket to bucket and evicts
//! the flows that were there at its last visit and were not seen since. If a bucket has none, the less
//! recently seen half of its flows is evicted.
//!
//! A flow in a lane that was free at the last visit is newer than that visit. It stays, and its entry
//! need not be read: in a flood, that saves every second entry.

use super::lanes::{LANES, Lanes};
use crate::entry::{Entry, FlowEntry};
use hw::lines::Lines;
use hw::memory::HugeSlice;
use std::io;

/// The hand's last visit to a bucket: a mask of the lanes whose flows stayed, and the meter's clock in
/// ms (0: never visited).
type Visit = [u32; 2];

/// The clock hand, and its last visit to each bucket.
pub(super) struct ClockHand {
    /// The next bucket to visit.
    bucket: u32,
    visits: HugeSlice<Visit>,
}

impl ClockHand {
    /// Creates a hand for a table of `buckets` buckets.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub(super) fn new(buckets: usize) -> io::Result<Self> {
        Ok(Self {
            bucket: 0,
            visits: HugeSlice::try_zeroed(buckets)?,
        })
    }

    /// Returns the memory of a hand for `buckets` buckets, in bytes.
    pub(super) const fn memory_bytes(buckets: usize) -> usize {
        buckets * size_of::<Visit>()
    }

    /// Maps the memory now.
    pub(super) fn populate(&mut self) {
        self.visits.populate();
    }

    /// Returns the next bucket to visit, of `buckets` in use, and advances the hand.
    pub(super) fn advance(&mut self, buckets: u32) -> u32 {
        let bucket = self.bucket % buckets;
        self.bucket = (bucket + 1) % buckets;
        bucket
    }

    /// Returns the bucket that is `distance` visits after the next one.
    pub(super) const fn bucket_ahead(&self, distance: u32, buckets: u32) -> u32 {
        (self.bucket + distance) % buckets
    }

    /// Returns the lanes, of those `taken` in a bucket, that a visit considers for eviction: those that
    /// stayed at the last visit or, if there are none, all of them.
    #[inline]
    pub(super) fn candidates(&self, bucket: u32, taken: u32) -> u32 {
        match taken & self.visits[bucket as usize][0] {
            0 => taken,
            stayed => stayed,
        }
    }

    /// Chooses the lanes to evict, of those `taken` in a bucket: at least one if any is taken.
    #[inline]
    pub(super) fn choose_evicted(
        &mut self,
        bucket: u32,
        taken: u32,
        clock_ms: u32,
        entries: &Lines<Entry>,
    ) -> u32 {
        let lanes = self.candidates(bucket, taken);
        let [stayed, visited_ms] = self.visits[bucket as usize];
        let age_ms = |lane: u32| {
            let entry = &entries[(bucket * LANES + lane) as usize];
            clock_ms.wrapping_sub(entry.last_clock_ms())
        };
        let mut old = 0;
        if visited_ms != 0 && lanes & stayed != 0 {
            let since_ms = clock_ms.wrapping_sub(visited_ms);
            // Computed as a mask, without branches: the CPU cannot predict which flows are old.
            old = Lanes(lanes).fold(0, |old, lane| {
                old | u32::from(age_ms(lane) >= since_ms) << lane
            });
        }
        if old == 0 {
            old = older_half(lanes, age_ms);
        }
        self.visits[bucket as usize] = [taken & !old, clock_ms.max(1)];
        old
    }
}

/// Returns the lanes whose age is at least the mean, but no more than half of the lanes.
#[cold]
fn older_half(lanes: u32, age_ms: impl Fn(u32) -> u32) -> u32 {
    let count = lanes.count_ones();
    let sum: u64 = Lanes(lanes).map(|lane| u64::from(age_ms(lane))).sum();
    let mean_ms = (sum / u64::from(count.max(1))) as u32;
    Lanes(lanes)
        .filter(|&lane| age_ms(lane) >= mean_ms)
        .take(count.div_ceil(2) as usize)
        .fold(0, |old, lane| old | 1 << lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Packet;

    /// Two buckets whose flows were last seen at these times.
    fn entries(seen_ms: &[u32]) -> Lines<Entry> {
        let mut entries = Lines::zeroed(2 * LANES as usize);
        for (slot, &clock_ms) in seen_ms.iter().enumerate() {
            let packet = Packet {
                clock_ms,
                ..Packet::default()
            };
            entries[slot] = Entry::default();
            entries[slot].open(1 + slot as u128, &packet, 0);
        }
        entries
    }

    #[test]
    fn evicts_the_older_half_at_the_first_visit() {
        let mut hand = ClockHand::new(2).unwrap();
        let entries = entries(&[90, 10, 80, 20, 70]);
        assert_eq!(hand.choose_evicted(0, 0b11111, 100, &entries), 0b01010);
        // If all have the same age, half of them.
        let (mut hand, entries) = (ClockHand::new(2).unwrap(), self::entries(&[7; 5]));
        assert_eq!(hand.choose_evicted(0, 0b11111, 7, &entries).count_ones(), 3);
        assert_eq!(hand.choose_evicted(1, 0, 7, &entries), 0);
    }

    #[test]
    fn evicts_flows_not_seen_since_the_last_visit_and_keeps_new_ones() {
        let mut hand = ClockHand::new(2).unwrap();
        assert_eq!(
            [hand.advance(2), hand.advance(2), hand.advance(2)],
            [0, 1, 0]
        );
        assert_eq!(
            [
                hand.bucket_ahead(0, 2),
                hand.bucket_ahead(4, 2),
                hand.bucket_ahead(5, 2)
            ],
            [1, 1, 0]
        );
        // Three are evicted, and one of the first five lanes is free.
        let first_visit = entries(&[50, 50, 20, 0, 50, 10, 15]);
        assert_eq!(
            hand.choose_evicted(0, 0b111_0111, 50, &first_visit),
            0b110_0100
        );
        // The first flow was not seen since the visit; the second and the last were.
        let entries = entries(&[50, 51, 20, 40, 90]);
        assert_eq!(hand.candidates(0, 0b11111), 0b10011);
        assert_eq!(hand.choose_evicted(0, 0b11111, 100, &entries), 0b00001);
        // None is new since then.
        assert_eq!(hand.choose_evicted(0, 0b11010, 200, &entries), 0b11010);
    }

    #[test]
    fn evicts_half_if_all_flows_were_seen_or_all_are_new() {
        let mut hand = ClockHand::new(2).unwrap();
        hand.advance(2);
        let first_visit = entries(&[50, 50, 50, 50, 1, 1, 1, 1]);
        assert_eq!(
            hand.choose_evicted(0, 0b1111_1111, 50, &first_visit),
            0b1111_0000
        );
        let entries = entries(&[60, 70, 80, 90]);
        assert_eq!(hand.choose_evicted(0, 0b1111, 100, &entries), 0b0011);
        assert_eq!(hand.candidates(0, 0b0011), 0b0011);
        assert_eq!(hand.choose_evicted(0, 0b0011, 200, &entries), 0b0001);
    }

    #[test]
    fn eviction_works_across_a_wrap_of_the_clock() {
        let mut hand = ClockHand::new(2).unwrap();
        hand.advance(2);
        let first_visit = entries(&[u32::MAX - 20, u32::MAX - 12, u32::MAX - 11, 0, 0, 0]);
        assert_eq!(
            hand.choose_evicted(0, 0b11_1111, u32::MAX - 10, &first_visit),
            0b11_1000
        );
        let entries = entries(&[u32::MAX - 20, u32::MAX - 5, 3]);
        assert_eq!(hand.choose_evicted(0, 0b111, 5, &entries), 0b001);
    }
}
