//! Reads every capture of the shared collection: packets and bytes as in capinfos, balanced books, no
//! panic, no hang, and a one-line message if a capture is rejected.

use crate::command::{Outcome, run_within, watch};
use crate::summary::Summary;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Files in MANIFEST.tsv.
const FILES: usize = 1762;

/// Parallel runs; short runs mostly wait.
const RUNS: usize = 8;

/// Far longer than any capture takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A line of the manifest.
struct Capture {
    name: String,
    /// Packets and bytes; `None` if capinfos cannot read the file.
    expected: Option<(u64, u64)>,
}

fn manifest() -> Vec<Capture> {
    let text = fs::read_to_string(traffic::directory().join("MANIFEST.tsv")).unwrap();
    text.lines()
        .skip(1)
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [name, kind, _, packets, bytes] = columns[..] else {
                panic!("{line}");
            };
            let number = |text: &str| text.parse().unwrap();
            Capture {
                name: name.to_owned(),
                expected: (kind != "unreadable by capinfos")
                    .then(|| (number(packets), number(bytes))),
            }
        })
        .collect()
}

/// Checks the outcome of reading a capture.
fn check_outcome(capture: &Capture, outcome: Option<&Outcome>) -> Result<(), String> {
    let outcome = outcome.ok_or("hangs")?;
    match outcome.code {
        Some(0 | 2) => {}
        other => return Err(format!("exit {other:?}: {}", outcome.stderr)),
    }
    if outcome.stderr.contains("panicked") {
        return Err(outcome.stderr.clone());
    }
    // Each line is a message of its own.
    if outcome
        .stderr
        .lines()
        .any(|line| !line.starts_with("flowatch: "))
    {
        return Err(format!("not a message: {}", outcome.stderr));
    }
    let refused = outcome.code == Some(2);
    if capture.expected.is_none() && refused && outcome.stdout.is_empty() {
        return if outcome.stderr.lines().count() == 1 {
            Ok(())
        } else {
            Err(format!("not one line: {:?}", outcome.stderr))
        };
    }
    let summary = Summary::parse(&outcome.stdout)?;
    summary.check_balance()?;
    let faults = summary.faults();
    if refused == faults.is_empty() || !faults.iter().all(|fault| outcome.stderr.contains(fault)) {
        return Err(format!("exit {:?} with {faults:?}", outcome.code));
    }
    let found = (summary.number("/packets"), summary.number("/bytes"));
    match capture.expected {
        Some(expected) if found != expected => Err(format!("{found:?}, not {expected:?}")),
        _ => Ok(()),
    }
}

/// Runs the command with `flags` on each capture whose index `wanted` accepts, and asserts that all
/// succeed. Returns the number of captures.
fn check(flags: &str, wanted: impl Fn(usize) -> bool) -> usize {
    let directory = traffic::directory();
    let captures: Vec<Capture> = manifest();
    assert_eq!(captures.len(), FILES);
    let chosen: Vec<&Capture> = captures
        .iter()
        .enumerate()
        .filter(|(index, _)| wanted(*index))
        .map(|(_, capture)| capture)
        .collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..RUNS {
            scope.spawn(|| {
                while let Some(capture) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut command = watch(flags);
                    command.arg("-r").arg(directory.join(&capture.name));
                    let outcome = run_within(&mut command, TIMEOUT);
                    if let Err(error) = check_outcome(capture, outcome.as_ref()) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{}: {error}", capture.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} with {flags}:\n{}",
        wrong.len(),
        chosen.len(),
        wrong.join("\n")
    );
    chosen.len()
}

#[test]
fn packets_and_bytes_of_every_capture_equal_capinfos() {
    if !traffic::present() {
        return;
    }
    assert_eq!(check("-q --summary json", |_| true), FILES);
}

#[test]
fn tunnels_statistics_and_pipeline_keep_totals_and_books() {
    if !traffic::present() {
        return;
    }
    let flags = "-q --summary json --decapsulate --flow bidirectional --vlan \
                 --statistics moments,gap-percentile=99 --model pipeline --monitors 2";
    assert_eq!(check(flags, |index| index % 4 == 0), FILES.div_ceil(4));
}

/// Many of these captures were found by fuzzing other programs.
#[test]
fn full_analysis_keeps_totals_and_books() {
    if !traffic::present() {
        return;
    }
    let flags = "-q --summary json --statistics full --decapsulate";
    assert_eq!(check(flags, |_| true), FILES);
}

#[test]
fn run_over_all_captures_gives_their_sum() {
    if !traffic::present() {
        return;
    }
    let directory = traffic::directory();
    let readable: Vec<Capture> = manifest()
        .into_iter()
        .filter(|capture| capture.expected.is_some())
        .collect();
    let mut command = watch("-q --summary json --queues 2");
    for capture in &readable {
        command.arg("-r").arg(directory.join(&capture.name));
    }
    let summary = Summary::balanced(&crate::command::run(&mut command));
    let sum = readable
        .iter()
        .filter_map(|capture| capture.expected)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!((summary.number("/packets"), summary.number("/bytes")), sum);
}
