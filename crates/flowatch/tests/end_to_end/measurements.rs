//! Measurements beside the flow table account for every packet, in every model.

use crate::captures;
use crate::command::{run, watch};
use crate::summary::Summary;
use std::fs;
use std::path::{Path, PathBuf};

/// Every model, with one and several threads.
const VARIANTS: [&str; 7] = [
    "",
    "--queues 3",
    "--model pipeline",
    "--model pipeline --monitors 3",
    "--model cooperative --monitors 2",
    "--buffer 4MiB --decapsulate",
    "--flow src --vlan",
];

/// Returns the summary of a run with the traffic mix. Checks that its tables add up to the books.
#[track_caller]
fn mix_summary(capture: &Path, flags: &str) -> Summary {
    let flags = format!("-q --summary json --mix {flags}");
    let outcome = run(watch(&flags).arg("-r").arg(capture));
    let summary = Summary::balanced(&outcome);
    let sum = |table: &str, unit: &str| -> u64 {
        let path = format!("/measurements/traffic_mix/{table}");
        let rows = summary.at(&path).as_object().unwrap();
        rows.values().map(|row| row[unit].as_u64().unwrap()).sum()
    };
    let packets = summary.number("/books/processed");
    let bytes = summary.number("/books/bytes/processed");
    for table in ["protocols", "frame_sizes"] {
        let sums = (sum(table, "packets"), sum(table, "bytes"));
        assert_eq!(sums, (packets, bytes), "{table} {flags} {capture:?}");
    }
    assert_eq!(summary.at("/measurements/traffic_mix/balanced"), true);
    summary
}

#[test]
fn the_traffic_mix_adds_up_to_the_books_in_every_model() {
    let directory = fs::read_dir(captures::shipped("")).unwrap();
    let mut paths: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind != "md"));
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let first = mix_summary(&path, VARIANTS[0]);
        for flags in &VARIANTS[1..] {
            let other = mix_summary(&path, flags);
            let sizes = "/measurements/traffic_mix/frame_sizes";
            assert_eq!(other.at(sizes), first.at(sizes), "{flags} {path:?}");
            if !flags.contains("--decapsulate") && !flags.contains("--flow") {
                let mix = "/measurements/traffic_mix";
                assert_eq!(other.at(mix), first.at(mix), "{flags} {path:?}");
            }
        }
    }
}

#[test]
fn the_text_summary_has_the_traffic_mix_only_with_the_flag() {
    let text = |flags: &str| {
        let output = run(watch(flags).arg("-r").arg(captures::example())).quiet_success();
        String::from_utf8(output).unwrap()
    };
    let with = text("--mix");
    for line in ["Traffic mix: IP protocol", "  tcp  ", "  65 to 127  "] {
        assert!(with.contains(line), "{line}: {with}");
    }
    assert!(!text("").contains("Traffic mix"));
}

#[test]
fn packet_level_has_no_traffic_mix() {
    let mut command = watch("--level packet --mix");
    let outcome = run(command.arg("-r").arg(captures::example()));
    assert_ne!(outcome.code, Some(0));
    let message = outcome.stderr;
    assert!(message.contains("--mix with --level packet"), "{message}");
}
