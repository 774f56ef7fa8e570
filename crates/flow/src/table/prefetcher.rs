//! Prefetching for the bucket table. While the packets of a batch are counted, the prefetcher works
//! some packets ahead, a step at a time: it prefetches tag lines, then locates and prefetches entries.
//!
//! With few flows, most lines are in some cache. They are prefetched into the L1 cache, a few packets
//! ahead. With many flows, and in a flood, lines come from memory. They are prefetched into the L2
//! cache, which can have more lines in flight, and farther ahead; entries are prefetched again into
//! the L1 cache just before they are needed.

use super::WideKeys;
use crate::batch::{BURST, Batch};
use crate::ended::FlowStart;
use crate::entry::Entry;
use hw::lines::Lines;
use hw::prefetch::{self, CacheLevel};
use hw::tags::{self, TagLine};
use std::ops::Range;

/// From this many flows on, most of their states are in no cache.
pub(crate) const OUT_OF_CACHE_FLOWS: usize = 100_000;

/// Prefetch distances, in packets.
struct PrefetchDistances {
    /// Packets counted between two prefetch steps, and packets of one step.
    step_packets: usize,
    /// The maximum distance from the packet that is counted to the last prefetched entry.
    entries_ahead: usize,
    /// The same for tag lines.
    tags_ahead: usize,
}

const fn distances(level: CacheLevel) -> PrefetchDistances {
    match level {
        CacheLevel::L1 => PrefetchDistances {
            step_packets: 32,
            entries_ahead: 32,
            tags_ahead: 64,
        },
        CacheLevel::L2 => PrefetchDistances {
            step_packets: 16,
            entries_ahead: 96,
            tags_ahead: 192,
        },
    }
}

/// Returns the number of packets counted between two prefetch steps.
#[inline]
pub(super) const fn step_packets(level: CacheLevel) -> usize {
    distances(level).step_packets
}

/// The prefetch state of a batch: the home buckets, tags and likely slots of its packets.
pub(super) struct Prefetcher {
    buckets: [u32; BURST],
    tags: [u16; BURST],
    slots: [u32; BURST],
    packets: usize,
    /// Packets whose tag lines are prefetched.
    tags_prefetched: usize,
    /// Packets whose entries are prefetched.
    entries_prefetched: usize,
    level: CacheLevel,
    /// Flows opened by this batch so far.
    new_flows: usize,
    /// Whether the previous batch opened many flows, as in a flood.
    many_new_flows: bool,
}

/// The arrays of the bucket table that are prefetched.
pub(super) struct FlowArrays<'t> {
    pub(super) tags: &'t [TagLine],
    pub(super) entries: &'t Lines<Entry>,
    pub(super) starts: &'t [FlowStart],
    pub(super) wide: &'t WideKeys,
}

impl Default for Prefetcher {
    fn default() -> Self {
        Self {
            buckets: [0; BURST],
            tags: [0; BURST],
            slots: [0; BURST],
            packets: 0,
            tags_prefetched: 0,
            entries_prefetched: 0,
            level: CacheLevel::L1,
            new_flows: 0,
            many_new_flows: false,
        }
    }
}

impl Prefetcher {
    /// Returns the number of packets in the batch.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Returns the home bucket of packet `at`'s flow.
    #[inline]
    pub(super) fn bucket(&self, at: usize) -> u32 {
        self.buckets[at]
    }

    /// Returns the tag of packet `at`'s flow.
    #[inline]
    pub(super) fn tag(&self, at: usize) -> u16 {
        self.tags[at]
    }

    /// Returns the home buckets and tags of packets.
    #[inline]
    pub(super) fn homes(&self, packets: Range<usize>) -> (&[u32], &[u16]) {
        (&self.buckets[packets.clone()], &self.tags[packets])
    }

