//! Nanoseconds per packet of the whole packet path in memory, without files or receive rings: parse a
//! frame of 64 bytes, build and hash its key, and count it in the default table, with and without the
//! 99th percentile of the interleaving gap (or, with `statistics`, every statistic). 2^16, 1 M and 10 M
//! flows, uniform and Zipf(1). With `flood`, it compares one-packet flows beyond `flows_max`, each of
//! which evicts an older flow, with packets of flows that stay in the table.
//!
//! Before each burst, frames are copied to a buffer that stays in the cache, where a NIC would put them.
//! The copy is not measured. A burst has 256 packets by default. The results are medians over the rounds
//! of the mean over the bursts.
//!
//! `cargo run --release -p flowatch-engine --example bench_path [-- statistics|flood] [burst=N]
//! [flows …]`
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use engine::parser::PacketParser;
use flow::statistic::{Estimator, Selection};
use flow::{BURST, Batch, Meter, MeterOptions, RecordBatch, RecordSink};
use hw::random::Random;
use port::{Burst, Frame};
use std::time::{Duration, Instant};
use traffic::{flow_numbers, median};
use wire::{Decapsulate, LinkType};

mod traffic;

const ROUNDS: usize = 5;
const FRAME: usize = 60;

/// A burst that takes longer was interrupted by the machine.
const STALL_MIN: Duration = Duration::from_micros(100);

struct NullSink;

impl RecordSink for NullSink {
    // As in a real run, records are not completed in the packet path.
    const COMPLETES: bool = true;

    fn take(&mut self, batch: &mut RecordBatch) {
        batch.clear();
    }
}

/// Returns a UDP frame of flow number `flow`.
fn frame(flow: u32) -> [u8; FRAME] {
    let mut random = Random::from_state(u64::from(flow));
    let (addresses, ports) = (random.bits(), random.bits() as u32);
    let mut frame = [0; FRAME];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&addresses.to_le_bytes());
    frame[34..38].copy_from_slice(&ports.to_le_bytes());
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

/// Processes `flows` in bursts of `burst` packets. Returns the mean time per packet in nanoseconds,
/// without interrupted bursts.
fn pass(
    flows: &[u32],
    burst: usize,
    number: &mut i64,
    parser: &mut PacketParser,
    meter: &mut Meter,
) -> f64 {
    let mut frames = vec![[0u8; 64]; burst];
    let mut batch = Batch::default();
    let mut total = Duration::ZERO;
    let mut packets = 0;
    for burst in flows.chunks_exact(burst) {
        for (bytes, &flow) in frames.iter_mut().zip(burst) {
            bytes[..FRAME].copy_from_slice(&frame(flow));
        }
        let list: Vec<Frame<'_>> = frames
            .iter()
            .map(|bytes| {
                *number += 1;
                Frame::new(&bytes[..FRAME], *number * 67, 64)
            })
            .collect();
        let start = Instant::now();
        batch.clear();
        parser.parse(
            &Burst {
                link: LinkType::Ethernet,
                frames: &list,
            },
            &mut batch,
        );
        meter.process(&batch, &mut NullSink);
        let elapsed = start.elapsed();
        if elapsed < STALL_MIN {
            total += elapsed;
            packets += burst.len();
        }
    }
    total.as_nanos() as f64 / packets as f64
}

/// The statistics to measure, as values of `--statistics` and `--estimator`.
const STATISTICS: [(&str, Estimator); 12] = [
    ("count", Estimator::LogLinear),
    ("gap-percentile=99", Estimator::LogLinear),
    ("gap-percentile=99", Estimator::PSquare),
    ("gap", Estimator::LogLinear),
    ("gap,gap-percentile=99", Estimator::LogLinear),
    ("gap,gap-percentile=99", Estimator::PSquare),
    ("size", Estimator::LogLinear),
    ("size-percentile=99", Estimator::LogLinear),
    ("iat", Estimator::LogLinear),
    ("iat-percentile=50/95/99", Estimator::LogLinear),
    ("iat-percentile=50/95/99", Estimator::PSquare),
    ("moments", Estimator::LogLinear),
];

