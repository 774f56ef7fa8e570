//! Unreadable input: files that are not captures, truncated files, damaged files.

use super::{assert_fails, file};
use crate::captures;
use crate::command::{run, watch};
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Packets and bytes of the example, according to capinfos 4.0.
const EXAMPLE: (u64, u64) = (548, 128_478);

/// Asserts that a file is rejected from the start.
#[track_caller]
fn assert_refused(path: &Path, words: &[&str]) {
    let name = path.display().to_string();
    let all: Vec<&str> = words.iter().copied().chain([name.as_str()]).collect();
    for flags in [
        "",
        "--queues 2",
        "--model pipeline",
        "-o json",
        "--sort -o csv",
    ] {
        let outcome = run(watch(&format!("--summary none {flags} -r")).arg(path));
        assert_fails(&outcome, 2, &all);
    }
}

#[test]
fn rejects_files_that_are_not_captures() {
    let directory = tempfile::tempdir().unwrap();
    assert_refused(directory.path(), &["this directory contains no files"]);
    assert_refused(
        &directory.path().join("none.pcap"),
        &["no such file; check the path"],
    );
    let (_directory, path) = file("empty.pcap", b"");
    assert_refused(&path, &["the input is empty; was the capture completed?"]);
    let (_directory, path) = file("notes.txt", b"hello world\n");
    assert_refused(
        &path,
        &["not a pcap or pcapng file", "text: \"hello world\""],
    );
    let (_directory, path) = file("short.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
    assert_refused(&path, &["truncated in its file header"]);
    let (_directory, path) = file("packed.pcap.xz", b"\xfd7zXZ\0rest");
    assert_refused(&path, &["xz data are corrupt"]);
    let (_directory, path) = file("noise.pcap.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03noise");
    assert_refused(&path, &["gzip data are corrupt"]);
    let (_directory, path) = file(
        "nothing.pcap.zst",
        b"\x28\xb5\x2f\xfd\x24\0\x01\0\0\x99\xe9\xd8\x51",
    );
    assert_refused(&path, &["the input is empty after decompression (zstd)"]);
}

#[test]
fn missing_files_are_reported_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let mut command = watch(&format!("--summary json -o csv:{} -r", output.display()));
    command.args(["/nowhere/none.pcap", "-r", "/nowhere/other.pcap"]);
    let outcome = run(&mut command);
    assert_fails(&outcome, 2, &["/nowhere/none.pcap: no such file"]);
    assert_eq!(outcome.stdout, b"");
    assert!(!output.exists());
}

#[test]
fn truncated_file_is_reported_and_the_next_file_read() {
    let example = fs::read(captures::example()).unwrap();
    let whole = captures::read(&example);
    // The file ends in the 101st packet: in its bytes, or in its header.
    let bytes: usize = whole[..100]
        .iter()
        .map(|frame| 16 + frame.bytes.len())
        .sum();
    let before: u64 = whole[..100]
        .iter()
        .map(|frame| u64::from(frame.wire_length))
        .sum();
    // Later, as captures of the same time would be noticed.
    let mut later = whole.clone();
    for frame in &mut later {
        frame.time_ns += 3_600_000_000_000;
    }
    for extra in [20, 7] {
        let (directory, cut) = file("cut.pcap", &example[..24 + bytes + extra]);
        let name = cut.display().to_string();
        for flags in ["", "--queues 3", "--model pipeline --monitors 2"] {
            let flags = format!("-q --summary json {flags} -r");
            let words = [&*name, "after 100 packets", "truncated in a packet"];

            let alone = run(watch(&flags).arg(&cut));
            assert_fails(&alone, 2, &words);
            let summary = Summary::balanced(&alone);
            assert_eq!(summary.number("/packets"), 100, "{flags}");
            assert_eq!(summary.number("/bytes"), before);
            assert_eq!(summary.faults().len(), 1);

            let next = directory.path().join("next.pcap");
            captures::write(&next, captures::ETHERNET, &later);
            let mut both = watch(&flags);
            let both = run(both.arg(&cut).arg("-r").arg(&next));
            assert_fails(&both, 2, &words);
            let summary = Summary::balanced(&both);
            assert_eq!(summary.number("/packets"), 100 + EXAMPLE.0, "{flags}");
            assert_eq!(summary.number("/bytes"), before + EXAMPLE.1);
            assert_eq!(summary.faults().len(), 1);
        }
    }
}

#[test]
fn truncated_file_gives_the_records_before_the_end() {
    let example = fs::read(captures::example()).unwrap();
    let (_directory, cut) = file("cut.pcap", &example[..example.len() - 1]);
    let outcome = run(watch("-q --summary none -o json -r").arg(&cut));
    assert_fails(&outcome, 2, &["after 547 packets"]);
    let rows = records::json(&outcome.stdout);
    let packets: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
    // All 548 packets except 8 without a flow and the last one.
    assert_eq!(packets, 539);
}

