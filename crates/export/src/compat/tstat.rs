//! Tstat's log files `log_tcp_complete`, `log_tcp_nocomplete` and `log_udp_complete`, with the
//! columns of Tstat 3.x in the same order, so that existing scripts work. A directory is named
//! after its start time. docs/tstat.md lists all columns.

mod columns;
mod field;

pub use columns::{CORE_COLUMNS, Column, TCP, UDP};

use crate::compat::connection::Connection;
use crate::directory;
use crate::error::ExportError;
use crate::exporter::Exporter;
use crate::lines::{Destination, LineWriter};
use crate::options::{ExistingFile, ExportOptions};
use crate::output::Compression;
use crate::rotation::{FileWindow, Rotation};
use crate::storage::{self, PARTIAL_EXTENSION};
use crate::target::Target;
use crate::time_text::civil;
use flow::{FlowDefinition, RecordBatch, Schema};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Tstat's sum of the column sets in `log_tcp_complete` (end to end, P2P, options, layer 7), which
/// precedes the header line.
const COLUMN_SETS: u32 = 15;

/// Number of logs.
const LOGS: usize = 3;
const TCP_COMPLETE: usize = 0;
const TCP_NOCOMPLETE: usize = 1;
const UDP_COMPLETE: usize = 2;

/// File names of the logs.
const NAMES: [&str; LOGS] = ["log_tcp_complete", "log_tcp_nocomplete", "log_udp_complete"];

/// Writes Tstat's logs.
pub(crate) struct Tstat {
    directory: PathBuf,
    compression: Option<Compression>,
    rotation: Option<Rotation>,
    window: FileWindow,
    headers: [String; LOGS],
    /// Whether addresses are anonymised with Crypto-PAn.
    anonymised: bool,
    logs: Option<Logs>,
    /// Records in finished logs, and records lost because no log could be opened.
    written: u64,
    lost: u64,
    left_out: u64,
}

/// The logs of one directory.
struct Logs {
    /// The directory while it is incomplete, and its final name.
    partial_path: PathBuf,
    final_path: PathBuf,
    writers: [LineWriter; LOGS],
    bytes: u64,
}

impl Logs {
    /// Creates missing directories, so that a removed file can be created again.
    fn recreate_directories(&self, all: &Path) {
        directory::recreate(all);
        directory::recreate(&self.partial_path);
    }
}

impl Tstat {
    /// Creates the directory that contains the log directories.
    pub(crate) fn open(
        target: &Target,
        compression: Option<Compression>,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        if schema.flow != FlowDefinition::Bidirectional {
            return Err(ExportError::NotBidirectional { format: "tstat" });
        }
        let Some(directory) = target.path() else {
            return Err(ExportError::NeedsDirectory { format: "tstat" });
        };
        directory::create(directory)?;
        directory::check_writable(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            compression,
            rotation: options.rotation,
            window: FileWindow::default(),
            headers: [
                header(&format!("#{COLUMN_SETS:02}#"), &TCP),
                header(&format!("#{COLUMN_SETS:02}#"), &TCP[..CORE_COLUMNS]),
                header("#", &UDP),
            ],
            anonymised: options.anonymised,
            logs: None,
            written: 0,
            lost: 0,
            left_out: 0,
        })
    }

    /// Finishes the current log directory and starts the next one.
    fn rotate(&mut self, start_ns: i64, end_ns: i64) -> Result<(), ExportError> {
        let ended = self.end_logs();
        self.window = match &self.rotation {
            Some(rotation) => self.window.next(rotation, end_ns),
            None => FileWindow::UNBOUNDED,
        };
        let stamp = match self.rotation.and_then(|rotation| rotation.period) {
            Some(_) => self.window.stamp_ns(),
            None => start_ns,
        };
        match self.open_logs(stamp) {
            Ok(logs) => {
                self.logs = Some(logs);
                ended
            }
            Err(fault) => {
                // Retry with the next record.
                self.window = FileWindow::default();
                ended.and(Err(fault))
            }
        }
    }

    fn open_logs(&self, stamp_ns: i64) -> Result<Logs, ExportError> {
        if !self.directory.exists() {
            directory::create(&self.directory)?;
        }
        let [year, month, day, hour, minute, _] = civil(stamp_ns);
        let time = format!("{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}");
        let mut number = 1_u32;
        let (partial_path, final_path) = loop {
            let count = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            number += 1;
            let final_path = self.directory.join(format!("{time}{count}.out"));
            if final_path.exists() {
                continue;
            }
            let mut partial_path = final_path.clone();
            if self.rotation.is_some() {
                partial_path.add_extension(PARTIAL_EXTENSION);
            }
            match storage::create_directory(&partial_path) {
                Ok(()) => break (partial_path, final_path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(ExportError::from_io(
                        &partial_path.display().to_string(),
                        error,
                    ));
                }
            }
        };
        let open = |log: usize| {
            let mut path = partial_path.join(NAMES[log]);
            if let Some(compression) = self.compression {
                path.add_extension(compression.extension());
            }
            // The directory is new.
            let destination = Destination::new(&Target::Path(path), None, ExistingFile::Append)?;
            LineWriter::open(destination, self.headers[log].as_bytes())
        };
        let opened = (|| {
            Ok([
                open(TCP_COMPLETE)?,
                open(TCP_NOCOMPLETE)?,
                open(UDP_COMPLETE)?,
            ])
        })();
        match opened {
            Ok(lines) => Ok(Logs {
                partial_path,
                final_path,
                writers: lines,
                bytes: 0,
            }),
            Err(fault) => {
                // Remove logs without headers: every attempt creates another directory.
                let _ = fs::remove_dir_all(&partial_path);
                Err(fault)
            }
        }
    }

    fn end_logs(&mut self) -> Result<(), ExportError> {
        let Some(mut logs) = self.logs.take() else {
            return Ok(());
        };
        logs.recreate_directories(&self.directory);
        let mut result = Ok(());
        let mut written = 0;
        let mut stored = Ok(());
        for lines in &mut logs.writers {
            match lines.finish() {
                fault @ Err(ExportError::NotStored { .. }) => stored = stored.and(fault),
                ended => result = result.and(ended),
            }
            written += lines.written();
            self.lost += lines.lost();
        }
        if logs.partial_path == logs.final_path {
            result = result.and(stored);
        } else {
            // A directory without the data of all its logs keeps its temporary name.
            let renamed =
                stored.and_then(|()| storage::rename(&logs.partial_path, &logs.final_path));
            if renamed.is_err() {
                self.lost += written;
                written = 0;
            }
            result = result.and(renamed);
        }
        self.written += written;
        result
    }
}

