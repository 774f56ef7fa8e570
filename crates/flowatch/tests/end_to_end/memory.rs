//! The memory that a run announces is what it uses, under a flood of new flows too.

use crate::command::{Running, watch};
use crate::namespace::Cable;
use crate::summary::Summary;
use std::process::Command;

/// Sends frames of new flows as fast as the machine can, for a few seconds.
fn flood(cable: &Cable) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.args([
        "gen",
        "-q",
        "-i",
        "left",
        "--flows",
        "2^20",
        "--random",
        "src,dst,sport",
    ]);
    command.args([
        "--rate",
        "300Kpps",
        "--when-late",
        "skip",
        "--duration",
        "4s",
    ]);
    cable.sender.output(&command);
}

#[test]
fn announced_memory_is_what_a_flood_uses() {
    let directory = tempfile::tempdir().unwrap();
    let cable = Cable::new();
    // The part of the plan that a flood of single packets fills: names and segments stay empty.
    for (flags, least) in [
        ("--max-flows 200000", 0.75),
        (
            "--max-flows 100000 --statistics moments --model pipeline",
            0.5,
        ),
        ("--max-flows 100000 --queues 2 --idle-timeout 100ms", 0.4),
        ("--max-flows 20000 --statistics full", 0.4),
        ("--max-flows 100000 --buffer 64MiB", 0.6),
    ] {
        let output = directory.path().join("flows.csv");
        let _ = std::fs::remove_file(&output);
        let live = format!(
            "-i right -v --interval 100ms --summary json {flags} -o csv:{}",
            output.display()
        );
        let mut running = Running::start(&mut cable.receiver.command_inside(&watch(&live)));
        running.wait_for_line(|line| line.contains("memory: at most "));
        running.wait_for_packets(0);
        flood(&cable);
        running.signal("INT");
        let outcome = running.finish();
        let summary = Summary::balanced(&outcome);
        let (planned, peak) = (
            summary.number("/memory/planned_bytes") as f64,
            summary.number("/memory/peak_bytes") as f64,
        );
        let used = peak / planned;
        assert!(used < 1.0 && used > least, "{flags}: {used}: {outcome:?}");
    }
}

#[test]
fn sorting_a_link_is_refused() {
    let outcome = crate::command::run(&mut watch("-i lo --sort -o csv"));
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("--sort with -i"),
        "{}",
        outcome.stderr
    );
}
