//! The software NIC distributes frames by hash and accounts for every frame.

use std::thread;

use port::dpdk::software_nic::{INDIRECTION_ENTRIES, NicOptions, Wire};
use port::dpdk::{DpdkPort, Pools, software_nic};
use port::{Port, Rss, Transmit};
use proptest::prelude::*;

use crate::devices::{Kept, burst, drain, eal};

/// Sends frames on the wire, each with its number in its bytes and `hash(number)` as RSS hash.
fn send(wire: &mut Wire, first: u32, count: u32, hash: impl Fn(u32) -> u32) {
    let mut number = first;
    while number < first + count {
        let slots = wire
            .reserve((first + count - number).min(256) as usize, 64)
            .unwrap();
        for slot in &mut *slots {
            slot.bytes[..60].fill(0);
            slot.bytes[..4].copy_from_slice(&number.to_be_bytes());
            slot.length = 60;
            slot.rss_hash = hash(number);
            number += 1;
        }
        let count = slots.len();
        assert_eq!(wire.submit(count).unwrap(), count);
    }
}

fn number(frame: &Kept) -> u32 {
    u32::from_be_bytes(frame.bytes[..4].try_into().unwrap())
}

fn scatter(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1).rotate_left(15).max(1)
}

/// Checks the packet accounting of each queue, and that the ports agree with it.
fn check(wire: &Wire, ports: &mut [DpdkPort]) {
    for (counts, port) in wire.counts().iter().zip(ports) {
        assert_eq!(
            counts.offered,
            counts.received + counts.missed + counts.no_buffer
        );
        let counters = port.counters();
        assert_eq!(
            (counters.missed, counters.no_buffer),
            (counts.missed, counts.no_buffer)
        );
        assert_eq!(counters.device.unwrap().frames, counts.received);
    }
}

#[test]
fn frames_are_distributed_by_their_hash_and_carry_it() {
    let options = NicOptions {
        queues: 4,
        ..NicOptions::default()
    };
    let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
    send(&mut wire, 0, 10_000, scatter);
    let mut seen = 0;
    for (queue, port) in ports.iter_mut().enumerate() {
        assert_eq!(port.rss(), Some(Rss::Configured { symmetric: false }));
        assert_eq!(port.rss_key(), Some(&options.rss_key[..]));
        let waiting = port.occupancy().unwrap();
        let frames = drain(port);
        assert_eq!(frames.len(), waiting);
        for frame in &frames {
            assert_eq!(frame.hash, scatter(number(frame)));
            assert_eq!(frame.hash as usize % INDIRECTION_ENTRIES % 4, queue);
        }
        assert!(frames.is_sorted_by_key(number));
        seen += frames.len();
    }
    assert_eq!(seen, 10_000);
    check(&wire, &mut ports);
}

#[test]
fn indirection_table_can_be_replaced() {
    let options = NicOptions {
        queues: 2,
        ..NicOptions::default()
    };
    let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
    assert!(
        wire.set_indirection_table([2; INDIRECTION_ENTRIES])
            .is_err()
    );
    wire.set_indirection_table([1; INDIRECTION_ENTRIES])
        .unwrap();
    send(&mut wire, 0, 500, scatter);
    assert!(drain(&mut ports[0]).is_empty());
    assert_eq!(drain(&mut ports[1]).len(), 500);
}

#[test]
fn full_queue_drops_frames_and_others_do_not() {
    let options = NicOptions {
        queues: 2,
        descriptors: 512,
        ..NicOptions::default()
    };
    let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
    // Even hashes go to queue 0, which holds 512 frames; the other queue holds all its frames.
    send(
        &mut wire,
        0,
        2_000,
        |number| {
            if number % 4 == 3 { 1 } else { 2 }
        },
    );
    // The queue overflowed at the capacity that the port reports.
    assert_eq!(ports[0].queue_size(), Some(512));
    let counts = wire.counts().to_vec();
    assert_eq!(
        (counts[0].offered, counts[0].received, counts[0].missed),
        (1500, 512, 988)
    );
    assert_eq!((counts[1].received, counts[1].missed), (500, 0));
    assert_eq!(drain(&mut ports[0]).len(), 512);
    assert_eq!(drain(&mut ports[1]).len(), 500);
    check(&wire, &mut ports);
}

