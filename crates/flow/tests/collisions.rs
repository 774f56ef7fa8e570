//! Keys that someone has chosen for one bucket: harmless under a secret seed, counted under any other
//! hash.

use flow::hash::{FlowHash, HashKind};
use flow::{
    BURST, Batch, Collisions, Meter, MeterCounters, MeterOptions, Packet, RecordBatch, RecordSink,
    TableKey, Timeouts,
};
use hw::tags;
use wire::{FlowKey, ip_protocol};

/// Buckets of a new table, which chosen keys leave nearly empty.
const BUCKETS: u32 = 512;

/// More flows than the bucket and those that take its overflow hold.
const CHOSEN: usize = 600;

/// Packets of each flow, in turn with those of the others.
const ROUNDS: u64 = 3;

/// What an outsider assumes to be the seed.
const KNOWN_SEED: u64 = 5;

struct Discard;

impl RecordSink for Discard {
    fn take(&mut self, batch: &mut RecordBatch) {
        batch.records.clear();
    }
}

/// Returns keys that look random.
fn keys() -> impl Iterator<Item = FlowKey> {
    (1u64..).map(|number| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = mixed.to_be_bytes();
        let mut key = FlowKey {
            version: 4,
            protocol: ip_protocol::UDP,
            source_port: u16::from_be_bytes([bytes[4], bytes[5]]),
            destination_port: 53,
            ..FlowKey::default()
        };
        key.source[..4].copy_from_slice(&bytes[..4]);
        key.destination[..4].copy_from_slice(&[192, 0, bytes[6], bytes[7]]);
        key
    })
}

fn options(hash: HashKind, seed: u64) -> MeterOptions {
    MeterOptions {
        hash,
        seed,
        timeouts: Timeouts::NONE,
        ..MeterOptions::default()
    }
}

fn compact(options: &MeterOptions, mut key: FlowKey) -> u128 {
    match options.key_maker().from_key(&mut key).0 {
        TableKey::Compact(key) => key,
        TableKey::Wide(_) => panic!("an IPv4 key is compact"),
    }
}

/// Returns keys whose home is the same bucket, if the hash is of this kind and has this seed.
fn chosen_keys(kind: HashKind) -> Vec<u128> {
    let options = options(kind, KNOWN_SEED);
    let hash = FlowHash::new(kind, KNOWN_SEED);
    let bucket = |key: u128| tags::bucket_of(hash.hash_one(key), BUCKETS);
    let mut keys = keys().map(|key| compact(&options, key)).peekable();
    let target = keys.peek().map(|&first| bucket(first));
    keys.filter(|&key| Some(bucket(key)) == target)
        .take(CHOSEN)
        .collect()
}

/// Counts a packet of each key in each round.
fn metered(options: &MeterOptions, keys: &[u128], rounds: u64) -> MeterCounters {
    let hash = options.flow_hash();
    let mut meter = Meter::new(options).expect("memory");
    let mut batch = Batch::default();
    let packets = (0..rounds).flat_map(|_| keys);
    for (number, &key) in packets.enumerate() {
        let packet = Packet {
            number: number as u64,
            clock_ms: 1,
            length: 60,
            ..Packet::default()
        };
        batch.push(key, packet);
        if batch.len() == BURST || number + 1 == keys.len() * rounds as usize {
            let (keys, hashes) = batch.keys_and_hashes();
            hash.hash_burst(keys, hashes);
            meter.process(&batch, &mut Discard);
            batch.clear();
        }
    }
    meter.finish(1, &mut Discard);
    meter.counters()
}

#[test]
fn chosen_keys_are_counted_under_every_hash_that_is_known() {
    for kind in HashKind::ALL {
        let keys = chosen_keys(kind);
        let counters = metered(&options(kind, KNOWN_SEED), &keys, ROUNDS);
        let Collisions {
            overflowed,
            evicted,
        } = counters.collisions;
        assert!(counters.records > CHOSEN as u64, "{kind}");
        assert_eq!(evicted, counters.evicted, "{kind}");
        assert_eq!(counters.records - evicted, 8 * 31, "{kind}");
        // All but those that the home bucket holds, before any is evicted.
        assert!(overflowed >= 7 * 31, "{kind}: {overflowed}");
        assert_eq!(counters.recorded[0], ROUNDS * CHOSEN as u64, "{kind}");
        // They are ordinary keys for a hash with another, secret seed.
        let secret = metered(&options(HashKind::Keyed, 0x5ec2e7), &keys, ROUNDS);
        assert_eq!(secret.collisions, Collisions::default(), "{kind}");
        assert_eq!(secret.records, CHOSEN as u64, "{kind}");
    }
}

/// Too few keys to evict flows, but enough to make lookups slower.
#[test]
fn keys_that_only_overflow_a_bucket_are_counted() {
    let keys = chosen_keys(HashKind::Crc32c);
    for (count, overflowed) in [(31, 0), (32, 1), (200, 200 - 31)] {
        let counters = metered(&options(HashKind::Crc32c, 0), &keys[..count], ROUNDS);
        let expected = Collisions {
            overflowed,
            evicted: 0,
        };
        assert_eq!(counters.collisions, expected, "{count}");
        assert_eq!(counters.records, count as u64);
    }
}

/// Neither while the table grows, nor when it is full.
#[test]
fn keys_that_nobody_chose_do_not_collide() {
    for kind in HashKind::ALL {
        // Its 16 bits are too few for that many flows.
        if kind == HashKind::SymmetricToeplitz {
            continue;
        }
        for flows_max in [3000, 1 << 20] {
            let options = MeterOptions {
                flows_max,
                ..options(kind, KNOWN_SEED)
            };
            let keys: Vec<u128> = keys()
                .take(200_000)
                .map(|key| compact(&options, key))
                .collect();
            let counters = metered(&options, &keys, 1);
            assert_eq!(counters.collisions, Collisions::default(), "{kind}");
            assert_eq!(counters.evicted > 0, flows_max < keys.len(), "{kind}");
        }
    }
}
