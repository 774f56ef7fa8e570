//! Fan-out and fan-in: how many different destinations a source has (a scan), or sources a destination
//! (a distributed attack). A bitmap of the pairs that were seen lets each pair through once, to a
//! heavy-hitter table of the sources (as Zhao, Kumar and Xu, "Joint data streaming and sampling", 2005,
//! with a table in place of their hash functions).

use crate::bytes::Reader;
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch};
use crate::normal::standard_deviations;
use crate::pair_bitmap::PairBitmap;
use crate::seed::Seed;
use crate::updates::{HashedKey, Updates, Weights};
use hw::hash::KeyedHash;
use std::sync::Arc;
use thiserror::Error;

/// Pairs are counted in these units, because a pair weighs a little more than 1: it stands for those
/// that found their bit set by another pair.
const SCALE: u32 = 256;

/// Above this load of the bitmap the answer is refused: two thirds of the pairs would go unseen.
pub const LOAD_MAX: f64 = 0.7;

/// Two states whose common pairs are a larger share than this of all are not merged.
const REPEATED_MAX: f64 = 0.05;

/// The number of different partners of each key. `T` is the table of the keys, which must count
/// weights.
///
/// In an [update](Sketch::update) the keys are the sources (for fan-out), and the hashes are those of the
/// **pairs**; weights are ignored. The sources' hashes are computed here, as only few are needed.
#[derive(Clone, Debug)]
pub struct FanOut<T> {
    pairs: Arc<PairBitmap>,
    table: T,
    /// Absent in a state that was read without its seed, which takes no updates.
    hash: Option<KeyedHash>,
    total: u64,
    /// Pairs that both sides of a merge had counted.
    repeated: u64,
}

/// The bitmap is too full for an answer.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error(
    "{load:.2} of the bits of the pair bitmap are set, the limit is {LOAD_MAX}: give it more memory, or a shorter interval"
)]
pub struct Overloaded {
    /// The share of bits that are set.
    pub load: f64,
}

impl<T: FrequencySketch> FanOut<T> {
    /// Creates a bitmap of 2^`lg_bits` bits before `table`, which must have the same `seed`.
    ///
    /// # Errors
    /// Fails if the number is outside its range.
    pub fn new(lg_bits: u8, table: T, seed: Seed) -> Result<Self, SizeError> {
        Ok(Self {
            pairs: Arc::new(PairBitmap::new(lg_bits)?),
            table,
            hash: Some(seed.hash()),
            total: 0,
            repeated: 0,
        })
    }

    /// Creates a sketch for another thread, with a `table` of its own and the same bitmap. A pair that
    /// both threads see is then counted by one of them only, so that merging loses nothing.
    #[must_use]
    pub fn share(&self, table: T) -> Self {
        Self {
            pairs: Arc::clone(&self.pairs),
            table,
            hash: self.hash,
            total: 0,
            repeated: 0,
        }
    }

    /// Returns the keys with at least `threshold` partners, those with most first.
    ///
    /// # Errors
    /// Fails if the bitmap is too full.
    pub fn heavy_hitters(&self, threshold: u64) -> Result<Vec<HeavyHitter>, Overloaded> {
        self.check_load()?;
        let found = self
            .table
            .heavy_hitters(threshold.saturating_mul(SCALE.into()));
        let in_pairs = found.into_iter().map(|found| HeavyHitter {
            key: found.key,
            estimate: self.in_pairs(found.estimate),
        });
        Ok(in_pairs.collect())
    }

    /// Returns the number of partners of a key.
    ///
    /// # Errors
    /// Fails if the bitmap is too full.
    pub fn query(&self, key: HashedKey) -> Result<Estimate, Overloaded> {
        self.check_load()?;
        Ok(self.in_pairs(self.table.query(key)))
    }

    /// Returns the estimated number of different pairs.
    ///
    /// # Errors
    /// Fails if the bitmap is too full.
    pub fn pairs(&self) -> Result<f64, Overloaded> {
        self.check_load()?;
        Ok(self.pairs.distinct())
    }

    /// Returns the share of the bitmap's bits that are set.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.pairs.load()
    }

    fn check_load(&self) -> Result<(), Overloaded> {
        let load = self.load();
        if load > LOAD_MAX {
            return Err(Overloaded { load });
        }
        Ok(())
    }

    /// Converts an estimate of the table. Its bounds are widened by five standard deviations of the
    /// number of pairs that found their bit set, and by the pairs that were counted twice.
    fn in_pairs(&self, found: Estimate) -> Estimate {
        let load = self.load();
        let deviation = |scaled: u64| {
            let pairs = scaled as f64 / f64::from(SCALE);
            (5.0 * (pairs * load / (1.0 - load)).sqrt()).ceil() as u64
        };
        let scale = u64::from(SCALE);
        let less = deviation(found.low).saturating_add(self.repeated);
        let low = (found.low / scale).saturating_sub(less);
        let high = found.high.div_ceil(scale);
        let high = high.saturating_add(deviation(found.high));
        Estimate {
            value: found.value.saturating_add(scale / 2) / scale,
            low,
            high,
        }
    }

    /// Counts sources, each for a pair that was not seen before.
    #[inline(never)]
    fn count_new(&mut self, sources: &[u128]) {
        let before = self.pairs.add_set(sources.len() as u64);
        let free = (1.0 - before).max(1.0 - LOAD_MAX);
        let weight = (f64::from(SCALE) / free).round() as u32;
        let mut hashes = [0; NEW_MAX];
        let hashes = &mut hashes[..sources.len()];
        let hash = self
            .hash
            .as_ref()
            .expect("a state that was read without its seed takes no updates");
        hash.hash(sources, hashes);
        let weights = [weight; NEW_MAX];
        let weights = Weights::Each(&weights[..sources.len()]);
        self.table.update(Updates::new(sources, hashes, weights));
    }
}

