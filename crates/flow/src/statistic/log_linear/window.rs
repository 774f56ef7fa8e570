//! A histogram taken out of its line, for what happens rarely: to fit the window to the values, to
//! widen or halve counters, to merge.

use super::histogram::{
    Ends, FIRST_MAX, HALVINGS_MAX, HEADER, Header, NARROW, NUMBER, State, WIDE, first_counter,
    set_first_counter,
};

/// At this shift a bin is four octaves, and all codes fit any window.
const SHIFT_MAX: u32 = 12;

/// A share of the window that stays free above the largest value when it is fitted: extremes grow.
const HEADROOM: u32 = 8;

/// A histogram with counters that cannot overflow.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) smallest: u32,
    pub(super) largest: u32,
    /// Bin of the first counter, which also holds all that lies below.
    pub(super) base: u32,
    pub(super) shift: u32,
    /// Counters in use: [`NARROW`] of 8 bits or [`WIDE`] of 16.
    pub(super) limit: usize,
    /// How many times counts were halved: a count stands for 2^halvings observations.
    pub(super) halvings: u32,
    /// Whether every count is true and in its place.
    pub(super) sound: bool,
    pub(super) counts: [u32; NARROW],
}

/// The codes that a line keeps, in the order in which they came, and how many they are.
pub(super) fn kept_codes(line: &State) -> ([u16; WIDE], usize) {
    let (pairs, _) = line.0[HEADER..NUMBER].as_chunks::<2>();
    let mut codes = [0; WIDE];
    for (code, pair) in codes.iter_mut().zip(pairs) {
        *code = u16::from_le_bytes(*pair);
    }
    (codes, Header::load(line).kept().unwrap_or(0))
}

impl Window {
    /// The histogram in `line`; codes that are kept there are counted in a window that fits them.
    pub(super) fn load(line: &State, ends: &Ends) -> Self {
        let header = Header::load(line);
        if header.kept().is_some() {
            let (mut codes, kept) = kept_codes(line);
            return Self::from_codes(&mut codes[..kept], ends);
        }
        let mut counts = [0; NARROW];
        if header.is_wide() {
            let (pairs, _) = line.0[HEADER..NUMBER].as_chunks::<2>();
            for (count, pair) in counts.iter_mut().zip(pairs) {
                *count = u32::from(u16::from_le_bytes(*pair));
            }
            counts[0] = first_counter(line);
        } else {
            for (count, &byte) in counts.iter_mut().zip(&line.0[HEADER..]) {
                *count = u32::from(byte);
            }
        }
        Self {
            smallest: u32::from(header.smallest),
            largest: u32::from(header.end - 1),
            base: u32::from(header.base),
            shift: u32::from(header.shift).min(SHIFT_MAX),
            limit: if header.is_wide() { WIDE } else { NARROW },
            halvings: header.halvings(),
            sound: header.is_sound(),
            counts,
        }
    }

    /// Counts codes, of which there must be at least one.
    fn from_codes(codes: &mut [u16], ends: &Ends) -> Self {
        let (smallest, largest) = extremes(codes);
        let mut window = Self::within(smallest, largest).around(codes, ends);
        for &code in &*codes {
            window.counts[window.bin_of(u32::from(code))] += 1;
        }
        window
    }

    /// Counts the codes that `line` keeps, as many as it can, in narrow counters, and one more if window
    /// and counters can stay as they are for it; whether they can.
    pub(super) fn count_kept(line: &mut State, code: u16, ends: &Ends) -> bool {
        let (mut codes, _) = kept_codes(line);
        let (smallest, largest) = extremes(&codes);
        if smallest == largest {
            Self::alike(smallest, NARROW, WIDE as u32).store(line);
            return false;
        }
        let lower = lower_of(&mut codes, ends);
        let fitted = Fit {
            shift: 0,
            base: 0,
            smallest: u32::from(smallest),
        };
        let (shift, base) = fitted.within(NARROW, u32::from(lower), u32::from(largest));
        let mut counters = counters_of(&codes, shift, base);
        let bin = u32::from(code) >> shift;
        let first = u32::from(counters[0]);
        let stays = bin >= base || !ends.are_heavy(first, WIDE as u32);
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
        line.0[HEADER..NUMBER].copy_from_slice(&counters);
        counted
    }

    /// So many of one code and no other, as the gaps of flows in turn. Quick, because many such flows
    /// come here in step.
    pub(super) fn alike(code: u16, limit: usize, count: u32) -> Self {
        let mut window = Self::within(code, code);
        window.limit = limit;
        (window.shift, window.base) = window.fit(limit, window.smallest, window.largest);
        window.counts[window.bin_of(window.smallest)] = count;
        window
    }

