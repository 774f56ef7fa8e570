//! CSV (RFC 4180, lines ended by a line feed alone): a line of names, then a line a record.

use crate::column::{Field, Value, columns};
use crate::error::ExportError;
use crate::lines::Lines;
use crate::output::Output;
use crate::text::Pen;
use crate::time_text::TimeText;
use crate::{ExportOptions, Exporter};
use flow::{Record, RecordBatch, Schema};

/// Writes records as comma-separated values; a field without a value is empty. No value of a
/// record needs quotes.
#[derive(Debug)]
pub(crate) struct Csv {
    lines: Lines,
    fields: Vec<Field>,
    statistics: usize,
    times: TimeText,
}

impl Csv {
    /// Writes the line of names at once, so that it cannot be lost later.
    pub(crate) fn new(
        output: Output,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        let columns = columns(schema, options);
        let mut lines = Lines::new(output);
        let names = columns.iter().map(|column| column.name);
        let statistics = schema.statistics.iter().map(|column| column.name.as_str());
        for name in names.chain(statistics) {
            lines.text.slice(quoted(name).as_bytes());
            lines.text.slice(b",");
        }
        lines.text.replace_last(b'\n');
        lines.end_line()?;
        lines.flush()?;
        lines.uncount();
        Ok(Self {
            lines,
            fields: columns.into_iter().map(|column| column.field).collect(),
            statistics: schema.statistics.len(),
            times: TimeText::default(),
        })
    }

    #[inline(always)]
    fn line(&mut self, record: &Record, values: &[f64]) {
        // A value with its comma.
        let bytes_max = (self.fields.len() + values.len()) * (Pen::VALUE_BYTES_MAX + 1);
        self.lines.text.append(bytes_max, |pen| {
            for field in &self.fields {
                match field.value(record) {
                    Value::Absent => {}
                    Value::Small(value) => pen.small(value),
                    Value::Unsigned(value) => pen.unsigned(value),
                    Value::Float(value) if value.is_finite() => pen.float(value),
                    Value::Float(_) => {}
                    Value::Time(time_ns) => self.times.write(pen, time_ns),
                    Value::Ipv4(address) => pen.ipv4(address),
                    Value::Ipv6(address) => pen.ipv6(address),
                    Value::Word(word) => pen.word(word),
                    Value::CommunityId(id) => pen.slice(id.as_str().as_bytes()),
                }
                pen.byte(b',');
            }
            for &value in values {
                if value.is_finite() {
                    pen.float(value);
                }
                pen.byte(b',');
            }
        });
        self.lines.text.replace_last(b'\n');
    }
}

/// `name` with quotes around it if it has a comma, a quote or the end of a line in it (RFC 4180
/// section 2).
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

impl Exporter for Csv {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            self.line(record, crate::statistics(batch, row, self.statistics));
            if let Err(fault) = self.lines.end_line() {
                first_fault = first_fault.and(Err(fault));
            }
        }
        first_fault
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.lines.flush()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.lines.finish()
    }

    fn written(&self) -> u64 {
        self.lines.written()
    }

    fn lost(&self) -> u64 {
        self.lines.lost()
    }
}
