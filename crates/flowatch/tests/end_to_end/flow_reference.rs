//! Every flow of the mix (or of its replacement) equals that of an independent reference: key, packets
//! and bytes per direction, start and end; for every flow definition, output format and kind of input.
//! The totals equal those in the captures' README.

use crate::captures::{self, Frame};
use crate::command::{run, watch};
use crate::records;
use crate::reference::{Definition, Flow, Flows, Totals, flows, recorded};
use crate::summary::Summary;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn frames() -> &'static [Frame] {
    static FRAMES: OnceLock<Vec<Frame>> = OnceLock::new();
    FRAMES.get_or_init(|| captures::read(&fs::read(&captures::large().path).unwrap()))
}

#[track_caller]
fn assert_same(found: &Flows, expected: &Flows, what: &str) {
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(key, flow)| found.get(key) != Some(flow))
        .map(|(key, flow)| format!("{key:?}: {:?}, not {flow:?}", found.get(key)))
        .chain(
            found
                .keys()
                .filter(|key| !expected.contains_key(key))
                .map(|key| format!("{key:?}: not in the reference")),
        )
        .collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} of {} flows differ:\n{}",
        wrong.len(),
        expected.len(),
        wrong[..wrong.len().min(10)].join("\n")
    );
}

#[test]
fn reference_counts_match_the_readme_of_the_captures() {
    if !traffic::present() {
        return;
    }
    let (unidirectional, totals) = flows(frames(), Definition::FiveTuple);
    assert_eq!(
        totals,
        Totals {
            packets: 200_000,
            wire_bytes: 75_592_684,
            captured_bytes: 72_644_696,
            truncated: 2_115,
            ipv4: 188_973,
            ipv6: 6_656,
            not_ip: 4_371,
            arp: 3_832,
            fragments: 10_774,
            vlan_tags: 5_894,
            tcp: 149_960,
            udp: 39_036,
            icmp: 312,
            other: 6_321,
        }
    );
    assert_eq!(unidirectional.len(), captures::MIX_FLOWS);
    let packets = || unidirectional.values().map(|flow| flow.packets[0]);
    assert_eq!(packets().max(), Some(4_992));
    assert_eq!(packets().filter(|&packets| packets == 1).count(), 8_408);
    let (bidirectional, _) = flows(frames(), Definition::Bidirectional);
    assert_eq!(bidirectional.len(), 13_147);
}

#[test]
fn every_flow_matches_the_reference_in_every_definition_and_format() {
    for definition in Definition::ALL {
        let (expected, totals) = flows(frames(), definition);
        if definition == Definition::FiveTuple {
            assert_eq!(expected.len(), captures::large().flows);
        }
        let directory = tempfile::tempdir().unwrap();
        let [csv, json] = ["flows.csv", "flows.json"].map(|name| directory.path().join(name));
        let mut command = watch("-q --summary json --whole-flows --flow");
        command
            .arg(definition.name())
            .arg("-r")
            .arg(&captures::large().path);
        command.arg("-o").arg(format!("csv:{}", csv.display()));
        command.arg("-o").arg(format!("json:{}", json.display()));
        let outcome = run(&mut command);
        let summary = Summary::balanced(&outcome);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));

        let rows = records::csv(&fs::read(csv).unwrap());
        assert_same(&recorded(&rows, definition), &expected, definition.name());
        assert_eq!(records::json(&fs::read(json).unwrap()), rows);

        let number = |path| summary.number(path);
        assert_eq!(number("/flows"), expected.len() as u64);
        assert_eq!(number("/evicted"), 0);
        assert_eq!(number("/packets"), totals.packets);
        assert_eq!(number("/bytes"), totals.wire_bytes);
        assert_eq!(number("/truncated"), totals.truncated);
        assert_eq!(number("/fragments"), totals.fragments);
        assert_eq!(number("/books/in_flows"), totals.ipv4 + totals.ipv6);
        assert_eq!(number("/books/no_flow/arp"), totals.arp);
        assert_eq!(
            number("/books/processed") - number("/books/in_flows"),
            totals.not_ip
        );
    }
}

#[test]
fn timed_out_parts_add_up_to_whole_flows() {
    let (expected, _) = flows(frames(), Definition::FiveTuple);
    let mut command = watch("-q --summary none -o csv --idle-timeout 100ms --active-timeout 500ms");
    let rows = records::csv(&run(command.arg("-r").arg(&captures::large().path)).quiet_success());
    assert!(
        rows.len() > expected.len() * 3 / 2,
        "{} records",
        rows.len()
    );
    let mut found = Flows::new();
    for row in &rows {
        let [(key, part)] = recorded(std::slice::from_ref(row), Definition::FiveTuple)
            .into_iter()
            .collect::<Vec<_>>()[..]
        else {
            panic!("{row:?}");
        };
        let whole = found.get(&key).map_or(part, |before| Flow {
            packets: [before.packets[0] + part.packets[0], 0],
            bytes: [before.bytes[0] + part.bytes[0], 0],
            start_ns: before.start_ns.min(part.start_ns),
            end_ns: before.end_ns.max(part.end_ns),
        });
        found.insert(key, whole);
    }
    assert_same(&found, &expected, "sum of the parts");
}

#[test]
fn pipes_gzip_and_zstd_give_the_same_records_as_the_file() {
    const FLAGS: &str = "-q --summary none --sort -o csv --flow bidirectional --whole-flows";
    let plain = &captures::large().path;
    let expected = run(watch(FLAGS).arg("-r").arg(plain)).quiet_success();
    let (flows, _) = flows(frames(), Definition::Bidirectional);
    assert_eq!(records::csv(&expected).len(), flows.len());

    let directory = tempfile::tempdir().unwrap();
    let [gz, zst] = ["gzip", "zstd"].map(|program| {
        let path = directory.path().join(program);
        let status = Command::new(program)
            .args(["-q", "-1c"])
            .arg(plain)
            .stdout(File::create(&path).unwrap())
            .status()
            .unwrap_or_else(|_| panic!("this test needs {program}: run ./setup"));
        assert!(status.success(), "{program}");
        path
    });
    for compressed in [&gz, &zst] {
        let found = run(watch(FLAGS).arg("-r").arg(compressed)).quiet_success();
        assert!(found == expected, "{}", compressed.display());
    }
    // Standard input: a file, a pipe, and compressed through a pipe.
    let from_file = run(watch(FLAGS)
        .args(["-r", "-"])
        .stdin(File::open(plain).unwrap()));
    assert!(from_file.quiet_success() == expected, "standard input");
    for path in [plain, &gz, &zst] {
        let mut cat = Command::new("cat")
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let found = run(watch(FLAGS)
            .args(["-r", "-"])
            .stdin(cat.stdout.take().unwrap()));
        assert!(cat.wait().unwrap().success());
        assert!(found.quiet_success() == expected, "cat {}", path.display());
    }
}
