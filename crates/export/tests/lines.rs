//! JSON and CSV: exact lines, and the results of independent readers.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod samples;

use export::{ExportError, ExportOptions, Format, Spec, Target};
use flow::{FlowDefinition, RecordBatch, Schema};
use samples::{batch, both_directions, dns, neighbour, ping, schema, statistic, tcp};
use std::collections::HashMap;

/// Returns what an exporter writes.
fn exported(
    format: Format,
    schema: &Schema,
    options: &ExportOptions,
    batch: &RecordBatch,
) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let spec = Spec {
        format,
        target: Target::Path(path.clone()),
        compression: None,
        step_s: None,
    };
    let mut exporter = export::open(&spec, schema, options).unwrap();
    exporter.write(batch).unwrap();
    exporter.finish().unwrap();
    assert_eq!(exporter.written(), batch.records.len() as u64);
    assert_eq!(exporter.lost(), 0);
    std::fs::read_to_string(path).unwrap()
}

fn json(schema: &Schema, batch: &RecordBatch) -> String {
    exported(Format::Json, schema, &ExportOptions::default(), batch)
}

fn csv(schema: &Schema, batch: &RecordBatch) -> String {
    exported(Format::Csv, schema, &ExportOptions::default(), batch)
}

#[test]
fn json_of_tcp_over_ipv4() {
    assert_eq!(
        json(&schema(FlowDefinition::FiveTuple), &batch(&[tcp()])),
        concat!(
            r#"{"schemaVersion":1,"flowStartNanoseconds":"2024-02-29T12:34:56.123456789Z","#,
            r#""flowEndNanoseconds":"2024-02-29T12:34:58.623456789Z","#,
            r#""flowDurationNanoseconds":2500000000,"ipVersion":4,"#,
            r#""sourceIPv4Address":"128.232.110.120","destinationIPv4Address":"66.35.250.204","#,
            r#""sourceTransportPort":34855,"destinationTransportPort":80,"protocolIdentifier":6,"#,
            r#""packets":10,"bytes":1000000,"tcpControlBits":27,"#,
            r#""flowEndReason":3,"endReason":"tcp-fin","#,
            r#""packetsPerSecond":4.0,"bitsPerSecond":3200000.0}"#,
            "\n"
        )
    );
}

#[test]
fn json_of_one_packet_over_ipv6_has_null_rates() {
    assert_eq!(
        json(&schema(FlowDefinition::FiveTuple), &batch(&[dns()])),
        concat!(
            r#"{"schemaVersion":1,"flowStartNanoseconds":"2024-02-29T12:34:56.000000000Z","#,
            r#""flowEndNanoseconds":"2024-02-29T12:34:56.000000000Z","#,
            r#""flowDurationNanoseconds":0,"ipVersion":6,"#,
            r#""sourceIPv6Address":"2001:db8::1:0:0:1","destinationIPv6Address":"2001:db8::53","#,
            r#""sourceTransportPort":40000,"destinationTransportPort":53,"protocolIdentifier":17,"#,
            r#""packets":1,"bytes":94,"flowEndReason":1,"endReason":"idle","#,
            r#""packetsPerSecond":null,"bitsPerSecond":null}"#,
            "\n"
        )
    );
}

#[test]
fn json_of_both_directions_has_reverse_names_of_rfc_5103() {
    assert_eq!(
        json(
            &schema(FlowDefinition::Bidirectional),
            &batch(&[both_directions()])
        ),
        concat!(
            r#"{"schemaVersion":1,"flowStartNanoseconds":"2024-02-29T12:34:56.123456789Z","#,
            r#""flowEndNanoseconds":"2024-02-29T12:34:58.623456789Z","#,
            r#""flowDurationNanoseconds":2500000000,"ipVersion":4,"#,
            r#""sourceIPv4Address":"128.232.110.120","destinationIPv4Address":"66.35.250.204","#,
            r#""sourceTransportPort":34855,"destinationTransportPort":80,"protocolIdentifier":6,"#,
            r#""packets":17,"bytes":1000500,"packetDeltaCount":10,"reversePacketDeltaCount":7,"#,
            r#""layer2OctetDeltaCount":1000000,"reverseLayer2OctetDeltaCount":500,"#,
            r#""biflowDirection":1,"tcpControlBits":27,"reverseTcpControlBits":20,"#,
            r#""flowEndReason":3,"endReason":"tcp-rst","#,
            r#""packetsPerSecond":6.8,"bitsPerSecond":3201600.0}"#,
            "\n"
        )
    );
}

