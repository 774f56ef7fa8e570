//! One flow's histogram, in one cache line.
//!
//! ```text
//! bytes 0..2   smallest code seen
//!       2..4   largest code seen, plus 1; 0 while codes are kept
//!       4..6   bin of the first counter
//!       6      shift: 2^(10 - shift) bins an octave
//!       7      bit 0: counters are wide; bits 1..5: times that counts were halved; bit 7: see
//!              `UNSOUND`; while codes are kept, how many
//!       8..60  52 counters of 8 bits (narrow), or 26 of 16 bits (wide), or up to 26 codes
//!      60..62  observations since counts were first halved, modulo 2^16
//!      62..64  wide: the upper 16 bits of the first counter, to which all falls that lies below
//! ```
//! A line of zeroes is an empty histogram.

use super::code::{encode, encode_or_more};
use super::window::{Window, kept_codes};
use crate::statistic::NO_VALUE;
use hw::memory::Line;
use std::hint::select_unpredictable;

/// Bytes before the counters.
pub(super) const HEADER: usize = 8;

/// Counters of 16 bits, and codes that are kept.
pub(super) const WIDE: usize = 26;

/// Where the counters end, and a number of observations is.
pub(super) const NUMBER: usize = HEADER + 2 * WIDE;

/// Where the upper half of the first wide counter is.
const FIRST_UPPER: usize = NUMBER + 2;

/// Counters of 8 bits.
pub(super) const NARROW: usize = 2 * WIDE;

/// A histogram's memory.
pub(super) type State = Line<u8, 64>;

/// Bit of byte 7: counts were halved, or the places of lumped values guessed at.
const UNSOUND: u8 = 0x80;

/// The most halvings that are told apart. Counters of 16 bits come to it after 2^30 observations of
/// one bin; from then on earlier observations weigh less than later ones.
pub(super) const HALVINGS_MAX: u32 = 15;

/// What may be lumped together at the ends of the window, because no percentile that is asked for
/// lies there: shares of all observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    /// What may lie in the first bin when the window is fitted.
    pub(super) below: f64,
    /// What may come to lie there before the window is moved down. More than `below`, or chance
    /// alone would move it.
    heavy: f64,
    /// What may lie in the last bin.
    pub(super) above: f64,
}

impl Ends {
    /// For quantiles from `lowest` to `highest`: half of what is below the lowest, or all but five
    /// times what is above it, so that the 99th percentile of a flow whose values are nine times in
    /// ten zero has all bins for the rest; half of what is above the highest.
    pub(super) fn around(lowest: f64, highest: f64) -> Self {
        let below = (1.0 - 5.0 * (1.0 - lowest)).max(lowest / 2.0);
        Self {
            below,
            heavy: f64::midpoint(below, lowest),
            above: (1.0 - highest) / 2.0,
        }
    }

    /// Whether so much lies in the first bin that it can no longer hold all that is below.
    pub(super) fn are_heavy(&self, first: u32, total: u32) -> bool {
        f64::from(first) + 1.0 > self.heavy * (f64::from(total) + 1.0)
    }
}

/// The first eight bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) smallest: u16,
    /// The largest code plus 1; 0 while codes are kept.
    pub(super) end: u16,
    pub(super) base: u16,
    pub(super) shift: u8,
    kind: u8,
}

impl Header {
    #[inline(always)]
    pub(super) fn load(line: &State) -> Self {
        let [a, b, c, d, e, f, shift, kind, ..] = line.0;
        Self {
            smallest: u16::from_le_bytes([a, b]),
            end: u16::from_le_bytes([c, d]),
            base: u16::from_le_bytes([e, f]),
            shift,
            kind,
        }
    }

    pub(super) fn of(window: &Window) -> Self {
        let wide = u8::from(window.limit == WIDE) | (window.halvings as u8) << 1;
        Self {
            smallest: window.smallest as u16,
            end: window.largest as u16 + 1,
            base: window.base as u16,
            shift: window.shift as u8,
            kind: if window.sound { wide } else { wide | UNSOUND },
        }
    }

