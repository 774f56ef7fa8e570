//! One flow's histogram, in one cache line.
//!
//! ```text
//! bytes 0..56   56 counters of 8 bits (narrow), or 28 of 16 bits (wide), or 28 codes (exact)
//!       56..58  smallest code seen
//!       58..60  largest code seen
//!       60..62  bin of the first counter
//!       62      shift: 2^(10 - shift) bins an octave; exact: how many codes
//!       63      number of counters: narrow 56, wide 28, exact 0; bit 7: counts are not sound
//! ```
//! A line of zeroes is an empty histogram.

use super::code::encode;
use super::window::{Window, exact_codes};
use hw::memory::Line;

/// Bytes of counters.
pub(super) const BYTES: usize = 56;

/// Counters of 16 bits, and exact codes.
pub(super) const HALF: usize = BYTES / 2;

/// A histogram's memory.
pub(super) type State = Line<u8, 64>;

/// Kind of a line, as its byte 63 has it: the number of its counters.
pub(super) const EXACT: u8 = 0;
pub(super) const WIDE: u8 = HALF as u8;
pub(super) const NARROW: u8 = BYTES as u8;

/// Bit of byte 63: counts were halved, or values counted below the window were guessed at.
pub(super) const UNSOUND: u8 = 0x80;

/// What may be lumped together at the ends of the window, because no percentile that is asked for
/// lies there: shares of all observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    pub(super) below: f64,
    pub(super) above: f64,
}

/// The last eight bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) smallest: u16,
    pub(super) largest: u16,
    pub(super) base: u16,
    pub(super) shift: u8,
    pub(super) kind: u8,
}

impl Header {
    #[inline(always)]
    pub(super) fn load(line: &State) -> Self {
        let [.., a, b, c, d, e, f, shift, kind] = line.0;
        Self {
            smallest: u16::from_le_bytes([a, b]),
            largest: u16::from_le_bytes([c, d]),
            base: u16::from_le_bytes([e, f]),
            shift,
            kind,
        }
    }

    pub(super) fn store(self, line: &mut State) {
        let [a, b] = self.smallest.to_le_bytes();
        let [c, d] = self.largest.to_le_bytes();
        let [e, f] = self.base.to_le_bytes();
        line.0[BYTES..].copy_from_slice(&[a, b, c, d, e, f, self.shift, self.kind]);
    }
}

/// Takes in a value.
///
/// All that is decided here: the value's code lies between the extremes, its bin within the window
/// or below it, and its counter has room. Everything else is rare.
#[inline(always)]
pub(super) fn add(line: &mut State, value: u64, ends: &Ends) {
    let code = encode(value);
    let header = Header::load(line);
    // Not a comparison: whether a value lies below the window is a coin toss to a branch predictor.
    let above_base = i32::from(code >> (header.shift & 15)) - i32::from(header.base);
    let bin = (above_base & !(above_base >> 31)).cast_unsigned() as usize;
    let known = (code >= header.smallest) & (code <= header.largest);
    let kind = header.kind & !UNSOUND;
    if known & (bin < usize::from(kind)) {
        // A narrow counter is the lower half of the two bytes: where it has room, one more does not
        // carry into the upper.
        let (wide, full) = if kind == WIDE { (1, u16::MAX) } else { (0, u16::MAX >> 8) };
        let at = bin << wide;
        if let Some(pair) = line.0.get_mut(at..at + 2) {
            let count = u16::from_le_bytes([pair[0], pair[1]]);
            if count & full != full {
                pair.copy_from_slice(&(count + 1).to_le_bytes());
                return;
            }
        }
    }
    add_rarely(line, code, ends);
}

#[cold]
#[inline(never)]
fn add_rarely(line: &mut State, code: u16, ends: &Ends) {
    let mut header = Header::load(line);
    if header.kind == EXACT {
        let held = usize::from(header.shift);
        if held < HALF {
            line.0[2 * held..2 * held + 2].copy_from_slice(&code.to_le_bytes());
            header.shift += 1;
            header.store(line);
            return;
        }
    }
    let mut window = Window::load(line, ends);
    window.add(code, ends);
    window.store(line);
}

/// Takes in another histogram.
pub(super) fn merge(line: &mut State, other: &State, ends: &Ends) {
    let (mut line_kind, mut other) = (Header::load(line).kind, *other);
    if line_kind == EXACT {
        std::mem::swap(line, &mut other);
        line_kind = Header::load(line).kind;
    }
    if Header::load(&other).kind == EXACT {
        let (codes, held) = exact_codes(&other);
        for &code in &codes[..held] {
            add_rarely(line, code, ends);
        }
        return;
    }
    debug_assert_ne!(line_kind, EXACT);
    let mut window = Window::load(line, ends);
    window.merge(&Window::load(&other, ends), ends);
    window.store(line);
}
