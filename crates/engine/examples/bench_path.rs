//! ns per packet of the whole path in memory, without any reading of files or rings: frame of 64 B
//! parsed, key made and hashed, counted in the default table; and with the 99th percentile of the
//! interleaving gap (or, told `statistics`, with every statistic). 2^16, 1 M and 10 M flows, uniform
//! and Zipf(1). Told `flood`, it measures one-packet flows past `flows_max`, each of which makes an
//! older one leave, beside as many packets of flows that stay.
//!
//! Frames are copied into a buffer that stays in the cache before each burst, as a NIC puts them
//! there; the copy is not in the time. A burst is of 256 packets unless told otherwise. Medians over
//! rounds of the mean over bursts.
//!
//! `cargo run --release -p flowatch-engine --example bench_path [-- statistics|flood] [burst=N]
//! [flows …]`
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use engine::intake::Intake;
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

/// A burst that takes longer was stalled by the machine.
const STALL: Duration = Duration::from_micros(100);

struct Nowhere;

impl RecordSink for Nowhere {
    // They leave the packet path as they are.
    const COMPLETES: bool = true;

    fn take(&mut self, batch: &mut RecordBatch) {
        batch.clear();
    }
}

/// A UDP frame of flow `flow`.
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

/// One pass in bursts of so many; the mean time of a packet in ns, bursts that the machine stalled
/// left out.
fn pass(
    flows: &[u32],
    burst: usize,
    number: &mut i64,
    intake: &mut Intake,
    meter: &mut Meter,
) -> f64 {
    let mut frames = vec![[0u8; 64]; burst];
    let mut batch = Batch::default();
    let mut spent = Duration::ZERO;
    let mut packets = 0;
    for burst in flows.chunks_exact(burst) {
        for (place, &flow) in frames.iter_mut().zip(burst) {
            place[..FRAME].copy_from_slice(&frame(flow));
        }
        let list: Vec<Frame<'_>> = frames
            .iter()
            .map(|bytes| {
                *number += 1;
                Frame::new(&bytes[..FRAME], *number * 67, 64)
            })
            .collect();
        let begun = Instant::now();
        batch.clear();
        intake.read(
            &Burst {
                link: LinkType::Ethernet,
                frames: &list,
            },
            &mut batch,
        );
        meter.process(&batch, &mut Nowhere);
        let taken = begun.elapsed();
        if taken < STALL {
            spent += taken;
            packets += burst.len();
        }
    }
    spent.as_nanos() as f64 / packets as f64
}

/// What is metered, as `--statistics` and `--estimator` say it.
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

/// A flood of one-packet flows past the bound of the table, and the same number of packets of
/// 2^16 flows that stay, in turns.
fn flood() {
    const FLOWS: usize = 1 << 16;
    const PACKETS: usize = 1 << 22;
    let steady = flow_numbers(FLOWS, PACKETS, false);
    println!("{FLOWS} flows at most: ns per packet, median of {ROUNDS} rounds");
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
                (Intake::new(&options, Decapsulate::No), meter, 0)
            })
            .collect();
        for round in 0..=ROUNDS as u32 {
            let first = round * PACKETS as u32;
            let unique: Vec<u32> = (first..first + PACKETS as u32).collect();
            for (kind, flows) in [&steady, &unique].into_iter().enumerate() {
                let (intake, meter, number) = &mut parts[kind];
                let time = pass(flows, BURST, number, intake, meter);
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
                let mut intake = Intake::new(&options, Decapsulate::No);
                let mut meter = Meter::new(&options).expect("memory");
                let mut number = 0;
                pass(&packets, burst, &mut number, &mut intake, &mut meter);
                let rounds: Vec<f64> = (0..ROUNDS)
                    .map(|_| pass(&packets, burst, &mut number, &mut intake, &mut meter))
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
