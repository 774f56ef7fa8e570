//! The cost of analysing real traffic: a capture, with frames padded to the mean of DPDKStat's link and in
//! copies with other addresses, on a wire that waits for the receiver, so that every burst is full. Prints
//! ns per packet, from the minimum of each burst over identical passes, for the whole and for the last
//! eighth. The minimum excludes disturbances by the machine, so versions can be compared by turns.
//!
//! `cargo run --release -p flowatch-lab --example analysis_cost -- CAPTURE [STATISTICS [PASSES]]`
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use flow::statistic::Estimator;
use hw::time::TickRate;
use lab::experiments::full_analysis::{full_monitor, real_wire};
use lab::virtual_clock::{VirtualOptions, VirtualPort};
use std::num::NonZeroU32;
use std::path::PathBuf;

const PACKETS: usize = 1_000_000;

/// 40 Gbit/s of 716 B.
const RATE_PPS: f64 = 6.8e6;

/// The most concurrent flows.
const FLOWS: usize = 1 << 17;

const PASSES: NonZeroU32 = NonZeroU32::new(9).unwrap();

/// Packets and ticks of each burst.
type Bursts = Vec<(u16, u64)>;

/// Nanoseconds per packet.
fn mean_ns(bursts: &[(u16, u64)]) -> f64 {
    let packets: u64 = bursts.iter().map(|&(packets, _)| u64::from(packets)).sum();
    let ticks: u64 = bursts.iter().map(|&(_, ticks)| ticks).sum();
    TickRate::get().to_ns(ticks) as f64 / packets as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let capture = arguments.next().ok_or("give a capture")?;
    let statistics = arguments.next().unwrap_or_else(|| "full".into());
    let statistics = statistics.to_str().ok_or("statistics must be text")?;
    let passes: NonZeroU32 = match arguments.next() {
        Some(passes) => passes.to_str().ok_or("passes must be a number")?.parse()?,
        None => PASSES,
    };
    let wire = real_wire(&PathBuf::from(capture), true, PACKETS)?;
    let link = VirtualOptions {
        rate_pps: f64::INFINITY,
        timestamp_pps: RATE_PPS,
        packets: PACKETS as u64,
        reports_hash: false,
        truth: false,
        trace: true,
        ..VirtualOptions::default()
    };
    let monitor = full_monitor(FLOWS)?.with_statistics(statistics, Estimator::LogLinear)?;
    let mut least = Bursts::new();
    for _ in 0..passes.get() {
        let (ports, outcomes) = VirtualPort::queues(&wire, &link)?;
        monitor.run(ports, |_| {})?;
        let bursts: Bursts = outcomes.take().remove(0).trace;
        if least.is_empty() {
            least = bursts;
        } else {
            for ((_, least), (_, ticks)) in least.iter_mut().zip(bursts) {
                *least = ticks.min(*least);
            }
        }
    }
    let last_eighth = &least[least.len() * 7 / 8..];
    println!(
        "{statistics}: {:.1} ns per packet, {:.1} in the last eighth",
        mean_ns(&least),
        mean_ns(last_eighth)
    );
    Ok(())
}
