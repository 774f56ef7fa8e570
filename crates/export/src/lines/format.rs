//! Formats with one line per record.

use super::LineWriter;
use crate::column::measure;
use crate::error::ExportError;
use crate::{Exporter, statistics};
use analysis::Analysis;
use flow::{Record, RecordBatch};

/// A format that writes each record as a line.
pub(crate) trait LineFormat: Send {
    fn writer(&self) -> &LineWriter;

    fn writer_mut(&mut self) -> &mut LineWriter;

    /// Number of statistics of each record.
    fn statistics_per_record(&self) -> usize;

    /// Appends a record to the text of the writer.
    fn append_record(&mut self, record: &Record, values: &[f64], analysis: &Analysis);
}

impl<F: LineFormat> Exporter for F {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let width = self.statistics_per_record();
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if let Err(fault) = self.writer_mut().rotate_if_due(record.end_ns) {
                first_fault = first_fault.and(Err(fault));
            }
            let analysis = measure::analysis(&batch.analyses, row);
            self.append_record(record, statistics(batch, row, width), analysis);
            if let Err(fault) = self.writer_mut().end_line() {
                first_fault = first_fault.and(Err(fault));
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.writer_mut().flush()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.writer_mut().finish()
    }

    fn written(&self) -> u64 {
        self.writer().written()
    }

    fn lost(&self) -> u64 {
        self.writer().lost()
    }
}
