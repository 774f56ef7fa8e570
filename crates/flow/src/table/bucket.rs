//! The default table: buckets of 31 flows, found by 16-bit tags that share one cache line.
//!
//! A burst is hashed, then the tag lines of its buckets are asked for, then the entries that the tags
//! point to, some packets ahead of the one that is counted: each step's memory latency passes while
//! other packets are served. Whole keys are compared, so no two flows ever merge.
//!
//! A bucket that is full sends new flows to the next one and counts them in the last lane of its
//! tag line, so a search stops at the first bucket that sent none on. When the table holds as many
//! flows as it may, flows of one bucket after the other leave as far as a burst needs room, before the
//! burst is counted: those that were not seen since the [`Hand`] came round last. Entries that lie
//! together are looked at together.
//! Where [`PROBES`] buckets in a row are full, a flow in them that has ended makes room or, if none
//! has, the least recently seen of [`DRAWN`] flows of the new flow's bucket.
//!
//! The table grows by linear hashing (Litwin 1980): one bucket after the other is split, a few
//! before a burst, so that there is never a moment in which all flows move. Its address space is
//! reserved whole from the start; what is used of it is its dense beginning, so few flows stay in
//! few cache lines and pages however many there may be.

use super::hand::Hand;
use super::staged::{self, Staged};
use super::{NO_SLOT, Observed, Step, Table, Wanted, WideKeys, count, open, silence_ns};
use crate::batch::{BURST, Batch, Packet};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::{Expiry, Watch};
use crate::hash::FlowHash;
use crate::record::EndReason;
use hw::lines::Lines;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use hw::tags::{self, TAGS, TagLine};
use std::io;
use std::ops::Range;
use wire::FlowKey;

/// Slots of a bucket; the last has no flow.
pub(super) const LANES: u32 = 32;

/// The lane of a tag line that counts the flows sent on to the next bucket.
const SENT_ON: usize = TAGS;

/// A flow lives at most this many buckets from its own.
const PROBES: u32 = 8;

/// Flows among which the least recently seen makes room.
const DRAWN: u32 = 4;

/// Buckets ahead of the hand whose flows are asked for.
const HAND_AHEAD: u32 = 4;

/// Buckets ahead of the sweep whose flows are asked for.
const SWEEP_AHEAD: u32 = 8;

/// The most flows for which a bucket is laid out when the table is full grown; room to spare keeps
/// flows in their own bucket.
const FLOWS_PER_BUCKET: usize = 20;

/// Mean flows in a bucket above which the table grows. A bucket whose turn to be split has not come
/// holds up to twice as many.
const GROW_ABOVE: usize = 11;

/// Buckets in the beginning: their entries are half a MiB.
const BUCKETS_FIRST: u32 = if cfg!(test) { 2 } else { 256 };

/// Buckets in the beginning of a table whose memory was taken at once: their tags are half a MiB,
/// and 90,000 flows come before the first of them is split.
const BUCKETS_POPULATED: u32 = 8192;

/// The most buckets that are split before a burst; a burst of nothing but new flows needs 24.
const SPLITS: usize = 32;

/// The bucket table.
pub struct Bucket {
    tags: HugeSlice<TagLine>,
    entries: Lines<Entry>,
    wide: WideKeys,
    hash: FlowHash,
    /// Buckets in use.
    buckets: u32,
    /// Buckets that there may be, a power of two.
    buckets_max: u32,
    flows: usize,
    flows_max: usize,
    hand: Hand,
    wanted: Wanted,
    staged: Staged,
    scratch: Scratch,
}

/// Where a packet's flow is.
enum Place {
    /// In this slot.
    Held(u32),
    /// Nowhere so far; it gets this slot.
    Free(u32),
    /// Nowhere, and another one has to leave this slot first, for a reason.
    Taken(u32, EndReason),
}

/// As many flows as are asked for, and slots can number.
fn flows_within(flows_max: usize) -> usize {
    flows_max.clamp(1, (NO_SLOT / LANES) as usize / 2)
}

/// Flows that a split looks at.
#[derive(Default)]
struct Scratch {
    slots: Vec<u32>,
    keys: Vec<u128>,
    hashes: Vec<u64>,
}

impl Scratch {
    /// Leaves only the flows whose hashes are `wanted`.
    fn keep(&mut self, wanted: impl Fn(u64) -> bool) {
        let mut kept = 0;
        for at in 0..self.hashes.len().min(self.slots.len()) {
            let (slot, hash) = (self.slots[at], self.hashes[at]);
            self.slots[kept] = slot;
            self.hashes[kept] = hash;
            kept += usize::from(wanted(hash));
        }
        self.slots.truncate(kept);
        self.hashes.truncate(kept);
    }
}

