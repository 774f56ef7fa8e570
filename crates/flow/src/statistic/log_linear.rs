//! Percentiles from a log-linear histogram of one cache line a flow: the default estimator.
//!
//! TODO
mod code;
mod estimate;
mod histogram;
mod window;

use super::{Statistic, Value, percentile_column};
use crate::record::Column;
use estimate::Snapshot;
use histogram::{Ends, State};
use hw::memory::HugeSlice;
use hw::prefetch;

/// Percentiles of one value.
#[derive(Debug)]
pub struct LogLinear {
    value: Value,
    percentiles: Vec<f64>,
    ends: Ends,
    states: HugeSlice<State>,
}

impl LogLinear {
    /// `percentiles` in 0 to 100 of `value`, for `slots` flows.
    ///
    /// # Panics
    /// When the machine has no room for them.
    #[must_use]
    pub fn new(value: Value, percentiles: &[f64], slots: usize) -> Self {
        // Extremes are known exactly, and ask for no room.
        let inner = || percentiles.iter().copied().filter(|p| *p > 0.0 && *p < 100.0);
        let (lowest, highest) = (inner().fold(100.0, f64::min), inner().fold(0.0, f64::max));
        let ends = Ends::around(lowest / 100.0, highest / 100.0);
        Self { value, percentiles: percentiles.to_vec(), ends, states: HugeSlice::zeroed(slots) }
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
        if let (Some(line), Some(other)) =
            (self.states.get_mut(into as usize), other.states.get(slot as usize))
        {
            histogram::merge(line, other, &self.ends);
        }
    }
}

impl Statistic for LogLinear {
    fn prefetch(&self, slots: &[u32]) {
        for &slot in slots {
            prefetch::read(&self.states, slot as usize);
        }
    }

    fn update(&mut self, slots: &[u32], values: &[u64]) {
        let ends = self.ends;
        let states = &mut self.states[..];
        for (&slot, &value) in slots.iter().zip(values) {
            if let Some(line) = states.get_mut(slot as usize) {
                histogram::add(line, value, &ends);
            }
        }
    }

    fn summarise(&self, slot: u32, out: &mut Vec<f64>) {
        let snapshot = self.states.get(slot as usize).map(|line| Snapshot::new(line, &self.ends));
        out.extend(self.percentiles.iter().map(|&percentile| {
            let estimate = snapshot.as_ref().and_then(|snapshot| snapshot.estimate(percentile));
            estimate.map_or(f64::NAN, |estimate| estimate / self.value.divisor())
        }));
    }

    fn clear(&mut self, slot: u32) {
        if let Some(line) = self.states.get_mut(slot as usize) {
            *line = hw::memory::Line([0; 64]);
        }
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
