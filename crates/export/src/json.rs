//! NDJSON: one object per line, each with the schema version.

use crate::column::measure::{self, ColumnGroup, MEASURE_BYTES_MAX, Measure, MeasureValue};
use crate::column::{DataType, Field, SCHEMA_VERSION, Value, columns};
use crate::lines::LineFormat;
use crate::options::ExportOptions;
use crate::printable;
use crate::text::{Cursor, Label, TextBuffer};
use crate::time_text::TimeFormatter;
use analysis::Analysis;
use analysis::{
    AnalysisValue, ColumnMetadata, ColumnSelection, ColumnVisitor, Part, PartState, visit_columns,
};
use flow::{Record, Schema};

/// Formats records as JSON objects.
///
/// A field that does not apply to a record (the IPv6 address of an IPv4 flow) is omitted. A measure
/// without a value (the rate of a one-packet flow) is `null`.
#[derive(Debug)]
pub(crate) struct Json {
    columns: Vec<Column>,
    statistics: Vec<Label>,
    /// The selected analysis columns, if any.
    chosen: Option<ColumnSelection>,
    /// Their groups.
    analysis_groups: Vec<MeasureGroup>,
    /// Maximum length of all analysis columns.
    analysis_bytes_max: usize,
    /// The application-layer columns.
    app_groups: Vec<ColumnGroup<MeasureColumn>>,
    prefix: Label,
    /// The prefix up to the comma after the schema version.
    file_start: Box<[u8]>,
    /// Maximum length of a line without analysis columns.
    line_bytes_max: usize,
    times: TimeFormatter,
}

/// An analysis column.
#[derive(Clone, Debug)]
struct MeasureColumn {
    /// `,"name":` and, for a string, the opening quote.
    label: Label,
    measure: Measure,
    is_text: bool,
}

