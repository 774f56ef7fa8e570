//! Statistics of flows: of each chosen one, an array with a place for every slot of the flow table,
//! updated burst by burst.

pub mod log_linear;
pub mod moments;
pub mod psquare;
pub mod selection;
pub mod value;

pub use log_linear::LogLinear;
pub use moments::Moments;
pub use psquare::PSquare;
pub use selection::{Estimator, Selection, SelectionError};
pub use value::Value;

use crate::record::Column;
use hw::lines::Lines;
use hw::memory::{Line, Zeroed};
use hw::prefetch::CacheLevel;

/// In place of a value that does not exist: a flow's first packet has no gap.
pub const NO_VALUE: u64 = u64::MAX;

/// One statistic of every flow.
///
/// Room is reserved in the beginning for all slots; all zeroes is the state of a free slot.
pub trait Statistic: Send {
    /// Takes all memory from the machine now.
    fn populate(&mut self);

    /// Asks for the cache lines of these slots into a level of cache, some time before
    /// [`Statistic::update`].
    fn prefetch(&self, level: CacheLevel, slots: &[u32]);

    /// Takes in a burst, in its order: `values[i]` belongs to the flow in `slots[i]`.
    ///
    /// [`NO_VALUE`] and slots past the end (packets of no flow) are left out.
    fn update(&mut self, slots: &[u32], values: &[u64]);

    /// Appends what there is of the flow in `slot`, in the order of [`Statistic::columns`]; NaN
    /// where there is nothing. `mean` is the exact mean of the flow's values where it is known by other
    /// means, in the unit of [`Statistic::update`], or NaN.
    fn summarise(&self, slot: u32, mean: f64, out: &mut Vec<f64>);

    /// Forgets the flow in `slot`.
    fn clear(&mut self, slot: u32);

    /// Moves the flow in slot `from` to the free slot `to`.
    fn relocate(&mut self, from: u32, to: u32);

    /// What [`Statistic::summarise`] appends.
    fn columns(&self) -> Vec<Column>;

    /// Memory for each slot, in bytes.
    fn bytes_per_flow(&self) -> usize;
}

/// [`Statistic::clear`] of a statistic that keeps a line of each flow.
fn clear<T: Zeroed + Default, const N: usize>(states: &mut Lines<Line<T, N>>, slot: u32) {
    if let Some(state) = states.get_mut(slot as usize) {
        *state = Line::default();
    }
}

/// [`Statistic::relocate`] of the same.
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

/// The column of a percentile.
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

/// The rank, counted from 1, of a percentile among `count` observations: the smallest observation
/// that at least `percentile` per cent of them do not exceed (the nearest-rank definition).
fn nearest_rank(percentile: f64, count: u64) -> u64 {
    // The product of 99.9 and 1000 is 99900.00000000001: what exceeds an integer by a rounding
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
