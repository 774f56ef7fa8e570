//! Clients and a server, each on a device of its own.

use super::{NO_HUGE, generate, huge_pages};
use crate::command::{Running, run};
use crate::namespace::Cable;
use crate::records;
use crate::summary::Summary;
use std::fs;

/// Clients in one process and the server in another, both through DPDK's af_packet driver.
#[test]
fn closed_loop_between_two_devices_completes_every_connection() {
    let cable = Cable::new();
    let echo = generate(&format!(
        "--echo -i dpdk:net_af_packet0,iface=right,framecnt=4096 --interval 20ms --summary json {NO_HUGE}"
    ));
    let mut echoing = Running::start(&mut cable.receiver.command_inside(&echo));
    echoing.wait_for_line(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let clients = generate(&format!(
        "--clients 20 -c 300 -i dpdk:net_af_packet0,iface=left,framecnt=4096 --summary json {NO_HUGE}"
    ));
    let clients = run(&mut cable.sender.command_inside(&clients));
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

/// Clients and a server over a memif. The server ends by count and the clients wait for it to close:
/// a server that stayed would poll the rings while its peer closes.
fn assert_memif_connections_accounted_for(eal: &str) {
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
    // The server must be listening: the client end of a memif connects only once.
    echoing.wait_for_line(|line| line.contains("waiting up to"));
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
    // A memif loses nothing, so every segment arrived. Answers to retransmissions may be unread.
    assert_eq!(server("segments_received"), client("segments_sent"));
    let unread = server("segments_sent") - client("segments_received");
    assert!(unread <= client("repeated"), "{unread}");
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
fn closed_loop_over_memif_completes_every_connection() {
    assert_memif_connections_accounted_for(NO_HUGE);
    if huge_pages() {
        assert_memif_connections_accounted_for("-- -m 64");
    }
}
