//! Where the flows of a burst are looked for in the bucket table, and when that is asked for: a group of
//! tag lines, then a group of entries, by turns, some packets ahead of those that are counted meanwhile.
//!
//! Of few flows, most is in some cache, and is asked for into the first level, few packets ahead. Of
//! many flows it comes from memory, and is asked for into the second level, which has more lines under
//! way; entries once more into the first, just before they are needed: most often they are near then.

use super::WideKeys;
use crate::batch::{BURST, Batch};
use crate::entry::Entry;
use hw::lines::Lines;
use hw::prefetch::{self, CacheLevel};
use hw::tags::{self, TagLine};

/// From so many flows on, most of what is kept of them is in no cache.
pub(crate) const MANY_FLOWS: usize = 100_000;

/// How far ahead of the packet at hand entries are asked for, at most, and tag lines: in groups.
const ENTRIES_AHEAD: usize = 2;
const LINES_AHEAD: usize = 4;

/// Packets that are counted between two groups of requests.
#[inline(always)]
pub(super) const fn step(level: CacheLevel) -> usize {
    match level {
        CacheLevel::First => 8,
        CacheLevel::Second => 16,
    }
}

/// Packets whose tag lines, or whose entries, are asked for together: two steps' worth, by turns.
const fn group(level: CacheLevel) -> usize {
    2 * step(level)
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

    /// Where it most likely is, once it was located.
    #[inline(always)]
    pub(super) fn slot(&self, at: usize) -> u32 {
        self.slots[at]
    }

    /// The cache into which what is kept of flows is asked for.
    pub(super) fn level(&self) -> CacheLevel {
        self.level
    }

    /// Begins a burst, of a table of so many flows: asks for the tag lines of its first ones.
    pub(super) fn begin(&mut self, hashes: &[u64], flows: usize, buckets: u32, lines: &[TagLine]) {
        self.packets = hashes.len().min(BURST);
        (self.asked, self.located) = (0, 0);
        self.level = if flows < MANY_FLOWS {
            CacheLevel::First
        } else {
            CacheLevel::Second
        };
        let places = self.buckets.iter_mut().zip(&mut self.tags);
        for (&hash, (bucket, tag)) in hashes.iter().zip(places) {
            *bucket = bucket_of(hash, buckets);
            *tag = tag_of(hash);
        }
        self.ask(self.level, LINES_AHEAD * group(self.level), lines);
    }

    /// Asks for the tag lines of the packets up to `end`, as far as that was not done.
    #[inline(always)]
    fn ask(&mut self, level: CacheLevel, end: usize, lines: &[TagLine]) {
        let end = end.min(self.packets);
        for &bucket in &self.buckets[self.asked.min(end)..end] {
            prefetch::into(level, lines, bucket as usize);
        }
        self.asked = end;
    }

    /// Packets that most likely begin a flow: their buckets do not have their tags.
    pub(super) fn beginning(&self, lines: &[TagLine]) -> usize {
        let staged = self.buckets[..self.packets].iter().zip(&self.tags);
        let begins =
            staged.filter(|&(&bucket, &tag)| tags::matches(&lines[bucket as usize], tag) == 0);
        begins.count()
    }

    /// To be called before the packets from `at` on are counted, a [step] of them at most: asks for
    /// what those behind them need, and finds where their own flows most likely are.
    #[inline(always)]
    pub(super) fn approach(
        &mut self,
        level: CacheLevel,
        at: usize,
        batch: &Batch,
        lines: &[TagLine],
        entries: &Lines<Entry>,
        wide: &WideKeys,
    ) {
        if level == CacheLevel::Second {
            let end = self.located.min(at + step(level));
            for &slot in &self.slots[at.min(end)..end] {
                entries.prefetch(slot as usize);
            }
        }
        if at % group(level) < step(level) {
            let end = at + ENTRIES_AHEAD * group(level);
            self.locate(level, end, batch, lines, entries, wide);
        } else {
            self.ask(level, at + LINES_AHEAD * group(level), lines);
        }
    }

    /// Finds where the flows of the packets up to `end` most likely are, as far as that was not done,
    /// and asks for their entries.
    #[inline(always)]
    fn locate(
        &mut self,
        level: CacheLevel,
        end: usize,
        batch: &Batch,
        lines: &[TagLine],
        entries: &Lines<Entry>,
        wide: &WideKeys,
    ) {
        while self.located < end.min(self.packets) {
            let group = self.located..(self.located + group(level)).min(self.packets);
            self.located = group.end;
            let slots = &mut self.slots[group.clone()];
            let (buckets, tags) = (&self.buckets[group.clone()], &self.tags[group.clone()]);
            tags::candidates(lines, buckets, tags, slots);
            for (&slot, packet) in slots.iter().zip(&batch.packets()[group]) {
                entries.prefetch_into(level, slot as usize);
                if packet.wide != 0 {
                    wide.prefetch(slot);
                }
            }
        }
    }
}

/// The bucket of a hash among so many: all that fit a power of two by its low bits, the others by
/// one bit less (linear hashing). The tag is taken from other bits.
#[inline(always)]
pub(super) fn bucket_of(hash: u64, buckets: u32) -> u32 {
    let low = (hash >> 32) as u32;
    let whole = u32::MAX >> (buckets - 1).leading_zeros();
    let bucket = low & whole;
    if bucket < buckets {
        bucket
    } else {
        low & (whole >> 1)
    }
}

/// The tag of a hash; zero is that of no flow.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}