    /// Of counters of 8 bits that tell all.
    pub(super) fn narrow(smallest: u16, largest: u16, base: u32, shift: u32) -> Self {
        Self {
            smallest,
            end: largest + 1,
            base: base as u16,
            shift: shift as u8,
            kind: 0,
        }
    }

    pub(super) fn store(self, line: &mut State) {
        let [a, b] = self.smallest.to_le_bytes();
        let [c, d] = self.end.to_le_bytes();
        let [e, f] = self.base.to_le_bytes();
        line.0[..HEADER].copy_from_slice(&[a, b, c, d, e, f, self.shift, self.kind]);
    }

    /// How many codes are kept; none when there are counters.
    pub(super) fn kept(self) -> Option<usize> {
        (self.end == 0).then_some(usize::from(self.kind).min(WIDE))
    }

    pub(super) fn is_wide(self) -> bool {
        self.kind & 1 == 1
    }

    /// How many times counts were halved.
    #[inline(always)]
    pub(super) fn halvings(self) -> u32 {
        u32::from(self.kind >> 1 & 15)
    }

    pub(super) fn is_sound(self) -> bool {
        self.kind & UNSOUND == 0
    }
}

/// Takes in a value; [`NO_VALUE`] is none.
///
/// All that is decided here: codes are kept and there is room for one more; or the code lies between
/// the extremes, its bin within the window or below it, counts have never been halved, and the counter
/// does not end in 255. Everything else is rare.
#[inline(always)]
pub(super) fn add(line: &mut State, value: u64, ends: &Ends) {
    let code = encode_or_more(value);
    let header = Header::load(line);
    if code >= u32::from(header.smallest) && code < u32::from(header.end) {
        let (bin, base) = (
            code.wrapping_shr(u32::from(header.shift)),
            u32::from(header.base),
        );
        let wide = u32::from(header.kind & 1);
        let place = (bin.wrapping_sub(base) as usize) << wide;
        // Whether a value lies below the window is a coin toss, which a branch would lose. (Written
        // as a saturating subtraction, it would become a branch.)
        let place = select_unpredictable(bin < base, HEADER, place.wrapping_add(HEADER));
        // Of a wide counter this is the lower byte: while it is not 255, one more does not carry.
        if let Some(count) = line.0[..NUMBER].get_mut(place)
            && *count != u8::MAX
            && header.halvings() == 0
        {
            *count += 1;
            return;
        }
    } else if header.end == 0
        && usize::from(header.kind) < WIDE
        && let Ok(code) = u16::try_from(code)
    {
        keep(line, header, code);
        return;
    }
    add_rarely(line, value, ends);
}

/// Keeps a code for which there is room.
#[inline(always)]
fn keep(line: &mut State, mut header: Header, code: u16) {
    let place = HEADER + 2 * usize::from(header.kind).min(WIDE - 1);
    line.0[place..place + 2].copy_from_slice(&code.to_le_bytes());
    header.kind += 1;
    header.store(line);
}

/// A value that does not only add one to a counter.
#[cold]
#[inline(never)]
fn add_rarely(line: &mut State, value: u64, ends: &Ends) {
    if value != NO_VALUE {
        add_code(line, encode(value), ends);
    }
}

pub(super) fn add_code(line: &mut State, code: u16, ends: &Ends) {
    let mut header = Header::load(line);
    match header.kept() {
        Some(kept) if kept < WIDE => {
            keep(line, header, code);
            return;
        }
        Some(_) => {
            if !Window::count_kept(line, code, ends) {
                add_code(line, code, ends);
            }
            return;
        }
        None if !is_drawn(line, header) || count_in_place(line, header, code, ends) => {
            header.smallest = header.smallest.min(code);
            header.end = header.end.max(code + 1);
            header.store(line);
            return;
        }
        None if !header.is_wide() && header.smallest == code && header.end == code + 1 => {
            Window::alike(code, WIDE, 1 + u32::from(u8::MAX)).store(line);
            return;
        }
        _ => {}
    }
    let mut window = Window::load(line, ends);
    window.add(code, ends);
    window.store(line);
}

