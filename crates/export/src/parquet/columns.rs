//! Records turned into columns, and the columns into a row group.

use crate::ExportOptions;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured, Run};
use crate::column::{Field, Kind, Presence, SCHEMA_VERSION, Value, columns};
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use ::parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical,
};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{ColumnPath, Type, TypePtr};
use flow::analysis::{AnalysisValue, Filling};
use flow::{Analysis, FlowDefinition, RecordBatch, Schema};
use std::ops::Range;
use std::sync::Arc;

/// Values on their way into a row group; the room of one row group is used for the next.
pub(super) struct Columns {
    fields: Vec<(Field, Column)>,
    statistics: Vec<Column>,
    runs: Vec<Run<(Measure, Column)>>,
    /// What each record of a batch has in the columns of a run.
    fillings: Vec<Filling>,
    times: TimeText,
    records: usize,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    key_values: Vec<KeyValue>,
}

/// The values of one column.
struct Column {
    values: Values,
    /// For each record 1 or 0: whether it has a value. None where all have.
    present: Option<Vec<i16>>,
}

enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    /// One string after the other, and where each ends.
    Strings {
        text: Text,
        ends: Vec<usize>,
    },
}

impl Columns {
    pub(super) fn new(schema: &Schema, options: &ExportOptions) -> Result<Self, ParquetError> {
        let mut types = Vec::new();
        let mut fields = Vec::new();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_writer_version(WriterVersion::PARQUET_1_0)
            // A row group is what readers skip by these; indexes of pages would be longer than
            // all other metadata.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        for definition in columns(schema, options) {
            let optional = !definition.empty.is_empty();
            types.push(column_type(definition.name, definition.kind, optional)?);
            fields.push((definition.field, Column::new(definition.kind, optional)));
            // Values that hardly repeat would only fill a dictionary that is given up later.
            let path = ColumnPath::from(definition.name);
            let wide_time =
                definition.kind == Kind::DateTimeNanoseconds || definition.field == Field::Duration;
            if wide_time {
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            } else if definition.kind == Kind::Float64
                || definition.presence == Presence::CommunityId
            {
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        let mut statistics = Vec::new();
        for statistic in &schema.statistics {
            types.push(column_type(&statistic.name, Kind::Float64, true)?);
            statistics.push(Column::new(Kind::Float64, true));
            let path = ColumnPath::from(statistic.name.as_str());
            properties = properties.set_column_dictionary_enabled(path, false);
        }
        let measures = measure::measures(schema);
        for measure in &measures {
            let kind = measure.kind();
            types.push(column_type(measure.name(), kind, true)?);
            if matches!(kind, Kind::Float64 | Kind::DateTimeNanoseconds) {
                let path = ColumnPath::from(measure.name());
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        let root = Type::group_type_builder("flow")
            .with_fields(types)
            .build()?;
        Ok(Self {
            fields,
            statistics,
            runs: Run::all(measures, |measure| {
                (measure, Column::new(measure.kind(), true))
            }),
            fillings: Vec::new(),
            times: TimeText::default(),
            records: 0,
            schema: Arc::new(root),
            properties: Arc::new(properties.build()),
            key_values: vec![
                key_value("flowatch.schemaVersion", &SCHEMA_VERSION.to_string()),
                key_value("flowatch.flow", flow_name(schema.flow)),
            ],
        })
    }

    /// Records gathered.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    pub(super) const fn schema(&self) -> &TypePtr {
        &self.schema
    }

    pub(super) const fn properties(&self) -> &WriterPropertiesPtr {
        &self.properties
    }

    /// What the metadata of every file says of its records.
    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        self.key_values.clone()
    }

    /// Takes the records of `batch` in `rows`.
    pub(super) fn push(&mut self, batch: &RecordBatch, rows: Range<usize>) {
        let records = batch.records.get(rows.clone()).unwrap_or_default();
        // A column at a time, so that the choice of the field is the same all along.
        for (field, column) in &mut self.fields {
            for record in records {
                column.push(field.value(record));
            }
        }
        let width = self.statistics.len();
        for (place, column) in self.statistics.iter_mut().enumerate() {
            for row in rows.clone() {
                let value = crate::statistics(batch, row, width).get(place);
                column.push(Value::Float(value.copied().unwrap_or(f64::NAN)));
            }
        }
        for run in &mut self.runs {
            self.fillings.clear();
            let analyses = rows
                .clone()
                .map(|row| measure::analysis(&batch.analyses, row));
            let fillings = analyses.clone().map(|analysis| run.filling(analysis));
            self.fillings.extend(fillings);
            let nothing = self.fillings.iter().all(|&it| it == Filling::Nothing);
            for (measure, column) in &mut run.cells {
                if nothing {
                    column.push_absent(records.len());
                    continue;
                }
                let rows = self.fillings.iter().copied().zip(analyses.clone());
                column.push_measures(measure, rows, &mut self.times);
            }
        }
        self.records += records.len();
    }

    /// Forgets the records and keeps the room.
    pub(super) fn clear(&mut self) {
        self.records = 0;
        for column in self.columns() {
            column.clear();
        }
    }

    fn columns(&mut self) -> impl Iterator<Item = &mut Column> {
        self.fields
            .iter_mut()
            .map(|(_, column)| column)
            .chain(&mut self.statistics)
            .chain(
                self.runs
                    .iter_mut()
                    .flat_map(|run| run.cells.iter_mut().map(|(_, column)| column)),
            )
    }

    /// Encodes the records gathered as a row group.
    pub(super) fn encode(
        &mut self,
        writer: &mut SerializedFileWriter<Vec<u8>>,
    ) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        for column in self.columns() {
            let mut chunk = group
                .next_column()?
                .ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
            column.encode(&mut chunk)?;
            chunk.close()?;
        }
        group.close()?;
        Ok(())
    }
}

