//! Two memory interfaces joined in one process: frames cross, and a peer that leaves is told of.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use port::dpdk::{DpdkPort, DpdkSender, Options, SendOptions};
use port::{Port, Received, Transmit};

use crate::devices::{drain, eal, name};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn client(number: u32, socket: &str) -> DpdkSender {
    let device = format!("net_memif{number},role=client,socket={socket},socket-abstract=no");
    let mut sender = DpdkSender::open(eal(), &name(&device), &SendOptions::default())
        .unwrap()
        .remove(0);
    assert!(sender.await_link(LIMIT, || true).unwrap());
    sender
}

/// Sends `count` frames, reading them on the other side; then the sender goes.
fn cross(sender: &mut DpdkSender, port: &mut DpdkPort, count: u64) {
    let begun = (port.counters().frames, sender.sent().0);
    let deadline = Instant::now() + LIMIT;
    let received = |port: &mut DpdkPort| port.counters().frames - begun.0;
    while received(port) < count {
        assert!(Instant::now() < deadline, "{:?}", port.counters());
        let left = count - (sender.sent().0 - begun.1);
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

/// A directory for a socket, and the device that serves there.
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

/// The driver takes the rings away while they are polled.
#[test]
fn a_peer_may_leave_while_its_rings_are_read() {
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
    // A peer that leaves at once may take its frame along.
    assert!(received <= 30, "{received}");
    drop(drain(&mut port));
    drop(port);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_peer_comes_goes_and_comes_again_and_nothing_is_forgotten() {
    let (directory, socket, mut port) = server(0);
    let notice = port.notice().unwrap();
    assert!(notice.contains("the link is down"), "{notice}");
    for round in 1..=2 {
        let mut sender = client(round, &socket);
        cross(&mut sender, &mut port, 10_000);
        sender.flush().unwrap();
        drop(sender);
        let deadline = Instant::now() + LIMIT;
        while port.counters().faults < u64::from(round) {
            assert!(Instant::now() < deadline, "nobody told that the peer left");
            match port.receive().unwrap() {
                Received::Fault(message) => {
                    assert_eq!(round, 1, "said once");
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
    // The device forgot the first peer's frames when it left; the port did not.
    assert_eq!(counters.device.unwrap().frames, 20_000);
    drop(port);
    std::fs::remove_dir_all(directory).unwrap();
}
