//! Percentile estimates from a histogram, and their certain bounds.

use super::code::{first_value, last_value};
use super::layout::{Header, State, WIDE_COUNTERS, kept_codes};
use super::tail_shares::TailShares;
use super::window::{Window, codes_of_bin};
use crate::statistic::nearest_rank;

/// A histogram unpacked from its line, for any number of percentiles.
pub(super) enum Snapshot {
    Codes {
        codes: [u16; WIDE_COUNTERS],
        count: usize,
    },
    Binned {
        window: Window,
        total: u64,
    },
}

/// Returns the midpoint of the values of a code.
fn middle(code: u32) -> f64 {
    f64::midpoint(first_value(code) as f64, last_value(code) as f64)
}

impl Snapshot {
    pub(super) fn new(line: &State, tails: &TailShares) -> Self {
        if Header::load(line).kept_codes().is_some() {
            let (mut codes, count) = kept_codes(line);
            codes[..count].sort_unstable();
            return Self::Codes { codes, count };
        }
        let window = Window::load(line, tails);
        let total = window.total();
        Self::Binned { window, total }
    }

    /// Returns the code of all observations, if they have the same code.
    fn single_code(&self) -> Option<u32> {
        let (smallest, largest) = match self {
            Self::Codes { codes, count } => {
                let codes = &codes[..*count];
                (u32::from(*codes.first()?), u32::from(*codes.last()?))
            }
            Self::Binned { window, .. } => (window.smallest, window.largest),
        };
        (smallest == largest).then_some(smallest)
    }

    /// Returns the estimate; `None` without observations. `mean` is the exact mean of the values, or
    /// NaN.
    pub(super) fn estimate(&self, percentile: f64, mean: f64) -> Option<f64> {
        if !mean.is_nan()
            && let Some(code) = self.single_code()
        {
            return Some(mean.clamp(first_value(code) as f64, last_value(code) as f64));
        }
        match self {
            Self::Codes { codes, count } => {
                let rank = nearest_rank(percentile, *count as u64);
                codes[..*count]
                    .get(rank as usize - 1)
                    .map(|&code| middle(u32::from(code)))
            }
            Self::Binned { window, total } => Some(estimate_binned(
                window,
                nearest_rank(percentile, *total),
                *total,
            )),
        }
    }

    /// Returns the smallest and the largest value that the percentile can have; `None` if the counts
    /// are not exact.
    pub(super) fn bounds(&self, percentile: f64) -> Option<(u64, u64)> {
        match self {
            Self::Codes { codes, count } => {
                let rank = nearest_rank(percentile, *count as u64);
                let code = u32::from(*codes[..*count].get(rank as usize - 1)?);
                Some((first_value(code), last_value(code)))
            }
            Self::Binned { window, total } => {
                let bin = bin_of_rank(window, nearest_rank(percentile, *total));
                window.exact.then_some((bin.low, bin.high))
            }
        }
    }
}

/// The bin of the observation with a given rank.
struct Bin {
    index: usize,
    /// The smallest and the largest value of the bin.
    low: u64,
    high: u64,
    /// Observations in the bins below.
    below: u64,
}

fn bin_of_rank(window: &Window, rank: u64) -> Bin {
    let mut below_bin = 0;
    let mut index = 0;
    for (candidate, &count) in window
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        index = candidate;
        if below_bin + u64::from(count) >= rank {
            break;
        }
        below_bin += u64::from(count);
    }
    let (low, high) = value_range(window, index);
    Bin {
        index,
        low,
        high,
        below: below_bin,
    }
}

/// Returns the smallest and the largest value that a bin can have. The first and the last bin extend to
/// the extremes, and no bin extends beyond them.
fn value_range(window: &Window, index: usize) -> (u64, u64) {
    let (low, high) = codes_of_bin(window.base + index as u32, window.shift);
    let low = if index == 0 {
        window.smallest
    } else {
        low.max(window.smallest)
    };
    let high = if index + 1 == window.counters {
        window.largest
    } else {
        high.min(window.largest)
    };
    (first_value(low), last_value(high).max(first_value(low)))
}

/// The minimum number of observations in a bin for interpolation by its neighbours. With fewer, the
/// neighbours mislead more than they help.
const INTERPOLATION_MIN_COUNT: u32 = 16;

/// Returns the density of observations at the border of two bins, such that the interpolating cubic is
/// monotone: the harmonic mean of their densities, each weighted by the other bin's width and twice its
/// own (Fritsch and Butland, "A method for constructing local monotone piecewise cubic interpolants",
/// 1984).
fn border_density(window: &Window, lower: usize, upper: usize) -> f64 {
    let [below, above] = [lower, upper].map(|index| {
        let (low, high) = value_range(window, index);
        let width = (high - low + 1) as f64;
        (width, f64::from(window.counts[index]) / width)
    });
    let (weight_below, weight_above) = (below.0 + 2.0 * above.0, 2.0 * below.0 + above.0);
    (weight_below + weight_above) / (weight_below / below.1 + weight_above / above.1)
}

/// Returns the slopes of the cumulative count at the lower and the upper border of a bin, in
/// observations per bin width.
///
/// They are those of a straight line if the bin has few observations, or an empty neighbour, as with a
/// few distinct packet sizes.
fn border_slopes(window: &Window, index: usize, width: f64) -> (f64, f64) {
    let count = window.counts[index];
    let empty = |index: usize| {
        window.counts[..window.counters]
            .get(index)
            .is_none_or(|&count| count == 0)
    };
    if count < INTERPOLATION_MIN_COUNT || index == 0 || empty(index - 1) || empty(index + 1) {
        return (f64::from(count), f64::from(count));
    }
    let [lower, upper] = [(index - 1, index), (index, index + 1)]
        .map(|(lower, upper)| border_density(window, lower, upper));
    (lower * width, upper * width)
}

/// Estimates the value of the observation with rank `rank`, of `total`.
///
/// The cumulative count is known at the borders of the bins. Within a bin, it is interpolated by a
/// monotone cubic with slopes from the neighbours. The estimate is the value at which it reaches
/// `rank` - 1/2, the middle of the observation.
fn estimate_binned(window: &Window, rank: u64, total: u64) -> f64 {
    if rank == 1 {
        return middle(window.smallest);
    }
    if rank == total {
        return middle(window.largest);
    }
    let Bin {
        index,
        low,
        high,
        below: below_bin,
    } = bin_of_rank(window, rank);
    let (width, count) = ((high - low + 1) as f64, f64::from(window.counts[index]));
    let (start, end) = border_slopes(window, index, width);
    let target = (rank - below_bin) as f64 - 0.5;
    let below = |share: f64| {
        let square = share * share;
        let cube = square * share;
        count * (3.0 * square - 2.0 * cube)
            + start * (share - 2.0 * square + cube)
            + end * (cube - square)
    };
    let (mut from, mut to) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = f64::midpoint(from, to);
        if below(middle) < target {
            from = middle;
        } else {
            to = middle;
        }
    }
    (low as f64 - 0.5 + f64::midpoint(from, to) * width).clamp(low as f64, high as f64)
}
