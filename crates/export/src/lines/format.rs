//! Formats with one line per record.

use super::{Destination, LineWriter};
use crate::column::{measure, statistics};
use crate::error::ExportError;
use crate::exporter::Exporter;
use crate::text::TextBuffer;
use analysis::Analysis;
use flow::{Record, RecordBatch};

/// A format that writes each record as a line.
pub(crate) trait LineFormat: Send {
    /// Returns the first line of every file and connection; empty if there is none.
    fn header(&self) -> &[u8];

    /// Returns how a file with the same columns begins.
    fn file_start(&self) -> &[u8] {
        self.header()
    }

    /// Number of statistics of each record.
    fn statistics_per_record(&self) -> usize;

    /// Appends a record, with its line feed.
    fn append_record(
        &mut self,
        text: &mut TextBuffer,
        record: &Record,
        values: &[f64],
        analysis: &Analysis,
    );
}

/// Writes the lines of a format to files.
#[derive(Debug)]
pub(crate) struct LineExporter<F> {
    format: F,
    writer: LineWriter,
}

impl<F: LineFormat> LineExporter<F> {
    /// Opens the output. Every file begins with the header of the format.
    pub(crate) fn open(format: F, destination: Destination) -> Result<Self, ExportError> {
        let (header, start) = (format.header(), format.file_start());
        let writer = LineWriter::open_allowing_full_disk(destination, header, start)?;
        Ok(Self { format, writer })
    }
}

impl<F: LineFormat> Exporter for LineExporter<F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let width = self.format.statistics_per_record();
        let writer = &mut self.writer;
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if let Err(fault) = writer.rotate_if_due(record.end_ns) {
                first_fault = first_fault.and(Err(fault));
            }
            let analysis = measure::analysis(&batch.analyses, row);
            let values = statistics(batch, row, width);
            self.format
                .append_record(&mut writer.text, record, values, analysis);
            if let Err(fault) = writer.end_line() {
                first_fault = first_fault.and(Err(fault));
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.writer.flush()
    }

    fn reopen(&mut self) -> Result<(), ExportError> {
        self.writer.reopen()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.writer.finish()
    }

    fn written(&self) -> u64 {
        self.writer.written()
    }

    fn lost(&self) -> u64 {
        self.writer.lost()
    }
}