/// Packets whose bits are read before a decision on any of them: a bit of a word each.
const CHUNK: usize = u64::BITS as usize;

/// New pairs that are counted together.
const NEW_MAX: usize = 256;

/// Inserts the pairs of at most [`NEW_MAX`] packets; writes the sources of those that are new to `new`
/// and returns their number.
fn new_pairs(
    pairs: &mut Arc<PairBitmap>,
    updates: Updates<'_>,
    new: &mut [u128; NEW_MAX],
) -> usize {
    // Most of what a new pair costs is the locked instruction.
    let is_alone = Arc::get_mut(pairs).is_some();
    let mut count = 0;
    for chunk in updates.chunks(CHUNK) {
        // A branch for each packet would wait for its bit from memory; this loop waits once.
        let hashes = chunk.hashes().iter().enumerate();
        let mut unseen = hashes.fold(0u64, |unseen, (index, &pair)| {
            unseen | u64::from(!pairs.contains(pair)) << index
        });
        while unseen != 0 {
            let index = unseen.trailing_zeros() as usize;
            unseen &= unseen - 1;
            let pair = chunk.hashes()[index];
            // The pair may occur twice in the chunk, or have been inserted by another thread.
            let is_new = if is_alone {
                pairs.insert_alone(pair)
            } else {
                pairs.insert(pair)
            };
            new[count] = chunk.keys()[index];
            count += usize::from(is_new);
        }
    }
    count
}

impl<T: FrequencySketch> Sketch for FanOut<T> {
    fn update(&mut self, updates: Updates<'_>) {
        self.total = self.total.saturating_add(updates.len() as u64);
        let mut new = [0; NEW_MAX];
        for part in updates.chunks(NEW_MAX) {
            let count = new_pairs(&mut self.pairs, part, &mut new);
            if count > 0 {
                self.count_new(&new[..count]);
            }
        }
    }

    fn flush(&mut self) {
        self.table.flush();
    }

    /// Also clears the bitmap for those that [share](FanOut::share) it.
    fn clear(&mut self) {
        self.pairs.clear();
        self.table.clear();
        (self.total, self.repeated) = (0, 0);
    }

    /// Returns the number of packets.
    fn total(&self) -> u64 {
        self.total
    }

    fn geometry(&self) -> Geometry {
        let table = self.table.geometry();
        let [a, b, c, d, e, _] = table.dimensions;
        Geometry {
            kind: Kind::FanOut,
            dimensions: [self.pairs.lg_bits().into(), a, b, c, d, e],
            seed: table.seed,
        }
    }

    /// Pairs are only counted once if both sides have [one bitmap](FanOut::share), or if no key was seen
    /// by both. Otherwise the number of pairs in both is estimated from the bitmaps and becomes part of
    /// the bound, and a merge of states with more than 5 % of such pairs is refused.
    fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        let one_bitmap = Arc::ptr_eq(&self.pairs, &other.pairs);
        let repeated = if one_bitmap || overlap == Overlap::Disjoint {
            0.0
        } else {
            self.pairs.in_both(&other.pairs)
        };
        if repeated > REPEATED_MAX * self.pairs.distinct().min(other.pairs.distinct()) {
            return Err(MergeError::NotMergeable(
                "more than 5 % of the pairs were seen by both sides: the numbers of partners cannot be \
                 added",
            ));
        }
        // Keys may be in both tables even if no pair is.
        self.table.merge(&other.table, overlap)?;
        if !one_bitmap {
            let mut pairs = (*self.pairs).clone();
            pairs.unite(&other.pairs);
            self.pairs = Arc::new(pairs);
        }
        self.total = self.total.saturating_add(other.total);
        let repeated = other.repeated.saturating_add(repeated.ceil() as u64);
        self.repeated = self.repeated.saturating_add(repeated);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.pairs.memory() + self.table.memory()
    }

    /// In pairs: the table's bound, and the deviation of the pairs of one key with all of them, which is
    /// the largest that a key can have.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let table = self.table.error_bound(confidence);
        let load = self.load();
        let pairs = self.pairs.distinct();
        let deviation =
            standard_deviations(confidence) * (pairs * load / (1.0 - load).max(0.01)).sqrt();
        ErrorBound {
            over: table.over / f64::from(SCALE) + deviation + self.repeated as f64,
            under: table.under / f64::from(SCALE) + deviation,
            relative: false,
            confidence,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        out.extend(self.repeated.to_le_bytes());
        self.pairs.write(out);
        self.table.geometry().write(out);
        self.table.write(out);
    }

    /// Without its `seed`, the state can be queried and merged, but not updated.
    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let (total, repeated) = (reader.u64()?, reader.u64()?);
        let lg_bits = u8::try_from(geometry.dimensions[0]).unwrap_or(u8::MAX);
        let pairs = PairBitmap::read(lg_bits, reader)?;
        let of_table = Geometry::read(reader)?;
        let read = Self {
            pairs: Arc::new(pairs),
            table: T::read(&of_table, seed, reader)?,
            hash: seed.map(Seed::hash),
            total,
            repeated,
        };
        if read.geometry() != *geometry {
            return Err(StateError::Damaged("its table is not that of its head"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
