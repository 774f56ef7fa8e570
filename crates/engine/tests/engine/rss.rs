//! The device's hash as the flow key and as the hash of the flow table: no flow may be split, whichever
//! packets have a hash.

use crate::runs::{self, RunResult};
use engine::Options;
use flow::hash::HashKind;
use flow::{FlowDefinition, MeterOptions};
use port::{MemoryPort, Port};
use proptest::prelude::*;
use std::num::NonZeroU32;
use wire::toeplitz::{MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};
use wire::{Decapsulate, LinkType};

/// Returns a UDP frame over IPv4.
fn frame(flow: u16) -> Vec<u8> {
    let mut frame = runs::frame(1);
    frame[28..30].copy_from_slice(&flow.to_be_bytes());
    frame[34..36].copy_from_slice(&flow.rotate_left(5).to_be_bytes());
    frame
}

/// Returns a port with a frame for each flow number; those with `true` have a device hash under `key`.
fn memory(packets: &[(u16, bool)], key: &[u8]) -> MemoryPort {
    let toeplitz = Toeplitz::new(key).unwrap();
    MemoryPort::new(
        LinkType::Ethernet,
        packets
            .iter()
            .zip(1_700_000_000_000_000_000i64..)
            .map(|(&(flow, _), time_ns)| (time_ns, 64, frame(flow))),
    )
    .with_rss_hashes(Some(key), |number, bytes| {
        let hash = NonZeroU32::new(toeplitz.hash(&bytes[26..38]));
        hash.filter(|_| packets[number].1)
    })
}

fn options(flow: FlowDefinition, hash: HashKind) -> Options {
    Options {
        meter: MeterOptions {
            flow,
            hash,
            flows_max: 100_000,
            ..MeterOptions::default()
        },
        ..Options::default()
    }
}

fn run(options: &Options, port: MemoryPort) -> RunResult {
    runs::run(options, vec![Box::new(port) as Box<dyn Port>], false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn flows_by_hash_are_the_same_for_device_and_software_hashes(
        packets in prop::collection::vec((0u16..300, any::<bool>()), 1..2000)
    ) {
        let options = options(FlowDefinition::Rss, HashKind::Toeplitz);
        let none: Vec<_> = packets.iter().map(|&(flow, _)| (flow, false)).collect();
        let by_software = run(&options, memory(&none, &MICROSOFT_KEY));
        let mixed = run(&options, memory(&packets, &MICROSOFT_KEY));
        prop_assert_eq!(&mixed.records, &by_software.records);
        let books = &mixed.report.books;
        let hashed = packets.iter().filter(|(_, hashed)| *hashed).count() as u64;
        prop_assert_eq!(books.hashed_by_device, hashed);
        prop_assert_eq!(books.hashed_in_software, packets.len() as u64 - hashed);
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY).unwrap();
        for record in &mixed.records {
            let hash = record.key.hash();
            prop_assert!(packets.iter().any(|&(flow, _)| Some(toeplitz.hash(&frame(flow)[26..38])) == hash));
        }
    }

    /// More packets than the trial of the device's hashes needs.
    #[test]
    fn reused_hashes_split_no_flow(
        masks in prop::collection::vec((0u16..2000, any::<bool>()), 500),
        symmetric: bool,
    ) {
        let packets: Vec<(u16, bool)> = masks.iter().cycle().take(20_000).enumerate()
            .map(|(number, &(flow, hashed))| (flow.wrapping_add((number / 500) as u16 % 7), hashed ^ (number % 3 == 0)))
            .collect();
        let (definition, hash, key) = if symmetric {
            (FlowDefinition::Bidirectional, HashKind::SymmetricToeplitz, &SYMMETRIC_KEY)
        } else {
            (FlowDefinition::FiveTuple, HashKind::Toeplitz, &MICROSOFT_KEY)
        };
        let none: Vec<_> = packets.iter().map(|&(flow, _)| (flow, false)).collect();
        let expected = run(&options(definition, hash), memory(&none, key));
        let found = run(&options(definition, hash), memory(&packets, key));
        prop_assert_eq!(&found.records, &expected.records);
        prop_assert!(found.report.books.hashes_reused > 4000);
        prop_assert_eq!(found.report.books.hashes_mismatched, 0);
        prop_assert_eq!(expected.report.books.hashes_reused, 0);
    }
}

