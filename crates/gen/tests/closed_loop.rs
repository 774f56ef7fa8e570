//! Clients and server over in-memory links. Without loss, every connection completes; with loss, every
//! started connection is counted as completed, failed or open.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use generator::closed_loop::{Clients, ClientsOptions, EchoServer, PAYLOAD_BYTES};
use generator::{MacAddresses, Random};
use port::{
    Burst, MemoryReceiver, MemorySender, NullSink, Port, PortError, Received, Slot, Transmit,
    memory_link,
};
use proptest::prelude::*;
use std::time::Duration;
use wire::{Decapsulate, LinkType, dissect};

fn options(clients: u32, connections: u64, ipv6: bool) -> ClientsOptions {
    let (addresses, server) = if ipv6 {
        ("2001:db8::/120", "2001:db8:1::7")
    } else {
        ("10.0.0.0/24", "10.1.0.7")
    };
    ClientsOptions {
        clients,
        addresses: addresses.parse().unwrap(),
        ports: "1024-65535".parse().unwrap(),
        server: server.parse().unwrap(),
        server_port: 7,
        connections: Some(connections),
        timeout: Duration::from_millis(200),
        max_retries: 5,
        mac: MacAddresses::default(),
        seed: 3,
    }
}

fn server() -> EchoServer {
    EchoServer::new(None, 7, MacAddresses::default()).unwrap()
}

/// Delivers the frames that are on the link.
fn deliver(link: &mut MemoryReceiver, mut receive: impl FnMut(&Burst<'_>)) {
    while let Received::Burst(burst) = link.receive().unwrap() {
        for frame in burst.frames {
            let headers = dissect(burst.link, frame.bytes, frame.wire_length, Decapsulate::No);
            assert_eq!(headers.malformed, None);
        }
        receive(&burst);
    }
}

/// A link that accepts all frames and silently loses some of them.
struct Lossy {
    link: MemorySender,
    scratch: NullSink,
    random: Random,
    /// The probability of loss, times 256.
    lost: u64,
}

impl Transmit for Lossy {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        // One slot at a time, so that frames are lost individually.
        if self.random.below(256) < self.lost {
            self.scratch.reserve(count.min(1), room)
        } else {
            self.link.reserve(count.min(1), room)
        }
    }
    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        // Only one of the two has reserved a slot.
        Ok(self.link.submit(count)? + self.scratch.submit(count)?)
    }
    fn discard(&mut self) {
        self.link.discard();
    }
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn sent(&self) -> (u64, u64) {
        self.link.sent()
    }
    fn name(&self) -> &str {
        "lossy"
    }
}

#[test]
fn every_connection_completes_without_loss() {
    for ipv6 in [false, true] {
        let mut clients = Clients::new(options(50, 1000, ipv6)).unwrap();
        let mut server = server();
        let (mut up, mut up_end) = memory_link(1024, LinkType::Ethernet);
        let (mut down, mut down_end) = memory_link(1024, LinkType::Ethernet);
        let mut now = 0;
        while !clients.is_done() {
            now += 1_000_000;
            assert!(now < 10_000_000_000, "{:?}", clients.counts());
            clients.send(&mut up, now, false).unwrap();
            deliver(&mut up_end, |burst| server.receive(burst, now));
            server.send(&mut down, now).unwrap();
            deliver(&mut down_end, |burst| clients.receive(burst, now));
        }
        deliver(&mut up_end, |burst| server.receive(burst, now));
        let counts = clients.counts();
        assert_eq!(
            (counts.started, counts.completed, counts.failed),
            (1000, 1000, 0)
        );
        assert_eq!((counts.retransmissions, counts.wrong_bytes), (0, 0));
        assert_eq!(counts.echoed_bytes, 1000 * PAYLOAD_BYTES as u64);
        let served = server.counts();
        assert_eq!(
            (served.accepted, served.closed, server.open_connections()),
            (1000, 1000, 0)
        );
        assert_eq!((served.retransmissions, served.unexpected), (0, 0));
        assert_eq!(
            clients
                .per_client()
                .map(|client| client.completed)
                .sum::<u64>(),
            1000
        );
        assert!(clients.per_client().all(|client| client.completed > 0));
        // SYN, ACK, data, FIN, ACK; and SYN-ACK, data, FIN.
        assert_eq!(clients.segments(), (5000, 3000));
        assert_eq!((served.received, served.sent), (5000, 3000));
    }
}

