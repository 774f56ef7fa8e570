//! A histogram unpacked from its line for rare operations: fitting the window to the values, widening
//! or halving counters, merging.

use super::layout::{
    FIRST_COUNTER_MAX, HALVINGS_MAX, HEADER_BYTES, Header, INEXACT, NARROW_COUNTERS,
    OBSERVATIONS_OFFSET, State, WIDE_COUNTERS, first_counter, kept_codes, set_first_counter,
};
use super::tail_shares::TailShares;

/// At this shift, a bin spans four octaves, and all codes fit any window.
const SHIFT_MAX: u32 = 12;

/// A fitted window leaves 1/`HEADROOM` of its bins free above the largest value, because the maximum
/// tends to grow.
const HEADROOM: u32 = 8;

/// A histogram with counters that cannot overflow.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) smallest: u32,
    pub(super) largest: u32,
    /// Bin of the first counter, which also counts all values below it.
    pub(super) base: u32,
    pub(super) shift: u32,
    /// Counters in use: [`NARROW_COUNTERS`] of 8 bits or [`WIDE_COUNTERS`] of 16 bits.
    pub(super) counters: usize,
    /// Number of times that the counts were halved. A count stands for 2^halvings observations.
    pub(super) halvings: u32,
    /// Whether every observation is counted in its true bin.
    pub(super) exact: bool,
    pub(super) counts: [u32; NARROW_COUNTERS],
}

impl Window {
    /// Unpacks the histogram in `line`. Stored codes are counted in a window that fits them.
    pub(super) fn load(line: &State, tails: &TailShares) -> Self {
        let header = Header::load(line);
        if header.kept_codes().is_some() {
            let (mut codes, kept) = kept_codes(line);
            return Self::from_codes(&mut codes[..kept], tails);
        }
        let mut counts = [0; NARROW_COUNTERS];
        if header.is_wide() {
            let (pairs, _) = line.0[HEADER_BYTES..OBSERVATIONS_OFFSET].as_chunks::<2>();
            for (count, pair) in counts.iter_mut().zip(pairs) {
                *count = u32::from(u16::from_le_bytes(*pair));
            }
            counts[0] = first_counter(line);
        } else {
            for (count, &byte) in counts.iter_mut().zip(&line.0[HEADER_BYTES..]) {
                *count = u32::from(byte);
            }
        }
        Self {
            smallest: u32::from(header.smallest),
            largest: u32::from(header.end - 1),
            base: u32::from(header.base),
            shift: u32::from(header.shift).min(SHIFT_MAX),
            counters: if header.is_wide() {
                WIDE_COUNTERS
            } else {
                NARROW_COUNTERS
            },
            halvings: header.halvings(),
            exact: header.is_exact(),
            counts,
        }
    }

    /// Counts codes in a window that fits them. There must be at least one.
    fn from_codes(codes: &mut [u16], tails: &TailShares) -> Self {
        let (smallest, largest) = extremes(codes);
        let mut window = Self::empty(smallest, largest).fitted_to(codes, tails);
        for &code in &*codes {
            window.counts[window.counter_of(u32::from(code))] += 1;
        }
        window
    }

    /// Replaces the full set of codes stored in `line` by narrow counters, and counts `code` too if the
    /// window fits it. Returns whether it did.
    pub(super) fn count_kept_codes(line: &mut State, code: u16, tails: &TailShares) -> bool {
        let (mut codes, _) = kept_codes(line);
        let (smallest, largest) = extremes(&codes);
        if smallest == largest {
            Self::of_one_code(smallest, NARROW_COUNTERS, WIDE_COUNTERS as u32).store(line);
            return false;
        }
        let lower = lowest_separate_code(&mut codes, tails);
        let fitted = FitLimits {
            shift: 0,
            base: 0,
            smallest: u32::from(smallest),
        };
        let (shift, base) =
            fitted.finest_window(NARROW_COUNTERS, u32::from(lower), u32::from(largest));
        let mut counters = count_codes(&codes, shift, base);
        let bin = u32::from(code) >> shift;
        let first = u32::from(counters[0]);
        let stays = bin >= base || !tails.low_is_heavy(first, WIDE_COUNTERS as u32);
        let counter = counters.get_mut(bin.saturating_sub(base) as usize);
        let counted = stays
            && counter.is_some_and(|count| {
                *count += 1;
                true
            });
        let (mut low, mut high) = (smallest, largest);
        if counted {
            (low, high) = (low.min(code), high.max(code));
        }
        Header::narrow(low, high, base, shift).store(line);
        line.0[HEADER_BYTES..OBSERVATIONS_OFFSET].copy_from_slice(&counters);
        counted
    }

