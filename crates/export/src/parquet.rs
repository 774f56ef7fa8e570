//! Apache Parquet: buffers records into row groups; files are either complete or not there.

mod chunk;
mod column;
mod column_builder;
mod columns;
mod delta;
mod file;
mod hash_index;
mod hybrid;
mod indexer;
mod plain;
mod row_selection;
mod snappy;
mod validity;

use crate::directory;
use crate::error::ExportError;
use crate::exporter::Exporter;
use crate::options::{ExistingFile, ExportOptions};
use crate::output::{ContentStatus, FileStatus, Output, check_writable, existing, is_pipe};
use crate::rotation::{FilePaths, FileWindow, Rotation, create_stamped};
use crate::storage::{self, PARTIAL_EXTENSION};
use crate::target::Target;
use columns::Columns;
use file::ParquetFile;
use flow::{RecordBatch, Schema};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// Writes records as Parquet, into a single file or a sequence of files in a directory.
pub(crate) struct Parquet {
    destination: Destination,
    columns: Columns,
    row_group_records: usize,
    file_records: u64,
    rotation: Option<Rotation>,
    /// Times that belong in the current file, if files are rotated.
    window: FileWindow,
    /// The current file; `None` between two files, and after an error that ended the file.
    file: Option<ParquetFile>,
    /// The single file has ended.
    single_file_ended: bool,
    written: u64,
    lost: u64,
}

/// Where files go.
enum Destination {
    /// A single file, or standard output, which has no path.
    Single(Option<PathBuf>, ExistingFile),
    /// Files `flows-00000.parquet` and so on.
    Directory { path: PathBuf, next: u32 },
    /// Files `stem-TIME.parquet`.
    Stamped { directory: PathBuf, stem: String },
}

impl Parquet {
    /// Opens the first file, so that a directory without write permission shows up at the start.
    pub(crate) fn open(
        target: &Target,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        let columns = Columns::new(schema, options).map_err(|error| ExportError::Parquet {
            target: target.to_string(),
            reason: error.to_string(),
        })?;
        let rotates = options.rotation.is_some();
        let mut parquet = Self {
            destination: Destination::open(target, rotates, options.existing)?,
            columns,
            row_group_records: options.row_group_records.max(1),
            file_records: options.file_records,
            rotation: options.rotation,
            window: if options.rotation.is_some() {
                FileWindow::default()
            } else {
                FileWindow::UNBOUNDED
            },
            file: None,
            single_file_ended: false,
            written: 0,
            lost: 0,
        };
        match &parquet.destination {
            Destination::Stamped { directory, .. } => directory::check_writable(directory)?,
            // The writer thread waits for its reader.
            Destination::Single(Some(path), _) if is_pipe(path) => {}
            _ => parquet.open_file()?,
        }
        Ok(parquet)
    }

    fn open_file(&mut self) -> Result<(), ExportError> {
        let (output, paths) = self.destination.create(self.window.stamp_ns())?;
        self.file = Some(ParquetFile::new(output, paths, &self.columns)?);
        Ok(())
    }

