//! P-square: estimates one percentile by five markers, without storing observations (Jain and Chlamtac,
//! "The P² algorithm for dynamic calculation of quantiles and histograms without storing observations",
//! Communications of the ACM 28(10), 1985). The FloWatcher paper estimates percentiles of the gap this
//! way.
//!
//! The markers are at the minimum, p/2, p, (1+p)/2 and the maximum. Heights are `f64` and positions are
//! integers, so markers keep moving after 2^24 observations. Desired positions are not stored: after n
//! observations, they are 1 + (n-1) times 0, p/2, p, (1+p)/2, 1, the sum of the paper's increments. The
//! first position is always 1, the last is n. What remains is five heights, and three positions and the
//! count in 48 bits each: one cache line.
//!
//! Consecutive values of a flow depend on each other through the whole computation, and branch
//! predictors cannot guess how a marker moves. [`LogLinear`](super::LogLinear) is faster.

use super::{NO_VALUE, Statistic, Value, clear, nearest_rank, percentile_column, relocate};
use crate::record::Column;
use hw::lines::Lines;
use hw::memory::Line;
use hw::prefetch::CacheLevel;

/// The five markers of one flow: heights as the bits of `f64` in words 0 to 4; words 5 to 7 hold
/// the second to fourth position in the lower 48 bits, and 16 bits of the count above.
type State = Line<u64, 8>;

/// Positions have 48 bits: 218 days of a flow at 14.88 Mpps.
const POSITION_MASK: u64 = (1 << 48) - 1;

/// The number of observations that become the first heights of the markers.
const INITIAL_OBSERVATIONS: u64 = 5;

/// The five markers, unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Markers {
    /// Heights. Before the fifth observation: the observations, in order of arrival.
    pub heights: [f64; 5],
    /// Positions, counted from 1.
    pub positions: [u64; 5],
}

impl Markers {
    /// Returns the number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.positions[4]
    }

    /// Adds an observation, for the quantile `p` (0 to 1).
    #[inline]
    pub fn observe(&mut self, value: f64, p: f64) {
        let count = self.positions[4] + 1;
        if count <= INITIAL_OBSERVATIONS {
            self.positions[4] = count;
            self.heights[count as usize - 1] = value;
            if count == INITIAL_OBSERVATIONS {
                self.heights.sort_by(f64::total_cmp);
                self.positions = [1, 2, 3, 4, 5];
            }
            return;
        }
        let heights = &mut self.heights;
        let positions = &mut self.positions;
        // Steps B.1 and B.2: markers above the value move up by one; the outer ones take new extremes.
        heights[0] = heights[0].min(value);
        heights[4] = heights[4].max(value);
        for marker in 1..4 {
            positions[marker] += u64::from(value < heights[marker]);
        }
        positions[4] = count;
        // Step B.3: a middle marker that is off its desired position by one or more moves by one, if
        // there is room.
        let steps = (count - 1) as f64;
        for (marker, share) in [(1, p / 2.0), (2, p), (3, f64::midpoint(1.0, p))] {
            let [below, here, above] =
                [marker - 1, marker, marker + 1].map(|marker| positions[marker] as f64);
            let off = 1.0 + steps * share - here;
            let up = off >= 1.0 && above - here > 1.0;
            let down = off <= -1.0 && below - here < -1.0;
            if !up && !down {
                continue;
            }
            let step = if up { 1.0 } else { -1.0 };
            let [low, height, high] = [heights[marker - 1], heights[marker], heights[marker + 1]];
            let parabolic = height
                + step / (above - below)
                    * ((here - below + step) * (high - height) / (above - here)
                        + (above - here - step) * (height - low) / (here - below));
            heights[marker] = if low < parabolic && parabolic < high {
                parabolic
            } else if up {
                height + (high - height) / (above - here)
            } else {
                height - (low - height) / (below - here)
            };
            positions[marker] = positions[marker].wrapping_add_signed(if up { 1 } else { -1 });
        }
    }

    /// Returns the estimate of quantile `p`; `None` without observations.
    ///
    /// It is exact (nearest rank) before the sixth observation, and for the minimum and the maximum.
    #[must_use]
    pub fn estimate(&self, p: f64) -> Option<f64> {
        let count = self.count();
        match count {
            0 => None,
            1..=INITIAL_OBSERVATIONS => {
                let mut sorted = self.heights;
                let sorted = &mut sorted[..count as usize];
                sorted.sort_by(f64::total_cmp);
                sorted
                    .get(nearest_rank(p * 100.0, count) as usize - 1)
                    .copied()
            }
            _ if p <= 0.0 => Some(self.heights[0]),
            _ if p >= 1.0 => Some(self.heights[4]),
            _ => Some(self.heights[2]),
        }
    }

    #[inline]
    fn load(Line(state): &State) -> Self {
        let [h0, h1, h2, h3, h4, second, third, fourth] = *state;
        Self {
            heights: [h0, h1, h2, h3, h4].map(f64::from_bits),
            positions: [
                1,
                second & POSITION_MASK,
                third & POSITION_MASK,
                fourth & POSITION_MASK,
                second >> 48 | third >> 48 << 16 | fourth >> 48 << 32,
            ],
        }
    }

    #[inline]
    fn store(&self, Line(state): &mut State) {
        for (word, height) in state.iter_mut().zip(self.heights) {
            *word = height.to_bits();
        }
        let [_, second, third, fourth, count] = self.positions;
        state[5] = second | count << 48;
        state[6] = third | count >> 16 << 48;
        state[7] = fourth | count >> 32 << 48;
    }
}

/// One percentile of one value.
#[derive(Debug)]
pub struct PSquare {
    value: Value,
    percentile: f64,
    states: Lines<State>,
}

impl PSquare {
    /// Creates an estimator of `percentile` (0 to 100) of `value`, for as many flows as `states` has
    /// lines.
    #[must_use]
    pub fn new(value: Value, percentile: f64, states: Lines<State>) -> Self {
        Self {
            value,
            percentile,
            states,
        }
    }
}

impl Statistic for PSquare {
    fn populate(&mut self) {
        self.states.populate();
    }

    fn prefetch(&self, level: CacheLevel, slots: &[u32]) {
        self.states.prefetch_each(level, slots);
    }

    fn update(&mut self, slots: &[u32], values: &[u64]) {
        let p = self.percentile / 100.0;
        let states = &mut self.states;
        for (&slot, &value) in slots.iter().zip(values) {
            if value == NO_VALUE {
                continue;
            }
            let Some(state) = states.get_mut(slot as usize) else {
                continue;
            };
            let mut markers = Markers::load(state);
            markers.observe(value as f64, p);
            markers.store(state);
        }
    }

    fn summarise(&self, slot: u32, _: f64, out: &mut Vec<f64>) {
        let state = self.states.get(slot as usize);
        let estimate =
            state.and_then(|state| Markers::load(state).estimate(self.percentile / 100.0));
        out.push(estimate.map_or(f64::NAN, |estimate| estimate / self.value.divisor()));
    }

    fn clear(&mut self, slot: u32) {
        clear(&mut self.states, slot);
    }

    fn relocate(&mut self, from: u32, to: u32) {
        relocate(&mut self.states, from, to);
    }

    fn columns(&self) -> Vec<Column> {
        vec![percentile_column(self.value, self.percentile, "P-square")]
    }

    fn bytes_per_flow(&self) -> usize {
        size_of::<State>()
    }
}