#[test]
fn shared_pool_is_exhausted_for_all_queues() {
    let options = NicOptions {
        queues: 2,
        descriptors: 512,
        pools: Pools::Shared,
        pool_size: Some(1025),
        ..NicOptions::default()
    };
    let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
    // The receiver holds a burst and its cache some buffers: the rings have space left.
    send(&mut wire, 0, 512, |_| 1);
    let held = burst(&mut ports[1]).unwrap().len();
    assert_eq!(held, 256);
    send(&mut wire, 512, 1024, |number| number);
    let sum = |count: fn(&port::dpdk::software_nic::QueueCounts) -> u64| {
        wire.counts().iter().map(count).sum::<u64>()
    };
    assert!(sum(|counts| counts.no_buffer) > 0, "{:?}", wire.counts());
    let received = sum(|counts| counts.received);
    let drained = drain(&mut ports[0]).len() + drain(&mut ports[1]).len();
    assert_eq!(received, (held + drained) as u64);
    check(&wire, &mut ports);
}

#[test]
fn every_loss_between_two_threads_is_counted() {
    let options = NicOptions {
        descriptors: 64,
        ..NicOptions::default()
    };
    let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
    let mut port = ports.remove(0);
    let receiver = thread::spawn(move || {
        let mut numbers = Vec::new();
        loop {
            let frames = burst(&mut port).unwrap();
            let last = frames.iter().any(|frame| frame.hash == 7);
            numbers.extend(frames.iter().map(number));
            if last {
                return (port, numbers);
            }
        }
    });
    send(&mut wire, 0, 300_000, |_| 1);
    // Send the end marker until it arrives.
    let mut sent = 300_000;
    while !receiver.is_finished() {
        send(&mut wire, sent, 1, |_| 7);
        sent += 1;
        thread::yield_now();
    }
    let (mut port, numbers) = receiver.join().unwrap();
    assert!(numbers.is_sorted());
    let rest = drain(&mut port).len();
    let counts = wire.counts()[0];
    assert_eq!(counts.offered, u64::from(sent));
    assert_eq!(counts.received, (numbers.len() + rest) as u64);
    check(&wire, std::slice::from_mut(&mut port));
}

#[test]
fn invalid_numbers_of_queues_are_rejected() {
    for queues in [0, 17] {
        let options = NicOptions {
            queues,
            ..NicOptions::default()
        };
        assert!(software_nic(eal(), &options).is_err());
    }
    let (mut wire, _ports) = software_nic(eal(), &NicOptions::default()).unwrap();
    assert!(wire.reserve(1, 9000).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The counters of every queue balance after any sequence of sends and receives.
    #[test]
    fn counters_balance(
        steps in proptest::collection::vec((0u32..700, 0usize..4), 1..30),
        queues in 1u16..4,
        shared: bool,
    ) {
        let options = NicOptions {
            queues,
            descriptors: 256,
            pools: if shared { Pools::Shared } else { Pools::PerQueue },
            pool_size: Some(1024),
            ..NicOptions::default()
        };
        let (mut wire, mut ports) = software_nic(eal(), &options).unwrap();
        let (mut sent, mut read) = (0, 0);
        for (count, queue) in steps {
            send(&mut wire, sent, count, scatter);
            sent += count;
            if let Some(port) = ports.get_mut(queue) {
                read += burst(port).unwrap().len();
            }
        }
        read += ports.iter_mut().map(|port| drain(port).len()).sum::<usize>();
        check(&wire, &mut ports);
        let offered: u64 = wire.counts().iter().map(|counts| counts.offered).sum();
        let received: u64 = wire.counts().iter().map(|counts| counts.received).sum();
        prop_assert_eq!((offered, received), (u64::from(sent), read as u64));
    }
}
