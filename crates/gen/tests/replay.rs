//! Tests of replays: order and timing of packets, loops, and copies with shifted addresses and updated
//! checksums.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use generator::{
    NO_FLOW, Pacing, Recording, Replay, ReplayOptions, SendClock, SendControl, SendOptions, Source,
    Truth, send,
};
use port::{CaptureFile, MemoryPort, PcapWriter, Port, Received, Transmit};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// The example capture of the repository.
fn example() -> Recording {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/example.pcap");
    let mut file = CaptureFile::open(&port::Input::Path(path)).unwrap();
    Recording::load(&mut file).unwrap()
}

/// The timestamps and bytes of all frames that a replay sends, via a file.
fn replay(
    replay: &mut Replay,
    options: &SendOptions,
    truth: Option<&mut Truth>,
) -> Vec<(i64, Vec<u8>)> {
    let path = std::env::temp_dir().join(format!(
        "flowatch-replay-{}-{:p}",
        std::process::id(),
        replay
    ));
    let mut writer = PcapWriter::create(&path, replay.recording().link()).unwrap();
    send(replay, &mut writer, options, truth, &SendControl::default()).unwrap();
    let mut file = CaptureFile::open(&port::Input::Path(path.clone())).unwrap();
    let mut frames = Vec::new();
    loop {
        match file.receive().unwrap() {
            Received::Burst(burst) => {
                frames.extend(
                    burst
                        .frames
                        .iter()
                        .map(|frame| (frame.time_ns, frame.bytes.to_vec())),
                );
            }
            Received::End => break,
            Received::Idle => {}
            Received::Fault(fault) => panic!("{fault}"),
        }
    }
    std::fs::remove_file(path).unwrap();
    frames
}

fn virtual_time(first_ns: i64, speed: f64) -> SendOptions {
    SendOptions {
        pacing: Pacing::Recorded(speed),
        clock: SendClock::Virtual(first_ns),
        ..SendOptions::default()
    }
}

#[test]
fn replay_to_a_file_reproduces_the_capture() {
    let recording = example();
    // The number of packets according to capinfos; one packet was truncated by the snaplen.
    assert_eq!((recording.len(), recording.truncated()), (548, 1));
    let first = recording.first_ns();
    let mut source = Replay::new(recording, &ReplayOptions::default()).unwrap();
    let mut truth = Truth::new(source.flows());
    let frames = replay(&mut source, &virtual_time(first, 1.0), Some(&mut truth));
    let total = truth.total();
    let bytes: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
    assert_eq!((total.packets, total.bytes), (548, bytes as u64));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/example.pcap");
    let mut file = CaptureFile::open(&port::Input::Path(path)).unwrap();
    let mut at = 0;
    while let Received::Burst(burst) = file.receive().unwrap() {
        for frame in burst.frames {
            assert_eq!(frames[at].1, frame.bytes);
            assert_eq!(frames[at].0, frame.time_ns);
            at += 1;
        }
    }
    assert_eq!(at, frames.len());
}

#[test]
fn loops_repeat_the_capture_and_speed_scales_its_timing() {
    let recording = example();
    let (first, packets) = (recording.first_ns(), recording.len());
    let options = ReplayOptions {
        loops: 3,
        ..ReplayOptions::default()
    };
    let mut source = Replay::new(recording.clone(), &options).unwrap();
    let thrice = replay(&mut source, &virtual_time(first, 1.0), None);
    assert_eq!(thrice.len(), 3 * packets);
    assert!(thrice.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(thrice[0].1, thrice[packets].1);
    assert_eq!(source.next_due_ns(), None);
    let mut source = Replay::new(recording, &options).unwrap();
    let fast = replay(&mut source, &virtual_time(first, 4.0), None);
    for (slow, fast) in thrice.iter().zip(&fast) {
        assert!(
            ((slow.0 - first) / 4).abs_diff(fast.0 - first)
                <= 1 + (slow.0 - first).unsigned_abs() / (1 << 50)
        );
    }
}

fn plus(address: IpAddr, shift: u128) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(u32::from(address).wrapping_add(shift as u32).into()),
        IpAddr::V6(address) => IpAddr::V6(u128::from(address).wrapping_add(shift).into()),
    }
}

