//! From a histogram to percentiles, and to the bounds between which they certainly lie.

use super::code::{first, last};
use super::histogram::{Ends, Header, State, WIDE};
use super::window::{Window, codes_of_bin, kept_codes};
use crate::statistic::nearest_rank;

/// A histogram taken out of its line for any number of questions.
pub(super) enum Snapshot {
    Kept { codes: [u16; WIDE], count: usize },
    Binned { window: Window, total: u64 },
}

/// The middle of the values of a code.
fn middle(code: u32) -> f64 {
    f64::midpoint(first(code) as f64, last(code) as f64)
}

impl Snapshot {
    pub(super) fn new(line: &State, ends: &Ends) -> Self {
        if Header::load(line).kept().is_some() {
            let (mut codes, count) = kept_codes(line);
            codes[..count].sort_unstable();
            return Self::Kept { codes, count };
        }
        let window = Window::load(line, ends);
        let total = window.total();
        Self::Binned { window, total }
    }

    /// The code of all observations, if they have one code.
    fn only_code(&self) -> Option<u32> {
        let (smallest, largest) = match self {
            Self::Kept { codes, count } => {
                let codes = &codes[..*count];
                (u32::from(*codes.first()?), u32::from(*codes.last()?))
            }
            Self::Binned { window, .. } => (window.smallest, window.largest),
        };
        (smallest == largest).then_some(smallest)
    }

    /// The estimate; none without observations. `mean` is the mean of the values, or NaN.
    pub(super) fn estimate(&self, percentile: f64, mean: f64) -> Option<f64> {
        if !mean.is_nan()
            && let Some(code) = self.only_code()
        {
            return Some(mean.clamp(first(code) as f64, last(code) as f64));
        }
        match self {
            Self::Kept { codes, count } => {
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

    /// The least and the greatest that the percentile of the values can be, where no count was
    /// halved or guessed; none otherwise.
    pub(super) fn bounds(&self, percentile: f64) -> Option<(u64, u64)> {
        match self {
            Self::Kept { codes, count } => {
                let rank = nearest_rank(percentile, *count as u64);
                let code = u32::from(*codes[..*count].get(rank as usize - 1)?);
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
    for (candidate, &count) in window
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        place = candidate;
        if before + u64::from(count) >= rank {
            break;
        }
        before += u64::from(count);
    }
    let (low, high) = values_of(window, place);
    Bin {
        place,
        low,
        high,
        before,
    }
}

/// The smallest and the largest value that a bin can hold. Outer bins reach as far as values have
/// been seen, inner ones no farther.
fn values_of(window: &Window, place: usize) -> (u64, u64) {
    let (low, high) = codes_of_bin(window.base + place as u32, window.shift);
    let low = if place == 0 {
        window.smallest
    } else {
        low.max(window.smallest)
    };
    let high = if place + 1 == window.limit {
        window.largest
    } else {
        high.min(window.largest)
    };
    (first(low), last(high).max(first(low)))
}

/// Observations from which on the shape of a bin's neighbours says more than it misleads.
const SHAPED: u32 = 16;

/// The density of observations at the border of two bins by which a cubic stays monotone: the
/// harmonic mean, each weighted by the other's width and twice its own (Fritsch and Butland, "A
/// method for constructing local monotone piecewise cubic interpolants", 1984).
fn border_density(window: &Window, lower: usize, upper: usize) -> f64 {
    let [below, above] = [lower, upper].map(|place| {
        let (low, high) = values_of(window, place);
        let width = (high - low + 1) as f64;
        (width, f64::from(window.counts[place]) / width)
    });
    let (weight_below, weight_above) = (below.0 + 2.0 * above.0, 2.0 * below.0 + above.0);
    (weight_below + weight_above) / (weight_below / below.1 + weight_above / above.1)
}

/// Observations for each width of the bin at its lower and its upper border: those of a straight
/// line where little is known, or where the bin is an island, which a few sizes of packets are.
fn slopes(window: &Window, place: usize, width: f64) -> (f64, f64) {
    let count = window.counts[place];
    let empty = |place: usize| {
        window.counts[..window.limit]
            .get(place)
            .is_none_or(|&count| count == 0)
    };
    if count < SHAPED || place == 0 || empty(place - 1) || empty(place + 1) {
        return (f64::from(count), f64::from(count));
    }
    let [lower, upper] = [(place - 1, place), (place, place + 1)]
        .map(|(lower, upper)| border_density(window, lower, upper));
    (lower * width, upper * width)
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
    let Bin {
        place,
        low,
        high,
        before,
    } = bin_of_rank(window, rank);
    let (width, count) = ((high - low + 1) as f64, f64::from(window.counts[place]));
    let (start, end) = slopes(window, place, width);
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
        if below(middle) < wanted {
            from = middle;
        } else {
            to = middle;
        }
    }
    (low as f64 - 0.5 + f64::midpoint(from, to) * width).clamp(low as f64, high as f64)
}
