//! Round-robin series written by several runs.

#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![cfg(all(target_endian = "little", target_pointer_width = "64"))]

mod samples;

use export::{ExportError, ExportOptions, Exporter};
use flow::{FlowDefinition, Record};
use samples::{LEAP_DAY, batch, dns, schema};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const STEP_S: i64 = 60;
const SECOND_NS: i64 = 1_000_000_000;

/// Noon of the day of the samples, in seconds since the Unix epoch: rows of all archives start
/// here.
const NOON_S: i64 = LEAP_DAY / SECOND_NS / 14_400 * 14_400;

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

/// Runs without an error. Returns the numbers of records written and lost.
fn run(directory: &Path, records: &[Record]) -> (u64, u64) {
    let mut exporter = open(directory);
    exporter.write(&batch(records)).unwrap();
    exporter.finish().unwrap();
    (exporter.written(), exporter.lost())
}

/// Returns the last update of the `rates` file, and the packets in its finest archive.
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

/// A flow of one packet in each of `minutes` after noon, and another one every third minute.
fn uneven_flows(minutes: std::ops::Range<i64>) -> Vec<Record> {
    let mut flows = flows(NOON_S * SECOND_NS, minutes.clone());
    for third in minutes.filter(|minute| minute % 3 == 0) {
        flows.extend(crate::flows(NOON_S * SECOND_NS, third..third + 1));
    }
    flows
}

/// Returns the trimmed output lines of rrdtool.
fn rrdtool(arguments: &[&str]) -> Vec<String> {
    let output = Command::new("rrdtool").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Returns the packet rates of an archive by the end time of their rows.
fn rows(file: &str, seconds: i64, minutes: i64) -> BTreeMap<i64, f64> {
    let [resolution, start, end] =
        [seconds, NOON_S, NOON_S + minutes * 60 - 1].map(|number| number.to_string());
    let lines = rrdtool(&[
        "fetch",
        file,
        "AVERAGE",
        "-r",
        &resolution,
        "-s",
        &start,
        "-e",
        &end,
    ]);
    let row = |line: &String| {
        let (time, values) = line.split_once(": ")?;
        let value = values.split_whitespace().next()?;
        Some((
            time.parse().ok()?,
            value.replace("-nan", "nan").parse().ok()?,
        ))
    };
    lines.iter().filter_map(row).collect()
}

/// Returns the state of the incomplete rows: for each archive, the sum of the first data source and
/// the number of unknown intervals.
fn open_rows(file: &str) -> Vec<(f64, u64)> {
    let lines = rrdtool(&["info", file]);
    let of = |archive: usize, what: &str| {
        let label = format!("rra[{archive}].cdp_prep[0].{what} = ");
        let value = lines
            .iter()
            .find_map(|line| line.strip_prefix(&label))
            .unwrap();
        value
            .replace('"', "")
            .replace("-nan", "nan")
            .replace("NaN", "nan")
    };
    let of_archive = |archive| {
        let value = of(archive, "value").parse().unwrap();
        (value, of(archive, "unknown_datapoints").parse().unwrap())
    };
    (0..3).map(of_archive).collect()
}

fn is_near(one: f64, other: f64) -> bool {
    (one.is_nan() && other.is_nan()) || (one - other).abs() < 1e-6
}

/// Compared with rrdtool, which gets the finest archive as input, interval by interval.
#[test]
fn rows_of_several_runs_match_rrdtool() {
    for (runs, minutes) in [
        (&[0..20, 20..50][..], 50),
        // Both runs share an interval.
        (&[0..20, 19..50], 50),
        // A gap between the runs: a third of the row, then more than half.
        (&[0..20, 24..50], 50),
        (&[0..20, 29..50], 50),
        // Three consecutive runs; an older run; rows of four hours.
        (&[0..20, 20..22, 22..50], 50),
        (&[0..20, 5..18, 20..50], 50),
        (&[0..100, 100..130, 130..260], 260),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for minutes in runs {
            let flows = uneven_flows(minutes.clone());
            assert_eq!(run(directory.path(), &flows), (flows.len() as u64, 0));
        }
        let file = directory.path().join("rates.rrd").display().to_string();
        let reference = directory.path().join("reference.rrd").display().to_string();
        let mut create = vec!["create", &reference, "--step", "60"];
        let start = NOON_S.to_string();
        create.extend(["--start", &start, "DS:packets:GAUGE:120:U:U"]);
        create.extend(["RRA:AVERAGE:0.5:1:1440", "RRA:AVERAGE:0.5:15:672"]);
        create.push("RRA:AVERAGE:0.5:240:2190");
        rrdtool(&create);
        for (time, value) in rows(&file, 60, minutes) {
            if time > NOON_S && time <= NOON_S + minutes * 60 {
                let value = if value.is_nan() {
                    "U".to_owned()
                } else {
                    value.to_string()
                };
                rrdtool(&["update", &reference, &format!("{time}:{value}")]);
            }
        }
        for seconds in [60, 900, 14_400] {
            let [ours, theirs] = [&file, &reference].map(|file| rows(file, seconds, minutes));
            assert_eq!(ours.len(), theirs.len());
            for (time, value) in theirs {
                let our = ours[&time];
                assert!(
                    is_near(our, value),
                    "{runs:?}, {seconds} s, {time}: {our}, not {value}"
                );
            }
        }
        let [ours, theirs] = [&file, &reference].map(|file| open_rows(file));
        for (our, their) in ours.iter().zip(&theirs) {
            let is_equal = is_near(our.0, their.0) && our.1 == their.1;
            assert!(is_equal, "{runs:?}: {ours:?}, not {theirs:?}");
        }
    }
}

#[test]
fn run_with_older_packets_keeps_existing_data() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let hour = 3600 * SECOND_NS;
    assert_eq!(run(path, &flows(LEAP_DAY, 0..10)), (10, 0));
    let (last_update, packets) = read(path);
    assert_eq!(packets, 10.0);
    assert!(last_update * SECOND_NS > LEAP_DAY + 9 * 60 * SECOND_NS);
    // An hour earlier, and within the times of the first run.
    for (begin, sum) in [(LEAP_DAY - hour, 20.0), (LEAP_DAY, 30.0)] {
        assert_eq!(run(path, &flows(begin, 0..10)), (10, 0));
        assert_eq!(read(path), (last_update, sum));
    }
    // Later packets extend the series.
    assert_eq!(run(path, &flows(LEAP_DAY + hour, 0..10)), (10, 0));
    assert_eq!(read(path), (last_update + 3600, 40.0));
}

#[test]
fn recreates_a_removed_directory_with_its_histograms() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rrd");
    let mut exporter = open(&path);
    exporter.write(&batch(&flows(LEAP_DAY, 0..10))).unwrap();
    fs::remove_dir_all(&path).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (10, 0));
    assert_eq!(read(&path).1, 10.0);
    assert!(fs::read_dir(path.join("histograms")).unwrap().count() > 0);
}

#[test]
fn records_too_old_for_an_earlier_run_are_counted_as_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    run(path, &flows(LEAP_DAY, 0..10));
    let before = read(path);
    // However many there are: reading an older capture does not reset the clock.
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

/// A clock that was decades ahead would otherwise keep all later records out of the series.
#[test]
fn future_data_of_an_earlier_run_is_dropped_after_a_thousand_records() {
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