fn key(frame: &[u8]) -> Option<FlowKey> {
    let headers = dissect(
        LinkType::Ethernet,
        frame,
        frame.len() as u32,
        Decapsulate::No,
    );
    headers.no_flow.is_none().then_some(headers.key)
}

#[test]
fn copies_have_shifted_addresses() {
    let recording = example();
    let once: Vec<Vec<u8>> = {
        let mut source = Replay::new(recording.clone(), &ReplayOptions::default()).unwrap();
        replay(&mut source, &virtual_time(0, 1.0), None)
            .into_iter()
            .map(|frame| frame.1)
            .collect()
    };
    let options = ReplayOptions {
        copies: 5,
        shift: 1 << 16,
        ..ReplayOptions::default()
    };
    let mut source = Replay::new(recording, &options).unwrap();
    assert_eq!(source.colliding_flows(), Some(0));
    let each = source.flows() / 5;
    let mut truth = Truth::new(source.flows());
    let frames = replay(&mut source, &virtual_time(0, 1.0), Some(&mut truth));
    assert_eq!(frames.len(), 5 * once.len());
    let mut distinct = HashSet::new();
    for (index, (_, frame)) in frames.iter().enumerate() {
        let (original, copy) = (&once[index / 5], (index % 5) as u128);
        match (key(original), key(frame)) {
            (Some(before), Some(after)) => {
                assert_eq!(
                    after.source_address(),
                    plus(before.source_address(), copy << 16)
                );
                assert_eq!(
                    after.destination_address(),
                    plus(before.destination_address(), copy << 16)
                );
                assert_eq!(after.source_port, before.source_port);
                distinct.insert(after);
            }
            (before, after) => assert_eq!(before, after),
        }
        assert_eq!(checksums(original), checksums(frame), "packet {index}");
    }
    assert_eq!(distinct.len(), source.flows());
    for flow in 0..each as u32 {
        assert_eq!(truth.sent_by(flow), truth.sent_by(flow + 4 * each as u32));
    }
    assert_eq!(truth.sent_by(NO_FLOW).packets % 5, 0);
}

/// Whether the IPv4 checksum and the TCP, UDP or ICMPv6 checksum of a frame are correct; `None` if
/// absent or not verifiable.
fn checksums(frame: &[u8]) -> [Option<bool>; 2] {
    let Some((&[a, b], at)) = frame
        .get(12..14)
        .and_then(|bytes| bytes.first_chunk::<2>())
        .map(|bytes| (bytes, 14))
    else {
        return [None; 2];
    };
    let sum = |pieces: &[&[u8]]| {
        let mut sum = 0u16;
        for word in pieces.concat().chunks(2) {
            let word = u16::from(word[0]) << 8 | u16::from(word.get(1).copied().unwrap_or(0));
            let (added, carry) = sum.overflowing_add(word);
            sum = added + u16::from(carry);
        }
        Some(sum == 0xffff)
    };
    let (network, protocol, addresses, segment) = match u16::from_be_bytes([a, b]) {
        0x0800 => {
            let header = usize::from(frame[at] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([frame[at + 2], frame[at + 3]]));
            let fragment = u16::from_be_bytes([frame[at + 6], frame[at + 7]]) & 0x3fff != 0;
            let network = sum(&[&frame[at..at + header]]);
            if fragment || frame.len() < at + total {
                return [network, None];
            }
            (
                network,
                frame[at + 9],
                &frame[at + 12..at + 20],
                &frame[at + header..at + total],
            )
        }
        0x86dd => {
            let length = usize::from(u16::from_be_bytes([frame[at + 4], frame[at + 5]]));
            if frame.len() < at + 40 + length {
                return [None; 2];
            }
            (
                None,
                frame[at + 6],
                &frame[at + 8..at + 40],
                &frame[at + 40..at + 40 + length],
            )
        }
        _ => return [None; 2],
    };
    if !matches!(protocol, 6 | 17 | 58) || (protocol == 17 && segment[6..8] == [0, 0]) {
        return [network, None];
    }
    let length = (segment.len() as u32).to_be_bytes();
    [network, sum(&[addresses, &length, &[0, protocol], segment])]
}

