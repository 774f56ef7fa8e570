//! Times and spans in six bytes.

/// Bits of a time.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;

/// A time or a span of nanoseconds. A span from one time to another is right to 39 hours, far more than
/// the longest idle time-out; a longer one is told as 0, or less by 78 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Nanoseconds([u16; 3]);

impl Nanoseconds {
    const fn new(nanoseconds: u64) -> Self {
        Self([
            nanoseconds as u16,
            (nanoseconds >> 16) as u16,
            (nanoseconds >> 32) as u16,
        ])
    }

    const fn get(self) -> u64 {
        let [low, middle, high] = self.0;
        low as u64 | (middle as u64) << 16 | (high as u64) << 32
    }

    /// A time.
    pub(super) const fn at(time_ns: i64) -> Self {
        Self::new(time_ns.cast_unsigned() & MASK)
    }

    /// A span; a longer one is the longest there is.
    pub(super) fn of(span_ns: u64) -> Self {
        Self::new(span_ns.min(MASK))
    }

    /// The span that it is.
    pub(super) const fn span_ns(self) -> u64 {
        self.get()
    }

    /// The greatest span's difference to this one.
    pub(super) const fn complement(self) -> u64 {
        MASK - self.get()
    }

    /// From this time to `now_ns`; 0 if the clock went back.
    pub(super) const fn until(self, now_ns: i64) -> u64 {
        let span_ns = now_ns.cast_unsigned().wrapping_sub(self.get()) & MASK;
        if span_ns > MASK / 2 { 0 } else { span_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_from_one_time_to_the_other_wherever_they_lie() {
        for start_ns in [0, 1, -5, 1_700_000_000_123_456_789, (1 << BITS) - 7] {
            let start = Nanoseconds::at(start_ns);
            for span_ns in [0, 1, 6, 7, 1_000_000_007, 3_600_000_000_000] {
                assert_eq!(start.until(start_ns + span_ns), span_ns.cast_unsigned());
            }
            assert_eq!(start.until(start_ns - 1), 0);
            const HOUR_NS: i64 = 3_600_000_000_000;
            assert_eq!(start.until(start_ns + 39 * HOUR_NS), 39 * HOUR_NS as u64);
            assert_eq!(start.until(start_ns + 40 * HOUR_NS), 0);
            assert_eq!(start.until(start_ns + (1 << BITS) + 5), 5);
        }
        assert_eq!(
            Nanoseconds::of(1_234_567_890_123).span_ns(),
            1_234_567_890_123
        );
        assert_eq!(Nanoseconds::of(u64::MAX).complement(), 0);
        assert_eq!(Nanoseconds::default().complement(), MASK);
    }
}
