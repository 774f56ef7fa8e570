//! ns per packet of every flow table beside hashbrown: 2^16, 1 M and 10 M flows, uniform and
//! Zipf(1). The tables take turns within each round, so that a machine that changes speed changes
//! it for all; the figures are medians over the rounds, of the thread's processor time.
//!
//! `cargo run --release -p flowatch-flow --example bench_tables [-- flows …]`

use flow::expiry::Expiry;
use flow::hash::{FlowHash, HashKind};
use flow::table::{Bucket, Combined, DoubleHash, LinkedList, Observed, Step, Table};
use flow::{BURST, Batch, Packet, Timeouts};
use hashbrown::HashMap;
use std::hint::black_box;

const ROUNDS: usize = 5;
const SEED: u64 = 5;

/// A small generator (SplitMix64), so that a run repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Flow numbers of a stream: uniform, or Zipf(1) over flows in random order.
fn stream(flows: usize, length: usize, zipf: bool) -> Vec<u32> {
    let mut random = Random(9);
    if !zipf {
        return (0..length)
            .map(|_| random.below(flows as u64) as u32)
            .collect();
    }
    let mut order: Vec<u32> = (0..flows as u32).collect();
    for index in (1..flows).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=flows)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..length)
        .map(|_| {
            let wanted = random.unit() * sum;
            order[cumulated
                .partition_point(|&upto| upto < wanted)
                .min(flows - 1)]
        })
        .collect()
}

fn keys(flows: usize) -> Vec<u128> {
    const MARK: u128 = 0x04 << 120;
    let mut random = Random(SEED);
    (0..flows)
        .map(|_| {
            let (addresses, ports) = (random.next(), random.next() as u32);
            u128::from(addresses) | u128::from(ports) << 64 | 17 << 96 | MARK
        })
        .collect()
}

trait Contender {
    fn run(&mut self, keys: &[u128]);
    fn note(&self) -> String;
}

/// A table of ours, fed in batches.
struct Ours {
    table: Box<dyn Table>,
    hash: FlowHash,
    expiry: Expiry,
    observed: Observed,
    batch: Batch,
    burst: usize,
    number: u64,
}

impl Ours {
    fn new(table: Box<dyn Table>, hash: HashKind, burst: usize) -> Self {
        Self {
            table,
            hash: FlowHash::new(hash, SEED),
            expiry: Expiry::new(&Timeouts::default(), true, false),
            observed: Observed::default(),
            batch: Batch::default(),
            burst,
            number: 0,
        }
    }
}

impl Contender for Ours {
    fn run(&mut self, keys: &[u128]) {
        for burst in keys.chunks(self.burst) {
            self.batch.clear();
            for &key in burst {
                self.number += 1;
                let packet = Packet {
                    length: 64,
                    number: self.number,
                    clock_ms: 1,
                    ..Packet::default()
                };
                self.batch.push(key, packet);
            }
            let (keys, hashes) = self.batch.keys_and_hashes();
            self.hash.hash_burst(keys, hashes);
            self.table.stage(&self.batch);
            let mut start = 0;
            while let Step::Ended { at, slot, .. } =
                self.table
                    .update(&self.batch, start, &self.expiry, &mut self.observed)
            {
                self.table.remove(slot);
                start = at;
            }
            self.observed.opened.clear();
        }
    }

    fn note(&self) -> String {
        let share = 100.0 * self.table.miscounted()[0] as f64 / self.number as f64;
        if share > 0.0 {
            format!("{share:.1} % miscounted")
        } else {
            String::new()
        }
    }
}

/// The peer: hashbrown with ahash, one by one.
struct Peer {
    map: HashMap<u128, [u64; 4], ahash::RandomState>,
    number: u64,
}

impl Contender for Peer {
    fn run(&mut self, keys: &[u128]) {
        for &key in keys {
            self.number += 1;
            let [packets, bytes, last, flags] = self.map.entry(key).or_default();
            *packets += 1;
            *bytes += 64;
            *last = self.number;
            *flags |= 1;
        }
    }

    fn note(&self) -> String {
        "peer".into()
    }
}

fn main() {
    let chosen: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    for flows in [1 << 16, 1_000_000, 10_000_000] {
        if !chosen.is_empty() && !chosen.contains(&flows) {
            continue;
        }
        let keys = keys(flows);
        for zipf in [false, true] {
            let length = if flows > 1_000_000 { 1 << 24 } else { 1 << 23 };
            let packets: Vec<u128> = stream(flows, length, zipf)
                .into_iter()
                .map(|flow| keys[flow as usize])
                .collect();
            let bucket = |hash, burst| -> Box<dyn Contender> {
                let table = Bucket::new(flows + flows / 8, FlowHash::new(hash, SEED), false);
                Box::new(Ours::new(Box::new(table), hash, burst))
            };
            let mut contenders: Vec<(String, Box<dyn Contender>)> = vec![
                ("bucket, keyed hash".into(), bucket(HashKind::Keyed, BURST)),
                ("bucket, bursts of 32".into(), bucket(HashKind::Keyed, 32)),
                ("bucket, one by one".into(), bucket(HashKind::Keyed, 1)),
                (
                    "double hash".into(),
                    Box::new(Ours::new(
                        Box::new(DoubleHash::new(false)),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "linked list".into(),
                    Box::new(Ours::new(
                        Box::new(LinkedList::new(flows, false)),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "combined".into(),
                    Box::new(Ours::new(
                        Box::new(Combined::new(flows, false)),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "hashbrown + ahash".into(),
                    Box::new(Peer {
                        map: HashMap::with_capacity_and_hasher(
                            flows,
                            ahash::RandomState::with_seeds(1, 2, 3, 4),
                        ),
                        number: 0,
                    }),
                ),
            ];
            let mut times = vec![Vec::new(); contenders.len()];
            for round in 0..=ROUNDS {
                for ((_, contender), times) in contenders.iter_mut().zip(&mut times) {
                    let before = hw::time::thread_cpu();
                    contender.run(black_box(&packets));
                    let taken = hw::time::thread_cpu() - before;
                    if round > 0 {
                        times.push(taken.as_nanos() as f64 / length as f64);
                    }
                }
            }
            let peer = median(times.last().map_or(&[], |times| times));
            let traffic = if zipf { "Zipf(1)" } else { "uniform" };
            println!(
                "\n{flows} flows, {traffic}\n{:<22}{:>10}{:>10}{:>10}{:>12}",
                "table", "ns/packet", "min", "max", "x hashbrown"
            );
            for ((name, contender), times) in contenders.iter().zip(&times) {
                let sorted = sorted(times);
                let middle = median(times);
                println!(
                    "{name:<22}{middle:>10.2}{:>10.2}{:>10.2}{:>12.2}  {}",
                    sorted[0],
                    sorted[sorted.len() - 1],
                    peer / middle,
                    contender.note()
                );
            }
        }
    }
}

fn sorted(times: &[f64]) -> Vec<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(times: &[f64]) -> f64 {
    sorted(times)
        .get(times.len() / 2)
        .copied()
        .unwrap_or(f64::NAN)
}
