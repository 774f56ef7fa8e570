//! Timestamps as text: RFC 3339 in UTC with nanoseconds.

use crate::text::{ASCII_ZEROES, Cursor, eight_digits};

/// Nanoseconds per second.
pub(crate) const NANOSECONDS: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Number of cached seconds, indexed by their lowest bits: most flows that end together started
/// within about a minute of each other.
const SLOTS: usize = 64;

/// Length of `2024-01-31T23:59:59.`
const PREFIX_BYTES: usize = 20;

/// Writes timestamps, and caches the text of whole seconds.
#[derive(Debug)]
pub struct TimeFormatter {
    slots: Box<[Slot; SLOTS]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    second: i64,
    /// The text up to the dot, padded so that it is copied as two registers.
    text: [u8; 32],
}

impl Default for TimeFormatter {
    fn default() -> Self {
        // No timestamp has this second, so an empty slot never hits.
        let empty = Slot {
            second: i64::MAX,
            text: [0; 32],
        };
        Self {
            slots: Box::new([empty; SLOTS]),
        }
    }
}

impl TimeFormatter {
    /// Writes a timestamp in nanoseconds since the Unix epoch, always 30 bytes:
    /// `2024-01-31T23:59:59.123456789Z`. Every `i64` is valid; the range is 1677 to 2262.
    #[inline]
    pub fn write(&mut self, cursor: &mut Cursor<'_>, time_ns: i64) {
        let second = time_ns.div_euclid(NANOSECONDS);
        let nanosecond = time_ns.rem_euclid(NANOSECONDS) as u32;
        let slot = &mut self.slots[second as usize % SLOTS];
        if slot.second != second {
            *slot = Slot {
                second,
                text: prefix(second),
            };
        }
        cursor.put(&slot.text, PREFIX_BYTES);
        // A digit, eight digits and the Z, assembled in a register.
        let first = u128::from(nanosecond / 100_000_000) | u128::from(b'0');
        let others = u128::from(eight_digits(nanosecond % 100_000_000) | ASCII_ZEROES);
        let tail = first | others << 8 | u128::from(b'Z') << 72;
        cursor.put(&tail.to_le_bytes(), 10);
    }
}

/// Returns a timestamp for file names: `20240131T235959Z`, ISO 8601 basic format, UTC.
pub(crate) fn file_stamp(time_ns: i64) -> String {
    let [year, month, day, hour, minute, second] = civil(time_ns);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns year, month, day, hour, minute and second of a time in UTC.
#[must_use]
pub fn civil(time_ns: i64) -> [u32; 6] {
    let seconds = time_ns.div_euclid(NANOSECONDS);
    let (year, month, day) = civil_date(seconds.div_euclid(SECONDS_PER_DAY));
    let in_day = seconds.rem_euclid(SECONDS_PER_DAY) as u32;
    [
        year,
        month,
        day,
        in_day / 3600,
        in_day / 60 % 60,
        in_day % 60,
    ]
}

/// Returns the text of a second since the Unix epoch, up to the dot.
#[inline(never)]
fn prefix(second: i64) -> [u8; 32] {
    let (year, month, day) = civil_date(second.div_euclid(SECONDS_PER_DAY));
    let in_day = second.rem_euclid(SECONDS_PER_DAY) as u32;
    let mut text = [0; 32];
    text[..PREFIX_BYTES].copy_from_slice(b"0000-00-00T00:00:00.");
    for (index, value) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, in_day / 3600),
        (14, in_day / 60 % 60),
        (17, in_day % 60),
    ] {
        text[index] += (value / 10) as u8;
        text[index + 1] += (value % 10) as u8;
    }
    text
}

/// Returns year, month and day of a number of days since 1970-01-01 in the Gregorian calendar.
///
/// Years start in March, so that the leap day is the last day of a year. The calendar repeats every
/// 146,097 days, which are 400 years.
fn civil_date(day: i64) -> (u32, u32, u32) {
    const CYCLE: i64 = 146_097;
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    let shifted = day + EPOCH;
    let cycle = shifted.div_euclid(CYCLE);
    let in_cycle = shifted.rem_euclid(CYCLE);
    // Without the leap days of the 4-, 100- and 400-year cycles, every year has 365 days.
    let year_in_cycle =
        (in_cycle - in_cycle / 1_460 + in_cycle / 36_524 - in_cycle / (CYCLE - 1)) / 365;
    let in_year = in_cycle - (365 * year_in_cycle + year_in_cycle / 4 - year_in_cycle / 100);
    // From March on, every five months have 153 days.
    let month_from_march = (5 * in_year + 2) / 153;
    let day_of_month = in_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    let year = cycle * 400 + year_in_cycle + next_year;
    (year as u32, month as u32, day_of_month as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextBuffer;
    use chrono::{DateTime, SecondsFormat};
    use proptest::prelude::*;

    fn written(times: &mut TimeFormatter, time_ns: i64) -> String {
        let mut text = TextBuffer::default();
        text.append(30, |cursor| times.write(cursor, time_ns));
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn expected(time_ns: i64) -> String {
        DateTime::from_timestamp_nanos(time_ns).to_rfc3339_opts(SecondsFormat::Nanos, true)
    }

    #[test]
    fn special_times_match_chrono() {
        let mut times = TimeFormatter::default();
        assert_eq!(written(&mut times, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(written(&mut times, -1), "1969-12-31T23:59:59.999999999Z");
        // 29 February 2000; most centuries have no leap day (`date -d @951868799`).
        assert_eq!(
            written(&mut times, 951_868_799_000_000_001),
            "2000-02-29T23:59:59.000000001Z"
        );
        for time in [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1] {
            assert_eq!(written(&mut times, time), expected(time));
        }
    }

    #[test]
    fn file_stamps_are_utc_in_basic_format() {
        assert_eq!(file_stamp(951_868_799_000_000_001), "20000229T235959Z");
        assert_eq!(file_stamp(-1), "19691231T235959Z");
    }

    #[test]
    fn every_day_of_the_64_bit_range_matches_chrono() {
        let mut times = TimeFormatter::default();
        let day_ns = SECONDS_PER_DAY * NANOSECONDS;
        let mut time = i64::MIN;
        while let Some(next) = time.checked_add(day_ns) {
            assert_eq!(written(&mut times, time), expected(time));
            time = next;
        }
    }

    proptest! {
        #[test]
        fn times_in_any_order_match_chrono(
            start: i64, steps in proptest::collection::vec(-100_000_000_000_i64..100_000_000_000, 1..50)
        ) {
            let mut times = TimeFormatter::default();
            let mut time = start;
            for step in steps {
                time = time.wrapping_add(step);
                prop_assert_eq!(written(&mut times, time), expected(time));
            }
        }
    }
}
