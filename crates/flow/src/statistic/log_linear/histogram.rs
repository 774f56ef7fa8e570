//! Adding to the histogram of one flow, and merging histograms.

use super::code::{encode, encode_unclamped};
use super::layout::{
    FIRST_COUNTER_MAX, FIRST_UPPER_OFFSET, HEADER_BYTES, Header, NARROW_COUNTERS,
    OBSERVATIONS_OFFSET, State, WIDE_COUNTERS, first_counter, kept_codes, set_first_counter,
};
use super::tail_shares::TailShares;
use super::window::Window;
use crate::statistic::NO_VALUE;
use std::hint::select_unpredictable;

/// Adds a value; ignores [`NO_VALUE`].
///
/// This is the fast path. It handles two cases: codes are stored and one more fits; or the code is
/// between the extremes, its bin is in the window or below it, counts were never halved, and the lower
/// byte of the counter is not 255. All other cases are rare.
#[inline]
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
#[inline]
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
