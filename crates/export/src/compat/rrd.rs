//! Round-robin series and histograms computed from records, for rrdtool and for people.
//!
//! A flow's packets and bytes are spread evenly over its lifetime, so that a long flow does not
//! look like a burst when it ends. Per-flow counts (ends, sizes, round-trip times, anomalies) go
//! into the interval in which the flow ended. Files are written as a whole and renamed, so readers
//! never see a partial file; an interval may still grow while late records arrive.

mod file;
mod histogram;
mod ring;
mod series;

use crate::compat::connection::Connection;
use crate::directory;
use crate::error::ExportError;
use crate::exporter::Exporter;
use crate::file_lock;
use crate::storage::write_file;
use crate::target::Target;
use crate::time_text::NANOSECONDS;
use file::SeriesFile;
use flow::{Record, RecordBatch, Schema};
use histogram::Histograms;
use ring::{ARCHIVES, Ring};
use series::{Counter, Sums};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Default length of an interval, in seconds.
const STEP_S: u32 = 60;

/// Intervals of the series per histogram.
const STEPS_PER_HISTOGRAM: i64 = 5;

/// After this many consecutive records older than the series, the clock is assumed to have been
/// ahead before.
const LATE_RECORDS_MAX: u32 = 1000;

/// Maintains the series and histograms, and writes the files.
pub(crate) struct Rrd {
    directory: PathBuf,
    /// Keeps the directory locked; `None` where directories cannot be opened.
    _lock: Option<File>,
    step_s: i64,
    rings: Vec<Ring>,
    files: Vec<SeriesFile>,
    /// End of the data that earlier runs wrote, in seconds since the Unix epoch.
    earlier_end_s: Option<i64>,
    histograms: Histograms,
    /// Records added to the series.
    added: u64,
    /// Of these, records that are in the files.
    written: u64,
    lost: u64,
    late_records: u32,
    last_save: Instant,
}

impl Rrd {
    /// Creates the directory, or continues the series in it.
    pub(crate) fn open(
        target: &Target,
        step_s: Option<u32>,
        schema: &Schema,
    ) -> Result<Self, ExportError> {
        let Some(directory) = target.path() else {
            return Err(ExportError::NeedsDirectory { format: "rrd" });
        };
        directory::create(directory)?;
        directory::check_writable(directory)?;
        let lock = File::open(directory).ok();
        if let Some(lock) = &lock {
            file_lock::lock(lock, directory)?;
        }
        let step_s = i64::from(step_s.unwrap_or(STEP_S));
        let files = series::files(schema)
            .into_iter()
            .map(|series| SeriesFile::open(directory, series, step_s))
            .collect::<Result<Vec<_>, _>>()?;
        let earlier = files.iter().filter_map(SeriesFile::last_update).max();
        let mut rrd = Self {
            directory: directory.to_owned(),
            _lock: lock,
            step_s,
            rings: ARCHIVES
                .iter()
                .map(|&(steps, rows)| Ring::new(i64::from(steps), rows))
                .collect(),
            files,
            earlier_end_s: None,
            histograms: Histograms::new(step_s * STEPS_PER_HISTOGRAM),
            added: 0,
            written: 0,
            lost: 0,
            late_records: 0,
            last_save: Instant::now(),
        };
        rrd.continue_from(earlier);
        Ok(rrd)
    }

    /// Reserves room for the rows that earlier runs wrote up to `earlier`.
    fn continue_from(&mut self, earlier: Option<i64>) {
        self.earlier_end_s = earlier;
        let interval = earlier.map(|end_s| end_s.div_euclid(self.step_s) - 1);
        for ring in &mut self.rings {
            ring.continue_from(interval);
        }
    }

    /// Returns the number of the interval that contains a time.
    fn interval(&self, time_ns: i64) -> i64 {
        time_ns.div_euclid(self.step_s * NANOSECONDS)
    }

