//! Files that other programs change meanwhile: outputs that are truncated or written twice, inputs that
//! shrink or grow.

use crate::captures;
use crate::command::{Running, run, watch};
use crate::summary::Summary;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Enough for every wait here, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

#[test]
fn second_process_is_refused_and_changes_nothing() {
    for target in [
        "json:flows",
        "csv:flows",
        "csv:flows.gz",
        "parquet:flows.parquet",
        "rrd:flows",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (format, name) = target.split_once(':').unwrap();
        let path = directory.path().join(name);
        let flags = format!(
            "--statistics full --overwrite --interval 20ms --summary json -o {format}:{} -r",
            path.display()
        );
        let mut first = Running::start(watch(&flags).arg("-").stdin(Stdio::piped()));
        let mut stdin = first.stdin();
        first.wait_for_packets(0);
        let refused = run(watch(&flags).arg(captures::example()));
        assert_eq!(refused.code, Some(2), "{target}: {refused:?}");
        let holder = format!("(process {})", first.id());
        assert!(
            refused.stderr.contains(&holder),
            "{target}: {}",
            refused.stderr
        );
        stdin
            .write_all(&fs::read(captures::example()).unwrap())
            .unwrap();
        drop(stdin);
        let outcome = first.finish();
        assert_eq!(outcome.code, Some(0), "{target}: {outcome:?}");
        let summary = Summary::balanced(&outcome);
        assert_eq!(summary.number("/records_lost"), 0);
        // The lock ends with the process.
        let again = run(watch(&flags).arg(captures::example()));
        assert_eq!(again.code, Some(0), "{target}: {again:?}");
    }
}

/// `copytruncate` of logrotate, at any time.
#[test]
fn truncated_output_begins_again_with_a_header() {
    for (format, header) in [("csv", 1), ("json", 0)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows");
        let flags = format!(
            "--interval 20ms --summary json --idle-timeout 1ms -o {format}:{} -r -",
            path.display()
        );
        let mut running = Running::start(watch(&flags).stdin(Stdio::piped()));
        let mut stdin = running.stdin();
        let capture = fs::read(&captures::large().path).unwrap();
        let parts = capture.chunks(capture.len() / 4 + 1);
        for (number, part) in parts.enumerate() {
            if number > 0 {
                wait_until("records", || length(&path) > 1000);
                File::create(&path).unwrap();
            }
            stdin.write_all(part).unwrap();
        }
        drop(stdin);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        let summary = Summary::balanced(&outcome);
        let truncated = |fault: &&str| fault.contains("truncated by another program");
        assert!(summary.faults().iter().any(truncated), "{outcome:?}");
        let text = fs::read(&path).unwrap();
        assert!(!text.contains(&0), "a hole");
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().count() as u64;
        let (written, lost) = (
            summary.number("/outputs/0/written"),
            summary.number("/outputs/0/lost"),
        );
        assert_eq!(written + lost, summary.number("/flows"));
        assert!(lost > 0);
        // A truncation between a check and a write leaves a block that counts as lost.
        assert!(
            lines >= written + header,
            "{lines} lines, {written} written"
        );
        let first = text.lines().next().unwrap();
        assert!(
            format == "json" || first.starts_with("flowStartNanoseconds,"),
            "{first}"
        );
    }
}

/// A reader that is stopped by its output, in the middle of a file.
fn start_slow_reader(capture: &Path, flags: &str) -> Running {
    let mut command = watch(&format!(
        "-q --summary none -o json --idle-timeout 1ms {flags} -r"
    ));
    let mut running = Running::start(command.arg(capture));
    let mut byte = [0];
    let mut stdout = running.stdout();
    stdout.read_exact(&mut byte).unwrap();
    running.return_stdout(stdout);
    running
}

#[test]
fn input_that_shrinks_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    // More than all queues between the file and its slow output hold.
    let capture = fs::read(&captures::large().path).unwrap();
    let mut file = File::create(&path).unwrap();
    file.write_all(&capture).unwrap();
    for _ in 0..(120 << 20) / capture.len() {
        file.write_all(&capture[24..]).unwrap();
    }
    let running = start_slow_reader(&path, "");
    let before = length(&path);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1000)
        .unwrap();
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let words = format!("the file shrank from {before} to 1000 bytes while it was read");
    assert!(outcome.stderr.contains(&words), "{}", outcome.stderr);
}

/// All readers of a growing file read the same packets.
#[test]
fn input_that_grows_gives_the_same_packets_to_all_threads() {
    let directory = tempfile::tempdir().unwrap();
    let (path, output) = (
        directory.path().join("a.pcap"),
        directory.path().join("flows.csv"),
    );
    let capture = fs::read(&captures::large().path).unwrap();
    fs::write(&path, &capture).unwrap();
    let mut growing = File::options().append(true).open(&path).unwrap();
    let flags = format!(
        "-q --summary json --queues 3 -o csv:{} -r",
        output.display()
    );
    let running = Running::start(watch(&flags).arg(&path));
    for _ in 0..20 {
        growing.write_all(&capture[24..]).unwrap();
    }
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    let rows = crate::records::csv(&fs::read(output).unwrap());
    let packets: u64 = rows
        .iter()
        .map(|row| crate::records::number(row, "packets"))
        .sum();
    assert_eq!(packets, summary.number("/books/in_flows"), "{outcome:?}");
}