impl Column {
    fn new(kind: Kind, optional: bool) -> Self {
        let values = match kind {
            Kind::Unsigned8 | Kind::Unsigned16 => Values::Int32(Vec::new()),
            Kind::Unsigned64 | Kind::DateTimeNanoseconds => Values::Int64(Vec::new()),
            Kind::Float64 => Values::Double(Vec::new()),
            Kind::Ipv4Address | Kind::Ipv6Address | Kind::String => Values::Strings {
                text: Text::default(),
                ends: Vec::new(),
            },
        };
        Self {
            values,
            present: optional.then(Vec::new),
        }
    }

    /// So many records without a value.
    #[inline(always)]
    fn push_absent(&mut self, count: usize) {
        if let Some(present) = &mut self.present {
            present.resize(present.len() + count, 0);
        }
    }

    #[inline(always)]
    fn push(&mut self, value: Value<'_>) {
        let absent = match value {
            Value::Absent => true,
            Value::Float(value) => !value.is_finite(),
            _ => false,
        };
        if let Some(present) = &mut self.present {
            present.push(i16::from(!absent));
            if absent {
                return;
            }
        }
        match (&mut self.values, value) {
            // Unsigned numbers stand in the signed types as their bits; the logical type says so.
            (Values::Int32(values), Value::Small(value)) => values.push(value.into()),
            (Values::Int32(values), Value::Unsigned(value)) => values.push(value as i32),
            (Values::Int64(values), Value::Unsigned(value)) => values.push(value as i64),
            (Values::Int64(values), Value::Time(time_ns)) => values.push(time_ns),
            (Values::Double(values), Value::Float(value)) => values.push(value),
            (Values::Strings { text, ends }, value) => {
                text.append(Pen::VALUE_BYTES_MAX, |pen| match value {
                    Value::Ipv4(address) => pen.ipv4(address),
                    Value::Ipv6(address) => pen.ipv6(address),
                    Value::Word(word) => pen.word(word),
                    Value::CommunityId(id) => pen.slice(id.as_str().as_bytes()),
                    _ => debug_assert!(false, "{value:?} is no string"),
                });
                ends.push(text.len());
            }
            (_, value) => debug_assert!(false, "{value:?} does not fit its column"),
        }
    }

    /// The values of a measure in the records of a batch, each with what it has of the measure's
    /// kind.
    fn push_measures<'a>(
        &mut self,
        measure: &Measure,
        rows: impl Iterator<Item = (Filling, &'a Analysis)>,
        times: &mut TimeText,
    ) {
        if let (Measure::Analysis(column), Some(present)) = (measure, &mut self.present) {
            let source = column.source();
            // The type is chosen once, not for each value.
            match &mut self.values {
                Values::Int32(values) => {
                    return fill(present, values, rows, |it| match source.value(it) {
                        AnalysisValue::Number(number) => Some(number as i32),
                        _ => None,
                    });
                }
                Values::Int64(values) => {
                    return fill(present, values, rows, |it| match source.value(it) {
                        AnalysisValue::Number(number) => Some(number as i64),
                        AnalysisValue::Time(time_ns) => Some(time_ns),
                        _ => None,
                    });
                }
                Values::Double(values) => {
                    return fill(present, values, rows, |it| match source.value(it) {
                        AnalysisValue::Real(real) if real.is_finite() => Some(real),
                        _ => None,
                    });
                }
                Values::Strings { .. } => {}
            }
        }
        for (filling, analysis) in rows {
            match filling {
                Filling::Nothing => self.push_absent(1),
                Filling::Unseen | Filling::Own => {
                    self.push_measure(measure.value(analysis), times);
                }
            }
        }
    }

