//! Files in rrdtool's format, version 0003, with the byte order and alignment of 64-bit
//! little-endian machines, where rrdtool maps them directly.
//!
//! rrdtool's own library is not used: it brings a font renderer and an XML parser for its graphs,
//! accepts no value for an interval before the latest one (but a flow that ends adds to past
//! intervals), and writes rows one update at a time.

use super::ring::{ARCHIVES, Ring};
use super::series::{Series, SeriesKind};
use crate::error::ExportError;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

const COOKIE: &[u8; 4] = b"RRD\0";
const VERSION: &[u8; 5] = b"0003\0";

/// rrdtool checks the floating-point format with this number.
const FLOAT_COOKIE: f64 = 8.642_135e130;

/// Minimum share of known intervals in a known row (rrdtool's xff is the maximum share of unknown
/// ones; for one half, both are the same).
const KNOWN_SHARE_MIN: f64 = 0.5;

/// Sizes of the parts of the header, in bytes.
const STATIC_HEADER: usize = 128;
const SOURCE: usize = 120;
const ARCHIVE: usize = 120;
const LIVE_HEADER: usize = 16;
const SOURCE_STATE: usize = 112;
const ARCHIVE_STATE: usize = 80;

/// A file of series.
#[derive(Debug)]
pub(super) struct SeriesFile {
    pub(super) path: PathBuf,
    series: Series,
    step_s: i64,
    /// Contents of the file at the start of this run.
    earlier: Option<EarlierRows>,
}

/// Rows written by an earlier run.
#[derive(Debug)]
struct EarlierRows {
    /// Time of the last update, in seconds since the Unix epoch.
    last_update: i64,
    /// All archives in order, each from the oldest row to the newest.
    values: Vec<f64>,
}

impl SeriesFile {
    /// Opens the file and reads it if it exists.
    ///
    /// # Errors
    /// The file contains other series or another interval length, or cannot be read.
    pub(super) fn open(directory: &Path, series: Series, step_s: i64) -> Result<Self, ExportError> {
        let path = directory.join(format!("{}.rrd", series.name));
        let target = path.display().to_string();
        if cfg!(not(all(
            target_endian = "little",
            target_pointer_width = "64"
        ))) {
            return Err(ExportError::UnusableSeries {
                target,
                reason: "rrdtool files can only be written on 64-bit little-endian machines",
            });
        }
        let mut file = Self {
            path,
            series,
            step_s,
            earlier: None,
        };
        match fs::read(&file.path) {
            Ok(bytes) => {
                let before = file.parse(&bytes).ok_or(ExportError::UnusableSeries {
                    target,
                    reason: "contains other series or another interval length; move it away",
                })?;
                file.earlier = Some(before);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(ExportError::from_io(&target, error)),
        }
        Ok(file)
    }

    /// Returns the last update of an earlier run, in seconds since the Unix epoch.
    pub(super) fn last_update(&self) -> Option<i64> {
        self.earlier.as_ref().map(|before| before.last_update)
    }

    fn width(&self) -> usize {
        self.series.sources.len()
    }

    /// Returns the offsets of the current-row pointers and of the values.
    fn pointers_and_values(&self) -> [usize; 2] {
        let width = self.width();
        let pointers = self.definitions_end()
            + LIVE_HEADER
            + width * SOURCE_STATE
            + ARCHIVES.len() * width * ARCHIVE_STATE;
        [pointers, pointers + ARCHIVES.len() * 8]
    }

    fn definitions_end(&self) -> usize {
        STATIC_HEADER + self.width() * SOURCE + ARCHIVES.len() * ARCHIVE
    }

    /// Returns the part of the header that defines the series; all files of the same series share
    /// it.
    fn definitions(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.definitions_end());
        bytes.extend_from_slice(COOKIE);
        bytes.extend_from_slice(VERSION);
        pad(&mut bytes, 16);
        bytes.extend_from_slice(&FLOAT_COOKIE.to_le_bytes());
        word(&mut bytes, self.width() as u64);
        word(&mut bytes, ARCHIVES.len() as u64);
        word(&mut bytes, self.step_s.unsigned_abs());
        pad(&mut bytes, STATIC_HEADER);
        for (name, _) in self.series.sources {
            let start = bytes.len();
            bytes.extend_from_slice(name.as_bytes());
            pad(&mut bytes, start + 20);
            bytes.extend_from_slice(b"GAUGE");
            pad(&mut bytes, start + 40);
            // Heartbeat (every interval is written), then no minimum and no maximum.
            word(&mut bytes, 2 * self.step_s.unsigned_abs());
            double(&mut bytes, f64::NAN);
            double(&mut bytes, f64::NAN);
            pad(&mut bytes, start + SOURCE);
        }
        for (steps, rows) in ARCHIVES {
            let start = bytes.len();
            bytes.extend_from_slice(b"AVERAGE");
            pad(&mut bytes, start + 24);
            word(&mut bytes, rows as u64);
            word(&mut bytes, u64::from(steps));
            double(&mut bytes, KNOWN_SHARE_MIN);
            pad(&mut bytes, start + ARCHIVE);
        }
        bytes
    }

