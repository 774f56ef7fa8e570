//! A look at the flows in a table while it works, put together by the garbage collection's round
//! over it, so that no packet ever waits for it.

use crate::record::Record;
use std::cmp::Reverse;

/// Bins of the distribution: bin `i` holds values from 2^(i - SMALLEST) up to twice that.
pub const BINS: usize = 64;

/// The bin of values from 1 up to 2; smaller values are below it, in the bins of fractions.
pub const BIN_OF_ONE: usize = 32;

/// The flows in a table as one round over it saw them.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// Flows in the table.
    pub flows: u64,
    /// The flows with most bytes, largest first.
    pub top: Vec<Record>,
    /// Flows by the value of the chosen statistic, in octaves.
    pub distribution: [u64; BINS],
}

/// Puts a view together.
#[derive(Debug)]
pub(crate) struct ViewBuilder {
    size: usize,
    top: Vec<(u64, Record)>,
    distribution: [u64; BINS],
    finished: Option<LiveView>,
}

impl ViewBuilder {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            top: Vec::with_capacity(2 * size),
            distribution: [0; BINS],
            finished: None,
        }
    }

    /// Whether a flow of so many bytes may be among the largest.
    pub(crate) fn wants(&self, bytes: u64) -> bool {
        self.top.len() < self.size
            || self
                .top
                .get(self.size - 1)
                .is_none_or(|least| bytes > least.0)
    }

    pub(crate) fn insert(&mut self, bytes: u64, record: Record) {
        self.top.push((bytes, record));
        if self.top.len() == self.size || self.top.len() == 2 * self.size {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.top
            .sort_by_key(|(bytes, record)| (Reverse(*bytes), record.key));
        self.top.truncate(self.size);
    }

    pub(crate) fn distribute(&mut self, value: f64) {
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
        self.shorten();
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
