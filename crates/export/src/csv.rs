//! CSV (RFC 4180, but with LF line ends): a header line with the column names, then a line per
//! record. Text from packets is escaped, so that it acts neither on a terminal nor as a formula.

use crate::column::measure::{self, ColumnGroup, MEASURE_BYTES_MAX, Measure, MeasureValue};
use crate::column::{Field, Value, columns};
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

/// Formats records as comma-separated values; a field without a value is empty. Only
/// application-layer text may need quotes.
#[derive(Debug)]
pub(crate) struct Csv {
    /// The line with the column names.
    header: Box<[u8]>,
    fields: Vec<Field>,
    statistics: usize,
    /// The selected analysis columns, if any.
    chosen: Option<ColumnSelection>,
    /// The text of each of their groups for flows without own values.
    placeholders: Vec<GroupPlaceholder>,
    /// Maximum length of all analysis columns.
    analysis_bytes_max: usize,
    /// The application-layer columns, and the text for flows without values in them.
    app_groups: Vec<(ColumnGroup<Measure>, Label)>,
    times: TimeFormatter,
}

/// The text of a group of columns for flows without own values.
#[derive(Debug)]
struct GroupPlaceholder {
    /// For a flow without observations of this kind.
    unseen: Label,
    /// For a flow that the columns do not apply to.
    no_value: Label,
}

impl GroupPlaceholder {
    fn new(group: &ColumnGroup<Measure>) -> Self {
        let mut text = TextBuffer::default();
        for measure in &group.columns {
            let value = measure.value(measure::unseen());
            append_measure(&mut text, &mut TimeFormatter::default(), value);
        }
        Self {
            unseen: Label::new(&String::from_utf8_lossy(text.as_bytes())),
            no_value: commas(group),
        }
    }
}

/// Returns the text of a group without values.
fn commas(group: &ColumnGroup<Measure>) -> Label {
    Label::new(&",".repeat(group.columns.len()))
}

/// Appends the analysis columns to a line.
struct AnalysisWriter<'a> {
    analysis: &'a Analysis,
    placeholders: std::slice::Iter<'a, GroupPlaceholder>,
    cursor: Cursor<'a>,
    times: &'a mut TimeFormatter,
}

