//! Files as rrdtool has them: its format version 0003, in the byte order and alignment of 64-bit
//! little-endian machines, where rrdtool reads them in place.
//!
//! They are written here rather than by rrdtool's library, which draws graphs and therefore brings
//! a font renderer and an XML parser along, takes no value for an interval before the latest (flows
//! that end tell of the past), and rewrites a file's rows one update at a time.

use super::ARCHIVES;
use super::measure::{Kind, Series};
use super::ring::Ring;
use crate::error::ExportError;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

const COOKIE: &[u8; 4] = b"RRD\0";
const VERSION: &[u8; 5] = b"0003\0";

/// By this number rrdtool knows that doubles are as it reads them.
const FLOAT_COOKIE: f64 = 8.642_135e130;

/// The share of a row that is known at least, where it is not unknown (rrdtool's xff is that of its
/// unknown part, at most; half is both).
const KNOWN_LEAST: f64 = 0.5;

/// Bytes of the parts of a header.
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
    /// What was in the file when this run began.
    before: Option<Before>,
}

/// The rows of an earlier run.
#[derive(Debug)]
struct Before {
    /// Time of its last update, seconds since the Unix epoch.
    last_update: i64,
    /// Archive after archive, from the oldest row to the newest.
    values: Vec<f64>,
}

impl SeriesFile {
    /// Reads the file if there is one.
    ///
    /// # Errors
    /// It is none of ours, or of another interval.
    pub(super) fn open(directory: &Path, series: Series, step_s: i64) -> Result<Self, ExportError> {
        let path = directory.join(format!("{}.rrd", series.name));
        let target = path.display().to_string();
        if cfg!(not(all(
            target_endian = "little",
            target_pointer_width = "64"
        ))) {
            return Err(ExportError::Series {
                target,
                reason: "rrdtool's files are written on 64-bit little-endian machines only",
            });
        }
        let mut file = Self {
            path,
            series,
            step_s,
            before: None,
        };
        match fs::read(&file.path) {
            Ok(bytes) => {
                let before = file.parse(&bytes).ok_or(ExportError::Series {
                    target,
                    reason: "holds other series, or another interval; move it away",
                })?;
                file.before = Some(before);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(ExportError::from_io(&target, error)),
        }
        Ok(file)
    }

    /// Until when an earlier run had written it, seconds since the Unix epoch.
    pub(super) fn last_update(&self) -> Option<i64> {
        self.before.as_ref().map(|before| before.last_update)
    }

    fn width(&self) -> usize {
        self.series.sources.len()
    }

    /// Where the current rows of the archives stand in the file, and where their values begin.
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

    /// What says which series these are; the same for every file of them.
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
            // Heartbeat: every interval is written. No minimum, no maximum.
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
            double(&mut bytes, KNOWN_LEAST);
            pad(&mut bytes, start + ARCHIVE);
        }
        bytes
    }

    /// The whole file, which ends at a time in seconds since the Unix epoch.
    pub(super) fn bytes(&self, rings: &[Ring], last_update: i64) -> Vec<u8> {
        let mut bytes = self.definitions();
        word(&mut bytes, last_update.cast_unsigned());
        word(&mut bytes, 0);
        for _ in self.series.sources {
            let start = bytes.len();
            bytes.extend_from_slice(b"U");
            pad(&mut bytes, start + 32);
            // Nothing of the next interval is known yet.
            word(&mut bytes, 0);
            double(&mut bytes, 0.0);
            pad(&mut bytes, start + SOURCE_STATE);
        }
        for (steps, _) in ARCHIVES {
            let begun = self.begun(last_update, steps.into());
            for source in 0..self.width() {
                let start = bytes.len();
                let values = begun.clone().map(|slot| self.value(rings, 0, slot, source));
                let known = Known::of(values);
                double(
                    &mut bytes,
                    if known.count > 0 { known.sum } else { f64::NAN },
                );
                word(&mut bytes, known.unknown);
                pad(&mut bytes, start + ARCHIVE_STATE);
            }
        }
        // The newest row stands last.
        for (_, rows) in ARCHIVES {
            word(&mut bytes, rows as u64 - 1);
        }
        for (archive, ring) in rings.iter().enumerate() {
            let end = last_row(last_update, self.step_s * ring.steps);
            for number in (0..ring.len() as i64).rev().map(|back| end - back) {
                self.row(&mut bytes, rings, archive, number);
            }
        }
        bytes
    }

    fn row(&self, bytes: &mut Vec<u8>, rings: &[Ring], archive: usize, number: i64) {
        for source in 0..self.width() {
            double(bytes, self.value(rings, archive, number, source));
        }
    }

    /// What stands in the file for a row.
    fn value(&self, rings: &[Ring], archive: usize, number: i64, source: usize) -> f64 {
        let Some((ring, (_, kind))) = rings.get(archive).zip(self.series.sources.get(source))
        else {
            return f64::NAN;
        };
        let seconds = (self.step_s * ring.steps) as f64;
        // Between the first and the last record an interval without any had no traffic.
        let now = match ring.row(number) {
            Some(sums) => kind.value(sums, seconds),
            None if ring.covers(number) => kind.value(&super::Sums::default(), seconds),
            None => f64::NAN,
        };
        let begun = match &self.before {
            Some(before) => self.begun(before.last_update, ring.steps),
            None => 0..0,
        };
        if !begun.is_empty() && begun.start == number * ring.steps {
            let slots = begun.start..begun.start + ring.steps;
            return self.go_on(rings, slots, source, *kind, now);
        }
        kind.join(self.before(archive, number, source), now)
    }

    /// The intervals of the row that is open at a time.
    fn begun(&self, last_update: i64, steps: i64) -> Range<i64> {
        let end = last_update.div_euclid(self.step_s);
        end - end.rem_euclid(steps)..end
    }

    /// The value of a row of several intervals that an earlier run left open: the average of those that
    /// either knows. As rrdtool has it, a rate is unknown where more than half of them are.
    fn go_on(&self, rings: &[Ring], slots: Range<i64>, source: usize, kind: Kind, now: f64) -> f64 {
        let steps = (slots.end - slots.start) as f64;
        let then = Known::of(slots.clone().map(|slot| self.before(0, slot, source)));
        let is_added = |&slot: &i64| {
            rings.first().is_some_and(|ring| ring.covers(slot))
                && self.before(0, slot, source).is_nan()
        };
        let added = slots.filter(is_added).count() as f64;
        let known = then.count as f64 + added;
        match kind {
            _ if then.count == 0 => now,
            Kind::Rate(..) if known < steps * KNOWN_LEAST => f64::NAN,
            Kind::Rate(..) if now.is_nan() => then.sum / known,
            Kind::Rate(..) => (then.sum + now * steps) / known,
            Kind::Mean(..) if now.is_nan() => then.sum / known,
            Kind::Mean(..) => {
                let added = added.max(1.0);
                (then.sum + now * added) / (then.count as f64 + added)
            }
        }
    }

    /// What an earlier run had for a row.
    fn before(&self, archive: usize, number: i64, source: usize) -> f64 {
        let value = || {
            let before = self.before.as_ref()?;
            let (steps, rows) = *ARCHIVES.get(archive)?;
            let back = last_row(before.last_update, self.step_s * i64::from(steps)) - number;
            let back = usize::try_from(back).ok().filter(|&back| back < rows)?;
            let earlier: usize = ARCHIVES.iter().take(archive).map(|(_, rows)| rows).sum();
            let place = (earlier + rows - 1 - back) * self.width() + source;
            before.values.get(place).copied()
        };
        value().unwrap_or(f64::NAN)
    }

    fn parse(&self, bytes: &[u8]) -> Option<Before> {
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
            // Whatever wrote it last may have left the newest row in the middle.
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
        Some(Before {
            last_update: word(definitions.len())?.cast_signed(),
            values: ordered,
        })
    }
}

