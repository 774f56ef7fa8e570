//! Nanoseconds per packet of every flow table compared with hashbrown: 2^16, 1 M and 10 M flows, uniform
//! and Zipf(1). The tables take turns in each round, so that a change of the machine's speed affects all
//! of them. The results are medians over the rounds of the thread's CPU time.
//!
//! `cargo run --release -p flowatch-engine --example bench_tables [-- flows … table …]`. Select a table
//! by a part of its name; hashbrown always runs.
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use flow::expiry::Expiry;
use flow::hash::{FlowHash, HashKind};
use flow::table::{BucketTable, Combined, DoubleHash, LinkedList, Observed, Outputs, Step, Table};
use flow::{BURST, Batch, Packet, Timeouts};
use hashbrown::HashMap;
use hw::lines::Lines;
use hw::random::Random;
use std::hint::black_box;
use traffic::{flow_numbers, median};

mod traffic;

const ROUNDS: usize = 5;
const SEED: u64 = 5;

fn keys(flows: usize) -> Vec<u128> {
    const MARK: u128 = 0x04 << 120;
    let mut random = Random::from_state(SEED);
    (0..flows)
        .map(|_| {
            let (addresses, ports) = (random.bits(), random.bits() as u32);
            u128::from(addresses) | u128::from(ports) << 64 | 17 << 96 | MARK
        })
        .collect()
}

/// Packets per round for a table with long chains, which takes microseconds per packet.
const SLOW_PACKETS: usize = 1 << 18;

/// With 10 M flows, a chain of the paper's tables has 150 flows. They are filled with one packet per flow
/// and measured in short rounds.
fn is_slow(name: &str, flows: usize) -> bool {
    flows > 1_000_000 && matches!(name, "linked list" | "combined")
}

trait Contender {
    fn run(&mut self, keys: &[u128]);
    fn remark(&self) -> String;
}

/// A table of flowatch, which processes batches.
struct FlowTable {
    table: Box<dyn Table>,
    hash: FlowHash,
    expiry: Expiry,
    observed: Observed,
    batch: Batch,
    burst: usize,
    number: u64,
}

impl FlowTable {
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

impl Contender for FlowTable {
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
            while let Err(slot) = self.table.grow(&mut |_, _| {}) {
                self.table.remove(&[slot]);
            }
            self.table.prefetch_batch(&self.batch);
            let mut start = 0;
            while let Step::Ended { at, slot, .. } = self.table.update(
                &self.batch,
                start..self.batch.len(),
                &self.expiry,
                &mut self.observed,
            ) {
                self.table.remove(&[slot]);
                start = at;
            }
            self.observed.opened.clear();
        }
    }

    fn remark(&self) -> String {
        let share = 100.0 * self.table.unattributed()[0] as f64 / self.number as f64;
        if share > 0.0 {
            format!("{share:.1} % unattributed")
        } else {
            String::new()
        }
    }
}

/// hashbrown with ahash, which processes one packet at a time.
struct Hashbrown {
    map: HashMap<u128, [u64; 4], ahash::RandomState>,
    number: u64,
}

impl Contender for Hashbrown {
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

    fn remark(&self) -> String {
        "reference".into()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen: Vec<usize> = arguments
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let named: Vec<&String> = arguments
        .iter()
        .filter(|text| text.parse::<usize>().is_err())
        .collect();
    for flows in [1 << 16, 1_000_000, 10_000_000] {
        if !chosen.is_empty() && !chosen.contains(&flows) {
            continue;
        }
        let keys = keys(flows);
        for zipf in [false, true] {
            let length = if flows > 1_000_000 { 1 << 24 } else { 1 << 23 };
            let packets: Vec<u128> = flow_numbers(flows, length, zipf)
                .into_iter()
                .map(|flow| keys[flow as usize])
                .collect();
            let bucket = |hash, burst| -> Box<dyn Contender> {
                let flows_max = flows + flows / 8;
                let table = BucketTable::new(
                    flows_max,
                    FlowHash::new(hash, SEED),
                    Outputs::default(),
                    Lines::zeroed(BucketTable::slots_for(flows_max)),
                )
                .expect("memory");
                Box::new(FlowTable::new(Box::new(table), hash, burst))
            };
            let mut contenders: Vec<(String, Box<dyn Contender>)> = vec![
                ("bucket, keyed hash".into(), bucket(HashKind::Keyed, BURST)),
                ("bucket, bursts of 32".into(), bucket(HashKind::Keyed, 32)),
                ("bucket, one by one".into(), bucket(HashKind::Keyed, 1)),
                (
                    "double hash".into(),
                    Box::new(FlowTable::new(
                        Box::new(DoubleHash::new(Outputs::default()).expect("memory")),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "linked list".into(),
                    Box::new(FlowTable::new(
                        Box::new(LinkedList::new(flows, Outputs::default()).expect("memory")),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "combined".into(),
                    Box::new(FlowTable::new(
                        Box::new(Combined::new(flows, Outputs::default()).expect("memory")),
                        HashKind::Keyed,
                        BURST,
                    )),
                ),
                (
                    "hashbrown + ahash".into(),
                    Box::new(Hashbrown {
                        map: HashMap::with_capacity_and_hasher(
                            flows,
                            ahash::RandomState::with_seeds(1, 2, 3, 4),
                        ),
                        number: 0,
                    }),
                ),
            ];
            contenders.retain(|(name, _)| {
                let wanted = named.iter().any(|part| name.contains(&**part));
                named.is_empty() || wanted || name.starts_with("hashbrown")
            });
            let mut times = vec![Vec::new(); contenders.len()];
            for (name, contender) in &mut contenders {
                let warm_up = if is_slow(name, flows) {
                    &keys
                } else {
                    &packets
                };
                contender.run(black_box(warm_up));
            }
            for _ in 0..ROUNDS {
                for ((name, contender), times) in contenders.iter_mut().zip(&mut times) {
                    let length = if is_slow(name, flows) {
                        SLOW_PACKETS
                    } else {
                        length
                    };
                    let before = hw::time::thread_cpu();
                    contender.run(black_box(&packets[..length]));
                    let taken = hw::time::thread_cpu() - before;
                    times.push(taken.as_nanos() as f64 / length as f64);
                }
            }
            let reference = median(times.last().map_or(&[], |times| times));
            let traffic = if zipf { "Zipf(1)" } else { "uniform" };
            println!(
                "\n{flows} flows, {traffic}\n{:<22}{:>10}{:>10}{:>10}{:>12}",
                "table", "ns/packet", "min", "max", "x hashbrown"
            );
            for ((name, contender), times) in contenders.iter().zip(&times) {
                let middle = median(times);
                println!(
                    "{name:<22}{middle:>10.2}{:>10.2}{:>10.2}{:>12.2}  {}",
                    times.iter().copied().fold(f64::INFINITY, f64::min),
                    times.iter().copied().fold(0.0, f64::max),
                    reference / middle,
                    contender.remark()
                );
            }
        }
    }
}