/// Returns a UDP frame over IPv6. The hashed bytes start at offset 22.
fn ipv6_frame(flow: u16) -> Vec<u8> {
    let mut frame = vec![0; 62];
    frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    frame[18..22].copy_from_slice(&[0, 8, 17, 64]);
    for (index, byte) in frame[22..54].iter_mut().enumerate() {
        *byte = (index as u8).wrapping_mul(flow.to_be_bytes()[index % 2] | 1);
    }
    frame[22..24].copy_from_slice(&flow.to_be_bytes());
    frame[54..58].copy_from_slice(&[0x10, flow as u8, 0, 53]);
    frame[58..60].copy_from_slice(&8u16.to_be_bytes());
    frame
}

#[test]
fn software_hash_equals_the_device_hash_for_ipv4_and_ipv6() {
    let port = MemoryPort::new(
        LinkType::Ethernet,
        (0..2000u16).map(|number| {
            let flow = number % 300;
            let bytes = if flow % 3 == 0 {
                frame(flow)
            } else {
                ipv6_frame(flow)
            };
            (i64::from(number), 66, bytes)
        }),
    );
    let result = run(&options(FlowDefinition::Rss, HashKind::Toeplitz), port);
    assert_eq!(result.report.books.hashed_in_software, 2000);
    let mut found: Vec<_> = result
        .records
        .iter()
        .filter_map(|record| record.key.hash())
        .collect();
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY).unwrap();
    let mut expected: Vec<_> = (0..300)
        .map(|flow| match flow % 3 {
            0 => toeplitz.hash(&frame(flow)[26..38]),
            _ => toeplitz.hash(&ipv6_frame(flow)[22..58]),
        })
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn hashes_of_other_fields_or_under_another_key_are_not_reused() {
    let packets: Vec<(u16, bool)> = (0..20_000u16).map(|n| (n % 500, true)).collect();
    for (definition, hash) in [
        (FlowDefinition::FiveTuple, HashKind::Keyed),
        (FlowDefinition::FiveTuple, HashKind::SymmetricToeplitz),
        (FlowDefinition::Source, HashKind::Toeplitz),
        (FlowDefinition::Bidirectional, HashKind::Toeplitz),
    ] {
        let result = run(&options(definition, hash), memory(&packets, &MICROSOFT_KEY));
        assert_eq!(
            result.report.books.hashes_reused, 0,
            "{definition:?} {hash}"
        );
        assert_eq!(result.records.len(), 500);
    }
}

/// A device hashes the outermost packet, which may be that of a tunnel.
#[test]
fn no_hash_is_reused_if_tunnels_are_decapsulated() {
    let packets: Vec<(u16, bool)> = (0..20_000).map(|number| (number % 500, true)).collect();
    for (decapsulate, is_reused) in [(Decapsulate::No, true), (Decapsulate::Innermost, false)] {
        let options = Options {
            decapsulate,
            ..options(FlowDefinition::FiveTuple, HashKind::Toeplitz)
        };
        let result = run(&options, memory(&packets, &MICROSOFT_KEY));
        assert_eq!(result.report.books.hashes_reused > 0, is_reused);
    }
}

#[test]
fn wrong_device_hashes_are_detected() {
    // The device claims Microsoft's key but hashes with the symmetric one.
    let symmetric = Toeplitz::new(&SYMMETRIC_KEY).unwrap();
    let wrong_hashes = |correct: usize| {
        let microsoft = Toeplitz::new(&MICROSOFT_KEY).unwrap();
        let symmetric = symmetric.clone();
        MemoryPort::new(
            LinkType::Ethernet,
            (0..20_000i64).map(|number| (number, 64, frame(number as u16 % 500))),
        )
        .with_rss_hashes(Some(&MICROSOFT_KEY), move |number, bytes| {
            let function = if number < correct {
                &microsoft
            } else {
                &symmetric
            };
            NonZeroU32::new(function.hash(&bytes[26..38]))
        })
    };
    let options = options(FlowDefinition::FiveTuple, HashKind::Toeplitz);
    // Wrong from the start: no hash is used, and no flow is split.
    let result = run(&options, wrong_hashes(0));
    assert!(result.report.books.hashes_mismatched > 0);
    assert_eq!(result.report.books.hashes_reused, 0);
    assert_eq!(result.records.len(), 500);
    // Wrong after the trial: the first such burst is detected, and every packet is still in a record.
    let result = run(&options, wrong_hashes(10_240));
    assert_eq!(result.report.books.hashes_mismatched, 1);
    assert!(result.records.len() > 500 && result.records.len() <= 1000);
    assert_eq!(result.report.books.in_flows.packets, 20_000);
}
