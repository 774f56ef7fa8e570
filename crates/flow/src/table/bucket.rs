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

mod count;
mod growth;
mod room;

use super::hand::Hand;
use super::staged::Staged;
use super::{NO_SLOT, Observed, Step, Table, Wanted, WideKeys};
use crate::batch::{BURST, Batch, Packet};
use crate::ended::{EndedFlows, Opening};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::hash::FlowHash;
use crate::record::EndReason;
use growth::Scratch;
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

/// Buckets ahead of the sweep whose flows are asked for.
const SWEEP_AHEAD: u32 = 8;

/// The most flows for which a bucket is laid out when the table is full grown; room to spare keeps
/// flows in their own bucket.
const FLOWS_PER_BUCKET: usize = 20;

/// Buckets in the beginning: their entries are a MiB.
const BUCKETS_FIRST: u32 = if cfg!(test) { 2 } else { 512 };

/// Buckets in the beginning of a table whose memory was taken at once: their tags are half a MiB,
/// and 90,000 flows come before the first of them is split.
const BUCKETS_POPULATED: u32 = 8192;

/// The bucket table.
pub struct Bucket {
    tags: HugeSlice<TagLine>,
    entries: Lines<Entry>,
    openings: HugeSlice<Opening>,
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
    /// Packets that began a flow and slots of the flows, whose openings are to be written.
    begun: Vec<(u16, u32)>,
}

/// As many flows as are asked for, and slots can number.
fn flows_within(flows_max: usize) -> usize {
    flows_max.clamp(1, (NO_SLOT / LANES) as usize / 2)
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
            openings: HugeSlice::try_zeroed(entries.len())?,
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
            begun: Vec::with_capacity(BURST),
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

    /// Whether flows of other buckets may live in `bucket`. (Such a flow was sent on by every bucket in
    /// between: the one before tells without a hash that all are at home.)
    #[inline(always)]
    fn sends_on_to(&self, bucket: u32) -> bool {
        self.tags[self.before(bucket) as usize].0[SENT_ON] != 0
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

    /// Buckets that may hold flows.
    fn buckets_in_use(&self) -> u32 {
        self.slots() / LANES
    }
}

impl Table for Bucket {
    fn stage(&mut self, batch: &Batch) {
        let is_full = self.flows + batch.len() > self.flows_max;
        self.staged.begin(
            batch.hashes(),
            self.flows,
            is_full,
            self.buckets,
            &self.tags,
        );
    }

    fn make_room(&mut self, batch: &Batch, leaving: &mut Vec<u32>, ended: &mut EndedFlows) {
        if self.flows + self.staged.packets() > self.flows_max {
            let clock_ms = batch.packets().last().map_or(0, |last| last.clock_ms);
            self.move_hand(clock_ms, leaving, ended);
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
        prefetch::read(&self.openings, slot as usize);
    }

    fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    fn opening(&self, slot: u32) -> &Opening {
        &self.openings[slot as usize]
    }

    fn opening_mut(&mut self, slot: u32) -> &mut Opening {
        &mut self.openings[slot as usize]
    }

    fn tell(&self, slots: &[u32], ended: &mut EndedFlows) {
        for &slot in slots {
            let (entry, opening) = (&self.entries[slot as usize], &self.openings[slot as usize]);
            self.wide.tell(slot, entry, opening, ended);
        }
    }

    fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
        self.wide.flow_key(slot, entry)
    }

    fn remove(&mut self, slots: &[u32]) {
        for &slot in slots {
            if self.sends_on_to(slot / LANES) {
                self.call_back_slot(slot);
            }
            self.free_lane(slot);
        }
    }

    fn grow(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        self.split_crowded(moved)
    }

    fn populate(&mut self) {
        self.tags.populate();
        self.entries.populate();
        self.openings.populate();
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
        const FLOW: usize = size_of::<Entry>() + size_of::<Opening>();
        self.buckets_max as usize * (size_of::<TagLine>() + LANES as usize * FLOW)
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
        self.prefetch_lanes(CacheLevel::First, bucket, self.taken(bucket));
    }

    fn prefetch_lanes(&self, level: CacheLevel, bucket: u32, lanes: u32) {
        for lane in Lanes(lanes) {
            self.entries
                .prefetch_into(level, (bucket * LANES + lane) as usize);
        }
    }

    /// A bit for each lane of the bucket that holds a flow.
    #[inline(always)]
    fn taken(&self, bucket: u32) -> u32 {
        !tags::matches(&self.tags[bucket as usize], 0) & ((1 << TAGS) - 1)
    }
}
