//! When one file ends and the next begins, and what they are called.
//!
//! Time is that of the records (when their flows ended), so a capture gives files of the same names
//! each time it is read. It only moves forward, but for a clock that steps back by more than
//! a day and stays there.

use crate::error::ExportError;
use crate::output::Output;
use crate::time_text::stamp;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Flows end in no order; records that are older than the file by less than this go into it.
const STEP_BACK_NS: i64 = 86_400_000_000_000;

/// After so many records in a row that are older than that, the clock was wrong before, and not
/// now. Where a clock jumps to and fro, this bounds the number of files.
const LATE_IN_A_ROW: u32 = 1000;

/// What a file is called behind its name until it is complete.
pub(crate) const PARTIAL: &str = "partial";

/// When a file is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Files begin at multiples of this since the Unix epoch.
    pub period: Option<Duration>,
    /// A file ends when it has this many bytes.
    pub bytes: Option<u64>,
}

/// Why text is no rotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a time as 5m or 1h nor a size as 100MB or 1GiB (or both: 1h,1GB); 1s or 1kB is the least"
)]
pub struct RotationError(String);

impl FromStr for Rotation {
    type Err = RotationError;

    fn from_str(text: &str) -> Result<Self, RotationError> {
        let wrong = || RotationError(text.to_owned());
        let mut rotation = Self {
            period: None,
            bytes: None,
        };
        for part in text.split(',') {
            let digits = part.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, unit) = part.split_at(digits);
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let seconds = match unit {
                "s" => Some(1),
                "m" | "min" => Some(60),
                "h" => Some(3600),
                "d" => Some(86_400),
                _ => None,
            };
            let bytes = match unit {
                "kB" | "KB" | "k" | "K" => Some(1000),
                "KiB" => Some(1 << 10),
                "MB" | "M" => Some(1_000_000),
                "MiB" => Some(1 << 20),
                "GB" | "G" => Some(1_000_000_000),
                "GiB" => Some(1 << 30),
                _ => None,
            };
            match (seconds, bytes) {
                // A period that does not fit is longer than any run.
                (Some(unit), _) if rotation.period.is_none() && number > 0 => {
                    let seconds = number.checked_mul(unit).filter(|&s| s <= 366 * 86_400);
                    rotation.period = Some(Duration::from_secs(seconds.ok_or_else(wrong)?));
                }
                (_, Some(unit)) if rotation.bytes.is_none() && number > 0 => {
                    rotation.bytes = Some(number.checked_mul(unit).ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(rotation)
    }
}

/// The times that go into one file: until `end`; and what became of the records that came too late
/// for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Records before this are late by so much that the clock may have been wrong.
    start: i64,
    end: i64,
    /// What the file is named after.
    stamp: i64,
    /// Records before `start`, in a row, and the latest time of them.
    late: u32,
    latest: i64,
}

impl Default for Slot {
    /// No times.
    fn default() -> Self {
        Self {
            end: i64::MIN,
            ..Self::ALWAYS
        }
    }
}

impl Slot {
    /// All times, forever.
    pub(crate) const ALWAYS: Self = Self {
        start: i64::MIN,
        end: i64::MAX,
        stamp: 0,
        late: 0,
        latest: 0,
    };

    /// Whether the next record, of this time, begins another file, whose slot is then the
    /// [`next`](Self::next). As long as none is begun, the answer stays the same.
    #[inline(always)]
    pub(crate) fn is_over(&mut self, time_ns: i64) -> bool {
        if time_ns < self.start || time_ns > self.end {
            self.is_over_outside(time_ns)
        } else {
            self.late = 0;
            false
        }
    }

    #[cold]
    fn is_over_outside(&mut self, time_ns: i64) -> bool {
        if time_ns > self.end {
            return true;
        }
        self.latest = if self.late == 0 {
            time_ns
        } else {
            self.latest.max(time_ns)
        };
        self.late = self.late.saturating_add(1);
        self.late >= LATE_IN_A_ROW
    }

    /// What follows this slot when a record of this time begins another file. A clock that has
    /// stepped back is where the latest of the late records are: the others are late for that file,
    /// and none of them begins one more.
    pub(crate) fn next(&self, rotation: &Rotation, time_ns: i64) -> Self {
        let is_late = time_ns <= self.end;
        let time_ns = if is_late {
            self.latest.max(time_ns)
        } else {
            time_ns
        };
        let Some(period) = rotation.period else {
            return Self {
                stamp: time_ns,
                ..Self::ALWAYS
            };
        };
        let period = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        let begin = time_ns.saturating_sub(time_ns.rem_euclid(period));
        Self {
            start: begin.saturating_sub(STEP_BACK_NS),
            end: begin.saturating_add(period - 1),
            stamp: begin,
            late: 0,
            latest: 0,
        }
    }

    /// What goes into the file behind one that is full: where no period gives it its name, its first
    /// record does.
    pub(crate) fn behind_full(&self, rotation: &Rotation) -> Self {
        match rotation.period {
            Some(_) => *self,
            None => Self::default(),
        }
    }

    /// What the file, or directory, is named after, in nanoseconds since the Unix epoch.
    pub(crate) const fn stamp(&self) -> i64 {
        self.stamp
    }
}

/// A file under its name of now, that gets its lasting name when it is complete.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) now: PathBuf,
    pub(crate) then: PathBuf,
}

impl Names {
    /// Gives the complete file its name. It replaces nothing.
    pub(crate) fn complete(&self) -> Result<(), ExportError> {
        fs::rename(&self.now, &self.then)
            .map_err(|error| ExportError::from_io(&self.then.display().to_string(), error))
    }
}

/// Makes the file of a slot in `directory`: `stem-20260131T235900Z.suffix`, with a number behind
/// the time where that name is taken.
pub(crate) fn create_stamped(
    directory: &Path,
    stem: &str,
    suffix: &str,
    stamp_ns: i64,
) -> Result<(Output, Names), ExportError> {
    let time = stamp(stamp_ns);
    let mut number = 1_u32;
    loop {
        let count = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let then = directory.join(format!("{stem}-{time}{count}{suffix}"));
        let mut now = then.clone();
        now.add_extension(PARTIAL);
        number += 1;
        if then.exists() {
            continue;
        }
        match Output::create_new(&now) {
            Ok(output) => return Ok((output, Names { now, then })),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(ExportError::from_io(&now.display().to_string(), error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        let parse = |text: &str| text.parse::<Rotation>();
        let rotation = |seconds: Option<u64>, bytes| {
            Ok(Rotation {
                period: seconds.map(Duration::from_secs),
                bytes,
            })
        };
        assert_eq!(parse("5m"), rotation(Some(300), None));
        assert_eq!(parse("100MB"), rotation(None, Some(100_000_000)));
        assert_eq!(parse("1GiB,1h"), rotation(Some(3600), Some(1 << 30)));
        assert_eq!(parse("2d"), rotation(Some(172_800), None));
        for wrong in [
            "",
            "5",
            "m",
            "0s",
            "0MB",
            "5m,5m",
            "1x",
            "-1s",
            "9999999999d",
            "1.5h",
            "99999999999GB",
            "1ns",
            "1B",
        ] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("1s or 1kB is the least"), "{wrong}: {error}");
        }
    }

    const SECOND_NS: i64 = 1_000_000_000;
    const START_NS: i64 = 1_700_000_100 * SECOND_NS;

    /// The slots that records of these times begin, by their stamps.
    fn stamps(times: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let rotation: Rotation = "5m".parse().unwrap();
        let mut slot = Slot::default();
        let mut stamps = Vec::new();
        for time in times {
            if slot.is_over(time) {
                assert!(slot.is_over(time));
                slot = slot.next(&rotation, time);
                stamps.push(slot.stamp());
            }
        }
        stamps
    }

    #[test]
    fn only_what_is_later_begins_a_file() {
        let second = |second: i64| START_NS + second * SECOND_NS;
        let early = second(0) - STEP_BACK_NS - 1;
        let times = [7, 0, 299, -3600, 300, 299, 900].map(second);
        assert_eq!(stamps(times), [0, 300, 900].map(second));
        assert_eq!(stamps([second(7), early, 0]), [second(0)]);
        assert_eq!(stamps([early, second(7), early, 0]).len(), 2);
        for time in [0, 1, -1, i64::MAX, i64::MIN + 1] {
            assert_eq!(stamps([time; 3]).len(), 1, "{time}");
        }
        let mut always = Slot::ALWAYS;
        assert!(
            ![i64::MIN, -1, i64::MAX]
                .map(|time| always.is_over(time))
                .contains(&true)
        );
    }

    #[test]
    fn a_clock_that_stays_back_begins_a_file_and_one_that_jumps_few() {
        let year = 365 * STEP_BACK_NS;
        let rows = LATE_IN_A_ROW as usize;
        // Late by a year and by two, in turn: the file is that of the later ones.
        let back = (0..rows as i64).map(|number| START_NS - year * (1 + number % 2));
        let found = stamps(std::iter::once(START_NS).chain(back.clone()));
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            (START_NS - year) - (START_NS - year).rem_euclid(300 * SECOND_NS)
        );
        let one_less = back.clone().take(rows - 1);
        assert_eq!(stamps(std::iter::once(START_NS).chain(one_less)).len(), 1);
        // One in its time among them, and they are not in a row.
        let among = back
            .clone()
            .take(rows - 1)
            .chain([START_NS])
            .chain(back.take(rows - 1));
        assert_eq!(stamps(std::iter::once(START_NS).chain(among)).len(), 1);
        let jumps = (0..100_000_i64).map(|number| START_NS + (number * number % 7 - 3) * year);
        assert!(stamps(jumps).len() <= 4);
    }
}
