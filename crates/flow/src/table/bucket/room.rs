//! Room for a flow that begins: a free slot near its bucket, or a flow that leaves one.

use super::{Bucket, LANES, Lanes, PROBES, SENT_ON};
use crate::ended::{EndedFlows, Opening};
use crate::entry::FlowEntry;
use crate::expiry::Expiry;
use crate::record::EndReason;
use hw::prefetch::{self, CacheLevel};
use hw::tags;

/// Flows among which the least recently seen makes room.
const DRAWN: u32 = 4;

/// Buckets ahead of the hand whose flows are asked for: into the second-level cache, which has more
/// lines under way, since a flood asks for five lines a packet.
const HAND_AHEAD: u32 = 12;

impl Bucket {
    /// The slot in bucket `home` for a new flow, in the plain case: the flow is certainly new, nothing
    /// of its bucket was sent on, and there is room; most often where it was `likely` to be.
    #[inline(always)]
    pub(super) fn fresh_slot(&mut self, home: u32, tag: u16, likely: u32) -> Option<u32> {
        let line = &mut self.tags[home as usize];
        if self.flows >= self.flows_max || line.0[SENT_ON] != 0 || tags::matches(line, tag) != 0 {
            return None;
        }
        let likely = likely % LANES;
        let lane = match line.0[likely as usize] == 0 && likely as usize != SENT_ON {
            true => likely,
            false => tags::free_lane(line, tag)?,
        };
        line.0[lane as usize] = tag;
        self.flows += 1;
        Some(home * LANES + lane)
    }

    /// Takes flows out, those of one bucket after the other, until as many flows as most likely begin
    /// within the staged burst find room.
    pub(super) fn move_hand(
        &mut self,
        clock_ms: u32,
        leaving: &mut Vec<u32>,
        ended: &mut EndedFlows,
    ) {
        let beginning = self.staged.beginning(&self.tags);
        let buckets = self.buckets_in_use();
        // One round at most, should nobody leave.
        for _ in 0..buckets {
            if self.flows + beginning <= self.flows_max {
                break;
            }
            let bucket = self.hand.pass(buckets);
            let taken = self.taken(bucket);
            let lanes = self.hand.leaving(bucket, taken, clock_ms, &self.entries);
            self.let_go(bucket, lanes, leaving, ended);
            let ahead = self.hand.ahead(HAND_AHEAD, buckets);
            let lanes = self.hand.looked_at(ahead, self.taken(ahead));
            self.prefetch_lanes(CacheLevel::Second, ahead, lanes);
            self.prefetch_openings(CacheLevel::Second, ahead);
        }
    }

    /// Asks for the openings of a bucket's flows.
    fn prefetch_openings(&self, level: CacheLevel, bucket: u32) {
        const LINE: usize = 64 / size_of::<Opening>();
        let first = (bucket * LANES) as usize;
        for place in (first..first + LANES as usize).step_by(LINE) {
            prefetch::into(level, &self.openings, place);
        }
    }

    /// Takes the flows in these lanes of a bucket out.
    #[inline(always)]
    fn let_go(&mut self, bucket: u32, lanes: u32, leaving: &mut Vec<u32>, ended: &mut EndedFlows) {
        if self.sends_on_to(bucket) {
            Lanes(lanes).for_each(|lane| self.call_back_slot(bucket * LANES + lane));
        }
        let count = lanes.count_ones() as usize;
        leaving.reserve(count);
        ended.entries.reserve(count);
        ended.openings.reserve(count);
        let (line, mut entries) = (&mut self.tags[bucket as usize], self.entries.view());
        let openings = &self.openings[..];
        for lane in Lanes(lanes) {
            let slot = bucket * LANES + lane;
            let place = slot as usize;
            if let (Some(entry), Some(opening)) = (entries.get_mut(place), openings.get(place)) {
                self.wide.tell(slot, entry, opening, ended);
                entry.close();
                line.0[(lane % LANES) as usize] = 0;
                leaving.push(slot);
            }
        }
        self.flows -= count;
    }

