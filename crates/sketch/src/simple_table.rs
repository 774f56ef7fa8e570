//! The simple hash table of Wu, Li, Ran and Luo (docs/papers.md): a key and a counter per
//! slot, one slot per hash.
//!
//! Keys that share a slot share its counter, and the slot shows the key of the last packet. A count is
//! therefore never too low, but may be that of another key. [`SimpleTable::collisions`] is the weight of
//! all packets that found another key in their slot.

use crate::bytes::Reader;
use crate::counter::{Counter, Counters, Width};
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{
    ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch, sort_heavy_hitters,
};
use crate::seed::{Seed, SeedDigest};
use crate::updates::{HashedKey, Updates, Weights};
use hw::memory::HugeSlice;
use hw::prefetch;

/// Slots are prefetched in tables larger than this.
const PREFETCH_ABOVE: usize = 8 << 20;

/// How many packets are prefetched before the first of them is counted.
const AHEAD: usize = 64;

/// The most slots: a slot is chosen by 32 bits of the hash.
const MOST_SLOTS: usize = u32::MAX as usize;

/// The table.
pub struct SimpleTable {
    keys: HugeSlice<u128>,
    counts: Counters,
    seed: SeedDigest,
    total: u64,
    collisions: u64,
}

#[inline]
const fn slot_of(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

impl SimpleTable {
    /// Creates the largest table that fits in `bytes`, keys included.
    ///
    /// # Errors
    /// Fails if not even one slot fits, or if the memory cannot be reserved.
    pub fn with_memory(bytes: usize, width: Width, seed: Seed) -> Result<Self, SizeError> {
        let slot = Self::slot_bytes(width);
        if bytes < slot {
            return Err(SizeError::TooSmall {
                given: bytes as u64,
                needed: slot as u64,
            });
        }
        Self::with_slots(bytes / slot, width, seed)
    }

    /// Creates a table of `slots`.
    ///
    /// # Errors
    /// Fails if there is none or 2^32, or if the memory cannot be reserved.
    pub fn with_slots(slots: usize, width: Width, seed: Seed) -> Result<Self, SizeError> {
        Self::with_digest(slots, width, seed.digest())
    }

    fn with_digest(slots: usize, width: Width, seed: SeedDigest) -> Result<Self, SizeError> {
        if !(1..=MOST_SLOTS).contains(&slots) {
            return Err(SizeError::Range {
                what: "the number of slots",
                least: 1.0,
                most: MOST_SLOTS as f64,
                given: slots as f64,
            });
        }
        let bytes = slots as u64 * Self::slot_bytes(width) as u64;
        let failed = |_| SizeError::Memory(bytes);
        let keys = HugeSlice::try_zeroed(slots).map_err(failed)?;
        // So that no packet waits for a page fault.
        keys.populate();
        let counts = Counters::new(slots, width)?;
        Ok(Self {
            keys,
            counts,
            seed,
            total: 0,
            collisions: 0,
        })
    }

    const fn slot_bytes(width: Width) -> usize {
        size_of::<u128>() + width.bytes()
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.keys.len()
    }

    /// Returns the weight of all packets that found another key in their slot and took it over.
    #[must_use]
    pub const fn collisions(&self) -> u64 {
        self.collisions
    }

    fn estimate(&self, slot: usize) -> Estimate {
        let value = self.counts.get(slot);
        let stopped = value == self.counts.width().largest();
        Estimate {
            value,
            low: 0,
            high: if stopped { self.total } else { value },
        }
    }
}

/// Counts a batch and returns the weight of collisions.
fn count<C: Counter>(keys: &mut [u128], counts: &mut [C], updates: Updates<'_>) -> u64 {
    let slots = keys.len();
    let prefetched = size_of_val(keys) + size_of_val(counts) > PREFETCH_ABOVE;
    let mut collisions = 0;
    for part in updates.chunks(AHEAD) {
        if prefetched {
            for &hash in part.hashes() {
                prefetch::read(keys, slot_of(hash, slots));
                prefetch::read(counts, slot_of(hash, slots));
            }
        }
        for (index, (&key, &hash)) in part.keys().iter().zip(part.hashes()).enumerate() {
            let weight = match part.weights() {
                Weights::Ones => 1,
                Weights::Each(weights) => weights[index],
            };
            let slot = slot_of(hash, slots);
            let (owner, count) = (&mut keys[slot], &mut counts[slot]);
            let collides = (*owner != key) & ((*count).into() > 0);
            collisions += u64::from(collides) * u64::from(weight);
            *owner = key;
            *count = count.plus(weight);
        }
    }
    collisions
}

impl Sketch for SimpleTable {
    fn update(&mut self, updates: Updates<'_>) {
        let collisions = match &mut self.counts {
            Counters::Narrow(counts) => count(&mut self.keys, counts, updates),
            Counters::Wide(counts) => count(&mut self.keys, counts, updates),
        };
        self.collisions = self.collisions.saturating_add(collisions);
        self.total = self.total.saturating_add(updates.total());
    }

    fn clear(&mut self) {
        // Keys need no clearing: a slot that counted nothing has none.
        self.counts.clear();
        self.total = 0;
        self.collisions = 0;
    }

    fn total(&self) -> u64 {
        self.total
    }

    /// Dimensions: slots, bits of a counter.
    fn geometry(&self) -> Geometry {
        Geometry {
            kind: Kind::SimpleTable,
            dimensions: [
                self.keys.len() as u64,
                self.counts.width().bits(),
                0,
                0,
                0,
                0,
            ],
            seed: self.seed,
        }
    }

    /// Counters are added, and exact. Of two keys in a slot the one with the larger count is shown, and
    /// the smaller count is a collision; which packet was the last is not known.
    fn merge(&mut self, other: &Self, _: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        for slot in 0..self.keys.len() {
            let (ours, theirs) = (self.counts.get(slot), other.counts.get(slot));
            if ours > 0 && theirs > 0 && self.keys[slot] != other.keys[slot] {
                self.collisions = self.collisions.saturating_add(ours.min(theirs));
            }
            if theirs > ours {
                self.keys[slot] = other.keys[slot];
            }
        }
        self.counts.merge(&other.counts, u64::saturating_add);
        self.collisions = self.collisions.saturating_add(other.collisions);
        self.total = self.total.saturating_add(other.total);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.keys.len() * Self::slot_bytes(self.counts.width())
    }

    /// A count is never too low for any key. It is too high by the weight of the other keys of its slot:
    /// N / slots on average, and by Markov's inequality more than k N / slots with a probability of at
    /// most 1 / k.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let mean = self.total as f64 / self.keys.len() as f64;
        let factor = 1.0 / (1.0 - confidence.clamp(0.0, 1.0));
        ErrorBound {
            over: (mean * factor).min(self.total as f64),
            under: 0.0,
            relative: false,
            confidence,
        }
    }

    /// Total, collisions, and the counts; then the keys of the slots that counted something.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        out.extend(self.collisions.to_le_bytes());
        self.counts.write(out);
        for (slot, key) in self.keys.iter().enumerate() {
            if self.counts.get(slot) > 0 {
                out.extend(key.to_le_bytes());
            }
        }
    }

    fn read(
        geometry: &Geometry,
        _: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [slots, bits, ..] = geometry.dimensions;
        let width = Width::from_bits(bits).ok_or(StateError::Damaged("the width of counters"))?;
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        let (total, collisions) = (reader.u64()?, reader.u64()?);
        reader.check_left(slots, width.bytes())?;
        let mut table = Self::with_digest(slots, width, geometry.seed)?;
        (table.total, table.collisions) = (total, collisions);
        table.counts = Counters::read(slots, width, reader)?;
        for (slot, key) in table.keys.iter_mut().enumerate() {
            if table.counts.get(slot) > 0 {
                *key = reader.u128()?;
            }
        }
        Ok(table)
    }
}

impl FrequencySketch for SimpleTable {
    fn query(&self, key: HashedKey) -> Estimate {
        self.estimate(slot_of(key.hash, self.keys.len()))
    }

    fn heavy_hitters(&self, threshold: u64) -> Vec<HeavyHitter> {
        let used = (0..self.keys.len()).filter(|&slot| self.counts.get(slot) >= threshold.max(1));
        let mut found: Vec<_> = used
            .map(|slot| HeavyHitter {
                key: self.keys[slot],
                estimate: self.estimate(slot),
            })
            .collect();
        sort_heavy_hitters(&mut found);
        found
    }
}
