//! The histogram of one flow, in one cache line.
//!
//! ```text
//! bytes 0..2   smallest code seen
//!       2..4   largest code seen, plus 1; 0 while codes are stored
//!       4..6   bin of the first counter
//!       6      shift: 2^(10 - shift) bins per octave
//!       7      bit 0: counters are wide; bits 1..5: number of halvings of the counts; bit 7: see
//!              `INEXACT`; while codes are stored, their number
//!       8..60  52 counters of 8 bits (narrow), or 26 of 16 bits (wide), or up to 26 codes
//!      60..62  observations since the first halving, modulo 2^16
//!      62..64  wide: the upper 16 bits of the first counter, which also counts all values below it
//! ```
//! A line of zeroes is an empty histogram.

use super::code::{encode, encode_unclamped};
use super::window::{Window, kept_codes};
use crate::statistic::NO_VALUE;
use hw::memory::Line;
use std::hint::select_unpredictable;

/// Bytes of the header, before the counters.
pub(super) const HEADER_BYTES: usize = 8;

/// The number of 16-bit counters, and the maximum number of stored codes.
pub(super) const WIDE_COUNTERS: usize = 26;

/// Offset of the number of observations, after the counters.
pub(super) const OBSERVATIONS_OFFSET: usize = HEADER_BYTES + 2 * WIDE_COUNTERS;

/// Offset of the upper half of the first wide counter.
const FIRST_UPPER_OFFSET: usize = OBSERVATIONS_OFFSET + 2;

/// The number of 8-bit counters.
pub(super) const NARROW_COUNTERS: usize = 2 * WIDE_COUNTERS;

/// The cache line of a histogram.
pub(super) type State = Line<u8, 64>;

/// Bit of byte 7: counts were halved, or values that were lumped together were spread by guess.
const INEXACT: u8 = 0x80;

/// The maximum number of halvings that is recorded. 16-bit counters reach it after 2^30 observations in
/// one bin. After that, earlier observations weigh less than later ones.
pub(super) const HALVINGS_MAX: u32 = 15;

/// The fractions of all observations that may be lumped into the first and the last bin, because no
/// requested percentile is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TailShares {
    /// The maximum fraction in the first bin when the window is fitted.
    pub(super) low: f64,
    /// The fraction in the first bin at which the window moves down. It is larger than `low`, so that
    /// chance alone does not move the window.
    low_max: f64,
    /// The maximum fraction in the last bin.
    pub(super) high: f64,
}

impl TailShares {
    /// Returns the fractions for quantiles from `lowest` to `highest`.
    ///
    /// The first bin may have half of the observations below the lowest quantile, or all except five
    /// times those above it: if nine of ten values of a flow are zero, its 99th percentile has all bins
    /// for the others. The last bin may have half of the observations above the highest quantile.
    pub(super) fn for_quantiles(lowest: f64, highest: f64) -> Self {
        let low = (1.0 - 5.0 * (1.0 - lowest)).max(lowest / 2.0);
        Self {
            low,
            low_max: f64::midpoint(low, lowest),
            high: (1.0 - highest) / 2.0,
        }
    }

    /// Returns whether the first bin would have too many observations to count one more below the
    /// window.
    pub(super) fn low_is_heavy(&self, first: u32, total: u32) -> bool {
        f64::from(first) + 1.0 > self.low_max * (f64::from(total) + 1.0)
    }
}

/// The first eight bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) smallest: u16,
    /// The largest code plus 1; 0 while codes are stored.
    pub(super) end: u16,
    pub(super) base: u16,
    pub(super) shift: u8,
    flags: u8,
}

impl Header {
    #[inline(always)]
    pub(super) fn load(line: &State) -> Self {
        let [a, b, c, d, e, f, shift, flags, ..] = line.0;
        Self {
            smallest: u16::from_le_bytes([a, b]),
            end: u16::from_le_bytes([c, d]),
            base: u16::from_le_bytes([e, f]),
            shift,
            flags,
        }
    }

    pub(super) fn of_window(window: &Window) -> Self {
        let wide = u8::from(window.counters == WIDE_COUNTERS) | (window.halvings as u8) << 1;
        Self {
            smallest: window.smallest as u16,
            end: window.largest as u16 + 1,
            base: window.base as u16,
            shift: window.shift as u8,
            flags: if window.exact { wide } else { wide | INEXACT },
        }
    }

