//! Turns records into columns, and columns into a row group.

use super::chunk::{ChunkWriter, Sink};
use super::column::{Column, ColumnEncoding};
use super::column_builder::ColumnBuilder;
use super::row_selection::RowSelection;
use crate::column::measure::{self, ColumnGroup, Measure};
use crate::column::{Availability, DataType, Field, SCHEMA_VERSION, columns, statistics};
use crate::options::ExportOptions;
use crate::time_text::TimeFormatter;
use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, KeyValue, RowGroupMetaData};
use ::parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use analysis::{ColumnSelection, visit_columns};
use flow::{FlowDefinition, RecordBatch, Schema};
use std::ops::Range;
use std::sync::Arc;

/// The buffered columns of a row group; buffers are reused for the next one.
pub(super) struct Columns {
    fields: Vec<(Field, Column)>,
    statistics: Vec<Column>,
    /// The selected analysis columns, if any.
    chosen: Option<ColumnSelection>,
    /// Their groups.
    analysis_groups: Vec<ColumnGroup<Column>>,
    /// The application-layer columns.
    app_groups: Vec<ColumnGroup<(Measure, Column)>>,
    times: TimeFormatter,
    selection: RowSelection,
    records: usize,
    writer: ChunkWriter,
    schema: SchemaDescPtr,
    key_values: Vec<KeyValue>,
}

impl Columns {
    pub(super) fn new(schema: &Schema, options: &ExportOptions) -> Result<Self, ParquetError> {
        let mut types = Vec::new();
        let mut fields = Vec::new();
        for definition in columns(schema, options) {
            let optional = !definition.empty_when.is_empty();
            types.push(column_type(
                definition.name,
                definition.data_type,
                optional,
            )?);
            let wide_time = definition.data_type == DataType::DateTimeNanoseconds
                || definition.field == Field::Duration;
            let packing = if wide_time {
                ColumnEncoding::Delta
            } else if definition.availability == Availability::CommunityId {
                ColumnEncoding::Plain
            } else {
                encoding(definition.data_type)
            };
            let column = Column::new(definition.data_type, optional, packing);
            fields.push((definition.field, column));
        }
        let mut statistics = Vec::new();
        for statistic in &schema.statistics {
            types.push(column_type(&statistic.name, DataType::Float64, true)?);
            statistics.push(Column::new(DataType::Float64, true, ColumnEncoding::Plain));
        }
        let measures = measure::measures(schema);
        for measure in &measures {
            types.push(column_type(measure.name(), measure.data_type(), true)?);
        }
        let root = Type::group_type_builder("flow")
            .with_fields(types)
            .build()?;
        let (app_measures, flow_measures): (Vec<_>, Vec<_>) =
            measures.into_iter().partition(Measure::is_application);
        let column = |measure: Measure| {
            let kind = measure.data_type();
            Column::new(kind, true, encoding(kind))
        };
        Ok(Self {
            fields,
            statistics,
            chosen: measure::chosen(schema),
            analysis_groups: ColumnGroup::group(flow_measures, column),
            app_groups: ColumnGroup::group(app_measures, |measure| (measure, column(measure))),
            times: TimeFormatter::default(),
            selection: RowSelection::default(),
            records: 0,
            writer: ChunkWriter::default(),
            schema: Arc::new(SchemaDescriptor::new(Arc::new(root))),
            key_values: vec![
                key_value("flowatch.schemaVersion", &SCHEMA_VERSION.to_string()),
                key_value("flowatch.flow", flow_name(schema.flow)),
            ],
        })
    }

