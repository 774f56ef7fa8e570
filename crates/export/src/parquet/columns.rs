//! Records turned into columns, and the columns into a row group.

use super::among::Among;
use super::chunk::{ChunkWriter, Sink};
use super::column::{Column, Packing};
use super::taker::Taker;
use crate::ExportOptions;
use crate::column::measure::{self, Measure, Run};
use crate::column::{Field, Kind, Presence, SCHEMA_VERSION, columns};
use crate::time_text::TimeText;
use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, KeyValue, RowGroupMetaData};
use ::parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use analysis::{Chosen, describe};
use flow::{FlowDefinition, RecordBatch, Schema};
use std::ops::Range;
use std::sync::Arc;

/// Values on their way into a row group; the room of one row group is used for the next.
pub(super) struct Columns {
    fields: Vec<(Field, Column)>,
    statistics: Vec<Column>,
    /// The columns of an analysis, if there are any.
    chosen: Option<Chosen>,
    /// These, by what they have values with.
    analysis: Vec<Run<Column>>,
    /// The columns of applications.
    names: Vec<Run<(Measure, Column)>>,
    times: TimeText,
    among: Among,
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
            let optional = !definition.empty.is_empty();
            types.push(column_type(definition.name, definition.kind, optional)?);
            let wide_time =
                definition.kind == Kind::DateTimeNanoseconds || definition.field == Field::Duration;
            let packing = if wide_time {
                Packing::Delta
            } else if definition.presence == Presence::CommunityId {
                Packing::Plain
            } else {
                packing(definition.kind)
            };
            let column = Column::new(definition.kind, optional, packing);
            fields.push((definition.field, column));
        }
        let mut statistics = Vec::new();
        for statistic in &schema.statistics {
            types.push(column_type(&statistic.name, Kind::Float64, true)?);
            statistics.push(Column::new(Kind::Float64, true, Packing::Plain));
        }
        let measures = measure::measures(schema);
        for measure in &measures {
            types.push(column_type(measure.name(), measure.kind(), true)?);
        }
        let root = Type::group_type_builder("flow")
            .with_fields(types)
            .build()?;
        let (names, of_flow): (Vec<_>, Vec<_>) = measures.into_iter().partition(Measure::is_name);
        let column = |measure: Measure| {
            let kind = measure.kind();
            Column::new(kind, true, packing(kind))
        };
        Ok(Self {
            fields,
            statistics,
            chosen: measure::chosen(schema),
            analysis: Run::all(of_flow, column),
            names: Run::all(names, |measure| (measure, column(measure))),
            times: TimeText::default(),
            among: Among::default(),
            records: 0,
            writer: ChunkWriter::default(),
            schema: Arc::new(SchemaDescriptor::new(Arc::new(root))),
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

    pub(super) const fn schema(&self) -> &SchemaDescPtr {
        &self.schema
    }

    /// What the metadata of every file says of its records.
    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        self.key_values.clone()
    }

    /// Takes the records of `batch` in `rows`.
    pub(super) fn push(&mut self, batch: &RecordBatch, rows: Range<usize>) {
        let records = batch.records.get(rows.clone()).unwrap_or_default();
        self.among.all(records.len());
        // A column at a time, so that the choice of the field is the same all along.
        for (field, column) in &mut self.fields {
            column.push(*field, records, &mut self.among);
        }
        let width = self.statistics.len();
        let mut floats = Vec::with_capacity(records.len());
        for (place, column) in self.statistics.iter_mut().enumerate() {
            floats.clear();
            floats.extend(rows.clone().map(|row| {
                let value = crate::statistics(batch, row, width).get(place);
                value.copied().unwrap_or(f64::NAN)
            }));
            column.push_floats(&floats, &mut self.among);
        }
        let mut taker = Taker {
            batch,
            rows,
            runs: self.analysis.iter_mut(),
            columns: [].iter_mut(),
            analyses: Vec::with_capacity(records.len()),
            among: &mut self.among,
            times: &mut self.times,
        };
        if let Some(chosen) = self.chosen {
            describe(&mut taker, chosen);
        }
        for run in &mut self.names {
            taker.gather(|analysis| run.filling(analysis));
            for (measure, column) in &mut run.cells {
                if taker.among.is_empty() {
                    column.push_none(taker.rows.len());
                } else {
                    column.push_names(measure, &taker.analyses, taker.among);
                }
            }
        }
        self.records += records.len();
    }

    /// Forgets the records and keeps the room.
    pub(super) fn clear(&mut self) {
        self.records = 0;
        let statistics = self.statistics.iter_mut();
        let fields = self.fields.iter_mut().map(|(_, column)| column);
        let analysis = self.analysis.iter_mut().flat_map(|run| &mut run.cells);
        let names = self.names.iter_mut().flat_map(|run| &mut run.cells);
        fields
            .chain(statistics)
            .chain(analysis)
            .chain(names.map(|(_, column)| column))
            .for_each(Column::clear);
    }

    /// Writes the records gathered as a row group, the `number`th of its file.
    pub(super) fn write(
        &mut self,
        number: usize,
        sink: &mut Sink,
    ) -> Result<RowGroupMetaData, ParquetError> {
        let begin = sink.bytes_written();
        let fields = self.fields.iter().map(|(_, column)| column);
        let analysis = self.analysis.iter().flat_map(|run| &run.cells);
        let names = self.names.iter().flat_map(|run| &run.cells);
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

/// How the values of a kind are written: numbers with a fraction hardly repeat, nor do times.
fn packing(kind: Kind) -> Packing {
    match kind {
        Kind::Float64 | Kind::DateTimeNanoseconds => Packing::Plain,
        _ => Packing::Dictionary,
    }
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
