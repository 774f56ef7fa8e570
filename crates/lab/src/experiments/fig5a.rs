//! FloWatcher-DPDK, figure 5a: the batch size.

use super::context::{
    Condition, Context, Cost, Estimate, VIRTUAL_CLOCK, mpps, mpps_of_cost, parameter,
    repetitions_parameter,
};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::abba;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use generator::FlowOrder;

const BATCHES: [usize; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Index of the paper's best batch size.
const PAPER_BEST: usize = 5;
const FLOWS: u32 = 1 << 16;

pub(super) struct Fig5a;

pub(super) struct Results {
    packets: u64,
    repetitions: usize,
    /// Counting flows, then counting packets.
    monitors: [ByBatch; 2],
}

/// The measurements of one monitor.
struct ByBatch {
    name: &'static str,
    /// By batch size.
    costs: Vec<Cost>,
    /// The rate at which drop ratios are compared: the highest that batches of 256 sustain.
    rate_pps: f64,
    /// Packets lost and offered, by batch size.
    lost: Vec<[u64; 2]>,
}

impl ByBatch {
    /// Measures costs, and drop ratios at the highest rate that batches of 256 sustain.
    fn measure(
        context: &mut Context<'_>,
        name: &'static str,
        conditions: &[Condition],
        packets: u64,
        repetitions: usize,
    ) -> Result<Self, TrialError> {
        context.progress(name);
        let costs = context.costs(conditions, packets, repetitions)?;
        let found = context.sustained(&conditions[PAPER_BEST], packets, Goal::Rfc2544)?;
        let rate_pps = if found.rate > 0.0 {
            found.rate
        } else {
            mpps_of_cost(costs[PAPER_BEST].ns()) * 1e6
        };
        let mut lost = vec![[0u64; 2]; conditions.len()];
        for repetition in 0..repetitions {
            for index in abba(conditions.len(), repetition) {
                let condition = &conditions[index];
                let link = VirtualOptions {
                    rate_pps,
                    packets,
                    warm_up: packets / 4,
                    truth: false,
                    ..condition.link.clone()
                };
                let trial = context.trial(&condition.wire, &link, &condition.monitor)?;
                lost[index][0] += trial.after_warm_up[0];
                lost[index][1] += trial.after_warm_up[1];
            }
        }
        Ok(Self {
            name,
            costs,
            rate_pps,
            lost,
        })
    }

    /// Index of the cheapest batch size.
    fn cheapest(&self) -> usize {
        let ns = |index: &usize| self.costs[*index].ns();
        (0..BATCHES.len())
            .min_by(|a, b| ns(a).total_cmp(&ns(b)))
            .unwrap_or(0)
    }
}

impl Experiment for Fig5a {
    type Results = Results;

    const NAME: &'static str = "fig5a";
    const TITLE: &'static str = "Batch size";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 5a";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(3, 10);
        let packets = context.pick(1 << 19, 1 << 24);
        let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
        let mut by_batch = |name: &'static str, monitor: Monitor| {
            let conditions = BATCHES.map(|batch| {
                Condition::new(batch.to_string(), &wire, monitor.clone()).over(VirtualOptions {
                    batch,
                    ..VirtualOptions::default()
                })
            });
            ByBatch::measure(context, name, &conditions, packets, repetitions)
        };
        Ok(Results {
            packets,
            repetitions,
            monitors: [
                by_batch("per-flow count", Monitor::counting(FLOWS as usize))?,
                by_batch("packet count", Monitor::packets())?,
            ],
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
        let costs = &results.monitors[0].costs;
        let cheapest = results.monitors[0].cheapest();
        let is_within = costs[PAPER_BEST].estimate.interval.low <= costs[cheapest].ns();
        let (smallest, paper) = (&costs[0], &costs[PAPER_BEST]);
        vec![Finding::new(
            "The drop ratio has its minimum at a batch of 256 packets; smaller and larger ones lose more.",
            [
                Part::compared(
                    "256 is the best batch size.",
                    is_within,
                    format!(
                        "The cheapest batch is {}{}.",
                        BATCHES[cheapest],
                        if is_within && cheapest != PAPER_BEST {
                            ", and its cost is within the interval of the cost at 256"
                        } else {
                            ""
                        }
                    ),
                ),
                Part::compared(
                    "Smaller batches lose more.",
                    smallest.ns() > paper.ns(),
                    format!(
                        "A packet costs {:.1} ns in batches of {} and {:.1} ns in batches of 256: in small batches \
                         prefetching has less time to run ahead.",
                        smallest.ns(),
                        BATCHES[0],
                        paper.ns()
                    ),
                ),
                Part::not_compared(
                    "Larger batches lose more.",
                    "Larger bursts are received at once and processed in batches of 256, from buffers that stay in the \
                     cache here. On a card their frames wait in memory meanwhile; this is not modelled.",
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let cheapest = results.monitors[0].cheapest();
        vec![Comparison::new(
            "best batch size",
            "256",
            BATCHES[cheapest].to_string(),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let [low, high, half] = Estimate::COLUMNS;
        let mut table = Table::new(
            "batch",
            "Cost of a packet in full bursts, and the drop ratio at the highest rate that bursts of 256 sustain",
            &[
                "monitor",
                "batch",
                "ns per packet",
                low,
                high,
                half,
                "load, Mpps",
                "drop ratio",
            ],
        );
        for monitor in &results.monitors {
            for (index, batch) in BATCHES.into_iter().enumerate() {
                let [dropped, offered] = monitor.lost[index];
                let mut row = vec![monitor.name.into(), batch.into()];
                row.extend(monitor.costs[index].estimate.cells());
                row.push(mpps(monitor.rate_pps).into());
                row.push((dropped as f64 / offered.max(1) as f64).into());
                table.row(row);
            }
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let x_axis = || Axis::log2("batch size (packets)");
        let mut costs = Figure::new(
            "cost",
            "Cost of a packet on one core, by the most packets that one poll receives; 2¹⁶ uniform flows.",
            x_axis(),
            Axis::linear("cost of a packet (ns)").from_zero(),
        );
        let mut drops = Figure::new(
            "drops",
            "Packet drop ratio at the highest rate that bursts of 256 sustain. Hollow: nothing was lost; the upper \
             bound is shown.",
            x_axis(),
            Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
        );
        for monitor in &results.monitors {
            let by_batch = || BATCHES.iter().map(|&batch| batch as f64);
            let of_costs = by_batch().zip(&monitor.costs);
            let of_drops = by_batch().zip(&monitor.lost);
            costs.series.push(Series::line(
                monitor.name,
                of_costs.map(|(x, cost)| cost.estimate.point(x)).collect(),
            ));
            drops.series.push(Series::line(
                monitor.name,
                of_drops
                    .map(|(x, [lost, offered])| Point::ratio(x, *lost, *offered))
                    .collect(),
            ));
        }
        vec![costs, drops]
    }
}
