//! Tstat logs and round-robin databases.

use super::{example, output};
use crate::command::run;
use crate::records::{self, Row, number, time_ns};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Command;

#[test]
fn tstat_logs_contain_every_tcp_and_udp_flow() {
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    let json = directory.path().join("flows.json");
    let flags = format!(
        "-q --summary json --statistics full -o tstat:{} -o json:{}",
        logs.display(),
        json.display()
    );
    let outcome = run(&mut example(&flags));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let rows = records::json(&fs::read(&json).unwrap());
    let rows_of = |protocol: u64| {
        let matches = move |row: &&Row| number(row, "protocolIdentifier") == protocol;
        rows.iter().filter(matches).collect::<Vec<_>>()
    };
    let path = fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(
        name.starts_with("2013_02_26_22_0") && name.ends_with(".out"),
        "{name}"
    );
    let table = |log: &str| -> Vec<HashMap<String, String>> {
        let text = fs::read_to_string(path.join(log)).unwrap();
        let mut lines = text.lines();
        let header = lines.next().unwrap();
        let names: Vec<&str> = header
            .trim_start_matches("#15")
            .trim_start_matches('#')
            .split(' ')
            .map(|column| column.split(':').next().unwrap())
            .collect();
        lines
            .map(|line| {
                let values: Vec<&str> = line.split(' ').collect();
                assert_eq!(values.len(), names.len(), "{line}");
                let pairs = names.iter().zip(values);
                pairs
                    .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
                    .collect()
            })
            .collect()
    };
    let tcp = [table("log_tcp_complete"), table("log_tcp_nocomplete")].concat();
    let udp = table("log_udp_complete");
    assert_eq!(
        (tcp.len(), udp.len()),
        (rows_of(6).len(), rows_of(17).len())
    );
    assert!(!tcp.is_empty() && !udp.is_empty());
    let sum = |rows: &[HashMap<String, String>], column: &str| -> u64 {
        rows.iter()
            .map(|row| row[column].parse::<u64>().unwrap())
            .sum()
    };
    let total =
        |rows: &[&Row], column: &str| -> u64 { rows.iter().map(|row| number(row, column)).sum() };
    for (log, protocol) in [(&tcp, 6), (&udp, 17)] {
        let rows = rows_of(protocol);
        assert_eq!(sum(log, "c_pkts_all"), total(&rows, "packetDeltaCount"));
        assert_eq!(
            sum(log, "s_pkts_all"),
            total(&rows, "reversePacketDeltaCount")
        );
    }
    // Every payload byte is unique or a retransmission.
    for row in &tcp {
        for side in ["c", "s"] {
            let at = |column: &str| row[&format!("{side}_{column}")].parse::<u64>().unwrap();
            assert!(at("bytes_uniq") <= at("bytes_all"), "{row:?}");
            assert!(at("pkts_data") <= at("pkts_all"), "{row:?}");
        }
    }
}

const STEP_S: i64 = 10;

/// Compares every interval of the series with the records of the same run, distributed over the
/// intervals here.
#[test]
fn rrdtool_reads_series_that_match_the_records() {
    let directory = tempfile::tempdir().unwrap();
    let series = directory.path().join("series");
    let json = directory.path().join("flows.json");
    let flags = format!(
        "-q --summary none --flow bidirectional -o rrd:{},{STEP_S}s -o json:{}",
        series.display(),
        json.display()
    );
    run(&mut example(&flags)).quiet_success();
    let rows = records::json(&fs::read(&json).unwrap());

    let mut expected: BTreeMap<i64, [f64; 4]> = BTreeMap::new();
    let step_ns = STEP_S * 1_000_000_000;
    for row in &rows {
        let start = time_ns(&row["flowStartNanoseconds"]);
        let end = time_ns(&row["flowEndNanoseconds"]);
        let (packets, bits) = (
            number(row, "packets") as f64,
            8.0 * number(row, "bytes") as f64,
        );
        let (first, last) = (start.div_euclid(step_ns), end.div_euclid(step_ns));
        for slot in first..=last {
            let share = if first == last {
                1.0
            } else {
                let overlap = end.min((slot + 1) * step_ns) - start.max(slot * step_ns);
                overlap as f64 / (end - start) as f64
            };
            let sums = expected.entry(slot).or_default();
            sums[0] += packets * share;
            sums[1] += bits * share;
        }
        expected.entry(first).or_default()[2] += 1.0;
        expected.entry(last).or_default()[3] += 1.0;
    }
    let (&first, &last) = (
        expected.keys().next().unwrap(),
        expected.keys().next_back().unwrap(),
    );

    let file = series.join("rates.rrd");
    let info = output("rrdtool", &["info"], &file);
    for line in [
        "rrd_version = \"0003\"",
        &format!("step = {STEP_S}"),
        "ds[packets].type = \"GAUGE\"",
        "ds[flows_ended].index = 3",
        "rra[0].rows = 1440",
        "rra[2].pdp_per_row = 240",
        &format!("last_update = {}", (last + 1) * STEP_S),
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let fetched = Command::new("rrdtool")
        .arg("fetch")
        .arg(&file)
        .args(["AVERAGE", "-r", &STEP_S.to_string()])
        .args(["-s", &(first * STEP_S).to_string()])
        .args(["-e", &((last + 1) * STEP_S - 1).to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(fetched.stdout).unwrap();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((time, values)) = line.split_once(": ") else {
            continue;
        };
        // The time of a row is the end of its interval.
        let slot = time.trim().parse::<i64>().unwrap() / STEP_S - 1;
        let values: Vec<f64> = values
            .split_whitespace()
            .map(|value| value.parse::<f64>().unwrap() * STEP_S as f64)
            .collect();
        found.insert(slot, values);
    }
    for slot in first..=last {
        let sums = expected.get(&slot).copied().unwrap_or_default();
        for (source, sum) in sums.iter().enumerate() {
            let value = found[&slot][source];
            assert!(
                (value - sum).abs() <= 1e-6 * sum.max(1.0),
                "interval {slot}, source {source}: {value}, not {sum}"
            );
        }
    }

    // The histograms count every flow once.
    let mut flows = 0;
    for entry in fs::read_dir(series.join("histograms")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path().join("flow_packets")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            flows += line.split(' ').nth(2).unwrap().parse::<usize>().unwrap();
        }
    }
    assert_eq!(flows, rows.len());

    // rrdtool can update the file.
    let update = format!("{}:1:2:3:4", (last + 2) * STEP_S);
    let updated = Command::new("rrdtool")
        .arg("update")
        .arg(&file)
        .arg(&update)
        .output()
        .unwrap();
    assert!(
        updated.status.success(),
        "{}",
        String::from_utf8_lossy(&updated.stderr)
    );
}
