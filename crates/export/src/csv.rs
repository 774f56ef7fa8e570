//! CSV (RFC 4180, lines ended by a line feed alone): a line of names, then a line a record.

use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured};
use crate::column::{Field, Value, columns};
use crate::error::ExportError;
use crate::lines::{Lines, Place};
use crate::text::Pen;
use crate::time_text::TimeText;
use crate::{ExportOptions, Exporter};
use flow::{Analysis, Record, RecordBatch, Schema};
use std::borrow::Cow;

/// Writes records as comma-separated values; a field without a value is empty. No value of a
/// record needs quotes, but for texts of applications.
#[derive(Debug)]
pub(crate) struct Csv {
    lines: Lines,
    fields: Vec<Field>,
    statistics: usize,
    measures: Vec<Measure>,
    times: TimeText,
}

impl Csv {
    /// Every file begins with the line of names, or is not begun.
    pub(crate) fn open(
        place: Place,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        let columns = columns(schema, options);
        let names = columns.iter().map(|column| column.name);
        let statistics = schema.statistics.iter().map(|column| column.name.as_str());
        let measures = measure::measures(schema);
        let measured = measures.iter().map(Measure::name);
        let names: Vec<_> = names
            .chain(statistics)
            .chain(measured)
            .map(quoted)
            .collect();
        let header = names.join(",") + "\n";
        Ok(Self {
            lines: Lines::open(place, header.as_bytes())?,
            fields: columns.into_iter().map(|column| column.field).collect(),
            statistics: schema.statistics.len(),
            measures,
            times: TimeText::default(),
        })
    }

    #[inline(always)]
    fn line(&mut self, record: &Record, values: &[f64], analysis: &Analysis) {
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
        for measure in &self.measures {
            match measure.value(analysis) {
                Measured::Plain(value) => {
                    self.lines.text.append(MEASURE_BYTES_MAX + 1, |pen| {
                        measure::write(pen, &mut self.times, value);
                        pen.byte(b',');
                    });
                }
                Measured::Text(text) => {
                    self.lines.text.slice(quoted(text).as_bytes());
                    self.lines.text.slice(b",");
                }
            }
        }
        self.lines.text.replace_last(b'\n');
    }
}

/// `text` with quotes around it if it has a comma, a quote or the end of a line in it (RFC 4180
/// section 2).
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

impl Exporter for Csv {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if let Err(fault) = self.lines.make_way(record.end_ns) {
                first_fault = first_fault.and(Err(fault));
            }
            let analysis = measure::analysis(&batch.analyses, row);
            self.line(
                record,
                crate::statistics(batch, row, self.statistics),
                analysis,
            );
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
