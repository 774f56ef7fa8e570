//! Formats that have a line for each record.

use super::Lines;
use crate::column::measure;
use crate::error::ExportError;
use crate::{Exporter, statistics};
use analysis::Analysis;
use flow::{Record, RecordBatch};

/// A format that writes each record as a line.
pub(crate) trait Format: Send {
    fn lines(&self) -> &Lines;

    fn lines_mut(&mut self) -> &mut Lines;

    /// Statistics of each record.
    fn statistics(&self) -> usize;

    /// Puts a record into the text of the lines.
    fn line(&mut self, record: &Record, values: &[f64], analysis: &Analysis);
}

impl<F: Format> Exporter for F {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let width = self.statistics();
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if let Err(fault) = self.lines_mut().make_way(record.end_ns) {
                first_fault = first_fault.and(Err(fault));
            }
            let analysis = measure::analysis(&batch.analyses, row);
            self.line(record, statistics(batch, row, width), analysis);
            if let Err(fault) = self.lines_mut().end_line() {
                first_fault = first_fault.and(Err(fault));
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.lines_mut().flush()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.lines_mut().finish()
    }

    fn written(&self) -> u64 {
        self.lines().written()
    }

    fn lost(&self) -> u64 {
        self.lines().lost()
    }
}
