//! Round-robin series and histograms of what the records tell, for rrdtool and for people.
//!
//! A flow's packets and bytes are spread evenly over its life, so a long flow that ends does not
//! look like a burst; what is counted in flows (ends, sizes, round-trip times, anomalies) falls into
//! the interval in which the flow ended. Files are written whole and renamed, so a reader never
//! meets half of one, and an interval may still grow while late records come.

mod file;
mod histogram;
mod measure;
mod ring;

use crate::Exporter;
use crate::connection::Connection;
use crate::directory;
use crate::error::ExportError;
use crate::rotation::PARTIAL;
use crate::target::Target;
use file::SeriesFile;
use flow::{Record, RecordBatch, Schema};
use histogram::Histograms;
use measure::{Measure, Sums};
use ring::Ring;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds of an interval unless the target says otherwise.
const STEP_S: u32 = 60;

/// Intervals that a row of each archive stands for, and its rows: with intervals of a minute a day,
/// a week of quarters of an hour, and a year of four hours.
const ARCHIVES: [(u32, usize); 3] = [(1, 1440), (15, 672), (240, 2190)];

/// Intervals of the histograms are so many of the series'.
const HISTOGRAM_STEPS: i64 = 5;

/// After so many records in a row that are older than the series keep, the clock was wrong before,
/// and not now.
const LATE_IN_A_ROW: u32 = 1000;

const SECOND_NS: i64 = 1_000_000_000;

/// Keeps the series and histograms, and writes them.
pub(crate) struct Rrd {
    directory: PathBuf,
    step_s: i64,
    rings: Vec<Ring>,
    files: Vec<SeriesFile>,
    /// Until when earlier runs had written the files, seconds since the Unix epoch.
    earlier: Option<i64>,
    histograms: Histograms,
    /// Records that are in the series.
    taken: u64,
    /// Of them, those that are in the files too.
    written: u64,
    lost: u64,
    late_in_a_row: u32,
    saved: Instant,
}

impl Rrd {
    /// Makes the directory, and goes on with the series that are in it.
    pub(crate) fn open(
        target: &Target,
        step_s: Option<u32>,
        schema: &Schema,
    ) -> Result<Self, ExportError> {
        let Target::Path(directory) = target else {
            return Err(ExportError::NeedsDirectory { format: "rrd" });
        };
        directory::make(directory)?;
        directory::check(directory)?;
        let step_s = i64::from(step_s.unwrap_or(STEP_S));
        let files = measure::files(schema)
            .into_iter()
            .map(|series| SeriesFile::open(directory, series, step_s))
            .collect::<Result<Vec<_>, _>>()?;
        let earlier = files.iter().filter_map(SeriesFile::last_update).max();
        let mut rrd = Self {
            directory: directory.clone(),
            step_s,
            rings: ARCHIVES
                .iter()
                .map(|&(steps, rows)| Ring::new(i64::from(steps), rows))
                .collect(),
            files,
            earlier: None,
            histograms: Histograms::new(step_s * HISTOGRAM_STEPS),
            taken: 0,
            written: 0,
            lost: 0,
            late_in_a_row: 0,
            saved: Instant::now(),
        };
        rrd.go_on_from(earlier);
        Ok(rrd)
    }

    /// Leaves room for the rows that earlier runs had written until then.
    fn go_on_from(&mut self, earlier: Option<i64>) {
        self.earlier = earlier;
        let slot = earlier.map(|end_s| end_s.div_euclid(self.step_s) - 1);
        for ring in &mut self.rings {
            ring.go_on_from(slot);
        }
    }

    /// The interval of a time.
    fn slot(&self, time_ns: i64) -> i64 {
        time_ns.div_euclid(self.step_s * SECOND_NS)
    }

