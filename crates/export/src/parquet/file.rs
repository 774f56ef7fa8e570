//! One Parquet file: row groups encoded in memory, then written; and a footer that fits what is
//! really in the file, even when the disk filled up.

use super::chunk::Sink;
use super::columns::Columns;
use super::created_by;
use crate::error::ExportError;
use crate::output::Output;
use crate::rotation::Names;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use ::parquet::schema::types::SchemaDescPtr;
use std::io::Write as _;
use std::sync::Arc;

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// A file that is being written.
pub(super) struct ParquetFile {
    /// In memory, so that a fault of the disk never leaves it in the middle.
    sink: Sink,
    /// The row groups that went into it.
    groups: Vec<RowGroupMetaData>,
    output: Output,
    /// What the file is called now, and what when it is complete, if that differs.
    names: Option<Names>,
    schema: SchemaDescPtr,
    key_values: Vec<KeyValue>,
    /// Encoded bytes that the output has not taken yet; at most one row group.
    staged: Vec<u8>,
    /// Where each row group ends in the file.
    ends: Vec<u64>,
    /// Records encoded.
    records: u64,
}

impl ParquetFile {
    pub(super) fn new(
        output: Output,
        names: Option<Names>,
        columns: &Columns,
    ) -> Result<Self, ExportError> {
        let mut sink = Sink::new(Vec::new());
        sink.write_all(MAGIC)
            .map_err(|error| refused(&output, &error.into()))?;
        Ok(Self {
            sink,
            groups: Vec::new(),
            output,
            names,
            schema: Arc::clone(columns.schema()),
            key_values: columns.key_values(),
            staged: Vec::new(),
            ends: Vec::new(),
            records: 0,
        })
    }

    /// Where it is written.
    pub(super) const fn output(&self) -> &Output {
        &self.output
    }

    /// Leaves it the name that it has when it is complete: somebody gave it another.
    pub(super) fn keep_name(&mut self) {
        self.names = None;
    }

    /// Records taken so far.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// Bytes encoded so far.
    pub(super) fn bytes(&self) -> u64 {
        self.sink.bytes_written() as u64
    }

    /// Writes the records gathered in `columns` as a row group: whether they were taken, and what
    /// went wrong.
    ///
    /// A row group that the output does not take is kept, and tried again before the next one;
    /// meanwhile no other is taken, so that memory stays bounded.
    pub(super) fn write_row_group(
        &mut self,
        columns: &mut Columns,
    ) -> (bool, Result<(), ExportError>) {
        if let Err(fault) = self.write_staged() {
            return (false, Err(fault));
        }
        let written = columns.write(self.groups.len(), &mut self.sink);
        let flushed = written.and_then(|group| {
            self.sink.flush()?;
            Ok(group)
        });
        match flushed {
            Ok(group) => self.groups.push(group),
            Err(error) => return (false, Err(refused(&self.output, &error))),
        }
        // Nothing is staged any more: the two change places.
        std::mem::swap(&mut self.staged, self.sink.inner_mut());
        self.ends.push(self.sink.bytes_written() as u64);
        self.records += columns.records() as u64;
        (true, self.write_staged())
    }

    fn write_staged(&mut self) -> Result<(), ExportError> {
        let (taken, result) = self.output.write(&self.staged);
        self.staged.drain(..taken);
        result
    }

    /// Completes the file: how many of its records a reader finds in it, and what went wrong.
    pub(super) fn finish(mut self) -> (u64, Result<(), ExportError>) {
        let groups = std::mem::take(&mut self.groups);
        let all = self.finish_with(&groups);
        let (kept, result) = match all {
            Ok(()) => (groups.as_slice(), Ok(())),
            Err(fault) => match self.salvage(&groups) {
                Some(kept) => (kept, Err(fault)),
                // Not even one row group fits with a footer: nobody can read what there is.
                None => {
                    self.output.remove();
                    return (0, Err(fault));
                }
            },
        };
        let written = kept.iter().map(|group| group.num_rows() as u64).sum();
        match self.names.as_ref().map_or(Ok(()), Names::complete) {
            Ok(()) => (written, result),
            // Under its name of now nobody looks for it.
            Err(fault) => (0, result.and(Err(fault))),
        }
    }

    /// Writes what is staged, and the footer for all row groups.
    fn finish_with(&mut self, groups: &[RowGroupMetaData]) -> Result<(), ExportError> {
        self.write_staged()?;
        let footer = self.footer(groups)?;
        // The encoder's own first bytes are staged with the first row group only.
        if groups.is_empty() {
            self.staged.extend_from_slice(MAGIC);
        }
        self.staged.extend_from_slice(&footer);
        self.write_staged()
    }

    /// When not all fits: as many row groups as fit with their footer, from the first on.
    fn salvage<'a>(&mut self, groups: &'a [RowGroupMetaData]) -> Option<&'a [RowGroupMetaData]> {
        for kept in (1..=groups.len()).rev() {
            let (Some(&end), Some(groups)) = (self.ends.get(kept - 1), groups.get(..kept)) else {
                break;
            };
            if self.output.length().is_none_or(|length| length < end) {
                continue;
            }
            let cut = self.output.cut(end);
            let footer = cut.and_then(|()| self.footer(groups));
            if footer.is_ok_and(|footer| self.output.write(&footer).1.is_ok()) {
                return Some(groups);
            }
        }
        None
    }

    /// The metadata of the file, its length, and the last magic bytes.
    fn footer(&self, groups: &[RowGroupMetaData]) -> Result<Vec<u8>, ExportError> {
        let file = FileMetaData::new(
            1,
            groups.iter().map(RowGroupMetaData::num_rows).sum(),
            Some(created_by()),
            Some(self.key_values.clone()),
            Arc::clone(&self.schema),
            None,
        );
        let metadata = ParquetMetaData::new(file, groups.to_vec());
        let mut footer = Vec::new();
        match ParquetMetaDataWriter::new(&mut footer, &metadata).finish() {
            Ok(()) => Ok(footer),
            Err(error) => Err(refused(&self.output, &error)),
        }
    }
}

fn refused(output: &Output, error: &ParquetError) -> ExportError {
    ExportError::Parquet {
        target: output.name().to_owned(),
        reason: error.to_string(),
    }
}