impl MeasureColumn {
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

/// More columns than any group has.
const GROUP_COLUMNS_MAX: usize = 64;

#[derive(Debug)]
struct MeasureGroup {
    /// The columns, padded to [`GROUP_COLUMNS_MAX`] by repeating the last one, so that access needs
    /// no bounds check.
    columns: Vec<MeasureColumn>,
    /// The text of the group for a flow without observations of this kind.
    unseen: Box<[u8]>,
}

#[derive(Debug)]
struct Column {
    /// `,"name":` and, for a string, the opening quote.
    label: Label,
    field: Field,
}

impl Json {
    pub(crate) fn new(schema: &Schema, options: &ExportOptions) -> Self {
        let columns: Vec<Column> = columns(schema, options)
            .into_iter()
            .map(|column| {
                let quote = match column.data_type {
                    DataType::DateTimeNanoseconds
                    | DataType::Ipv4Address
                    | DataType::Ipv6Address
                    | DataType::String => "\"",
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
        let groups = ColumnGroup::group(measure::measures(schema), MeasureColumn::new);
        let (app_groups, analysis_groups): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(ColumnGroup::has_text);
        let analysis_bytes_max = analysis_groups
            .iter()
            .flat_map(|group| &group.columns)
            .map(|column| column.label.len() + MEASURE_BYTES_MAX + 1)
            .sum();
        let opening = format!("{{\"schemaVersion\":{SCHEMA_VERSION}");
        let file_start = format!("{opening},").into_bytes().into();
        let opening = Label::new(&opening);
        let labels = columns
            .iter()
            .map(|column| &column.label)
            .chain(&statistics);
        // Each value with its closing quote, then the closing brace and line feed.
        let fields: usize = labels
            .map(|label| label.len() + Cursor::VALUE_BYTES_MAX + 1)
            .sum();
        Self {
            chosen: measure::chosen(schema),
            analysis_groups: analysis_groups.into_iter().map(MeasureGroup::new).collect(),
            analysis_bytes_max,
            app_groups,
            line_bytes_max: opening.len() + fields + 2,
            columns,
            statistics,
            prefix: opening,
            file_start,
            times: TimeFormatter::default(),
        }
    }

    /// Appends the analysis columns.
    // See `append_record`, of which it is a part.
    #[inline(always)]
    fn append_analysis(
        &mut self,
        text: &mut TextBuffer,
        analysis: &Analysis,
        chosen: ColumnSelection,
    ) {
        let (groups, times) = (&self.analysis_groups, &mut self.times);
        text.append(self.analysis_bytes_max, |cursor| {
            cursor.write_outlined(|cursor| {
                AnalysisWriter::write(cursor, times, groups, analysis, chosen)
            });
        });
        for group in &self.app_groups {
            if group.part_state(analysis) == PartState::Present {
                for column in &group.columns {
                    let value = column.measure.value(analysis);
                    append_measure(text, &mut self.times, column, value);
                }
            }
        }
    }
}

impl LineFormat for Json {
    fn header(&self) -> &[u8] {
        b""
    }

    fn file_start(&self) -> &[u8] {
        &self.file_start
    }

    fn statistics_per_record(&self) -> usize {
        self.statistics.len()
    }

    // Out of line, it and its parts cost a JSON record 11 % more instructions: each column is a call.
    #[inline(always)]
    fn append_record(
        &mut self,
        text: &mut TextBuffer,
        record: &Record,
        values: &[f64],
        analysis: &Analysis,
    ) {
        text.append(self.line_bytes_max, |cursor| {
            cursor.label(&self.prefix);
            for column in &self.columns {
                match column.field.value(record) {
                    Value::Absent => continue,
                    Value::Octet(value) => {
                        cursor.labelled(&column.label, value.into());
                        continue;
                    }
                    Value::Unsigned(value) => {
                        cursor.labelled(&column.label, value);
                        continue;
                    }
                    Value::Float(value) => {
                        cursor.label(&column.label);
                        number_or_null(cursor, value);
                        continue;
                    }
                    Value::Time(time_ns) => {
                        cursor.label(&column.label);
                        self.times.write(cursor, time_ns);
                    }
                    Value::Ipv4(address) => {
                        cursor.label(&column.label);
                        cursor.ipv4(address);
                    }
                    Value::Ipv6(address) => {
                        cursor.label(&column.label);
                        cursor.ipv6(address);
                    }
                    Value::Word(word) => {
                        cursor.label(&column.label);
                        cursor.word(word);
                    }
                    Value::CommunityId(id) => {
                        cursor.label(&column.label);
                        cursor.bytes(id.as_str().as_bytes());
                    }
                }
                // Only strings get here.
                cursor.byte(b'"');
            }
            for (label, &value) in self.statistics.iter().zip(values) {
                cursor.label(label);
                number_or_null(cursor, value);
            }
        });
        if let Some(chosen) = self.chosen {
            self.append_analysis(text, analysis, chosen);
        }
        text.append(2, |cursor| cursor.put(b"}\n", 2));
    }
}

impl MeasureGroup {
    fn new(group: ColumnGroup<MeasureColumn>) -> Self {
        let mut text = TextBuffer::default();
        for column in &group.columns {
            let value = column.measure.value(measure::unseen());
            append_measure(&mut text, &mut TimeFormatter::default(), column, value);
        }
        let mut columns = group.columns;
        assert!(
            columns.len() <= GROUP_COLUMNS_MAX,
            "a group of {} columns",
            columns.len()
        );
        if let Some(last) = columns.last().cloned() {
            columns.resize(GROUP_COLUMNS_MAX, last);
        }
        Self {
            columns,
            unseen: text.as_bytes().into(),
        }
    }
}

/// Appends the analysis columns to a line.
struct AnalysisWriter<'a> {
    analysis: &'a Analysis,
    groups: std::slice::Iter<'a, MeasureGroup>,
    /// The columns of the current group, and the index of the next one, which is a constant after
    /// inlining.
    columns: &'a [MeasureColumn; GROUP_COLUMNS_MAX],
    next: usize,
    cursor: Cursor<'a>,
    times: &'a mut TimeFormatter,
}

impl AnalysisWriter<'_> {
    /// Writes the values of a flow. Returns the new offset.
    #[inline(never)]
    fn write(
        cursor: Cursor<'_>,
        times: &mut TimeFormatter,
        groups: &[MeasureGroup],
        analysis: &Analysis,
        chosen: ColumnSelection,
    ) -> u32 {
        let Some(none) = groups.first().and_then(|group| group.columns.first_chunk()) else {
            return cursor.offset();
        };
        let mut writer = AnalysisWriter {
            analysis,
            groups: groups.iter(),
            columns: none,
            next: 0,
            cursor,
            times,
        };
        visit_columns(&mut writer, chosen);
        writer.cursor.offset()
    }
}

impl ColumnVisitor for AnalysisWriter<'_> {
    #[inline]
    fn visit_part(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        let Some(group) = self.groups.next() else {
            debug_assert!(false, "no group for {part:?}");
            return;
        };
        match self.analysis.part_state(part) {
            PartState::Empty => {}
            PartState::Default => self.cursor.bytes(&group.unseen),
            PartState::Present => {
                if let Some(group_columns) = group.columns.first_chunk() {
                    (self.columns, self.next) = (group_columns, 0);
                    columns(self);
                }
            }
        }
    }

