//! How exact and how fast the percentile estimators are, beside each other, on synthetic and real
//! traffic: the table of the documentation.
//!
//! ```text
//! cargo run --release -p flowatch-flow --example statistic_accuracy [-- CAPTURE.pcap]
//! ```
//! `CAPTURE.pcap` (classic pcap, Ethernet) adds the gaps, inter-arrival times and sizes of its flows.
#![allow(clippy::print_stdout)]

use flow::statistic::{LogLinear, PSquare, Statistic, Value};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use hw::random::Random;
use hw::time::thread_cpu;
use std::collections::HashMap;

const FLOWS: usize = 1 << 16;
const PACKETS: usize = 1 << 24;
const BURST: usize = 256;
const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Observations in their order: slots and values.
#[derive(Default)]
struct Observations {
    slots: Vec<u32>,
    values: Vec<u64>,
}

impl Observations {
    fn push(&mut self, slot: usize, value: u64) {
        self.slots.push(slot as u32);
        self.values.push(value);
    }

    /// Each flow's values, sorted.
    fn sorted(&self) -> Vec<Vec<u64>> {
        let slots = self.slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        let mut sorted = vec![Vec::new(); slots];
        for (&slot, &value) in self.slots.iter().zip(&self.values) {
            sorted[slot as usize].push(value);
        }
        sorted.iter_mut().for_each(|values| values.sort_unstable());
        sorted
    }
}

/// The gaps of a sequence of flows.
fn gaps(flows: impl Iterator<Item = usize>) -> Observations {
    let mut last = vec![usize::MAX; FLOWS];
    let mut observations = Observations::default();
    for (number, flow) in flows.enumerate() {
        if last[flow] != usize::MAX {
            observations.push(flow, (number - last[flow] - 1) as u64);
        }
        last[flow] = number;
    }
    observations
}

fn uniform(random: &mut Random) -> Observations {
    gaps((0..PACKETS).map(|_| random.below(FLOWS as u64) as usize))
}

fn zipf(random: &mut Random) -> Observations {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=FLOWS)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    gaps((0..PACKETS).map(|_| {
        let drawn = random.unit() * sum;
        cumulative
            .partition_point(|up_to| *up_to <= drawn)
            .min(FLOWS - 1)
    }))
}

/// Trains of eight packets on average, as applications send them.
fn trains(random: &mut Random) -> Observations {
    let mut flow = 0;
    gaps((0..PACKETS).map(|_| {
        if random.below(8) == 0 {
            flow = random.below(FLOWS as u64) as usize;
        }
        flow
    }))
}

/// Log-normal values, median 1000, sigma 2: far heavier a tail than gaps have.
fn log_normal(random: &mut Random) -> Observations {
    let mut observations = Observations::default();
    for _ in 0..PACKETS {
        let flow = random.below(FLOWS as u64) as usize;
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        let normal = radius * (2.0 * std::f64::consts::PI * random.unit()).cos();
        observations.push(flow, (1000.0 * (2.0 * normal).exp()) as u64);
    }
    observations
}

/// Gaps, inter-arrival times and sizes of the IPv4 and IPv6 flows of a capture.
fn capture(path: &str) -> std::io::Result<[Observations; 3]> {
    let bytes = std::fs::read(path)?;
    let word = |at: usize| -> u32 {
        bytes.get(at..at + 4).map_or(0, |four| {
            u32::from_le_bytes([four[0], four[1], four[2], four[3]])
        })
    };
    let nanoseconds = word(0) == 0xa1b2_3c4d;
    let mut flows = HashMap::new();
    let mut last: Vec<(u64, u64)> = Vec::new();
    let mut found = [(); 3].map(|()| Observations::default());
    let (mut at, mut number) = (24, 0);
    while at + 16 <= bytes.len() {
        let fraction = u64::from(word(at + 4)) * if nanoseconds { 1 } else { 1000 };
        let time = u64::from(word(at)) * 1_000_000_000 + fraction;
        let (captured, size) = (word(at + 8) as usize, u64::from(word(at + 12)));
        let frame = bytes.get(at + 16..at + 16 + captured).unwrap_or_default();
        at += 16 + captured;
        number += 1;
        let Some(key) = flow_key(frame) else { continue };
        let slots = flows.len();
        let slot = *flows.entry(key).or_insert(slots);
        found[2].push(slot, size);
        if slot == last.len() {
            last.push((time, number));
            continue;
        }
        let (last_time, last_number) = std::mem::replace(&mut last[slot], (time, number));
        found[0].push(slot, number - last_number - 1);
        found[1].push(slot, time.saturating_sub(last_time));
    }
    Ok(found)
}

