//! The default table: buckets of 31 flows, with one cache line of 16-bit tags per bucket.
//!
//! **Lookup.** The [`Prefetcher`] works some packets ahead of the packet that is counted: it prefetches
//! the tag lines of the buckets, then the entries whose tags match. The latency of each step passes
//! while other packets are counted. Whole keys are compared, so flows never merge.
//!
//! **Overflow.** A new flow that does not fit its home bucket goes to one of the next buckets. Each full
//! bucket that it passes counts it in the last lane of its tag line, so a lookup stops at the first
//! bucket with an overflow count of zero.
//!
//! **Eviction.** When the table is at its maximum, flows are evicted before a burst is counted, bucket by
//! bucket, until the burst fits: those that were not seen since the last visit of the [`ClockHand`].
//! Going by buckets, the entries that are checked together are adjacent in memory. If [`PROBES_MAX`]
//! consecutive buckets are full below that maximum, an ended flow in them makes room or, if there is
//! none, the least recently seen of a few flows of the new flow's bucket.
//!
//! **Collisions.** Anyone who knows the hash can choose keys of one bucket. They then pass many full
//! buckets, or evict each other from a table with room. Both are counted ([`Collisions`]), because a
//! hash with a secret seed prevents them.
//!
//! **Growth.** The table grows by linear hashing (Litwin 1980): a few buckets are split before a burst,
//! so flows never move all at once. The address space is reserved at the start, and the buckets in use
//! are its dense beginning, so few flows take few cache lines and pages whatever the maximum.

mod allocation;
mod count;
mod growth;
mod scratch;

use super::clock_hand::ClockHand;
use super::lanes::{LANES, Lanes};
use super::prefetcher::Prefetcher;
use super::{Collisions, NO_SLOT, Observed, Outputs, Step, Table, WideKeys};
use crate::batch::{BURST, Batch, Packet};
use crate::end_reason::EndReason;
use crate::ended::{EndedFlows, FlowStart};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::hash::FlowHash;
use hw::lines::Lines;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use hw::tags::{self, TAGS, TagLine};
use scratch::Scratch;
use std::io;
use std::ops::Range;
use wire::FlowKey;

/// The lane of a tag line that counts the flows that passed the bucket because it was full.
const OVERFLOW_LANE: usize = TAGS;

/// The maximum number of buckets that a lookup probes, the home bucket included.
const PROBES_MAX: u32 = 8;

/// How many buckets ahead the sweep prefetches entries.
const SWEEP_PREFETCH_BUCKETS: u32 = 8;

/// The maximum mean number of flows per bucket of a fully grown table. Spare room keeps flows in their
/// home buckets.
const FLOWS_PER_BUCKET: usize = 20;

/// The maximum mean number of flows per bucket of a nearly empty table. With a good hash, a bucket that is
/// not split yet, and so holds twice as many, overflows with a probability of 10^-10.
const SPARSE_FLOWS_PER_BUCKET: usize = 4;

/// Buckets of a new table: their entries take 1 MiB.
const INITIAL_BUCKETS: u32 = if cfg!(test) { 2 } else { 512 };

/// Buckets of a populated table: their tags take 512 KiB, and the first split comes at 90,000 flows.
const POPULATED_BUCKETS: u32 = 8192;

/// The bucket table.
pub struct BucketTable {
    tags: HugeSlice<TagLine>,
    entries: Lines<Entry>,
    starts: HugeSlice<FlowStart>,
    wide: WideKeys,
    hash: FlowHash,
    /// Buckets in use.
    buckets: u32,
    /// The maximum number of buckets, a power of two.
    buckets_max: u32,
    flows: usize,
    flows_max: usize,
    clock_hand: ClockHand,
    outputs: Outputs,
    prefetcher: Prefetcher,
    scratch: Scratch,
    collisions: Collisions,
    /// Packets that opened a flow, and the flows' slots, whose starts are not written yet.
    opened: Vec<(u16, u32)>,
}

/// Limits a number of flows to what slot numbers can address.
fn clamp_flows(flows_max: usize) -> usize {
    flows_max.clamp(1, (NO_SLOT / LANES) as usize / 2)
}

