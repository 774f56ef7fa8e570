//! NDJSON: one object a line, each with the version of the schema.

use crate::ExportOptions;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured, Run};
use crate::column::{Field, Kind, SCHEMA_VERSION, Value, columns};
use crate::error::ExportError;
use crate::lines::{Format, Lines, Place};
use crate::text::{Label, Pen, Text};
use crate::time_text::TimeText;
use analysis::Analysis;
use analysis::{About, AnalysisValue, Chosen, Filling, Part, Table, describe};
use flow::{Record, Schema};

/// Writes records as JSON objects.
///
/// A field that has no meaning for a record (an IPv6 address of an IPv4 flow) is left out; a
/// measure that has no value (the rate of a flow of one packet) is `null`.
#[derive(Debug)]
pub(crate) struct Json {
    lines: Lines,
    columns: Vec<Column>,
    statistics: Vec<Label>,
    /// The columns of an analysis, if there are any.
    chosen: Option<Chosen>,
    /// These, by what they have values with.
    analysis_runs: Vec<MeasureRun>,
    /// The most bytes of all of them.
    analysis_bytes_max: usize,
    /// The columns of applications.
    names: Vec<Run<Cell>>,
    opening: Label,
    /// What a line may have at most.
    line_bytes_max: usize,
    times: TimeText,
}

/// A column of an analysis.
#[derive(Clone, Debug)]
struct Cell {
    /// `,"name":` and the opening quote of a string.
    label: Label,
    measure: Measure,
    is_text: bool,
}

impl Cell {
    fn new(measure: Measure) -> Self {
        let is_text = measure.is_text();
        let quote = if is_text { "\"" } else { "" };
        Self {
            label: Label::new(&format!(",\"{}\":{quote}", measure.name())),
            measure,
            is_text,
        }
    }
}

/// More columns than any run has.
const RUN_MAX: usize = 64;

#[derive(Debug)]
struct MeasureRun {
    /// [`RUN_MAX`] cells: the columns, then the last one again, so that no column has to look whether
    /// its cell is there.
    cells: Vec<Cell>,
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
        let runs = Run::all(measure::measures(schema), Cell::new);
        let (names, analysis_runs): (Vec<_>, Vec<_>) = runs.into_iter().partition(Run::has_texts);
        let analysis_bytes_max = analysis_runs
            .iter()
            .flat_map(|run| &run.cells)
            .map(|cell| cell.label.len() + MEASURE_BYTES_MAX + 1)
            .sum();
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
            chosen: measure::chosen(schema),
            analysis_runs: analysis_runs.into_iter().map(MeasureRun::new).collect(),
            analysis_bytes_max,
            names,
            line_bytes_max: opening.len() + fields + 2,
            columns,
            statistics,
            opening,
            times: TimeText::default(),
        })
    }

    /// What an analysis found.
    #[inline(always)]
    fn measured(&mut self, analysis: &Analysis, chosen: Chosen) {
        let (runs, times) = (&self.analysis_runs, &mut self.times);
        self.lines.text.append(self.analysis_bytes_max, |pen| {
            pen.apart(|pen| Cells::write(pen, times, runs, analysis, chosen));
        });
        for run in &self.names {
            if run.filling(analysis) == Filling::Own {
                for cell in &run.cells {
                    let value = cell.measure.value(analysis);
                    name(&mut self.lines.text, &mut self.times, cell, value);
                }
            }
        }
    }
}

impl Format for Json {
    fn lines(&self) -> &Lines {
        &self.lines
    }

    fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn statistics(&self) -> usize {
        self.statistics.len()
    }

