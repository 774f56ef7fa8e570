//! Two processes and a memif between them: what is sent, who leaves first, who waits.

use super::{NO_HUGE, exchange, generate, huge_pages};
use crate::command::{Running, run, watch};
use crate::summary::Summary;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The records are the ground truth.
fn truth_is_received(count: u64, watching_flags: &str, sending_flags: &str, eal: &str) {
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
fn what_our_generator_sends_over_a_memif_is_what_is_recorded() {
    truth_is_received(
        100_000,
        "--flow 5tuple",
        "--flows 1000 --zipf 1 --when-full retry",
        NO_HUGE,
    );
    if huge_pages() {
        truth_is_received(
            60_000,
            "--model pipeline --ring 1_000_000",
            "--flows 5000 --uniform --size imix --when-full retry",
            "-- -m 64",
        );
    }
}

/// The one that stays behind says that its link is down, and ends though its count is not reached.
#[test]
fn a_sender_whose_receiver_leaves_ends_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} -c 500 --summary json {NO_HUGE}"
    )));
    watching.await_line(|line| line.contains("the link is down"));
    // Slowly: frames that are sent in the moment in which the rings go may end the program.
    let sent = run(&mut generate(&format!(
        "-i dpdk:net_memif0,role=client,{device} --rate 1Kpps -c 100000 --summary json {NO_HUGE}"
    )));
    assert_eq!(watching.finish().code, Some(0));
    assert_eq!(sent.code, Some(1), "{sent:?}");
    let summary = Summary::parse(&sent.stdout).unwrap();
    let count = summary.number("/sent");
    assert!((500..50_000).contains(&count), "{sent:?}");
    assert_eq!(summary.at("/link_lost"), true);
    let said: Vec<_> = sent.stderr.lines().collect();
    let [down, lost] = said[..] else {
        panic!("{sent:?}");
    };
    assert!(down.contains("the link went down"), "{down}");
    assert!(
        lost.contains("no link for 5 s") && lost.ends_with("of 100,000 packets were sent"),
        "{lost}"
    );
}

/// What its receiver has not read when it leaves is lost.
#[test]
fn a_sender_stays_for_a_while_where_its_receiver_does() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} --summary json {NO_HUGE}"
    )));
    watching.await_line(|line| line.contains("the link is down"));
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

/// A memif's server that waits for its peer says so, and ends in order: no socket file stays.
#[test]
fn a_sender_that_waits_for_its_peer_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let mut sending = Running::start(&mut generate(&format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no -c 100 --summary json {NO_HUGE}",
        socket.display()
    )));
    sending.await_line(|line| line.contains("it is waited for, 10 s at most"));
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

/// `dpdk-testpmd` as the sending end of a memif, until its standard input ends; it sends what fits.
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
fn what_another_program_sends_over_a_memif_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let line = format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no --interval 20ms --summary json -c 100000 {NO_HUGE}",
        socket.display()
    );
    let mut watching = Running::start(&mut watch(&line));
    watching.await_line(|line| line.contains("the link is down"));
    watching.await_packets(0);
    let mut sender = testpmd(&socket)
        .spawn()
        .expect("this test needs dpdk-testpmd (./setup --dpdk)");
    // It ends by count while the peer still sends: see `truth_is_received`.
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