/// Returns the header line: a mark, then the names and numbers of the columns.
fn header(mark: &str, columns: &[Column]) -> String {
    let names: Vec<String> = columns
        .iter()
        .zip(1..)
        .map(|(column, number)| format!("{}:{number}", column.name))
        .collect();
    format!("{mark}{}\n", names.join(" "))
}

impl Exporter for Tstat {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            let protocol = record.key.protocol;
            let is_tcp = protocol == wire::ip_protocol::TCP;
            if !is_tcp && protocol != wire::ip_protocol::UDP {
                self.left_out += 1;
                continue;
            }
            // After an error, do not retry within the batch.
            let due = self.window.is_rotation_due(record.end_ns) || self.logs.is_none();
            if due
                && first_fault.is_ok()
                && let Err(fault) = self.rotate(record.start_ns, record.end_ns)
            {
                first_fault = Err(fault);
            }
            let Some(logs) = &mut self.logs else {
                self.lost += 1;
                continue;
            };
            let connection = Connection::from_row(batch, row, record);
            let (log, columns): (usize, &[Column]) = match (is_tcp, connection.is_complete()) {
                (false, _) => (UDP_COMPLETE, &UDP),
                (true, true) => (TCP_COMPLETE, &TCP),
                (true, false) => (TCP_NOCOMPLETE, &TCP[..CORE_COLUMNS]),
            };
            let lines = &mut logs.writers[log];
            let before = lines.text.len();
            for column in columns {
                column
                    .field
                    .write(&mut lines.text, &connection, column.side, self.anonymised);
            }
            lines.text.replace_last(b'\n');
            logs.bytes += (lines.text.len() - before) as u64;
            if let Err(fault) = lines.end_line() {
                first_fault = first_fault.and(Err(fault));
            }
            let full = self.rotation.and_then(|rotation| rotation.bytes);
            if full.is_some_and(|bytes| logs.bytes >= bytes) {
                first_fault = first_fault.and(self.end_logs());
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let Some(logs) = &mut self.logs else {
            return Ok(());
        };
        logs.recreate_directories(&self.directory);
        let mut result = Ok(());
        for lines in &mut logs.writers {
            result = result.and(lines.flush());
        }
        result
    }

    fn reopen(&mut self) -> Result<(), ExportError> {
        self.end_logs()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.end_logs()
    }

    fn written(&self) -> u64 {
        let logs = self.logs.iter().flat_map(|logs| &logs.writers);
        self.written + logs.map(LineWriter::written).sum::<u64>()
    }

    fn lost(&self) -> u64 {
        let logs = self.logs.iter().flat_map(|logs| &logs.writers);
        self.lost + logs.map(LineWriter::lost).sum::<u64>()
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}