    /// Returns a histogram of `count` observations with the same code. A shortcut for the gaps of flows
    /// that send in turn: many such flows reach this point at the same time.
    pub(super) fn of_one_code(code: u16, counters: usize, count: u32) -> Self {
        let mut window = Self::empty(code, code);
        window.counters = counters;
        (window.shift, window.base) = window.fit(counters, window.smallest, window.largest);
        window.counts[window.counter_of(window.smallest)] = count;
        window
    }

    /// Returns a window without counts, with the finest bins.
    #[inline]
    fn empty(smallest: u16, largest: u16) -> Self {
        Self {
            smallest: u32::from(smallest),
            largest: u32::from(largest),
            base: 0,
            shift: 0,
            counters: NARROW_COUNTERS,
            halvings: 0,
            exact: true,
            counts: [0; NARROW_COUNTERS],
        }
    }

    /// Fits the window to these codes without counting them. There must be at least one.
    #[inline]
    fn fitted_to(mut self, codes: &mut [u16], tails: &TailShares) -> Self {
        let lower = lowest_separate_code(codes, tails);
        (self.shift, self.base) = self.fit(NARROW_COUNTERS, u32::from(lower), self.largest);
        self
    }

    /// Returns the header of the histogram.
    fn header(&self) -> Header {
        let wide = u8::from(self.counters == WIDE_COUNTERS) | (self.halvings as u8) << 1;
        Header {
            smallest: self.smallest as u16,
            end: self.largest as u16 + 1,
            base: self.base as u16,
            shift: self.shift as u8,
            flags: if self.exact { wide } else { wide | INEXACT },
        }
    }