    /// Returns the header of exact 8-bit counters.
    pub(super) fn narrow(smallest: u16, largest: u16, base: u32, shift: u32) -> Self {
        Self {
            smallest,
            end: largest + 1,
            base: base as u16,
            shift: shift as u8,
            flags: 0,
        }
    }

    pub(super) fn store(self, line: &mut State) {
        let [a, b] = self.smallest.to_le_bytes();
        let [c, d] = self.end.to_le_bytes();
        let [e, f] = self.base.to_le_bytes();
        line.0[..HEADER_BYTES].copy_from_slice(&[a, b, c, d, e, f, self.shift, self.flags]);
    }

    /// Returns the number of stored codes; `None` if there are counters.
    pub(super) fn kept_codes(self) -> Option<usize> {
        (self.end == 0).then_some(usize::from(self.flags).min(WIDE_COUNTERS))
    }

    pub(super) fn is_wide(self) -> bool {
        self.flags & 1 == 1
    }

    /// Returns the number of times that the counts were halved.
    #[inline(always)]
    pub(super) fn halvings(self) -> u32 {
        u32::from(self.flags >> 1 & 15)
    }

    pub(super) fn is_exact(self) -> bool {
        self.flags & INEXACT == 0
    }
}

/// Adds a value; ignores [`NO_VALUE`].
///
/// This is the fast path. It handles two cases: codes are stored and one more fits; or the code is
/// between the extremes, its bin is in the window or below it, counts were never halved, and the lower
/// byte of the counter is not 255. All other cases are rare.
#[inline(always)]
pub(super) fn add(line: &mut State, value: u64, tails: &TailShares) {
    let code = encode_unclamped(value);
    let header = Header::load(line);
    if code >= u32::from(header.smallest) && code < u32::from(header.end) {
        let (bin, base) = (
            code.wrapping_shr(u32::from(header.shift)),
            u32::from(header.base),
        );
        let wide = u32::from(header.flags & 1);
        let index = (bin.wrapping_sub(base) as usize) << wide;
        // Whether a value is below the window is unpredictable, so this must not be a branch. The
        // compiler would turn a saturating subtraction into one.
        let index =
            select_unpredictable(bin < base, HEADER_BYTES, index.wrapping_add(HEADER_BYTES));
        // For a wide counter, this is the lower byte: below 255, the increment does not carry.
        if let Some(count) = line.0[..OBSERVATIONS_OFFSET].get_mut(index)
            && *count != u8::MAX
            && header.halvings() == 0
        {
            *count += 1;
            return;
        }
    } else if header.end == 0
        && usize::from(header.flags) < WIDE_COUNTERS
        && let Ok(code) = u16::try_from(code)
    {
        keep_code(line, header, code);
        return;
    }
    add_slow(line, value, tails);
}

/// Stores one more code; there must be room.
#[inline(always)]
fn keep_code(line: &mut State, mut header: Header, code: u16) {
    let index = HEADER_BYTES + 2 * usize::from(header.flags).min(WIDE_COUNTERS - 1);
    line.0[index..index + 2].copy_from_slice(&code.to_le_bytes());
    header.flags += 1;
    header.store(line);
}

/// Adds a value that the fast path does not handle.
#[cold]
#[inline(never)]
fn add_slow(line: &mut State, value: u64, tails: &TailShares) {
    if value != NO_VALUE {
        add_code(line, encode(value), tails);
    }
}

pub(super) fn add_code(line: &mut State, code: u16, tails: &TailShares) {
    let mut header = Header::load(line);
    match header.kept_codes() {
        Some(kept) if kept < WIDE_COUNTERS => {
            keep_code(line, header, code);
            return;
        }
        Some(_) => {
            if !Window::count_kept_codes(line, code, tails) {
                add_code(line, code, tails);
            }
            return;
        }
        None if !is_sampled(line, header) || count_in_place(line, header, code, tails) => {
            header.smallest = header.smallest.min(code);
            header.end = header.end.max(code + 1);
            header.store(line);
            return;
        }
        None if !header.is_wide() && header.smallest == code && header.end == code + 1 => {
            Window::of_one_code(code, WIDE_COUNTERS, 1 + u32::from(u8::MAX)).store(line);
            return;
        }
        _ => {}
    }
    let mut window = Window::load(line, tails);
    window.add(code, tails);
    window.store(line);
}

