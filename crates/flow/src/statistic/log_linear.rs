//! Percentiles from a log-linear histogram of one cache line a flow: the default estimator.
//!
//! Up to 26 observations are kept as they are, to one part in 1024 (integers up to 2046 exactly).
//! From then on they are counted in bins, a power of two of them in each octave: at first 52
//! counters of 8 bits, and 26 of 16 bits once one of those is full. Bins are as narrow as they can
//! be while the window of all counters reaches from what lies below the lowest percentile that is
//! asked for to the largest value; when a value does not fit, the window slides up over values that
//! no percentile needs, or neighbouring bins are joined in pairs. The smallest and the largest value
//! are always known to one part in 1024. One array serves every percentile of a value, and the
//! fewer and closer together they are, the narrower the bins.
//!
//! Where all values of a flow have one code, as the gaps of flows that send in turn, the percentile is
//! their mean, where that is known exactly: it is theirs if they are all alike.
//!
//! **Error.** The true percentile (nearest rank) lies in the bin that the estimate comes from:
//! [`LogLinear::bounds`] tells its ends. With s bins an octave, 1 or more, these are at most 1/s of
//! the value apart. A window that must span r octaves has 26/r or more bins an octave, rounded down
//! to a power of two (52/r before a counter reaches 256). Within the bin, the count is interpolated
//! by a monotone cubic; errors in practice are a tenth to a quarter of the bin, but for values that
//! are few and far apart, as sizes of packets can be, where they can be all of it. The example
//! `statistic_accuracy` measures them.
//!
//! **Outside the window** lies a bounded share of observations, at ranks that nobody asks
//! for; a percentile that falls there all the same is somewhere between the window and the extreme,
//! which are its bounds. When so many values lie beyond an end that the window must move, what is
//! already lumped there is spread evenly over the bins in which it can lie: from then on estimates
//! are guesses for those observations, sound for all others, and `bounds` says nothing.
//!
//! **After 65,535 observations in one bin** (not the first one, which counts 30 bits) all counts are
//! halved, each rounding error being passed on to the next bin, so that no rank is off by more than
//! a half; from then on every second observation is counted, then every fourth, so that early and
//! late ones weigh the same.
//!
//! Histograms merge: bins of the coarser one, counts added.

mod code;
mod estimate;
mod histogram;
mod window;

use super::{NO_VALUE, Statistic, Value, clear, percentile_column, relocate};
use crate::record::Column;
use estimate::Snapshot;
use histogram::{Ends, State};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;

/// Percentiles of one value.
#[derive(Debug)]
pub struct LogLinear {
    value: Value,
    percentiles: Vec<f64>,
    ends: Ends,
    states: Lines<State>,
}

impl LogLinear {
    /// `percentiles` in 0 to 100 of `value`, for as many flows as `states` has lines.
    #[must_use]
    pub fn new(value: Value, percentiles: &[f64], states: Lines<State>) -> Self {
        // Extremes are known exactly, and ask for no room.
        let inner = || {
            percentiles
                .iter()
                .copied()
                .filter(|p| *p > 0.0 && *p < 100.0)
        };
        let (lowest, highest) = (inner().fold(100.0, f64::min), inner().fold(0.0, f64::max));
        let ends = Ends::around(lowest / 100.0, highest / 100.0);
        Self {
            value,
            percentiles: percentiles.to_vec(),
            ends,
            states,
        }
    }

    /// The values, in the unit of [`Statistic::update`], between which the percentile of what the
    /// flow in `slot` has shown certainly lies. None when that cannot be said any more: a counter
    /// of 16 bits has overflowed, or the flow's values have moved below the window.
    #[must_use]
    pub fn bounds(&self, slot: u32, percentile: f64) -> Option<(u64, u64)> {
        Snapshot::new(self.states.get(slot as usize)?, &self.ends).bounds(percentile)
    }

    /// Takes what `other` knows of the flow in its `slot` into the flow in `into`.
    pub fn merge(&mut self, into: u32, other: &Self, slot: u32) {
        if let (Some(line), Some(other)) = (
            self.states.get_mut(into as usize),
            other.states.get(slot as usize),
        ) {
            histogram::merge(line, other, &self.ends);
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
        let ends = self.ends;
        let states = &mut self.states;
        for (&slot, &value) in slots.iter().zip(values) {
            if value == NO_VALUE {
                continue;
            }
            if let Some(line) = states.get_mut(slot as usize) {
                histogram::add(line, value, &ends);
            }
        }
    }

    fn summarise(&self, slot: u32, mean: f64, out: &mut Vec<f64>) {
        let Some(line) = self.states.get(slot as usize) else {
            out.extend(std::iter::repeat_n(f64::NAN, self.percentiles.len()));
            return;
        };
        let snapshot = Snapshot::new(line, &self.ends);
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
