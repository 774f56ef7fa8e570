//! Apache Parquet: records gathered into row groups, and files that are complete or not there.

mod among;
mod chunk;
mod column;
mod columns;
mod delta;
mod dictionary;
mod file;
mod hybrid;
mod numbering;
mod plain;
mod presence;
mod snappy;
mod taker;

use crate::directory;
use crate::error::ExportError;
use crate::output::{Output, Whereabouts, check_file};
use crate::rotation::{Names, PARTIAL, Rotation, Slot, create_stamped};
use crate::target::Target;
use crate::{ExportOptions, Exporter};
use columns::Columns;
use file::ParquetFile;
use flow::{RecordBatch, Schema};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// Writes records as Parquet, into one file or into one after the other in a directory.
pub(crate) struct Parquet {
    place: Place,
    columns: Columns,
    row_group_records: usize,
    file_records: u64,
    rotation: Option<Rotation>,
    /// The times that go into the file, where files rotate.
    slot: Slot,
    /// The file that is being written; none after a fault that ended it, or between two.
    file: Option<ParquetFile>,
    /// The only file there may be has ended.
    ended: bool,
    written: u64,
    lost: u64,
}

/// Where files go.
enum Place {
    /// One file or stream.
    Single(Target),
    /// Files `flows-00000.parquet` and on.
    Directory { path: PathBuf, next: u32 },
    /// Files `stem-TIME.parquet`.
    Stamped { directory: PathBuf, stem: String },
}

impl Parquet {
    /// Opens the first file, so that a directory that cannot be written shows at once.
    pub(crate) fn open(
        target: &Target,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        let columns = Columns::new(schema, options).map_err(|error| ExportError::Parquet {
            target: target.to_string(),
            reason: error.to_string(),
        })?;
        let mut parquet = Self {
            place: Place::open(target, options.rotation.is_some())?,
            columns,
            row_group_records: options.row_group_records.max(1),
            file_records: options.file_records,
            rotation: options.rotation,
            slot: if options.rotation.is_some() {
                Slot::default()
            } else {
                Slot::ALWAYS
            },
            file: None,
            ended: false,
            written: 0,
            lost: 0,
        };
        if let Place::Stamped { directory, .. } = &parquet.place {
            directory::check(directory)?;
        } else {
            parquet.open_file()?;
        }
        Ok(parquet)
    }

    fn open_file(&mut self) -> Result<(), ExportError> {
        let (output, names) = self.place.create(self.slot.stamp())?;
        self.file = Some(ParquetFile::new(output, names, &self.columns)?);
        Ok(())
    }

    /// Writes the records gathered as a row group, and begins another file when it is time.
    fn end_row_group(&mut self) -> Result<(), ExportError> {
        let records = self.columns.records() as u64;
        if self.file.is_none() {
            let opened = if self.ended {
                Err(self.place.ended())
            } else {
                self.place.make_directory_again();
                self.open_file()
            };
            if let Err(fault) = opened {
                self.columns.clear();
                self.lost += records;
                return Err(fault);
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let (taken, result) = file.write_row_group(&mut self.columns);
        self.columns.clear();
        if !taken {
            self.lost += records;
        }
        let full = match self.place {
            Place::Single(_) => false,
            Place::Directory { .. } => file.records() >= self.file_records,
            Place::Stamped { .. } => self
                .rotation
                .and_then(|rotation| rotation.bytes)
                .is_some_and(|bytes| file.bytes() >= bytes),
        };
        let full = full && result.is_ok();
        let broken = matches!(&result, Err(fault) if fault.is_broken_pipe());
        if full && let Some(rotation) = &self.rotation {
            self.slot = self.slot.behind_full(rotation);
        }
        if full || broken {
            return result.and(self.end_file());
        }
        result
    }

    /// Writes what is gathered, and completes the file.
    fn end_slot(&mut self) -> Result<(), ExportError> {
        let found = self.look_after_file();
        let rest = if self.columns.records() > 0 {
            self.end_row_group()
        } else {
            Ok(())
        };
        found.and(rest).and(self.end_file())
    }

    /// Completes the file.
    fn end_file(&mut self) -> Result<(), ExportError> {
        let found = self.look_after_file();
        if self.file.is_some() {
            self.ended = matches!(self.place, Place::Single(_));
        }
        found.and(self.complete())
    }

    fn complete(&mut self) -> Result<(), ExportError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let records = file.records();
        let (written, result) = file.finish();
        self.written += written;
        self.lost += records - written;
        result
    }

    /// One that somebody has moved is completed where it is, and one that was removed is lost; the
    /// next row group begins another.
    fn look_after_file(&mut self) -> Result<(), ExportError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        match file.output().whereabouts() {
            Whereabouts::InPlace => Ok(()),
            Whereabouts::Moved => {
                file.keep_name();
                self.complete()
            }
            Whereabouts::Removed => {
                let target = file.output().name().to_owned();
                self.lost += file.records();
                self.file = None;
                Err(ExportError::Removed { target })
            }
        }
    }
}