/// Compares a flood of one-packet flows beyond the capacity of the table with the same number of packets
/// of 2^16 flows that stay in it.
fn flood() {
    const FLOWS: usize = 1 << 16;
    const PACKETS: usize = 1 << 22;
    let steady = flow_numbers(FLOWS, PACKETS, false);
    println!("at most {FLOWS} flows: ns per packet, median of {ROUNDS} rounds");
    for list in ["count", "gap-percentile=99"] {
        let mut rounds = [const { Vec::new() }; 2];
        let options = MeterOptions {
            flows_max: FLOWS,
            seed: 3,
            statistics: Selection::parse(list, Estimator::LogLinear).expect("a known statistic"),
            ..MeterOptions::default()
        };
        let mut parts: Vec<_> = (0..2)
            .map(|_| {
                let meter = Meter::new(&options).expect("memory");
                (PacketParser::new(&options, Decapsulate::No), meter, 0)
            })
            .collect();
        for round in 0..=ROUNDS as u32 {
            let first = round * PACKETS as u32;
            let unique: Vec<u32> = (first..first + PACKETS as u32).collect();
            for (kind, flows) in [&steady, &unique].into_iter().enumerate() {
                let (parser, meter, number) = &mut parts[kind];
                let time = pass(flows, BURST, number, parser, meter);
                if round > 0 {
                    rounds[kind].push(time);
                }
            }
        }
        let [steady, flood] = rounds.map(|times| median(&times));
        println!(
            "  {list:<26} flows that stay {steady:.1}, flood {flood:.1}, ratio {:.2}",
            flood / steady
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "flood") {
        return flood();
    }
    let every = arguments.iter().any(|argument| argument == "statistics");
    let chosen: Vec<usize> = arguments
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let burst = arguments
        .iter()
        .find_map(|text| text.strip_prefix("burst="))
        .map_or(BURST, |text| text.parse().expect("packets in a burst"))
        .clamp(1, BURST);
    let statistics = if every {
        &STATISTICS[..]
    } else {
        &STATISTICS[..2]
    };
    let sizes = match (&chosen[..], every) {
        ([], true) => &[1 << 16, 1_000_000],
        ([], false) => &[1 << 16, 1_000_000, 10_000_000][..],
        (chosen, _) => chosen,
    };
    println!(
        "frame of 64 B parsed, hashed and counted, {burst} at a time: ns per packet, \
         median of {ROUNDS} rounds (least)"
    );
    for &flows in sizes {
        for zipf in [false, true] {
            let traffic = if zipf { "Zipf(1)" } else { "uniform" };
            println!("\n{flows} flows, {traffic}");
            let packets = flow_numbers(
                flows,
                if flows > 1_000_000 { 1 << 24 } else { 1 << 22 },
                zipf,
            );
            for &(list, estimator) in statistics {
                let options = MeterOptions {
                    flows_max: flows + flows / 8,
                    seed: 3,
                    statistics: Selection::parse(list, estimator).expect("a known statistic"),
                    ..MeterOptions::default()
                };
                let mut parser = PacketParser::new(&options, Decapsulate::No);
                let mut meter = Meter::new(&options).expect("memory");
                let mut number = 0;
                pass(&packets, burst, &mut number, &mut parser, &mut meter);
                let rounds: Vec<f64> = (0..ROUNDS)
                    .map(|_| pass(&packets, burst, &mut number, &mut parser, &mut meter))
                    .collect();
                let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
                let estimator = if list.contains("percentile") {
                    estimator.name()
                } else {
                    ""
                };
                println!(
                    "  {list:<26}{estimator:<12}{:>8.2} ({least:.2})",
                    median(&rounds)
                );
            }
        }
    }
}