    // See `append_record`, of which it is a part.
    #[inline(always)]
    fn visit_column(
        &mut self,
        _: &ColumnMetadata,
        _: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a>,
    ) {
        if let Some(column) = self.columns.get(self.next) {
            let value = value(self.analysis);
            write_measure(&mut self.cursor, self.times, column, value);
        }
        self.next += 1;
    }
}

/// Appends a value, which may be text of any length.
fn append_measure(
    text: &mut TextBuffer,
    times: &mut TimeFormatter,
    column: &MeasureColumn,
    value: MeasureValue<'_>,
) {
    match value {
        MeasureValue::Bounded(AnalysisValue::None) => {}
        MeasureValue::Bounded(value) => {
            let bytes_max = column.label.len() + MEASURE_BYTES_MAX + 1;
            text.append(bytes_max, |cursor| {
                write_measure(cursor, times, column, value);
            });
        }
        MeasureValue::Text(value) if measure::needs_escape(value) => {
            text.append(column.label.len(), |cursor| cursor.label(&column.label));
            printable::append_json(text, value);
            text.append(1, |cursor| cursor.byte(b'"'));
        }
        MeasureValue::Text(value) => {
            let bytes_max = column.label.len() + value.len() + 1;
            text.append(bytes_max, |cursor| {
                cursor.label(&column.label);
                cursor.bytes(value.as_bytes());
                cursor.byte(b'"');
            });
        }
    }
}

// See `append_record`, of which it is a part.
#[inline(always)]
fn write_measure(
    cursor: &mut Cursor<'_>,
    times: &mut TimeFormatter,
    column: &MeasureColumn,
    value: AnalysisValue<'_>,
) {
    match value {
        AnalysisValue::None => {}
        AnalysisValue::Number(number) => cursor.labelled(&column.label, number),
        AnalysisValue::Real(real) if real.is_finite() => {
            cursor.label(&column.label);
            cursor.float(real);
        }
        AnalysisValue::Seconds(Some(nanoseconds)) => {
            cursor.label(&column.label);
            cursor.seconds(nanoseconds);
        }
        AnalysisValue::Real(_) | AnalysisValue::Seconds(None) => {
            cursor.labelled_null(&column.label);
        }
        _ => {
            cursor.label(&column.label);
            measure::write_value(cursor, times, value);
            if column.is_text {
                cursor.byte(b'"');
            }
        }
    }
}

#[inline]
fn number_or_null(cursor: &mut Cursor<'_>, value: f64) {
    if value.is_finite() {
        cursor.float(value);
    } else {
        cursor.put(b"null", 4);
    }
}

/// Escapes `name` for a JSON string (RFC 8259 section 7).
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
