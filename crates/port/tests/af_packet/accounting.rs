//! Packet accounting: every packet is delivered or counted as dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use port::af_packet::{Options, Wait};
use port::{AfPacket, Port, Received};

use crate::network::{self, Sender};
use crate::traffic::{check_books, finish, receive, sequence, udp};

/// A ring of two blocks of 64 KiB.
fn tiny() -> Options {
    Options {
        block_bytes: 64 << 10,
        block_count: 2,
        ..Options::new("right")
    }
}

#[test]
fn drops_are_counted_while_the_reader_sleeps() {
    network::enter_cable();
    // veth has a queue per core: frames of a thread that migrates can be reordered.
    let core = hw::cores::allowed()[0];
    hw::cores::pin(core).unwrap();
    let mut port = AfPacket::open(&tiny()).unwrap();
    let sender = Sender::on("left");
    for number in 0..20_000 {
        sender.send(&udp(1, false, number, 60)).unwrap();
    }
    let captured = finish(&mut port);
    let counters = port.counters();
    assert_eq!(captured.len() as u64, counters.frames);
    assert_eq!(counters.frames + counters.dropped, 20_000);
    // 128 KiB hold about 800 frames with their headers, fewer if a block was passed on partly filled.
    assert!((1..1000).contains(&counters.frames), "{counters:?}");
    assert!(port.socket_counters().freezes > 0);
    // The ring filled once: the first frames are there, in order.
    for (number, frame) in (0..).zip(&captured) {
        assert_eq!(sequence(&frame.bytes), number);
    }
}

/// The last burst of a block may be short, so that only the port knows whether more frames wait.
#[test]
fn ring_reports_its_occupancy_and_capacity() {
    network::enter_cable();
    // A single frame is a block of its own.
    for count in [1, 2_000] {
        let mut port = AfPacket::open(&Options {
            block_count: 8,
            ..tiny()
        })
        .unwrap();
        assert_eq!((port.occupancy(), port.queue_size()), (Some(0), None));
        let sender = Sender::on("left");
        for number in 0..count {
            sender.send(&udp(1, false, number, 60)).unwrap();
        }
        let mut left = count as usize;
        let deadline = Instant::now() + Duration::from_secs(10);
        while port.occupancy() != Some(left) {
            assert!(Instant::now() < deadline, "{:?}", port.occupancy());
            thread::sleep(Duration::from_millis(1));
        }
        while left > 0 {
            let Ok(Received::Burst(burst)) = port.receive() else {
                panic!("{left} frames are left");
            };
            left -= burst.frames.len();
            assert_eq!(port.occupancy(), Some(left));
        }
        // 60 bytes and the headers of frame and block take 128 to 256 bytes.
        let (capacity, bytes) = (port.queue_size().unwrap(), 512 << 10);
        assert!(
            (bytes / 256..=bytes / 128).contains(&capacity),
            "{capacity}"
        );
    }
}

#[test]
fn drops_add_up_over_readings_of_the_counters() {
    network::enter_cable();
    let mut port = AfPacket::open(&tiny()).unwrap();
    let sender = Sender::on("left");
    let mut sent = 0;
    for round in 0..20 {
        for number in 0..2_000 {
            sender.send(&udp(1, false, number, 60)).unwrap();
            sent += 1;
        }
        // Read a burst and the counters, which resets the kernel's.
        receive(&mut port, 1);
        let counters = port.counters();
        assert!(counters.dropped > 0 && counters.dropped < sent, "{round}");
    }
    finish(&mut port);
    let counters = port.counters();
    assert_eq!(counters.frames + counters.dropped, sent);
}

#[test]
fn small_ring_wraps_around_without_corrupting_frames() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options {
        block_count: 8,
        ..tiny()
    })
    .unwrap();
    let sender = Sender::on("left");
    let sending = thread::spawn(move || {
        for number in 0..200_000u32 {
            let frame = udp(1, false, number, 60 + number as usize % 1000);
            sender.send(&frame).unwrap();
        }
    });
    let mut last = None;
    let mut count = 0;
    let mut stopped = false;
    loop {
        match port.receive().unwrap() {
            Received::Burst(burst) => {
                for frame in burst.frames {
                    let number = sequence(frame.bytes);
                    assert!(last < Some(number), "{last:?} {number}");
                    let sent = udp(1, false, number, 60 + number as usize % 1000);
                    assert!(frame.bytes == sent, "{number}");
                    last = Some(number);
                    count += 1;
                }
            }
            Received::Idle => {}
            Received::Fault(line) => panic!("{line}"),
            Received::End => break,
        }
        if !stopped && sending.is_finished() {
            port.stop();
            stopped = true;
        }
    }
    sending.join().unwrap();
    check_books(&mut port);
    let counters = port.counters();
    assert_eq!(counters.frames, count);
    assert_eq!(counters.frames + counters.dropped, 200_000);
}

#[test]
fn port_stopped_under_load_accounts_for_every_packet() {
    static RUN: AtomicBool = AtomicBool::new(true);
    network::enter_cable();
    let sender = Sender::on("left");
    let sending = thread::spawn(move || {
        let mut number = 0;
        while RUN.load(Ordering::Relaxed) {
            sender.send(&udp(1, false, number, 60)).unwrap();
            number += 1;
        }
    });
    for round in 0..20 {
        let options = if round % 2 == 0 {
            tiny()
        } else {
            Options::new("right")
        };
        let mut port = AfPacket::open(&options).unwrap();
        let first = receive(&mut port, 1_000).len();
        let rest = finish(&mut port).len();
        assert_eq!(port.counters().frames, (first + rest) as u64);
        // It stays ended, and its counters are final.
        let counters = port.counters();
        thread::sleep(Duration::from_millis(5));
        assert!(matches!(port.receive().unwrap(), Received::End));
        assert_eq!(port.counters(), counters);
    }
    RUN.store(false, Ordering::Relaxed);
    sending.join().unwrap();
}

#[test]
fn partly_filled_block_is_delivered_after_its_timeout() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options {
        wait: Wait::Sleep(Duration::from_millis(20)),
        ..Options::new("right")
    })
    .unwrap();
    let start = Instant::now();
    assert!(matches!(port.receive().unwrap(), Received::Idle));
    assert!(start.elapsed() >= Duration::from_millis(20));
    Sender::on("left").send(&udp(1, false, 5, 60)).unwrap();
    // No more frames fill the block: it is passed on by its timeout.
    assert_eq!(receive(&mut port, 1).len(), 1);
}

#[test]
fn spinning_port_returns_at_once_and_receives_every_frame() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options {
        wait: Wait::Spin,
        ..Options::new("right")
    })
    .unwrap();
    let start = Instant::now();
    for _ in 0..10_000 {
        assert!(matches!(port.receive().unwrap(), Received::Idle));
    }
    // Sleeping for the default time would take 500 s.
    assert!(start.elapsed() < Duration::from_secs(5));
    let sender = Sender::on("left");
    for number in 0..100 {
        sender.send(&udp(1, false, number, 60)).unwrap();
    }
    assert_eq!(receive(&mut port, 100).len(), 100);
    network::ip("link set right down");
    // The state of the socket is checked periodically while spinning.
    let mut faults = 0;
    for _ in 0..10_000 {
        faults += usize::from(matches!(port.receive().unwrap(), Received::Fault(_)));
    }
    assert_eq!(faults, 1);
    assert!(finish(&mut port).is_empty());
}
