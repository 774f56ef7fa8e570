//! NDJSON: one object a line, each with the version of the schema.

use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured, Run};
use crate::column::{Field, Kind, SCHEMA_VERSION, Value, columns};
use crate::error::ExportError;
use crate::lines::{Lines, Place};
use crate::text::{Label, Pen, Text};
use crate::time_text::TimeText;
use crate::{ExportOptions, Exporter};
use flow::analysis::{AnalysisValue, Filling};
use flow::{Analysis, Record, RecordBatch, Schema};

/// Writes records as JSON objects.
///
/// A field that has no meaning for a record (an IPv6 address of an IPv4 flow) is left out; a
/// measure that has no value (the rate of a flow of one packet) is `null`.
#[derive(Debug)]
pub(crate) struct Json {
    lines: Lines,
    columns: Vec<Column>,
    statistics: Vec<Label>,
    /// Columns of an analysis.
    runs: Vec<MeasureRun>,
    opening: Label,
    /// What a line may have at most.
    line_bytes_max: usize,
    times: TimeText,
}

#[derive(Debug)]
struct MeasureRun {
    run: Run<(Label, Measure)>,
    /// The most bytes of all cells, where none is a text of any length.
    bytes_max: usize,
    /// What stands there for a flow of which nothing of the kind was seen.
    unseen: Box<[u8]>,
}

#[derive(Debug)]
struct Column {
    /// `,"name":` and the opening quote of a string.
    label: Label,
    field: Field,
}

impl Json {
    pub(crate) fn open(
        place: Place,
        schema: &Schema,
        options: &ExportOptions,
    ) -> Result<Self, ExportError> {
        let columns: Vec<Column> = columns(schema, options)
            .into_iter()
            .map(|column| {
                let quote = match column.kind {
                    Kind::DateTimeNanoseconds
                    | Kind::Ipv4Address
                    | Kind::Ipv6Address
                    | Kind::String => "\"",
                    _ => "",
                };
                Column {
                    label: Label::new(&format!(",\"{}\":{quote}", column.name)),
                    field: column.field,
                }
            })
            .collect();
        let statistics: Vec<Label> = schema
            .statistics
            .iter()
            .map(|column| Label::new(&format!(",\"{}\":", escaped(&column.name))))
            .collect();
        let runs = Run::all(measure::measures(schema), |measure| {
            let quote = if measure.is_text() { "\"" } else { "" };
            let label = format!(",\"{}\":{quote}", measure.name());
            (Label::new(&label), measure)
        });
        let runs = runs.into_iter().map(MeasureRun::new).collect();
        let opening = Label::new(&format!("{{\"schemaVersion\":{SCHEMA_VERSION}"));
        let labels = columns
            .iter()
            .map(|column| &column.label)
            .chain(&statistics);
        // A value with its closing quote, and the closing brace and line feed.
        let fields: usize = labels
            .map(|label| label.len() + Pen::VALUE_BYTES_MAX + 1)
            .sum();
        Ok(Self {
            lines: Lines::open(place, b"")?,
            runs,
            line_bytes_max: opening.len() + fields + 2,
            columns,
            statistics,
            opening,
            times: TimeText::default(),
        })
    }

    #[inline(always)]
    fn line(&mut self, record: &Record, values: &[f64], analysis: Option<&Analysis>) {
        self.lines.text.append(self.line_bytes_max, |pen| {
            pen.label(&self.opening);
            for column in &self.columns {
                match column.field.value(record) {
                    Value::Absent => continue,
                    Value::Small(value) => {
                        pen.label(&column.label);
                        pen.small(value);
                        continue;
                    }
                    Value::Unsigned(value) => {
                        pen.labelled(&column.label, value);
                        continue;
                    }
                    Value::Float(value) => {
                        pen.label(&column.label);
                        number_or_null(pen, value);
                        continue;
                    }
                    Value::Time(time_ns) => {
                        pen.label(&column.label);
                        self.times.write(pen, time_ns);
                    }
                    Value::Ipv4(address) => {
                        pen.label(&column.label);
                        pen.ipv4(address);
                    }
                    Value::Ipv6(address) => {
                        pen.label(&column.label);
                        pen.ipv6(address);
                    }
                    Value::Word(word) => {
                        pen.label(&column.label);
                        pen.word(word);
                    }
                    Value::CommunityId(id) => {
                        pen.label(&column.label);
                        pen.slice(id.as_str().as_bytes());
                    }
                }
                // Those that do not continue are strings.
                pen.byte(b'"');
            }
            for (label, &value) in self.statistics.iter().zip(values) {
                pen.label(label);
                number_or_null(pen, value);
            }
        });
        if let Some(analysis) = analysis {
            self.measured(analysis);
        }
        self.lines.text.append(2, |pen| pen.put(b"}\n", 2));
    }

