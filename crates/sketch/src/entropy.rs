//! The entropy of a distribution over keys (ports, sources): near 0 if one key has all the weight, and
//! the logarithm of the number of keys if all have the same. A shift of it says that the mix of traffic
//! has changed.

use crate::bytes::Reader;
use crate::error::{MergeError, StateError};
use crate::flow_sample::FlowSample;
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, FrequencySketch, Overlap, Sketch};
use crate::normal::standard_deviations;
use crate::seed::Seed;
use crate::updates::Updates;
use std::collections::HashSet;

/// How an entropy was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntropyMethod {
    /// From a table of the heavy keys, and a sample of the others with their exact weights: unbiased.
    Sampled,
    /// From a table alone. The weight that it does not list is taken as spread evenly over the keys that
    /// it does not list. No spread has a higher entropy, so this is rather too high.
    EvenRest,
}

/// An entropy, in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntropyEstimate {
    /// The estimate.
    pub bits: f64,
    /// Its standard error, without that of the table's own counts; 0 where it is not known.
    pub standard_error: f64,
    /// The estimated number of keys. The entropy is at most its binary logarithm.
    pub keys: f64,
    /// How it was estimated.
    pub method: EntropyMethod,
}

impl EntropyEstimate {
    /// Returns the entropy as a share of the largest one that this number of keys can have, from 0 to
    /// 1. A single key has 0.
    #[must_use]
    pub fn normalised(&self) -> f64 {
        if self.keys <= 1.0 {
            return 0.0;
        }
        (self.bits / self.keys.log2()).clamp(0.0, 1.0)
    }
}

/// A table of heavy keys and a sample of all keys.
#[derive(Clone, Debug)]
pub struct Entropy<T> {
    table: T,
    sample: FlowSample,
}

/// A key is heavy from this number of smallest counts of the table on. Below, the counts of the table
/// may be mostly those of other keys.
const HEAVY: f64 = 2.0;

impl<T: FrequencySketch> Entropy<T> {
    /// Combines a table and a sample.
    #[must_use]
    pub const fn new(table: T, sample: FlowSample) -> Self {
        Self { table, sample }
    }

    /// Estimates the entropy.
    ///
    /// With weights w of a total W it is log W - (sum of w log w) / W. The terms of heavy keys are from
    /// the table; each sampled key that is not heavy stands for 1 / share others. Which keys are heavy
    /// does not depend on the sample, so that the sum is unbiased.
    #[must_use]
    pub fn estimate(&self) -> EntropyEstimate {
        let total = self.table.total() as f64;
        let share = self.sample.share();
        let keys = self.sample.len() as f64 / share;
        let mut sum = 0.0;
        let mut variance = 0.0;
        // While the sample has every key, nothing need be estimated.
        let heavy: HashSet<u128> = if share < 1.0 {
            let least = HEAVY * self.table.error_bound(0.5).over;
            let found = self.table.heavy_hitters((least as u64).max(1));
            sum += found.iter().map(|f| term(f.estimate.value)).sum::<f64>();
            found.iter().map(|found| found.key).collect()
        } else {
            HashSet::new()
        };
        let others = self
            .sample
            .iter()
            .filter(|sampled| !heavy.contains(&sampled.key));
        for sampled in others {
            let term = term(sampled.weight);
            sum += term / share;
            variance += term * term * (1.0 - share) / (share * share);
        }
        let bits = if total > 0.0 {
            total.log2() - sum / total
        } else {
            0.0
        };
        EntropyEstimate {
            bits: bits.max(0.0),
            standard_error: if total > 0.0 {
                variance.sqrt() / total
            } else {
                0.0
            },
            keys,
            method: EntropyMethod::Sampled,
        }
    }

    /// Returns the table of heavy keys.
    #[must_use]
    pub const fn table(&self) -> &T {
        &self.table
    }
}

/// Estimates the entropy from a table alone, and the number of different `keys` (from a
/// [`HyperLogLog`](crate::HyperLogLog)).
#[must_use]
pub fn with_even_rest<T: FrequencySketch>(table: &T, keys: f64) -> EntropyEstimate {
    let total = table.total() as f64;
    let listed = table.heavy_hitters(1);
    let weight: f64 = listed.iter().map(|found| found.estimate.value as f64).sum();
    let mut sum: f64 = listed.iter().map(|found| term(found.estimate.value)).sum();
    let rest = (total - weight).max(0.0);
    if rest > 0.0 {
        let others = (keys - listed.len() as f64).clamp(1.0, rest.max(1.0));
        sum += rest * (rest / others).log2();
    }
    let bits = if total > 0.0 {
        total.log2() - sum / total
    } else {
        0.0
    };
    EntropyEstimate {
        bits: bits.max(0.0),
        standard_error: 0.0,
        keys,
        method: EntropyMethod::EvenRest,
    }
}

/// Returns w log w.
fn term(weight: u64) -> f64 {
    let weight = weight as f64;
    if weight > 0.0 {
        weight * weight.log2()
    } else {
        0.0
    }
}

impl<T: FrequencySketch> Sketch for Entropy<T> {
    fn update(&mut self, updates: Updates<'_>) {
        self.table.update(updates);
        self.sample.update(updates);
    }

    fn flush(&mut self) {
        self.table.flush();
    }

    fn clear(&mut self) {
        self.table.clear();
        self.sample.clear();
    }

    fn total(&self) -> u64 {
        self.table.total()
    }

    fn geometry(&self) -> Geometry {
        let table = self.table.geometry();
        let [a, b, c, d, e, _] = table.dimensions;
        Geometry {
            kind: Kind::Entropy,
            dimensions: [self.sample.lg_slots().into(), a, b, c, d, e],
            seed: table.seed,
        }
    }

    /// The sample is exactly that of one sketch that saw all keys; the table merges as it does alone.
    fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        self.table.merge(&other.table, overlap)?;
        self.sample.merge(&other.sample);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.table.memory() + self.sample.memory()
    }

    /// In bits.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let error = standard_deviations(confidence) * self.estimate().standard_error;
        ErrorBound {
            over: error,
            under: error,
            relative: false,
            confidence,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.sample.write(out);
        self.table.geometry().write(out);
        self.table.write(out);
    }

    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let sample = FlowSample::read(reader)?;
        let of_table = Geometry::read(reader)?;
        let table = T::read(&of_table, seed, reader)?;
        let read = Self { table, sample };
        if read.geometry() != *geometry {
            return Err(StateError::Damaged("its table is not that of its head"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