impl BucketTable {
    /// Creates a table of at most `flows_max` flows that computes `outputs` for each packet.
    ///
    /// Batches must be hashed with `hash`. `entries` must have [`BucketTable::slots_for`] lines.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(
        flows_max: usize,
        hash: FlowHash,
        outputs: Outputs,
        entries: Lines<Entry>,
    ) -> io::Result<Self> {
        let buckets_max = entries.len() / LANES as usize;
        Ok(Self {
            tags: HugeSlice::try_zeroed(buckets_max)?,
            starts: HugeSlice::try_zeroed(entries.len())?,
            wide: WideKeys::new(entries.len())?,
            entries,
            hash,
            buckets: INITIAL_BUCKETS.min(buckets_max as u32),
            buckets_max: buckets_max as u32,
            flows: 0,
            flows_max: clamp_flows(flows_max),
            outputs,
            clock_hand: ClockHand::new(buckets_max)?,
            prefetcher: Prefetcher::default(),
            scratch: Scratch::default(),
            collisions: Collisions::default(),
            opened: Vec::with_capacity(BURST),
        })
    }

    /// Returns the number of slots of a table of at most `flows_max` flows.
    #[must_use]
    pub fn slots_for(flows_max: usize) -> usize {
        let buckets = clamp_flows(flows_max)
            .div_ceil(FLOWS_PER_BUCKET)
            .max(PROBES_MAX as usize)
            .next_power_of_two();
        buckets * LANES as usize
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> u32 {
        tags::bucket_of(hash, self.buckets)
    }

    /// Returns the bucket that takes the overflow of `bucket`. It may be beyond the buckets in use.
    fn next(&self, bucket: u32) -> u32 {
        (bucket + 1) & (self.buckets_max - 1)
    }

    /// Returns the bucket whose overflow goes to `bucket`.
    fn previous(&self, bucket: u32) -> u32 {
        bucket.wrapping_sub(1) & (self.buckets_max - 1)
    }

    /// Returns whether `bucket` may hold flows of other home buckets.
    ///
    /// Such a flow is counted by every bucket that it passed, so the overflow count of the previous
    /// bucket answers this without hashing any key.
    #[inline]
    fn may_hold_overflow(&self, bucket: u32) -> bool {
        self.tags[self.previous(bucket) as usize].0[OVERFLOW_LANE] != 0
    }

    #[inline]
    fn slot_matches(&self, slot: u32, key: u128, batch: &Batch, packet: &Packet) -> bool {
        self.entries[slot as usize].key() == key
            && (key & FlowKey::WIDE_MARK == 0 || self.wide.equals(slot, batch, packet))
    }

    /// Finds the slot of packet `at`'s flow by a full search, if it is not in the likely slot.
    #[inline(never)]
    fn find(&self, batch: &Batch, at: usize) -> Option<u32> {
        let (key, packet, tag) = (
            batch.keys()[at],
            &batch.packets()[at],
            self.prefetcher.tag(at),
        );
        let mut bucket = self.prefetcher.bucket(at);
        for _ in 0..PROBES_MAX {
            let line = &self.tags[bucket as usize];
            let mut found = tags::matches(line, tag);
            while found != 0 {
                let slot = bucket * LANES + found.trailing_zeros();
                if self.slot_matches(slot, key, batch, packet) {
                    return Some(slot);
                }
                found &= found - 1;
            }
            if line.0[OVERFLOW_LANE] == 0 {
                return None;
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Returns the number of buckets that may hold flows.
    fn buckets_in_use(&self) -> u32 {
        self.slots() / LANES
    }
}

impl Table for BucketTable {
    fn prefetch_batch(&mut self, batch: &Batch) {
        let is_full = self.flows + batch.len() > self.flows_max;
        self.prefetcher.start_batch(
            batch.hashes(),
            self.flows,
            is_full,
            self.buckets,
            &self.tags,
        );
    }

    fn evict(&mut self, batch: &Batch, evicted: &mut Vec<u32>, ended: &mut EndedFlows) {
        if self.flows + self.prefetcher.packets() > self.flows_max {
            let clock_ms = batch.packets().last().map_or(0, |last| last.clock_ms);
            self.advance_clock_hand(clock_ms, evicted, ended);
        }
    }

    fn update(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let run = match self.outputs.as_tuple() {
            (false, false, false) => Self::run::<false, false, false>,
            (false, false, true) => Self::run::<false, false, true>,
            (true, false, false) => Self::run::<true, false, false>,
            (true, false, true) => Self::run::<true, false, true>,
            (_, true, false) => Self::run::<true, true, false>,
            (_, true, true) => Self::run::<true, true, true>,
        };
        run(self, batch, packets, expiry, observed)
    }

    fn prefetch_level(&self) -> CacheLevel {
        self.prefetcher.level()
    }

    fn prefetch_entry(&self, slot: u32) {
        self.entries.prefetch(slot as usize);
    }

    fn prefetch_removal(&self, slot: u32) {
        let bucket = slot / LANES;
        prefetch::read(&self.tags, bucket as usize);
        prefetch::read(&self.tags, self.previous(bucket) as usize);
        prefetch::read(&self.starts, slot as usize);
    }

    fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    fn start(&self, slot: u32) -> &FlowStart {
        &self.starts[slot as usize]
    }

    fn start_mut(&mut self, slot: u32) -> &mut FlowStart {
        &mut self.starts[slot as usize]
    }

    fn copy_out(&self, slots: &[u32], ended: &mut EndedFlows) {
        for &slot in slots {
            let (entry, start) = (&self.entries[slot as usize], &self.starts[slot as usize]);
            self.wide.copy_out(slot, entry, start, ended);
        }
    }

    fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
        self.wide.flow_key(slot, entry)
    }

    fn remove(&mut self, slots: &[u32]) {
        for &slot in slots {
            if self.may_hold_overflow(slot / LANES) {
                self.dec_overflow_of_slot(slot);
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
        self.starts.populate();
        self.wide.populate();
        self.clock_hand.populate();
        self.buckets = POPULATED_BUCKETS.min(self.buckets_max);
    }

    fn slots(&self) -> u32 {
        (self.buckets + PROBES_MAX - 1).min(self.buckets_max) * LANES
    }

    fn slots_max(&self) -> u32 {
        self.buckets_max * LANES
    }

    fn flows(&self) -> usize {
        self.flows
    }

    fn find_expired(
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

    fn find_occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
        self.for_occupied(from, to, |slot| slots.push(slot));
    }

    fn collisions(&self) -> Collisions {
        self.collisions
    }

    fn memory_bytes(&self) -> usize {
        const FLOW: usize = size_of::<Entry>() + size_of::<FlowStart>();
        self.buckets_max as usize * (size_of::<TagLine>() + LANES as usize * FLOW)
            + ClockHand::memory_bytes(self.buckets_max as usize)
            + self.wide.memory_bytes()
    }
}

impl BucketTable {
    #[inline]
    fn for_occupied(&self, from: u32, to: u32, mut visit: impl FnMut(u32)) {
        let end = to.div_ceil(LANES).min(self.buckets_max);
        for bucket in from / LANES..end {
            self.prefetch_occupied((bucket + SWEEP_PREFETCH_BUCKETS).min(end - 1));
            for slot in Lanes(self.taken_lanes(bucket)).map(|lane| bucket * LANES + lane) {
                if (from..to).contains(&slot) {
                    visit(slot);
                }
            }
        }
    }

    fn prefetch_occupied(&self, bucket: u32) {
        self.prefetch_lanes(CacheLevel::L1, bucket, self.taken_lanes(bucket));
    }

    fn prefetch_lanes(&self, level: CacheLevel, bucket: u32, lanes: u32) {
        for lane in Lanes(lanes) {
            self.entries
                .prefetch_into(level, (bucket * LANES + lane) as usize);
        }
    }

    /// Returns a mask of the lanes of the bucket that hold a flow.
    #[inline]
    fn taken_lanes(&self, bucket: u32) -> u32 {
        !tags::matches(&self.tags[bucket as usize], 0) & ((1 << TAGS) - 1)
    }
}