    /// Writes the buffered records as a row group, and completes the file if it is full.
    fn end_row_group(&mut self) -> Result<(), ExportError> {
        let records = self.columns.records() as u64;
        if self.file.is_none() {
            let opened = if self.single_file_ended {
                Err(self.destination.ended_error())
            } else {
                self.destination.recreate_directory();
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
        let full = match self.destination {
            Destination::Single(..) => false,
            Destination::Directory { .. } => file.records() >= self.file_records,
            Destination::Stamped { .. } => self
                .rotation
                .and_then(|rotation| rotation.bytes)
                .is_some_and(|bytes| file.bytes() >= bytes),
        };
        let full = full && result.is_ok();
        let broken = matches!(&result, Err(fault) if fault.is_broken_pipe());
        if full && let Some(rotation) = &self.rotation {
            self.window = self.window.after_full(rotation);
        }
        if full || broken {
            return result.and(self.end_file());
        }
        result
    }

    /// Writes the buffered records and completes the file.
    fn end_window(&mut self) -> Result<(), ExportError> {
        let checked = self.check_file();
        let rest = if self.columns.records() > 0 {
            self.end_row_group()
        } else {
            Ok(())
        };
        checked.and(rest).and(self.end_file())
    }

    /// Completes the file.
    fn end_file(&mut self) -> Result<(), ExportError> {
        let checked = self.check_file();
        if self.file.is_some() {
            self.single_file_ended = matches!(self.destination, Destination::Single(..));
        }
        checked.and(self.complete_file())
    }

    fn complete_file(&mut self) -> Result<(), ExportError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let records = file.records();
        let (written, result) = file.finish();
        self.written += written;
        self.lost += records - written;
        result
    }

    /// Completes a file that was moved, and counts the records of a removed one as lost; the next
    /// row group begins another file.
    fn check_file(&mut self) -> Result<(), ExportError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        match file.output().file_status() {
            // The footer locates row groups by their offsets, so that nothing in the file can be read any
            // more if others have changed its length.
            FileStatus::InPlace if file.output().content_status() != ContentStatus::Intact => {
                let target = file.output().name().to_owned();
                let lost = file.records();
                file.output().remove();
                self.lost += lost;
                self.file = None;
                Err(ExportError::Truncated { target, lost })
            }
            FileStatus::InPlace => Ok(()),
            FileStatus::Moved => {
                file.forget_paths();
                self.complete_file()
            }
            FileStatus::Removed => {
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
                && self.window.is_rotation_due(first.end_ns)
            {
                let window = self.window.next(rotation, first.end_ns);
                first_fault = first_fault.and(self.end_window());
                self.window = window;
            }
            let room = self.row_group_records - self.columns.records();
            let mut end = batch.records.len().min(at + room);
            if self.rotation.is_some() {
                let window = &mut self.window;
                let more = batch.records.iter().take(end).skip(at + 1);
                end = at
                    + 1
                    + more
                        .take_while(|record| !window.is_rotation_due(record.end_ns))
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
        self.check_file()
    }

    fn reopen(&mut self) -> Result<(), ExportError> {
        let records = self.file.as_ref().map_or(0, ParquetFile::records);
        if matches!(self.destination, Destination::Single(..))
            || records + self.columns.records() as u64 == 0
        {
            return self.check_file();
        }
        self.end_window()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        // A pipe gets a file even if there are no records.
        let is_single = matches!(self.destination, Destination::Single(..));
        let opened = if is_single && self.file.is_none() && !self.single_file_ended {
            self.open_file()
        } else {
            Ok(())
        };
        let ended = self.end_window();
        opened.and(ended)
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

impl Destination {
    fn open(target: &Target, rotates: bool, existing: ExistingFile) -> Result<Self, ExportError> {
        let Some(path) = target.path() else {
            return match target {
                target if rotates => Err(ExportError::CannotRotate {
                    target: target.to_string(),
                }),
                target if target.endpoint().is_some() => {
                    Err(ExportError::NeedsFile { format: "Parquet" })
                }
                _ if io::stdout().is_terminal() => Err(ExportError::Terminal),
                _ => Ok(Self::Single(None, existing)),
            };
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
                return Ok(Self::Single(Some(path.to_owned()), existing));
            }
            storage::create_directory(path)
                .map_err(|error| ExportError::from_io(&path.display().to_string(), error))?;
        }
        if rotates {
            return Ok(Self::Stamped {
                directory: path.to_owned(),
                stem: "flows".to_owned(),
            });
        }
        let next = next_number(path)
            .map_err(|error| ExportError::from_io(&path.display().to_string(), error))?;
        Ok(Self::Directory {
            path: path.to_owned(),
            next,
        })
    }

    /// Creates the next file; in a directory, also returns its temporary and final path.
    fn create(&mut self, stamp_ns: i64) -> Result<(Output, Option<FilePaths>), ExportError> {
        match self {
            Self::Stamped { directory, stem } => {
                let (output, paths) = create_stamped(directory, stem, ".parquet", stamp_ns)?;
                Ok((output, Some(paths)))
            }
            Self::Single(path, existing) => {
                let output = Output::open(path.as_deref(), *existing, &[])?;
                // A file that is created again, because it was moved or removed, replaces none.
                *existing = ExistingFile::Refuse;
                Ok((output, None))
            }
            Self::Directory { path, next } => loop {
                let complete = path.join(format!("flows-{next:05}.parquet"));
                let mut partial = complete.clone();
                partial.add_extension(PARTIAL_EXTENSION);
                *next += 1;
                match Output::create_new(&partial) {
                    Ok(output) => {
                        let paths = FilePaths { partial, complete };
                        return Ok((output, Some(paths)));
                    }
                    // Another process writes to the same directory.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        let target = partial.display().to_string();
                        return Err(ExportError::from_io(&target, error));
                    }
                }
            },
        }
    }

    /// Creates the directory again if it has disappeared.
    fn recreate_directory(&self) {
        match self {
            Self::Single(Some(path), _) => {
                directory::recreate(path.parent().unwrap_or(path));
            }
            Self::Single(None, _) => {}
            Self::Directory { path, .. } => directory::recreate(path),
            Self::Stamped { directory, .. } => directory::recreate(directory),
        }
    }

    /// Returns the error for records after the end of the single file.
    fn ended_error(&self) -> ExportError {
        let target = match self {
            Self::Single(None, _) => Target::Stdout.to_string(),
            Self::Single(Some(path), _) => path.display().to_string(),
            Self::Directory { path, .. } => path.display().to_string(),
            Self::Stamped { directory, .. } => directory.display().to_string(),
        };
        ExportError::BrokenPipe { target }
    }
}

/// Checks whether files can be created at a target; an existing file is left unchanged.
pub(crate) fn check(
    target: &Target,
    rotates: bool,
    existing: ExistingFile,
) -> Result<(), ExportError> {
    match Destination::open(target, rotates, existing)? {
        Destination::Single(Some(path), existing) => {
            check_writable(&path)?;
            existing::check(&path, existing, None).map(drop)
        }
        Destination::Single(None, _) => Ok(()),
        Destination::Directory { path, .. } => directory::check_writable(&path),
        Destination::Stamped { directory, .. } => directory::check_writable(&directory),
    }
}

/// Returns the number after the highest in `directory`: runs add files and never overwrite those of
/// other runs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::test_disk::TestDisk;
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

    /// A temporarily full disk costs the row groups that arrive meanwhile, except the one that
    /// waits; then the stream continues where it stopped.
    #[test]
    fn stream_continues_when_space_is_available_again() {
        let disk = TestDisk::default();
        let columns = Columns::new(&Schema::default(), &ExportOptions::default()).unwrap();
        let file = ParquetFile::new(disk.output(), None, &columns).unwrap();
        let mut parquet = Parquet {
            destination: Destination::Single(None, ExistingFile::Refuse),
            columns,
            row_group_records: ROW_GROUP,
            file_records: 0,
            rotation: None,
            window: FileWindow::UNBOUNDED,
            file: Some(file),
            single_file_ended: false,
            written: 0,
            lost: 0,
        };
        disk.add_space(1_000_000);
        parquet.write(&batch()).unwrap();
        let group_bytes = disk.bytes().len();
        // Space for half a row group.
        let left = 1_000_000 - group_bytes;
        disk.remove_space(left - group_bytes / 2);
        for lost in [0, 1, 2] {
            assert!(matches!(
                parquet.write(&batch()),
                Err(ExportError::DiskFull { .. })
            ));
            assert_eq!(parquet.lost(), lost * ROW_GROUP as u64);
        }
        disk.add_space(1_000_000);
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
