//! From a histogram to percentiles, and to the bounds between which they certainly lie.

use super::code::{first, last};
use super::histogram::{EXACT, Ends, Header, State};
use super::window::{Window, codes_of_bin, exact_codes};
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
        if Header::load(line).kind == EXACT {
            let (codes, held) = exact_codes(line);
            return Self::Exact { codes: codes[..held].to_vec() };
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
    /// The smallest and the largest value that it can hold.
    low: u64,
    high: u64,
    /// Observations in it, and in those below.
    count: u64,
    before: u64,
    place: usize,
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
    let (mut low, mut high) = codes_of_bin(window.base + place as u32, window.shift);
    // Outer bins reach as far as values have been seen, inner ones no farther.
    low = if place == 0 { window.smallest } else { low.max(window.smallest) };
    high = if place == window.limit - 1 { window.largest } else { high.min(window.largest) };
    Bin { low: first(low), high: last(high), count: u64::from(window.counts[place]), before, place }
}

fn estimate_binned(window: &Window, rank: u64, total: u64) -> f64 {
    if rank == 1 {
        return middle(window.smallest);
    }
    if rank == total {
        return middle(window.largest);
    }
    let bin = bin_of_rank(window, rank);
    // The middle of the part of the bin that this observation takes if all take as much.
    let share = ((rank - bin.before) as f64 - 0.5) / bin.count as f64;
    let (low, high) = (bin.low as f64, bin.high as f64);
    let _ = bin.place;
    (low + share * (high - low + 1.0) - 0.5).clamp(low, high)
}
