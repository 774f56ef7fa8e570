//! Parquet: what the crate's reader finds, and how files are named and split.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod samples;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};
use export::{ExportOptions, Exporter, SCHEMA_VERSION};
use flow::{FlowDefinition, RecordBatch, Schema};
use samples::{batch, both_directions, dns, neighbour, ping, schema, statistic, tcp};
use std::fs::File;
use std::path::Path;

fn open(target: &Path, schema: &Schema, options: &ExportOptions) -> Box<dyn Exporter> {
    let spec = format!("parquet:{}", target.display()).parse().unwrap();
    export::open(&spec, schema, options).unwrap()
}

fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn field(row: &Row, name: &str) -> Field {
    row.get_column_iter()
        .find(|(column, _)| *column == name)
        .unwrap_or_else(|| panic!("no column {name}"))
        .1
        .clone()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn records_read_back_with_their_types() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.parquet");
    let schema = Schema {
        vlan: true,
        statistics: vec![statistic("packetSizeMeanBytes")],
        ..schema(FlowDefinition::Bidirectional)
    };
    let options = ExportOptions {
        community_id: true,
        ..ExportOptions::default()
    };
    let mut exporter = open(&path, &schema, &options);
    let batch = RecordBatch {
        records: vec![both_directions(), dns(), ping(), neighbour()],
        values: vec![1.5, f64::NAN, -0.0, f64::INFINITY],
        ..RecordBatch::default()
    };
    exporter.write(&batch).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (4, 0));

    let rows = rows(&path);
    assert_eq!(rows.len(), 4);
    let string = |text: &str| Field::Str(text.to_owned());
    for (name, expected) in [
        ("flowDurationNanoseconds", Field::ULong(2_500_000_000)),
        ("ipVersion", Field::UByte(4)),
        ("sourceIPv4Address", string("128.232.110.120")),
        ("destinationIPv4Address", string("66.35.250.204")),
        ("sourceIPv6Address", Field::Null),
        ("sourceTransportPort", Field::UShort(34855)),
        ("protocolIdentifier", Field::UByte(6)),
        ("dot1qVlanId", Field::Null),
        ("packets", Field::ULong(17)),
        ("bytes", Field::ULong(1_000_500)),
        ("reverseLayer2OctetDeltaCount", Field::ULong(500)),
        ("biflowDirection", Field::UByte(1)),
        ("tcpControlBits", Field::UByte(27)),
        ("reverseTcpControlBits", Field::UByte(20)),
        ("icmpTypeCodeIPv4", Field::Null),
        ("endReason", string("tcp-rst")),
        ("bitsPerSecond", Field::Double(3_201_600.0)),
        ("communityId", string("1:LQU9qZlK+B5F3KDmev6m5PMibrg=")),
        ("packetSizeMeanBytes", Field::Double(1.5)),
    ] {
        assert_eq!(field(&rows[0], name), expected, "{name}");
    }
    for (row, name, expected) in [
        (1, "sourceIPv6Address", string("2001:db8::1:0:0:1")),
        (1, "packetsPerSecond", Field::Null),
        (1, "packetSizeMeanBytes", Field::Null),
        (2, "dot1qVlanId", Field::UShort(4095)),
        (2, "dot1qCustomerVlanId", Field::UShort(100)),
        (2, "icmpTypeCodeIPv4", Field::UShort(2048)),
        (2, "packetSizeMeanBytes", Field::Double(-0.0)),
        (3, "icmpTypeCodeIPv6", Field::UShort(34560)),
        (3, "endReason", string("active")),
        (3, "packetSizeMeanBytes", Field::Null),
    ] {
        assert_eq!(field(&rows[row], name), expected, "row {row} {name}");
    }
}

