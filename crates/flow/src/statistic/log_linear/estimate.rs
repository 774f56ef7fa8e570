//! From a histogram to percentiles, and to the bounds between which they certainly lie.

use super::code::{first, last};
use super::histogram::{Ends, Header, State};
use super::window::{Window, codes_of_bin, kept_codes};
use crate::statistic::nearest_rank;

/// A histogram taken out of its line for any number of questions.
pub(super) enum Snapshot {
    Exact { codes: Vec<u16> },
    Binned { window: Box<Window>, total: u64 },
}

/// The values of a code are this many at most apart from its middle.
fn middle(code: u32) -> f64 {
    f64::midpoint(first(code) as f64, last(code) as f64)
}

impl Snapshot {
    pub(super) fn new(line: &State, ends: &Ends) -> Self {
        if Header::load(line).kept().is_some() {
            let (codes, kept) = kept_codes(line);
            let mut codes = codes[..kept].to_vec();
            codes.sort_unstable();
            return Self::Exact { codes };
        }
        let window = Box::new(Window::load(line, ends));
        let total = window.total();
        Self::Binned { window, total }
    }

    /// The estimate; none without observations.
    pub(super) fn estimate(&self, percentile: f64) -> Option<f64> {
        match self {
            Self::Exact { codes } => {
                let rank = nearest_rank(percentile, codes.len() as u64);
                codes.get(rank as usize - 1).map(|&code| middle(u32::from(code)))
            }
            Self::Binned { window, total } => {
                Some(estimate_binned(window, nearest_rank(percentile, *total), *total))
            }
        }
    }

    /// The least and the greatest that the percentile of the values can be, where no count was
    /// halved or guessed; none otherwise.
    pub(super) fn bounds(&self, percentile: f64) -> Option<(u64, u64)> {
        match self {
            Self::Exact { codes } => {
                let rank = nearest_rank(percentile, codes.len() as u64);
                let code = u32::from(*codes.get(rank as usize - 1)?);
                Some((first(code), last(code)))
            }
            Self::Binned { window, total } => {
                let bin = bin_of_rank(window, nearest_rank(percentile, *total));
                window.sound.then_some((bin.low, bin.high))
            }
        }
    }
}

/// The bin in which an observation of a rank lies.
struct Bin {
    place: usize,
    /// The smallest and the largest value that it can hold.
    low: u64,
    high: u64,
    /// Observations in the bins below.
    before: u64,
}

fn bin_of_rank(window: &Window, rank: u64) -> Bin {
    let mut before = 0;
    let mut place = 0;
    for (candidate, &count) in window.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        place = candidate;
        if before + u64::from(count) >= rank {
            break;
        }
        before += u64::from(count);
    }
    let (low, high) = values_of(window, place);
    Bin { place, low, high, before }
}

/// The smallest and the largest value that a bin can hold. Outer bins reach as far as values have
/// been seen, inner ones no farther.
fn values_of(window: &Window, place: usize) -> (u64, u64) {
    let (low, high) = codes_of_bin(window.base + place as u32, window.shift);
    let low = if place == 0 { window.smallest } else { low.max(window.smallest) };
    let high = if place + 1 == window.limit { window.largest } else { high.min(window.largest) };
    (first(low), last(high).max(first(low)))
}

/// How many observations a bin has for each value that it can hold.
fn density(window: &Window, place: usize) -> f64 {
    let (low, high) = values_of(window, place);
    f64::from(window.counts[place]) / (high - low + 1) as f64
}

/// The density at the border of two bins by which a cubic stays monotone: the harmonic mean, each
/// weighted by the other's width and twice its own (Fritsch and Butland, "A method for constructing
/// local monotone piecewise cubic interpolants", 1984); nothing where either is empty.
fn border_density(window: &Window, lower: usize, upper: usize) -> f64 {
    let width = |place| {
        let (low, high) = values_of(window, place);
        (high - low + 1) as f64
    };
    let (below, above) = (density(window, lower), density(window, upper));
    let (width_below, width_above) = (width(lower), width(upper));
    if below == 0.0 || above == 0.0 {
        return 0.0;
    }
    let (weight_below, weight_above) =
        (width_below + 2.0 * width_above, 2.0 * width_below + width_above);
    (weight_below + weight_above) / (weight_below / below + weight_above / above)
}

/// Within its bin, the value at which the number of observations below it reaches the middle of the
/// one that is asked for. That number is known at the borders of bins; between two of them it is a
/// monotone cubic whose slopes at the borders come from the neighbours.
fn estimate_binned(window: &Window, rank: u64, total: u64) -> f64 {
    if rank == 1 {
        return middle(window.smallest);
    }
    if rank == total {
        return middle(window.largest);
    }
    let Bin { place, low, high, before } = bin_of_rank(window, rank);
    let (width, count) = ((high - low + 1) as f64, f64::from(window.counts[place]));
    let inner = density(window, place);
    let start = if place == 0 { inner } else { border_density(window, place - 1, place) };
    let end = if place + 1 == window.limit { inner } else { border_density(window, place, place + 1) };
    let (start, end) = (start * width, end * width);
    let wanted = (rank - before) as f64 - 0.5;
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
        if below(middle) < wanted { from = middle } else { to = middle }
    }
    (low as f64 - 0.5 + f64::midpoint(from, to) * width).clamp(low as f64, high as f64)
}