    /// Adds a record. Returns false if it is older than the series.
    fn add_record(&mut self, batch: &RecordBatch, row: usize, record: &Record) -> bool {
        let end = self.interval(record.end_ns);
        if self.is_too_old(end) {
            self.late_records += 1;
            if self.late_records < LATE_RECORDS_MAX || !self.reset_clock(end) {
                return false;
            }
        }
        self.late_records = 0;
        let connection = Connection::from_row(batch, row, record);
        self.histograms.add_flow(&connection);
        let ended = Sums::at_end(&connection);
        self.add_to_interval(end, &ended);
        let start = self.interval(record.start_ns.min(record.end_ns));
        let mut opened = Sums::default();
        opened.add(Counter::FlowsStarted, 1.0);
        self.add_to_interval(start, &opened);
        self.spread(&Sums::over_lifetime(&connection), record, start, end);
        true
    }

    /// Whether an interval is older than the series.
    fn is_too_old(&self, interval: i64) -> bool {
        self.rings.first().is_some_and(|it| it.is_too_old(interval))
    }

    /// Drops times from a clock that was ahead, if that makes room for `interval`. Data of earlier
    /// runs is kept unless it is in the future of the system clock.
    fn reset_clock(&mut self, interval: i64) -> bool {
        let (_, rows) = ARCHIVES[0];
        let kept_s = self.step_s.saturating_mul(rows as i64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.map_or(0, |now| now.as_secs().cast_signed());
        let earlier = self.earlier_end_s.filter(|end_s| end_s - kept_s <= now_s);
        let end_s = interval.saturating_add(1).saturating_mul(self.step_s);
        if earlier.is_some_and(|earlier| end_s <= earlier - kept_s) {
            return false;
        }
        self.rings.iter_mut().for_each(Ring::clear);
        self.continue_from(earlier);
        true
    }

    /// Spreads the traffic of a flow over the intervals of its lifetime.
    fn spread(&mut self, life: &Sums, record: &Record, start: i64, end: i64) {
        let duration = record.end_ns.saturating_sub(record.start_ns);
        if start == end || duration <= 0 {
            self.add_to_interval(end, life);
            return;
        }
        let step_ns = self.step_s * NANOSECONDS;
        // Nothing is kept before the first row of the finest archive.
        let (_, rows) = ARCHIVES[0];
        for interval in start.max(end.saturating_sub(rows as i64 - 1))..=end {
            let from = record.start_ns.max(interval.saturating_mul(step_ns));
            let to = record.end_ns.min((interval + 1).saturating_mul(step_ns));
            let share = to.saturating_sub(from) as f64 / duration as f64;
            let mut part = *life;
            part.scale(share);
            self.add_to_interval(interval, &part);
        }
    }

    fn add_to_interval(&mut self, interval: i64, sums: &Sums) {
        for ring in &mut self.rings {
            ring.add(interval, sums);
        }
    }

    /// Writes all files.
    fn save(&mut self) -> Result<(), ExportError> {
        self.last_save = Instant::now();
        if self.written == self.added {
            return Ok(());
        }
        directory::recreate(&self.directory);
        let newest = self.rings.first().and_then(Ring::newest);
        let own_end_s = newest.map(|newest| newest.saturating_add(1).saturating_mul(self.step_s));
        // A run with older packets adds to the existing data and does not truncate it.
        let last_update = own_end_s.max(self.earlier_end_s).unwrap_or(0);
        let mut result = Ok(());
        for file in &self.files {
            let bytes = file.bytes(&self.rings, last_update);
            result = result.and(write_file(&file.path, &bytes));
        }
        if result.is_ok() {
            self.written = self.added;
        }
        result
    }
}

impl Exporter for Rrd {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut result = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if self.add_record(batch, row, record) {
                self.added += 1;
            } else {
                self.lost += 1;
                result = Err(ExportError::TooOld {
                    target: self.directory.display().to_string(),
                });
            }
        }
        result.and(self.histograms.write_oldest(&self.directory))
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let step = Duration::from_secs(self.step_s.unsigned_abs());
        if self.last_save.elapsed() >= step {
            self.save()
        } else {
            Ok(())
        }
    }

    fn reopen(&mut self) -> Result<(), ExportError> {
        self.save()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        let histograms = self.histograms.write_all(&self.directory);
        let saved = self.save();
        self.lost += self.added - self.written;
        self.added = self.written;
        saved.and(histograms)
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}