#[test]
fn json_of_icmp_in_two_vlans_before_1970() {
    let schema = Schema {
        vlan: true,
        ..schema(FlowDefinition::FiveTuple)
    };
    assert_eq!(
        json(&schema, &batch(&[ping()])),
        concat!(
            r#"{"schemaVersion":1,"flowStartNanoseconds":"1969-12-31T23:59:59.000000000Z","#,
            r#""flowEndNanoseconds":"1970-01-01T00:00:00.000000000Z","#,
            r#""flowDurationNanoseconds":1000000000,"ipVersion":4,"#,
            r#""sourceIPv4Address":"10.0.0.1","destinationIPv4Address":"10.0.0.255","#,
            r#""sourceTransportPort":0,"destinationTransportPort":0,"protocolIdentifier":1,"#,
            r#""dot1qVlanId":4095,"dot1qCustomerVlanId":100,"#,
            r#""packets":3,"bytes":294,"icmpTypeCodeIPv4":2048,"#,
            r#""flowEndReason":4,"endReason":"end-of-input","#,
            r#""packetsPerSecond":3.0,"bitsPerSecond":2352.0}"#,
            "\n"
        )
    );
}

#[test]
fn csv_has_a_header_and_all_fields_in_order() {
    assert_eq!(
        csv(
            &schema(FlowDefinition::FiveTuple),
            &batch(&[tcp(), dns(), neighbour()])
        ),
        "flowStartNanoseconds,flowEndNanoseconds,flowDurationNanoseconds,ipVersion,\
         sourceIPv4Address,destinationIPv4Address,sourceIPv6Address,destinationIPv6Address,\
         sourceTransportPort,destinationTransportPort,protocolIdentifier,packets,bytes,\
         tcpControlBits,icmpTypeCodeIPv4,icmpTypeCodeIPv6,flowEndReason,endReason,\
         packetsPerSecond,bitsPerSecond\n\
         2024-02-29T12:34:56.123456789Z,2024-02-29T12:34:58.623456789Z,2500000000,4,\
         128.232.110.120,66.35.250.204,,,34855,80,6,10,1000000,27,,,3,tcp-fin,4.0,3200000.0\n\
         2024-02-29T12:34:56.000000000Z,2024-02-29T12:34:56.000000000Z,0,6,\
         ,,2001:db8::1:0:0:1,2001:db8::53,40000,53,17,1,94,,,,1,idle,,\n\
         2024-02-29T12:34:56.000000000Z,2024-02-29T12:34:56.000000000Z,0,6,\
         ,,fe80::1,ff02::1:ff00:2,0,0,58,1,94,,,34560,2,active,,\n"
    );
}

#[test]
fn fields_outside_the_flow_definition_are_omitted() {
    for (flow, names) in [
        (
            FlowDefinition::Source,
            ",sourceIPv4Address,sourceIPv6Address,packets,",
        ),
        (
            FlowDefinition::Destination,
            ",destinationIPv4Address,destinationIPv6Address,packets,",
        ),
        (
            FlowDefinition::SourceDestination,
            ",sourceIPv4Address,destinationIPv4Address,sourceIPv6Address,\
             destinationIPv6Address,packets,",
        ),
    ] {
        let text = csv(&schema(flow), &batch(&[]));
        let start = "flowStartNanoseconds,flowEndNanoseconds,flowDurationNanoseconds,ipVersion";
        let end = "bytes,tcpControlBits,flowEndReason,endReason,packetsPerSecond,bitsPerSecond\n";
        assert_eq!(text, format!("{start}{names}{end}"));
    }
}

