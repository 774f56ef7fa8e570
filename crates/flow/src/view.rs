//! A live view of the flows in the table. The garbage collector's sweep gathers it, so no packet waits
//! for it.

use crate::record::Record;
use std::cmp::Reverse;

/// Bins of the distribution. Bin `i` counts values from 2^(i - [`BIN_OF_ONE`]) up to twice that.
pub const BINS: usize = 64;

/// The bin of values from 1 up to 2. Fractions fall into the bins below it.
pub const BIN_OF_ONE: usize = 32;

/// The flows in a table, as one sweep over it saw them.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// Flows in the table.
    pub flows: u64,
    /// The flows with the most bytes, largest first.
    pub top: Vec<Record>,
    /// Number of flows per octave of the selected statistic.
    pub distribution: [u64; BINS],
}

/// Gathers a [`LiveView`] during a sweep.
#[derive(Debug)]
pub(crate) struct ViewBuilder {
    top_max: usize,
    top: Vec<(u64, Record)>,
    distribution: [u64; BINS],
    finished: Option<LiveView>,
}

impl ViewBuilder {
    pub(crate) fn new(top_max: usize) -> Self {
        Self {
            top_max,
            top: Vec::with_capacity(2 * top_max),
            distribution: [0; BINS],
            finished: None,
        }
    }

    /// Returns whether a flow of `bytes` bytes may be among the largest.
    pub(crate) fn may_rank(&self, bytes: u64) -> bool {
        self.top.len() < self.top_max
            || self
                .top
                .get(self.top_max - 1)
                .is_none_or(|least| bytes > least.0)
    }

    pub(crate) fn insert_top(&mut self, bytes: u64, record: Record) {
        self.top.push((bytes, record));
        if self.top.len() == self.top_max || self.top.len() == 2 * self.top_max {
            self.truncate_top();
        }
    }

    fn truncate_top(&mut self) {
        self.top
            .sort_by_key(|(bytes, record)| (Reverse(*bytes), record.key));
        self.top.truncate(self.top_max);
    }

    pub(crate) fn add_to_distribution(&mut self, value: f64) {
        if value.is_finite() {
            let octave = if value > 0.0 {
                value.log2().floor() as i32
            } else {
                i32::MIN
            };
            let bin = octave
                .saturating_add(BIN_OF_ONE as i32)
                .clamp(0, BINS as i32 - 1);
            self.distribution[bin as usize] += 1;
        }
    }

    pub(crate) fn finish_round(&mut self, flows: u64) {
        self.truncate_top();
        let top = self.top.drain(..).map(|(_, record)| record).collect();
        self.finished = Some(LiveView {
            flows,
            top,
            distribution: self.distribution,
        });
        self.distribution = [0; BINS];
    }

    pub(crate) fn take(&mut self) -> Option<LiveView> {
        self.finished.take()
    }
}