/// More records than a page holds, with all kinds of columns: few and many distinct values, in runs
/// and alternating; all, some or no records with a value; batches of all sizes.
#[test]
fn many_records_read_back_in_order() {
    const RECORDS: usize = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.parquet");
    let schema = Schema {
        statistics: vec![statistic("packetSizeMeanBytes")],
        ..schema(FlowDefinition::FiveTuple)
    };
    let record = |at: usize| {
        let mut record = if at % 1000 < 300 { dns() } else { tcp() };
        record.key.source[..4].copy_from_slice(&((at / 40) as u32).to_be_bytes());
        record.key.source_port = (at * 7919 % 60_000) as u16;
        record.packets[0] = 1 + (at as u64 / 900) % 3;
        record.bytes[0] = u64::MAX - 1500 * at as u64;
        record.start_ns += at as i64 * 1_000_003;
        record
    };
    let mean = |at: usize| {
        if at.is_multiple_of(5) {
            f64::NAN
        } else {
            at as f64 / 3.0
        }
    };
    let mut exporter = open(&path, &schema, &ExportOptions::default());
    let mut begin = 0;
    for length in (1..).step_by(131) {
        let end = RECORDS.min(begin + length);
        exporter
            .write(&RecordBatch {
                records: (begin..end).map(record).collect(),
                values: (begin..end).map(mean).collect(),
                ..RecordBatch::default()
            })
            .unwrap();
        begin = end;
        if begin == RECORDS {
            break;
        }
    }
    exporter.finish().unwrap();

    let rows = rows(&path);
    assert_eq!(rows.len(), RECORDS);
    for (at, row) in rows.iter().enumerate() {
        let record = record(at);
        let [a, b, c, d, ..] = record.key.source;
        let address = Field::Str(format!("{a}.{b}.{c}.{d}"));
        let v4 = record.key.version == 4;
        for (name, expected) in [
            ("sourceIPv4Address", if v4 { address } else { Field::Null }),
            ("ipVersion", Field::UByte(record.key.version)),
            ("sourceTransportPort", Field::UShort(record.key.source_port)),
            ("packets", Field::ULong(record.packets[0])),
            ("bytes", Field::ULong(record.bytes[0])),
            ("icmpTypeCodeIPv4", Field::Null),
            (
                "packetSizeMeanBytes",
                if mean(at).is_nan() {
                    Field::Null
                } else {
                    Field::Double(mean(at))
                },
            ),
        ] {
            assert_eq!(field(row, name), expected, "row {at} {name}");
        }
    }
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let group = reader.metadata().row_group(0);
    let bytes = group
        .columns()
        .iter()
        .find(|it| it.column_path().string() == "bytes");
    let statistics = bytes.and_then(|it| it.statistics()).unwrap();
    // An unsigned number that is negative as a signed one.
    let least = u64::MAX - 1500 * (RECORDS as u64 - 1);
    assert_eq!(statistics.min_bytes_opt(), Some(&least.to_le_bytes()[..]));
    assert_eq!(
        statistics.max_bytes_opt(),
        Some(&u64::MAX.to_le_bytes()[..])
    );
    assert_eq!(statistics.null_count_opt(), Some(0));
}

#[test]
fn times_have_nanoseconds_and_the_file_has_its_schema_version() {
    use ::parquet::basic::{LogicalType, TimeUnit};
    use ::parquet::column::reader::ColumnReader;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.parquet");
    let schema = schema(FlowDefinition::FiveTuple);
    let mut exporter = open(&path, &schema, &ExportOptions::default());
    exporter.write(&batch(&[tcp(), ping()])).unwrap();
    exporter.finish().unwrap();

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let file = reader.metadata().file_metadata();
    assert_eq!(
        file.schema_descr().column(0).logical_type_ref(),
        Some(&LogicalType::timestamp(true, TimeUnit::NANOS))
    );
    let value = |key: &str| {
        file.key_value_metadata()
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == key))
            .and_then(|pair| pair.value.clone())
    };
    assert_eq!(
        value("flowatch.schemaVersion"),
        Some(SCHEMA_VERSION.to_string())
    );
    assert_eq!(value("flowatch.flow"), Some("5tuple".to_owned()));
    assert!(file.created_by().unwrap().starts_with("flowatch version "));

    let group = reader.get_row_group(0).unwrap();
    let ColumnReader::Int64ColumnReader(mut starts) = group.get_column_reader(0).unwrap() else {
        panic!("flowStartNanoseconds is no INT64");
    };
    let mut values = Vec::new();
    starts.read_records(10, None, None, &mut values).unwrap();
    assert_eq!(values, [tcp().start_ns, ping().start_ns]);
}

#[test]
fn directory_gets_files_of_limited_size_and_keeps_those_of_other_runs() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("flows");
    let options = ExportOptions {
        row_group_records: 10,
        file_records: 25,
        ..ExportOptions::default()
    };
    let schema = schema(FlowDefinition::FiveTuple);
    let mut exporter = open(&target, &schema, &options);
    assert_eq!(names(&target), ["flows-00000.parquet.partial"]);
    // 64 records: three row groups make a file of 30; two such files, and 4 records in a third.
    exporter.write(&batch(&[dns(); 64])).unwrap();
    assert_eq!(exporter.written(), 60);
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (64, 0));

    let mut again = open(&target, &schema, &options);
    again.write(&batch(&[tcp(); 3])).unwrap();
    again.finish().unwrap();
    assert_eq!(
        names(&target),
        [
            "flows-00000.parquet",
            "flows-00001.parquet",
            "flows-00002.parquet",
            "flows-00003.parquet"
        ]
    );
    let counts: Vec<usize> = names(&target)
        .iter()
        .map(|name| rows(&target.join(name)).len())
        .collect();
    assert_eq!(counts, [30, 30, 4, 3]);
}

#[test]
fn file_without_records_has_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.parquet");
    let schema = schema(FlowDefinition::Source);
    open(&path, &schema, &ExportOptions::default())
        .finish()
        .unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    assert!(
        columns
            .iter()
            .any(|column| column.name() == "sourceIPv4Address")
    );
    assert!(
        !columns
            .iter()
            .any(|column| column.name() == "sourceTransportPort")
    );
}
