//! What a power failure leaves, for every format: the order of the steps, and what is counted if one
//! of them fails.

use super::recorder;
use crate::{ExportOptions, Exporter, Spec};
use flow::{EndReason, FlowDefinition, Record, RecordBatch, Schema};
use std::fs;
use std::path::{Path, PathBuf};
use wire::FlowKey;

/// Every kind of output that writes files, with the period of its rotation in seconds.
const OUTPUTS: [(&str, Option<u64>); 14] = [
    ("json:{}/a.json", None),
    ("json:{}/a.json", Some(60)),
    ("json:{}/a.json.zst", Some(60)),
    ("csv:{}/a.csv", None),
    ("csv:{}/a.csv.gz", None),
    ("csv:{}/a.csv", Some(60)),
    ("csv:{}/a.csv.gz", Some(60)),
    ("parquet:{}/a.parquet", None),
    ("parquet:{}/a.parquet", Some(60)),
    ("parquet:{}/d", None),
    ("tstat:{}/t", None),
    ("tstat:{}/t", Some(60)),
    ("tstat:{}/t,gz", Some(60)),
    ("rrd:{}/r,10s", None),
];

const RECORDS: u64 = 400;

fn open(directory: &Path, (spec, period): (&str, Option<u64>)) -> Box<dyn Exporter> {
    let spec: Spec = spec
        .replace("{}", directory.to_str().unwrap())
        .parse()
        .unwrap();
    let options = ExportOptions {
        rotation: period.map(|seconds| format!("{seconds}s").parse().unwrap()),
        ..ExportOptions::default()
    };
    let schema = Schema {
        flow: FlowDefinition::Bidirectional,
        ..Schema::default()
    };
    crate::open(&spec, &schema, &options).unwrap()
}

/// Records of four hundred seconds.
fn batch() -> RecordBatch {
    let record = |second: u64| Record {
        key: FlowKey {
            version: 4,
            protocol: 17,
            ..FlowKey::default()
        },
        start_ns: 0,
        end_ns: second as i64 * 1_000_000_000,
        packets: [1, 0],
        bytes: [60, 0],
        tcp_flags: [0; 2],
        icmp_type_code: 0,
        end_reason: EndReason::IdleTimeout,
    };
    RecordBatch {
        records: (0..RECORDS).map(record).collect(),
        ..RecordBatch::default()
    }
}

/// Returns the files with a lasting name below a directory.
fn lasting_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(lasting_files(&path));
        } else {
            files.push(path);
        }
    }
    files.retain(|path| !path.to_str().unwrap().contains(".partial"));
    files.sort();
    files
}

#[test]
fn files_with_a_lasting_name_survive_a_power_failure_at_the_end() {
    for output in OUTPUTS {
        let directory = tempfile::tempdir().unwrap();
        let mut exporter = open(directory.path(), output);
        exporter.write(&batch()).unwrap();
        exporter.flush().unwrap();
        exporter.finish().unwrap();
        let files = lasting_files(directory.path());
        let wanted = if output.1.is_some() { 7 } else { 1 };
        assert!(files.len() >= wanted, "{output:?}: {files:?}");
        assert_eq!(recorder::survivors(), files, "{output:?}");
        assert_eq!(exporter.written() + exporter.lost(), RECORDS);
    }
}

/// Complete files are safe while the run goes on.
#[test]
fn rotated_files_survive_a_power_failure_during_the_run() {
    let rotated = OUTPUTS.iter().filter(|(_, period)| period.is_some());
    for &output in rotated {
        let directory = tempfile::tempdir().unwrap();
        let mut exporter = open(directory.path(), output);
        exporter.write(&batch()).unwrap();
        let files = lasting_files(directory.path());
        assert!(files.len() >= 6, "{output:?}: {files:?}");
        assert_eq!(recorder::survivors(), files, "{output:?}");
        exporter.finish().unwrap();
        recorder::survivors();
    }
}

#[test]
fn failing_device_is_an_error_and_its_records_are_lost() {
    for output in OUTPUTS {
        let renames = output.1.is_some() || output.0.contains("/d") || output.0.contains("rrd");
        for step in ["sync data", "sync directory", "rename"] {
            if step == "rename" && !renames {
                continue;
            }
            let what = format!("{output:?}, {step}");
            let directory = tempfile::tempdir().unwrap();
            let mut exporter = open(directory.path(), output);
            recorder::fail(Some(step));
            let written = exporter.write(&batch());
            let finished = exporter.finish();
            recorder::fail(None);
            let error = written.and(finished).expect_err(&what).to_string();
            assert!(
                error.contains(directory.path().to_str().unwrap()),
                "{what}: {error}"
            );
            assert_eq!(
                (exporter.written(), exporter.lost()),
                (0, RECORDS),
                "{what}"
            );
            recorder::survivors();
            if renames && step == "sync data" {
                assert!(lasting_files(directory.path()).is_empty(), "{what}");
            }
        }
    }
}

/// After an error of the device, later files are written as if nothing had happened.
#[test]
fn output_continues_after_a_device_failed_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut exporter = open(directory.path(), ("csv:{}/a.csv", Some(60)));
    let batch = batch();
    let part = |range: std::ops::Range<usize>| RecordBatch {
        records: batch.records[range].to_vec(),
        ..RecordBatch::default()
    };
    exporter.write(&part(0..60)).unwrap();
    recorder::fail(Some("sync data"));
    assert!(exporter.write(&part(60..70)).is_err());
    recorder::fail(None);
    exporter.write(&part(70..400)).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (340, 60));
    assert_eq!(recorder::survivors(), lasting_files(directory.path()));
}
