//! File rotation: when a file ends and the next one begins, and what the files are named.
//!
//! Rotation follows the time of the records (the end of their flows), so that reading a capture
//! always gives files with the same names. Time only moves forward, unless the clock steps back by
//! more than a day and stays there.

use crate::error::ExportError;
use crate::output::Output;
use crate::storage::{self, PARTIAL_EXTENSION};
use crate::time_text::file_stamp;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Flows do not end in order; records go into the current file if they are late by less than this.
const LATE_TOLERANCE_NS: i64 = 86_400_000_000_000;

/// After this many consecutive records that are even later, the clock is assumed to have been ahead
/// before. If the clock keeps jumping, this bounds the number of files.
const LATE_RECORDS_MAX: u32 = 1000;

/// When to rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Files begin at multiples of this period since the Unix epoch.
    pub period: Option<Duration>,
    /// A file ends when it has this many bytes.
    pub bytes: Option<u64>,
}

/// Not a valid `--rotate` argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a period (5m, 1h), a size (100MB, 1GiB) or both (1h,1GB); the minimum is 1s or 1kB"
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
                // Reject a period of more than a year, or one that overflows.
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

/// The time window of one file, and the state of records that are too late for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileWindow {
    /// Records before this time are so late that the clock may have been wrong.
    start_ns: i64,
    end_ns: i64,
    /// The time in the file name.
    stamp_ns: i64,
    /// Number of consecutive records before `start_ns`, and the latest of their times.
    late_records: u32,
    latest_late_ns: i64,
}

impl Default for FileWindow {
    /// An empty window: any record begins a file.
    fn default() -> Self {
        Self {
            end_ns: i64::MIN,
            ..Self::UNBOUNDED
        }
    }
}

impl FileWindow {
    /// All times.
    pub(crate) const UNBOUNDED: Self = Self {
        start_ns: i64::MIN,
        end_ns: i64::MAX,
        stamp_ns: 0,
        late_records: 0,
        latest_late_ns: 0,
    };

    /// Whether a record of this time begins another file; its window is then [`next`](Self::next).
    /// Until that file begins, the answer stays the same.
    #[inline]
    pub(crate) fn is_rotation_due(&mut self, time_ns: i64) -> bool {
        if time_ns < self.start_ns || time_ns > self.end_ns {
            self.is_due_outside(time_ns)
        } else {
            self.late_records = 0;
            false
        }
    }

    #[cold]
    fn is_due_outside(&mut self, time_ns: i64) -> bool {
        if time_ns > self.end_ns {
            return true;
        }
        self.latest_late_ns = if self.late_records == 0 {
            time_ns
        } else {
            self.latest_late_ns.max(time_ns)
        };
        self.late_records = self.late_records.saturating_add(1);
        self.late_records >= LATE_RECORDS_MAX
    }

    /// Returns the window of the file that a record of this time begins. After the clock stepped
    /// back, the latest of the late records determines it: the others are late for the new file,
    /// and none of them begins yet another.
    pub(crate) fn next(&self, rotation: &Rotation, time_ns: i64) -> Self {
        let is_late = time_ns <= self.end_ns;
        let time_ns = if is_late {
            self.latest_late_ns.max(time_ns)
        } else {
            time_ns
        };
        let Some(period) = rotation.period else {
            return Self {
                stamp_ns: time_ns,
                ..Self::UNBOUNDED
            };
        };
        let period = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        let begin = time_ns.saturating_sub(time_ns.rem_euclid(period));
        Self {
            start_ns: begin.saturating_sub(LATE_TOLERANCE_NS),
            end_ns: begin.saturating_add(period - 1),
            stamp_ns: begin,
            late_records: 0,
            latest_late_ns: 0,
        }
    }

    /// Returns the window of the file after a full one. Without a period, its first record
    /// determines it.
    pub(crate) fn after_full(&self, rotation: &Rotation) -> Self {
        match rotation.period {
            Some(_) => *self,
            None => Self::default(),
        }
    }

