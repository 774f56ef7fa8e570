//! CSV (RFC 4180, lines ended by a line feed alone): a line of names, then a line a record.

use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured, Run};
use crate::column::{Field, Value, columns};
use crate::error::ExportError;
use crate::lines::{Lines, Place};
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use crate::{ExportOptions, Exporter};
use flow::analysis::{AnalysisValue, Filling, Source};
use flow::{Analysis, Record, RecordBatch, Schema};
use std::borrow::Cow;

/// Writes records as comma-separated values; a field without a value is empty. No value of a
/// record needs quotes, but for texts of applications.
#[derive(Debug)]
pub(crate) struct Csv {
    lines: Lines,
    fields: Vec<Field>,
    statistics: usize,
    runs: Vec<MeasureRun>,
    times: TimeText,
}

#[derive(Debug)]
struct MeasureRun {
    run: Run<Measure>,
    /// Where the values come from, if they are none of applications.
    sources: Vec<Source>,
    /// What stands there for a flow of which nothing of the kind was seen.
    unseen: Box<[u8]>,
    /// And for one that has no values in it.
    nothing: Box<[u8]>,
}

impl MeasureRun {
    fn new(run: Run<Measure>) -> Self {
        let mut made = Self {
            nothing: vec![b','; run.cells.len()].into(),
            sources: run
                .cells
                .iter()
                .filter_map(|measure| match measure {
                    Measure::Analysis(column) => Some(column.source()),
                    Measure::Name(_) => None,
                })
                .collect(),
            run,
            unseen: Box::default(),
        };
        let mut text = Text::default();
        made.write(&mut text, &mut TimeText::default(), &Analysis::unseen());
        made.unseen = text.as_bytes().into();
        made
    }

    /// Values of a flow, none of them a text of any length.
    #[inline(always)]
    fn write(&self, text: &mut Text, times: &mut TimeText, analysis: &Analysis) {
        let bytes_max = self.sources.len() * (MEASURE_BYTES_MAX + 1);
        text.append(bytes_max, |pen| {
            for source in &self.sources {
                match source.value(analysis) {
                    AnalysisValue::None => pen.byte(b','),
                    AnalysisValue::Number(number) => pen.unsigned_and(number, b','),
                    value => {
                        measure::write(pen, times, value);
                        pen.byte(b',');
                    }
                }
            }
        });
    }
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
            runs: Run::all(measures, |measure| measure)
                .into_iter()
                .map(MeasureRun::new)
                .collect(),
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
                    Value::Unsigned(value) => {
                        pen.unsigned_and(value, b',');
                        continue;
                    }
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
        for run in &self.runs {
            match run.run.filling(analysis) {
                Filling::Nothing => self.lines.text.slice(&run.nothing),
                Filling::Unseen => self.lines.text.slice(&run.unseen),
                Filling::Own if run.run.has_texts() => {
                    for measure in &run.run.cells {
                        let value = measure.value(analysis);
                        name(&mut self.lines.text, &mut self.times, value);
                    }
                }
                Filling::Own => run.write(&mut self.lines.text, &mut self.times, analysis),
            }
        }
        self.lines.text.replace_last(b'\n');
    }
}

/// A value that may be a text of any length.
fn name(text: &mut Text, times: &mut TimeText, value: Measured<'_>) {
    match value {
        Measured::Plain(value) => text.append(MEASURE_BYTES_MAX + 1, |pen| {
            measure::write(pen, times, value);
            pen.byte(b',');
        }),
        Measured::Text(value) => {
            let value = quoted(value);
            text.append(value.len() + 1, |pen| {
                pen.slice(value.as_bytes());
                pen.byte(b',');
            });
        }
    }
}

/// `text` with quotes around it if it has a comma, a quote or the end of a line in it (RFC 4180
/// section 2).
fn quoted(text: &str) -> Cow<'_, str> {
    if measure::has_any(text, *b",\"\r\n", false) {
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