#[test]
fn damaged_compression_is_a_read_error() {
    let packed = Command::new("gzip")
        .arg("-c")
        .arg(captures::example())
        .output();
    let packed = packed.expect("this test needs gzip").stdout;
    let (_directory, cut) = file("cut.pcap.gz", &packed[..packed.len() / 2]);
    let outcome = run(watch("-q --summary json -r").arg(&cut));
    assert_fails(&outcome, 2, &["cut.pcap.gz", "the gzip data are truncated"]);
    let packets = Summary::balanced(&outcome).number("/packets");
    assert!((100..500).contains(&packets), "{packets}");
}

/// In the middle of a file, a wrong length hides where the next packet starts.
#[test]
fn packet_of_invalid_length_ends_its_file() {
    let example = fs::read(captures::example()).unwrap();
    let whole = captures::read(&example);
    let middle: usize = whole[..300]
        .iter()
        .map(|frame| 16 + frame.bytes.len())
        .sum();
    for length in [(1 << 20) + 1, u32::MAX] {
        let mut damaged = example.clone();
        let captured = 24 + middle + 8;
        damaged[captured..captured + 4].copy_from_slice(&u32::to_le_bytes(length));
        let (_directory, path) = file("absurd.pcap", &damaged);
        let outcome = run(watch("-q --summary json -r").arg(&path));
        assert_fails(
            &outcome,
            2,
            &[
                "absurd.pcap: after 300 packets",
                &format!("invalid captured length of {length} bytes (limit: 1048576)"),
                "the rest cannot be read",
            ],
        );
        let summary = Summary::balanced(&outcome);
        assert_eq!(summary.number("/packets"), 300);
        assert_eq!(summary.number("/unreadable"), 1);
    }
}

/// A file with an invalid snaplen is read completely, and the snaplen reported and counted. (Programs
/// without a limit write such values.)
#[test]
fn invalid_snaplen_is_reported_and_the_file_read() {
    const WHOLE: &str = "they are ignored, and packets are read with their own lengths";
    let mut example = fs::read(captures::example()).unwrap();
    let packets = captures::read(&example);
    let longer = |limit: usize| {
        let lengths = packets.iter().map(|frame| frame.bytes.len());
        lengths.filter(|length| *length > limit).count() as u64
    };
    for (length, invalid, exceeded) in [
        (0, 0, 0),
        (100, 0, longer(100)),
        (1 << 30, 1, 0),
        (u32::MAX, 1, 0),
    ] {
        example[16..20].copy_from_slice(&u32::to_le_bytes(length));
        let (_directory, path) = file("snap.pcap", &example);
        for flags in ["", "--queues 2", "--model pipeline", "--buffer 16MiB"] {
            let outcome = run(watch(&format!("-q --summary json {flags} -r")).arg(&path));
            match (invalid, exceeded) {
                (0, 0) => assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), "")),
                (0, _) => assert_fails(
                    &outcome,
                    0,
                    &[&format!("header: {exceeded}; they are read whole")],
                ),
                _ => assert_fails(
                    &outcome,
                    0,
                    &[WHOLE, &format!(": 1, the largest {length} bytes")],
                ),
            }
            let summary = Summary::balanced(&outcome);
            assert_eq!(
                (summary.number("/packets"), summary.number("/bytes")),
                EXAMPLE
            );
            assert_eq!(summary.number("/snaplens/invalid"), invalid, "{flags}");
            assert_eq!(summary.number("/snaplens/exceeded"), exceeded, "{flags}");
        }
    }
}

#[test]
fn text_summary_counts_invalid_snaplens() {
    let mut example = fs::read(captures::example()).unwrap();
    example[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let (_directory, path) = file("snap.pcap", &example);
    let outcome = run(watch("-r").arg(&path));
    let text = String::from_utf8_lossy(&outcome.stdout);
    let line = text.lines().find(|line| line.contains("invalid snaplens"));
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{text}");
}

#[test]
fn unsupported_link_type_is_reported_once_and_counted() {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("user.pcap");
    // LINKTYPE_USER0.
    captures::write(&path, 147, &frames);
    let outcome = run(watch("-q --summary json -r")
        .arg(&path)
        .arg("-r")
        .arg(&path));
    assert_fails(&outcome, 0, &["link type 147"]);
    let summary = Summary::balanced(&outcome);
    assert_eq!(summary.number("/books/no_flow/unknown_link"), 2 * EXAMPLE.0);
    assert_eq!(summary.number("/flows"), 0);
}
