//! Filters match the same packets as tcpdump, and filtered packets are counted.

use crate::captures::{self, mix, shipped};
use crate::command::{run, watch};
use crate::summary::Summary;
use std::path::Path;
use std::process::Command;

/// Capture, expression, and the packets and wire bytes that match: `tcpdump -r CAPTURE -w OUT
/// 'EXPRESSION'` and `capinfos -cd OUT` (tcpdump 4.99.3 with libpcap 1.10.3, capinfos 4.0).
const SHIPPED: [(&str, &str, u64, u64); 20] = [
    ("example.pcap", "tcp port 80", 222, 79_505),
    ("example.pcap", "vlan and ip", 0, 0),
    ("example.pcap", "ip6", 56, 10_453),
    ("example.pcap", "udp or icmp", 239, 32_235),
    ("example.pcap", "greater 1000", 13, 17_981),
    ("example.pcap", "not ip", 84, 14_478),
    ("ipv6_fragments.pcap", "ip6", 36, 6_214),
    ("ipv6_fragments.pcap", "tcp port 80", 0, 0),
    ("sll.pcap", "ip6", 1, 1_296),
    ("sll.pcap", "udp or icmp", 0, 0),
    ("sll2.pcap", "tcp", 3, 211),
    ("raw_ip.pcap", "tcp port 80", 91, 29_696),
    ("raw_ip.pcap", "ip6", 50, 24_658),
    ("raw_ip.pcap", "greater 1000", 10, 14_362),
    ("null.pcap", "udp or icmp", 1, 48),
    ("null.pcap", "not ip", 2, 876),
    ("nanoseconds_big_endian.pcap", "tcp", 10, 2_198),
    ("tls.pcap", "host 10.0.0.1", 20, 5_483),
    ("pppoe.pcap", "pppoes", 2, 226),
    ("mpls.pcap", "mpls", 1, 144),
];

/// Expression, and the packets and wire bytes of the mix that match, found the same way.
const MIX: [(&str, u64, u64); 7] = [
    ("tcp port 80", 28_569, 20_643_821),
    ("vlan and ip", 4_804, 3_407_610),
    ("ip6", 6_520, 3_244_270),
    ("udp or icmp", 36_849, 10_805_397),
    ("greater 1000", 33_010, 53_646_734),
    ("not ip", 16_083, 7_544_895),
    (
        "net 10.0.0.0/8 and tcp[tcpflags] & tcp-syn != 0",
        796,
        52_080,
    ),
];

/// Returns packets and wire bytes that match, and those that are filtered.
fn matching_and_filtered(
    capture: &Path,
    expression: &str,
    flags: &str,
) -> ((u64, u64), (u64, u64)) {
    let mut command = watch(&format!("-q --summary json {flags} -r"));
    let outcome = run(command.arg(capture).arg(expression));
    let summary = Summary::balanced(&outcome);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (Some(0), ""),
        "{expression}"
    );
    let number = |path| summary.number(path);
    (
        (number("/packets"), number("/bytes")),
        (number("/books/filtered"), number("/books/bytes/filtered")),
    )
}

#[track_caller]
fn assert_matches(capture: &Path, expression: &str, expected: (u64, u64), all: (u64, u64)) {
    for flags in ["", "--queues 2", "--model pipeline --monitors 2"] {
        let (kept, filtered) = matching_and_filtered(capture, expression, flags);
        let what = || format!("{} '{expression}' {flags}", capture.display());
        assert_eq!(kept, expected, "{}", what());
        assert_eq!(
            (kept.0 + filtered.0, kept.1 + filtered.1),
            all,
            "{}",
            what()
        );
    }
}

fn totals(capture: &Path) -> (u64, u64) {
    let outcome = run(watch("-q --summary json -r").arg(capture));
    let summary = Summary::balanced(&outcome);
    (summary.number("/packets"), summary.number("/bytes"))
}

#[test]
fn filters_match_tcpdump_on_shipped_captures() {
    for (name, expression, packets, bytes) in SHIPPED {
        let capture = shipped(name);
        assert_matches(&capture, expression, (packets, bytes), totals(&capture));
    }
}

#[test]
fn filters_match_tcpdump_on_the_mix() {
    if !traffic::present() {
        return;
    }
    for (expression, packets, bytes) in MIX {
        assert_matches(mix(), expression, (packets, bytes), (200_000, 75_592_684));
    }
}

#[test]
fn filter_finds_ipv6_after_any_loopback_family() {
    // The header has the value 30, as on macOS; in files libpcap accepts 24, 28 and 30 for IPv6.
    let capture = shipped("null.pcap");
    assert_matches(&capture, "ip6", (1, 479), totals(&capture));
}

#[test]
fn filter_words_are_joined() {
    let mut command = watch("-q --summary json -r");
    command.arg(captures::example()).args(["tcp", "port", "80"]);
    let summary = Summary::balanced(&run(&mut command));
    assert_eq!(summary.number("/packets"), 222);
    assert_eq!(summary.number("/books/filtered"), 548 - 222);
}

#[test]
fn tcpdump_agrees_if_installed() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("kept.pcap");
    let shared = traffic::find().unwrap();
    let shared = shared.map(|directory| directory.join("zeek/http__100-continue.pcap"));
    let shipped = [captures::example(), shipped("raw_ip.pcap")];
    for capture in shipped.iter().chain(&shared) {
        for expression in ["tcp port 80", "ip6", "udp", "less 100", "tcp[13] & 2 != 0"] {
            // As root, tcpdump would otherwise switch to a user who cannot write here.
            let status = Command::new("tcpdump")
                .args(["-Z", "root", "-r"])
                .arg(capture)
                .arg("-w")
                .arg(&kept)
                .arg(expression)
                .output()
                .unwrap();
            assert!(status.status.success(), "{expression}: {status:?}");
            let (found, _) = matching_and_filtered(capture, expression, "");
            assert_eq!(found, totals(&kept), "{} '{expression}'", capture.display());
        }
    }
}
