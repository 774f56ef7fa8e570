//! Compares every table with a hash map.

mod against_entries;
mod eviction;

use super::*;
use crate::expiry::Timeouts;
use crate::hash::{FlowHash, HashKind};
use hw::lines::Lines;
use proptest::prelude::*;
use std::collections::HashMap;

const SEED: u64 = 11;

fn bucket(flows_max: usize, hash: FlowHash, outputs: Outputs) -> BucketTable {
    let entries = Lines::zeroed(BucketTable::slots_for(flows_max));
    BucketTable::new(flows_max, hash, outputs, entries).unwrap()
}

fn tables(flows_max: usize) -> Vec<(TableKind, Box<dyn Table>)> {
    let hash = FlowHash::new(HashKind::Keyed, SEED);
    vec![
        (
            TableKind::Bucket,
            Box::new(bucket(flows_max, hash, Outputs::ALL)),
        ),
        (
            TableKind::DoubleHash,
            Box::new(DoubleHash::new(Outputs::ALL).unwrap()),
        ),
        (
            TableKind::LinkedList,
            Box::new(LinkedList::new(flows_max, Outputs::ALL).unwrap()),
        ),
        (
            TableKind::Combined,
            Box::new(Combined::new(flows_max, Outputs::ALL).unwrap()),
        ),
    ]
}

/// A distinct key for every number; every seventh is IPv6.
fn flow_key(number: u32) -> FlowKey {
    let mut key = FlowKey {
        version: 4,
        protocol: 17,
        source_port: 7,
        ..FlowKey::default()
    };
    key.source[..4].copy_from_slice(&number.to_be_bytes());
    if number.is_multiple_of(7) {
        key.version = 6;
        key.destination = [9; 16];
    }
    key
}

/// A batch of packets, given with the numbers of their flows.
fn batch_of(packets: impl Iterator<Item = (u32, Packet)>) -> Batch {
    let maker = crate::KeyMaker::new(crate::FlowDefinition::FiveTuple, false, SEED);
    let mut batch = Batch::default();
    for (flow, packet) in packets {
        let mut key = flow_key(flow);
        match maker.from_key(&mut key).0 {
            crate::TableKey::Compact(key) => batch.push(key, packet),
            crate::TableKey::Wide(digest) => batch.push_wide(digest, &key, packet),
        }
    }
    let (keys, hashes) = batch.keys_and_hashes();
    FlowHash::new(HashKind::Keyed, SEED).hash_burst(keys, hashes);
    batch
}

fn batch(numbers: &[u32], first_number: u64) -> Batch {
    batch_of(numbers.iter().enumerate().map(|(index, &flow)| {
        let number = first_number + index as u64;
        let packet = Packet {
            length: 60 + flow % 100,
            number,
            time_ns: number as i64 * 1000,
            clock_ms: 1,
            ..Packet::default()
        };
        (flow, packet)
    }))
}

/// Runs a packet of each of the flows `numbers` through a table. Returns the packets and bytes of each
/// key, and the number of evicted flows.
fn run(table: &mut dyn Table, numbers: &[u32]) -> (HashMap<FlowKey, [u64; 2]>, u64) {
    let expiry = Expiry::new(&Timeouts::NONE, false, false);
    let mut sums = HashMap::<FlowKey, [u64; 2]>::new();
    let mut evicted = 0;
    let mut observed = Observed::default();
    let mut take = |table: &mut dyn Table, slot: u32| {
        let entry = table.entry(slot);
        let sum = sums.entry(table.key(slot, entry)).or_default();
        sum[0] += entry.packets()[0];
        sum[1] += entry.bytes()[0];
        table.remove(&[slot]);
    };
    let mut number = 0;
    for burst in numbers.chunks(BURST) {
        let batch = batch(burst, number);
        number += burst.len() as u64;
        while let Err(slot) = table.grow(&mut |from, to| assert_ne!(from, to)) {
            evicted += 1;
            take(table, slot);
        }
        table.prefetch_batch(&batch);
        let mut start = 0;
        while let Step::Ended { at, slot, reason } =
            table.update(&batch, start..batch.len(), &expiry, &mut observed)
        {
            assert_eq!(reason, EndReason::LackOfResources);
            assert!(at >= start);
            evicted += 1;
            take(table, slot);
            start = at;
        }
        observed.opened.clear();
    }
    let mut slots = Vec::new();
    table.find_occupied(0, table.slots(), &mut slots);
    assert_eq!(slots.len(), table.flows());
    for slot in slots {
        take(table, slot);
    }
    assert_eq!(table.flows(), 0);
    (sums, evicted)
}