impl Exporter for Parquet {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut first_fault = Ok(());
        let mut at = 0;
        while at < batch.records.len() {
            if let (Some(rotation), Some(first)) = (&self.rotation, batch.records.get(at))
                && self.slot.is_over(first.end_ns)
            {
                let slot = self.slot.next(rotation, first.end_ns);
                first_fault = first_fault.and(self.end_slot());
                self.slot = slot;
            }
            let room = self.row_group_records - self.columns.records();
            let mut end = batch.records.len().min(at + room);
            if self.rotation.is_some() {
                let slot = &mut self.slot;
                let more = batch.records.iter().take(end).skip(at + 1);
                end = at
                    + 1
                    + more
                        .take_while(|record| !slot.is_over(record.end_ns))
                        .count();
            }
            self.columns.push(batch, at..end);
            at = end;
            if self.columns.records() == self.row_group_records
                && let Err(fault) = self.end_row_group()
            {
                first_fault = first_fault.and(Err(fault));
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.look_after_file()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.end_slot()
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

impl Place {
    fn open(target: &Target, rotates: bool) -> Result<Self, ExportError> {
        let path = match target {
            Target::StandardOutput if rotates => return Err(ExportError::NoRotation),
            Target::StandardOutput if io::stdout().is_terminal() => {
                return Err(ExportError::Terminal);
            }
            Target::StandardOutput => return Ok(Self::Single(target.clone())),
            Target::Path(path) => path,
        };
        let named_file = path.extension().is_some_and(|end| end == "parquet");
        if rotates && named_file && !path.is_dir() {
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            return Ok(Self::Stamped {
                directory: parent.unwrap_or_else(|| Path::new(".")).to_owned(),
                stem: stem.into_owned(),
            });
        }
        if !path.is_dir() {
            if named_file || path.exists() {
                return Ok(Self::Single(target.clone()));
            }
            fs::create_dir(path)
                .map_err(|error| ExportError::from_io(&path.display().to_string(), error))?;
        }
        if rotates {
            return Ok(Self::Stamped {
                directory: path.clone(),
                stem: "flows".to_owned(),
            });
        }
        let next = next_number(path)
            .map_err(|error| ExportError::from_io(&path.display().to_string(), error))?;
        Ok(Self::Directory {
            path: path.clone(),
            next,
        })
    }

    /// Makes the next file; in a directory also its name of now and the one that it gets when it
    /// is complete.
    fn create(&mut self, stamp_ns: i64) -> Result<(Output, Option<Names>), ExportError> {
        match self {
            Self::Stamped { directory, stem } => {
                let (output, names) = create_stamped(directory, stem, ".parquet", stamp_ns)?;
                Ok((output, Some(names)))
            }
            Self::Single(target) => Ok((Output::create(target)?, None)),
            Self::Directory { path, next } => loop {
                let last = path.join(format!("flows-{next:05}.parquet"));
                let mut first = last.clone();
                first.add_extension(PARTIAL);
                *next += 1;
                match Output::create_new(&first) {
                    Ok(output) => {
                        let names = Names {
                            now: first,
                            then: last,
                        };
                        return Ok((output, Some(names)));
                    }
                    // Another run writes here too.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        let target = first.display().to_string();
                        return Err(ExportError::from_io(&target, error));
                    }
                }
            },
        }
    }

    /// Makes the directory again if it has vanished.
    fn make_directory_again(&self) {
        match self {
            Self::Single(Target::Path(path)) => {
                directory::make_again(path.parent().unwrap_or(path));
            }
            Self::Single(Target::StandardOutput) => {}
            Self::Directory { path, .. } => directory::make_again(path),
            Self::Stamped { directory, .. } => directory::make_again(directory),
        }
    }

    /// What to say when records come after the only file has ended.
    fn ended(&self) -> ExportError {
        let target = match self {
            Self::Single(target) => target.to_string(),
            Self::Directory { path, .. } => path.display().to_string(),
            Self::Stamped { directory, .. } => directory.display().to_string(),
        };
        ExportError::BrokenPipe { target }
    }
}

/// Whether files can be made in the place of a target; one that is there is left as it is.
pub(crate) fn check(target: &Target, rotates: bool) -> Result<(), ExportError> {
    match Place::open(target, rotates)? {
        Place::Single(Target::Path(path)) => check_file(&path),
        Place::Single(Target::StandardOutput) => Ok(()),
        Place::Directory { path, .. } => directory::check(&path),
        Place::Stamped { directory, .. } => directory::check(&directory),
    }
}

/// The number after the highest that a file in `directory` has: runs add files, and never write
/// over those of another run.
fn next_number(directory: &Path) -> io::Result<u32> {
    let mut next = 0;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("flows-"))
            .and_then(|rest| rest.split('.').next())
            .and_then(|digits| digits.parse::<u32>().ok());
        if let Some(number) = number {
            next = next.max(number.saturating_add(1));
        }
    }
    Ok(next)
}

