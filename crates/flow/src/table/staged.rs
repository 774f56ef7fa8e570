//! Where the flows of a burst are looked for in the bucket table, and when that is asked for: tag lines
//! first, then entries, a step of them at a time, some packets ahead of those that are counted meanwhile.
//!
//! Of few flows, most is in some cache, and is asked for into the first level, few packets ahead. Of
//! many flows, and in a flood of them, it comes from memory, and is asked for into the second level, which has more lines under
//! way; entries once more into the first, just before they are needed: most often they are near then.

use super::WideKeys;
use crate::batch::{BURST, Batch};
use crate::ended::Opening;
use crate::entry::Entry;
use hw::lines::Lines;
use hw::prefetch::{self, CacheLevel};
use hw::tags::{self, TagLine};
use std::ops::Range;

/// From so many flows on, most of what is kept of them is in no cache.
pub(crate) const MANY_FLOWS: usize = 100_000;

/// How what a burst needs is asked for, in packets.
struct Pace {
    /// Packets that are counted between two requests, and whose tag lines or entries are asked for
    /// together.
    step: usize,
    /// How far ahead of the packet at hand entries are asked for, at most.
    entries_ahead: usize,
    /// The same of tag lines.
    lines_ahead: usize,
}

const fn pace(level: CacheLevel) -> Pace {
    match level {
        CacheLevel::First => Pace {
            step: 32,
            entries_ahead: 32,
            lines_ahead: 64,
        },
        CacheLevel::Second => Pace {
            step: 16,
            entries_ahead: 96,
            lines_ahead: 192,
        },
    }
}

/// Packets that are counted between two requests.
#[inline(always)]
pub(super) const fn step(level: CacheLevel) -> usize {
    pace(level).step
}

/// What is known of a burst before it is counted.
pub(super) struct Staged {
    buckets: [u32; BURST],
    tags: [u16; BURST],
    slots: [u32; BURST],
    packets: usize,
    /// Packets whose tag lines were asked for.
    asked: usize,
    /// Packets whose entries were asked for.
    located: usize,
    level: CacheLevel,
    /// Flows that began with this burst so far.
    begun: usize,
    /// Whether many began with the burst before: so it is in floods.
    many_begin: bool,
}

/// What a table keeps of its flows.
pub(super) struct Kept<'t> {
    pub(super) lines: &'t [TagLine],
    pub(super) entries: &'t Lines<Entry>,
    pub(super) openings: &'t [Opening],
    pub(super) wide: &'t WideKeys,
}

impl Default for Staged {
    fn default() -> Self {
        Self {
            buckets: [0; BURST],
            tags: [0; BURST],
            slots: [0; BURST],
            packets: 0,
            asked: 0,
            located: 0,
            level: CacheLevel::First,
            begun: 0,
            many_begin: false,
        }
    }
}

impl Staged {
    /// Packets in the burst.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// The bucket of packet `at`'s flow.
    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> u32 {
        self.buckets[at]
    }

    /// Its tag.
    #[inline(always)]
    pub(super) fn tag(&self, at: usize) -> u16 {
        self.tags[at]
    }

    /// The buckets and tags of packets.
    #[inline(always)]
    pub(super) fn homes(&self, packets: Range<usize>) -> (&[u32], &[u16]) {
        (&self.buckets[packets.clone()], &self.tags[packets])
    }

    /// Where it most likely is, once it was located.
    #[inline(always)]
    pub(super) fn slot(&self, at: usize) -> u32 {
        self.slots[at]
    }

    /// The same of packets.
    #[inline(always)]
    pub(super) fn slots(&self, packets: Range<usize>) -> &[u32] {
        &self.slots[packets]
    }

    /// The cache into which what is kept of flows is asked for.
    pub(super) fn level(&self) -> CacheLevel {
        self.level
    }

    /// Begins a burst, of a table of so many flows, which may be full: asks for the tag lines of its
    /// first ones.
    pub(super) fn begin(
        &mut self,
        hashes: &[u64],
        flows: usize,
        is_full: bool,
        buckets: u32,
        lines: &[TagLine],
    ) {
        self.many_begin = self.begun >= self.packets.div_ceil(4).max(1);
        self.packets = hashes.len().min(BURST);
        (self.asked, self.located, self.begun) = (0, 0, 0);
        // In a flood a packet needs five lines instead of two: more than the first level keeps track of.
        self.level = if flows >= MANY_FLOWS || self.many_begin && is_full {
            CacheLevel::Second
        } else {
            CacheLevel::First
        };
        let hashes = &hashes[..self.packets];
        let (homes, tags) = (&mut self.buckets, &mut self.tags);
        tags::homes(
            hashes,
            buckets,
            &mut homes[..self.packets],
            &mut tags[..self.packets],
        );
        self.ask(self.level, pace(self.level).lines_ahead, lines);
    }

    /// Asks for the tag lines of the packets up to `end`, as far as that was not done.
    #[inline(always)]
    fn ask(&mut self, level: CacheLevel, end: usize, lines: &[TagLine]) {
        let end = end.min(self.packets);
        prefetch::each(level, lines, &self.buckets[self.asked.min(end)..end]);
        self.asked = end;
    }

    /// Whether many flows began with the burst before.
    #[inline(always)]
    pub(super) fn many_begin(&self) -> bool {
        self.many_begin
    }

    /// Notes that so many flows began.
    pub(super) fn note_begun(&mut self, flows: usize) {
        self.begun += flows;
    }

    /// Packets that most likely begin a flow: their buckets do not have their tags.
    pub(super) fn beginning(&self, lines: &[TagLine]) -> usize {
        let packets = ..self.packets;
        tags::absent(lines, &self.buckets[packets], &self.tags[packets])
    }

    /// To be called before the packets from `at` on are counted, a [step] of them at most: asks for
    /// what those behind them need, and finds where their own flows most likely are.
    #[inline(always)]
    pub(super) fn approach(
        &mut self,
        level: CacheLevel,
        at: usize,
        batch: &Batch,
        kept: &Kept<'_>,
    ) {
        if level == CacheLevel::Second {
            let end = self.located.min(at + step(level));
            kept.entries
                .prefetch_each(CacheLevel::First, &self.slots[at.min(end)..end]);
        }
        let pace = pace(level);
        self.locate(level, at + pace.entries_ahead, batch, kept);
        self.ask(level, at + pace.lines_ahead, kept.lines);
    }

    /// Finds where the flows of the packets up to `end` most likely are, as far as that was not done,
    /// and asks for their entries.
    #[inline(always)]
    fn locate(&mut self, level: CacheLevel, end: usize, batch: &Batch, kept: &Kept<'_>) {
        while self.located < end.min(self.packets) {
            let group = self.located..(self.located + step(level)).min(self.packets);
            self.located = group.end;
            let slots = &mut self.slots[group.clone()];
            let (buckets, tags) = (&self.buckets[group.clone()], &self.tags[group.clone()]);
            tags::candidates(kept.lines, buckets, tags, slots);
            kept.entries.prefetch_each(level, slots);
            if self.many_begin {
                prefetch::each(level, kept.openings, slots);
            }
            if batch.has_wide_keys() {
                for (&slot, packet) in slots.iter().zip(&batch.packets()[group]) {
                    if packet.wide != 0 {
                        kept.wide.prefetch(slot);
                    }
                }
            }
        }
    }
}