#[test]
fn suspended_server_restarts_idle_timeouts() {
    const SECOND: i64 = 1_000_000_000;
    let mut clients = Clients::new(options(10, 10, false)).unwrap();
    let mut server = server();
    let (mut up, mut up_end) = memory_link(1024, LinkType::Ethernet);
    let mut now = SECOND;
    clients.send(&mut up, now, false).unwrap();
    deliver(&mut up_end, |burst| server.receive(burst, now));
    assert_eq!(server.open_connections(), 10);
    now += 1000 * SECOND;
    server.sweep(now);
    assert_eq!(
        (server.open_connections(), server.counts().timed_out),
        (10, 0)
    );
    // From now on it is called regularly, but receives nothing.
    for _ in 0..100 {
        now += SECOND / 2;
        server.sweep(now);
    }
    assert_eq!(
        (server.open_connections(), server.counts().timed_out),
        (0, 10)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_connection_is_counted_with_loss(lost in 8u64..120, seed: u64) {
        let mut clients = Clients::new(ClientsOptions { seed, ..options(20, 200, false) }).unwrap();
        let mut server = server();
        let lossy = |link, stream| Lossy {
            link, scratch: NullSink::new(), random: Random::new(seed, stream), lost,
        };
        let (up, mut up_end) = memory_link(1024, LinkType::Ethernet);
        let (down, mut down_end) = memory_link(1024, LinkType::Ethernet);
        let (mut up, mut down) = (lossy(up, 1), lossy(down, 2));
        let mut now = 0;
        while !clients.is_done() {
            now += 50_000_000;
            prop_assert!(now < 10_000_000_000_000, "{:?}", clients.counts());
            clients.send(&mut up, now, false).unwrap();
            deliver(&mut up_end, |burst| server.receive(burst, now));
            server.send(&mut down, now).unwrap();
            deliver(&mut down_end, |burst| clients.receive(burst, now));
        }
        let counts = clients.counts();
        prop_assert_eq!(counts.started, 200);
        prop_assert_eq!(counts.completed + counts.failed, 200);
        prop_assert_eq!(counts.wrong_bytes, 0);
        prop_assert!(counts.retransmissions > 0);
        prop_assert!(counts.echoed_bytes >= counts.completed * PAYLOAD_BYTES as u64);
        prop_assert!(clients.open_connections() == 0);
        let served = server.counts();
        prop_assert!(served.accepted >= counts.completed);
    }
}

#[test]
fn every_connection_fails_without_answers() {
    let mut clients = Clients::new(options(10, 30, false)).unwrap();
    let mut sink = NullSink::new();
    let mut now = 0;
    while !clients.is_done() {
        now += 100_000_000;
        clients.send(&mut sink, now, false).unwrap();
    }
    let counts = clients.counts();
    assert_eq!(
        (counts.started, counts.completed, counts.failed),
        (30, 0, 30)
    );
    // Each SYN was sent once and retransmitted five times.
    assert_eq!(counts.retransmissions, 150);
    assert_eq!(sink.sent().0, 180);
}

#[test]
fn rejects_invalid_options() {
    assert!(Clients::new(options(0, 1, false)).is_err());
    let mixed_families = ClientsOptions {
        server: "::1".parse().unwrap(),
        ..options(1, 1, false)
    };
    assert!(Clients::new(mixed_families).is_err());
    let too_few_ports = ClientsOptions {
        addresses: "10.0.0.1".parse().unwrap(),
        ports: "1-3".parse().unwrap(),
        ..options(2, 1, false)
    };
    assert!(Clients::new(too_few_ports).is_err());
}
