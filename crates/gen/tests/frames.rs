//! Checks generated frames independently: keys with `wire`, checksums with a sum that carries after each
//! word, and RSS hashes from the key.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use generator::{
    FlowFields, FlowOrder, FrameSizes, MatchFilter, Probe, Protocol, RandomFields, Source, Traffic,
    TrafficOptions,
};
use port::filter::Matcher;
use port::frame::Frame;
use port::{NullSink, Transmit};
use proptest::prelude::*;
use std::collections::HashSet;
use wire::toeplitz::{Input, MICROSOFT_KEY};
use wire::{Decapsulate, FlowKey, LinkType, Toeplitz, dissect};

/// A frame as it was written, and its flow.
struct Written {
    bytes: Vec<u8>,
    flow: u32,
    rss_hash: u32,
}

fn write(traffic: &mut Traffic, mut count: usize) -> Vec<Written> {
    let mut sink = NullSink::new();
    let mut written = Vec::new();
    while count > 0 {
        let mut flows = [0; 256];
        let room = traffic.slot_bytes();
        let slots = sink.reserve(count.min(100), room).unwrap();
        for slot in slots.iter_mut() {
            // The result must not depend on the old content.
            slot.bytes.fill(0xa5);
            slot.time_ns = 77;
        }
        let flows = &mut flows[..slots.len()];
        let filled = traffic.fill(slots, flows).unwrap();
        assert_eq!(filled.frames, slots.len());
        let bytes: usize = slots.iter().map(|slot| slot.length).sum();
        assert_eq!(filled.bytes, bytes as u64);
        written.extend(slots.iter().zip(flows).map(|(slot, flow)| Written {
            bytes: slot.bytes[..slot.length].to_vec(),
            flow: *flow,
            rss_hash: slot.rss_hash,
        }));
        count -= filled.frames;
        sink.submit(filled.frames).unwrap();
    }
    written
}

/// The sum of RFC 1071 over several pieces, which have even lengths except for the last. It is 0xffff if
/// the pieces contain a correct checksum.
fn ones_complement(pieces: &[&[u8]]) -> u16 {
    let mut sum = 0u16;
    let bytes: Vec<u8> = pieces.concat();
    for word in bytes.chunks(2) {
        let word = u16::from(word[0]) << 8 | u16::from(word.get(1).copied().unwrap_or(0));
        let (added, carry) = sum.overflowing_add(word);
        sum = added + u16::from(carry);
    }
    sum
}

/// Asserts that lengths and checksums of a frame are correct.
fn assert_valid(frame: &[u8]) {
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let (transport, protocol, addresses) = match ethertype {
        0x0800 => {
            assert_eq!(frame[14], 0x45);
            assert_eq!(ones_complement(&[&frame[14..34]]), 0xffff, "IPv4 checksum");
            let total = u16::from_be_bytes([frame[16], frame[17]]);
            assert_eq!(usize::from(total), frame.len() - 14);
            assert!(frame[22] > 0);
            (34, frame[23], &frame[26..34])
        }
        0x86dd => {
            assert_eq!(frame[14] >> 4, 6);
            let length = u16::from_be_bytes([frame[18], frame[19]]);
            assert_eq!(usize::from(length), frame.len() - 54);
            assert!(frame[21] > 0);
            (54, frame[20], &frame[22..54])
        }
        other => panic!("EtherType {other:x}"),
    };
    let segment = &frame[transport..];
    let length = (segment.len() as u32).to_be_bytes();
    let sum = ones_complement(&[addresses, &length, &[0, protocol], segment]);
    assert_eq!(sum, 0xffff, "transport checksum");
    if protocol == 17 {
        let length = u16::from_be_bytes([segment[4], segment[5]]);
        assert_eq!(usize::from(length), segment.len());
        assert_ne!(segment[6..8], [0, 0], "no UDP checksum");
    }
}

fn key_of(frame: &[u8]) -> FlowKey {
    let headers = dissect(
        LinkType::Ethernet,
        frame,
        frame.len() as u32,
        Decapsulate::No,
    );
    assert_eq!(headers.malformed, None);
    assert_eq!(headers.no_flow, None);
    headers.key
}

