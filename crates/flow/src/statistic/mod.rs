//! Statistics of flows. Each selected statistic has an array with a state for every slot of the flow
//! table, updated burst by burst.

pub mod log_linear;
pub mod moments;
pub mod psquare;
pub mod selection;
pub mod value;

pub use log_linear::LogLinear;
pub use moments::Moments;
pub use psquare::PSquare;
pub use selection::{Estimator, Selection, SelectionError};
pub use value::{NO_VALUE, Value};

use crate::record::Column;
use hw::lines::Lines;
use hw::memory::{Line, Zeroed};
use hw::prefetch::CacheLevel;

/// One statistic of every flow.
///
/// Memory for all slots is reserved at creation. The state of a free slot is all zeroes.
pub trait Statistic: Send {
    /// Maps all memory now.
    fn populate(&mut self);

    /// Prefetches the states of these slots into a cache level, some time before [`Statistic::update`].
    fn prefetch(&self, level: CacheLevel, slots: &[u32]);

    /// Adds the values of a burst, in order: `values[i]` belongs to the flow in `slots[i]`.
    ///
    /// Ignores [`NO_VALUE`], and slots out of range (packets without a flow).
    fn update(&mut self, slots: &[u32], values: &[u64]);

    /// Appends the results for the flow in `slot` to `out`, in the order of [`Statistic::columns`]; NaN
    /// for a result without values. `mean` is the exact mean of the flow's values, in the unit of
    /// [`Statistic::update`], or NaN if it is not known.
    fn summarise(&self, slot: u32, mean: f64, out: &mut Vec<f64>);

    /// Clears the state of `slot`.
    fn clear(&mut self, slot: u32);

    /// Moves the flow in slot `from` to the free slot `to`.
    fn relocate(&mut self, from: u32, to: u32);

    /// Returns the columns that [`Statistic::summarise`] appends.
    fn columns(&self) -> Vec<Column>;

    /// Returns the memory per slot, in bytes.
    fn bytes_per_flow(&self) -> usize;
}

/// Implements [`Statistic::clear`] for a statistic with one cache line per flow.
fn clear<T: Zeroed + Default, const N: usize>(states: &mut Lines<Line<T, N>>, slot: u32) {
    if let Some(state) = states.get_mut(slot as usize) {
        *state = Line::default();
    }
}

/// Implements [`Statistic::relocate`] for the same.
fn relocate<T: Zeroed + Default, const N: usize>(
    states: &mut Lines<Line<T, N>>,
    from: u32,
    to: u32,
) {
    if let Some(&state) = states.get(from as usize)
        && (to as usize) < states.len()
        && from != to
    {
        states[to as usize] = state;
        clear(states, from);
    }
}

/// Returns the column of a percentile.
fn percentile_column(value: Value, percentile: f64, estimator: &str) -> Column {
    let number = percentile.to_string().replace('.', "_");
    Column {
        name: format!(
            "{}Percentile{number}{}",
            value.column_prefix(),
            value.column_suffix()
        ),
        unit: value.unit(),
        definition: format!(
            "Percentile {percentile} of {}, as estimated by {estimator}.",
            value.definition()
        ),
    }
}

/// Returns the rank, counted from 1, of a percentile among `count` observations: that of the smallest
/// observation that at least `percentile` per cent of them do not exceed (the nearest-rank definition).
fn nearest_rank(percentile: f64, count: u64) -> u64 {
    // Rounding: 99.9 * 1000 is 99900.00000000001. A product that differs from an integer by a rounding
    // error is that integer.
    let rank = percentile / 100.0 * count as f64;
    let nearest = rank.round();
    let rank = if (rank - nearest).abs() < 1e-9 * nearest {
        nearest
    } else {
        rank.ceil()
    };
    (rank as u64).clamp(1, count.max(1))
}
