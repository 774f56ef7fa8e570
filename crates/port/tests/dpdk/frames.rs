//! Frames come as the device has them, and are counted.

use port::dpdk::{DpdkPort, DpdkSender, Options, SendOptions};
use port::file::{CaptureFile, Input};
use port::{Counted, Port, Received, Rss, Transmit};

use crate::devices::{Kept, burst, drain, eal, name};

#[test]
fn an_endless_device_is_read_in_batches_and_stops() {
    for batch in [1, 32, 256] {
        let options = Options {
            batch,
            ..Options::default()
        };
        let device = format!("net_null{batch},size=60");
        let mut port = DpdkPort::open(eal(), &name(&device), &options)
            .unwrap()
            .remove(0);
        let mut last_ns = 0;
        for _ in 0..100 {
            let Received::Burst(burst) = port.receive().unwrap() else {
                panic!("the device always has frames");
            };
            assert_eq!(burst.frames.len(), batch);
            for frame in burst.frames {
                assert_eq!((frame.bytes.len(), frame.wire_length), (60, 60));
                assert_eq!(frame.rss_hash, None);
                assert!(frame.time_ns >= last_ns);
                last_ns = frame.time_ns;
            }
        }
        // It never runs dry, and yet it ends.
        let rest = drain(&mut port).len() as u64;
        let counters = port.counters();
        assert_eq!(counters.frames, 100 * batch as u64 + rest);
        assert_eq!(counters.bytes, counters.frames * 60);
        assert_eq!(counters.device.unwrap().frames, counters.frames);
        assert!(burst(&mut port).is_none());
    }
}

#[test]
fn a_capture_comes_as_it_is_in_the_file() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/captures/example.pcap"
    );
    let mut file = CaptureFile::open(&Input::Path(path.into())).unwrap();
    let mut expected = Vec::new();
    while let Some(frames) = burst(&mut file) {
        expected.extend(frames);
    }
    let device = format!("net_pcap0,rx_pcap={path}");
    let mut port = DpdkPort::open(eal(), &name(&device), &Options::default())
        .unwrap()
        .remove(0);
    let mut found = Vec::new();
    while found.len() < expected.len() {
        found.extend(burst(&mut port).unwrap());
    }
    assert!(drain(&mut port).is_empty());
    for (found, expected) in found.iter().zip(&expected) {
        // The device knows no wire length but what was captured, and puts long frames in several
        // buffers, of which the first is handed over.
        assert_eq!(found.wire_length as usize, expected.bytes.len());
        let first = expected.bytes.len().min(2048);
        assert_eq!(found.bytes[..], expected.bytes[..first]);
    }
}

/// More frames than a burst holds: they come in bursts, all with the time at which they were read.
#[test]
fn a_large_batch_comes_in_bursts() {
    let options = Options {
        batch: 1000,
        ..Options::default()
    };
    let mut port = DpdkPort::open(eal(), &name("net_null1000,size=60"), &options)
        .unwrap()
        .remove(0);
    let mut times = Vec::new();
    for expected in [256, 256, 256, 232, 256, 256] {
        let Received::Burst(burst) = port.receive().unwrap() else {
            panic!("the device always has frames");
        };
        assert_eq!(burst.frames.len(), expected);
        assert!(burst.frames.iter().all(|frame| frame.bytes.len() == 60));
        times.extend(burst.frames.iter().map(|frame| frame.time_ns));
    }
    assert!(times[..1000].iter().all(|&time_ns| time_ns == times[0]));
    assert!(times[1000] > times[0]);
    // What is left of it is counted, then others are.
    for (frames, expected) in [(488, 1512), (1000, 2512)] {
        let Ok(Received::Burst(counted)) = port.count() else {
            panic!("the device always has frames");
        };
        assert_eq!((counted.frames, counted.bytes), (frames, frames * 60));
        assert_eq!(port.counters().frames, expected + 488);
    }
    port.stop();
    let rest = drain(&mut port).len() as u64;
    let counters = port.counters();
    assert_eq!(counters.frames, 3000 + rest);
    assert_eq!(counters.device.unwrap().frames, counters.frames);
}

