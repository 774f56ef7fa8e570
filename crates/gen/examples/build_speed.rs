//! Measures the time per generated frame: select a flow, write the frame into a slot, and submit it to a
//! null sink.
//!
//! ```text
//! cargo run --release -p flowatch-gen --example build_speed [packets] [case]
//! ```
//! Prints nanoseconds per packet, the best of seven rounds. With the number of a case, only this case
//! runs, once: for `valgrind --tool=callgrind`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement")]

use generator::{FlowOrder, FrameSizes, RandomFields, Source, Traffic, TrafficOptions};
use port::{NullSink, Transmit};
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let packets: u64 = arguments
        .next()
        .map_or(4_000_000, |text| text.parse().unwrap());
    let only: Option<usize> = arguments.next().map(|text| text.parse().unwrap());
    for (number, (name, options)) in cases().into_iter().enumerate() {
        if only.is_none_or(|only| only == number) {
            let rounds = if only.is_some() { 1 } else { 7 };
            let best = best_time(&options, packets, rounds);
            println!(
                "{number:>2}  {name:<32}{best:6.1} ns  {:6.1} Mpps",
                1e3 / best
            );
        }
    }
}

/// Returns the names and options of all cases.
fn cases() -> [(&'static str, TrafficOptions); 11] {
    let base = TrafficOptions::default;
    let payload = RandomFields {
        payload: true,
        ..RandomFields::default()
    };
    [
        ("1 flow", TrafficOptions { flows: 1, ..base() }),
        ("2^16 uniform", base()),
        (
            "2^16 round-robin",
            TrafficOptions {
                order: FlowOrder::RoundRobin,
                ..base()
            },
        ),
        (
            "2^16 Zipf(1)",
            TrafficOptions {
                order: FlowOrder::Zipf(1.0),
                ..base()
            },
        ),
        (
            "2^16 rate-inverse",
            TrafficOptions {
                order: FlowOrder::RateInverse,
                ..base()
            },
        ),
        (
            "2^20 uniform",
            TrafficOptions {
                flows: 1 << 20,
                ..base()
            },
        ),
        (
            "2^20 Zipf(1)",
            TrafficOptions {
                flows: 1 << 20,
                order: FlowOrder::Zipf(1.0),
                ..base()
            },
        ),
        (
            "2^16 Zipf(1), sequence",
            TrafficOptions {
                order: FlowOrder::Zipf(1.0),
                sequence: true,
                ..base()
            },
        ),
        (
            "2^16 Zipf(1), timestamps",
            TrafficOptions {
                order: FlowOrder::Zipf(1.0),
                timestamps: true,
                ..base()
            },
        ),
        (
            "2^16 uniform, imix",
            TrafficOptions {
                sizes: FrameSizes::imix(),
                ..base()
            },
        ),
        (
            "2^16 uniform, random payload",
            TrafficOptions {
                random: payload,
                ..base()
            },
        ),
    ]
}

/// Returns the nanoseconds per packet of the best round.
fn best_time(options: &TrafficOptions, packets: u64, rounds: usize) -> f64 {
    let mut traffic = Traffic::new(options).unwrap();
    let mut sink = NullSink::new();
    let mut flows = [0; 256];
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..packets / 256 {
            let slots = sink.reserve(256, traffic.slot_bytes()).unwrap();
            let filled = traffic.fill(slots, &mut flows).unwrap();
            sink.submit(filled.frames).unwrap();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / packets as f64);
    }
    best
}
