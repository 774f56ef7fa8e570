//! FloWatcher-DPDK, figure 6b: the cost of reading headers.

use super::context::{
    Condition, Context, Cost, VIRTUAL_CLOCK, cost_table, parameter, repetitions_parameter,
};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Series};
use crate::statistics::paired_ratio;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::{Frames, VirtualOptions};
use flow::FlowDefinition;
use generator::FlowOrder;
use hw::time::TickRate;

const FLOWS: u32 = 1 << 16;

/// The paper's bound of the difference between 5-tuple and RSS hash, in cycles per packet.
const PAPER_CYCLES: f64 = 100.0;

/// Indices of the accesses that the paper compares.
const BY_RSS: usize = 1;
const BY_TUPLE: usize = 3;

pub(super) struct Fig6b;

pub(super) struct Results {
    packets: u64,
    repetitions: usize,
    /// Costs by access, with frames in the cache and in memory.
    hot: Vec<Cost>,
    cold: Vec<Cost>,
}

fn accesses() -> [(&'static str, Monitor); 4] {
    let counting = || Monitor::counting(FLOWS as usize);
    [
        ("none: packets counted", Monitor::packets()),
        (
            "none: device's RSS hash",
            counting().with_flow(FlowDefinition::Rss),
        ),
        (
            "IP: both addresses",
            counting().with_flow(FlowDefinition::SourceDestination),
        ),
        ("5-tuple", counting()),
    ]
}

/// The additional cost of the 5-tuple over the RSS hash, in ns.
fn extra_ns(costs: &[Cost]) -> f64 {
    costs[BY_TUPLE].ns() - costs[BY_RSS].ns()
}

impl Experiment for Fig6b {
    type Results = Results;

    const NAME: &'static str = "fig6b";
    const TITLE: &'static str = "Header access: by RSS hash, IP, 5-tuple";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 6b";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(3, 10);
        let packets = context.pick(1 << 19, 1 << 24);
        let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
        let mut measure = |frames: Frames| {
            let conditions = accesses().map(|(name, monitor)| {
                Condition::new(name, &wire, monitor).over(VirtualOptions {
                    frames,
                    ..VirtualOptions::default()
                })
            });
            context.costs(&conditions, packets, repetitions)
        };
        Ok(Results {
            packets,
            repetitions,
            hot: measure(Frames::Hot)?,
            cold: measure(Frames::Cold)?,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("packets per trial", results.packets),
            repetitions_parameter(results.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let (extra, extra_cold) = (extra_ns(&results.hot), extra_ns(&results.cold));
        let ticks_per_ns = TickRate::get().per_second() / 1e9;
        vec![Finding::new(
            "Reading the 5-tuple instead of the device's hash costs at most 100 cycles per packet, and drops four \
             times as much.",
            [
                Part::compared(
                    "It costs at most 100 cycles per packet.",
                    extra.max(extra_cold) * ticks_per_ns <= PAPER_CYCLES,
                    format!(
                        "The 5-tuple costs {extra:+.1} ns ({:+.0} ticks) against the device's hash with frames in \
                         the cache, and {extra_cold:+.1} ns ({:+.0} ticks) with frames in memory, where prefetching \
                         hides most of the cache misses.",
                        extra * ticks_per_ns,
                        extra_cold * ticks_per_ns
                    ),
                ),
                Part::not_compared(
                    "It drops four times as much.",
                    "The paper compares drop ratios; the cost is measured here.",
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let ratio = |costs: &[Cost]| paired_ratio(&costs[BY_TUPLE].samples, &costs[BY_RSS].samples);
        let (hot, cold) = (ratio(&results.hot), ratio(&results.cold));
        vec![Comparison::new(
            "5-tuple against RSS hash",
            "drop ratio about 4 times, up to 100 more cycles per packet",
            format!(
                "{:+.1} ns in the cache ({:.2} times, {:.2} to {:.2}), {:+.1} ns from memory ({:.2} times)",
                extra_ns(&results.hot),
                hot.value,
                hot.low,
                hot.high,
                extra_ns(&results.cold),
                cold.value
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let table = |name: &str, place: &str, costs: &[Cost]| {
            let caption = format!("Cost by header access, frames in {place}");
            cost_table(name, &caption, "header access", costs)
        };
        vec![
            table("hot", "the cache", &results.hot),
            table("cold", "memory", &results.cold),
        ]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let bars = |label: &str, costs: &[Cost]| {
            let points = costs
                .iter()
                .enumerate()
                .map(|(index, cost)| cost.estimate.point(index as f64));
            Series::bars(label, points.collect())
        };
        vec![
            Figure::new(
                "cost",
                "Cost of a packet on one core by the headers that are read; 2¹⁶ uniform flows counted in the exact \
                 table.",
                Axis::names(
                    "headers read",
                    results.hot.iter().map(|cost| cost.name.as_str()),
                ),
                Axis::linear("cost of a packet (ns)").from_zero(),
            )
            .with(bars("frames in the cache", &results.hot))
            .with(bars("frames in memory", &results.cold)),
        ]
    }
}
