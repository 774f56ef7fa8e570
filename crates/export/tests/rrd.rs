//! Round-robin series that several runs write.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]
#![cfg(all(target_endian = "little", target_pointer_width = "64"))]

mod samples;

use export::{ExportError, ExportOptions, Exporter};
use flow::{FlowDefinition, Record};
use samples::{LEAP_DAY, batch, dns, schema};
use std::fs;
use std::path::Path;

const STEP_S: i64 = 60;
const SECOND_NS: i64 = 1_000_000_000;

/// Rows of the finest archive.
const ROWS: usize = 1440;

fn open(directory: &Path) -> Box<dyn Exporter> {
    let spec = format!("rrd:{}", directory.display());
    export::open(
        &spec.parse().unwrap(),
        &schema(FlowDefinition::FiveTuple),
        &ExportOptions::default(),
    )
    .unwrap()
}

/// A flow of one packet in each of `minutes` of an hour.
fn flows(hour_ns: i64, minutes: std::ops::Range<i64>) -> Vec<Record> {
    let at = |minute| Record {
        start_ns: hour_ns + minute * 60 * SECOND_NS,
        end_ns: hour_ns + minute * 60 * SECOND_NS,
        ..dns()
    };
    minutes.map(at).collect()
}

/// What a run without a fault writes of records, and loses of them.
fn run(directory: &Path, records: &[Record]) -> (u64, u64) {
    let mut exporter = open(directory);
    exporter.write(&batch(records)).unwrap();
    exporter.finish().unwrap();
    (exporter.written(), exporter.lost())
}

/// The last update of the file of rates, and the packets in its finest archive.
fn read(directory: &Path) -> (i64, f64) {
    const SOURCES: usize = 4;
    let bytes = fs::read(directory.join("rates.rrd")).unwrap();
    let word = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().unwrap() };
    let live = 128 + SOURCES * 120 + 3 * 120;
    let values = live + 16 + SOURCES * 112 + 3 * SOURCES * 80 + 3 * 8;
    let rates = (0..ROWS).map(|row| f64::from_le_bytes(word(values + row * SOURCES * 8)));
    let known = rates.filter(|rate| !rate.is_nan());
    let packets: f64 = known.map(|rate| rate * STEP_S as f64).sum();
    (i64::from_le_bytes(word(live)), packets.round())
}

#[test]
fn a_run_with_older_packets_keeps_what_an_earlier_run_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let hour = 3600 * SECOND_NS;
    assert_eq!(run(path, &flows(LEAP_DAY, 0..10)), (10, 0));
    let (last_update, packets) = read(path);
    assert_eq!(packets, 10.0);
    assert!(last_update * SECOND_NS > LEAP_DAY + 9 * 60 * SECOND_NS);
    // An hour before, and within the first run's times.
    for (begin, sum) in [(LEAP_DAY - hour, 20.0), (LEAP_DAY, 30.0)] {
        assert_eq!(run(path, &flows(begin, 0..10)), (10, 0));
        assert_eq!(read(path), (last_update, sum));
    }
    // Later packets move the end on.
    assert_eq!(run(path, &flows(LEAP_DAY + hour, 0..10)), (10, 0));
    assert_eq!(read(path), (last_update + 3600, 40.0));
}

#[test]
fn what_is_too_old_for_an_earlier_run_is_lost_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    run(path, &flows(LEAP_DAY, 0..10));
    let before = read(path);
    // However many come: that an older capture is read does not set the clock back.
    let mut old = flows(LEAP_DAY - 3 * 86_400 * SECOND_NS, 0..2000);
    let young = flows(LEAP_DAY, 10..12);
    old.extend(&young);
    let mut exporter = open(path);
    let fault = exporter.write(&batch(&old)).unwrap_err();
    assert!(matches!(fault, ExportError::TooOld { .. }), "{fault}");
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (2, 2000));
    assert_eq!(read(path), (before.0 + 120, before.1 + 2.0));
}

/// A clock that was decades ahead would keep all that comes out of the series.
#[test]
fn an_earlier_run_of_times_to_come_makes_room_after_a_thousand_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    run(path, &flows(4_000_000_000 * SECOND_NS, 0..10));
    let mut exporter = open(path);
    assert!(exporter.write(&batch(&flows(LEAP_DAY, 0..1200))).is_err());
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (201, 999));
    let (last_update, packets) = read(path);
    assert_eq!(packets, 201.0);
    assert!(last_update * SECOND_NS < LEAP_DAY + 86_400 * SECOND_NS);
}
