//! The selected statistics of a meter.

use crate::batch::{BURST, Batch};
use crate::ended::{FlowStart, exact_mean, has_intervals};
use crate::entry::Entry;
use crate::statistic::{Selection, Statistic, Value};
use crate::table::{NO_SLOT, Observed};
use hw::lines::Rows;
use hw::prefetch::CacheLevel;
use std::ops::Range;

/// The selected statistics, with their states in the slots of the table.
pub(super) struct Statistics {
    selected: Vec<(Value, Box<dyn Statistic>)>,
    /// Whether records have the mean gap, for which no state is needed.
    has_gap_mean: bool,
    /// The sizes of the packets that are counted.
    sizes: Vec<u64>,
}

impl Statistics {
    /// Creates the statistics of `selection`, each in a column of `rows`.
    pub(super) fn new(selection: &Selection, rows: &mut Rows) -> Self {
        Self {
            selected: selection.build(rows),
            has_gap_mean: selection.gap_mean,
            sizes: Vec::with_capacity(BURST),
        }
    }

    /// Maps all memory now.
    pub(super) fn populate(&mut self) {
        for (_, statistic) in &mut self.selected {
            statistic.populate();
        }
    }

    /// Returns the memory per slot, in bytes.
    pub(super) fn bytes_per_flow(&self) -> usize {
        let bytes = |(_, statistic): &(Value, Box<dyn Statistic>)| statistic.bytes_per_flow();
        self.selected.iter().map(bytes).sum()
    }

    /// Returns whether no statistic with a state is selected.
    pub(super) const fn is_empty(&self) -> bool {
        self.selected.is_empty()
    }

    /// Moves a flow to another slot.
    pub(super) fn relocate(&mut self, from: u32, to: u32) {
        for (_, statistic) in &mut self.selected {
            statistic.relocate(from, to);
        }
    }

    /// Prefetches the states of these slots.
    pub(super) fn prefetch(&self, level: CacheLevel, slots: &[u32]) {
        for (_, statistic) in &self.selected {
            statistic.prefetch(level, slots);
        }
    }

    /// Prefetches the states that [`Statistics::take`] reads, of flows with these slots and entries.
    pub(super) fn prefetch_ending<'a>(
        &self,
        flows: impl Iterator<Item = (u32, &'a Entry)> + Clone,
    ) {
        for (value, statistic) in &self.selected {
            for (slot, entry) in flows.clone() {
                if has_state(*value, entry) {
                    statistic.prefetch(CacheLevel::L1, &[slot]);
                }
            }
        }
    }

    /// Adds the values of these packets to the states of their flows. With `prefetch_l1`, prefetches
    /// the states into the L1 cache first, all at once.
    pub(super) fn update(
        &mut self,
        batch: &Batch,
        Range { start, end }: Range<usize>,
        observed: &Observed,
        prefetch_l1: bool,
    ) {
        let slots = &observed.slots[start..end];
        for (value, statistic) in &mut self.selected {
            let values = match value {
                Value::Size => {
                    let packets = &batch.packets()[start..end];
                    self.sizes.clear();
                    self.sizes
                        .extend(packets.iter().map(|packet| u64::from(packet.length)));
                    &self.sizes[..]
                }
                Value::InterArrivalTime => &observed.inter_arrival_ns[start..end],
                Value::Gap => &observed.gaps[start..end],
            };
            if prefetch_l1 {
                statistic.prefetch(CacheLevel::L1, slots);
            }
            statistic.update(slots, values);
        }
    }

    /// Returns whether records have values of statistics.
    pub(super) const fn has_values(&self) -> bool {
        self.has_gap_mean || !self.selected.is_empty()
    }

    /// Appends the values of an ended flow's record to `values`, and clears its states.
    pub(super) fn take(
        &mut self,
        slot: u32,
        entry: &Entry,
        start: &FlowStart,
        values: &mut Vec<f64>,
    ) {
        if self.has_gap_mean {
            values.push(exact_mean(Value::Gap, entry, start));
        }
        for (value, statistic) in &mut self.selected {
            if has_state(*value, entry) {
                let mean = exact_mean(*value, entry, start);
                statistic.summarise(slot, mean, values);
                statistic.clear(slot);
            } else {
                // The slot's state was never touched: NO_SLOT gives NaN without reading it.
                statistic.summarise(NO_SLOT, f64::NAN, values);
            }
        }
    }

    /// Writes the current values of the first statistic to `values`. Returns false if there is none.
    pub(super) fn summarise_first(
        &self,
        slot: u32,
        entry: &Entry,
        start: &FlowStart,
        values: &mut Vec<f64>,
    ) -> bool {
        let Some((value, statistic)) = self.selected.first() else {
            return false;
        };
        statistic.summarise(slot, exact_mean(*value, entry, start), values);
        true
    }
}

/// Returns whether a statistic of `value` has a state for the flow with this entry.
#[inline]
fn has_state(value: Value, entry: &Entry) -> bool {
    value == Value::Size || has_intervals(entry)
}
