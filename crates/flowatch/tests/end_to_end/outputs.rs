//! Outputs of an analyser from the outside: addresses that are not told, files that rotate, disks
//! that fill, directories that vanish, readers that are slow, Tstat's logs and round-robin series.

use crate::captures;
use crate::command::{Running, named_pipe, run, watch};
use crate::records::{self, Row, number, time_ns};
use crate::summary::Summary;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes nearly as long, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(90);

fn example(flags: &str) -> Command {
    let mut command = watch(flags);
    command.arg("-r").arg(captures::example());
    command
}

/// The records of the example with these flags.
fn example_records(flags: &str) -> Vec<Row> {
    let flags = format!("-o json --sort --summary none {flags}");
    records::json(&run(&mut example(&flags)).quiet_success())
}

/// Waits until something holds.
#[track_caller]
fn await_that(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn addresses_are_replaced_everywhere_and_prefixes_kept() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let how = format!("--anonymise crypto-pan={}", key.display());
    let plain = example_records("--flow bidirectional");
    let ours = example_records(&format!("--flow bidirectional {how}"));
    assert_eq!(plain.len(), ours.len());
    let addresses = |rows: &[Row]| -> Vec<u32> {
        let columns = ["sourceIPv4Address", "destinationIPv4Address"];
        let texts = rows
            .iter()
            .flat_map(|row| columns.map(|column| row.get(column)));
        texts
            .flatten()
            .map(|text| text.parse::<Ipv4Addr>().unwrap().into())
            .collect()
    };
    let lengths = |rows: &[Row]| {
        let mut lengths: Vec<u32> = Vec::new();
        let mut all = addresses(rows);
        all.sort_unstable();
        all.dedup();
        for (place, first) in all.iter().enumerate() {
            let others = &all[place + 1..];
            lengths.extend(others.iter().map(|second| (first ^ second).leading_zeros()));
        }
        lengths.sort_unstable();
        lengths
    };
    let (theirs, replaced) = (lengths(&plain), lengths(&ours));
    assert!(!theirs.is_empty());
    assert_eq!(theirs, replaced);
    let theirs: std::collections::HashSet<u32> = addresses(&plain).into_iter().collect();
    assert!(
        addresses(&ours)
            .iter()
            .any(|address| !theirs.contains(address))
    );

    // The summary tells the same addresses as the records.
    for how in [how.as_str(), "--anonymize truncate=16/32"] {
        let file = directory.path().join("flows.json");
        let flags = format!("-q --summary json -o json:{} {how}", file.display());
        let summary = Summary::balanced(&run(&mut example(&flags)));
        let rows = records::json(&fs::read(&file).unwrap());
        let sources: Vec<&String> = rows.iter().flat_map(|row| row.values()).collect();
        let top = summary.at("/top_flows").as_array().unwrap();
        assert!(!top.is_empty());
        for flow in top {
            for side in ["source", "destination"] {
                let address = flow[side].as_str().unwrap().to_owned();
                assert!(sources.contains(&&address), "{address}");
                if how.contains("truncate") && address.contains('.') {
                    assert!(address.ends_with(".0.0"), "{address}");
                }
            }
        }
    }
}

/// An unspecified address is replaced as any other; one that is no part of the key is none.
#[test]
fn addresses_that_the_key_lacks_are_told_as_without_replacing() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let how = format!("--anonymise crypto-pan={}", key.display());
    for (flow, there, lacking) in [
        ("src", "source", "destination"),
        ("dst", "destination", "source"),
    ] {
        let [plain, ours] = ["", how.as_str()].map(|how| {
            let flags = format!("-q --summary json --flow {flow} {how}");
            let summary = Summary::balanced(&run(&mut example(&flags)));
            summary.at("/top_flows").as_array().unwrap().clone()
        });
        assert!(!plain.is_empty());
        for (plain, ours) in plain.iter().zip(&ours) {
            for flow in [plain, ours] {
                assert!(flow.get(lacking).is_none() && flow.get("protocolIdentifier").is_none());
            }
            assert_ne!(plain[there], ours[there], "{flow}");
        }
    }
}