    fn push_measure(&mut self, measured: Measured<'_>, times: &mut TimeText) {
        let value = match measured {
            Measured::Plain(AnalysisValue::None) => Value::Absent,
            Measured::Plain(AnalysisValue::Number(number)) => Value::Unsigned(number),
            Measured::Plain(AnalysisValue::Real(real)) => Value::Float(real),
            Measured::Plain(AnalysisValue::Time(time_ns)) => Value::Time(time_ns),
            Measured::Plain(list) => {
                return self.push_text(MEASURE_BYTES_MAX, |pen| {
                    measure::write(pen, times, list);
                });
            }
            Measured::Text(text) => {
                return self.push_text(text.len(), |pen| pen.slice(text.as_bytes()));
            }
        };
        self.push(value);
    }

    fn push_text(&mut self, bytes_max: usize, write: impl FnOnce(&mut Pen<'_>)) {
        if let Some(present) = &mut self.present {
            present.push(1);
        }
        if let Values::Strings { text, ends } = &mut self.values {
            text.append(bytes_max, write);
            ends.push(text.len());
        }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Double(values) => values.clear(),
            Values::Strings { text, ends } => {
                text.clear();
                ends.clear();
            }
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
    }

    fn encode(&self, chunk: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &self.values {
            Values::Int32(values) => chunk
                .typed::<Int32Type>()
                .write_batch(values, present, None)?,
            Values::Int64(values) => chunk
                .typed::<Int64Type>()
                .write_batch(values, present, None)?,
            Values::Double(values) => chunk
                .typed::<DoubleType>()
                .write_batch(values, present, None)?,
            Values::Strings { text, ends } => {
                // The encoder wants shared bytes: all strings share one copy of the text.
                let all = ByteArray::from(text.as_bytes().to_vec());
                let mut start = 0;
                let mut strings = Vec::with_capacity(ends.len());
                for &end in ends {
                    strings.push(all.slice(start, end - start));
                    start = end;
                }
                chunk
                    .typed::<ByteArrayType>()
                    .write_batch(&strings, present, None)?
            }
        };
        Ok(())
    }
}

/// Appends the values of records that have one, and which have.
#[inline(always)]
fn fill<'a, T>(
    present: &mut Vec<i16>,
    values: &mut Vec<T>,
    rows: impl Iterator<Item = (Filling, &'a Analysis)>,
    value: impl Fn(&'a Analysis) -> Option<T>,
) {
    present.extend(rows.map(|(filling, analysis)| {
        let value = match filling {
            Filling::Nothing => None,
            Filling::Unseen | Filling::Own => value(analysis),
        };
        let there = value.is_some();
        if let Some(value) = value {
            values.push(value);
        }
        i16::from(there)
    }));
}

/// The type of a column as the schema of a file has it.
fn column_type(name: &str, kind: Kind, optional: bool) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Unsigned8 => (Physical::INT32, Some(LogicalType::integer(8, false))),
        Kind::Unsigned16 => (Physical::INT32, Some(LogicalType::integer(16, false))),
        Kind::Unsigned64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Float64 => (Physical::DOUBLE, None),
        Kind::DateTimeNanoseconds => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
        ),
        Kind::Ipv4Address | Kind::Ipv6Address | Kind::String => {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        }
    };
    let repetition = if optional {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
        .map(Arc::new)
}

fn key_value(key: &str, value: &str) -> KeyValue {
    KeyValue::new(key.to_owned(), value.to_owned())
}

/// The name of a flow definition on the command line.
const fn flow_name(flow: FlowDefinition) -> &'static str {
    match flow {
        FlowDefinition::FiveTuple => "5tuple",
        FlowDefinition::Bidirectional => "bidirectional",
        FlowDefinition::Source => "src",
        FlowDefinition::Destination => "dst",
        FlowDefinition::SourceDestination => "src-dst",
        FlowDefinition::Rss => "rss",
    }
}
