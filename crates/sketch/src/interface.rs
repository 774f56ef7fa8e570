//! The interface of all sketches.

use crate::bytes::Reader;
use crate::error::{MergeError, StateError};
use crate::geometry::Geometry;
use crate::seed::Seed;
use crate::updates::{HashedKey, Updates};

/// Whether the keys of two states that are merged may have met on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// All packets of a key were seen by one side only, as by the queues of RSS.
    Disjoint,
    /// A key may have been seen by both: probes at different links, or packets dealt out.
    Shared,
}

/// How far an estimate may be from the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBound {
    /// How much an estimate may be too high.
    pub over: f64,
    /// How much it may be too low.
    pub under: f64,
    /// If `true`, both are fractions of the truth; otherwise both are in units of the weight.
    pub relative: bool,
    /// The probability with which the bound holds for one key; 1 if it always does.
    pub confidence: f64,
}

/// What a sketch knows about a key. Whatever the sketch guarantees, `low <= truth <= high`; where it
/// guarantees nothing on one side, that side is 0 or the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The weight.
    pub value: u64,
    /// The weight is certainly not smaller.
    pub low: u64,
    /// The weight is certainly not larger.
    pub high: u64,
}

/// A key with much weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeavyHitter {
    /// The key.
    pub key: u128,
    /// Its weight.
    pub estimate: Estimate,
}

/// What every sketch can do.
pub trait Sketch: Sized {
    /// Counts a batch.
    fn update(&mut self, updates: Updates<'_>);

    /// Ends an interval: brings in what an update postpones. Queries and merges are exact only then.
    fn flush(&mut self) {}

    /// Returns to the empty state. It writes all memory, so it is not for the packet path.
    fn clear(&mut self);

    /// Returns the sum of all weights, never less than the truth unless it exceeds 64 bits.
    fn total(&self) -> u64;

    /// Returns what another state must have to be merged.
    fn geometry(&self) -> Geometry;

    /// Adds another state.
    ///
    /// # Errors
    /// Fails if geometries or seeds differ, or if this kind has no merge for this `overlap`. Nothing
    /// has changed then.
    fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError>;

    /// Returns the bytes that the sketch occupies, keys and candidates included.
    fn memory(&self) -> usize;

    /// Returns the bound of an estimate at a confidence (from 0 to 1).
    fn error_bound(&self, confidence: f64) -> ErrorBound;

    /// Appends the state, without its geometry, to `out`.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads a state as [`Sketch::write`] wrote it. The bytes may be anything; memory is only reserved
    /// for what they contain.
    ///
    /// # Errors
    /// Fails if the bytes are not such a state, or if this kind needs a `seed` and has none.
    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError>;
}

/// A sketch that estimates the weight of each key.
pub trait FrequencySketch: Sketch {
    /// Returns the estimate for a key.
    fn query(&self, key: HashedKey) -> Estimate;

    /// Returns the keys whose estimate is at least `threshold`, largest first, keys with equal
    /// estimates in the order of the keys.
    fn heavy_hitters(&self, threshold: u64) -> Vec<HeavyHitter>;
}

/// Sorts heavy hitters as [`FrequencySketch::heavy_hitters`] returns them.
pub fn sort_heavy_hitters(found: &mut [HeavyHitter]) {
    found.sort_unstable_by(|a, b| {
        let by_value = b.estimate.value.cmp(&a.estimate.value);
        by_value.then(a.key.cmp(&b.key))
    });
}
