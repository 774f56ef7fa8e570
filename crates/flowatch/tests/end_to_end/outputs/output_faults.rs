//! Full disks, removed directories, and slow readers.

use super::output;
use crate::captures;
use crate::command::{Running, named_pipe, run, watch};
use crate::summary::Summary;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Enough for every wait here, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Waits until `holds` returns true.
#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A small file system, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(status.success(), "mounting a tmpfs needs root");
        Self(directory)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn full_disk_is_reported_once_and_lost_records_are_counted() {
    // Room for a compressed block or two, but not for all records in any format.
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
        let outcome = run(command.arg(&captures::large().path));
        assert_eq!(outcome.code, Some(2), "{what}: {}", outcome.stderr);
        // Each of Tstat's three logs reports it.
        let reports = outcome.stderr.matches("no space left").count();
        assert!((1..=3).contains(&reports), "{what}: {}", outcome.stderr);
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
            // The only row group does not fit, and a part of it would be unreadable.
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

/// Returns the files below a directory.
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

/// A capture that does not fit contains whole packets only, and the error says how many.
#[test]
fn full_disk_leaves_only_whole_packets() {
    let disk = SmallDisk::new("256k");
    let path = disk.0.path().join("x.pcap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    let outcome = run(command.args(["gen", "-q", "-c", "100000", "-w"]).arg(&path));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let (_, rest) = outcome.stderr.split_once("the first ").unwrap();
    let (packets, rest) = rest.split_once(' ').unwrap();
    assert!(
        rest.starts_with("packets were written: free space"),
        "{rest}"
    );
    let outcome = run(watch("-q --summary json -r").arg(&path));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let summary = Summary::balanced(&outcome);
    assert_eq!(summary.number("/packets").to_string(), packets);
    assert!(summary.number("/packets") > 1000);
}

/// Removes the directory when half of the capture has been read.
#[test]
fn run_survives_removal_of_the_output_directory() {
    let directory = tempfile::tempdir().unwrap();
    for (spec, first) in [
        ("tstat:{}/logs", "logs"),
        ("json:{}/flows.json", "flows.json"),
        ("json:{}/d/flows.json", "d"),
        ("parquet:{}/p", "p"),
    ] {
        fs::create_dir_all(directory.path().join("d")).unwrap();
        let spec = spec.replace("{}", directory.path().to_str().unwrap());
        let path = directory.path().join(first);
        let mut command = watch(&format!(
            "-q --summary json --flow bidirectional --idle-timeout 1ms -o {spec} -r -"
        ));
        let mut running = Running::start(command.stdin(Stdio::piped()));
        let mut stdin = running.stdin();
        let capture = fs::read(&captures::large().path).unwrap();
        let half = capture.len() / 2;
        stdin.write_all(&capture[..half]).unwrap();
        // Parquet buffers its records, but still notices that its file is gone.
        if first == "p" {
            wait_until("the file", || path.exists());
        } else {
            wait_until("records in the file", || bytes_in(&path) > 1_000_000);
        }
        if path.is_dir() {
            // The run may create new files in it meanwhile.
            while let Err(error) = fs::remove_dir_all(&path) {
                assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
            }
        } else {
            fs::remove_file(&path).unwrap();
        }
        stdin.write_all(&capture[half..]).unwrap();
        drop(stdin);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(
            outcome
                .stderr
                .contains("removed while it was being written"),
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
        assert!(bytes_in(&path) > 0, "not created again");
    }
}

/// Returns the bytes of a file, or of all files below a directory.
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

/// Closing standard output is normal, but a closed reader of a named pipe is an error.
#[test]
fn named_pipe_without_reader_loses_records_and_reports_it() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = named_pipe(directory.path());
    let mut command = watch(&format!("-q --summary json -o json:{} -r", pipe.display()));
    let running = Running::start(command.arg(&captures::large().path));
    let mut reader = BufReader::new(fs::File::open(&pipe).unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome.stderr.contains("its reader has closed it"),
        "{outcome:?}"
    );
    let summary = Summary::balanced(&outcome);
    let [written, lost] = ["written", "lost"].map(|it| summary.number(&format!("/outputs/0/{it}")));
    assert!(lost > 0, "{outcome:?}");
    assert_eq!(written + lost, summary.number("/flows"));
    assert_eq!(lost, summary.number("/records_lost"));
}

/// When reading files, no records are lost to a slow reader, and it does not delay the other output.
#[test]
fn slow_reader_of_one_output_loses_no_records_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = named_pipe(directory.path());
    let file = directory.path().join("flows.csv");
    let mut command = watch(&format!(
        "-q --summary json -o json:{} -o csv:{} -r",
        pipe.display(),
        file.display()
    ));
    let running = Running::start(command.arg(&captures::large().path));
    let mut reader = BufReader::new(fs::File::open(&pipe).unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    // The pipe stays full while the other output continues.
    wait_until("the other output", || bytes_in(&file) > 0);
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