/// Counts a code if neither the window nor the counters must change. Returns whether it did.
fn count_in_place(line: &mut State, header: Header, code: u16, tails: &TailShares) -> bool {
    let (bin, base) = (u32::from(code) >> header.shift, u32::from(header.base));
    let index = bin.saturating_sub(base) as usize;
    if !header.is_wide() {
        let counters = &mut line.0[HEADER_BYTES..HEADER_BYTES + NARROW_COUNTERS];
        let total = || counters.iter().map(|&count| u32::from(count)).sum();
        if bin < base && tails.low_is_heavy(u32::from(counters[0]), total()) {
            return false;
        }
        let counter = counters.get_mut(index);
        let count = counter.and_then(|byte| Some((byte.checked_add(1)?, byte)));
        return count.map(|(count, byte)| *byte = count).is_some();
    }
    if index == 0 {
        let first = first_counter(line);
        let total = || {
            let (counters, _) = line.0[HEADER_BYTES + 2..OBSERVATIONS_OFFSET].as_chunks::<2>();
            first
                + counters
                    .iter()
                    .map(|pair| u32::from(u16::from_le_bytes(*pair)))
                    .sum::<u32>()
        };
        if first == FIRST_COUNTER_MAX || bin < base && tails.low_is_heavy(first, total()) {
            return false;
        }
        set_first_counter(line, first + 1);
        return true;
    }
    let (counters, _) = line.0[HEADER_BYTES..OBSERVATIONS_OFFSET].as_chunks_mut::<2>();
    let counter = counters.get_mut(index);
    let count = counter.and_then(|pair| Some((u16::from_le_bytes(*pair).checked_add(1)?, pair)));
    count
        .map(|(count, pair)| *pair = count.to_le_bytes())
        .is_some()
}

/// Returns whether an observation is to be counted: after h halvings, one in 2^h is.
///
/// The choice goes by multiples of a number near 2^16 over the golden ratio, so that it does not align
/// with a period of the observations.
fn is_sampled(line: &mut State, header: Header) -> bool {
    if header.halvings() == 0 {
        return true;
    }
    let number = u16::from_le_bytes([line.0[OBSERVATIONS_OFFSET], line.0[OBSERVATIONS_OFFSET + 1]])
        .wrapping_add(1);
    line.0[OBSERVATIONS_OFFSET..FIRST_UPPER_OFFSET].copy_from_slice(&number.to_le_bytes());
    number.wrapping_mul(0x9e37) <= u16::MAX >> header.halvings()
}

/// The maximum of the first wide counter, so that the sum of two fits 32 bits.
pub(super) const FIRST_COUNTER_MAX: u32 = u32::MAX >> 2;

/// Returns the first wide counter.
pub(super) fn first_counter(line: &State) -> u32 {
    let lower = u16::from_le_bytes([line.0[HEADER_BYTES], line.0[HEADER_BYTES + 1]]);
    let upper = u16::from_le_bytes([line.0[FIRST_UPPER_OFFSET], line.0[FIRST_UPPER_OFFSET + 1]]);
    u32::from(upper) << 16 | u32::from(lower)
}

/// Sets the first wide counter.
pub(super) fn set_first_counter(line: &mut State, count: u32) {
    let [a, b, c, d] = count.to_le_bytes();
    line.0[HEADER_BYTES..HEADER_BYTES + 2].copy_from_slice(&[a, b]);
    line.0[FIRST_UPPER_OFFSET..].copy_from_slice(&[c, d]);
}

/// Merges another histogram into `line`.
pub(super) fn merge(line: &mut State, other: &State, tails: &TailShares) {
    let mut other = *other;
    if Header::load(line).kept_codes().is_some() {
        std::mem::swap(line, &mut other);
    }
    if Header::load(&other).kept_codes().is_some() {
        let (codes, kept) = kept_codes(&other);
        for &code in &codes[..kept] {
            add_code(line, code, tails);
        }
        return;
    }
    let mut window = Window::load(line, tails);
    window.merge(&Window::load(&other, tails), tails);
    window.store(line);
}
