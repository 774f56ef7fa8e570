//! Converts timestamps of a pcapng interface to nanoseconds in integer arithmetic.

/// The timestamp unit of an interface: ticks since the epoch in units of if_tsresol, shifted by
/// if_tsoffset seconds (draft-ietf-opsawg-pcapng, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimestampUnit {
    /// Nanoseconds per tick for resolutions of 1 ns or coarser powers of ten, else 0.
    tick_ns: u64,
    /// Tick count below which `ticks * tick_ns` does not overflow an `i64`; 0 if the fast path does not
    /// apply.
    fast_limit: u64,
    resolution: u8,
    offset_s: i64,
}

/// if_tsresol if the option is absent: microseconds.
pub(super) const DEFAULT_RESOLUTION: u8 = 6;

/// The bit of if_tsresol for a negative power of 2 instead of 10.
const POWER_OF_TWO: u8 = 0x80;

/// Decimal digits of a nanosecond.
const NANOSECOND_DIGITS: u32 = 9;

impl TimestampUnit {
    /// Creates the unit from the interface's if_tsresol and if_tsoffset.
    pub(super) fn new(resolution: u8, offset_s: i64) -> Self {
        let digits = u32::from(resolution);
        let tick_ns = if digits <= NANOSECOND_DIGITS {
            10u64.pow(NANOSECOND_DIGITS - digits)
        } else {
            0
        };
        let has_fast_path = tick_ns != 0 && offset_s == 0;
        Self {
            tick_ns,
            fast_limit: if has_fast_path {
                i64::MAX as u64 / tick_ns
            } else {
                0
            },
            resolution,
            offset_s,
        }
    }

    /// Converts to nanoseconds since the epoch, rounded down; saturates at the range of `i64` (years
    /// 1677 and 2262).
    #[inline]
    pub(super) fn nanoseconds(self, ticks: u64) -> i64 {
        if ticks < self.fast_limit {
            (ticks * self.tick_ns).cast_signed()
        } else {
            self.slow_nanoseconds(ticks)
        }
    }

    #[cold]
    fn slow_nanoseconds(self, ticks: u64) -> i64 {
        let ticks = u128::from(ticks);
        let digits = u32::from(self.resolution & !POWER_OF_TWO);
        let since = if self.resolution & POWER_OF_TWO != 0 {
            // Cannot overflow: below 2^64 * 2^30. The shift is at most 127.
            (ticks * 10u128.pow(NANOSECOND_DIGITS)) >> digits
        } else if digits <= NANOSECOND_DIGITS {
            ticks * 10u128.pow(NANOSECOND_DIGITS - digits)
        } else {
            // A power that overflows exceeds any number of ticks.
            10u128
                .checked_pow(digits - NANOSECOND_DIGITS)
                .map_or(0, |unit| ticks / unit)
        };
        let offset = i128::from(self.offset_s) * 10i128.pow(NANOSECOND_DIGITS);
        let sum = since.cast_signed() + offset;
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_exact_above_and_below_a_nanosecond() {
        assert_eq!(TimestampUnit::new(0, 0).nanoseconds(5), 5_000_000_000);
        assert_eq!(TimestampUnit::new(3, 0).nanoseconds(1_234), 1_234_000_000);
        assert_eq!(
            TimestampUnit::new(6, 0).nanoseconds(1_700_000_000_123_456),
            1_700_000_000_123_456_000
        );
        assert_eq!(
            TimestampUnit::new(9, 0).nanoseconds(1_700_000_000_123_456_789),
            1_700_000_000_123_456_789
        );
        assert_eq!(TimestampUnit::new(12, 0).nanoseconds(1_999), 1);
        assert_eq!(TimestampUnit::new(28, 0).nanoseconds(u64::MAX), 1);
        assert_eq!(TimestampUnit::new(127, 0).nanoseconds(u64::MAX), 0);
    }

    #[test]
    fn powers_of_two_are_exact() {
        // 2^-32 s, as NTP has it: half a second.
        assert_eq!(
            TimestampUnit::new(0x80 | 32, 0).nanoseconds((7 << 32) | (1 << 31)),
            7_500_000_000
        );
        assert_eq!(TimestampUnit::new(0x80 | 10, 0).nanoseconds(1), 976_562);
        assert_eq!(TimestampUnit::new(0x80, 0).nanoseconds(3), 3_000_000_000);
        assert_eq!(TimestampUnit::new(0xff, 0).nanoseconds(u64::MAX), 0);
    }

    #[test]
    fn offset_is_added_in_seconds() {
        assert_eq!(TimestampUnit::new(6, 10).nanoseconds(1), 10_000_001_000);
        assert_eq!(TimestampUnit::new(9, -10).nanoseconds(1), -9_999_999_999);
    }

    #[test]
    fn out_of_range_times_saturate() {
        assert_eq!(TimestampUnit::new(6, 0).nanoseconds(u64::MAX), i64::MAX);
        assert_eq!(TimestampUnit::new(9, 0).nanoseconds(u64::MAX), i64::MAX);
        assert_eq!(TimestampUnit::new(0, i64::MIN).nanoseconds(0), i64::MIN);
        assert_eq!(
            TimestampUnit::new(0, i64::MAX).nanoseconds(u64::MAX),
            i64::MAX
        );
        assert_eq!(
            TimestampUnit::new(9, 0).nanoseconds(i64::MAX as u64),
            i64::MAX
        );
    }
}