    /// Returns the likely slot of packet `at`'s flow, once it is located.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> u32 {
        self.slots[at]
    }

    /// Returns the likely slots of packets.
    #[inline]
    pub(super) fn slots(&self, packets: Range<usize>) -> &[u32] {
        &self.slots[packets]
    }

    /// Returns the cache level for prefetches.
    pub(super) fn level(&self) -> CacheLevel {
        self.level
    }

    /// Starts a batch for a table of `flows` flows: computes home buckets and tags, chooses the cache
    /// level, and prefetches the first tag lines. `is_full`: the batch may not fit the table.
    pub(super) fn start_batch(
        &mut self,
        hashes: &[u64],
        flows: usize,
        is_full: bool,
        buckets: u32,
        lines: &[TagLine],
    ) {
        self.many_new_flows = self.new_flows >= self.packets.div_ceil(4).max(1);
        self.packets = hashes.len().min(BURST);
        (
            self.tags_prefetched,
            self.entries_prefetched,
            self.new_flows,
        ) = (0, 0, 0);
        // In a flood, a packet needs five lines instead of two: more than the line fill buffers of the
        // L1 cache can track.
        self.level = if flows >= OUT_OF_CACHE_FLOWS || self.many_new_flows && is_full {
            CacheLevel::L2
        } else {
            CacheLevel::L1
        };
        let hashes = &hashes[..self.packets];
        let (homes, tags) = (&mut self.buckets, &mut self.tags);
        tags::buckets_and_tags(
            hashes,
            buckets,
            &mut homes[..self.packets],
            &mut tags[..self.packets],
        );
        self.prefetch_tags(self.level, distances(self.level).tags_ahead, lines);
    }

    /// Prefetches the tag lines of the packets up to `end` that are not prefetched yet.
    // See `prefetch_step`, of which it is a part.
    #[inline(always)]
    fn prefetch_tags(&mut self, level: CacheLevel, end: usize, lines: &[TagLine]) {
        let end = end.min(self.packets);
        prefetch::read_each(
            level,
            lines,
            &self.buckets[self.tags_prefetched.min(end)..end],
        );
        self.tags_prefetched = end;
    }

    /// Returns whether the previous batch opened many flows.
    #[inline]
    pub(super) fn many_new_flows(&self) -> bool {
        self.many_new_flows
    }

    /// Counts flows opened by this batch.
    pub(super) fn add_new_flows(&mut self, flows: usize) {
        self.new_flows += flows;
    }

    /// Returns the number of packets that likely open a flow: those whose tags are not in their
    /// buckets.
    pub(super) fn likely_new_flows(&self, lines: &[TagLine]) -> usize {
        let packets = ..self.packets;
        tags::count_misses(lines, &self.buckets[packets], &self.tags[packets])
    }

    /// Locates the flows of the packets from `at` on, and prefetches for the packets after them. Must
    /// be called before each step of at most [`step_packets`] packets is counted.
    // Out of line, it and `look_up` cost counting 2 % more instructions.
    #[inline(always)]
    pub(super) fn prefetch_step(
        &mut self,
        level: CacheLevel,
        at: usize,
        batch: &Batch,
        arrays: &FlowArrays<'_>,
    ) {
        if level == CacheLevel::L2 {
            let end = self.entries_prefetched.min(at + step_packets(level));
            arrays
                .entries
                .prefetch_each(CacheLevel::L1, &self.slots[at.min(end)..end]);
        }
        let distances = distances(level);
        self.prefetch_entries(level, at + distances.entries_ahead, batch, arrays);
        self.prefetch_tags(level, at + distances.tags_ahead, arrays.tags);
    }

    /// Locates the flows of the packets up to `end` that are not located yet, and prefetches their
    /// entries.
    // See `prefetch_step`, of which it is a part.
    #[inline(always)]
    fn prefetch_entries(
        &mut self,
        level: CacheLevel,
        end: usize,
        batch: &Batch,
        arrays: &FlowArrays<'_>,
    ) {
        while self.entries_prefetched < end.min(self.packets) {
            let group = self.entries_prefetched
                ..(self.entries_prefetched + step_packets(level)).min(self.packets);
            self.entries_prefetched = group.end;
            let slots = &mut self.slots[group.clone()];
            let (buckets, tags) = (&self.buckets[group.clone()], &self.tags[group.clone()]);
            tags::candidates(arrays.tags, buckets, tags, slots);
            arrays.entries.prefetch_each(level, slots);
            if self.many_new_flows {
                prefetch::read_each(level, arrays.starts, slots);
            }
            if batch.has_wide_keys() {
                for (&slot, packet) in slots.iter().zip(&batch.packets()[group]) {
                    if packet.wide != 0 {
                        arrays.wide.prefetch(slot);
                    }
                }
            }
        }
    }
}
