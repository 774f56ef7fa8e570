use super::{BufferPort, BufferWriter, Options, buffer};
use crate::frame::{Burst, Counters, Port, PortError, Received};
use crate::memory::MemoryPort;
use proptest::prelude::*;
use wire::LinkType;

fn options(sort_bytes: usize) -> Options {
    Options {
        bytes: 0,
        sort_bytes,
        populate: true,
    }
}

fn pair() -> (BufferWriter, BufferPort) {
    buffer(&options(0), "memory", None).expect("memory")
}

/// A UDP frame from host `flow`, or its answer, with a number after the headers.
fn frame(flow: u8, number: u32, answer: bool) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    let (one, two) = ([10, 0, 0, flow], [10, 0, 1, 1]);
    let (source, destination) = if answer { (two, one) } else { (one, two) };
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&destination);
    frame[34..40].copy_from_slice(&[0, 53, 0, 53, 0, 26]);
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Copies all frames of `source`; those that do not fit are counted.
fn write_all(writer: &mut BufferWriter, source: &mut MemoryPort) {
    while let Received::Burst(burst) = source.receive().expect("memory has no errors") {
        let copied = writer.copy(&burst, 0);
        writer.count_overflow(&burst, copied);
        writer.end_batch(false);
    }
}

/// Timestamps and bytes of all frames up to the end.
fn read_all(port: &mut BufferPort) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        match port.receive().expect("no error was reported") {
            Received::Burst(burst) => {
                assert!(!burst.frames.is_empty());
                all.extend(
                    burst
                        .frames
                        .iter()
                        .map(|frame| (frame.time_ns, frame.bytes.to_vec())),
                );
            }
            Received::End => return all,
            Received::Idle | Received::Fault(_) => {}
        }
    }
}

#[test]
fn frames_are_delivered_unchanged_and_overflow_is_counted() {
    for (count, length) in [(100usize, 20usize), (9000, 60), (30, 300_000), (30_000, 60)] {
        let frames = (0..count).map(|number| {
            let mut bytes = vec![number as u8; length];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            (number as i64, length as u32, bytes)
        });
        let mut source = MemoryPort::new(LinkType::Raw, frames);
        let (mut writer, mut reader) = pair();
        write_all(&mut writer, &mut source);
        writer.publish_counters(&source.counters());
        let [lost, lost_bytes] = writer.overflow();
        drop(writer);
        let all = read_all(&mut reader);
        let counters = reader.counters();
        assert_eq!(all.len() as u64 + lost, count as u64, "{count} of {length}");
        assert_eq!(
            (counters.overflow, counters.overflow_bytes),
            (lost, lost_bytes)
        );
        assert_eq!(counters.frames, all.len() as u64);
        // The buffer fills once, so that the last frames are lost.
        for (index, (time_ns, bytes)) in all.iter().enumerate() {
            assert_eq!(*time_ns, index as i64);
            assert_eq!(
                (bytes.len(), &bytes[..8]),
                (length, &index.to_le_bytes()[..])
            );
        }
    }
}

#[test]
fn nothing_is_lost_when_the_writer_waits() {
    let frames = (0..100_000i64).map(|number| (number, 60, number.to_le_bytes()));
    let mut source = MemoryPort::new(LinkType::Raw, frames);
    let (mut writer, mut reader) = pair();
    let writing = std::thread::spawn(move || {
        while let Received::Burst(burst) = source.receive().expect("memory has no errors") {
            let mut copied = writer.copy(&burst, 0);
            while copied < burst.frames.len() {
                writer.end_batch(true);
                std::thread::yield_now();
                copied = writer.copy(&burst, copied);
            }
            writer.end_batch(false);
        }
        assert_eq!(writer.overflow(), [0, 0]);
    });
    let all = read_all(&mut reader);
    writing.join().expect("the writer");
    assert_eq!(all.len(), 100_000);
    assert!(
        all.iter()
            .zip(0..)
            .all(|((time_ns, _), number)| *time_ns == number)
    );
}

#[test]
fn timestamps_are_interpolated_over_a_batch() {
    let (mut writer, mut reader) = pair();
    let bytes = [0u8; 10];
    let frames = [crate::Frame::new(&bytes, 77, 10); 4];
    let burst = Burst {
        link: LinkType::Raw,
        frames: &frames,
    };
    // Two bursts in one batch, then a batch of one burst in the same block.
    assert_eq!(writer.copy(&burst, 0), 4);
    assert_eq!(writer.copy(&burst, 0), 4);
    assert_eq!(writer.interpolate_times(1000, 1800), 8);
    writer.end_batch(false);
    assert_eq!(writer.copy(&burst, 2), 4);
    assert_eq!(writer.interpolate_times(1800, 1810), 2);
    drop(writer);
    let times: Vec<i64> = read_all(&mut reader)
        .iter()
        .map(|(time, _)| *time)
        .collect();
    assert_eq!(
        times,
        [1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1805, 1810]
    );
}

#[test]
fn faults_and_errors_of_the_source_follow_its_frames() {
    let (mut writer, mut reader) = pair();
    let mut source = MemoryPort::new(LinkType::Raw, [(1, 60, [0u8; 10])]);
    write_all(&mut writer, &mut source);
    writer.publish_counters(&Counters {
        dropped: 7,
        ..Counters::default()
    });
    writer.report_fault("truncated".into());
    writer.report_error(PortError::Failed("gone".into()));
    drop(writer);
    assert!(matches!(reader.receive(), Ok(Received::Burst(burst)) if burst.frames.len() == 1));
    assert!(matches!(reader.receive(), Ok(Received::Fault(fault)) if fault == "truncated"));
    assert!(matches!(reader.receive(), Err(PortError::Failed(error)) if error == "gone"));
    assert!(matches!(reader.receive(), Ok(Received::End)));
    assert_eq!(reader.counters().dropped, 7);
}

proptest! {
    /// Sorting groups the frames of a flow, both directions, and keeps their order.
    #[test]
    fn sorting_groups_flows_and_keeps_their_order(
        packets in prop::collection::vec((0u8..20, any::<bool>()), 1..600)
    ) {
        let frames: Vec<Vec<u8>> = packets.iter().zip(0u32..)
            .map(|(&(flow, answer), number)| frame(flow, number, answer)).collect();
        let (mut writer, mut reader) = buffer(
            &Options { bytes: 1 << 22, ..options(1 << 20) }, "memory", None,
        ).expect("memory");
        let mut source = MemoryPort::new(LinkType::Ethernet, frames.iter().map(|bytes| (0, 64, bytes)));
        while let Received::Burst(burst) = source.receive().expect("memory has no errors") {
            writer.copy(&burst, 0);
        }
        drop(writer);
        let all = read_all(&mut reader);
        prop_assert_eq!(all.len(), frames.len());
        let found: Vec<(u8, u32)> = all.iter().map(|(_, bytes)| {
            let number = u32::from_be_bytes([bytes[42], bytes[43], bytes[44], bytes[45]]);
            (packets[number as usize].0, number)
        }).collect();
        let mut seen = std::collections::BTreeSet::new();
        for pair in found.windows(2) {
            if pair[0].0 == pair[1].0 {
                prop_assert!(pair[0].1 < pair[1].1);
            } else {
                prop_assert!(seen.insert(pair[0].0), "flow {} in two groups", pair[0].0);
            }
        }
    }
}
