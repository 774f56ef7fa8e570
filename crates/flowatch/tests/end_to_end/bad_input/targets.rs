//! Outputs that cannot be written: missing permissions, full disks, targets of the wrong type.

use super::{as_nobody, assert_fails, file};
use crate::captures;
use crate::command::{run, watch};
use crate::summary::Summary;
use std::fs;
use std::process::Command;

#[test]
fn output_without_write_permission_exits_with_77() {
    let (directory, mut command) = as_nobody("--summary none -r -");
    command
        .arg("-o")
        .arg(format!("csv:{}/flows.csv", directory.path().display()));
    let outcome = run(command.stdin(fs::File::open(captures::example()).unwrap()));
    assert_fails(
        &outcome,
        77,
        &["flows.csv: permission denied; choose another target"],
    );
}

/// Not even the owner can write to a read-only file system.
#[test]
fn read_only_file_system_is_not_a_missing_permission() {
    let line = format!(
        "mount -t tmpfs -o ro none /mnt && exec {} watch --summary none -o csv:/mnt/x.csv -r {}",
        env!("CARGO_BIN_EXE_flowatch"),
        captures::example().display()
    );
    let mut command = Command::new("unshare");
    let outcome = run(command.args(["--mount", "sh", "-c", &line]));
    assert_fails(&outcome, 2, &["/mnt/x.csv: the file system is read-only"]);
}

#[test]
fn invalid_output_is_reported_before_anything_is_read() {
    for (target, words) in [
        (
            "csv:/nowhere/flows.csv",
            "no such directory; create the parent directory first",
        ),
        ("csv:/", "is a directory; specify a file in it"),
    ] {
        let outcome = run(watch("--summary none -o")
            .arg(target)
            .arg("-r")
            .arg(captures::example()));
        assert_fails(&outcome, 2, &[words]);
    }
}

#[test]
fn full_disk_counts_lost_records() {
    let large = captures::large();
    for flags in [
        "-o json:/dev/full",
        "-o csv:/dev/full",
        "--sort -o json:/dev/full",
        "--model pipeline --monitors 2 -o json:/dev/full",
    ] {
        for (capture, flows) in [
            (captures::example(), 195..250),
            (
                large.path.clone(),
                large.flows as u64..large.flows as u64 * 9 / 8,
            ),
        ] {
            let mut command = watch(&format!("-q --summary json {flags} -r"));
            let outcome = run(command.arg(capture));
            assert_fails(
                &outcome,
                2,
                &["/dev/full: no space left on the device; free some space"],
            );
            let summary = Summary::balanced(&outcome);
            let records = summary.number("/flows");
            assert!(flows.contains(&records), "{records}");
            assert_eq!(summary.number("/outputs/0/written"), 0);
            assert_eq!(summary.number("/outputs/0/lost"), records, "{flags}");
            assert_eq!(summary.faults().len(), 1);
        }
    }
}

#[test]
fn full_standard_output_is_an_error() {
    let outcome = run_into_full(&mut watch("-q --summary json -o csv -r"));
    assert_eq!(outcome.0, Some(2));
    assert!(
        outcome.1.contains("standard output: no space left"),
        "{}",
        outcome.1
    );
}

#[test]
fn failing_to_print_is_an_error() {
    let example = captures::example();
    let example = example.to_str().unwrap();
    for arguments in [
        &["watch", "-r", example][..],
        &["watch", "--summary", "json", "-r", example],
        &["gen", "-i", "null:", "-c", "10"],
        &["gen", "-i", "null:", "-c", "10", "--summary", "json"],
        &["lab", "list"],
        &["doctor"],
        &["completions", "bash"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
        let outcome = into_full(command.args(arguments));
        assert_eq!(
            outcome,
            (
                Some(2),
                "flowatch: standard output: no space left on the device; make room\n".to_owned()
            ),
            "{arguments:?}"
        );
    }
}

/// Reads the example with standard output on a full device.
fn run_into_full(command: &mut Command) -> (Option<i32>, String) {
    into_full(command.arg(captures::example()))
}

fn into_full(command: &mut Command) -> (Option<i32>, String) {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command.stdout(full).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn refuses_to_overwrite_the_input_capture() {
    let example = fs::read(captures::example()).unwrap();
    let (_directory, path) = file("precious.pcap", &example);
    let mut command = watch("-q --summary none -r");
    command
        .arg(&path)
        .arg("-o")
        .arg(format!("csv:{}", path.display()));
    let outcome = run(&mut command);
    assert_fails(&outcome, 2, &["precious.pcap"]);
    assert!(fs::read(&path).unwrap() == example, "the capture is gone");
}