    /// What an analysis found.
    fn measured(&mut self, analysis: &Analysis) {
        for run in &self.runs {
            match run.run.filling(analysis) {
                Filling::Nothing => {}
                Filling::Unseen => self.lines.text.slice(&run.unseen),
                Filling::Own if run.run.has_texts() => {
                    for (label, measure) in &run.run.cells {
                        name(
                            &mut self.lines.text,
                            &mut self.times,
                            label,
                            measure.value(analysis),
                        );
                    }
                }
                Filling::Own => run.write(&mut self.lines.text, &mut self.times, analysis),
            }
        }
    }
}

impl MeasureRun {
    fn new(run: Run<(Label, Measure)>) -> Self {
        let cells = run.cells.iter();
        let bytes_max = cells
            .map(|(label, _)| label.len() + MEASURE_BYTES_MAX + 1)
            .sum();
        let mut made = Self {
            run,
            bytes_max,
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
        text.append(self.bytes_max, |pen| {
            for (label, measure) in &self.run.cells {
                if let Measured::Plain(value) = measure.value(analysis) {
                    measured(pen, times, label, value, measure.is_text());
                }
            }
        });
    }
}

/// A value that may be a text of any length.
fn name(text: &mut Text, times: &mut TimeText, label: &Label, value: Measured<'_>) {
    match value {
        Measured::Plain(AnalysisValue::None) => {}
        Measured::Plain(value) => {
            let bytes_max = label.len() + MEASURE_BYTES_MAX + 1;
            text.append(bytes_max, |pen| measured(pen, times, label, value, false));
        }
        Measured::Text(value) => {
            text.append(label.len(), |pen| pen.label(label));
            measure::append_escaped(text, value);
            text.append(1, |pen| pen.byte(b'"'));
        }
    }
}

#[inline(always)]
fn measured(
    pen: &mut Pen<'_>,
    times: &mut TimeText,
    label: &Label,
    value: AnalysisValue<'_>,
    is_text: bool,
) {
    match value {
        AnalysisValue::None => return,
        AnalysisValue::Number(number) => {
            pen.labelled(label, number);
            return;
        }
        AnalysisValue::Real(real) => {
            pen.label(label);
            number_or_null(pen, real);
            return;
        }
        _ => {}
    }
    pen.label(label);
    measure::write(pen, times, value);
    if is_text {
        pen.byte(b'"');
    }
}

#[inline(always)]
fn number_or_null(pen: &mut Pen<'_>, value: f64) {
    if value.is_finite() {
        pen.float(value);
    } else {
        pen.put(b"null", 4);
    }
}

/// `name` as it stands between the quotes of a JSON string (RFC 8259 section 7).
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            '\0'..' ' => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => escaped.push(character),
        }
    }
    escaped
}

impl Exporter for Json {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let width = self.statistics.len();
        let mut first_fault = Ok(());
        for (row, record) in batch.records.iter().enumerate() {
            if let Err(fault) = self.lines.make_way(record.end_ns) {
                first_fault = first_fault.and(Err(fault));
            }
            let analysis = (!self.runs.is_empty()).then(|| measure::analysis(&batch.analyses, row));
            self.line(record, crate::statistics(batch, row, width), analysis);
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
