//! The default table: buckets of 31 flows, found by 16-bit tags that share one cache line.
//!
//! A burst is hashed, then the tag lines of its buckets are brought near, then the entries that the
//! tags point to, and only then is anything compared: each step's memory latency passes while the
//! other packets of the burst are served. Whole keys are compared, so no two flows ever merge.
//!
//! A bucket that is full sends new flows to the next one and counts them in the last lane of its
//! tag line, so a search stops at the first bucket that sent none on. When the table holds as many
//! flows as it may, or [`PROBES`] buckets in a row are full, the least recently seen of
//! [`DRAWN`] flows of the new flow's bucket makes room.

use super::{NO_SLOT, Observed, Step, Table, WideKeys, count, open};
use crate::batch::{BURST, Batch, Packet};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::hash::FlowHash;
use crate::record::EndReason;
use hw::memory::HugeSlice;
use hw::prefetch;
use hw::tags::{self, TAGS, TagLine};
use wire::FlowKey;

/// Slots of a bucket; the last has no flow.
const LANES: u32 = 32;

/// The lane of a tag line that counts the flows sent on to the next bucket.
const SENT_ON: usize = TAGS;

/// A flow lives at most this many buckets from its own.
const PROBES: u32 = 8;

/// Flows among which the least recently seen makes room.
const DRAWN: u32 = 4;

/// Buckets ahead of the sweep whose flows are asked for.
const SWEEP_AHEAD: u32 = 8;

/// Flows for which a bucket is laid out; room to spare keeps flows in their own bucket.
const FLOWS_PER_BUCKET: usize = 20;

/// The bucket table.
pub struct Bucket {
    tags: HugeSlice<TagLine>,
    entries: HugeSlice<Entry>,
    wide: WideKeys,
    hash: FlowHash,
    buckets: u32,
    flows: usize,
    flows_max: usize,
    /// Flows that live outside their own bucket.
    displaced: usize,
    next_victim: u32,
    values: bool,
    staged_buckets: [u32; BURST],
    staged_tags: [u16; BURST],
    staged_slots: [u32; BURST],
    staged: usize,
}

impl Bucket {
    /// A table of at most `flows_max` flows, whose batches are hashed by `hash`. `values`: tell
    /// gaps and inter-arrival times.
    ///
    /// # Panics
    /// When the machine has no room for it.
    #[must_use]
    pub fn new(flows_max: usize, hash: FlowHash, values: bool) -> Self {
        let flows_max = flows_max.clamp(1, (NO_SLOT / LANES) as usize * FLOWS_PER_BUCKET - 1);
        let buckets = flows_max.div_ceil(FLOWS_PER_BUCKET).max(2);
        let slots = buckets * LANES as usize;
        Self {
            tags: HugeSlice::zeroed(buckets),
            entries: HugeSlice::zeroed(slots),
            wide: WideKeys::new(slots),
            hash,
            buckets: buckets as u32,
            flows: 0,
            flows_max,
            displaced: 0,
            next_victim: 0,
            values,
            staged_buckets: [0; BURST],
            staged_tags: [0; BURST],
            staged_slots: [0; BURST],
            staged: 0,
        }
    }

    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> u32 {
        ((hash >> 32) * u64::from(self.buckets) >> 32) as u32
    }

