//! Tstat's log files: `log_tcp_complete`, `log_tcp_nocomplete` and `log_udp_complete` with the
//! columns and the order of Tstat 3.x, in a directory named after the time at which it begins, so
//! that scripts made for Tstat run. docs/tstat.md has every column.

mod columns;
mod field;

pub use columns::{CORE, Column, TCP, UDP};

use crate::connection::Connection;
use crate::directory;
use crate::error::ExportError;
use crate::lines::{Lines, Place};
use crate::output::Compression;
use crate::rotation::{PARTIAL, Rotation, Slot};
use crate::target::Target;
use crate::time_text::civil;
use crate::{ExportOptions, Exporter};
use flow::{FlowDefinition, RecordBatch, Schema};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Tstat's sum of the sets of columns that `log_tcp_complete` has: end to end, P2P, options and
/// layer 7. It stands in front of the header line.
const SETS: u32 = 15;

/// The three logs.
const LOGS: usize = 3;
const TCP_COMPLETE: usize = 0;
const TCP_NOCOMPLETE: usize = 1;
const UDP_COMPLETE: usize = 2;

/// Their names.
const NAMES: [&str; LOGS] = ["log_tcp_complete", "log_tcp_nocomplete", "log_udp_complete"];

/// Writes Tstat's logs.
pub(crate) struct Tstat {
    directory: PathBuf,
    compression: Option<Compression>,
    rotation: Option<Rotation>,
    slot: Slot,
    headers: [String; LOGS],
    /// Whether addresses are those of Crypto-PAn.
    anonymised: bool,
    logs: Option<Logs>,
    /// Of logs that have ended, and of records that found none.
    written: u64,
    lost: u64,
    left_out: u64,
}

/// The logs of one directory.
struct Logs {
    /// The directory's name of now, and the one that it has when it is complete.
    now: PathBuf,
    then: PathBuf,
    lines: [Lines; LOGS],
    bytes: u64,
}

impl Logs {
    /// A file that was removed is made anew, in a directory that is made anew.
    fn keep_directory(&self, all: &Path) {
        directory::make_again(all);
        directory::make_again(&self.now);
    }
}

impl Tstat {
    /// Makes the directory that holds those of the logs.
    pub(crate) fn open(
        target: &Target,
        compression: Option<Compression>,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        if schema.flow != FlowDefinition::Bidirectional {
            return Err(ExportError::NotBidirectional { format: "tstat" });
        }
        let Target::Path(directory) = target else {
            return Err(ExportError::NeedsDirectory { format: "tstat" });
        };
        directory::make(directory)?;
        directory::check(directory)?;
        Ok(Self {
            directory: directory.clone(),
            compression,
            rotation: options.rotation,
            slot: Slot::default(),
            headers: [
                header(&format!("#{SETS:02}#"), &TCP),
                header(&format!("#{SETS:02}#"), &TCP[..CORE]),
                header("#", &UDP),
            ],
            anonymised: options.anonymised,
            logs: None,
            written: 0,
            lost: 0,
            left_out: 0,
        })
    }

    /// Completes the logs of one directory and begins those of the next.
    fn next_slot(&mut self, start_ns: i64, end_ns: i64) -> Result<(), ExportError> {
        let ended = self.end_logs();
        self.slot = match &self.rotation {
            Some(rotation) => self.slot.next(rotation, end_ns),
            None => Slot::ALWAYS,
        };
        let stamp = match self.rotation.and_then(|rotation| rotation.period) {
            Some(_) => self.slot.stamp(),
            None => start_ns,
        };
        match self.open_logs(stamp) {
            Ok(logs) => {
                self.logs = Some(logs);
                ended
            }
            Err(fault) => {
                // The next record tries again.
                self.slot = Slot::default();
                ended.and(Err(fault))
            }
        }
    }

    fn open_logs(&self, stamp_ns: i64) -> Result<Logs, ExportError> {
        if !self.directory.exists() {
            directory::make(&self.directory)?;
        }
        let [year, month, day, hour, minute, _] = civil(stamp_ns);
        let time = format!("{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}");
        let mut number = 1_u32;
        let (now, then) = loop {
            let count = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            number += 1;
            let then = self.directory.join(format!("{time}{count}.out"));
            if then.exists() {
                continue;
            }
            let mut now = then.clone();
            if self.rotation.is_some() {
                now.add_extension(PARTIAL);
            }
            match fs::create_dir(&now) {
                Ok(()) => break (now, then),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(ExportError::from_io(&now.display().to_string(), error));
                }
            }
        };
        let open = |log: usize| {
            let mut path = now.join(NAMES[log]);
            if let Some(compression) = self.compression {
                path.add_extension(compression.extension());
            }
            let place = Place::new(&Target::Path(path), None)?;
            Lines::open(place, self.headers[log].as_bytes())
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
                now,
                then,
                lines,
                bytes: 0,
            }),
            Err(fault) => {
                // Logs without their first lines, and each try has a directory of its own.
                let _ = fs::remove_dir_all(&now);
                Err(fault)
            }
        }
    }

    fn end_logs(&mut self) -> Result<(), ExportError> {
        let Some(mut logs) = self.logs.take() else {
            return Ok(());
        };
        logs.keep_directory(&self.directory);
        let mut result = Ok(());
        for lines in &mut logs.lines {
            result = result.and(lines.finish());
            self.written += lines.written();
            self.lost += lines.lost();
        }
        if logs.now != logs.then {
            let renamed = fs::rename(&logs.now, &logs.then)
                .map_err(|error| ExportError::from_io(&logs.then.display().to_string(), error));
            result = result.and(renamed);
        }
        result
    }
}

/// The header line: a mark, then the columns' names and numbers.
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
            // After a fault the rest of the batch is not tried again.
            let due = self.slot.is_over(record.end_ns) || self.logs.is_none();
            if due
                && first_fault.is_ok()
                && let Err(fault) = self.next_slot(record.start_ns, record.end_ns)
            {
                first_fault = Err(fault);
            }
            let Some(logs) = &mut self.logs else {
                self.lost += 1;
                continue;
            };
            let connection = Connection::of(batch, row, record);
            let (log, columns): (usize, &[Column]) = match (is_tcp, connection.is_complete()) {
                (false, _) => (UDP_COMPLETE, &UDP),
                (true, true) => (TCP_COMPLETE, &TCP),
                (true, false) => (TCP_NOCOMPLETE, &TCP[..CORE]),
            };
            let lines = &mut logs.lines[log];
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
        logs.keep_directory(&self.directory);
        let mut result = Ok(());
        for lines in &mut logs.lines {
            result = result.and(lines.flush());
        }
        result
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.end_logs()
    }

    fn written(&self) -> u64 {
        let logs = self.logs.iter().flat_map(|logs| &logs.lines);
        self.written + logs.map(Lines::written).sum::<u64>()
    }

    fn lost(&self) -> u64 {
        let logs = self.logs.iter().flat_map(|logs| &logs.lines);
        self.lost + logs.map(Lines::lost).sum::<u64>()
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}