impl Bucket {
    /// A table of at most `flows_max` flows, whose batches are hashed by `hash` and whose entries are
    /// [as many](Self::slots_for) lines. `wanted`: what to tell of each packet.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub fn new(
        flows_max: usize,
        hash: FlowHash,
        wanted: Wanted,
        entries: Lines<Entry>,
    ) -> io::Result<Self> {
        let buckets_max = entries.len() / LANES as usize;
        Ok(Self {
            tags: HugeSlice::try_zeroed(buckets_max)?,
            wide: WideKeys::new(entries.len())?,
            entries,
            hash,
            buckets: BUCKETS_FIRST.min(buckets_max as u32),
            buckets_max: buckets_max as u32,
            flows: 0,
            flows_max: flows_within(flows_max),
            wanted,
            hand: Hand::new(buckets_max)?,
            staged: Staged::default(),
            scratch: Scratch::default(),
        })
    }

    /// Slots of a table of at most so many flows.
    #[must_use]
    pub fn slots_for(flows_max: usize) -> usize {
        let buckets = flows_within(flows_max)
            .div_ceil(FLOWS_PER_BUCKET)
            .max(PROBES as usize)
            .next_power_of_two();
        buckets * LANES as usize
    }

    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> u32 {
        tags::bucket_of(hash, self.buckets)
    }

    /// The bucket that takes what `bucket` has no room for; it may lie beyond those in use.
    fn next(&self, bucket: u32) -> u32 {
        (bucket + 1) & (self.buckets_max - 1)
    }

    /// The bucket that sends flows on to `bucket`.
    fn before(&self, bucket: u32) -> u32 {
        bucket.wrapping_sub(1) & (self.buckets_max - 1)
    }

    #[inline(always)]
    fn holds(&self, slot: u32, key: u128, batch: &Batch, packet: &Packet) -> bool {
        self.entries[slot as usize].key() == key
            && (key & FlowKey::WIDE_MARK == 0 || self.wide.equals(slot, batch, packet))
    }

    /// The slot of packet `at`'s flow, when it is not the likely one.
    #[inline(never)]
    fn find(&self, batch: &Batch, at: usize) -> Option<u32> {
        let (key, packet, tag) = (batch.keys()[at], &batch.packets()[at], self.staged.tag(at));
        let mut bucket = self.staged.bucket(at);
        for _ in 0..PROBES {
            let line = &self.tags[bucket as usize];
            let mut found = tags::matches(line, tag);
            while found != 0 {
                let slot = bucket * LANES + found.trailing_zeros();
                if self.holds(slot, key, batch, packet) {
                    return Some(slot);
                }
                found &= found - 1;
            }
            if line.0[SENT_ON] == 0 {
                return None;
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// The slot in bucket `home` for a new flow, in the plain case: the flow is certainly new, nothing
    /// of its bucket was sent on, and there is room; most often where it was `likely` to be.
    #[inline(always)]
    fn fresh_slot(&mut self, home: u32, tag: u16, likely: u32) -> Option<u32> {
        let line = &mut self.tags[home as usize];
        if self.flows >= self.flows_max || line.0[SENT_ON] != 0 || tags::matches(line, tag) != 0 {
            return None;
        }
        let likely = (likely % LANES) as usize;
        let lane = if line.0[likely] == 0 && likely != SENT_ON {
            likely
        } else {
            tags::free_lane(line, tag)? as usize
        };
        line.0[lane] = tag;
        self.hand.note_begun(home, lane as u32);
        self.flows += 1;
        Some(home * LANES + lane as u32)
    }

    /// Takes a free slot for a new flow of bucket `home`, or tells which flow makes room, and why.
    #[inline]
    fn allocate(
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
    fn take_lane(&mut self, home: u32, tag: u16) -> Option<u32> {
        let mut bucket = home;
        for probe in 0..PROBES {
            if let Some(lane) = tags::free_lane(&self.tags[bucket as usize], tag) {
                self.tags[bucket as usize].0[lane as usize] = tag;
                self.hand.note_begun(bucket, lane);
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
    fn free_lane(&mut self, slot: u32) {
        self.tags[(slot / LANES) as usize].0[(slot % LANES) as usize] = 0;
        self.flows -= 1;
        self.entries[slot as usize].close();
    }

    /// Counts that a flow of bucket `home` is no longer in `bucket`, among the flows sent on.
    #[inline]
    fn call_back(&mut self, home: u32, bucket: u32) {
        let mut passed = home;
        while passed != bucket {
            self.tags[passed as usize].0[SENT_ON] -= 1;
            passed = self.next(passed);
        }
    }

    /// The same of a flow whose bucket has to be told by its key.
    #[cold]
    fn call_back_of(&mut self, key: u128, bucket: u32) {
        let home = self.bucket_of(self.hash.hash_one(key));
        self.call_back(home, bucket);
    }

    /// Splits the bucket whose turn it is: of its flows, those whose hash says so move to a new one.
    ///
    /// # Errors
    /// A flow that would have to move and finds no room: it must be taken out first. (So many flows
    /// of one bucket need hashes that collide by intent.)
    fn split(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        let (new, grown) = (self.buckets, self.buckets + 1);
        let old = new - (1 << new.ilog2());
        let mut scratch = std::mem::take(&mut self.scratch);
        self.flows_near(old, &mut scratch);
        scratch.keep(|hash| tags::bucket_of(hash, grown) == new);
        let result = match scratch.slots.first() {
            Some(&slot) if scratch.slots.len() > self.room_near(new) => Err(slot),
            _ => {
                self.buckets = grown;
                for (&from, &hash) in scratch.slots.iter().zip(&scratch.hashes) {
                    // There is room for all of them.
                    let Some(to) = self.take_lane(new, tags::tag_of(hash)) else {
                        continue;
                    };
                    self.call_back(old, from / LANES);
                    self.entries[to as usize] = self.entries[from as usize];
                    self.free_lane(from);
                    self.wide.relocate(from, to, &self.entries[to as usize]);
                    moved(from, to);
                }
                Ok(())
            }
        };
        self.scratch = scratch;
        result
    }

    /// The flows of `bucket` and of those that took what it sent on, and their hashes.
    fn flows_near(&self, mut bucket: u32, found: &mut Scratch) {
        found.slots.clear();
        found.keys.clear();
        for _ in 0..PROBES {
            let slots = Lanes(self.taken(bucket)).map(|lane| bucket * LANES + lane);
            found.slots.extend(slots);
            if self.tags[bucket as usize].0[SENT_ON] == 0 {
                break;
            }
            bucket = self.next(bucket);
        }
        let keys = found.slots.iter();
        found
            .keys
            .extend(keys.map(|&slot| self.entries[slot as usize].key()));
        found.hashes.resize(found.keys.len(), 0);
        self.hash.hash_burst(&found.keys, &mut found.hashes);
    }

    /// How many flows of `bucket` find room.
    fn room_near(&self, mut bucket: u32) -> usize {
        let mut room = 0;
        for _ in 0..PROBES {
            room += TAGS - self.taken(bucket).count_ones() as usize;
            bucket = self.next(bucket);
        }
        room
    }

    /// Asks for the flows of the bucket that will be split next.
    fn prefetch_split(&self) {
        let next = self.buckets - (1 << self.buckets.ilog2());
        self.prefetch_occupied(next);
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

    /// Buckets that may hold flows.
    fn buckets_in_use(&self) -> u32 {
        self.slots() / LANES
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

    fn run<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        // A loop for each, in which the level is a constant.
        match self.staged.level() {
            level @ CacheLevel::First => {
                self.run_at::<NUMBERS, GAPS, INTER_ARRIVAL>(level, batch, packets, expiry, observed)
            }
            level @ CacheLevel::Second => {
                self.run_at::<NUMBERS, GAPS, INTER_ARRIVAL>(level, batch, packets, expiry, observed)
            }
        }
    }

    #[inline(always)]
    fn run_at<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        level: CacheLevel,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let mut start = packets.start;
        while start < packets.end {
            let end = packets.end.min(start + staged::step(level));
            self.staged
                .approach(level, start, batch, &self.tags, &self.entries, &self.wide);
            let result =
                self.run_step::<NUMBERS, GAPS, INTER_ARRIVAL>(batch, start..end, expiry, observed);
            if result != Step::Done {
                return result;
            }
            start = end;
        }
        Step::Done
    }

    #[inline(always)]
    fn run_step<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        batch: &Batch,
        Range { start, end }: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let end = end.min(BURST);
        let (keys, packets) = (&batch.keys()[..end], &batch.packets()[..end]);
        let (earliest, latest) = (packets.get(start), packets.last());
        let [earliest_ms, latest_ms] =
            [earliest, latest].map(|packet| packet.map_or(0, |packet| packet.clock_ms));
        let watch = expiry.watch(earliest_ms, latest_ms);
        observed.slots[start..end].copy_from_slice(self.staged.slots(start..end));
        let mut at = start;
        loop {
            at += self.count_likely::<NUMBERS, GAPS, INTER_ARRIVAL>(
                &keys[at..],
                &packets[at..],
                at,
                watch,
                observed,
            );
            // Where one flow begins, others often do.
            let mut begins = true;
            while begins {
                if at >= end {
                    return Step::Done;
                }
                let (key, packet) = (keys[at], &packets[at]);
                let place = self.place(batch, at, expiry);
                let slot = match place {
                    Place::Held(slot) => slot,
                    Place::Free(slot) => {
                        self.wide.set(slot, batch, packet);
                        let entry = &mut self.entries[slot as usize];
                        open(entry, key, packet, at, slot, expiry, observed);
                        at += 1;
                        continue;
                    }
                    Place::Taken(slot, reason) => return Step::Ended { at, slot, reason },
                };
                let entry = &mut self.entries[slot as usize];
                if let Some(reason) = expiry.ended_before_by(watch, entry, packet) {
                    return Step::Ended { at, slot, reason };
                }
                count::<NUMBERS, GAPS, INTER_ARRIVAL>(entry, packet, at, slot, observed);
                begins = false;
                at += 1;
            }
        }
    }

    /// Where packet `at` is to be counted.
    #[inline(always)]
    fn place(&mut self, batch: &Batch, at: usize, expiry: &Expiry) -> Place {
        let (key, packet) = (batch.keys()[at], &batch.packets()[at]);
        let (home, tag) = (self.staged.bucket(at), self.staged.tag(at));
        let likely = self.staged.slot(at);
        if self.holds(likely, key, batch, packet) {
            return Place::Held(likely);
        }
        if let Some(slot) = self.fresh_slot(home, tag, likely) {
            return Place::Free(slot);
        }
        if let Some(slot) = self.find(batch, at) {
            return Place::Held(slot);
        }
        match self.allocate(home, tag, packet.clock_ms, expiry) {
            Ok(slot) => Place::Free(slot),
            Err((slot, reason)) => Place::Taken(slot, reason),
        }
    }

    /// Counts packets, those of the batch from `at` on, as long as they are such as nearly all: each in
    /// the slot where its flow most likely is, with its whole key, not ended, and little past since its
    /// last one; how many. What a loop over them needs stays in the processor's registers.
    #[inline(always)]
    fn count_likely<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        keys: &[u128],
        packets: &[Packet],
        at: usize,
        watch: Watch,
        observed: &mut Observed,
    ) -> usize {
        let mut entries = self.entries.view();
        let slots = &observed.slots[at..];
        let gaps = &mut observed.gaps[at..];
        let inter_arrival_ns = &mut observed.inter_arrival_ns[at..];
        let places = slots.len().min(gaps.len()).min(inter_arrival_ns.len());
        let count = keys.len().min(packets.len()).min(places);
        for at in 0..count {
            let (key, packet) = (keys[at], &packets[at]);
            let Some(entry) = entries.get_mut(slots[at] as usize) else {
                return at;
            };
            if entry.key() != key
                || key & FlowKey::WIDE_MARK != 0
                || watch.may_have_ended(entry, packet)
            {
                return at;
            }
            if NUMBERS {
                let Some(passed) = entry.passed(packet) else {
                    return at;
                };
                if GAPS {
                    gaps[at] = u64::from(passed.get() - 1);
                }
            }
            if INTER_ARRIVAL {
                inter_arrival_ns[at] = silence_ns(entry, packet);
            }
            entry.count_near::<NUMBERS>(packet);
        }
        count
    }
}

impl Table for Bucket {
    fn stage(&mut self, batch: &Batch) {
        self.staged
            .begin(batch.hashes(), self.flows, self.buckets, &self.tags);
    }

    fn make_room(&mut self, batch: &Batch, leaving: &mut Vec<u32>) {
        if self.flows + self.staged.packets() <= self.flows_max {
            return;
        }
        let beginning = self.staged.beginning(&self.tags);
        let clock_ms = batch.packets().last().map_or(0, |last| last.clock_ms);
        let mut excess = (self.flows + beginning).saturating_sub(self.flows_max);
        // One round at most: who is named leaves only when this is over.
        let buckets = self.buckets_in_use();
        for _ in 0..buckets {
            if excess == 0 {
                break;
            }
            let bucket = self.hand.pass(buckets);
            let taken = self.taken(bucket);
            let lanes = self.hand.leaving(bucket, taken, clock_ms, &self.entries);
            leaving.extend(Lanes(lanes).map(|lane| bucket * LANES + lane));
            excess = excess.saturating_sub(lanes.count_ones() as usize);
            let ahead = self.hand.ahead(HAND_AHEAD, buckets);
            self.prefetch_lanes(ahead, self.hand.looked_at(ahead, self.taken(ahead)));
        }
    }

    fn update(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let run = match self.wanted.kind() {
            (false, false, false) => Self::run::<false, false, false>,
            (false, false, true) => Self::run::<false, false, true>,
            (true, false, false) => Self::run::<true, false, false>,
            (true, false, true) => Self::run::<true, false, true>,
            (_, true, false) => Self::run::<true, true, false>,
            (_, true, true) => Self::run::<true, true, true>,
        };
        run(self, batch, packets, expiry, observed)
    }

    fn level(&self) -> CacheLevel {
        self.staged.level()
    }

    fn prefetch(&self, slot: u32) {
        self.entries.prefetch(slot as usize);
    }

    fn approach_removal(&self, slot: u32) {
        let bucket = slot / LANES;
        prefetch::read(&self.tags, bucket as usize);
        prefetch::read(&self.tags, self.before(bucket) as usize);
    }

    fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
        self.wide.flow_key(slot, entry)
    }

    fn remove(&mut self, slots: &[u32]) {
        for &slot in slots {
            // A flow that lives outside its own bucket was sent on by every bucket in between: the
            // one before the slot's tells without a hash that it is at home.
            let bucket = slot / LANES;
            if self.tags[self.before(bucket) as usize].0[SENT_ON] != 0 {
                self.call_back_of(self.entries[slot as usize].key(), bucket);
            }
            self.free_lane(slot);
        }
    }

    fn grow(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        for _ in 0..SPLITS {
            if self.buckets == self.buckets_max || self.flows <= self.buckets as usize * GROW_ABOVE
            {
                break;
            }
            self.split(moved)?;
            self.prefetch_split();
        }
        Ok(())
    }

    fn populate(&mut self) {
        self.tags.populate();
        self.entries.populate();
        self.wide.populate();
        self.hand.populate();
        self.buckets = BUCKETS_POPULATED.min(self.buckets_max);
    }

    fn slots(&self) -> u32 {
        (self.buckets + PROBES - 1).min(self.buckets_max) * LANES
    }

    fn slots_max(&self) -> u32 {
        self.buckets_max * LANES
    }

    fn flows(&self) -> usize {
        self.flows
    }

    fn expired(
        &self,
        from: u32,
        to: u32,
        clock_ms: u32,
        expiry: &Expiry,
        ended: &mut Vec<(u32, EndReason)>,
    ) {
        self.for_occupied(from, to, |slot| {
            if let Some(reason) = expiry.ended(&self.entries[slot as usize], clock_ms) {
                ended.push((slot, reason));
            }
        });
    }

    fn occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
        self.for_occupied(from, to, |slot| slots.push(slot));
    }

    fn memory_bytes(&self) -> usize {
        self.buckets_max as usize * (size_of::<TagLine>() + LANES as usize * size_of::<Entry>())
            + Hand::memory_bytes(self.buckets_max as usize)
            + self.wide.memory_bytes()
    }
}

/// The lanes whose bits are set.
pub(super) struct Lanes(pub(super) u32);

impl Iterator for Lanes {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

impl Bucket {
    #[inline]
    fn for_occupied(&self, from: u32, to: u32, mut visit: impl FnMut(u32)) {
        let end = to.div_ceil(LANES).min(self.buckets_max);
        for bucket in from / LANES..end {
            self.prefetch_occupied((bucket + SWEEP_AHEAD).min(end - 1));
            for slot in Lanes(self.taken(bucket)).map(|lane| bucket * LANES + lane) {
                if (from..to).contains(&slot) {
                    visit(slot);
                }
            }
        }
    }

    fn prefetch_occupied(&self, bucket: u32) {
        self.prefetch_lanes(bucket, self.taken(bucket));
    }

    fn prefetch_lanes(&self, bucket: u32, lanes: u32) {
        for lane in Lanes(lanes) {
            self.entries.prefetch((bucket * LANES + lane) as usize);
        }
    }

    /// A bit for each lane of the bucket that holds a flow.
    #[inline(always)]
    fn taken(&self, bucket: u32) -> u32 {
        !tags::matches(&self.tags[bucket as usize], 0) & ((1 << TAGS) - 1)
    }
}
