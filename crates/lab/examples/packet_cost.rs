//! The cost of a packet over the course of a trial: the gate's cases on a wire that waits for the receiver,
//! so that every burst is full. Prints the median ns per packet in windows of equal size; the device's
//! receive function is not included.
//!
//! `cargo run --release -p flowatch-lab --example packet_cost`
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use flow::statistic::Estimator;
use generator::FlowOrder;
use hw::time::TickRate;
use lab::monitor::Monitor;
use lab::traffic::{order_name, small_frames, wire};
use lab::virtual_clock::{Frames, VirtualOptions, VirtualPort};

const FLOWS: u32 = 1 << 16;
const PACKETS: u64 = 1 << 23;
const WINDOWS: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ns_per_tick = 1e9 / TickRate::get().per_second();
    for list in ["count", "gap-percentile=99"] {
        for frames in [Frames::Hot, Frames::Cold] {
            for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
                let wire = wire(&small_frames(FLOWS, order, 1))?;
                let options = VirtualOptions {
                    rate_pps: f64::INFINITY,
                    packets: PACKETS,
                    frames,
                    trace: true,
                    ..VirtualOptions::default()
                };
                let monitor = Monitor::counting(FLOWS as usize)
                    .with_statistics(list, Estimator::LogLinear)?;
                let (ports, outcomes) = VirtualPort::queues(&wire, &options)?;
                monitor.run(ports, |_| {})?;
                let outcome = outcomes.take().remove(0);
                let windows: Vec<String> = outcome
                    .trace
                    .chunks(outcome.trace.len().div_ceil(WINDOWS))
                    .map(|polls| {
                        let mut costs: Vec<f64> = polls
                            .iter()
                            .map(|&(packets, ticks)| ticks as f64 / f64::from(packets))
                            .collect();
                        costs.sort_by(f64::total_cmp);
                        format!("{:5.1}", costs[costs.len() / 2] * ns_per_tick)
                    })
                    .collect();
                println!(
                    "{list:<18} {:<8} {frames:?}: {}",
                    order_name(order),
                    windows.join(" ")
                );
            }
        }
    }
    Ok(())
}