    /// Takes a free slot for a new flow of bucket `home`, or tells which flow makes room, and why.
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
            if let Some(slot) = self.take_lane(home, tag) {
                return Ok(slot);
            }
            ended = self.ended_near(home, clock_ms, expiry);
        }
        Err(ended.unwrap_or_else(|| (self.victim(home, tag, clock_ms), EndReason::LackOfResources)))
    }

    /// A flow that has ended in the buckets that may take flows of bucket `home`. (Such flows wait
    /// for the sweep, and fill the buckets that it passes next more than others.)
    #[cold]
    fn ended_near(&self, home: u32, clock_ms: u32, expiry: &Expiry) -> Option<(u32, EndReason)> {
        let mut bucket = home;
        for _ in 0..PROBES {
            for lane in Lanes(self.taken(bucket)) {
                let slot = bucket * LANES + lane;
                if let Some(reason) = expiry.ended(&self.entries[slot as usize], clock_ms) {
                    return Some((slot, reason));
                }
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Takes a free slot in bucket `home` or one of those that follow it.
    #[inline]
    pub(super) fn take_lane(&mut self, home: u32, tag: u16) -> Option<u32> {
        let mut bucket = home;
        for probe in 0..PROBES {
            if let Some(lane) = tags::free_lane(&self.tags[bucket as usize], tag) {
                self.tags[bucket as usize].0[lane as usize] = tag;
                self.flows += 1;
                if probe > 0 {
                    self.send_on(home, bucket);
                }
                return Some(bucket * LANES + lane);
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Frees a slot, of which nothing is known elsewhere.
    #[inline(always)]
    pub(super) fn free_lane(&mut self, slot: u32) {
        self.tags[(slot / LANES) as usize].0[(slot % LANES) as usize] = 0;
        self.flows -= 1;
        self.entries[slot as usize].close();
    }

    /// Counts that a flow of bucket `home` is no longer in `bucket`, among the flows sent on.
    #[inline]
    pub(super) fn call_back(&mut self, home: u32, bucket: u32) {
        let mut passed = home;
        while passed != bucket {
            self.tags[passed as usize].0[SENT_ON] -= 1;
            passed = self.next(passed);
        }
    }

    /// The same of the flow in a slot, whose own bucket has to be told by its key.
    #[cold]
    pub(super) fn call_back_slot(&mut self, slot: u32) {
        let key = self.entries[slot as usize].key();
        let home = self.bucket_of(self.hash.hash_one(key));
        self.call_back(home, slot / LANES);
    }

    #[cold]
    fn send_on(&mut self, home: u32, to: u32) {
        let mut bucket = home;
        while bucket != to {
            self.tags[bucket as usize].0[SENT_ON] += 1;
            bucket = self.next(bucket);
        }
    }

    /// The least recently seen of a few flows of the first bucket from `home` on that has any.
    fn victim(&self, home: u32, tag: u16, clock_ms: u32) -> u32 {
        let mut bucket = home;
        while self.taken(bucket) == 0 {
            bucket = self.next(bucket);
        }
        let mut best = (0, bucket * LANES);
        for slot in self.drawn(bucket, tag) {
            let age_ms = clock_ms.wrapping_sub(self.entries[slot as usize].last_clock_ms());
            best = best.max((age_ms.saturating_add(1), slot));
        }
        best.1
    }

    /// The flows of a bucket among which one leaves for a flow with `tag`.
    #[inline(always)]
    fn drawn(&self, bucket: u32, tag: u16) -> impl Iterator<Item = u32> + use<> {
        let start = u32::from(tag >> 11);
        let mut taken = self.taken(bucket).rotate_right(start);
        (0..DRAWN).map_while(move |_| {
            let lane = taken.trailing_zeros();
            taken &= taken.wrapping_sub(1);
            (lane < LANES).then_some(bucket * LANES + (lane + start) % LANES)
        })
    }
}