/// A UDP, TCP or ICMPv6 frame with correct checksums.
fn frame(
    ipv6: bool,
    protocol: u8,
    addresses: [u8; 32],
    payload: &[u8],
    no_udp_checksum: bool,
) -> Vec<u8> {
    let mut segment = vec![
        0;
        match protocol {
            6 => 20,
            _ => 8,
        }
    ];
    if protocol == 6 {
        segment[12] = 0x50;
    }
    segment.extend_from_slice(payload);
    let length = segment.len();
    if protocol == 17 {
        segment[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    segment[at..at + 2].fill(0);
    let width = if ipv6 { 16 } else { 4 };
    let addresses = &addresses[..2 * width];
    let sum = [
        addresses,
        &(length as u32).to_be_bytes(),
        &[0, protocol],
        &segment,
    ]
    .concat();
    let checksum = match generator::checksum::Sum::default()
        .add_bytes(&sum)
        .checksum()
    {
        0 if protocol == 17 => 0xffff,
        checksum => checksum,
    };
    if !(no_udp_checksum && protocol == 17) {
        segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    let mut frame = vec![2; 12];
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend(addresses);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + length as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(addresses);
        let checksum = generator::checksum::Sum::default()
            .add_bytes(&frame[14..34])
            .checksum();
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    frame.extend(segment);
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn checksums_stay_correct_with_any_shift(
        ipv6: bool, protocol in proptest::sample::select(vec![6u8, 17, 58]), addresses: [u8; 32],
        payload in proptest::collection::vec(any::<u8>(), 0..50), none: bool, shift: u64,
        ones in 0usize..32,
    ) {
        // Carries through many bytes are rare in random addresses.
        let mut addresses = addresses;
        addresses[32 - ones..].fill(0xff);
        let protocol = if ipv6 || protocol != 58 { protocol } else { 6 };
        let frame = frame(ipv6, protocol, addresses, &payload, none);
        prop_assert!(checksums(&frame).iter().all(|correct| *correct != Some(false)));
        let mut port = MemoryPort::new(LinkType::Ethernet, [(7, frame.len() as u32, &frame)]);
        let recording = Recording::load(&mut port).unwrap();
        let options = ReplayOptions { copies: 3, shift, ..ReplayOptions::default() };
        let mut source = Replay::new(recording, &options).unwrap();
        for (copy, (_, sent)) in replay(&mut source, &virtual_time(0, 1.0), None).into_iter().enumerate() {
            prop_assert_eq!(checksums(&sent), checksums(&frame));
            let (before, after) = (key(&frame).unwrap(), key(&sent).unwrap());
            let by = u128::from(shift) * copy as u128;
            prop_assert_eq!(after.source_address(), plus(before.source_address(), by));
            prop_assert_eq!(after.destination_address(), plus(before.destination_address(), by));
        }
    }
}

#[test]
fn counts_colliding_flows_of_copies() {
    let packet = |last: u8| {
        let mut addresses = [0; 32];
        addresses[3] = last;
        addresses[7] = last;
        frame(false, 17, addresses, &[], false)
    };
    let frames = [packet(1), packet(2), packet(9)];
    let mut port = MemoryPort::new(
        LinkType::Ethernet,
        frames.iter().map(|frame| (0, 60, frame)),
    );
    let recording = Recording::load(&mut port).unwrap();
    let options = ReplayOptions {
        copies: 3,
        ..ReplayOptions::default()
    };
    let mut source = Replay::new(recording, &options).unwrap();
    // Captured addresses 1, 2, 9; copy 1 has 2, 3, 10 and copy 2 has 3, 4, 11. One flow collides with a
    // captured one.
    assert_eq!(source.colliding_flows(), Some(1));
    let mut truth = Truth::new(source.flows());
    replay(&mut source, &virtual_time(0, 1.0), Some(&mut truth));
    let mut text = Vec::new();
    truth.write_csv(&mut text, |flow| source.key(flow)).unwrap();
    // Two flows of the copies also collide with each other: 9 packets of 7 flows.
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), 1 + 7);
}

#[test]
fn rejects_empty_captures_and_invalid_copies() {
    let mut none = MemoryPort::new(LinkType::Ethernet, Vec::<(i64, u32, Vec<u8>)>::new());
    let error = Recording::load(&mut none).unwrap_err().to_string();
    assert!(error.contains("no packets"), "{error}");
    let options = ReplayOptions {
        copies: u32::MAX,
        ..ReplayOptions::default()
    };
    assert!(Replay::new(example(), &options).is_err());
    let options = ReplayOptions {
        copies: 0,
        ..ReplayOptions::default()
    };
    assert!(Replay::new(example(), &options).is_err());
}

#[test]
fn rss_hashes_match_shifted_keys() {
    let options = ReplayOptions {
        copies: 2,
        ..ReplayOptions::default()
    };
    let mut source = Replay::new(example(), &options).unwrap();
    let rss = wire::Toeplitz::new(&wire::toeplitz::MICROSOFT_KEY).unwrap();
    let mut sink = port::NullSink::new();
    let room = source.slot_bytes();
    let slots = sink.reserve(256, room).unwrap();
    let mut flows = [0; 256];
    let filled = source.fill(slots, &mut flows).unwrap();
    let mut checked = 0;
    for (slot, &flow) in slots[..filled.frames]
        .iter()
        .zip(&flows)
        .filter(|(_, flow)| **flow != NO_FLOW)
    {
        let key = key(&slot.bytes[..slot.length]).unwrap();
        assert_eq!(key, source.key(flow));
        if matches!(key.protocol, 6 | 17) {
            assert_eq!(
                slot.rss_hash,
                rss.hash_key(&key, wire::toeplitz::Input::AddressesAndPorts)
            );
            checked += 1;
        }
    }
    assert!(checked > 100);
}

/// Sequence number, end of the sequence space, and acknowledgement number of a TCP packet over IPv4.
fn tcp(frame: &[u8]) -> Option<(u32, u32, u32)> {
    if frame.get(12..14)? != [8, 0] || frame[23] != 6 {
        return None;
    }
    let field =
        |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let transport = 14 + usize::from(frame[14] & 15) * 4;
    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let payload = end - transport - usize::from(frame[transport + 12] >> 4) * 4;
    let extra =
        u32::from(frame[transport + 13] & 2 != 0) + u32::from(frame[transport + 13] & 1 != 0);
    let sequence = field(transport + 4);
    Some((
        sequence,
        sequence.wrapping_add(payload as u32 + extra),
        field(transport + 8),
    ))
}

#[test]
fn padded_streams_stay_consistent() {
    let recording = example();
    let sent = |recording: Recording| -> Vec<Vec<u8>> {
        let mut source = Replay::new(recording, &ReplayOptions::default()).unwrap();
        replay(&mut source, &virtual_time(0, 1.0), None)
            .into_iter()
            .map(|frame| frame.1)
            .collect()
    };
    let before = sent(recording.clone());
    for mean in [400.0, 700.0] {
        let padded = recording.with_longer_payloads(mean, 1514).unwrap();
        assert!(
            (padded.mean_length() - mean).abs() < 0.02 * mean,
            "{}",
            padded.mean_length()
        );
        let after = sent(padded);
        assert_eq!(before.len(), after.len());
        let mut last: std::collections::HashMap<FlowKey, usize> = std::collections::HashMap::new();
        let (mut contiguous, mut acknowledged) = (0, 0);
        for index in 0..before.len() {
            assert!(after[index].len() <= before[index].len().max(1514));
            assert_eq!(key(&before[index]), key(&after[index]));
            assert_eq!(
                checksums(&before[index]),
                checksums(&after[index]),
                "packet {index}"
            );
            let (Some(old), Some(new), Some(key)) =
                (tcp(&before[index]), tcp(&after[index]), key(&before[index]))
            else {
                continue;
            };
            // Segments without a hole before them still have none, and ACKs of all data still acknowledge
            // all data.
            if let Some(&earlier) = last.get(&key)
                && tcp(&before[earlier]).unwrap().1 == old.0
            {
                assert_eq!(tcp(&after[earlier]).unwrap().1, new.0, "packet {index}");
                contiguous += 1;
            }
            if let Some(&other) = last.get(&key.reversed())
                && tcp(&before[other]).unwrap().1 == old.2
            {
                assert_eq!(tcp(&after[other]).unwrap().1, new.2, "packet {index}");
                acknowledged += 1;
            }
            last.insert(key, index);
        }
        assert!(
            contiguous > 20 && acknowledged > 20,
            "{contiguous} {acknowledged}"
        );
    }
    assert!(recording.with_longer_payloads(50.0, 1514).is_err());
    assert!(recording.with_longer_payloads(5000.0, 1514).is_err());
}