impl AnalysisWriter<'_> {
    /// Writes the values of a flow. Returns the new offset.
    #[inline(never)]
    fn write(
        cursor: Cursor<'_>,
        times: &mut TimeFormatter,
        placeholders: &[GroupPlaceholder],
        analysis: &Analysis,
        chosen: ColumnSelection,
    ) -> u32 {
        let mut writer = AnalysisWriter {
            analysis,
            placeholders: placeholders.iter(),
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
        let Some(placeholder) = self.placeholders.next() else {
            debug_assert!(false, "no group for {part:?}");
            return;
        };
        match self.analysis.part_state(part) {
            PartState::Empty => self.cursor.label(&placeholder.no_value),
            PartState::Default => self.cursor.label(&placeholder.unseen),
            PartState::Present => columns(self),
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
        match value(self.analysis) {
            AnalysisValue::None => self.cursor.byte(b','),
            AnalysisValue::Number(number) => self.cursor.unsigned_then(number, b','),
            value => {
                measure::write_value(&mut self.cursor, self.times, value);
                self.cursor.byte(b',');
            }
        }
    }
}

impl Csv {
    pub(crate) fn new(schema: &Schema, options: &ExportOptions) -> Self {
        let columns = columns(schema, options);
        let names = columns.iter().map(|column| column.name);
        let statistics = schema.statistics.iter().map(|column| column.name.as_str());
        let measures = measure::measures(schema);
        let measured = measures.iter().map(Measure::name);
        let mut header = TextBuffer::default();
        for name in names.chain(statistics).chain(measured) {
            append_measure(
                &mut header,
                &mut TimeFormatter::default(),
                MeasureValue::Text(name),
            );
        }
        header.replace_last(b'\n');
        let groups = ColumnGroup::group(measures, |measure| measure);
        let (app_groups, analysis_groups): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(ColumnGroup::has_text);
        let analysis_columns: usize = analysis_groups
            .iter()
            .map(|group| group.columns.len())
            .sum();
        Self {
            header: header.as_bytes().into(),
            fields: columns.into_iter().map(|column| column.field).collect(),
            statistics: schema.statistics.len(),
            chosen: measure::chosen(schema),
            placeholders: analysis_groups.iter().map(GroupPlaceholder::new).collect(),
            analysis_bytes_max: analysis_columns * (MEASURE_BYTES_MAX + 1),
            app_groups: app_groups
                .into_iter()
                .map(|group| {
                    let commas = commas(&group);
                    (group, commas)
                })
                .collect(),
            times: TimeFormatter::default(),
        }
    }
}

impl LineFormat for Csv {
    fn header(&self) -> &[u8] {
        &self.header
    }

    fn statistics_per_record(&self) -> usize {
        self.statistics
    }

    // As in `json.rs`, so that columns are no calls.
    #[inline(always)]
    fn append_record(
        &mut self,
        text: &mut TextBuffer,
        record: &Record,
        values: &[f64],
        analysis: &Analysis,
    ) {
        // Each value is followed by a comma.
        let bytes_max = (self.fields.len() + values.len()) * (Cursor::VALUE_BYTES_MAX + 1);
        text.append(bytes_max, |cursor| {
            for field in &self.fields {
                match field.value(record) {
                    Value::Absent => {}
                    Value::Octet(value) => cursor.octet(value),
                    Value::Unsigned(value) => {
                        cursor.unsigned_then(value, b',');
                        continue;
                    }
                    Value::Float(value) if value.is_finite() => cursor.float(value),
                    Value::Float(_) => {}
                    Value::Time(time_ns) => self.times.write(cursor, time_ns),
                    Value::Ipv4(address) => cursor.ipv4(address),
                    Value::Ipv6(address) => cursor.ipv6(address),
                    Value::Word(word) => cursor.word(word),
                    Value::CommunityId(id) => cursor.bytes(id.as_str().as_bytes()),
                }
                cursor.byte(b',');
            }
            for &value in values {
                if value.is_finite() {
                    cursor.float(value);
                }
                cursor.byte(b',');
            }
        });
        if let Some(chosen) = self.chosen {
            let (placeholders, times) = (&self.placeholders, &mut self.times);
            text.append(self.analysis_bytes_max, |cursor| {
                cursor.write_outlined(|cursor| {
                    AnalysisWriter::write(cursor, times, placeholders, analysis, chosen)
                });
            });
        }
        for (group, no_value) in &self.app_groups {
            if group.part_state(analysis) == PartState::Present {
                for measure in &group.columns {
                    let value = measure.value(analysis);
                    append_measure(text, &mut self.times, value);
                }
            } else {
                text.append(no_value.len(), |cursor| cursor.label(no_value));
            }
        }
        text.replace_last(b'\n');
    }
}

/// Appends a value, which may be text of any length.
fn append_measure(text: &mut TextBuffer, times: &mut TimeFormatter, value: MeasureValue<'_>) {
    match value {
        MeasureValue::Bounded(value) => text.append(MEASURE_BYTES_MAX + 1, |cursor| {
            measure::write_value(cursor, times, value);
            cursor.byte(b',');
        }),
        MeasureValue::Text(value) if needs_escape(value) => {
            printable::append_csv(text, value);
            text.append(1, |cursor| cursor.byte(b','));
        }
        MeasureValue::Text(value) => text.append(value.len() + 1, |cursor| {
            cursor.bytes(value.as_bytes());
            cursor.byte(b',');
        }),
    }
}

/// Whether `text` may need quotes or escapes: it contains a comma, a quote, a backslash, an unprintable
/// character, or may begin a formula.
#[inline]
fn needs_escape(text: &str) -> bool {
    printable::starts_formula(text) || measure::needs_care(text, *b",\"\\;")
}
