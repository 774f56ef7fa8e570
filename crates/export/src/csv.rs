//! CSV (RFC 4180, lines ended by a line feed alone): a line of names, then a line a record.

use crate::ExportOptions;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured, Run};
use crate::column::{Field, Value, columns};
use crate::error::ExportError;
use crate::lines::{Format, Lines, Place};
use crate::text::{Label, Pen, Text};
use crate::time_text::TimeText;
use analysis::Analysis;
use analysis::{About, AnalysisValue, Chosen, Filling, Part, Table, describe};
use flow::{Record, Schema};
use std::borrow::Cow;

/// Writes records as comma-separated values; a field without a value is empty. No value of a
/// record needs quotes, but for texts of applications.
#[derive(Debug)]
pub(crate) struct Csv {
    lines: Lines,
    fields: Vec<Field>,
    statistics: usize,
    /// The columns of an analysis, if there are any.
    chosen: Option<Chosen>,
    /// These, by what they have values with.
    blanks: Vec<Blank>,
    /// The most bytes of all of them.
    analysis_bytes_max: usize,
    /// The columns of applications, and what stands there for flows that have no values in them.
    names: Vec<(Run<Measure>, Label)>,
    times: TimeText,
}

/// What stands in the columns of a run for flows that have no values of their own.
#[derive(Debug)]
struct Blank {
    /// For a flow of which nothing of the kind was seen.
    unseen: Label,
    /// And for one that has no values in it.
    nothing: Label,
}

impl Blank {
    fn new(run: &Run<Measure>) -> Self {
        let mut text = Text::default();
        for measure in &run.cells {
            let value = measure.value(measure::unseen());
            name(&mut text, &mut TimeText::default(), value);
        }
        Self {
            unseen: Label::new(&String::from_utf8_lossy(text.as_bytes())),
            nothing: nothing(run),
        }
    }
}

/// What stands in the columns of a run for a flow that has no values in it.
fn nothing(run: &Run<Measure>) -> Label {
    Label::new(&",".repeat(run.cells.len()))
}

/// Takes the columns of an analysis into a line.
struct Cells<'a> {
    analysis: &'a Analysis,
    blanks: std::slice::Iter<'a, Blank>,
    pen: Pen<'a>,
    times: &'a mut TimeText,
}

impl Cells<'_> {
    /// Writes the values of a flow, and says where they end.
    #[inline(never)]
    fn write(
        pen: Pen<'_>,
        times: &mut TimeText,
        blanks: &[Blank],
        analysis: &Analysis,
        chosen: Chosen,
    ) -> u32 {
        let mut cells = Cells {
            analysis,
            blanks: blanks.iter(),
            pen,
            times,
        };
        describe(&mut cells, chosen);
        cells.pen.at()
    }
}

impl Table for Cells<'_> {
    #[inline(always)]
    fn run(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        let Some(blank) = self.blanks.next() else {
            debug_assert!(false, "{part:?} was not described");
            return;
        };
        match self.analysis.filling(part) {
            Filling::Nothing => self.pen.label(&blank.nothing),
            Filling::Unseen => self.pen.label(&blank.unseen),
            Filling::Own => columns(self),
        }
    }

    #[inline(always)]
    fn column(
        &mut self,
        _: &About,
        _: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a>,
    ) {
        match value(self.analysis) {
            AnalysisValue::None => self.pen.byte(b','),
            AnalysisValue::Number(number) => self.pen.unsigned_and(number, b','),
            value => {
                measure::write(&mut self.pen, self.times, value);
                self.pen.byte(b',');
            }
        }
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
            .map(|name| match needs_quotes(name) {
                true => quoted(name).into(),
                false => Cow::from(name),
            })
            .collect();
        let header = names.join(",") + "\n";
        let runs = Run::all(measures, |measure| measure);
        let (names, analysis_runs): (Vec<_>, Vec<_>) = runs.into_iter().partition(Run::has_texts);
        let cells: usize = analysis_runs.iter().map(|run| run.cells.len()).sum();
        Ok(Self {
            lines: Lines::open_or_await_room(place, header.as_bytes())?,
            fields: columns.into_iter().map(|column| column.field).collect(),
            statistics: schema.statistics.len(),
            chosen: measure::chosen(schema),
            blanks: analysis_runs.iter().map(Blank::new).collect(),
            analysis_bytes_max: cells * (MEASURE_BYTES_MAX + 1),
            names: names
                .into_iter()
                .map(|run| {
                    let commas = nothing(&run);
                    (run, commas)
                })
                .collect(),
            times: TimeText::default(),
        })
    }
}

impl Format for Csv {
    fn lines(&self) -> &Lines {
        &self.lines
    }

    fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn statistics(&self) -> usize {
        self.statistics
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
        if let Some(chosen) = self.chosen {
            let (blanks, times) = (&self.blanks, &mut self.times);
            self.lines.text.append(self.analysis_bytes_max, |pen| {
                pen.apart(|pen| Cells::write(pen, times, blanks, analysis, chosen));
            });
        }
        for (run, nothing) in &self.names {
            if run.filling(analysis) == Filling::Own {
                for measure in &run.cells {
                    let value = measure.value(analysis);
                    name(&mut self.lines.text, &mut self.times, value);
                }
            } else {
                self.lines
                    .text
                    .append(nothing.len(), |pen| pen.label(nothing));
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
        Measured::Text(value) if needs_quotes(value) => {
            text.slice(quoted(value).as_bytes());
            text.append(1, |pen| pen.byte(b','));
        }
        Measured::Text(value) => text.append(value.len() + 1, |pen| {
            pen.slice(value.as_bytes());
            pen.byte(b',');
        }),
    }
}

/// Whether there is a comma, a quote or the end of a line in `text` (RFC 4180 section 2).
#[inline(always)]
fn needs_quotes(text: &str) -> bool {
    measure::has_any(text, *b",\"\r\n", false)
}

/// `text` with quotes around it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