/// Frames that are only counted, by turns with frames that are handed over; long ones lie in several
/// buffers.
#[test]
fn who_only_counts_counts_the_same() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/captures/example.pcap"
    );
    let mut file = CaptureFile::open(&Input::Path(path.into())).unwrap();
    let mut expected = Counted::default();
    while let Some(frames) = burst(&mut file) {
        expected.frames += frames.len() as u64;
        expected.bytes += frames.iter().map(|it| it.bytes.len() as u64).sum::<u64>();
    }
    let options = Options {
        batch: 7,
        ..Options::default()
    };
    let device = format!("net_pcap1,rx_pcap={path}");
    let mut port = DpdkPort::open(eal(), &name(&device), &options)
        .unwrap()
        .remove(0);
    let mut found = Counted::default();
    while found.frames < expected.frames {
        let received = if found.frames % 2 == 0 {
            port.count().unwrap()
        } else {
            port.receive().unwrap().map(Counted::from)
        };
        let Received::Burst(counted) = received else {
            panic!("the device has not given all of its frames");
        };
        found.frames += counted.frames;
        found.bytes += counted.bytes;
    }
    assert_eq!(found, expected);
    let counters = port.counters();
    assert_eq!(
        (counters.frames, counters.bytes),
        (found.frames, found.bytes)
    );
    port.stop();
    while matches!(port.count().unwrap(), Received::Idle) {}
    assert!(matches!(port.count().unwrap(), Received::End));
}

/// Frames of growing length that tell their number.
fn write(sender: &mut dyn Transmit, first: u32, count: usize) -> usize {
    let slots = sender.reserve(count, 100).unwrap();
    for (slot, number) in slots.iter_mut().zip(first..) {
        slot.bytes[..60].fill(number as u8);
        slot.bytes[..4].copy_from_slice(&number.to_be_bytes());
        slot.length = 60 + number as usize % 40;
    }
    slots.len()
}

fn number(frame: &Kept) -> u32 {
    u32::from_be_bytes(frame.bytes[..4].try_into().unwrap())
}

#[test]
fn what_is_sent_into_a_ring_comes_out_of_it() {
    let (mut ports, mut senders) = DpdkSender::open_both(
        eal(),
        &name("net_ring7"),
        &Options::default(),
        &SendOptions::default(),
    )
    .unwrap();
    let (port, sender) = (&mut ports[0], &mut senders[0]);
    assert_eq!(port.rss(), Some(Rss::NotOffered));
    let (mut sent, mut expected) = (0u32, 0u32);
    // The ring holds 1024: what it does not take is left over, and comes first the next time.
    for _ in 0..10 {
        loop {
            let written = write(sender, sent, 200);
            let taken = sender.submit(written).unwrap();
            sent += taken as u32;
            if taken < written {
                break;
            }
        }
        let mut received = 0;
        loop {
            let frames = burst(port).unwrap();
            if frames.is_empty() {
                break;
            }
            received += frames.len();
            for frame in frames {
                assert_eq!(number(&frame), expected);
                assert_eq!(frame.bytes.len(), 60 + expected as usize % 40);
                expected += 1;
            }
        }
        assert!(received >= 512, "{received}");
    }
    assert_eq!((sent, sender.sent().0), (expected, u64::from(expected)));
    assert_eq!(port.counters().bytes, sender.sent().1);
    sender.discard();
    sender.flush().unwrap();
}

#[test]
fn what_was_sent_is_there_when_its_sender_has_gone() {
    let (mut ports, mut senders) = DpdkSender::open_both(
        eal(),
        &name("net_ring8"),
        &Options::default(),
        &SendOptions::default(),
    )
    .unwrap();
    let written = write(&mut senders[0], 1, 100);
    assert_eq!(senders[0].submit(written).unwrap(), 100);
    drop(senders);
    let frames = burst(&mut ports[0]).unwrap();
    let numbers: Vec<u32> = frames.iter().map(number).collect();
    assert_eq!(numbers, Vec::from_iter(1..=100));
}
