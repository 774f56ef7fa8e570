//! Which flows of a full bucket table make room: a hand goes from bucket to bucket, as in the CLOCK
//! algorithm (Corbató 1968). A flow leaves if it was there when the hand came last and was not seen
//! since; where no flow of the bucket is so old, the less recently seen half of them leaves. A flow in a
//! place that was free then has begun since, and stays, without a look at its entry: in a flood that is
//! every second one.

use super::bucket::{LANES, Lanes};
use crate::entry::{Entry, FlowEntry};
use hw::lines::Lines;
use hw::memory::HugeSlice;
use std::io;

/// What is known of a bucket since the hand was there: a bit for each lane in which it left a flow, and
/// the meter's clock then, in ms; 0 if it never was.
type Visit = [u32; 2];

/// The hand, and what it left behind.
pub(super) struct Hand {
    /// The bucket whose turn it is.
    bucket: u32,
    visits: HugeSlice<Visit>,
}

impl Hand {
    /// A hand for a table of so many buckets.
    ///
    /// # Errors
    /// When the machine has no room for what it notes.
    pub(super) fn new(buckets: usize) -> io::Result<Self> {
        Ok(Self {
            bucket: 0,
            visits: HugeSlice::try_zeroed(buckets)?,
        })
    }

    /// Bytes that a hand for so many buckets takes.
    pub(super) const fn memory_bytes(buckets: usize) -> usize {
        buckets * size_of::<Visit>()
    }

    /// Takes the memory.
    pub(super) fn populate(&mut self) {
        self.visits.populate();
    }

    /// The bucket whose turn it is; the turn passes on to the next of so many.
    pub(super) fn pass(&mut self, buckets: u32) -> u32 {
        let bucket = self.bucket % buckets;
        self.bucket = (bucket + 1) % buckets;
        bucket
    }

    /// The bucket whose turn comes so many turns after the next.
    pub(super) const fn ahead(&self, turns: u32, buckets: u32) -> u32 {
        (self.bucket + turns) % buckets
    }

    /// Of the lanes `taken` of a bucket, those whose flows are looked at when its turn comes: where all
    /// have begun since the last visit, all.
    #[inline(always)]
    pub(super) fn looked_at(&self, bucket: u32, taken: u32) -> u32 {
        match taken & self.visits[bucket as usize][0] {
            0 => taken,
            stayed => stayed,
        }
    }

    /// The lanes whose flows leave, of those `taken` in a bucket: of any, one at least.
    #[inline]
    pub(super) fn leaving(
        &mut self,
        bucket: u32,
        taken: u32,
        clock_ms: u32,
        entries: &Lines<Entry>,
    ) -> u32 {
        let lanes = self.looked_at(bucket, taken);
        let [stayed, visited_ms] = self.visits[bucket as usize];
        let age_ms = |lane: u32| {
            let entry = &entries[(bucket * LANES + lane) as usize];
            clock_ms.wrapping_sub(entry.last_clock_ms())
        };
        let mut old = 0;
        if visited_ms != 0 && lanes & stayed != 0 {
            let since_ms = clock_ms.wrapping_sub(visited_ms);
            // A bit for each lane: which flows are old is nothing that a processor could guess.
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

/// Of some lanes, those whose age is at least the mean, but no more than half of them.
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
    fn the_older_half_leaves_a_bucket_that_the_hand_has_never_seen() {
        let mut hand = Hand::new(2).unwrap();
        let entries = entries(&[90, 10, 80, 20, 70]);
        assert_eq!(hand.leaving(0, 0b11111, 100, &entries), 0b01010);
        // As many as are asked for of flows of one age: half.
        let (mut hand, entries) = (Hand::new(2).unwrap(), self::entries(&[7; 5]));
        assert_eq!(hand.leaving(0, 0b11111, 7, &entries).count_ones(), 3);
        assert_eq!(hand.leaving(1, 0, 7, &entries), 0);
    }

    #[test]
    fn what_was_not_seen_since_the_last_visit_leaves_and_what_has_begun_stays() {
        let mut hand = Hand::new(2).unwrap();
        assert_eq!([hand.pass(2), hand.pass(2), hand.pass(2)], [0, 1, 0]);
        assert_eq!(
            [hand.ahead(0, 2), hand.ahead(4, 2), hand.ahead(5, 2)],
            [1, 1, 0]
        );
        // Three of them leave, one of five lanes was free.
        let before = entries(&[50, 50, 20, 0, 50, 10, 15]);
        assert_eq!(hand.leaving(0, 0b111_0111, 50, &before), 0b110_0100);
        // The first was seen at the visit and not since; the second after it, as the last.
        let entries = entries(&[50, 51, 20, 40, 90]);
        assert_eq!(hand.looked_at(0, 0b11111), 0b10011);
        assert_eq!(hand.leaving(0, 0b11111, 100, &entries), 0b00001);
        // None has begun since then.
        assert_eq!(hand.leaving(0, 0b11010, 200, &entries), 0b11010);
    }

    #[test]
    fn a_bucket_lets_flows_go_where_all_were_seen_and_where_all_have_begun() {
        let mut hand = Hand::new(2).unwrap();
        hand.pass(2);
        let before = entries(&[50, 50, 50, 50, 1, 1, 1, 1]);
        assert_eq!(hand.leaving(0, 0b1111_1111, 50, &before), 0b1111_0000);
        let entries = entries(&[60, 70, 80, 90]);
        assert_eq!(hand.leaving(0, 0b1111, 100, &entries), 0b0011);
        assert_eq!(hand.looked_at(0, 0b0011), 0b0011);
        assert_eq!(hand.leaving(0, 0b0011, 200, &entries), 0b0001);
    }

    #[test]
    fn a_clock_that_wraps_changes_nothing() {
        let mut hand = Hand::new(2).unwrap();
        hand.pass(2);
        let before = entries(&[u32::MAX - 20, u32::MAX - 12, u32::MAX - 11, 0, 0, 0]);
        assert_eq!(
            hand.leaving(0, 0b11_1111, u32::MAX - 10, &before),
            0b11_1000
        );
        let entries = entries(&[u32::MAX - 20, u32::MAX - 5, 3]);
        assert_eq!(hand.leaving(0, 0b111, 5, &entries), 0b001);
    }
}
