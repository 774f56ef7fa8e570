//! Times and durations in six bytes.

/// Bits of a time.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;

/// A time or a duration in nanoseconds, stored in 48 bits.
///
/// Durations between two times are exact up to 39 hours, far more than the longest idle timeout. A longer
/// one looks as if the clock had gone back and is taken for 0; one of more than 78 hours loses 78 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Nanos48([u16; 3]);

impl Nanos48 {
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

    /// Creates a time.
    pub(super) const fn from_time(time_ns: i64) -> Self {
        Self::new(time_ns.cast_unsigned() & MASK)
    }

    /// Creates a duration, at most 78 hours.
    pub(super) fn from_span(span_ns: u64) -> Self {
        Self::new(span_ns.min(MASK))
    }

    /// Returns the duration.
    pub(super) const fn span_ns(self) -> u64 {
        self.get()
    }

    /// Returns the longest duration minus this one.
    pub(super) const fn complement(self) -> u64 {
        MASK - self.get()
    }

    /// Returns the duration from this time to `now_ns`, 0 if the clock went back.
    pub(super) const fn until(self, now_ns: i64) -> u64 {
        let span_ns = now_ns.cast_unsigned().wrapping_sub(self.get()) & MASK;
        if span_ns > MASK / 2 { 0 } else { span_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_up_to_39_hours() {
        for start_ns in [0, 1, -5, 1_700_000_000_123_456_789, (1 << BITS) - 7] {
            let start = Nanos48::from_time(start_ns);
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
            Nanos48::from_span(1_234_567_890_123).span_ns(),
            1_234_567_890_123
        );
        assert_eq!(Nanos48::from_span(u64::MAX).complement(), 0);
        assert_eq!(Nanos48::default().complement(), MASK);
    }
}
