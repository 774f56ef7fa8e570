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
    let (sizes, names): (Vec<&String>, Vec<&String>) = arguments
        .iter()
        .partition(|text| text.parse::<usize>().is_ok());
    let sizes: Vec<usize> = sizes.iter().filter_map(|text| text.parse().ok()).collect();
    for flows in [1 << 16, 1_000_000, 10_000_000] {
        if !sizes.is_empty() && !sizes.contains(&flows) {
            continue;
        }
        let keys = keys(flows);
        for zipf in [false, true] {
            let length = if flows > 1_000_000 { 1 << 24 } else { 1 << 23 };
            let packets: Vec<u128> = flow_numbers(flows, length, zipf)
                .into_iter()
                .map(|flow| keys[flow as usize])
                .collect();
            let mut contenders = contenders(flows);
            contenders.retain(|(name, _)| {
                let is_named = names.iter().any(|part| name.contains(&***part));
                names.is_empty() || is_named || name.starts_with("hashbrown")
            });
            let times = measure(&mut contenders, &keys, &packets);
            println!(
                "\n{flows} flows, {}",
                if zipf { "Zipf(1)" } else { "uniform" }
            );
            print_times(&contenders, &times);
        }
    }
}

type Contenders = Vec<(&'static str, Box<dyn Contender>)>;

/// Creates all tables for this number of flows.
fn contenders(flows: usize) -> Contenders {
    let bucket = |burst| -> Box<dyn Contender> {
        let flows_max = flows + flows / 8;
        let table = BucketTable::new(
            flows_max,
            FlowHash::new(HashKind::Keyed, SEED),
            Outputs::default(),
            Lines::zeroed(BucketTable::slots_for(flows_max)),
        )
        .expect("memory");
        Box::new(FlowTable::new(Box::new(table), HashKind::Keyed, burst))
    };
    let keyed =
        |table| -> Box<dyn Contender> { Box::new(FlowTable::new(table, HashKind::Keyed, BURST)) };
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    vec![
        ("bucket, keyed hash", bucket(BURST)),
        ("bucket, bursts of 32", bucket(32)),
        ("bucket, one by one", bucket(1)),
        (
            "double hash",
            keyed(Box::new(
                DoubleHash::new(Outputs::default()).expect("memory"),
            )),
        ),
        (
            "linked list",
            keyed(Box::new(
                LinkedList::new(flows, Outputs::default()).expect("memory"),
            )),
        ),
        (
            "combined",
            keyed(Box::new(
                Combined::new(flows, Outputs::default()).expect("memory"),
            )),
        ),
        (
            "hashbrown + ahash",
            Box::new(Hashbrown {
                map: HashMap::with_capacity_and_hasher(flows, hasher),
                number: 0,
            }),
        ),
    ]
}

/// Returns the nanoseconds per packet of each contender in each round, measured by turns.
fn measure(contenders: &mut Contenders, keys: &[u128], packets: &[u128]) -> Vec<Vec<f64>> {
    let flows = keys.len();
    let mut times = vec![Vec::new(); contenders.len()];
    for (name, contender) in contenders.iter_mut() {
        let warm_up = if is_slow(name, flows) { keys } else { packets };
        contender.run(black_box(warm_up));
    }
    for _ in 0..ROUNDS {
        for ((name, contender), times) in contenders.iter_mut().zip(&mut times) {
            let length = if is_slow(name, flows) {
                SLOW_PACKETS
            } else {
                packets.len()
            };
            let before = hw::time::thread_cpu();
            contender.run(black_box(&packets[..length]));
            let taken = hw::time::thread_cpu() - before;
            times.push(taken.as_nanos() as f64 / length as f64);
        }
    }
    times
}

/// Prints a line per contender; the last one is the reference.
fn print_times(contenders: &Contenders, times: &[Vec<f64>]) {
    let reference = median(times.last().map_or(&[], |times| times));
    println!(
        "{:<22}{:>10}{:>10}{:>10}{:>12}",
        "table", "ns/packet", "min", "max", "x hashbrown"
    );
    for ((name, contender), times) in contenders.iter().zip(times) {
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
