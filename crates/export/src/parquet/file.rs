//! A single Parquet file: row groups are encoded in memory and then written; the footer matches
//! what is in the file, even after the disk filled up.

use super::chunk::Sink;
use super::columns::Columns;
use crate::error::ExportError;
use crate::output::Output;
use crate::rotation::FilePaths;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use ::parquet::schema::types::SchemaDescPtr;
use std::io::Write as _;
use std::sync::Arc;

/// First and last bytes of a file.
const MAGIC: &[u8; 4] = b"PAR1";

/// A file being written.
pub(super) struct ParquetFile {
    /// In memory, so that a disk error cannot interrupt encoding.
    sink: Sink,
    /// Metadata of the row groups written so far.
    groups: Vec<RowGroupMetaData>,
    output: Output,
    /// Temporary and final path, if the file is renamed when complete.
    paths: Option<FilePaths>,
    schema: SchemaDescPtr,
    key_values: Vec<KeyValue>,
    /// Encoded bytes that the output has not accepted yet: one row group at most.
    staged: Vec<u8>,
    /// End offset of each row group in the file.
    group_ends: Vec<u64>,
    /// Records encoded so far.
    records: u64,
}

impl ParquetFile {
    pub(super) fn new(
        output: Output,
        paths: Option<FilePaths>,
        columns: &Columns,
    ) -> Result<Self, ExportError> {
        let mut sink = Sink::new(Vec::new());
        sink.write_all(MAGIC)
            .map_err(|error| encoder_error(&output, &error.into()))?;
        Ok(Self {
            sink,
            groups: Vec::new(),
            output,
            paths,
            schema: Arc::clone(columns.schema()),
            key_values: columns.key_values(),
            staged: Vec::new(),
            group_ends: Vec::new(),
            records: 0,
        })
    }

    /// The output.
    pub(super) const fn output(&self) -> &Output {
        &self.output
    }

    /// Makes the file keep its current path: it was moved.
    pub(super) fn forget_paths(&mut self) {
        self.paths = None;
    }

    /// Records encoded so far.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// Bytes encoded so far.
    pub(super) fn bytes(&self) -> u64 {
        self.sink.bytes_written() as u64
    }

    /// Writes the records in `columns` as a row group. Returns whether they were accepted, and the
    /// first error.
    ///
    /// A row group that the output does not accept is kept and retried before the next one; no
    /// other is accepted meanwhile, so that memory stays bounded.
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
            Err(error) => return (false, Err(encoder_error(&self.output, &error))),
        }
        // `staged` is empty: swap the buffers.
        std::mem::swap(&mut self.staged, self.sink.inner_mut());
        self.group_ends.push(self.sink.bytes_written() as u64);
        self.records += columns.records() as u64;
        (true, self.write_staged())
    }

    fn write_staged(&mut self) -> Result<(), ExportError> {
        let (accepted, result) = self.output.write(&self.staged);
        self.staged.drain(..accepted);
        result
    }

    /// Completes the file. Returns the number of records that readers find in it, and the first
    /// error.
    pub(super) fn finish(mut self) -> (u64, Result<(), ExportError>) {
        let groups = std::mem::take(&mut self.groups);
        let all = self.write_footer(&groups);
        let (kept, result) = match all {
            Ok(()) => (groups.as_slice(), Ok(())),
            Err(fault) => match self.salvage(&groups) {
                Some(kept) => (kept, Err(fault)),
                // Not even one row group fits with a footer: the contents are unreadable.
                None => {
                    self.output.remove();
                    return (0, Err(fault));
                }
            },
        };
        let written = kept.iter().map(|group| group.num_rows() as u64).sum();
        let stored = self.output.store(self.paths.is_some());
        let named = stored.and_then(|()| self.paths.as_ref().map_or(Ok(()), FilePaths::commit));
        match named {
            Ok(()) => (written, result),
            // Readers ignore files with a temporary name.
            Err(fault) => (0, result.and(Err(fault))),
        }
    }

    /// Writes staged bytes and the footer for all row groups.
    fn write_footer(&mut self, groups: &[RowGroupMetaData]) -> Result<(), ExportError> {
        self.write_staged()?;
        let footer = self.footer(groups)?;
        // The magic bytes are staged with the first row group only.
        if groups.is_empty() {
            self.staged.extend_from_slice(MAGIC);
        }
        self.staged.extend_from_slice(&footer);
        self.write_staged()
    }

    /// If not everything fits, keeps as many row groups from the start as fit with their footer.
    fn salvage<'a>(&mut self, groups: &'a [RowGroupMetaData]) -> Option<&'a [RowGroupMetaData]> {
        for kept in (1..=groups.len()).rev() {
            let (Some(&end), Some(groups)) = (self.group_ends.get(kept - 1), groups.get(..kept))
            else {
                break;
            };
            if self.output.length().is_none_or(|length| length < end) {
                continue;
            }
            let cut = self.output.truncate(end);
            let footer = cut.and_then(|()| self.footer(groups));
            if footer.is_ok_and(|footer| self.output.write(&footer).1.is_ok()) {
                return Some(groups);
            }
        }
        None
    }

    /// Returns the file metadata, its length, and the final magic bytes.
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
            Err(error) => Err(encoder_error(&self.output, &error)),
        }
    }
}

/// Name of the writer for the file metadata.
fn created_by() -> String {
    format!("flowatch version {}", env!("CARGO_PKG_VERSION"))
}

fn encoder_error(output: &Output, error: &ParquetError) -> ExportError {
    ExportError::Parquet {
        target: output.name().to_owned(),
        reason: error.to_string(),
    }
}
