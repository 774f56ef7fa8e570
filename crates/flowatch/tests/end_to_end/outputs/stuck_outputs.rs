//! Outputs that accept nothing any more: they stop neither the other outputs nor the summary.

use crate::captures;
use crate::command::{Outcome, Running, named_pipe, run, watch};
use crate::records;
use crate::summary::Summary;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Above the limits after which a stuck output is given up, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A named pipe whose reader does not read.
struct StuckPipe {
    path: PathBuf,
    _reader: File,
}

fn stuck_pipe(directory: &Path) -> StuckPipe {
    let path = named_pipe(directory);
    let reader = File::options().read(true).write(true).open(&path).unwrap();
    StuckPipe {
        path,
        _reader: reader,
    }
}

/// Checks that the outputs named after the first one are complete, and the books of all.
fn check_others(outcome: &Outcome, directory: &Path) {
    let summary = Summary::balanced(outcome);
    let flows = summary.number("/flows");
    let at = |output: usize, name: &str| summary.number(&format!("/outputs/{output}/{name}"));
    assert_eq!(
        records::csv(&fs::read(directory.join("c.csv")).unwrap()).len() as u64,
        flows
    );
    for output in [1, 2] {
        assert_eq!((at(output, "written"), at(output, "lost")), (flows, 0));
    }
    let files = fs::read_dir(directory.join("p")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["flows-00000.parquet"]);
    let (written, lost) = (at(0, "written"), at(0, "lost"));
    assert_eq!(written + lost, flows);
    assert!(lost > 0);
    assert_eq!(lost, at(0, "stuck") + at(0, "too_slow"));
    assert_eq!(lost, summary.number("/records_lost"));
}

fn outputs(pipe: &Path, directory: &Path) -> String {
    format!(
        "-o json:{} -o csv:{1}/c.csv -o parquet:{1}/p",
        pipe.display(),
        directory.display()
    )
}

#[test]
fn stuck_output_is_given_up_and_the_others_end() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = stuck_pipe(directory.path());
    let outputs = outputs(&pipe.path, directory.path());
    let started = Instant::now();
    let mut command = watch(&format!("-q --summary json {outputs} -r"));
    let outcome = run(command.arg(&captures::large().path));
    assert!(started.elapsed() < TIMEOUT);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let name = format!("json:{}", pipe.path.display());
    assert!(
        outcome
            .stderr
            .contains(&format!("{name} waits for its reader for"))
            && outcome.stderr.contains("is given up"),
        "{}",
        outcome.stderr
    );
    check_others(&outcome, directory.path());
}

#[test]
fn second_signal_prints_the_books_and_closes_the_others() {
    for has_reader in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _reader) = if has_reader {
            let pipe = stuck_pipe(directory.path());
            (pipe.path.clone(), Some(pipe))
        } else {
            // Opening it never returns.
            (named_pipe(directory.path()), None)
        };
        let outputs = outputs(&path, directory.path());
        let mut command = watch(&format!("--interval 20ms --summary json {outputs} -r -"));
        let mut running = Running::start(command.stdin(Stdio::piped()));
        let mut stdin = running.stdin();
        let capture = fs::read(&captures::large().path).unwrap();
        stdin.write_all(&capture).unwrap();
        running.wait_for_packets(captures::read(&capture).len() as u64);
        running.signal("TERM");
        running.wait_for_line(|line| {
            line.contains("waits for its reader") && line.contains("send SIGINT once more")
        });
        let started = Instant::now();
        running.signal("INT");
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(130), "{outcome:?}");
        // Less than the limit that holds without the signal.
        assert!(started.elapsed() < Duration::from_secs(8));
        check_others(&outcome, directory.path());
        drop(stdin);
    }
}

/// Nothing reads it, and it is the only output: a person may read it later, but not after a signal.
#[test]
fn standard_output_that_nobody_reads_ends_after_a_signal() {
    let mut command = watch("-q --summary json -o json -r");
    let mut running = Running::start(command.arg(&captures::large().path));
    let stdout = running.stdout();
    running.wait_for_line(|line| line.contains("waits for its reader"));
    running.signal("TERM");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let summary = Summary::parse(outcome.stderr.as_bytes()).unwrap();
    summary.check_balance().unwrap();
    assert!(summary.number("/outputs/0/stuck") > 0);
    drop(stdout);
}

#[test]
fn summary_that_nobody_reads_ends_after_a_signal() {
    // More than a pipe holds.
    let mut command = watch("-q --summary json --top 10000 -r");
    let mut running = Running::start(command.arg(&captures::large().path));
    let stdout = running.stdout();
    running.wait_for_line(|line| line.contains("the summary waits for the reader"));
    running.signal("TERM");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("the reader of the summary accepts nothing")
    );
    drop(stdout);
}