/// Who wrote a file, for its metadata.
fn created_by() -> String {
    format!("flowatch version {}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::limited::LimitedDisk;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use flow::{EndReason, Record};
    use std::io::Write;
    use wire::FlowKey;

    const ROW_GROUP: usize = 100;

    fn batch() -> RecordBatch {
        let record = Record {
            key: FlowKey {
                version: 4,
                ..FlowKey::default()
            },
            start_ns: 0,
            end_ns: 0,
            packets: [1, 0],
            bytes: [60, 0],
            tcp_flags: [0; 2],
            icmp_type_code: 0,
            end_reason: EndReason::IdleTimeout,
        };
        RecordBatch {
            records: vec![record; ROW_GROUP],
            ..RecordBatch::default()
        }
    }

    /// A disk that is full for a while costs the row groups that came meanwhile, but for the one
    /// that waits; the stream goes on where it was cut.
    #[test]
    fn a_stream_goes_on_when_there_is_room_again() {
        let disk = LimitedDisk::default();
        let columns = Columns::new(&Schema::default(), &ExportOptions::default()).unwrap();
        let file = ParquetFile::new(disk.output(), None, &columns).unwrap();
        let mut parquet = Parquet {
            place: Place::Single(Target::StandardOutput),
            columns,
            row_group_records: ROW_GROUP,
            file_records: 0,
            rotation: None,
            slot: Slot::ALWAYS,
            file: Some(file),
            ended: false,
            written: 0,
            lost: 0,
        };
        disk.give(1_000_000);
        parquet.write(&batch()).unwrap();
        let group_bytes = disk.bytes().len();
        // Room for half a row group.
        let left = 1_000_000 - group_bytes;
        disk.take(left - group_bytes / 2);
        for lost in [0, 1, 2] {
            assert!(matches!(
                parquet.write(&batch()),
                Err(ExportError::DiskFull { .. })
            ));
            assert_eq!(parquet.lost(), lost * ROW_GROUP as u64);
        }
        disk.give(1_000_000);
        parquet.write(&batch()).unwrap();
        parquet.finish().unwrap();
        assert_eq!((parquet.written(), parquet.lost()), (300, 200));

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&disk.bytes()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        assert_eq!(rows.map(Result::unwrap).count(), 300);
    }
}