#[test]
fn a_key_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 31]).unwrap();
    for (how, said) in [
        (format!("crypto-pan={}", key.display()), "31 bytes"),
        ("crypto-pan=/no/such/key".to_owned(), "/no/such/key"),
        ("truncate=33/48".to_owned(), "at most 32 and 128"),
        ("md5".to_owned(), "crypto-pan=KEYFILE"),
    ] {
        let outcome = run(&mut example(&format!("--anonymise {how}")));
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    let outcome = run(&mut example("--flow rss --anonymise truncate=24/48"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}

#[test]
fn rotation_wants_a_file() {
    for (outputs, words) in [
        ("", "--rotate: no file is written"),
        ("-o csv", "standard output cannot be rotated"),
    ] {
        let mut command = watch(&format!("--rotate 1h {outputs} -r"));
        let outcome = run(command.arg(captures::example()));
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn rotated_files_hold_the_same_records() {
    let plain = run(&mut example("-q --summary none --sort -o csv")).quiet_success();
    let plain = String::from_utf8(plain).unwrap();
    for end in ["csv", "csv.gz", "csv.zst"] {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join(format!("flows.{end}"));
        let flags = format!(
            "-q --summary none --sort --rotate 10s -o csv:{}",
            target.display()
        );
        run(&mut example(&flags)).quiet_success();
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 1, "{files:?}");
        let mut lines = Vec::new();
        for file in &files {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(
                name.starts_with("flows-2013") && name.ends_with(end),
                "{name}"
            );
            let text = match end {
                "csv.gz" => output("gzip", &["-dc"], file),
                "csv.zst" => output("zstd", &["-dcq"], file),
                _ => fs::read_to_string(file).unwrap(),
            };
            lines.extend(text.lines().skip(1).map(str::to_owned));
        }
        let expected: Vec<&str> = plain.lines().skip(1).collect();
        assert_eq!(lines, expected);
    }
}

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}; run ./setup"));
    assert!(
        output.status.success(),
        "{program} {file:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A small disk, let go when the test ends.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(status.success(), "mounting a small disk needs root");
        Self(directory)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_is_told_once_and_everything_else_counted() {
    // Room for a compressed block or two, and not for all of any format.
    let disk = SmallDisk::new("192k");
    for (spec, flags) in [
        ("json:{}/flows.json", ""),
        ("csv:{}/flows.csv", ""),
        ("csv:{}/flows.csv", "--rotate 100d"),
        ("csv:{}/flows.csv.gz", ""),
        ("csv:{}/flows.csv.zst", "--rotate 100d"),
        ("tstat:{}/logs", ""),
        ("tstat:{}/logs", "--rotate 100d"),
        ("parquet:{}/p", ""),
    ] {
        let what = format!("{spec} {flags}");
        let spec = spec.replace("{}", disk.0.path().to_str().unwrap());
        let mut command = watch(&format!(
            "-q --summary json --flow bidirectional --community-id {flags} -o {spec} -r"
        ));
        let outcome = run(command.arg(&captures::busy().path));
        assert_eq!(outcome.code, Some(2), "{what}: {}", outcome.stderr);
        // Three logs of Tstat each say it for themselves.
        let said = outcome.stderr.matches("no space left").count();
        assert!((1..=3).contains(&said), "{what}: {}", outcome.stderr);
        let summary = Summary::balanced(&outcome);
        let at = |name: &str| summary.number(&format!("/outputs/0/{name}"));
        assert!(at("lost") > 0, "{what}");
        assert_eq!(at("lost"), summary.number("/records_lost"), "{what}");
        assert_eq!(
            at("written") + at("lost") + at("left_out"),
            summary.number("/flows"),
            "{what}"
        );
        let files = files_in(disk.0.path());
        if what.starts_with("parquet") {
            // One row group that does not fit: nobody could read a part of it.
            assert_eq!((at("written"), files.len()), (0, 0), "{files:?}");
            continue;
        }
        assert!(at("written") > 0, "{what}");
        let mut lines = 0;
        for file in &files {
            let text = match file.extension().and_then(|end| end.to_str()) {
                Some("gz") => output("gzip", &["-dc"], file),
                Some("zst") => output("zstd", &["-dcq"], file),
                _ => fs::read_to_string(file).unwrap(),
            };
            assert!(text.ends_with('\n'), "{file:?}");
            assert!(!file.to_str().unwrap().contains("partial"), "{file:?}");
            let header = u64::from(!what.starts_with("json"));
            lines += text.matches('\n').count() as u64 - header;
        }
        assert_eq!(lines, at("written"), "{what}: {files:?}");
        for entry in fs::read_dir(disk.0.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

/// The files below a directory.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_in(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// A capture that does not fit is one of whole packets, and the fault tells how many.
#[test]
fn a_disk_that_fills_with_packets_has_whole_ones() {
    let disk = SmallDisk::new("256k");
    let path = disk.0.path().join("x.pcap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    let outcome = run(command.args(["gen", "-q", "-c", "100000", "-w"]).arg(&path));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let (_, rest) = outcome.stderr.split_once("the first ").unwrap();
    let (packets, rest) = rest.split_once(' ').unwrap();
    assert!(rest.starts_with("packets are in it: make room"), "{rest}");
    let outcome = run(watch("-q --summary json -r").arg(&path));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let summary = Summary::balanced(&outcome);
    assert_eq!(summary.number("/packets").to_string(), packets);
    assert!(summary.number("/packets") > 1000);
}

/// Half of a capture is fed, the directory removed, and the rest fed.
#[test]
fn a_directory_that_vanishes_is_told_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    for (spec, first) in [
        ("tstat:{}/logs", "logs"),
        ("json:{}/flows.json", "flows.json"),
        ("json:{}/d/flows.json", "d"),
        ("parquet:{}/p", "p"),
    ] {
        fs::create_dir_all(directory.path().join("d")).unwrap();
        let spec = spec.replace("{}", directory.path().to_str().unwrap());
        let place = directory.path().join(first);
        let mut command = watch(&format!(
            "-q --summary json --flow bidirectional --idle-timeout 1ms -o {spec} -r -"
        ));
        let mut running = Running::start(command.stdin(Stdio::piped()));
        let mut stdin = running.stdin();
        let capture = fs::read(&captures::busy().path).unwrap();
        let half = capture.len() / 2;
        stdin.write_all(&capture[..half]).unwrap();
        // Parquet is gathered, and its file seen to be gone all the same.
        if first == "p" {
            await_that("the file", || place.exists());
        } else {
            await_that("records in the file", || bytes_in(&place) > 1_000_000);
        }
        if place.is_dir() {
            // The run may make files in it anew meanwhile.
            while let Err(error) = fs::remove_dir_all(&place) {
                assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
            }
        } else {
            fs::remove_file(&place).unwrap();
        }
        stdin.write_all(&capture[half..]).unwrap();
        drop(stdin);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("removed while it was written"),
            "{}",
            outcome.stderr
        );
        let summary = Summary::balanced(&outcome);
        let at = |name: &str| summary.number(&format!("/outputs/0/{name}"));
        assert!(at("written") > 0);
        assert!(at("lost") > 0 || first == "p");
        assert_eq!(
            at("written") + at("lost") + at("left_out"),
            summary.number("/flows")
        );
        assert!(bytes_in(&place) > 0, "made anew");
    }
}

/// Bytes of a file, or of the files below a directory.
fn bytes_in(path: &Path) -> u64 {
    let Ok(found) = fs::metadata(path) else {
        return 0;
    };
    if found.is_file() {
        return found.len();
    }
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let entries = entries.filter_map(Result::ok);
    entries.map(|entry| bytes_in(&entry.path())).sum()
}

/// Of a file nothing is lost, however slow a reader is: the other output is complete first.
#[test]
fn a_slow_reader_of_one_output_loses_nothing_of_a_capture() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = named_pipe(directory.path());
    let file = directory.path().join("flows.csv");
    let mut command = watch(&format!(
        "-q --summary json -o json:{} -o csv:{} -r",
        pipe.display(),
        file.display()
    ));
    let running = Running::start(command.arg(&captures::busy().path));
    let mut reader = BufReader::new(fs::File::open(&pipe).unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    // The pipe is full and stays so, while the other output goes on.
    await_that("the other output", || bytes_in(&file) > 0);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let outcome = running.finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let summary = Summary::balanced(&outcome);
    let flows = summary.number("/flows");
    for output in 0..2 {
        assert_eq!(summary.number(&format!("/outputs/{output}/written")), flows);
        assert_eq!(summary.number(&format!("/outputs/{output}/lost")), 0);
    }
    assert_eq!(1 + rest.lines().count() as u64, flows);
}

#[test]
fn tstats_logs_have_every_flow_of_tcp_and_udp() {
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
    let of = |protocol: u64| {
        let is = move |row: &&Row| number(row, "protocolIdentifier") == protocol;
        rows.iter().filter(is).collect::<Vec<_>>()
    };
    let place = fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let name = place.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(
        name.starts_with("2013_02_26_22_0") && name.ends_with(".out"),
        "{name}"
    );
    let table = |log: &str| -> Vec<HashMap<String, String>> {
        let text = fs::read_to_string(place.join(log)).unwrap();
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
    assert_eq!((tcp.len(), udp.len()), (of(6).len(), of(17).len()));
    assert!(!tcp.is_empty() && !udp.is_empty());
    let sum = |rows: &[HashMap<String, String>], column: &str| -> u64 {
        rows.iter()
            .map(|row| row[column].parse::<u64>().unwrap())
            .sum()
    };
    let total =
        |rows: &[&Row], column: &str| -> u64 { rows.iter().map(|row| number(row, column)).sum() };
    for (log, protocol) in [(&tcp, 6), (&udp, 17)] {
        let rows = of(protocol);
        assert_eq!(sum(log, "c_pkts_all"), total(&rows, "packetDeltaCount"));
        assert_eq!(
            sum(log, "s_pkts_all"),
            total(&rows, "reversePacketDeltaCount")
        );
    }
    // Every byte of payload is unique or was sent before.
    for row in &tcp {
        for side in ["c", "s"] {
            let at = |column: &str| row[&format!("{side}_{column}")].parse::<u64>().unwrap();
            assert!(at("bytes_uniq") <= at("bytes_all"), "{row:?}");
            assert!(at("pkts_data") <= at("pkts_all"), "{row:?}");
        }
    }
}

const STEP_S: i64 = 10;

/// Every interval of the series against the records of the same run, spread over it here anew.
#[test]
fn rrdtool_reads_the_series_and_they_are_those_of_the_records() {
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
        // A row's time is the end of its interval.
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

    // rrdtool updates the file as one of its own.
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