    /// Returns the whole file. It ends at `last_update`, in seconds since the Unix epoch.
    pub(super) fn bytes(&self, rings: &[Ring], last_update: i64) -> Vec<u8> {
        let mut bytes = self.definitions();
        word(&mut bytes, last_update.cast_unsigned());
        word(&mut bytes, 0);
        for _ in self.series.sources {
            let start = bytes.len();
            bytes.extend_from_slice(b"U");
            pad(&mut bytes, start + 32);
            // The next interval has no data yet.
            word(&mut bytes, 0);
            double(&mut bytes, 0.0);
            pad(&mut bytes, start + SOURCE_STATE);
        }
        for (steps, _) in ARCHIVES {
            let open_row = self.open_row(last_update, steps.into());
            for source in 0..self.width() {
                let start = bytes.len();
                let values = open_row
                    .clone()
                    .map(|interval| self.value(rings, 0, interval, source));
                let known = KnownSum::of(values);
                double(
                    &mut bytes,
                    if known.count > 0 { known.sum } else { f64::NAN },
                );
                word(&mut bytes, known.unknown);
                pad(&mut bytes, start + ARCHIVE_STATE);
            }
        }
        // The newest row comes last.
        for (_, rows) in ARCHIVES {
            word(&mut bytes, rows as u64 - 1);
        }
        for (archive, ring) in rings.iter().enumerate() {
            let end = last_row(last_update, self.step_s * ring.steps);
            for number in (0..ring.len() as i64).rev().map(|back| end - back) {
                self.append_row(&mut bytes, rings, archive, number);
            }
        }
        bytes
    }

    fn append_row(&self, bytes: &mut Vec<u8>, rings: &[Ring], archive: usize, number: i64) {
        for source in 0..self.width() {
            double(bytes, self.value(rings, archive, number, source));
        }
    }

    /// Returns the value of a row in the file.
    fn value(&self, rings: &[Ring], archive: usize, number: i64, source: usize) -> f64 {
        let Some((ring, (_, kind))) = rings.get(archive).zip(self.series.sources.get(source))
        else {
            return f64::NAN;
        };
        let seconds = (self.step_s * ring.steps) as f64;
        // Intervals without records between the first and the last record had no traffic.
        let current = match ring.row(number) {
            Some(sums) => kind.value(sums, seconds),
            None if ring.covers(number) => kind.value(&super::Sums::default(), seconds),
            None => f64::NAN,
        };
        let open_row = match &self.earlier {
            Some(before) => self.open_row(before.last_update, ring.steps),
            None => 0..0,
        };
        if !open_row.is_empty() && open_row.start == number * ring.steps {
            let intervals = open_row.start..open_row.start + ring.steps;
            return self.merge_open_row(rings, intervals, source, *kind, current);
        }
        kind.merge(self.earlier_value(archive, number, source), current)
    }

    /// Returns the intervals of the row that is incomplete at a time.
    fn open_row(&self, last_update: i64, steps: i64) -> Range<i64> {
        let end = last_update.div_euclid(self.step_s);
        end - end.rem_euclid(steps)..end
    }

    /// Returns the value of a row that an earlier run left incomplete: the average over the
    /// intervals that either run knows. As in rrdtool, a rate is unknown if more than half of the
    /// intervals are.
    fn merge_open_row(
        &self,
        rings: &[Ring],
        intervals: Range<i64>,
        source: usize,
        kind: SeriesKind,
        current: f64,
    ) -> f64 {
        let steps = (intervals.end - intervals.start) as f64;
        let earlier = KnownSum::of(
            intervals
                .clone()
                .map(|interval| self.earlier_value(0, interval, source)),
        );
        let is_added = |&interval: &i64| {
            rings.first().is_some_and(|ring| ring.covers(interval))
                && self.earlier_value(0, interval, source).is_nan()
        };
        let added = intervals.filter(is_added).count() as f64;
        let known = earlier.count as f64 + added;
        match kind {
            _ if earlier.count == 0 => current,
            SeriesKind::Rate(..) if known < steps * KNOWN_SHARE_MIN => f64::NAN,
            SeriesKind::Rate(..) if current.is_nan() => earlier.sum / known,
            SeriesKind::Rate(..) => (earlier.sum + current * steps) / known,
            SeriesKind::Mean(..) if current.is_nan() => earlier.sum / known,
            SeriesKind::Mean(..) => {
                let added = added.max(1.0);
                (earlier.sum + current * added) / (earlier.count as f64 + added)
            }
        }
    }

    /// Returns the value that an earlier run wrote for a row; NaN if none.
    fn earlier_value(&self, archive: usize, number: i64, source: usize) -> f64 {
        let value = || {
            let before = self.earlier.as_ref()?;
            let (steps, rows) = *ARCHIVES.get(archive)?;
            let back = last_row(before.last_update, self.step_s * i64::from(steps)) - number;
            let back = usize::try_from(back).ok().filter(|&back| back < rows)?;
            let earlier: usize = ARCHIVES.iter().take(archive).map(|(_, rows)| rows).sum();
            let index = (earlier + rows - 1 - back) * self.width() + source;
            before.values.get(index).copied()
        };
        value().unwrap_or(f64::NAN)
    }