    #[inline(always)]
    fn line(&mut self, record: &Record, values: &[f64], analysis: &Analysis) {
        self.lines.text.append(self.line_bytes_max, |pen| {
            pen.label(&self.opening);
            for column in &self.columns {
                match column.field.value(record) {
                    Value::Absent => continue,
                    Value::Small(value) => {
                        pen.labelled(&column.label, value.into());
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
        if let Some(chosen) = self.chosen {
            self.measured(analysis, chosen);
        }
        self.lines.text.append(2, |pen| pen.put(b"}\n", 2));
    }
}

impl MeasureRun {
    fn new(run: Run<Cell>) -> Self {
        let mut text = Text::default();
        for cell in &run.cells {
            let value = cell.measure.value(measure::unseen());
            name(&mut text, &mut TimeText::default(), cell, value);
        }
        let mut cells = run.cells;
        assert!(cells.len() <= RUN_MAX, "a run of {} columns", cells.len());
        if let Some(last) = cells.last().cloned() {
            cells.resize(RUN_MAX, last);
        }
        Self {
            cells,
            unseen: text.as_bytes().into(),
        }
    }
}

/// Takes the columns of an analysis into a line.
struct Cells<'a> {
    analysis: &'a Analysis,
    runs: std::slice::Iter<'a, MeasureRun>,
    /// Those of the run, and the number of the next, which is a constant where this is compiled into.
    cells: &'a [Cell; RUN_MAX],
    next: usize,
    pen: Pen<'a>,
    times: &'a mut TimeText,
}

impl Cells<'_> {
    /// Writes the values of a flow, and says where they end.
    #[inline(never)]
    fn write(
        pen: Pen<'_>,
        times: &mut TimeText,
        runs: &[MeasureRun],
        analysis: &Analysis,
        chosen: Chosen,
    ) -> u32 {
        let Some(none) = runs.first().and_then(|run| run.cells.first_chunk()) else {
            return pen.at();
        };
        let mut cells = Cells {
            analysis,
            runs: runs.iter(),
            cells: none,
            next: 0,
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
        let Some(run) = self.runs.next() else {
            debug_assert!(false, "{part:?} was not described");
            return;
        };
        match self.analysis.filling(part) {
            Filling::Nothing => {}
            Filling::Unseen => self.pen.slice(&run.unseen),
            Filling::Own => {
                if let Some(cells) = run.cells.first_chunk() {
                    (self.cells, self.next) = (cells, 0);
                    columns(self);
                }
            }
        }
    }

    #[inline(always)]
    fn column(
        &mut self,
        _: &About,
        _: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a>,
    ) {
        if let Some(cell) = self.cells.get(self.next) {
            let value = value(self.analysis);
            measured(&mut self.pen, self.times, cell, value);
        }
        self.next += 1;
    }
}

/// A value that may be a text of any length.
fn name(text: &mut Text, times: &mut TimeText, cell: &Cell, value: Measured<'_>) {
    match value {
        Measured::Plain(AnalysisValue::None) => {}
        Measured::Plain(value) => {
            let bytes_max = cell.label.len() + MEASURE_BYTES_MAX + 1;
            text.append(bytes_max, |pen| measured(pen, times, cell, value));
        }
        Measured::Text(value) if measure::needs_escape(value) => {
            text.append(cell.label.len(), |pen| pen.label(&cell.label));
            measure::append_escaped(text, value);
            text.append(1, |pen| pen.byte(b'"'));
        }
        Measured::Text(value) => {
            let bytes_max = cell.label.len() + value.len() + 1;
            text.append(bytes_max, |pen| {
                pen.label(&cell.label);
                pen.slice(value.as_bytes());
                pen.byte(b'"');
            });
        }
    }
}

#[inline(always)]
fn measured(pen: &mut Pen<'_>, times: &mut TimeText, cell: &Cell, value: AnalysisValue<'_>) {
    match value {
        AnalysisValue::None => {}
        AnalysisValue::Number(number) => pen.labelled(&cell.label, number),
        AnalysisValue::Real(real) if real.is_finite() => {
            pen.label(&cell.label);
            pen.float(real);
        }
        AnalysisValue::Seconds(Some(nanoseconds)) => {
            pen.label(&cell.label);
            pen.seconds(nanoseconds);
        }
        AnalysisValue::Real(_) | AnalysisValue::Seconds(None) => pen.labelled_null(&cell.label),
        _ => {
            pen.label(&cell.label);
            measure::write(pen, times, value);
            if cell.is_text {
                pen.byte(b'"');
            }
        }
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
