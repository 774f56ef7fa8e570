//! From a pcapng interface's units of time to nanoseconds, in integers.

/// The time stamps of one interface: `ticks` since the epoch, in units of if_tsresol
/// (draft-ietf-opsawg-pcapng, section 4.2), shifted by if_tsoffset seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// Nanoseconds of one unit, where they are a whole number and no offset is in the way.
    whole_ns: u64,
    /// Ticks up to which `ticks * whole_ns` is below 2^63; 0 where there is no such shortcut.
    most: u64,
    resolution: u8,
    offset_s: i64,
}

/// Microseconds, where the option is absent.
pub(super) const DEFAULT_RESOLUTION: u8 = 6;

/// The bit of if_tsresol that says that the rest is a power of 2, not of 10.
const POWER_OF_TWO: u8 = 0x80;

/// Digits of a nanosecond.
const DIGITS: u32 = 9;

impl Tick {
    /// Of an interface with these options.
    pub(super) fn new(resolution: u8, offset_s: i64) -> Self {
        let digits = u32::from(resolution);
        let whole_ns = if digits <= DIGITS {
            10u64.pow(DIGITS - digits)
        } else {
            0
        };
        let shortcut = whole_ns != 0 && offset_s == 0;
        Self {
            whole_ns,
            most: if shortcut {
                i64::MAX as u64 / whole_ns
            } else {
                0
            },
            resolution,
            offset_s,
        }
    }

    /// Nanoseconds since the epoch, rounded down; what no `i64` can hold becomes the nearest it can
    /// (the years 1677 and 2262).
    #[inline(always)]
    pub(super) fn nanoseconds(self, ticks: u64) -> i64 {
        if ticks < self.most {
            (ticks * self.whole_ns).cast_signed()
        } else {
            self.any_nanoseconds(ticks)
        }
    }

    #[cold]
    fn any_nanoseconds(self, ticks: u64) -> i64 {
        let ticks = u128::from(ticks);
        let digits = u32::from(self.resolution & !POWER_OF_TWO);
        let since = if self.resolution & POWER_OF_TWO != 0 {
            // Below 2^64 * 2^30; the shift is at most 127.
            (ticks * 10u128.pow(DIGITS)) >> digits
        } else if digits <= DIGITS {
            ticks * 10u128.pow(DIGITS - digits)
        } else {
            // A power that does not fit is more than any number of ticks.
            10u128
                .checked_pow(digits - DIGITS)
                .map_or(0, |unit| ticks / unit)
        };
        let offset = i128::from(self.offset_s) * 10i128.pow(DIGITS);
        let sum = since.cast_signed() + offset;
        sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_exact_on_both_sides_of_a_nanosecond() {
        assert_eq!(Tick::new(0, 0).nanoseconds(5), 5_000_000_000);
        assert_eq!(Tick::new(3, 0).nanoseconds(1_234), 1_234_000_000);
        assert_eq!(
            Tick::new(6, 0).nanoseconds(1_700_000_000_123_456),
            1_700_000_000_123_456_000
        );
        assert_eq!(
            Tick::new(9, 0).nanoseconds(1_700_000_000_123_456_789),
            1_700_000_000_123_456_789
        );
        assert_eq!(Tick::new(12, 0).nanoseconds(1_999), 1);
        assert_eq!(Tick::new(28, 0).nanoseconds(u64::MAX), 1);
        assert_eq!(Tick::new(127, 0).nanoseconds(u64::MAX), 0);
    }

    #[test]
    fn powers_of_two_are_exact() {
        // 2^-32 s, as NTP has it: half a second.
        assert_eq!(
            Tick::new(0x80 | 32, 0).nanoseconds((7 << 32) | (1 << 31)),
            7_500_000_000
        );
        assert_eq!(Tick::new(0x80 | 10, 0).nanoseconds(1), 976_562);
        assert_eq!(Tick::new(0x80, 0).nanoseconds(3), 3_000_000_000);
        assert_eq!(Tick::new(0xff, 0).nanoseconds(u64::MAX), 0);
    }

    #[test]
    fn an_offset_is_added_in_seconds() {
        assert_eq!(Tick::new(6, 10).nanoseconds(1), 10_000_001_000);
        assert_eq!(Tick::new(9, -10).nanoseconds(1), -9_999_999_999);
    }

    #[test]
    fn absurd_times_saturate() {
        assert_eq!(Tick::new(6, 0).nanoseconds(u64::MAX), i64::MAX);
        assert_eq!(Tick::new(9, 0).nanoseconds(u64::MAX), i64::MAX);
        assert_eq!(Tick::new(0, i64::MIN).nanoseconds(0), i64::MIN);
        assert_eq!(Tick::new(0, i64::MAX).nanoseconds(u64::MAX), i64::MAX);
        assert_eq!(Tick::new(9, 0).nanoseconds(i64::MAX as u64), i64::MAX);
    }
}
