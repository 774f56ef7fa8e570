//! ns per packet of the whole path in memory, without any reading of files or rings: frame of 64 B
//! parsed, key made and hashed, counted in the default table; and with the 99th percentile of the
//! interleaving gap. 2^16, 1 M and 10 M flows, uniform and Zipf(1).
//!
//! Frames are copied into a buffer that stays in the cache before each burst, as a NIC puts them
//! there; the copy is not in the time. Medians over rounds of the mean over bursts.
//!
//! `cargo run --release -p flowatch-engine --example bench_path [-- flows …]`

use engine::intake::Intake;
use flow::statistic::Selection;
use flow::{BURST, Batch, Meter, MeterOptions, RecordBatch, RecordSink};
use port::{Burst, Frame};
use std::time::{Duration, Instant};
use wire::{Decapsulate, LinkType};

const ROUNDS: usize = 5;
const FRAME: usize = 60;

struct Nowhere;

impl RecordSink for Nowhere {
    fn take(&mut self, batch: &mut RecordBatch) {
        batch.records.clear();
        batch.values.clear();
    }
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A UDP frame of flow `flow`.
fn frame(flow: u32) -> [u8; FRAME] {
    let mut state = u64::from(flow);
    let (addresses, ports) = (next(&mut state), next(&mut state) as u32);
    let mut frame = [0; FRAME];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&addresses.to_le_bytes());
    frame[34..38].copy_from_slice(&ports.to_le_bytes());
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

/// Flow numbers: uniform, or Zipf(1) over flows in random order.
fn stream(flows: usize, length: usize, zipf: bool) -> Vec<u32> {
    let mut state = 9;
    let mut below = |bound: usize| ((u128::from(next(&mut state)) * bound as u128) >> 64) as usize;
    if !zipf {
        return (0..length).map(|_| below(flows) as u32).collect();
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
            let wanted = below(1 << 52) as f64 / (1u64 << 52) as f64 * sum;
            let rank = cumulated
                .partition_point(|&upto| upto < wanted)
                .min(flows - 1);
            (rank as u64)
                .wrapping_mul(2_654_435_761)
                .rem_euclid(flows as u64) as u32
        })
        .collect()
}

/// One pass; the mean time of a packet in ns, bursts that the machine stalled left out.
fn pass(flows: &[u32], intake: &mut Intake, meter: &mut Meter) -> f64 {
    let mut frames = vec![[0u8; 64]; BURST];
    let mut batch = Batch::default();
    let mut spent = Duration::ZERO;
    let mut packets = 0;
    let mut number = 0i64;
    for burst in flows.chunks_exact(BURST) {
        for (place, &flow) in frames.iter_mut().zip(burst) {
            place[..FRAME].copy_from_slice(&frame(flow));
        }
        let list: Vec<Frame<'_>> = frames
            .iter()
            .map(|bytes| {
                number += 1;
                Frame {
                    bytes: &bytes[..FRAME],
                    time_ns: number * 67,
                    wire_length: 64,
                }
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
        if taken < Duration::from_micros(30) {
            spent += taken;
            packets += burst.len();
        }
    }
    spent.as_nanos() as f64 / packets as f64
}

fn main() {
    let chosen: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    println!(
        "{:>10} {:<8}{:>14}{:>22}",
        "flows", "traffic", "count", "count, gap p99"
    );
    for flows in [1 << 16, 1_000_000, 10_000_000] {
        if !chosen.is_empty() && !chosen.contains(&flows) {
            continue;
        }
        for zipf in [false, true] {
            let packets = stream(
                flows,
                if flows > 1_000_000 { 1 << 24 } else { 1 << 22 },
                zipf,
            );
            let mut figures = Vec::new();
            for statistics in ["count", "gap-percentile=99"] {
                let options = MeterOptions {
                    flows_max: flows + flows / 8,
                    seed: 3,
                    statistics: Selection::parse(statistics, flow::statistic::Estimator::LogLinear)
                        .expect("a known statistic"),
                    ..MeterOptions::default()
                };
                let mut intake = Intake::new(&options, Decapsulate::No);
                let mut meter = Meter::new(&options);
                pass(&packets, &mut intake, &mut meter);
                let mut rounds: Vec<f64> = (0..ROUNDS)
                    .map(|_| pass(&packets, &mut intake, &mut meter))
                    .collect();
                rounds.sort_by(f64::total_cmp);
                figures.push(format!("{:.2} ({:.2})", rounds[ROUNDS / 2], rounds[0]));
            }
            let traffic = if zipf { "Zipf(1)" } else { "uniform" };
            println!(
                "{flows:>10} {traffic:<8}{:>14}{:>22}",
                figures[0], figures[1]
            );
        }
    }
    println!("ns per packet, median of {ROUNDS} rounds (least)");
}
