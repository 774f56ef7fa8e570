//! A closed loop over two software NICs, one per direction: clients on one thread, the server on
//! another.

use generator::closed_loop::{Clients, ClientsOptions, EchoServer, PAYLOAD_BYTES};
use generator::{FlowFields, MacAddresses, Protocol};
use hw::time::monotonic_raw_ns;
use lab::software_link::{Memory, start};
use port::dpdk::software_nic::{NicOptions, Wire};
use port::dpdk::{DpdkPort, software_nic};
use port::{Burst, Port, Received};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const CLIENTS: u32 = 50;
const CONNECTIONS: u64 = 2000;

fn now_ns() -> i64 {
    monotonic_raw_ns().cast_signed()
}

/// Passes received packets to `take`. Returns whether there were any.
fn receive(port: &mut DpdkPort, take: impl FnOnce(&Burst<'_>)) -> bool {
    match port.receive().unwrap() {
        Received::Burst(burst) => {
            take(&burst);
            true
        }
        Received::Idle => false,
        other => panic!("{other:?}"),
    }
}

/// Checks that every frame on the wire was received.
fn check(wire: &Wire, sent: u64, received: u64) {
    let counts = wire.counts()[0];
    assert_eq!((counts.missed, counts.no_buffer), (0, 0));
    assert_eq!((counts.offered, counts.received), (sent, received));
}

pub(crate) fn every_connection_is_completed(memory: Memory) {
    let eal = start(memory).unwrap();
    let card = || {
        let (wire, mut ports) = software_nic(eal, &NicOptions::default()).unwrap();
        (wire, ports.remove(0))
    };
    let ((mut up, mut up_end), (mut down, mut down_end)) = (card(), card());
    let fields = FlowFields::ipv4(Protocol::Tcp);
    let mut clients = Clients::new(ClientsOptions {
        clients: CLIENTS,
        addresses: fields.source,
        ports: fields.source_ports,
        server: fields.destination,
        server_port: 7,
        connections: Some(CONNECTIONS),
        // Longer than the machine may stall, so that nothing is retransmitted.
        timeout: Duration::from_secs(20),
        max_retries: 5,
        mac: MacAddresses::default(),
        seed: 1,
    })
    .unwrap();
    let mut server = EchoServer::new(None, 7, MacAddresses::default()).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (server, done, down) = (&mut server, &done, &mut down);
        scope.spawn(move || {
            // Keep reading after the clients are done, until the last acknowledgement.
            let mut more = true;
            while more {
                let was_done = done.load(Ordering::Acquire);
                server.send(down, now_ns()).unwrap();
                let some = receive(&mut up_end, |burst| server.receive(burst, now_ns()));
                more = some || !was_done;
            }
        });
        while !clients.is_done() {
            clients.send(&mut up, now_ns(), false).unwrap();
            receive(&mut down_end, |burst| clients.receive(burst, now_ns()));
        }
        clients.send(&mut up, now_ns(), true).unwrap();
        done.store(true, Ordering::Release);
    });
    let counts = clients.counts();
    assert_eq!(
        (counts.started, counts.completed, counts.failed),
        (CONNECTIONS, CONNECTIONS, 0)
    );
    assert_eq!((counts.retransmissions, counts.wrong_bytes), (0, 0));
    assert_eq!(counts.echoed_bytes, CONNECTIONS * PAYLOAD_BYTES as u64);
    let served = server.counts();
    assert_eq!((served.accepted, served.closed), (CONNECTIONS, CONNECTIONS));
    assert_eq!((served.retransmissions, served.unexpected), (0, 0));
    let (sent, received) = clients.segments();
    check(&up, sent, served.received);
    check(&down, served.sent, received);
}