    /// The time in the name of the file or directory, in nanoseconds since the Unix epoch.
    pub(crate) const fn stamp_ns(&self) -> i64 {
        self.stamp_ns
    }
}

/// The temporary and the final path of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePaths {
    pub(crate) partial: PathBuf,
    pub(crate) complete: PathBuf,
}

impl FilePaths {
    /// Renames the complete file, whose data are stored, to its final path.
    pub(crate) fn commit(&self) -> Result<(), ExportError> {
        storage::rename(&self.partial, &self.complete)
    }
}

/// Creates the file `stem-20260131T235900Z.suffix` in `directory`, with a number after the time if
/// the name is taken.
pub(crate) fn create_stamped(
    directory: &Path,
    stem: &str,
    suffix: &str,
    stamp_ns: i64,
) -> Result<(Output, FilePaths), ExportError> {
    let time = file_stamp(stamp_ns);
    let mut number = 1_u32;
    loop {
        let count = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let complete = directory.join(format!("{stem}-{time}{count}{suffix}"));
        let mut partial = complete.clone();
        partial.add_extension(PARTIAL_EXTENSION);
        number += 1;
        if complete.exists() {
            continue;
        }
        match Output::create_new(&partial) {
            Ok(output) => {
                return Ok((output, FilePaths { partial, complete }));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(ExportError::from_io(&partial.display().to_string(), error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_periods_and_sizes() {
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
            assert!(
                error.contains("the minimum is 1s or 1kB"),
                "{wrong}: {error}"
            );
        }
    }

    const SECOND_NS: i64 = 1_000_000_000;
    const START_NS: i64 = 1_700_000_100 * SECOND_NS;

    /// Returns the stamps of the windows that records of these times begin.
    fn stamps(times: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let rotation: Rotation = "5m".parse().unwrap();
        let mut slot = FileWindow::default();
        let mut stamps = Vec::new();
        for time in times {
            if slot.is_rotation_due(time) {
                assert!(slot.is_rotation_due(time));
                slot = slot.next(&rotation, time);
                stamps.push(slot.stamp_ns());
            }
        }
        stamps
    }

    #[test]
    fn only_later_records_begin_a_file() {
        let second = |second: i64| START_NS + second * SECOND_NS;
        let early = second(0) - LATE_TOLERANCE_NS - 1;
        let times = [7, 0, 299, -3600, 300, 299, 900].map(second);
        assert_eq!(stamps(times), [0, 300, 900].map(second));
        assert_eq!(stamps([second(7), early, 0]), [second(0)]);
        assert_eq!(stamps([early, second(7), early, 0]).len(), 2);
        for time in [0, 1, -1, i64::MAX, i64::MIN + 1] {
            assert_eq!(stamps([time; 3]).len(), 1, "{time}");
        }
        let mut always = FileWindow::UNBOUNDED;
        assert!(
            ![i64::MIN, -1, i64::MAX]
                .map(|time| always.is_rotation_due(time))
                .contains(&true)
        );
    }

    #[test]
    fn clock_set_back_begins_one_file_and_jumps_begin_few() {
        let year = 365 * LATE_TOLERANCE_NS;
        let rows = LATE_RECORDS_MAX as usize;
        // Alternately late by a year and by two: the later ones determine the window.
        let back = (0..rows as i64).map(|number| START_NS - year * (1 + number % 2));
        let found = stamps(std::iter::once(START_NS).chain(back.clone()));
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            (START_NS - year) - (START_NS - year).rem_euclid(300 * SECOND_NS)
        );
        let one_less = back.clone().take(rows - 1);
        assert_eq!(stamps(std::iter::once(START_NS).chain(one_less)).len(), 1);
        // One record in the current window interrupts the sequence of late ones.
        let interrupted = back
            .clone()
            .take(rows - 1)
            .chain([START_NS])
            .chain(back.take(rows - 1));
        assert_eq!(
            stamps(std::iter::once(START_NS).chain(interrupted)).len(),
            1
        );
        let jumps = (0..100_000_i64).map(|number| START_NS + (number * number % 7 - 3) * year);
        assert!(stamps(jumps).len() <= 4);
    }
}