/// Addresses, protocol and ports of an Ethernet frame without tags or tunnels.
fn flow_key(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = frame.get(14..)?;
    let (addresses, protocol, transport) = match frame.get(12..14)? {
        [0x08, 0x00] => (12..20, 9, usize::from(packet.first()? & 15) * 4),
        [0x86, 0xdd] => (8..40, 6, 40),
        _ => return None,
    };
    let mut key = packet.get(addresses)?.to_vec();
    key.push(*packet.get(protocol)?);
    key.extend_from_slice(packet.get(transport..transport + 4).unwrap_or_default());
    Some(key)
}

fn pass(statistic: &mut dyn Statistic, observations: &Observations, from: usize, to: usize) {
    let bursts = || observations.slots[from..to].chunks(BURST);
    let mut ahead = bursts().skip(1);
    for (slots, values) in bursts().zip(observations.values[from..to].chunks(BURST)) {
        if let Some(next) = ahead.next() {
            statistic.prefetch(CacheLevel::Second, next);
        }
        statistic.update(slots, values);
    }
}

/// Nanoseconds of processor time per update once all flows have been seen: the best of three.
fn speed(statistic: &mut dyn Statistic, observations: &Observations) -> f64 {
    let to = observations.slots.len().min(1 << 22);
    (0..3).fold(f64::INFINITY, |best, _| {
        let start = thread_cpu();
        pass(statistic, observations, 0, to);
        best.min((thread_cpu() - start).as_nanos() as f64 / to as f64)
    })
}

/// A way to estimate: its name, the percentiles that are asked of it together, and how to make it.
type Way = (
    &'static str,
    &'static [f64],
    fn(&[f64], usize) -> Box<dyn Statistic>,
);

const WAYS: [Way; 5] = [
    ("P-square", &[50.0], |p, slots| {
        Box::new(PSquare::new(Value::Gap, p[0], Lines::zeroed(slots)))
    }),
    ("P-square", &[95.0], |p, slots| {
        Box::new(PSquare::new(Value::Gap, p[0], Lines::zeroed(slots)))
    }),
    ("P-square", &[99.0], |p, slots| {
        Box::new(PSquare::new(Value::Gap, p[0], Lines::zeroed(slots)))
    }),
    ("log-linear", &PERCENTILES, |p, slots| {
        Box::new(LogLinear::new(Value::Gap, p, Lines::zeroed(slots)))
    }),
    ("log-linear", &[99.0], |p, slots| {
        Box::new(LogLinear::new(Value::Gap, p, Lines::zeroed(slots)))
    }),
];

fn report(name: &str, observations: &Observations, at_least: usize) {
    let sorted = observations.sorted();
    let judged = sorted
        .iter()
        .filter(|values| values.len() >= at_least)
        .count();
    println!(
        "\n{name}: {} values, {judged} flows of {at_least} or more",
        observations.values.len()
    );
    println!(
        "{:<12}{:>10}{:>6}{:>8}{:>12}{:>10}{:>10}",
        "estimator", "asked", "p", "B/flow", "median err", "p95 err", "ns"
    );
    for (name, asked, make) in WAYS {
        let mut statistic = make(asked, sorted.len());
        pass(&mut *statistic, observations, 0, observations.slots.len());
        let mut errors = vec![Vec::new(); asked.len()];
        let mut estimates = Vec::new();
        for (slot, values) in sorted
            .iter()
            .enumerate()
            .filter(|(_, v)| v.len() >= at_least)
        {
            estimates.clear();
            statistic.summarise(slot as u32, f64::NAN, &mut estimates);
            for ((&p, &estimate), errors) in asked.iter().zip(&estimates).zip(&mut errors) {
                let rank = (p / 100.0 * values.len() as f64 - 1e-9).ceil() as usize;
                let exact = values[rank.max(1) - 1] as f64;
                errors.push((estimate - exact).abs() / exact.max(1.0));
            }
        }
        let ns = speed(&mut *statistic, observations);
        for (p, mut errors) in asked.iter().zip(errors) {
            errors.sort_by(f64::total_cmp);
            let at = |share: f64| errors[(errors.len() as f64 * share) as usize] * 100.0;
            let asked = asked
                .iter()
                .map(f64::to_string)
                .collect::<Vec<_>>()
                .join("/");
            println!(
                "{name:<12}{asked:>10}{p:>6}{:>8}{:>11.2}%{:>9.1}%{ns:>10.2}",
                statistic.bytes_per_flow(),
                at(0.5),
                at(0.95),
            );
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut random = Random::from_state(7);
    for (name, make) in [
        ("uniform gaps", uniform as fn(&mut Random) -> Observations),
        ("Zipf(1) gaps", zipf),
        ("gaps of trains of 8", trains),
        ("log-normal", log_normal),
    ] {
        report(name, &make(&mut random), 128);
    }
    if let Some(path) = std::env::args().nth(1) {
        for (name, observations) in ["gaps", "inter-arrival times", "sizes"]
            .iter()
            .zip(capture(&path)?)
        {
            for at_least in [6, 100] {
                report(&format!("{name} of {path}"), &observations, at_least);
            }
        }
    }
    Ok(())
}