    fn next(&self, bucket: u32) -> u32 {
        if bucket + 1 == self.buckets { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn holds(&self, slot: u32, key: u128, batch: &Batch, packet: &Packet) -> bool {
        self.entries[slot as usize].key() == key
            && (key & FlowKey::WIDE_MARK == 0 || self.wide.equals(slot, batch, packet))
    }

    /// The slot of packet `at`'s flow, when it is not the likely one.
    #[inline(never)]
    fn find(&self, batch: &Batch, at: usize) -> Option<u32> {
        let (key, packet, tag) = (batch.keys()[at], &batch.packets()[at], self.staged_tags[at]);
        let mut bucket = self.staged_buckets[at];
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

    /// Takes a free slot for a new flow of bucket `home`, or tells which flow makes room.
    #[inline]
    fn allocate(&mut self, home: u32, tag: u16, clock_ms: u32) -> Result<u32, u32> {
        if self.flows >= self.flows_max {
            return Err(self.victim(home, clock_ms));
        }
        let mut bucket = home;
        for probe in 0..PROBES.min(self.buckets) {
            if let Some(lane) = tags::free_lane(&self.tags[bucket as usize], tag) {
                self.tags[bucket as usize].0[lane as usize] = tag;
                self.flows += 1;
                if probe > 0 {
                    self.send_on(home, bucket);
                }
                return Ok(bucket * LANES + lane);
            }
            bucket = self.next(bucket);
        }
        Err(self.victim(home, clock_ms))
    }

    #[cold]
    fn send_on(&mut self, home: u32, to: u32) {
        self.displaced += 1;
        let mut bucket = home;
        while bucket != to {
            self.tags[bucket as usize].0[SENT_ON] += 1;
            bucket = self.next(bucket);
        }
    }

    /// The least recently seen of a few flows of the first bucket from `home` on that has any.
    fn victim(&mut self, home: u32, clock_ms: u32) -> u32 {
        let mut bucket = home;
        loop {
            let taken = self.taken(bucket);
            if taken == 0 {
                bucket = self.next(bucket);
                continue;
            }
            self.next_victim = (self.next_victim + DRAWN) % TAGS as u32;
            let mut drawn = taken & (u32::MAX << self.next_victim);
            let mut best = (0, bucket * LANES);
            for _ in 0..DRAWN.min(taken.count_ones()) {
                if drawn == 0 {
                    drawn = taken;
                }
                let slot = bucket * LANES + drawn.trailing_zeros();
                drawn &= drawn - 1;
                let age_ms = clock_ms.wrapping_sub(self.entries[slot as usize].last_clock_ms());
                best = best.max((age_ms.saturating_add(1), slot));
            }
            return best.1;
        }
    }

    fn run<const VALUES: bool>(
        &mut self,
        batch: &Batch,
        start: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let keys = &batch.keys()[..self.staged];
        let packets = &batch.packets()[..self.staged];
        for at in start..keys.len().min(BURST) {
            let (key, packet) = (keys[at], &packets[at]);
            let mut slot = self.staged_slots[at];
            if !self.holds(slot, key, batch, packet) {
                match self.find(batch, at) {
                    Some(found) => slot = found,
                    None => {
                        match self.allocate(self.staged_buckets[at], self.staged_tags[at], packet.clock_ms) {
                            Err(victim) => {
                                return Step::Ended { at, slot: victim, reason: EndReason::LackOfResources };
                            }
                            Ok(slot) => {
                                self.wide.set(slot, batch, packet);
                                open(&mut self.entries[slot as usize], key, packet, at, slot, expiry, observed);
                            }
                        }
                        continue;
                    }
                }
            }
            let entry = &mut self.entries[slot as usize];
            if let Some(reason) = expiry.ended_before(entry, packet) {
                return Step::Ended { at, slot, reason };
            }
            count::<VALUES>(entry, packet, at, slot, observed);
        }
        Step::Done
    }
}

impl Table for Bucket {
    fn stage(&mut self, batch: &Batch) {
        let count = batch.len();
        self.staged = count;
        for (index, &hash) in batch.hashes().iter().enumerate().take(BURST) {
            let bucket = self.bucket_of(hash);
            self.staged_buckets[index] = bucket;
            self.staged_tags[index] = (hash as u16).max(1);
            prefetch::read(&self.tags, bucket as usize);
        }
        let slots = &mut self.staged_slots[..count];
        tags::candidates(&self.tags, &self.staged_buckets[..count], &self.staged_tags[..count], slots);
        for (&slot, packet) in slots.iter().zip(batch.packets()) {
            prefetch::read(&self.entries, slot as usize);
            if packet.wide != 0 {
                prefetch::read(&self.wide.0, slot as usize);
            }
        }
    }

    fn likely_slots(&self) -> &[u32] {
        &self.staged_slots[..self.staged]
    }

    fn update(&mut self, batch: &Batch, start: usize, expiry: &Expiry, observed: &mut Observed) -> Step {
        if self.values {
            self.run::<true>(batch, start, expiry, observed)
        } else {
            self.run::<false>(batch, start, expiry, observed)
        }
    }

    fn prefetch(&self, slot: u32) {
        prefetch::read(&self.entries, slot as usize);
    }

    fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    fn key(&self, slot: u32) -> FlowKey {
        self.wide.flow_key(slot, self.entry(slot))
    }

    fn remove(&mut self, slot: u32) {
        let bucket = slot / LANES;
        if self.displaced > 0 {
            let home = self.bucket_of(self.hash.hash_one(self.entry(slot).key()));
            if home != bucket {
                self.displaced -= 1;
                let mut passed = home;
                while passed != bucket {
                    self.tags[passed as usize].0[SENT_ON] -= 1;
                    passed = self.next(passed);
                }
            }
        }
        self.tags[bucket as usize].0[(slot % LANES) as usize] = 0;
        self.entries[slot as usize] = Entry::default();
        self.flows -= 1;
    }

    fn slots(&self) -> u32 {
        self.buckets * LANES
    }

    fn flows(&self) -> usize {
        self.flows
    }

    fn expired(&self, from: u32, to: u32, clock_ms: u32, expiry: &Expiry, ended: &mut Vec<(u32, EndReason)>) {
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
        self.buckets as usize * (size_of::<TagLine>() + LANES as usize * size_of::<Entry>())
    }
}

impl Bucket {
    #[inline]
    fn for_occupied(&self, from: u32, to: u32, mut visit: impl FnMut(u32)) {
        let end = to.div_ceil(LANES).min(self.buckets);
        for bucket in from / LANES..end {
            self.prefetch_occupied((bucket + SWEEP_AHEAD).min(end - 1));
            let mut taken = self.taken(bucket);
            while taken != 0 {
                let slot = bucket * LANES + taken.trailing_zeros();
                if (from..to).contains(&slot) {
                    visit(slot);
                }
                taken &= taken - 1;
            }
        }
    }

    fn prefetch_occupied(&self, bucket: u32) {
        let mut taken = self.taken(bucket);
        while taken != 0 {
            prefetch::read(&self.entries, (bucket * LANES + taken.trailing_zeros()) as usize);
            taken &= taken - 1;
        }
    }

    /// A bit for each lane of the bucket that holds a flow.
    #[inline(always)]
    fn taken(&self, bucket: u32) -> u32 {
        !tags::matches(&self.tags[bucket as usize], 0) & ((1 << TAGS) - 1)
    }
}