/// Counts a code if window and counters can stay as they are.
fn count_in_place(line: &mut State, header: Header, code: u16, ends: &Ends) -> bool {
    let (bin, base) = (u32::from(code) >> header.shift, u32::from(header.base));
    let place = bin.saturating_sub(base) as usize;
    if !header.is_wide() {
        let counters = &mut line.0[HEADER..HEADER + NARROW];
        let total = || counters.iter().map(|&count| u32::from(count)).sum();
        if bin < base && ends.are_heavy(u32::from(counters[0]), total()) {
            return false;
        }
        let counter = counters.get_mut(place);
        let count = counter.and_then(|byte| Some((byte.checked_add(1)?, byte)));
        return count.map(|(count, byte)| *byte = count).is_some();
    }
    if place == 0 {
        let first = first_counter(line);
        let total = || {
            let (counters, _) = line.0[HEADER + 2..NUMBER].as_chunks::<2>();
            first
                + counters
                    .iter()
                    .map(|pair| u32::from(u16::from_le_bytes(*pair)))
                    .sum::<u32>()
        };
        if first == FIRST_MAX || bin < base && ends.are_heavy(first, total()) {
            return false;
        }
        set_first_counter(line, first + 1);
        return true;
    }
    let (counters, _) = line.0[HEADER..NUMBER].as_chunks_mut::<2>();
    let counter = counters.get_mut(place);
    let count = counter.and_then(|pair| Some((u16::from_le_bytes(*pair).checked_add(1)?, pair)));
    count
        .map(|(count, pair)| *pair = count.to_le_bytes())
        .is_some()
}

/// Whether an observation is to be counted: after h halvings one in 2^h is, at intervals that keep
/// step with nothing (multiples of a number near 2^16 over the golden ratio).
fn is_drawn(line: &mut State, header: Header) -> bool {
    if header.halvings() == 0 {
        return true;
    }
    let number = u16::from_le_bytes([line.0[NUMBER], line.0[NUMBER + 1]]).wrapping_add(1);
    line.0[NUMBER..FIRST_UPPER].copy_from_slice(&number.to_le_bytes());
    number.wrapping_mul(0x9e37) <= u16::MAX >> header.halvings()
}

/// What the first of wide counters holds at most, so that the counts of two histograms together
/// keep to 32 bits.
pub(super) const FIRST_MAX: u32 = u32::MAX >> 2;

/// The first of wide counters.
pub(super) fn first_counter(line: &State) -> u32 {
    let lower = u16::from_le_bytes([line.0[HEADER], line.0[HEADER + 1]]);
    let upper = u16::from_le_bytes([line.0[FIRST_UPPER], line.0[FIRST_UPPER + 1]]);
    u32::from(upper) << 16 | u32::from(lower)
}

/// Sets the first of wide counters.
pub(super) fn set_first_counter(line: &mut State, count: u32) {
    let [a, b, c, d] = count.to_le_bytes();
    line.0[HEADER..HEADER + 2].copy_from_slice(&[a, b]);
    line.0[FIRST_UPPER..].copy_from_slice(&[c, d]);
}

/// Takes in another histogram.
pub(super) fn merge(line: &mut State, other: &State, ends: &Ends) {
    let mut other = *other;
    if Header::load(line).kept().is_some() {
        std::mem::swap(line, &mut other);
    }
    if Header::load(&other).kept().is_some() {
        let (codes, kept) = kept_codes(&other);
        for &code in &codes[..kept] {
            add_code(line, code, ends);
        }
        return;
    }
    let mut window = Window::load(line, ends);
    window.merge(&Window::load(&other, ends), ends);
    window.store(line);
}
