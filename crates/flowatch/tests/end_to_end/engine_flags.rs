//! What the engine can be told: the level of counting, flows by the device's hash, and the flags that
//! go with neither.

use crate::captures;
use crate::command::{Outcome, run, watch};
use crate::records;
use crate::summary::Summary;
use std::collections::BTreeMap;

#[track_caller]
fn on_example(flags: &str) -> Outcome {
    run(watch(flags).arg("-r").arg(captures::example()))
}

#[test]
fn packet_level_counts_the_packets_of_capinfos_and_nothing_else() {
    for queues in [1, 2] {
        let flags = format!("-q --summary json --level packet --queues {queues}");
        let summary = Summary::balanced(&on_example(&flags));
        // As capinfos 4.0 counts the example.
        assert_eq!(summary.number("/books/counted_only"), 548);
        assert_eq!(summary.number("/bytes"), 128_478);
        assert_eq!(summary.number("/flows"), 0);
    }
    let text = String::from_utf8(on_example("--level packet").quiet_success()).unwrap();
    assert!(text.contains("--level packet: no header is read"), "{text}");
}

#[test]
fn flows_by_hash_have_a_hash_and_no_addresses_and_say_who_made_it() {
    let outcome = on_example("-q --summary json --flow rss");
    let summary = Summary::balanced(&outcome);
    let in_flows = summary.number("/books/in_flows");
    assert_eq!(summary.number("/hashes/in_software"), in_flows);
    assert_eq!(summary.number("/hashes/by_device"), 0);
    let packets = |rows: &[records::Row]| -> u64 {
        rows.iter()
            .map(|row| row["packets"].parse::<u64>().unwrap())
            .sum()
    };
    let csv = on_example("-q --summary none --whole-flows --flow rss -o csv").quiet_success();
    let rows = records::csv(&csv);
    assert_eq!(packets(&rows), in_flows);
    let mut hashes = BTreeMap::new();
    for row in &rows {
        assert!(!row.keys().any(|name| name.contains("Address")), "{row:?}");
        *hashes.entry(&row["flowHash"]).or_insert(0) += 1;
    }
    assert!(
        hashes.values().all(|&count| count == 1),
        "a flow is one record"
    );
    // A 32-bit hash tells these few flows apart: as many as there are 5-tuples.
    let csv = on_example("-q --summary none --whole-flows -o csv").quiet_success();
    assert_eq!(rows.len(), records::csv(&csv).len());
    let text = String::from_utf8(on_example("--flow rss").quiet_success()).unwrap();
    assert!(text.contains("0 packets hashed by the device"), "{text}");
}

#[test]
fn contradictions_are_told_with_their_reason() {
    const CASES: [(&str, &[&str]); 7] = [
        (
            "--level packet -o csv",
            &["-o with --level packet", "no flows"],
        ),
        (
            "--level packet --model pipeline",
            &["--model with --level packet"],
        ),
        (
            "--level packet --statistics gap",
            &["--statistics with --level packet"],
        ),
        (
            "--flow rss --hash symmetric-toeplitz",
            &["16 bits of entropy", "steers packets"],
        ),
        ("--flow rss --vlan", &["--vlan with --flow rss"]),
        ("--flow rss --community-id", &["--community-id with"]),
        (
            "--flow rss --decapsulate",
            &["--decapsulate with --flow rss", "headers are not read"],
        ),
    ];
    for (flags, words) in CASES {
        let outcome = on_example(&format!("--summary none {flags}"));
        assert_eq!(outcome.code, Some(2), "{flags}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{flags}: {}", outcome.stderr);
        }
    }
}