    /// Packs the histogram into `line`.
    pub(super) fn store(&self, line: &mut State) {
        self.header().store(line);
        if self.counters == WIDE_COUNTERS {
            let (pairs, _) = line.0[HEADER_BYTES..OBSERVATIONS_OFFSET].as_chunks_mut::<2>();
            for (pair, &count) in pairs.iter_mut().zip(&self.counts) {
                *pair = (count as u16).to_le_bytes();
            }
            set_first_counter(line, self.counts[0]);
        } else {
            for (byte, &count) in line.0[HEADER_BYTES..].iter_mut().zip(&self.counts) {
                *byte = count as u8;
            }
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the index of the counter of a code: the first for codes below the window, the last for
    /// codes above it.
    fn counter_of(&self, code: u32) -> usize {
        ((code >> self.shift).saturating_sub(self.base) as usize).min(self.counters - 1)
    }

    /// Adds a code.
    pub(super) fn add(&mut self, code: u16, tails: &TailShares) {
        let code = u32::from(code);
        let total = self.total() as u32;
        let bin = code >> self.shift;
        if bin < self.base {
            if tails.low_is_heavy(self.counts[0], total) {
                self.move_down(code);
            }
        } else if (bin - self.base) as usize >= self.counters
            && f64::from(self.counts[self.counters - 1] + 1) > tails.high * f64::from(total + 1)
        {
            let lower = self.lowest_separate_code(tails);
            let (shift, base) = self.fit(self.counters, lower, code);
            self.rebin(shift, base, self.counters);
        }
        self.smallest = self.smallest.min(code);
        self.largest = self.largest.max(code);
        self.counts[self.counter_of(code)] += 1;
        self.limit_counters(tails);
    }

    /// Returns the lowest code that must not be lumped with those below it.
    fn lowest_separate_code(&self, tails: &TailShares) -> u32 {
        let may_be_below = (tails.low * self.total() as f64) as u64;
        let mut sum = 0;
        for (index, &count) in self.counts[..self.counters].iter().enumerate() {
            sum += u64::from(count);
            if sum > may_be_below {
                return (self.base + index as u32) << self.shift;
            }
        }
        self.largest
    }

    /// Returns the shift and the base of the finest window of `counters` bins for codes from `lower` to
    /// `upper`.
    fn fit(&self, counters: usize, lower: u32, upper: u32) -> (u32, u32) {
        let limits = FitLimits {
            shift: self.shift,
            base: self.base,
            smallest: self.smallest,
        };
        limits.finest_window(counters, lower, upper)
    }

    /// Moves the counts to a window with bins of the same width or wider.
    fn rebin(&mut self, shift: u32, base: u32, counters: usize) {
        let lump = if self.is_lumped_above() {
            std::mem::take(&mut self.counts[self.counters - 1])
        } else {
            0
        };
        let last = (self.base + self.counters as u32 - 1) << self.shift;
        let counts = std::mem::replace(&mut self.counts, [0; NARROW_COUNTERS]);
        let (old_base, coarser) = (self.base, shift - self.shift);
        (self.shift, self.base, self.counters) = (shift, base, counters);
        for (bin, count) in (old_base..).zip(counts).filter(|(_, count)| *count > 0) {
            let index = ((bin >> coarser).saturating_sub(base) as usize).min(counters - 1);
            self.counts[index] += count;
        }
        self.spread_evenly(lump, self.counter_of(last), self.counter_of(self.largest));
    }

    /// Spreads lumped observations evenly over the bins in which they may be.
    fn spread_evenly(&mut self, lump: u32, from: usize, to: usize) {
        if lump == 0 {
            return;
        }
        let bins = (to - from + 1) as u64;
        for (index, count) in (0..bins).zip(&mut self.counts[from..=to]) {
            let up_to = |index: u64| u64::from(lump) * index / bins;
            *count += (up_to(index + 1) - up_to(index)) as u32;
        }
        self.exact &= bins == 1;
    }

    /// Moves the window down towards `code`, because too many values are below it.
    fn move_down(&mut self, code: u32) {
        let lumped = self.is_lumped_below();
        let free = |window: &Self| {
            let used = window.counts[..window.counters]
                .iter()
                .rposition(|&count| count > 0);
            (window.counters - 1 - used.unwrap_or(0)) as u32
        };
        if free(self) < (self.counters / 8) as u32 && self.shift < SHIFT_MAX {
            self.rebin(self.shift + 1, self.base >> 1, self.counters);
        }
        let needed = self.base.saturating_sub(code >> self.shift);
        let down = needed.min(free(self));
        self.base -= down;
        let down = down as usize;
        self.counts[..self.counters].rotate_right(down);
        if lumped {
            let lump = std::mem::take(&mut self.counts[down]);
            self.spread_evenly(lump, 0, down);
        }
    }

    /// Widens narrow counters that overflow, and halves wide ones.
    fn limit_counters(&mut self, tails: &TailShares) {
        if self.counters == NARROW_COUNTERS
            && self.counts.iter().any(|&count| count > u32::from(u8::MAX))
        {
            let (lower, upper) = (
                self.lowest_separate_code(tails),
                self.highest_separate_code(tails),
            );
            let (shift, base) = self.fit(WIDE_COUNTERS, lower, upper);
            self.rebin(shift, base, WIDE_COUNTERS);
        }
        let too_high = |counts: &[u32; NARROW_COUNTERS]| {
            counts[0] > FIRST_COUNTER_MAX
                || counts[1..].iter().any(|&count| count > u32::from(u16::MAX))
        };
        while self.counters == WIDE_COUNTERS && too_high(&self.counts) {
            self.halve();
        }
    }

    /// Halves all counts. The rounding error of each count is carried to the next one, so that no rank
    /// moves by more than one half.
    fn halve(&mut self) {
        let mut carry = 0;
        for count in &mut self.counts {
            let sum = *count + carry;
            carry = sum & 1;
            *count = sum >> 1;
        }
        self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
        self.exact = false;
    }

    /// Returns the highest code that must not be lumped with those above it.
    fn highest_separate_code(&self, tails: &TailShares) -> u32 {
        let may_be_above = (tails.high * self.total() as f64) as u64;
        let mut sum = 0;
        for (index, &count) in self.counts[..self.counters].iter().enumerate().rev() {
            sum += u64::from(count);
            if sum > may_be_above {
                return (((self.base + index as u32 + 1) << self.shift) - 1).min(self.largest);
            }
        }
        self.largest
    }

    /// Returns whether the first bin counts values below the window.
    pub(super) fn is_lumped_below(&self) -> bool {
        self.smallest >> self.shift < self.base
    }

    /// Returns whether the last bin counts values above the window.
    pub(super) fn is_lumped_above(&self) -> bool {
        self.largest >> self.shift >= self.base + self.counters as u32
    }

    /// Merges another histogram into this one.
    pub(super) fn merge(&mut self, other: &Self, tails: &TailShares) {
        let shift = self.shift.max(other.shift);
        let smallest = self.smallest.min(other.smallest);
        // If a side lumps values into its first bin, the merged first bin must cover that bin.
        let floor = [&*self, other]
            .into_iter()
            .filter(|side| side.is_lumped_below())
            .map(|side| (((side.base + 1) << side.shift) - 1) >> shift)
            .fold(smallest >> shift, u32::max);
        let mut merged = Self {
            smallest,
            largest: self.largest.max(other.largest),
            base: floor,
            shift,
            counters: self.counters.min(other.counters),
            halvings: self.halvings.max(other.halvings),
            exact: self.exact && other.exact,
            counts: [0; NARROW_COUNTERS],
        };
        let lower = self
            .lowest_separate_code(tails)
            .min(other.lowest_separate_code(tails));
        let upper = self
            .highest_separate_code(tails)
            .max(other.highest_separate_code(tails));
        (merged.shift, merged.base) = merged.fit(merged.counters, lower, upper);
        for side in [&*self, other] {
            let mut side = side.clone();
            while side.halvings < merged.halvings {
                side.halve();
            }
            side.rebin(merged.shift, merged.base, merged.counters);
            merged.exact &= side.exact;
            for (sum, count) in merged.counts.iter_mut().zip(side.counts) {
                *sum += count;
            }
        }
        merged.limit_counters(tails);
        *self = merged;
    }
}

/// The current window, below which a fitted window must not reach.
struct FitLimits {
    shift: u32,
    base: u32,
    smallest: u32,
}

impl FitLimits {
    /// Returns the shift and the base of the finest window of `counters` bins that contains `lower` and
    /// `upper`.
    ///
    /// `lower` is not in the first bin unless there are no smaller codes. The window never reaches
    /// below the current one, because values lumped there cannot be separated again.
    fn finest_window(&self, counters: usize, lower: u32, upper: u32) -> (u32, u32) {
        let counters = counters as u32;
        // With a smaller shift, the bins could not span the codes, whatever the base.
        let shift_min = (upper.saturating_sub(lower) / counters).checked_ilog2();
        let mut shift = shift_min.unwrap_or(0).clamp(self.shift, SHIFT_MAX);
        loop {
            let floor = (self.base >> (shift - self.shift)).max(self.smallest >> shift);
            let lowest = (lower >> shift).saturating_sub(1).max(floor);
            let highest = upper >> shift;
            if highest < lowest + counters || shift == SHIFT_MAX {
                let with_headroom = (highest + 1 + counters / HEADROOM).saturating_sub(counters);
                return (shift, with_headroom.clamp(floor.min(lowest), lowest));
            }
            shift += 1;
        }
    }
}

/// The codes of a line, padded to a multiple of the eight that a vector instruction compares.
const PADDED_CODES: usize = 32;

/// The first of the indices that are no counter's. There is one for each code.
const DISCARD_INDEX: u16 = 64;

/// Returns the number of codes in each bin of a window. The first bin includes all codes below the
/// window, the last all above.
#[inline]
fn count_codes(codes: &[u16; WIDE_COUNTERS], shift: u32, base: u32) -> [u8; NARROW_COUNTERS] {
    const LAST: u16 = NARROW_COUNTERS as u16 - 1;
    // The padding zeroes fall into the first bin of any window.
    let mut bins = [0; PADDED_CODES];
    bins[..WIDE_COUNTERS].copy_from_slice(codes);
    let mut first = 0;
    // Most codes are below the window of a high percentile. Repeated increments of one counter wait for
    // each other: one takes the time of six increments of different counters. So codes in the first bin
    // are counted here, and each increments a discarded counter of its own below.
    for (bin, discard) in bins.iter_mut().zip(DISCARD_INDEX..) {
        let index = (*bin >> shift).saturating_sub(base as u16);
        // min(index, LAST), in instructions that every x86-64 CPU has for eight values at once.
        let index = index - index.saturating_sub(LAST);
        first += u16::from(index == 0);
        *bin = if index == 0 { discard } else { index };
    }
    let mut counters = [0; 2 * DISCARD_INDEX as usize];
    for index in &bins[..WIDE_COUNTERS] {
        counters[usize::from(index % (2 * DISCARD_INDEX))] += 1;
    }
    counters[0] = first as u8 - (PADDED_CODES - WIDE_COUNTERS) as u8;
    let mut all = [0; NARROW_COUNTERS];
    all.copy_from_slice(&counters[..NARROW_COUNTERS]);
    all
}

/// Returns the lowest of the codes that must not be lumped with those below it.
#[inline]
fn lowest_separate_code(codes: &mut [u16], tails: &TailShares) -> u16 {
    let may_be_below = ((tails.low * codes.len() as f64) as usize).min(codes.len() - 1);
    nth_smallest(codes, may_be_below)
}

/// Returns the smallest and the largest code.
fn extremes(codes: &[u16]) -> (u16, u16) {
    // As signed integers, because every x86-64 CPU compares eight of those at once.
    const SIGN: u16 = 1 << 15;
    let (smallest, largest) = codes
        .iter()
        .fold((i16::MAX, i16::MIN), |(low, high), &code| {
            let code = (code ^ SIGN).cast_signed();
            (low.min(code), high.max(code))
        });
    (
        smallest.cast_unsigned() ^ SIGN,
        largest.cast_unsigned() ^ SIGN,
    )
}

/// Returns the `n`-th smallest code, counted from 0.
fn nth_smallest(codes: &mut [u16], n: usize) -> u16 {
    // For a high percentile, only one or two of the 26 codes are above it.
    match codes.len() - 1 - n {
        above @ 0..2 => largest::<2>(codes)[above],
        above @ 2..4 => largest::<4>(codes)[above],
        _ => *codes.select_nth_unstable(n).1,
    }
}

/// Returns the `N` largest codes in descending order.
fn largest<const N: usize>(codes: &[u16]) -> [u16; N] {
    let mut largest = [0; N];
    for &code in codes {
        let mut code = code;
        for index in &mut largest {
            (*index, code) = ((*index).max(code), (*index).min(code));
        }
    }
    largest
}

/// Returns the smallest and the largest code of a bin.
pub(super) fn codes_of_bin(bin: u32, shift: u32) -> (u32, u32) {
    (bin << shift, ((bin + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::super::histogram::add_code;
    use super::*;
    use proptest::prelude::*;

    /// The largest code.
    const CODE_MAX: u16 = 63 << 10;

    /// Codes close together, far apart, or in a few clusters.
    fn codes() -> impl Strategy<Value = Vec<u16>> {
        (0..CODE_MAX, 3u32..16, 1u16..200).prop_flat_map(|(start, shift, cluster)| {
            let code = any::<u16>().prop_map(move |drawn| {
                let far = (drawn >> shift) / cluster * cluster;
                start.saturating_add(far).min(CODE_MAX)
            });
            prop::collection::vec(code, WIDE_COUNTERS + 1)
        })
    }

    proptest! {
        /// Compares with a window that counts the codes one by one, and then the last.
        #[test]
        fn stored_codes_are_counted_as_if_one_by_one(
            codes in codes(), (low, high) in (0.01f64..1.0, 0.01f64..1.0)
        ) {
            let tails = TailShares::for_quantiles(low.min(high), low.max(high));
            let mut line = State::default();
            for &code in &codes[..WIDE_COUNTERS] {
                add_code(&mut line, code, &tails);
            }
            prop_assert_eq!(Header::load(&line).kept_codes(), Some(WIDE_COUNTERS));
            let mut expected = State::default();
            Window::load(&line, &tails).store(&mut expected);
            add_code(&mut expected, codes[WIDE_COUNTERS], &tails);
            add_code(&mut line, codes[WIDE_COUNTERS], &tails);
            prop_assert_eq!(line.0, expected.0);
        }
    }
}
