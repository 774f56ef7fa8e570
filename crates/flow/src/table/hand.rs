//! Which flows of a full bucket table make room: a hand goes from bucket to bucket, as in the CLOCK
//! algorithm (Corbató 1968). A flow leaves if it was there when the hand came last and was not seen
//! since; where no flow of the bucket is so old, the less recently seen half of them leaves. A flow that
//! has begun since the hand's last visit stays, without a look at its entry: in a flood that is every
//! second one.

use super::bucket::{LANES, Lanes};
use crate::entry::{Entry, FlowEntry};
use hw::lines::Lines;
use hw::memory::HugeSlice;
use std::io;

/// What is known of a bucket since the hand was there: a bit for each lane in which a flow has begun,
/// and the meter's clock then, in ms; 0 if it never was.
type Visit = [u32; 2];

/// The hand, and what it left behind.
pub(super) struct Hand {
    /// The bucket whose turn it is.
    bucket: u32,
    visits: HugeSlice<Visit>,
    /// Whether the hand has ever moved: until then nobody needs to know which flows begin.
    has_moved: bool,
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
            has_moved: false,
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

    /// Notes that a flow begins in a lane.
    #[inline(always)]
    pub(super) fn note_begun(&mut self, bucket: u32, lane: u32) {
        if self.has_moved {
            self.visits[bucket as usize][0] |= 1 << lane;
        }
    }

    /// The bucket whose turn it is; the turn passes on to the next of so many.
    pub(super) fn pass(&mut self, buckets: u32) -> u32 {
        self.has_moved = true;
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
        match taken & !self.visits[bucket as usize][0] {
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
        let visit = &mut self.visits[bucket as usize];
        let [begun, visited_ms] = std::mem::replace(visit, [0, clock_ms.max(1)]);
        let age_ms = |lane: u32| {
            let entry = &entries[(bucket * LANES + lane) as usize];
            clock_ms.wrapping_sub(entry.last_clock_ms())
        };
        if visited_ms != 0 && lanes & begun == 0 {
            let since_ms = clock_ms.wrapping_sub(visited_ms);
            // A bit for each lane: which flows are old is nothing that a processor could guess.
            let old = Lanes(lanes).fold(0, |old, lane| {
                old | u32::from(age_ms(lane) >= since_ms) << lane
            });
            if old != 0 {
                return old;
            }
        }
        older_half(lanes, age_ms)
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
        let entries = self::entries(&[7; 5]);
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
        hand.leaving(0, 1, 50, &entries(&[50]));
        hand.note_begun(0, 3);
        // The first was seen at the visit and not since; the second after it.
        let entries = entries(&[50, 51, 20, 40, 90]);
        assert_eq!(hand.looked_at(0, 0b11111), 0b10111);
        assert_eq!(hand.leaving(0, 0b11111, 100, &entries), 0b00101);
        // None has begun since then.
        assert_eq!(hand.leaving(0, 0b11010, 200, &entries), 0b11010);
    }

    #[test]
    fn a_bucket_lets_flows_go_where_all_were_seen_and_where_all_have_begun() {
        let mut hand = Hand::new(2).unwrap();
        hand.pass(2);
        hand.leaving(0, 1, 50, &entries(&[50]));
        let entries = entries(&[60, 70, 80, 90]);
        assert_eq!(hand.leaving(0, 0b1111, 100, &entries), 0b0011);
        (0..4).for_each(|lane| hand.note_begun(0, lane));
        assert_eq!(hand.looked_at(0, 0b1111), 0b1111);
        assert_eq!(hand.leaving(0, 0b1111, 200, &entries), 0b0011);
    }

    #[test]
    fn a_clock_that_wraps_changes_nothing() {
        let mut hand = Hand::new(2).unwrap();
        hand.pass(2);
        hand.leaving(0, 1, u32::MAX - 10, &entries(&[0]));
        let entries = entries(&[u32::MAX - 20, u32::MAX - 5, 3]);
        assert_eq!(hand.leaving(0, 0b111, 5, &entries), 0b001);
    }
}
