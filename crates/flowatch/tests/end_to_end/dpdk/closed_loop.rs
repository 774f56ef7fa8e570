//! Clients and a server, each behind a device.

use super::{NO_HUGE, generate, huge_pages};
use crate::command::{Running, run};
use crate::namespace::Cable;
use crate::records;
use crate::summary::Summary;
use std::fs;

/// Clients in one process, the server that answers them in another, both through DPDK's packet driver.
#[test]
fn a_closed_loop_between_two_devices_completes_every_connection() {
    let cable = Cable::new();
    let echo = generate(&format!(
        "--echo -i dpdk:net_af_packet0,iface=right,framecnt=4096 --interval 20ms --summary json {NO_HUGE}"
    ));
    let mut echoing = Running::start(&mut cable.receiver.within(&echo));
    echoing.await_line(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let clients = generate(&format!(
        "--clients 20 -c 300 -i dpdk:net_af_packet0,iface=left,framecnt=4096 --summary json {NO_HUGE}"
    ));
    let clients = run(&mut cable.sender.within(&clients));
    assert_eq!(clients.code, Some(0), "{clients:?}");
    let clients = Summary::parse(&clients.stdout).unwrap();
    let counts = ["started", "completed", "failed", "wrong_bytes"]
        .map(|name| clients.number(&format!("/{name}")));
    assert_eq!(counts, [300, 300, 0, 0]);
    assert_eq!(clients.number("/echoed_bytes"), 300 * 512);
    echoing.signal("INT");
    let served = echoing.finish();
    assert_eq!(served.code, Some(0), "{served:?}");
    let served = Summary::parse(&served.stdout).unwrap();
    assert_eq!(served.number("/accepted"), 300);
    assert_eq!(served.number("/echoed_bytes"), 300 * 512);
}

/// The same over a memif, where the server ends by count, and the clients see it off: the one that
/// stayed would poll while its peer leaves.
fn every_connection_over_a_memif_is_accounted_for(eal: &str) {
    let directory = tempfile::tempdir().unwrap();
    let device = format!(
        "socket={},socket-abstract=no",
        directory.path().join("memif").display()
    );
    let truth = directory.path().join("truth.csv");
    let mut echo = generate(&format!(
        "--echo -c 500 -i dpdk:net_memif0,role=server,{device} --interval 20ms --summary json {eal}"
    ));
    let mut echoing = Running::start(&mut echo);
    // Then it listens: a memif's client connects once.
    echoing.await_line(|line| line.contains("it is waited for"));
    let clients = run(&mut generate(&format!(
        "--clients 20 -c 500 -i dpdk:net_memif0,role=client,{device} --summary json --truth {} {eal}",
        truth.display()
    )));
    let served = echoing.finish();
    assert_eq!(
        (clients.code, clients.stderr.as_str()),
        (Some(0), ""),
        "{clients:?} {served:?}"
    );
    assert_eq!(served.code, Some(0), "{served:?}");
    let clients = Summary::parse(&clients.stdout).unwrap();
    let served = Summary::parse(&served.stdout).unwrap();
    let client = |name: &str| clients.number(&format!("/{name}"));
    let server = |name: &str| served.number(&format!("/{name}"));
    assert_eq!(
        ["started", "completed", "failed", "open", "wrong_bytes"].map(client),
        [500, 500, 0, 0, 0]
    );
    assert_eq!(
        ["accepted", "closed", "open", "forgotten", "turned_away"].map(server),
        [500, 500, 0, 0, 0]
    );
    assert_eq!(client("echoed_bytes"), 500 * 512);
    assert_eq!(server("echoed_bytes"), 500 * 512);
    // A memif loses nothing: each segment arrived; what answers a repetition may be for nobody.
    assert_eq!(server("segments_received"), client("segments_sent"));
    let astray = server("segments_sent") - client("segments_received");
    assert!(astray <= client("repeated"), "{astray}");
    assert_eq!(["dropped", "missed"].map(client), [0, 0]);
    assert_eq!(["dropped", "missed"].map(server), [0, 0]);
    let each = records::csv(&fs::read(truth).unwrap());
    assert_eq!(each.len(), 20);
    let completed: u64 = each
        .iter()
        .map(|row| records::number(row, "completed"))
        .sum();
    assert_eq!(completed, 500);
}

#[test]
fn a_closed_loop_over_a_memif_completes_every_connection() {
    every_connection_over_a_memif_is_accounted_for(NO_HUGE);
    if huge_pages() {
        every_connection_over_a_memif_is_accounted_for("-- -m 64");
    }
}
