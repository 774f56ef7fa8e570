//! Two memory interfaces joined in one process: frames cross, and a peer that leaves is told of.

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

#[test]
fn a_peer_comes_goes_and_comes_again_and_nothing_is_forgotten() {
    let directory = std::env::temp_dir().join(format!("flowatch-memif-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("socket").display().to_string();
    let server = format!("net_memif0,role=server,socket={socket},socket-abstract=no");
    let mut port = DpdkPort::open(eal(), &name(&server), &Options::default())
        .unwrap()
        .remove(0);
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
