//! Allocation of slots for new flows: a free slot in or near the home bucket, or that of a flow to
//! evict.

use super::{BucketTable, OVERFLOW_LANE, PROBES_MAX, SPARSE_FLOWS_PER_BUCKET};
use crate::end_reason::EndReason;
use crate::ended::{EndedFlows, FlowStart};
use crate::entry::FlowEntry;
use crate::expiry::Expiry;
use crate::table::lanes::{LANES, Lanes};
use hw::prefetch::{self, CacheLevel};
use hw::tags;

/// The number of flows among which the least recently seen is evicted.
const EVICTION_CANDIDATES: u32 = 4;

/// How many buckets ahead of the clock hand to prefetch flows. They go into the L2 cache, which can
/// have more lines in flight than the L1 cache: in a flood, every packet needs five lines.
const HAND_PREFETCH_BUCKETS: u32 = 12;

impl BucketTable {
    /// Claims a slot in bucket `home` for a flow, preferably the `likely` slot.
    ///
    /// Returns `None` unless the case is simple: no tag matches and the bucket has no overflow, so the
    /// flow is certainly new, and there is a free slot.
    #[inline]
    pub(super) fn claim_home_slot(&mut self, home: u32, tag: u16, likely: u32) -> Option<u32> {
        let line = &mut self.tags[home as usize];
        if self.flows >= self.flows_max
            || line.0[OVERFLOW_LANE] != 0
            || tags::matches(line, tag) != 0
        {
            return None;
        }
        let likely = likely % LANES;
        let lane = match line.0[likely as usize] == 0 && likely as usize != OVERFLOW_LANE {
            true => likely,
            false => tags::free_lane(line, tag)?,
        };
        line.0[lane as usize] = tag;
        self.flows += 1;
        Some(home * LANES + lane)
    }

    /// Evicts flows, bucket by bucket, until the likely new flows of the prefetched batch fit.
    pub(super) fn advance_clock_hand(
        &mut self,
        clock_ms: u32,
        evicted: &mut Vec<u32>,
        ended: &mut EndedFlows,
    ) {
        let new_flows = self.prefetcher.likely_new_flows(&self.tags);
        let buckets = self.buckets_in_use();
        // At most one round, even if no flow is evicted.
        for _ in 0..buckets {
            if self.flows + new_flows <= self.flows_max {
                break;
            }
            let bucket = self.clock_hand.advance(buckets);
            let taken = self.taken_lanes(bucket);
            let lanes = self
                .clock_hand
                .choose_evicted(bucket, taken, clock_ms, &self.entries);
            self.evict_lanes(bucket, lanes, evicted, ended);
            let ahead = self.clock_hand.bucket_ahead(HAND_PREFETCH_BUCKETS, buckets);
            let lanes = self.clock_hand.candidates(ahead, self.taken_lanes(ahead));
            self.prefetch_lanes(CacheLevel::L2, ahead, lanes);
            self.prefetch_starts(CacheLevel::L2, ahead);
        }
    }

    /// Prefetches the starts of a bucket's flows.
    fn prefetch_starts(&self, level: CacheLevel, bucket: u32) {
        const STARTS_PER_LINE: usize = 64 / size_of::<FlowStart>();
        let first = (bucket * LANES) as usize;
        for slot in (first..first + LANES as usize).step_by(STARTS_PER_LINE) {
            prefetch::read_into(level, &self.starts, slot);
        }
    }

    /// Removes the flows in these lanes of a bucket, after copying them out.
    #[inline]
    fn evict_lanes(
        &mut self,
        bucket: u32,
        lanes: u32,
        evicted: &mut Vec<u32>,
        ended: &mut EndedFlows,
    ) {
        if self.may_hold_overflow(bucket) {
            Lanes(lanes).for_each(|lane| self.dec_overflow_of_slot(bucket * LANES + lane));
        }
        let count = lanes.count_ones() as usize;
        evicted.reserve(count);
        ended.entries.reserve(count);
        ended.starts.reserve(count);
        let (line, mut entries) = (&mut self.tags[bucket as usize], self.entries.view());
        let starts = &self.starts[..];
        for lane in Lanes(lanes) {
            let slot = bucket * LANES + lane;
            let index = slot as usize;
            if let (Some(entry), Some(start)) = (entries.get_mut(index), starts.get(index)) {
                self.wide.copy_out(slot, entry, start, ended);
                entry.close();
                line.0[(lane % LANES) as usize] = 0;
                evicted.push(slot);
            }
        }
        self.flows -= count;
    }

