//! Percentiles from a log-linear histogram of one cache line per flow: the default estimator.
//!
//! The first 26 observations are stored as they are, to one part in 1024 (integers up to 2046
//! exactly). After that, they are counted in bins, a power of two of them per octave: first in 52
//! counters of 8 bits, then in 26 counters of 16 bits once one of the former is full. Bins are as
//! narrow as possible while the window of all counters reaches from somewhat below the lowest
//! requested percentile to the largest value. If a value does not fit, the window slides up over
//! values that no percentile needs, or adjacent bins are joined in pairs. The smallest and the largest
//! value are always known to one part in 1024. One histogram serves all percentiles of a value; the
//! fewer they are and the closer together, the narrower the bins.
//!
//! If all values of a flow have the same code, as the gaps of flows that send in turn do, the
//! percentile is their exact mean, if that is known: it is exact if the values are all equal.
//!
//! **Error.** The true percentile (nearest rank) is in the bin that the estimate comes from;
//! [`LogLinear::bounds`] returns the ends of that bin. With s ≥ 1 bins per octave, they are at most
//! 1/s of the value apart. A window that must span r octaves has at least 26/r bins per octave,
//! rounded down to a power of two (52/r before a counter reaches 256). Within the bin, the count is
//! interpolated by a monotone cubic. In practice, errors are a tenth to a quarter of the bin, except
//! for values that are few and far apart, as packet sizes can be: there they can be the whole bin. The
//! example `statistic_accuracy` measures the errors.
//!
//! **Outside the window** is a bounded fraction of the observations, at ranks that no percentile needs. A
//! percentile that falls there all the same is between the window and the extreme, which are its
//! bounds. When the values beyond an end force the window to move, those already lumped there
//! are spread evenly over the bins in which they may be. From then on, estimates are guesses for those
//! observations and valid for all others, and `bounds` returns `None`.
//!
//! **After 65,535 observations in one bin** (except the first, which counts 30 bits), all counts are
//! halved. Each rounding error is carried to the next bin, so that no rank is off by more than one
//! half. From then on, every second observation is counted, later every fourth, and so on, so that
//! early and late observations have the same weight.
//!
//! Histograms can be merged: the result has the bins of the coarser one, and counts are added.

mod code;
mod estimate;
mod histogram;
mod layout;
mod tail_shares;
mod window;

use super::{NO_VALUE, Statistic, Value, clear, percentile_column, relocate};
use crate::record::Column;
use estimate::Snapshot;
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use layout::State;
use tail_shares::TailShares;

/// Percentiles of one value.
#[derive(Debug)]
pub struct LogLinear {
    value: Value,
    percentiles: Vec<f64>,
    tails: TailShares,
    states: Lines<State>,
}

impl LogLinear {
    /// Creates an estimator of `percentiles` (0 to 100) of `value`, for as many flows as `states` has
    /// lines.
    #[must_use]
    pub fn new(value: Value, percentiles: &[f64], states: Lines<State>) -> Self {
        // Extremes are known exactly and need no bins.
        let inner = || {
            percentiles
                .iter()
                .copied()
                .filter(|p| *p > 0.0 && *p < 100.0)
        };
        let (lowest, highest) = (inner().fold(100.0, f64::min), inner().fold(0.0, f64::max));
        let tails = TailShares::for_quantiles(lowest / 100.0, highest / 100.0);
        Self {
            value,
            percentiles: percentiles.to_vec(),
            tails,
            states,
        }
    }

    /// Returns the certain bounds of a percentile of the flow in `slot`, in the unit of
    /// [`Statistic::update`].
    ///
    /// `None` if the counts are no longer exact: a 16-bit counter has overflowed, or the flow's values
    /// have moved below the window.
    #[must_use]
    pub fn bounds(&self, slot: u32, percentile: f64) -> Option<(u64, u64)> {
        Snapshot::new(self.states.get(slot as usize)?, &self.tails).bounds(percentile)
    }

    /// Merges the histogram of slot `slot` in `other` into that of slot `into`.
    pub fn merge(&mut self, into: u32, other: &Self, slot: u32) {
        if let (Some(line), Some(other)) = (
            self.states.get_mut(into as usize),
            other.states.get(slot as usize),
        ) {
            histogram::merge(line, other, &self.tails);
        }
    }
}

impl Statistic for LogLinear {
    fn populate(&mut self) {
        self.states.populate();
    }

    fn prefetch(&self, level: CacheLevel, slots: &[u32]) {
        self.states.prefetch_each(level, slots);
    }

    fn update(&mut self, slots: &[u32], values: &[u64]) {
        let tails = self.tails;
        let states = &mut self.states;
        for (&slot, &value) in slots.iter().zip(values) {
            if value == NO_VALUE {
                continue;
            }
            if let Some(line) = states.get_mut(slot as usize) {
                histogram::add(line, value, &tails);
            }
        }
    }

    fn summarise(&self, slot: u32, mean: f64, out: &mut Vec<f64>) {
        let Some(line) = self.states.get(slot as usize) else {
            out.extend(std::iter::repeat_n(f64::NAN, self.percentiles.len()));
            return;
        };
        let snapshot = Snapshot::new(line, &self.tails);
        out.extend(self.percentiles.iter().map(|&percentile| {
            let estimate = snapshot.estimate(percentile, mean);
            estimate.map_or(f64::NAN, |estimate| estimate / self.value.divisor())
        }));
    }

    fn clear(&mut self, slot: u32) {
        clear(&mut self.states, slot);
    }

    fn relocate(&mut self, from: u32, to: u32) {
        relocate(&mut self.states, from, to);
    }

    fn columns(&self) -> Vec<Column> {
        let estimator = "a log-linear histogram";
        let column = |&percentile| percentile_column(self.value, percentile, estimator);
        self.percentiles.iter().map(column).collect()
    }

    fn bytes_per_flow(&self) -> usize {
        size_of::<State>()
    }
}
