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

use hw::memory::Line;

/// Bytes of the header, before the counters.
pub(super) const HEADER_BYTES: usize = 8;

/// The number of 16-bit counters, and the maximum number of stored codes.
pub(super) const WIDE_COUNTERS: usize = 26;

/// Offset of the number of observations, after the counters.
pub(super) const OBSERVATIONS_OFFSET: usize = HEADER_BYTES + 2 * WIDE_COUNTERS;

/// Offset of the upper half of the first wide counter.
pub(super) const FIRST_UPPER_OFFSET: usize = OBSERVATIONS_OFFSET + 2;

/// The number of 8-bit counters.
pub(super) const NARROW_COUNTERS: usize = 2 * WIDE_COUNTERS;

/// The cache line of a histogram.
pub(super) type State = Line<u8, 64>;

/// Bit of byte 7: counts were halved, or values that were lumped together were spread by guess.
pub(super) const INEXACT: u8 = 0x80;

/// The maximum number of halvings that is recorded. 16-bit counters reach it after 2^30 observations in
/// one bin. After that, earlier observations weigh less than later ones.
pub(super) const HALVINGS_MAX: u32 = 15;

/// The first eight bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) smallest: u16,
    /// The largest code plus 1; 0 while codes are stored.
    pub(super) end: u16,
    pub(super) base: u16,
    pub(super) shift: u8,
    pub(super) flags: u8,
}

impl Header {
    #[inline]
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
    #[inline]
    pub(super) fn halvings(self) -> u32 {
        u32::from(self.flags >> 1 & 15)
    }

    pub(super) fn is_exact(self) -> bool {
        self.flags & INEXACT == 0
    }
}

/// Returns the codes stored in a line, in order of arrival, and their number.
pub(super) fn kept_codes(line: &State) -> ([u16; WIDE_COUNTERS], usize) {
    let (pairs, _) = line.0[HEADER_BYTES..OBSERVATIONS_OFFSET].as_chunks::<2>();
    let mut codes = [0; WIDE_COUNTERS];
    for (code, pair) in codes.iter_mut().zip(pairs) {
        *code = u16::from_le_bytes(*pair);
    }
    (codes, Header::load(line).kept_codes().unwrap_or(0))
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