    /// Nothing so far, and the finest bins.
    #[inline(always)]
    fn within(smallest: u16, largest: u16) -> Self {
        Self {
            smallest: u32::from(smallest),
            largest: u32::from(largest),
            base: 0,
            shift: 0,
            limit: NARROW,
            halvings: 0,
            sound: true,
            counts: [0; NARROW],
        }
    }

    /// The window that fits these codes, at least one, between its extremes; they are not counted.
    #[inline(always)]
    fn around(mut self, codes: &mut [u16], ends: &Ends) -> Self {
        let lower = lower_of(codes, ends);
        (self.shift, self.base) = self.fit(NARROW, u32::from(lower), self.largest);
        self
    }

    /// Puts the histogram back.
    pub(super) fn store(&self, line: &mut State) {
        Header::of(self).store(line);
        if self.limit == WIDE {
            let (pairs, _) = line.0[HEADER..NUMBER].as_chunks_mut::<2>();
            for (pair, &count) in pairs.iter_mut().zip(&self.counts) {
                *pair = (count as u16).to_le_bytes();
            }
            set_first_counter(line, self.counts[0]);
        } else {
            for (byte, &count) in line.0[HEADER..].iter_mut().zip(&self.counts) {
                *byte = count as u8;
            }
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The counter of a code: the first for all that lies below the window, the last for all above.
    fn bin_of(&self, code: u32) -> usize {
        ((code >> self.shift).saturating_sub(self.base) as usize).min(self.limit - 1)
    }

    /// Takes in a code.
    pub(super) fn add(&mut self, code: u16, ends: &Ends) {
        let code = u32::from(code);
        let total = self.total() as u32;
        let bin = code >> self.shift;
        if bin < self.base {
            if ends.are_heavy(self.counts[0], total) {
                self.move_down(code);
            }
        } else if (bin - self.base) as usize >= self.limit
            && f64::from(self.counts[self.limit - 1] + 1) > ends.above * f64::from(total + 1)
        {
            let lower = self.lower(ends);
            let (shift, base) = self.fit(self.limit, lower, code);
            self.rebin(shift, base, self.limit);
        }
        self.smallest = self.smallest.min(code);
        self.largest = self.largest.max(code);
        self.counts[self.bin_of(code)] += 1;
        self.make_counters_fit(ends);
    }

    /// The lowest code that must not be lumped with those below.
    fn lower(&self, ends: &Ends) -> u32 {
        let may_be_below = (ends.below * self.total() as f64) as u64;
        let mut sum = 0;
        for (place, &count) in self.counts[..self.limit].iter().enumerate() {
            sum += u64::from(count);
            if sum > may_be_below {
                return (self.base + place as u32) << self.shift;
            }
        }
        self.largest
    }

    /// Shift and base of the finest window of `limit` bins for what is between `lower` and `upper`.
    fn fit(&self, limit: usize, lower: u32, upper: u32) -> (u32, u32) {
        let fit = Fit {
            shift: self.shift,
            base: self.base,
            smallest: self.smallest,
        };
        fit.within(limit, lower, upper)
    }

    /// Counts again in other bins, at least as wide.
    fn rebin(&mut self, shift: u32, base: u32, limit: usize) {
        let lump = if self.is_lumped_above() {
            std::mem::take(&mut self.counts[self.limit - 1])
        } else {
            0
        };
        let last = (self.base + self.limit as u32 - 1) << self.shift;
        let counts = std::mem::replace(&mut self.counts, [0; NARROW]);
        let (old_base, coarser) = (self.base, shift - self.shift);
        (self.shift, self.base, self.limit) = (shift, base, limit);
        for (bin, count) in (old_base..).zip(counts).filter(|(_, count)| *count > 0) {
            let place = ((bin >> coarser).saturating_sub(base) as usize).min(limit - 1);
            self.counts[place] += count;
        }
        self.spread(lump, self.bin_of(last), self.bin_of(self.largest));
    }

    /// Counts what was lumped together where nothing is known but the bins between which it lies: as
    /// much in each.
    fn spread(&mut self, lump: u32, from: usize, to: usize) {
        if lump == 0 {
            return;
        }
        let bins = (to - from + 1) as u64;
        for (place, count) in (0..bins).zip(&mut self.counts[from..=to]) {
            let up_to = |place: u64| u64::from(lump) * place / bins;
            *count += (up_to(place + 1) - up_to(place)) as u32;
        }
        self.sound &= bins == 1;
    }

    /// Makes room below, because too much lies there to be lumped.
    fn move_down(&mut self, code: u32) {
        let lumped = self.is_lumped_below();
        let free = |window: &Self| {
            let used = window.counts[..window.limit]
                .iter()
                .rposition(|&count| count > 0);
            (window.limit - 1 - used.unwrap_or(0)) as u32
        };
        if free(self) < (self.limit / 8) as u32 && self.shift < SHIFT_MAX {
            self.rebin(self.shift + 1, self.base >> 1, self.limit);
        }
        let needed = self.base.saturating_sub(code >> self.shift);
        let down = needed.min(free(self));
        self.base -= down;
        let down = down as usize;
        self.counts[..self.limit].rotate_right(down);
        if lumped {
            let lump = std::mem::take(&mut self.counts[down]);
            self.spread(lump, 0, down);
        }
    }

    /// Widens narrow counters that are full, and halves wide ones.
    fn make_counters_fit(&mut self, ends: &Ends) {
        if self.limit == NARROW && self.counts.iter().any(|&count| count > u32::from(u8::MAX)) {
            let (lower, upper) = (self.lower(ends), self.upper(ends));
            let (shift, base) = self.fit(WIDE, lower, upper);
            self.rebin(shift, base, WIDE);
        }
        let too_high = |counts: &[u32; NARROW]| {
            counts[0] > FIRST_MAX || counts[1..].iter().any(|&count| count > u32::from(u16::MAX))
        };
        while self.limit == WIDE && too_high(&self.counts) {
            self.halve();
        }
    }

    /// Halves all counts. What one loses in rounding the next one is given, so that no rank moves by
    /// more than a half.
    fn halve(&mut self) {
        let mut carried = 0;
        for count in &mut self.counts {
            let sum = *count + carried;
            carried = sum & 1;
            *count = sum >> 1;
        }
        self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
        self.sound = false;
    }

    /// The highest code that must not be lumped with those above.
    fn upper(&self, ends: &Ends) -> u32 {
        let may_be_above = (ends.above * self.total() as f64) as u64;
        let mut sum = 0;
        for (place, &count) in self.counts[..self.limit].iter().enumerate().rev() {
            sum += u64::from(count);
            if sum > may_be_above {
                return (((self.base + place as u32 + 1) << self.shift) - 1).min(self.largest);
            }
        }
        self.largest
    }

    /// Whether values below the window are counted in its first bin.
    pub(super) fn is_lumped_below(&self) -> bool {
        self.smallest >> self.shift < self.base
    }

    /// Whether values above the window are counted in its last bin.
    pub(super) fn is_lumped_above(&self) -> bool {
        self.largest >> self.shift >= self.base + self.limit as u32
    }

    /// Takes in another histogram.
    pub(super) fn merge(&mut self, other: &Self, ends: &Ends) {
        let shift = self.shift.max(other.shift);
        let smallest = self.smallest.min(other.smallest);
        // The first bin must hold all that either side has in a first bin with values below.
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
            limit: self.limit.min(other.limit),
            halvings: self.halvings.max(other.halvings),
            sound: self.sound && other.sound,
            counts: [0; NARROW],
        };
        let lower = self.lower(ends).min(other.lower(ends));
        let upper = self.upper(ends).max(other.upper(ends));
        (merged.shift, merged.base) = merged.fit(merged.limit, lower, upper);
        for side in [&*self, other] {
            let mut side = side.clone();
            while side.halvings < merged.halvings {
                side.halve();
            }
            side.rebin(merged.shift, merged.base, merged.limit);
            merged.sound &= side.sound;
            for (sum, count) in merged.counts.iter_mut().zip(side.counts) {
                *sum += count;
            }
        }
        merged.make_counters_fit(ends);
        *self = merged;
    }
}

/// What a window that is fitted must not fall behind.
struct Fit {
    shift: u32,
    base: u32,
    smallest: u32,
}

impl Fit {
    /// Shift and base of the finest window of `limit` bins in which `lower` and `upper` lie, the
    /// former not in the first bin unless nothing is below. It never reaches below the window that
    /// there is: what was lumped there cannot be told apart again.
    fn within(&self, limit: usize, lower: u32, upper: u32) -> (u32, u32) {
        let limit = limit as u32;
        // As many bins as the window has cannot hold more codes than these, whatever its base.
        let bins = (upper.saturating_sub(lower) / limit).checked_ilog2();
        let mut shift = bins.unwrap_or(0).clamp(self.shift, SHIFT_MAX);
        loop {
            let floor = (self.base >> (shift - self.shift)).max(self.smallest >> shift);
            let lowest = (lower >> shift).saturating_sub(1).max(floor);
            let highest = upper >> shift;
            if highest < lowest + limit || shift == SHIFT_MAX {
                let with_headroom = (highest + 1 + limit / HEADROOM).saturating_sub(limit);
                return (shift, with_headroom.clamp(floor.min(lowest), lowest));
            }
            shift += 1;
        }
    }
}

/// Codes as a core compares them: several at once, all of a line's in four steps.
const PADDED: usize = 32;

/// From here on are places that are no counter's: as many as there are codes.
const NOWHERE: u16 = 64;

/// How many codes are in each bin of a window: the first has all below, the last all above.
#[inline(always)]
fn counters_of(codes: &[u16; WIDE], shift: u32, base: u32) -> [u8; NARROW] {
    const LAST: u16 = NARROW as u16 - 1;
    // Zeroes are in the first bin of any window.
    let mut bins = [0; PADDED];
    bins[..WIDE].copy_from_slice(codes);
    let mut first = 0;
    // Most are below the window of a high percentile. To add to one counter again and again takes a
    // core the time in which it adds to six others, so these are counted here, and add to a place
    // each where nobody looks.
    for (bin, nowhere) in bins.iter_mut().zip(NOWHERE..) {
        let place = (*bin >> shift).saturating_sub(base as u16);
        // The least of it and the last, in what any x86-64 has for eight at once.
        let place = place - place.saturating_sub(LAST);
        first += u16::from(place == 0);
        *bin = if place == 0 { nowhere } else { place };
    }
    let mut counters = [0; 2 * NOWHERE as usize];
    for place in &bins[..WIDE] {
        counters[usize::from(place % (2 * NOWHERE))] += 1;
    }
    counters[0] = first as u8 - (PADDED - WIDE) as u8;
    let mut all = [0; NARROW];
    all.copy_from_slice(&counters[..NARROW]);
    all
}

/// The lowest of codes that must not be lumped with those below.
#[inline(always)]
fn lower_of(codes: &mut [u16], ends: &Ends) -> u16 {
    let may_be_below = ((ends.below * codes.len() as f64) as usize).min(codes.len() - 1);
    nth_smallest(codes, may_be_below)
}

/// The smallest and the largest of codes.
fn extremes(codes: &[u16]) -> (u16, u16) {
    // Signed, eight of them are compared at once by any x86-64.
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

/// The `n`-th smallest of codes, counted from 0.
fn nth_smallest(codes: &mut [u16], n: usize) -> u16 {
    // Of a high percentile's 26 codes there are one or two above it.
    match codes.len() - 1 - n {
        above @ 0..2 => largest::<2>(codes)[above],
        above @ 2..4 => largest::<4>(codes)[above],
        _ => *codes.select_nth_unstable(n).1,
    }
}

/// The largest codes, in falling order.
fn largest<const N: usize>(codes: &[u16]) -> [u16; N] {
    let mut largest = [0; N];
    for &code in codes {
        let mut code = code;
        for place in &mut largest {
            (*place, code) = ((*place).max(code), (*place).min(code));
        }
    }
    largest
}

/// The code of the smallest value in a bin, and of the largest.
pub(super) fn codes_of_bin(bin: u32, shift: u32) -> (u32, u32) {
    (bin << shift, ((bin + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::super::histogram::add_code;
    use super::*;
    use proptest::prelude::*;

    /// The largest code there is.
    const MOST: u16 = 63 << 10;

    /// Codes near each other, far apart, or in a few heaps.
    fn codes() -> impl Strategy<Value = Vec<u16>> {
        (0..MOST, 3u32..16, 1u16..200).prop_flat_map(|(start, near, heap)| {
            let code = any::<u16>().prop_map(move |drawn| {
                let far = (drawn >> near) / heap * heap;
                start.saturating_add(far).min(MOST)
            });
            prop::collection::vec(code, WIDE + 1)
        })
    }

    proptest! {
        /// Counted one by one in a window out of its line, and the last added there.
        #[test]
        fn kept_codes_are_counted_as_one_by_one(
            codes in codes(), (low, high) in (0.01f64..1.0, 0.01f64..1.0)
        ) {
            let ends = Ends::around(low.min(high), low.max(high));
            let mut line = State::default();
            for &code in &codes[..WIDE] {
                add_code(&mut line, code, &ends);
            }
            prop_assert_eq!(Header::load(&line).kept(), Some(WIDE));
            let mut expected = State::default();
            Window::load(&line, &ends).store(&mut expected);
            add_code(&mut expected, codes[WIDE], &ends);
            add_code(&mut line, codes[WIDE], &ends);
            prop_assert_eq!(line.0, expected.0);
        }
    }
}
