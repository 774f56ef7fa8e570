//! Times as text: RFC 3339 in UTC with nanoseconds.

use crate::text::{ASCII_ZEROES, Pen, eight_digits};

const NANOSECONDS: i64 = 1_000_000_000;
const SECONDS_A_DAY: i64 = 86_400;

/// Seconds that are remembered, by their lowest bits: flows that end together started within
/// about a minute of each other more often than not.
const SLOTS: usize = 64;

/// Bytes of `2024-01-31T23:59:59.`
const TO_THE_DOT: usize = 20;

/// Writes times, and remembers the text of seconds that it wrote.
#[derive(Debug)]
pub struct TimeText {
    slots: Box<[Slot; SLOTS]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    second: i64,
    /// The text up to the dot; longer than that so that it is copied as two registers.
    text: [u8; 32],
}

impl Default for TimeText {
    fn default() -> Self {
        // A second that no time in 64 bits of nanoseconds has, so that an empty slot never hits.
        let empty = Slot {
            second: i64::MAX,
            text: [0; 32],
        };
        Self {
            slots: Box::new([empty; SLOTS]),
        }
    }
}

impl TimeText {
    /// Writes a time in nanoseconds since the Unix epoch: always 30 bytes, as
    /// `2024-01-31T23:59:59.123456789Z`. Every `i64` is a time from 1677 to 2262.
    #[inline(always)]
    pub fn write(&mut self, pen: &mut Pen<'_>, time_ns: i64) {
        let second = time_ns.div_euclid(NANOSECONDS);
        let nanosecond = time_ns.rem_euclid(NANOSECONDS) as u32;
        let slot = &mut self.slots[second as usize % SLOTS];
        if slot.second != second {
            *slot = Slot {
                second,
                text: to_the_dot(second),
            };
        }
        pen.put(&slot.text, TO_THE_DOT);
        // A digit, eight digits and the Z, put together in a register.
        let first = u128::from(nanosecond / 100_000_000) | u128::from(b'0');
        let others = u128::from(eight_digits(nanosecond % 100_000_000) | ASCII_ZEROES);
        let tail = first | others << 8 | u128::from(b'Z') << 72;
        pen.put(&tail.to_le_bytes(), 10);
    }
}

/// A time for names of files: `20240131T235959Z`, ISO 8601 in its basic form, UTC.
pub(crate) fn stamp(time_ns: i64) -> String {
    let [year, month, day, hour, minute, second] = civil(time_ns);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month, day, hour, minute and second of a time in UTC.
#[must_use]
pub fn civil(time_ns: i64) -> [u32; 6] {
    let seconds = time_ns.div_euclid(NANOSECONDS);
    let (year, month, day) = civil_date(seconds.div_euclid(SECONDS_A_DAY));
    let in_day = seconds.rem_euclid(SECONDS_A_DAY) as u32;
    [
        year,
        month,
        day,
        in_day / 3600,
        in_day / 60 % 60,
        in_day % 60,
    ]
}

/// The text of a second since the Unix epoch, with the dot behind it.
#[inline(never)]
fn to_the_dot(second: i64) -> [u8; 32] {
    let (year, month, day) = civil_date(second.div_euclid(SECONDS_A_DAY));
    let in_day = second.rem_euclid(SECONDS_A_DAY) as u32;
    let mut text = [0; 32];
    text[..TO_THE_DOT].copy_from_slice(b"0000-00-00T00:00:00.");
    for (place, value) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, in_day / 3600),
        (14, in_day / 60 % 60),
        (17, in_day % 60),
    ] {
        text[place] += (value / 10) as u8;
        text[place + 1] += (value % 10) as u8;
    }
    text
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is a year's last; the calendar repeats after
/// 146,097 days, which are 400 years.
fn civil_date(day: i64) -> (u32, u32, u32) {
    const CYCLE: i64 = 146_097;
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    let shifted = day + EPOCH;
    let cycle = shifted.div_euclid(CYCLE);
    let in_cycle = shifted.rem_euclid(CYCLE);
    // Take the leap days of the 4, 100 and 400 years out, and every year has 365 days.
    let year_in_cycle =
        (in_cycle - in_cycle / 1_460 + in_cycle / 36_524 - in_cycle / (CYCLE - 1)) / 365;
    let in_year = in_cycle - (365 * year_in_cycle + year_in_cycle / 4 - year_in_cycle / 100);
    // From March on, five months have 153 days, again and again.
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
    use crate::text::Text;
    use chrono::{DateTime, SecondsFormat};
    use proptest::prelude::*;

    fn written(times: &mut TimeText, time_ns: i64) -> String {
        let mut text = Text::default();
        text.append(30, |pen| times.write(pen, time_ns));
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn expected(time_ns: i64) -> String {
        DateTime::from_timestamp_nanos(time_ns).to_rfc3339_opts(SecondsFormat::Nanos, true)
    }

    #[test]
    fn times_of_note_are_as_chrono_writes_them() {
        let mut times = TimeText::default();
        assert_eq!(written(&mut times, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(written(&mut times, -1), "1969-12-31T23:59:59.999999999Z");
        // 29 February 2000, a leap day that most centuries lack (`date -d @951868799`).
        assert_eq!(
            written(&mut times, 951_868_799_000_000_001),
            "2000-02-29T23:59:59.000000001Z"
        );
        for time in [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1] {
            assert_eq!(written(&mut times, time), expected(time));
        }
    }

    #[test]
    fn stamps_sort_as_times_do() {
        assert_eq!(stamp(951_868_799_000_000_001), "20000229T235959Z");
        assert_eq!(stamp(-1), "19691231T235959Z");
    }

    #[test]
    fn every_day_of_64_bits_is_as_chrono_writes_it() {
        let mut times = TimeText::default();
        let day_ns = SECONDS_A_DAY * NANOSECONDS;
        let mut time = i64::MIN;
        while let Some(next) = time.checked_add(day_ns) {
            assert_eq!(written(&mut times, time), expected(time));
            time = next;
        }
    }

    proptest! {
        #[test]
        fn any_times_in_any_order_are_as_chrono_writes_them(
            start: i64, steps in proptest::collection::vec(-100_000_000_000_i64..100_000_000_000, 1..50)
        ) {
            let mut times = TimeText::default();
            let mut time = start;
            for step in steps {
                time = time.wrapping_add(step);
                prop_assert_eq!(written(&mut times, time), expected(time));
            }
        }
    }
}
