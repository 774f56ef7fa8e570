//! What changed between two intervals: the keys whose weights differ most (heavy changers). Each
//! interval has a table of its own, and their listed keys are compared. Tables of keys find far more of
//! them in the same memory than the difference of two Count-Min or Count sketches.

use crate::error::MergeError;
use crate::interface::{Estimate, FrequencySketch};
use std::collections::HashMap;

/// How the weight of a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: u128,
    /// Its weight in the first interval.
    pub before: Estimate,
    /// Its weight in the second.
    pub after: Estimate,
}

impl Change {
    /// Returns the estimated change, negative if the weight fell.
    #[must_use]
    pub fn value(&self) -> i128 {
        i128::from(self.after.value) - i128::from(self.before.value)
    }

    /// Returns the smallest change that the bounds allow.
    #[must_use]
    pub fn low(&self) -> i128 {
        i128::from(self.after.low) - i128::from(self.before.high)
    }

    /// Returns the largest change that the bounds allow.
    #[must_use]
    pub fn high(&self) -> i128 {
        i128::from(self.after.high) - i128::from(self.before.low)
    }
}

/// Returns the keys whose estimated weight rose or fell by at least `threshold`, the largest change
/// first, equal changes in the order of the keys. A key that one table does not list is taken as 0 there, and
/// may have had up to its table's bound at `confidence`.
///
/// # Errors
/// Fails if the tables have different geometries or seeds: their errors would appear as changes.
pub fn between<T: FrequencySketch>(
    before: &T,
    after: &T,
    threshold: u64,
    confidence: f64,
) -> Result<Vec<Change>, MergeError> {
    before.geometry().check_equal(&after.geometry())?;
    let (unlisted_before, unlisted_after) =
        (unlisted(before, confidence), unlisted(after, confidence));
    let mut changes: HashMap<u128, Change> = HashMap::new();
    for found in before.heavy_hitters(1) {
        let change = Change {
            key: found.key,
            before: found.estimate,
            after: unlisted_after,
        };
        changes.insert(found.key, change);
    }
    for found in after.heavy_hitters(1) {
        let change = changes.entry(found.key).or_insert(Change {
            key: found.key,
            before: unlisted_before,
            after: unlisted_after,
        });
        change.after = found.estimate;
    }
    let mut large: Vec<Change> = changes
        .into_values()
        .filter(|change| change.value().unsigned_abs() >= u128::from(threshold))
        .collect();
    large.sort_unstable_by_key(|change| {
        let size = change.value().unsigned_abs();
        (core::cmp::Reverse(size), change.key)
    });
    Ok(large)
}

/// Returns what a table knows about a key that it does not list.
fn unlisted<T: FrequencySketch>(table: &T, confidence: f64) -> Estimate {
    // A cast of a float saturates.
    let most = table.error_bound(confidence).under.ceil() as u64;
    Estimate {
        value: 0,
        low: 0,
        high: most.min(table.total()),
    }
}

#[cfg(test)]
mod tests;
