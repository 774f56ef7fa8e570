//! Two connected memifs in one process: frames are transferred, and a disconnect is reported.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use port::dpdk::{DpdkPort, DpdkSender, Options, SendOptions};
use port::{Port, Received, Transmit};

use crate::devices::{drain, eal, name};

/// Time limit, far above what these tests take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn client(number: u32, socket: &str) -> DpdkSender {
    let device = format!("net_memif{number},role=client,socket={socket},socket-abstract=no");
    let mut sender = DpdkSender::open(eal(), &name(&device), &SendOptions::default())
        .unwrap()
        .remove(0);
    assert!(sender.wait_for_link(LIMIT, || true).unwrap());
    sender
}

/// Sends `count` frames and receives them on the other side.
fn transfer(sender: &mut DpdkSender, port: &mut DpdkPort, count: u64) {
    let start = (port.counters().frames, sender.sent().0);
    let deadline = Instant::now() + LIMIT;
    let received = |port: &mut DpdkPort| port.counters().frames - start.0;
    while received(port) < count {
        assert!(Instant::now() < deadline, "{:?}", port.counters());
        let left = count - (sender.sent().0 - start.1);
        let slots = sender.reserve(left.min(256) as usize, 60).unwrap();
        for slot in &mut *slots {
            slot.bytes[..60].fill(7);
            slot.length = 60;
        }
        let written = slots.len();
        sender.submit(written).unwrap();
        if let Received::Burst(burst) = port.receive().unwrap() {
            assert!(burst.frames.iter().all(|frame| frame.bytes == [7; 60]));
        }
    }
    assert_eq!(received(port), count);
}

/// Creates a directory for a socket and a memif server on it.
fn server(number: u32) -> (PathBuf, String, DpdkPort) {
    let directory =
        std::env::temp_dir().join(format!("flowatch-memif-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("socket").display().to_string();
    let device = format!("net_memif{number},role=server,socket={socket},socket-abstract=no");
    let port = DpdkPort::open(eal(), &name(&device), &Options::default())
        .unwrap()
        .remove(0);
    (directory, socket, port)
}

/// The driver unmaps the rings while the port is polled.
#[test]
fn peer_may_disconnect_while_its_rings_are_read() {
    let (directory, socket, mut port) = server(10);
    let received = thread::scope(|scope| {
        let peers = scope.spawn(|| {
            for number in 11..41 {
                let mut sender = client(number, &socket);
                let written = sender.reserve(1, 60).unwrap().len();
                assert_eq!(sender.submit(written).unwrap(), 1);
                drop(sender);
            }
        });
        while !peers.is_finished() {
            port.receive().unwrap();
        }
        port.counters().frames
    });
    // The frame of a peer that disconnects at once may be lost.
    assert!(received <= 30, "{received}");
    drop(drain(&mut port));
    drop(port);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn peer_may_reconnect_and_counters_are_kept() {
    let (directory, socket, mut port) = server(0);
    let notice = port.next_notice().unwrap();
    assert!(notice.contains("the link is down"), "{notice}");
    for round in 1..=2 {
        let mut sender = client(round, &socket);
        transfer(&mut sender, &mut port, 10_000);
        sender.flush().unwrap();
        drop(sender);
        let deadline = Instant::now() + LIMIT;
        while port.counters().faults < u64::from(round) {
            assert!(Instant::now() < deadline, "the disconnect was not reported");
            match port.receive().unwrap() {
                Received::Fault(message) => {
                    assert_eq!(round, 1, "reported once");
                    assert!(message.contains("went down"), "{message}");
                }
                Received::Idle => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(drain(&mut port).is_empty());
    let counters = port.counters();
    assert_eq!((counters.frames, counters.bytes), (20_000, 1_200_000));
    // The device reset its counters when the first peer disconnected; the port kept them.
    assert_eq!(counters.device.unwrap().frames, 20_000);
    drop(port);
    std::fs::remove_dir_all(directory).unwrap();
}