    /// Number of buffered records.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    pub(super) const fn schema(&self) -> &SchemaDescPtr {
        &self.schema
    }

    /// Returns the key-value metadata of every file.
    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        self.key_values.clone()
    }

    /// Appends the records of `batch` in `rows`.
    pub(super) fn push(&mut self, batch: &RecordBatch, rows: Range<usize>) {
        let records = batch.records.get(rows.clone()).unwrap_or_default();
        self.selection.select_all(records.len());
        // One column at a time, so that the field is constant in the inner loop.
        for (field, column) in &mut self.fields {
            column.push(*field, records, &mut self.selection);
        }
        let width = self.statistics.len();
        let mut floats = Vec::with_capacity(records.len());
        for (index, column) in self.statistics.iter_mut().enumerate() {
            floats.clear();
            floats.extend(rows.clone().map(|row| {
                let value = statistics(batch, row, width).get(index);
                value.copied().unwrap_or(f64::NAN)
            }));
            column.push_floats(&floats, &mut self.selection);
        }
        let mut builder = ColumnBuilder {
            batch,
            rows,
            groups: self.analysis_groups.iter_mut(),
            columns: [].iter_mut(),
            analyses: Vec::with_capacity(records.len()),
            selection: &mut self.selection,
            times: &mut self.times,
        };
        if let Some(chosen) = self.chosen {
            visit_columns(&mut builder, chosen);
        }
        for group in &mut self.app_groups {
            builder.select_rows(|analysis| group.part_state(analysis));
            for (measure, column) in &mut group.columns {
                if builder.selection.is_empty() {
                    column.push_nulls(builder.rows.len());
                } else {
                    column.push_measure(measure, &builder.analyses, builder.selection);
                }
            }
        }
        self.records += records.len();
    }

    /// Removes the records and keeps the capacity.
    pub(super) fn clear(&mut self) {
        self.records = 0;
        let statistics = self.statistics.iter_mut();
        let fields = self.fields.iter_mut().map(|(_, column)| column);
        let analysis = self
            .analysis_groups
            .iter_mut()
            .flat_map(|group| &mut group.columns);
        let names = self
            .app_groups
            .iter_mut()
            .flat_map(|group| &mut group.columns);
        fields
            .chain(statistics)
            .chain(analysis)
            .chain(names.map(|(_, column)| column))
            .for_each(Column::clear);
    }

    /// Writes the buffered records as row group `number` of the file.
    pub(super) fn write(
        &mut self,
        number: usize,
        sink: &mut Sink,
    ) -> Result<RowGroupMetaData, ParquetError> {
        let begin = sink.bytes_written();
        let fields = self.fields.iter().map(|(_, column)| column);
        let analysis = self.analysis_groups.iter().flat_map(|group| &group.columns);
        let names = self.app_groups.iter().flat_map(|group| &group.columns);
        let columns = fields
            .chain(&self.statistics)
            .chain(analysis)
            .chain(names.map(|(_, column)| column));
        let mut chunks = Vec::with_capacity(self.schema.num_columns());
        for (column, descriptor) in columns.zip(self.schema.columns()) {
            let chunk = self.writer.write(column, self.records, descriptor, sink)?;
            chunks.push(chunk);
        }
        let bytes = chunks.iter().map(ColumnChunkMetaData::uncompressed_size);
        RowGroupMetaData::builder(Arc::clone(&self.schema))
            .set_num_rows(self.records as i64)
            .set_total_byte_size(bytes.sum())
            .set_ordinal(number as i32)
            .set_file_offset(begin as i64)
            .set_column_metadata(chunks)
            .build()
    }
}

/// Returns the encoding for a data type: fractional numbers and times rarely repeat.
fn encoding(kind: DataType) -> ColumnEncoding {
    match kind {
        DataType::Float64 | DataType::DateTimeNanoseconds => ColumnEncoding::Plain,
        _ => ColumnEncoding::Dictionary,
    }
}

/// Returns the schema type of a column.
fn column_type(name: &str, kind: DataType, optional: bool) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        DataType::Unsigned8 => (Physical::INT32, Some(LogicalType::integer(8, false))),
        DataType::Unsigned16 => (Physical::INT32, Some(LogicalType::integer(16, false))),
        DataType::Unsigned64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        DataType::Float64 => (Physical::DOUBLE, None),
        DataType::DateTimeNanoseconds => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
        ),
        DataType::Ipv4Address | DataType::Ipv6Address | DataType::String => {
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