    fn parse(&self, bytes: &[u8]) -> Option<EarlierRows> {
        let definitions = self.definitions();
        let [pointers, values] = self.pointers_and_values();
        let rows: usize = ARCHIVES.iter().map(|(_, rows)| rows).sum();
        if bytes.len() != values + rows * self.width() * 8
            || bytes.get(..definitions.len()) != Some(&*definitions)
        {
            return None;
        }
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let mut ordered = Vec::with_capacity(rows * self.width());
        let mut start = values;
        for (archive, (_, rows)) in ARCHIVES.iter().enumerate() {
            // Another writer may have left the newest row in the middle.
            let newest = usize::try_from(word(pointers + archive * 8)?).ok()?;
            if newest >= *rows {
                return None;
            }
            for row in (newest + 1..*rows).chain(0..=newest) {
                for source in 0..self.width() {
                    let at = start + (row * self.width() + source) * 8;
                    ordered.push(f64::from_bits(word(at)?));
                }
            }
            start += rows * self.width() * 8;
        }
        Some(EarlierRows {
            last_update: word(definitions.len())?.cast_signed(),
            values: ordered,
        })
    }
}

/// Sum of the known values of some intervals.
#[derive(Clone, Copy, Debug, Default)]
struct KnownSum {
    sum: f64,
    /// Number of known values.
    count: u64,
    unknown: u64,
}

impl KnownSum {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        values.fold(Self::default(), |mut known, value| {
            if value.is_nan() {
                known.unknown += 1;
            } else {
                known.sum += value;
                known.count += 1;
            }
            known
        })
    }
}

/// Returns the number of the last row that is complete at a time.
fn last_row(time_s: i64, row_s: i64) -> i64 {
    time_s.div_euclid(row_s) - 1
}

fn word(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn double(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Appends zeroes up to `length`.
fn pad(bytes: &mut Vec<u8>, length: usize) {
    debug_assert!(bytes.len() <= length, "a field is longer than its space");
    bytes.resize(length, 0);
}

#[cfg(test)]
mod tests {
    use super::super::series::{Counter, Sums, files};
    use super::*;
    use crate::storage::write_file;
    use flow::Schema;

    fn rings() -> Vec<Ring> {
        ARCHIVES
            .iter()
            .map(|&(steps, rows)| Ring::new(i64::from(steps), rows))
            .collect()
    }

    fn rates(directory: &Path) -> SeriesFile {
        let series = files(&Schema::default())[0];
        SeriesFile::open(directory, series, 60).unwrap()
    }

    fn count(rings: &mut [Ring], interval: i64, packets: f64) {
        let mut sums = Sums::default();
        sums.add(Counter::Packets, packets);
        for ring in rings {
            ring.add(interval, &sums);
        }
    }

    #[test]
    fn continues_the_series_of_an_earlier_run() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = rings();
        count(&mut first, 1000, 60.0);
        count(&mut first, 1002, 120.0);
        let file = rates(directory.path());
        write_file(&file.path, &file.bytes(&first, 1003 * 60)).unwrap();

        let file = rates(directory.path());
        assert_eq!(file.last_update(), Some(1003 * 60));
        let packets = |file: &SeriesFile, number| file.earlier_value(0, number, 0);
        assert_eq!(packets(&file, 1000), 1.0);
        assert_eq!(packets(&file, 1001), 0.0);
        assert_eq!(packets(&file, 1002), 2.0);
        assert!(packets(&file, 999).is_nan() && packets(&file, 1003).is_nan());
        // The second run begins in the interval in which the first one ended.
        let mut second = rings();
        count(&mut second, 1002, 60.0);
        count(&mut second, 1004, 60.0);
        write_file(&file.path, &file.bytes(&second, 1005 * 60)).unwrap();
        let file = rates(directory.path());
        assert_eq!(packets(&file, 1000), 1.0);
        assert_eq!(packets(&file, 1002), 3.0);
        assert_eq!(packets(&file, 1003), 0.0);
        assert_eq!(packets(&file, 1004), 1.0);
        assert_eq!(file.bytes(&rings(), 0).len(), file.bytes(&second, 0).len());
    }

    #[test]
    fn rejects_other_files_without_overwriting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rates.rrd");
        let series = files(&Schema::default())[0];
        for bytes in [b"".to_vec(), b"RRD\0".to_vec(), vec![0; 100_000]] {
            fs::write(&path, bytes).unwrap();
            let opened = SeriesFile::open(directory.path(), series, 60);
            assert!(matches!(opened, Err(ExportError::UnusableSeries { .. })));
        }
        let other = SeriesFile {
            path: path.clone(),
            series,
            step_s: 10,
            earlier: None,
        };
        write_file(&path, &other.bytes(&rings(), 0)).unwrap();
        assert!(SeriesFile::open(directory.path(), series, 60).is_err());
        assert!(SeriesFile::open(directory.path(), series, 10).is_ok());
    }
}
