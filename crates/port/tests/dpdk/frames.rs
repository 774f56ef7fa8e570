//! Frames are delivered unchanged and counted.

use port::dpdk::{DpdkPort, DpdkSender, Options, SendOptions};
use port::file::{CaptureFile, Input};
use port::{BurstCount, Port, Received, Rss, Transmit};

use crate::devices::{Kept, burst, drain, eal, name};

#[test]
fn endless_device_is_read_in_batches_and_stops() {
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
        // It always has more frames, and still the port ends.
        let rest = drain(&mut port).len() as u64;
        let counters = port.counters();
        assert_eq!(counters.frames, 100 * batch as u64 + rest);
        assert_eq!(counters.bytes, counters.frames * 60);
        assert_eq!(counters.device.unwrap().frames, counters.frames);
        assert!(burst(&mut port).is_none());
    }
}

#[test]
fn net_pcap_delivers_the_frames_of_the_file() {
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
        // The device reports the captured length as wire length, and splits long frames into segments,
        // of which the first is delivered.
        assert_eq!(found.wire_length as usize, expected.bytes.len());
        let first = expected.bytes.len().min(2048);
        assert_eq!(found.bytes[..], expected.bytes[..first]);
    }
}

/// A batch larger than a burst is delivered in bursts that all have the timestamp of the batch.
#[test]
fn large_batch_is_delivered_in_bursts() {
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
    // The rest of the batch is counted first, then new frames.
    for (frames, expected) in [(488, 1512), (1000, 2512)] {
        let Ok(Received::Burst(counted)) = port.receive_count() else {
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

/// Alternates counting and receiving; long frames have several segments.
#[test]
fn counting_and_receiving_give_the_same_totals() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/captures/example.pcap"
    );
    let mut file = CaptureFile::open(&Input::Path(path.into())).unwrap();
    let mut expected = BurstCount::default();
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
    let mut found = BurstCount::default();
    while found.frames < expected.frames {
        let received = if found.frames % 2 == 0 {
            port.receive_count().unwrap()
        } else {
            port.receive().unwrap().map(BurstCount::from)
        };
        let Received::Burst(counted) = received else {
            panic!("the device has more frames");
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
    while matches!(port.receive_count().unwrap(), Received::Idle) {}
    assert!(matches!(port.receive_count().unwrap(), Received::End));
}

/// Writes numbered frames of varying length to slots.
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
fn net_ring_delivers_sent_frames() {
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
    // The ring holds 1024 frames: those not accepted come first the next time.
    for _ in 0..10 {
        loop {
            let written = write(sender, sent, 200);
            let accepted = sender.submit(written).unwrap();
            sent += accepted as u32;
            if accepted < written {
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
fn sent_frames_outlive_their_sender() {
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
