//! Minimum, mean, standard deviation and maximum.
//!
//! Mean and deviation follow Welford ("Note on a method for calculating corrected sums of squares and
//! products", Technometrics 4, 1962): each value adds to the sum of squared deviations, which is never
//! the difference of two large sums. Minimum and maximum are exact integers. The deviation is that of a
//! population (divided by n, not n - 1), because a flow's packets are not a sample.

use super::{NO_VALUE, Statistic, Value, clear, relocate};
use crate::record::Column;
use hw::lines::Lines;
use hw::memory::Line;
use hw::prefetch::CacheLevel;

/// A flow's state: the count; the minimum, stored as [`NO_VALUE`] minus the value, so that zero is the
/// empty state; the maximum; the mean and the sum of squared deviations, as the bits of `f64`.
type State = Line<u64, 8>;

const COUNT: usize = 0;
const MINIMUM_COMPLEMENT: usize = 1;
const MAXIMUM: usize = 2;
const MEAN: usize = 3;
const SQUARED_DEVIATIONS: usize = 4;

/// The moments of one value.
#[derive(Debug)]
pub struct Moments {
    value: Value,
    states: Lines<State>,
}

impl Moments {
    /// Creates the moments of `value`, for as many flows as `states` has lines.
    #[must_use]
    pub fn new(value: Value, states: Lines<State>) -> Self {
        Self { value, states }
    }
}

impl Statistic for Moments {
    fn populate(&mut self) {
        self.states.populate();
    }

    fn prefetch(&self, level: CacheLevel, slots: &[u32]) {
        self.states.prefetch_each(level, slots);
    }

    fn update(&mut self, slots: &[u32], values: &[u64]) {
        let states = &mut self.states;
        for (&slot, &value) in slots.iter().zip(values) {
            if value == NO_VALUE {
                continue;
            }
            let Some(Line(state)) = states.get_mut(slot as usize) else {
                continue;
            };
            state[COUNT] += 1;
            state[MINIMUM_COMPLEMENT] = state[MINIMUM_COMPLEMENT].max(NO_VALUE - value);
            state[MAXIMUM] = state[MAXIMUM].max(value);
            let mean = f64::from_bits(state[MEAN]);
            let deviation = value as f64 - mean;
            let mean = mean + deviation / state[COUNT] as f64;
            let squares =
                f64::from_bits(state[SQUARED_DEVIATIONS]) + deviation * (value as f64 - mean);
            state[MEAN] = mean.to_bits();
            state[SQUARED_DEVIATIONS] = squares.to_bits();
        }
    }

    fn summarise(&self, slot: u32, _: f64, out: &mut Vec<f64>) {
        let Some(Line(state)) = self
            .states
            .get(slot as usize)
            .filter(|state| state.0[COUNT] > 0)
        else {
            out.extend([f64::NAN; 4]);
            return;
        };
        let variance = f64::from_bits(state[SQUARED_DEVIATIONS]) / state[COUNT] as f64;
        let numbers = [
            (NO_VALUE - state[MINIMUM_COMPLEMENT]) as f64,
            f64::from_bits(state[MEAN]),
            variance.sqrt(),
            state[MAXIMUM] as f64,
        ];
        out.extend(numbers.map(|number| number / self.value.divisor()));
    }

    fn clear(&mut self, slot: u32) {
        clear(&mut self.states, slot);
    }

    fn relocate(&mut self, from: u32, to: u32) {
        relocate(&mut self.states, from, to);
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            column(self.value, "Minimum", "Minimum"),
            mean_column(self.value),
            column(
                self.value,
                "StandardDeviation",
                "Standard deviation (of the population)",
            ),
            column(self.value, "Maximum", "Maximum"),
        ]
    }

    fn bytes_per_flow(&self) -> usize {
        size_of::<State>()
    }
}

fn column(value: Value, name: &str, description: &str) -> Column {
    Column {
        name: match (value, name) {
            // IPFIX elements 422 and 423: lengths that include the layer 2 header.
            (Value::Size, "Minimum") => "minimumLayer2TotalLength".to_owned(),
            (Value::Size, "Maximum") => "maximumLayer2TotalLength".to_owned(),
            _ => format!("{}{name}{}", value.column_prefix(), value.column_suffix()),
        },
        unit: value.unit(),
        definition: format!("{description} of {}.", value.definition()),
    }
}

/// Returns the column of the mean.
pub(super) fn mean_column(value: Value) -> Column {
    column(value, "Mean", "Arithmetic mean")
}
