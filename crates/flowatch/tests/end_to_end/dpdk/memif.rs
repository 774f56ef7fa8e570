//! Two processes connected by a memif: records, and which end closes first or waits.

use super::{NO_HUGE, exchange, generate, huge_pages};
use crate::command::{Running, run, watch};
use crate::summary::Summary;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Asserts that the receiver's records equal the sender's ground truth.
fn assert_records_match_truth(count: u64, watching_flags: &str, sending_flags: &str, eal: &str) {
    let watching_flags = format!("--whole-flows {watching_flags}");
    let exchanged = exchange(count, &watching_flags, sending_flags, eal)
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    assert_eq!(exchanged.sent["sent"].as_u64(), Some(count));
    for books in ["/books/received", "/books/in_flows"] {
        assert_eq!(exchanged.summary.number(books), count, "{sending_flags}");
    }
    assert_eq!(exchanged.records, exchanged.truth, "{sending_flags}");
}

#[test]
fn records_over_a_memif_equal_the_truth() {
    assert_records_match_truth(
        100_000,
        "--flow 5tuple",
        "--flows 1000 --zipf 1 --when-full retry",
        NO_HUGE,
    );
    if huge_pages() {
        assert_records_match_truth(
            60_000,
            "--model pipeline --ring 1_000_000",
            "--flows 5000 --uniform --size imix --when-full retry",
            "-- -m 64",
        );
    }
}

/// The sender reports that its link is down, and ends before its count is reached.
#[test]
fn sender_whose_receiver_exits_reports_it_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} -c 500 --summary json {NO_HUGE}"
    )));
    watching.wait_for_line(|line| line.contains("the link is down"));
    // Send slowly: a frame sent while the rings are being freed may crash the program.
    let sent = run(&mut generate(&format!(
        "-i dpdk:net_memif0,role=client,{device} --rate 1Kpps -c 100000 --summary json {NO_HUGE}"
    )));
    assert_eq!(watching.finish().code, Some(0));
    assert_eq!(sent.code, Some(1), "{sent:?}");
    let summary = Summary::parse(&sent.stdout).unwrap();
    let count = summary.number("/sent");
    assert!((500..50_000).contains(&count), "{sent:?}");
    assert_eq!(summary.at("/link_lost"), true);
    let messages: Vec<_> = sent.stderr.lines().collect();
    let [down, lost] = messages[..] else {
        panic!("{sent:?}");
    };
    assert!(down.contains("the link went down"), "{down}");
    assert!(
        lost.contains("the link was down for 5 s")
            && lost.ends_with("of 100,000 packets were sent"),
        "{lost}"
    );
}

/// Frames that the receiver has not read when the sender closes are lost.
#[test]
fn sender_waits_for_its_receiver_to_close() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} --summary json {NO_HUGE}"
    )));
    watching.wait_for_line(|line| line.contains("the link is down"));
    let begun = Instant::now();
    let sent = run(&mut generate(&format!(
        "-i dpdk:net_memif0,role=client,{device} -c 10 --summary json {NO_HUGE}"
    )));
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""), "{sent:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    watching.signal("INT");
    let outcome = watching.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    Summary::balanced(&outcome);
}

/// The server end of a memif reports that it waits for its peer, and removes its socket when stopped.
#[test]
fn sender_waiting_for_its_peer_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let mut sending = Running::start(&mut generate(&format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no -c 100 --summary json {NO_HUGE}",
        socket.display()
    )));
    sending.wait_for_line(|line| line.contains("waiting up to 10 s for it"));
    assert!(socket.exists());
    sending.signal("TERM");
    let outcome = sending.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let summary = Summary::parse(&outcome.stdout).unwrap();
    assert_eq!(
        ["sent", "unsent"].map(|name| summary.number(&format!("/{name}"))),
        [0, 100]
    );
    assert!(!socket.exists());
}

/// Returns `dpdk-testpmd` as the sending end of a memif. It sends as fast as it can until its standard
/// input closes.
fn testpmd(socket: &Path) -> Command {
    let device = format!(
        "--vdev=net_memif0,role=client,socket={},socket-abstract=no",
        socket.display()
    );
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--lcores", "0@0,1@0"])
        .args([
            "--no-huge",
            "--no-shconf",
            "--no-pci",
            "-m",
            "64",
            &device,
            "--",
        ])
        .args([
            "--forward-mode=txonly",
            "--auto-start",
            "--total-num-mbufs=2048",
        ])
        .args(["--no-lsc-interrupt", "--txpkts=60"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn counts_what_testpmd_sends_over_a_memif() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let line = format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no --interval 20ms --summary json -c 100000 {NO_HUGE}",
        socket.display()
    );
    let mut watching = Running::start(&mut watch(&line));
    watching.wait_for_line(|line| line.contains("the link is down"));
    watching.wait_for_packets(0);
    let mut sender = testpmd(&socket)
        .spawn()
        .expect("this test needs dpdk-testpmd (./setup --dpdk)");
    // It ends by count while the peer still sends: see `exchange`.
    let outcome = watching.finish();
    drop(sender.stdin.take());
    sender.wait_with_output().unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let summary = Summary::balanced(&outcome);
    let received = summary.number("/books/received");
    assert_eq!(received, 100_000);
    assert_eq!(summary.number("/flows"), 1);
    assert_eq!(summary.number("/books/bytes/in_flows"), received * 60);
}