/// What is known of some intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    sum: f64,
    /// Of so many.
    count: u64,
    unknown: u64,
}

impl Known {
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

/// The number of the last row that is complete at a time.
fn last_row(time_s: i64, row_s: i64) -> i64 {
    time_s.div_euclid(row_s) - 1
}

fn word(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn double(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Zeroes up to `length`.
fn pad(bytes: &mut Vec<u8>, length: usize) {
    debug_assert!(bytes.len() <= length, "a part is longer than its place");
    bytes.resize(length, 0);
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Measure, Sums, files};
    use super::super::write_whole;
    use super::*;
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

    fn count(rings: &mut [Ring], slot: i64, packets: f64) {
        let mut sums = Sums::default();
        sums.add(Measure::Packets, packets);
        for ring in rings {
            ring.add(slot, &sums);
        }
    }

    #[test]
    fn what_was_written_is_read_back_and_added_to() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = rings();
        count(&mut first, 1000, 60.0);
        count(&mut first, 1002, 120.0);
        let file = rates(directory.path());
        write_whole(&file.path, &file.bytes(&first, 1003 * 60)).unwrap();

        let file = rates(directory.path());
        assert_eq!(file.last_update(), Some(1003 * 60));
        let packets = |file: &SeriesFile, number| file.before(0, number, 0);
        assert_eq!(packets(&file, 1000), 1.0);
        assert_eq!(packets(&file, 1001), 0.0);
        assert_eq!(packets(&file, 1002), 2.0);
        assert!(packets(&file, 999).is_nan() && packets(&file, 1003).is_nan());
        // The second run begins in the interval in which the first ended.
        let mut second = rings();
        count(&mut second, 1002, 60.0);
        count(&mut second, 1004, 60.0);
        write_whole(&file.path, &file.bytes(&second, 1005 * 60)).unwrap();
        let file = rates(directory.path());
        assert_eq!(packets(&file, 1000), 1.0);
        assert_eq!(packets(&file, 1002), 3.0);
        assert_eq!(packets(&file, 1003), 0.0);
        assert_eq!(packets(&file, 1004), 1.0);
        assert_eq!(file.bytes(&rings(), 0).len(), file.bytes(&second, 0).len());
    }

    #[test]
    fn another_file_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rates.rrd");
        let series = files(&Schema::default())[0];
        for bytes in [b"".to_vec(), b"RRD\0".to_vec(), vec![0; 100_000]] {
            fs::write(&path, bytes).unwrap();
            let opened = SeriesFile::open(directory.path(), series, 60);
            assert!(matches!(opened, Err(ExportError::Series { .. })));
        }
        let other = SeriesFile {
            path: path.clone(),
            series,
            step_s: 10,
            before: None,
        };
        write_whole(&path, &other.bytes(&rings(), 0)).unwrap();
        assert!(SeriesFile::open(directory.path(), series, 60).is_err());
        assert!(SeriesFile::open(directory.path(), series, 10).is_ok());
    }
}
