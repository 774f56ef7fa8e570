//! Compares the counts of the TCP analysis with tshark's `tcp.analysis` of the same captures, per
//! direction; `cargo xtask golden` runs tshark.
//!
//! docs/analysis.md explains the kinds of differences, and `tests/golden/tcp_differences.tsv` lists
//! them: an additional or missing difference fails.

use crate::command::{run, watch};
use crate::records::{self, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of captures in the table, which omits those in which tshark finds nothing.
const CAPTURES_MIN: usize = 40;

/// Number of events by direction of a flow and kind.
type Counts = BTreeMap<(String, &'static str), u64>;

/// Kinds of events: name, and the tshark fields and our columns whose sums must be equal.
const COMPARED: [(&str, &[&str], &[&str]); 5] = [
    (
        "seen before",
        &["retransmission"],
        &["tcpRetransmittedPackets", "tcpDuplicatePackets"],
    ),
    (
        "fast retransmit",
        &["fast_retransmission"],
        &[
            "tcpFastRetransmitPackets",
            "tcpUnnecessaryFastRetransmitPackets",
        ],
    ),
    ("out of order", &["out_of_order"], &["tcpOutOfOrderPackets"]),
    ("zero window", &["zero_window"], &["tcpZeroWindowPackets"]),
    (
        "flow control",
        &["keep_alive", "zero_window_probe"],
        &["tcpFlowControlPackets"],
    ),
];

/// Returns tshark's counts by capture.
fn golden() -> BTreeMap<String, Counts> {
    let mut golden: BTreeMap<String, Counts> = BTreeMap::new();
    for line in tables::golden("tcp.tsv").lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [capture, source, destination, field, packets] = fields[..] else {
            panic!("golden line {line:?}");
        };
        let counts = golden.entry(capture.to_owned()).or_default();
        for (name, theirs, _) in COMPARED {
            if theirs.contains(&field) {
                let flow = format!("{source} > {destination}");
                *counts.entry((flow, name)).or_default() += packets.parse::<u64>().unwrap();
            }
        }
    }
    golden
}

/// Returns our counts of a capture.
fn ours(capture: &str) -> Counts {
    let flags = "-q --summary none --statistics tcp --whole-flows -o csv -r";
    let outcome = run(watch(flags).arg(traffic::directory().join(capture)));
    let mut counts = Counts::new();
    for row in records::csv(&outcome.stdout) {
        for reverse in [false, true] {
            for (name, _, columns) in COMPARED {
                let packets: u64 = columns.iter().map(|it| number(&row, it, reverse)).sum();
                if packets > 0 {
                    let flow = direction(&row, reverse);
                    *counts.entry((flow, name)).or_default() += packets;
                }
            }
        }
    }
    counts
}

fn number(row: &Row, column: &str, reverse: bool) -> u64 {
    if reverse {
        let (first, rest) = column.split_at(1);
        records::number(row, &format!("reverse{}{rest}", first.to_uppercase()))
    } else {
        records::number(row, column)
    }
}

fn direction(row: &Row, reverse: bool) -> String {
    let end = |which: &str| {
        let address = ["IPv4Address", "IPv6Address"]
            .iter()
            .find_map(|version| row.get(&format!("{which}{version}")))
            .unwrap();
        format!("{address} {}", row[&format!("{which}TransportPort")])
    };
    let (from, to) = (end("source"), end("destination"));
    if reverse {
        format!("{to} > {from}")
    } else {
        format!("{from} > {to}")
    }
}

#[test]
fn counts_equal_tsharks_except_for_explained_differences() {
    if !traffic::present() {
        return;
    }
    let golden = golden();
    assert!(golden.len() >= CAPTURES_MIN, "{}", golden.len());
    let mut equal: BTreeMap<&str, usize> = BTreeMap::new();
    let mut different = BTreeSet::new();
    for (capture, theirs) in &golden {
        let ours = ours(capture);
        let all: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for key in all {
            let count = |of: &Counts| of.get(key).copied().unwrap_or(0);
            let (their, our) = (count(theirs), count(&ours));
            let (flow, name) = key;
            if their == our {
                *equal.entry(name).or_default() += 1;
            } else {
                different.insert(format!("{capture}\t{flow}\t{name}\t{their}\t{our}"));
            }
        }
    }
    println!("equal: {equal:?}; different: {}", different.len());
    tables::assert_explained("tcp_differences.tsv", &different);
}