    /// Takes a record in; false if it is older than the series keep.
    fn take(&mut self, batch: &RecordBatch, row: usize, record: &Record) -> bool {
        let end = self.slot(record.end_ns);
        if self.is_too_old(end) {
            self.late_in_a_row += 1;
            if self.late_in_a_row < LATE_IN_A_ROW || !self.set_back(end) {
                return false;
            }
        }
        self.late_in_a_row = 0;
        let connection = Connection::of(batch, row, record);
        self.histograms.take(&connection);
        let ended = Sums::of_end(&connection);
        self.add(end, &ended);
        let start = self.slot(record.start_ns.min(record.end_ns));
        let mut opened = Sums::default();
        opened.add(Measure::FlowsStarted, 1.0);
        self.add(start, &opened);
        self.spread(&Sums::of_life(&connection), record, start, end);
        true
    }

    /// Whether an interval is older than the series keep.
    fn is_too_old(&self, slot: i64) -> bool {
        self.rings.first().is_some_and(|it| it.is_too_old(slot))
    }

    /// Forgets the times of a clock that was ahead, if that makes room for an interval. What earlier
    /// runs had written stays, unless now is too old for it.
    fn set_back(&mut self, slot: i64) -> bool {
        let (_, rows) = ARCHIVES[0];
        let kept_s = self.step_s.saturating_mul(rows as i64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.map_or(0, |now| now.as_secs().cast_signed());
        let earlier = self.earlier.filter(|end_s| end_s - kept_s <= now_s);
        let end_s = slot.saturating_add(1).saturating_mul(self.step_s);
        if earlier.is_some_and(|earlier| end_s <= earlier - kept_s) {
            return false;
        }
        self.rings.iter_mut().for_each(Ring::clear);
        self.go_on_from(earlier);
        true
    }

    /// Adds what a flow did in its life, each interval its share.
    fn spread(&mut self, life: &Sums, record: &Record, start: i64, end: i64) {
        let duration = record.end_ns.saturating_sub(record.start_ns);
        if start == end || duration <= 0 {
            self.add(end, life);
            return;
        }
        let step_ns = self.step_s * SECOND_NS;
        // Before the first row of the finest archive there is nothing to add to.
        let (_, rows) = ARCHIVES[0];
        for slot in start.max(end.saturating_sub(rows as i64 - 1))..=end {
            let from = record.start_ns.max(slot.saturating_mul(step_ns));
            let to = record.end_ns.min((slot + 1).saturating_mul(step_ns));
            let share = to.saturating_sub(from) as f64 / duration as f64;
            let mut part = *life;
            part.scale(share);
            self.add(slot, &part);
        }
    }

    fn add(&mut self, slot: i64, sums: &Sums) {
        for ring in &mut self.rings {
            ring.add(slot, sums);
        }
    }

    /// Writes every file.
    fn save(&mut self) -> Result<(), ExportError> {
        self.saved = Instant::now();
        if self.written == self.taken {
            return Ok(());
        }
        directory::make_again(&self.directory);
        let newest = self.rings.first().and_then(Ring::newest);
        let ours = newest.map(|newest| newest.saturating_add(1).saturating_mul(self.step_s));
        // A run with older packets adds to what there is, and does not cut it off.
        let last_update = ours.max(self.earlier).unwrap_or(0);
        let mut result = Ok(());
        for file in &self.files {
            let bytes = file.bytes(&self.rings, last_update);
            result = result.and(write_whole(&file.path, &bytes));
        }
        if result.is_ok() {
            self.written = self.taken;
        }
        result
    }
}

/// Writes a file beside its name, and gives it the name when it is whole.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let mut partial = path.to_owned();
    partial.add_extension(PARTIAL);
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        ExportError::from_io(&path.display().to_string(), error)
    })
}

impl Exporter for Rrd {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut result = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if self.take(batch, row, record) {
                self.taken += 1;
            } else {
                self.lost += 1;
                result = Err(ExportError::TooOld {
                    target: self.directory.display().to_string(),
                });
            }
        }
        result.and(self.histograms.write_old(&self.directory))
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let step = Duration::from_secs(self.step_s.unsigned_abs());
        if self.saved.elapsed() >= step {
            self.save()
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        let histograms = self.histograms.write_all(&self.directory);
        let saved = self.save();
        self.lost += self.taken - self.written;
        self.taken = self.written;
        saved.and(histograms)
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}