    /// Claims a free slot for a new flow of bucket `home`.
    ///
    /// # Errors
    /// If there is none, the slot of the flow that must end first, and its end reason.
    #[inline]
    pub(super) fn allocate(
        &mut self,
        home: u32,
        tag: u16,
        clock_ms: u32,
        expiry: &Expiry,
    ) -> Result<u32, (u32, EndReason)> {
        let mut ended = None;
        if self.flows < self.flows_max {
            if let Some(slot) = self.claim_lane(home, tag) {
                return Ok(slot);
            }
            ended = self.find_ended(home, clock_ms, expiry);
            self.collisions.evicted += u64::from(ended.is_none());
        }
        Err(ended.unwrap_or_else(|| {
            (
                self.least_recently_seen(home, tag, clock_ms),
                EndReason::LackOfResources,
            )
        }))
    }

    /// Finds an ended flow in the buckets that may hold flows of bucket `home`.
    ///
    /// Ended flows stay until the sweep reaches them, so they fill buckets, most of all those that it
    /// reaches next.
    #[cold]
    fn find_ended(&self, home: u32, clock_ms: u32, expiry: &Expiry) -> Option<(u32, EndReason)> {
        let mut bucket = home;
        for _ in 0..PROBES_MAX {
            for lane in Lanes(self.taken_lanes(bucket)) {
                let slot = bucket * LANES + lane;
                if let Some(reason) = expiry.ended(&self.entries[slot as usize], clock_ms) {
                    return Some((slot, reason));
                }
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Claims a free slot in bucket `home` or one of the buckets after it.
    #[inline]
    pub(super) fn claim_lane(&mut self, home: u32, tag: u16) -> Option<u32> {
        let mut bucket = home;
        for probe in 0..PROBES_MAX {
            if let Some(lane) = tags::free_lane(&self.tags[bucket as usize], tag) {
                self.tags[bucket as usize].0[lane as usize] = tag;
                self.flows += 1;
                if probe > 0 {
                    self.inc_overflow(home, bucket);
                }
                return Some(bucket * LANES + lane);
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Frees a slot without updating overflow counts.
    #[inline]
    pub(super) fn free_lane(&mut self, slot: u32) {
        self.tags[(slot / LANES) as usize].0[(slot % LANES) as usize] = 0;
        self.flows -= 1;
        self.entries[slot as usize].close();
    }

    /// Decrements the overflow counts of the buckets from `home` up to `holder`, which no longer holds
    /// a flow of `home`.
    #[inline]
    pub(super) fn dec_overflow(&mut self, home: u32, holder: u32) {
        let mut bucket = home;
        while bucket != holder {
            self.tags[bucket as usize].0[OVERFLOW_LANE] -= 1;
            bucket = self.next(bucket);
        }
    }

    /// Does the same for the flow in a slot, whose home bucket is found by hashing its key.
    #[cold]
    pub(super) fn dec_overflow_of_slot(&mut self, slot: u32) {
        let key = self.entries[slot as usize].key();
        let home = self.bucket_of(self.hash.hash_one(key));
        self.dec_overflow(home, slot / LANES);
    }

    /// Increments the overflow counts of the buckets from `home` up to `holder`, which holds a new
    /// flow of `home`.
    #[cold]
    fn inc_overflow(&mut self, home: u32, holder: u32) {
        let is_sparse = self.flows <= self.buckets as usize * SPARSE_FLOWS_PER_BUCKET;
        self.collisions.overflowed += u64::from(is_sparse);
        let mut bucket = home;
        while bucket != holder {
            self.tags[bucket as usize].0[OVERFLOW_LANE] += 1;
            bucket = self.next(bucket);
        }
    }

    /// Returns the slot of the least recently seen of a few flows, in the first bucket from `home` on
    /// that is not empty.
    fn least_recently_seen(&self, home: u32, tag: u16, clock_ms: u32) -> u32 {
        let mut bucket = home;
        while self.taken_lanes(bucket) == 0 {
            bucket = self.next(bucket);
        }
        let mut best = (0, bucket * LANES);
        for slot in self.eviction_candidates(bucket, tag) {
            let age_ms = clock_ms.wrapping_sub(self.entries[slot as usize].last_clock_ms());
            best = best.max((age_ms.saturating_add(1), slot));
        }
        best.1
    }

    /// Returns the slots of a few flows of a bucket, one of which is evicted for a flow with `tag`.
    /// The tag varies the choice.
    #[inline]
    fn eviction_candidates(&self, bucket: u32, tag: u16) -> impl Iterator<Item = u32> + use<> {
        let start = u32::from(tag >> 11);
        let mut taken = self.taken_lanes(bucket).rotate_right(start);
        (0..EVICTION_CANDIDATES).map_while(move |_| {
            let lane = taken.trailing_zeros();
            taken &= taken.wrapping_sub(1);
            (lane < LANES).then_some(bucket * LANES + (lane + start) % LANES)
        })
    }
}