fn all_kinds() -> Vec<FlowFields> {
    let mut kinds = Vec::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        kinds.push(FlowFields::ipv4(protocol));
        kinds.push(FlowFields::ipv6(protocol));
    }
    kinds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn frames_are_valid_and_belong_to_their_flows(
        seed: u64,
        kinds in 1usize..16,
        sizes in proptest::sample::select(vec!["96", "97", "1518=1,96=3,577=2", "9018"]),
        random in 0u16..256,
        probe in 0u8..3,
    ) {
        let kinds: Vec<FlowFields> = all_kinds()
            .into_iter()
            .enumerate()
            .filter(|(index, _)| kinds & (1 << index) != 0)
            .map(|(_, kind)| kind)
            .collect();
        let bit = |bit: u32| random & (1 << bit) != 0;
        let random = RandomFields {
            source: bit(0), destination: bit(1), source_port: bit(2), destination_port: bit(3),
            ttl: bit(4), dscp: bit(5), identification: bit(6), payload: bit(7),
        };
        let options = TrafficOptions {
            flows: 50,
            kinds,
            sizes: sizes.parse().unwrap(),
            random,
            sequence: probe > 0,
            timestamps: probe > 1,
            seed,
            ..TrafficOptions::default()
        };
        let mut traffic = Traffic::new(&options).unwrap();
        let rss = Toeplitz::new(&MICROSOFT_KEY).unwrap();
        for (number, written) in write(&mut traffic, 500).iter().enumerate() {
            let frame = &written.bytes;
            assert_valid(frame);
            let key = key_of(frame);
            if !random.changes_flow_key() {
                prop_assert_eq!(key, traffic.key(written.flow));
                prop_assert_eq!(written.rss_hash, traffic.rss_hash(written.flow));
            }
            prop_assert_eq!(written.rss_hash, rss.hash_key(&key, Input::AddressesAndPorts));
            let size = frame.len() + 4;
            prop_assert!(options.sizes.weighted().iter().any(|&(listed, _)| listed == size));
            let payload = match (key.version, key.protocol) {
                (4, 17) => 42, (4, _) => 54, (_, 17) => 62, _ => 74,
            };
            let read = Probe::parse(&frame[payload..]);
            if probe > 0 {
                let read = read.unwrap();
                prop_assert_eq!(read.sequence, number as u64);
                prop_assert_eq!(read.time_ns, if probe > 1 { 77 } else { 0 });
            } else if !random.payload {
                prop_assert_eq!(read, None);
                prop_assert!(frame[payload..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn minimum_frame_of_each_kind_is_valid(kind in 0usize..4, seed: u64) {
        let kind = all_kinds()[kind];
        let min_size = 14 + if kind.version() == 4 { 20 } else { 40 }
            + if kind.protocol == Protocol::Udp { 8 } else { 20 } + 4;
        let make = |size: usize| Traffic::new(&TrafficOptions {
            flows: 5,
            kinds: vec![kind],
            sizes: FrameSizes::fixed(size).unwrap(),
            seed,
            ..TrafficOptions::default()
        });
        if min_size > 64 {
            prop_assert!(make(min_size - 1).is_err());
        }
        for written in write(&mut make(min_size.max(64)).unwrap(), 20) {
            assert_valid(&written.bytes);
        }
    }
}

#[test]
fn flows_are_distinct_and_reproducible_from_the_seed() {
    for flows in [1, 2, 1000, 1 << 16] {
        let options = TrafficOptions {
            flows,
            kinds: all_kinds(),
            order: FlowOrder::RoundRobin,
            sizes: FrameSizes::fixed(128).unwrap(),
            ..TrafficOptions::default()
        };
        let keys = |options: &TrafficOptions| {
            let traffic = Traffic::new(options).unwrap();
            (0..flows).map(|flow| traffic.key(flow)).collect::<Vec<_>>()
        };
        let first = keys(&options);
        let distinct: HashSet<&FlowKey> = first.iter().collect();
        assert_eq!(distinct.len() as u32, flows);
        assert_eq!(keys(&options), first);
        let other = TrafficOptions { seed: 2, ..options };
        assert_ne!(keys(&other), first);
    }
}

#[test]
fn round_robin_visits_every_flow() {
    let options = TrafficOptions {
        flows: 999,
        order: FlowOrder::RoundRobin,
        ..TrafficOptions::default()
    };
    let mut traffic = Traffic::new(&options).unwrap();
    for (number, written) in write(&mut traffic, 5000).iter().enumerate() {
        assert_eq!(written.flow as usize, number % 999);
    }
    let mut next = [0; 700];
    traffic.next_flows(&mut next);
    assert!(
        next.iter()
            .enumerate()
            .all(|(at, &flow)| flow as usize == (5000 + at) % 999)
    );
}

#[test]
fn exactly_the_matching_flows_match_the_filter() {
    for (text, kinds) in [
        ("udp dst port 320", vec![FlowFields::ipv4(Protocol::Udp)]),
        ("ip6 and src net 2001:db8::/32", all_kinds()),
        ("tcp", vec![FlowFields::ipv4(Protocol::Udp)]),
        ("host 198.19.0.7 and tcp src portrange 1-9", all_kinds()),
    ] {
        let filter = MatchFilter::parse(text).unwrap();
        let options = TrafficOptions {
            flows: 1000,
            kinds,
            sizes: FrameSizes::fixed(100).unwrap(),
            matching: Some((filter, 0.3)),
            ..TrafficOptions::default()
        };
        let mut traffic = Traffic::new(&options).unwrap();
        let matcher = Matcher::new(text, LinkType::Ethernet).unwrap();
        let mut matching = 0;
        for written in write(&mut traffic, 20_000) {
            assert_valid(&written.bytes);
            let is_match = matcher.matches(&Frame::new(&written.bytes, 0, 96));
            assert_eq!(is_match, written.flow >= 700, "{text}");
            matching += u32::from(is_match);
        }
        // Five standard deviations of 20,000 random choices; the seed is fixed.
        assert!(matching.abs_diff(6000) < 325, "{text}: {matching}");
    }
}

#[test]
fn shares_of_zero_and_one_are_exact() {
    for (share, expected) in [(0.0, 0), (1.0, 3000)] {
        let options = TrafficOptions {
            flows: 10,
            matching: Some((MatchFilter::parse("port 9").unwrap(), share)),
            ..TrafficOptions::default()
        };
        let mut traffic = Traffic::new(&options).unwrap();
        let written = write(&mut traffic, 3000);
        let matching = written
            .iter()
            .filter(|written| key_of(&written.bytes).destination_port == 9);
        assert_eq!(matching.count(), expected);
    }
}

#[test]
fn rejects_invalid_options() {
    let assert_rejected = |options: TrafficOptions, words: &str| {
        let error = Traffic::new(&options).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n'));
    };
    let default = TrafficOptions::default;
    assert_rejected(
        TrafficOptions {
            flows: 0,
            ..default()
        },
        "number of flows 0",
    );
    assert_rejected(
        TrafficOptions {
            flows: u32::MAX,
            ..default()
        },
        "use 1 to",
    );
    assert_rejected(
        TrafficOptions {
            kinds: vec![],
            ..default()
        },
        "no kind",
    );
    let narrow = FlowFields {
        source: "10.0.0.1".parse().unwrap(),
        destination: "10.0.0.2".parse().unwrap(),
        source_ports: "1-10".parse().unwrap(),
        destination_ports: "1-10".parse().unwrap(),
        protocol: Protocol::Udp,
    };
    assert_rejected(
        TrafficOptions {
            flows: 101,
            kinds: vec![narrow],
            ..default()
        },
        "fewer than 101 flows",
    );
    let mixed_families = FlowFields {
        source: "::1".parse().unwrap(),
        ..narrow
    };
    assert_rejected(
        TrafficOptions {
            kinds: vec![mixed_families],
            ..default()
        },
        "different address families",
    );
    assert_rejected(
        TrafficOptions {
            kinds: vec![FlowFields::ipv4(Protocol::Tcp)],
            timestamps: true,
            ..default()
        },
        "at least 76",
    );
    assert_rejected(
        TrafficOptions {
            matching: Some((MatchFilter::parse("udp").unwrap(), 0.5)),
            ..default()
        },
        "all other flows also match",
    );
    assert_rejected(
        TrafficOptions {
            rss_key: vec![1; 39],
            ..default()
        },
        "39 bytes",
    );
}