fn reference(numbers: &[u32]) -> HashMap<FlowKey, [u64; 2]> {
    let mut sums = HashMap::<FlowKey, [u64; 2]>::new();
    for &number in numbers {
        let sum = sums.entry(flow_key(number)).or_default();
        sum[0] += 1;
        sum[1] += u64::from(60 + number % 100);
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_table_counts_like_a_map(numbers in prop::collection::vec(0u32..600, 1..3000)) {
        for (kind, mut table) in tables(4096) {
            let (sums, evicted) = run(table.as_mut(), &numbers);
            prop_assert_eq!(evicted, 0);
            prop_assert_eq!(table.unattributed(), [0, 0], "{:?}", kind);
            prop_assert_eq!(sums, reference(&numbers), "{:?}", kind);
        }
    }

    #[test]
    fn a_full_bucket_table_loses_no_packet(numbers in prop::collection::vec(0u32..2000, 1..3000), flows_max in 1usize..200) {
        let mut table = bucket(flows_max, FlowHash::new(HashKind::Keyed, SEED), Outputs::ALL);
        let (sums, _) = run(&mut table, &numbers);
        prop_assert_eq!(sums, reference(&numbers));
    }

    #[test]
    fn a_bucket_table_never_exceeds_its_maximum_with_any_hash(
        flows_max in 1usize..100, numbers in prop::collection::vec(0u32..500, 1..2000), kind in prop::sample::select(HashKind::ALL.to_vec())
    ) {
        let hash = FlowHash::new(kind, SEED);
        let mut table = bucket(flows_max, hash.clone(), Outputs::default());
        let expiry = Expiry::new(&Timeouts::NONE, false, false);
        let mut observed = Observed::default();
        let mut packets = 0;
        for burst in numbers.chunks(BURST) {
            let mut batch = batch(burst, 0);
            let (keys, hashes) = batch.keys_and_hashes();
            hash.hash_burst(keys, hashes);
            while let Err(slot) = table.grow(&mut |_, _| {}) {
                packets += table.entry(slot).packets()[0];
                table.remove(&[slot]);
            }
            table.prefetch_batch(&batch);
            let mut start = 0;
            while let Step::Ended { at, slot, .. } = table.update(&batch, start..batch.len(), &expiry, &mut observed) {
                packets += table.entry(slot).packets()[0];
                table.remove(&[slot]);
                start = at;
            }
            prop_assert!(table.flows() <= flows_max);
        }
        let mut slots = Vec::new();
        table.find_occupied(0, table.slots(), &mut slots);
        packets += slots.iter().map(|&slot| table.entry(slot).packets()[0]).sum::<u64>();
        prop_assert_eq!(packets, numbers.len() as u64);
    }
}

#[test]
fn colliding_keys_fill_a_bounded_number_of_buckets() {
    // `add` hashes source + destination, which is the same for all these keys.
    let hash = FlowHash::new(HashKind::Add, 0);
    let mut table = bucket(10_000, hash.clone(), Outputs::default());
    let expiry = Expiry::new(&Timeouts::NONE, false, false);
    let mut observed = Observed::default();
    let mut evicted = 0;
    for burst in 0..40u32 {
        let mut batch = Batch::default();
        for index in 0..BURST as u32 {
            let number = burst * BURST as u32 + index;
            let mut key = FlowKey {
                version: 4,
                ..FlowKey::default()
            };
            key.source[..4].copy_from_slice(&number.to_be_bytes());
            key.destination[..4].copy_from_slice(&(1_000_000 - number).to_be_bytes());
            batch.push(key.compact().unwrap(), Packet::default());
        }
        let (keys, hashes) = batch.keys_and_hashes();
        hash.hash_burst(keys, hashes);
        assert!(hashes.iter().all(|hash| *hash == hashes[0]));
        while let Err(slot) = table.grow(&mut |_, _| {}) {
            evicted += 1;
            table.remove(&[slot]);
        }
        table.prefetch_batch(&batch);
        let mut start = 0;
        while let Step::Ended { at, slot, .. } =
            table.update(&batch, start..batch.len(), &expiry, &mut observed)
        {
            evicted += 1;
            table.remove(&[slot]);
            start = at;
        }
    }
    // Eight buckets of 31 flows.
    assert_eq!(table.flows(), 8 * 31);
    assert_eq!(evicted, 40 * BURST - 8 * 31);
}

#[test]
fn the_double_hash_counts_packets_that_do_not_fit() {
    // 2^16 random flows in 2^16 buckets of two entries: the number n of flows in a bucket follows
    // Poisson(1), so 1 - E[min(n, 2)] = 10.36 % of the flows do not fit (measured: 10.4 to 10.5 %).
    let numbers: Vec<u32> = (0..1 << 16).map(|number: u32| number * 7 + 1).collect();
    let mut table = DoubleHash::new(Outputs::default()).unwrap();
    let (sums, _) = run(&mut table, &numbers);
    let [packets, bytes] = table.unattributed();
    let share = packets as f64 / numbers.len() as f64;
    assert!((0.099..0.109).contains(&share), "{share}");
    assert_eq!(
        sums.values().map(|sum| sum[0]).sum::<u64>() + packets,
        numbers.len() as u64
    );
    let sent: u64 = reference(&numbers).values().map(|sum| sum[1]).sum();
    assert_eq!(sums.values().map(|sum| sum[1]).sum::<u64>() + bytes, sent);
}

#[test]
fn gaps_are_counted_within_and_across_bursts() {
    for (kind, mut table) in tables(64) {
        let expiry = Expiry::new(&Timeouts::NONE, false, false);
        let mut observed = Observed::default();
        // Flow 1 at 0, 1 and 4, flow 2 at 2, flow 3 at 3: the gaps of flow 1 are none, 0, 2.
        let first = batch(&[1, 1, 2, 3, 1], 0);
        table.prefetch_batch(&first);
        assert_eq!(
            table.update(&first, 0..first.len(), &expiry, &mut observed),
            Step::Done,
            "{kind:?}"
        );
        assert_eq!(observed.gaps[..5], [NO_VALUE, 0, NO_VALUE, NO_VALUE, 2]);
        assert_eq!(
            observed.inter_arrival_ns[..5],
            [NO_VALUE, 1000, NO_VALUE, NO_VALUE, 3000]
        );
        let second = batch(&[2, 1], 1 << 33);
        table.prefetch_batch(&second);
        table.update(&second, 0..second.len(), &expiry, &mut observed);
        assert_eq!(
            observed.gaps[..2],
            [(1 << 33) - 3, (1 << 33) - 4],
            "{kind:?}"
        );
    }
}
