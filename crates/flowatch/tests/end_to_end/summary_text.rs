//! What the summary says: times of the traffic and of the program, and the list of the largest flows;
//! and that CSV readers take no text for a number.

use crate::captures::{self, ETHERNET, Endpoints, Frame};
use crate::command::{run, watch};
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::path::Path;

const START_NS: i64 = 1_700_000_000_000_000_000;

/// Two packets, a quarter of an hour apart, with two VLAN tags.
fn tagged(path: &Path) {
    let ends = Endpoints {
        source: 0x0a00_0001,
        destination: 0xc0a8_0001,
        source_port: 1000,
        destination_port: 2000,
    };
    let mut bytes = captures::udp(ends);
    bytes.splice(12..12, [0x88, 0xa8, 0, 100, 0x81, 0, 0x20, 7]);
    let frames = [0, 900_000_000_000].map(|ns| Frame::whole(START_NS + ns, bytes.clone()));
    captures::write(path, ETHERNET, &frames);
}

fn text(path: &Path, flags: &str) -> String {
    let outcome = run(watch(&format!("{flags} -r")).arg(path));
    String::from_utf8(outcome.quiet_success()).unwrap()
}

#[test]
fn rate_and_duration_are_those_of_the_traffic() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("tagged.pcap");
    tagged(&capture);
    let text = text(&capture, "--whole-flows");
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with("2 packets, 136 B in 1 flows within 15m 00s (0.0"),
        "{first}"
    );
    let second = lines.next().unwrap();
    assert!(second.starts_with("flowatch ran for "), "{second}");
    assert!(!second.contains("per packet"), "{second}");

    for (flags, seconds) in [
        ("", Some(900.0)),
        ("--level packet", None),
        ("udp port 7", None),
    ] {
        let mut command = watch(&format!("-q --summary json {flags} -r"));
        let summary = Summary::balanced(&run(command.arg(&capture)));
        assert_eq!(summary.at("/seconds").as_f64(), seconds, "{flags}");
        assert!(summary.at("/run_seconds").as_f64().unwrap() < 600.0);
    }
    let mut command = watch("-q --summary json -r");
    let summary = Summary::balanced(&run(command.arg(&capture)));
    assert_eq!(summary.at("/first_packet_ns").as_i64(), Some(START_NS));
    assert_eq!(
        summary.at("/last_packet_ns").as_i64(),
        Some(START_NS + 900_000_000_000)
    );
}

#[test]
fn cost_of_a_packet_needs_many_packets() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("many.pcap");
    for (packets, is_said) in [(99_999, false), (100_000, true)] {
        let bytes = captures::udp(Endpoints {
            source: 1 << 24,
            destination: 2 << 24,
            source_port: 1,
            destination_port: 2,
        });
        let frames = (0..packets).map(|at| Frame::whole(START_NS + at * 1000, bytes.clone()));
        captures::write(&capture, ETHERNET, &frames.collect::<Vec<_>>());
        let text = text(&capture, "");
        assert_eq!(text.contains(" ns per packet, "), is_said, "{text}");
    }
}

#[test]
fn list_of_flows_names_what_it_shows() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("tagged.pcap");
    tagged(&capture);
    for (flags, heading) in [
        (
            "--flow 5tuple",
            "source destination proto packets bytes duration",
        ),
        ("--flow src", "source packets bytes duration"),
        ("--flow dst", "destination packets bytes duration"),
        (
            "--flow src-dst",
            "source destination packets bytes duration",
        ),
        ("--flow rss", "hash packets bytes duration"),
        (
            "--vlan",
            "source destination vlan proto packets bytes duration",
        ),
        (
            "--flow dst --vlan",
            "destination vlan packets bytes duration",
        ),
    ] {
        let text = text(&capture, &format!("{flags} --whole-flows"));
        let mut lines = text
            .lines()
            .skip_while(|line| *line != "Largest flows")
            .skip(1);
        let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(words.join(" "), heading, "{flags}");
        let flow = lines.next().unwrap();
        assert_eq!(flow.contains(" 100/7 "), flags.contains("--vlan"), "{flow}");
        assert_eq!(
            flow.contains("192.168.0.1"),
            heading.contains("destination"),
            "{flow}"
        );
    }
    let mut command = watch("-q --summary json --vlan -r");
    let summary = Summary::balanced(&run(command.arg(&capture)));
    assert_eq!(
        *summary.at("/top_flows/0/vlan"),
        serde_json::json!([100, 7])
    );
}

/// Whether a reader that guesses types takes a text for a number and changes it.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        && text.parse::<f64>().is_ok()
}

/// Values that JSON quotes are text in CSV, too. (A list of sizes or gaps with one entry is a number in
/// either case, and has no leading zeros.)
#[test]
fn text_is_no_number_for_a_reader_of_csv() {
    let mut texts = 0;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    for directory in ["captures", "cases"] {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if !name.contains(".pcap") || name.starts_with("injection") {
                continue;
            }
            let flags = "-q --summary none --statistics full --community-id --sort -o";
            let output = |format: &str| run(watch(&format!("{flags} {format} -r")).arg(&path));
            let rows = records::csv(&output("csv").stdout);
            let json = String::from_utf8(output("json").stdout).unwrap();
            assert_eq!(rows.len(), json.lines().count(), "{name}");
            for (row, line) in rows.iter().zip(json.lines()) {
                let record: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
                let quoted = record
                    .iter()
                    .filter_map(|(name, value)| Some((name, value.as_str()?)));
                for (column, value) in quoted.filter(|(_, value)| !value.is_empty()) {
                    let found = &row[column];
                    texts += 1;
                    if !["firstPacketSizes", "firstPacketGaps"].contains(&&**column) {
                        assert!(!is_number(found), "{name}: {column} {found}");
                    }
                    let same = found == value || found.replace('x', "") == value;
                    assert!(same, "{name}: {column} {found} {value}");
                }
            }
        }
    }
    assert!(texts > 1000, "{texts}");
}