/// The value for seed 0 is in the README of the specification
/// (github.com/corelight/community-id-spec); the one for seed 1 is in the test vectors of its
/// reference implementation (baseline_seed1.json).
#[test]
fn community_id_matches_the_specification() {
    for (seed, id) in [
        (0, "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (1, "1:3V71V58M3Ksw/yuFALMcW0LAHvc="),
    ] {
        let options = ExportOptions {
            community_id: true,
            community_id_seed: seed,
            ..ExportOptions::default()
        };
        let schema = schema(FlowDefinition::FiveTuple);
        let batch = batch(&[tcp()]);
        let json = exported(Format::Json, &schema, &options, &batch);
        assert!(
            json.ends_with(&format!(",\"communityId\":\"{id}\"}}\n")),
            "{json}"
        );
        let csv = exported(Format::Csv, &schema, &options, &batch);
        assert!(csv.ends_with(&format!(",{id}\n")), "{csv}");
    }
}

fn with_statistics() -> (Schema, RecordBatch) {
    let schema = Schema {
        statistics: vec![
            statistic("packetSizeMeanBytes"),
            statistic("odd \"name\", with\\all"),
        ],
        ..schema(FlowDefinition::FiveTuple)
    };
    let batch = RecordBatch {
        records: vec![tcp(), dns(), ping()],
        values: vec![100_000.5, 1e-7, 94.0, f64::NAN, f64::INFINITY, -1.5],
        ..RecordBatch::default()
    };
    (schema, batch)
}

#[test]
fn json_reads_back_and_non_finite_values_are_null() {
    let (schema, batch) = with_statistics();
    let text = json(&schema, &batch);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    let mean: Vec<Option<f64>> = lines
        .iter()
        .map(|line| line["packetSizeMeanBytes"].as_f64())
        .collect();
    assert_eq!(mean, [Some(100_000.5), Some(94.0), None]);
    let odd: Vec<Option<f64>> = lines
        .iter()
        .map(|line| line["odd \"name\", with\\all"].as_f64())
        .collect();
    assert_eq!(odd, [Some(1e-7), None, Some(-1.5)]);
    assert_eq!(lines[0]["sourceIPv4Address"], "128.232.110.120");
    assert_eq!(lines[0]["bytes"], 1_000_000);
    assert_eq!(lines[1]["destinationIPv6Address"], "2001:db8::53");
    assert!(lines[1].get("sourceIPv4Address").is_none());
    assert!(lines[1].get("tcpControlBits").is_none());
    assert_eq!(lines[2]["icmpTypeCodeIPv4"], 2048);
}

#[test]
fn csv_reads_back_and_non_finite_values_are_empty() {
    let (schema, batch) = with_statistics();
    let text = csv(&schema, &batch);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<HashMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["packetSizeMeanBytes"], "100000.5");
    assert_eq!(rows[1]["packetSizeMeanBytes"], "94.0");
    assert_eq!(rows[2]["packetSizeMeanBytes"], "");
    // Names of columns are escaped like other text.
    assert_eq!(rows[0]["odd \"name\", with\\\\all"], "1e-7");
    assert_eq!(rows[1]["odd \"name\", with\\\\all"], "");
    assert_eq!(rows[2]["odd \"name\", with\\\\all"], "-1.5");
    assert_eq!(rows[0]["tcpControlBits"], "27");
    assert_eq!(rows[2]["icmpTypeCodeIPv4"], "2048");
}

#[test]
fn writes_extreme_numbers() {
    let mut record = tcp();
    record.start_ns = i64::MIN;
    record.end_ns = i64::MAX;
    record.packets = [u64::MAX, u64::MAX];
    record.bytes = [u64::MAX, 0];
    let text = json(&schema(FlowDefinition::Bidirectional), &batch(&[record]));
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        line["flowStartNanoseconds"],
        "1677-09-21T00:12:43.145224192Z"
    );
    assert_eq!(line["flowEndNanoseconds"], "2262-04-11T23:47:16.854775807Z");
    assert_eq!(line["packets"], u64::MAX);
    assert_eq!(line["layer2OctetDeltaCount"], u64::MAX);
    // The capture clock went backwards.
    record.start_ns = 1;
    record.end_ns = 0;
    let text = json(&schema(FlowDefinition::Bidirectional), &batch(&[record]));
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["flowDurationNanoseconds"], 0);
    assert!(line["bitsPerSecond"].is_null());
}

#[test]
fn records_across_block_boundaries_are_whole() {
    let records: Vec<_> = (0..20_000)
        .map(|number| {
            let mut record = dns();
            record.start_ns -= number * 1_000_000_007;
            record.packets[0] = number as u64;
            record
        })
        .collect();
    let text = json(&schema(FlowDefinition::FiveTuple), &batch(&records));
    for (number, line) in text.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["packets"], number);
    }
    assert_eq!(text.lines().count(), records.len());
}

#[test]
fn rejects_two_columns_with_the_same_name() {
    let schema = Schema {
        statistics: vec![statistic("bytes")],
        ..schema(FlowDefinition::FiveTuple)
    };
    let spec = "json:/dev/null".parse().unwrap();
    let refused = export::open(&spec, &schema, &ExportOptions::default());
    assert!(matches!(
        refused.err(),
        Some(ExportError::DuplicateColumn { name }) if name == "bytes"
    ));
}

#[test]
fn flush_writes_buffered_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.json");
    let spec = format!("json:{}", path.display()).parse().unwrap();
    let schema = schema(FlowDefinition::FiveTuple);
    let mut exporter = export::open(&spec, &schema, &ExportOptions::default()).unwrap();
    exporter.write(&batch(&[dns()])).unwrap();
    assert_eq!(exporter.written(), 0);
    exporter.flush().unwrap();
    assert_eq!(exporter.written(), 1);
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 1);
}
