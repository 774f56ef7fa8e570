//! FloWatcher-DPDK, figure 7c: the number of flows, by the statistics of each.

use super::context::{
    Condition, Context, Cost, Estimate, VIRTUAL_CLOCK, mpps, mpps_of_cost, parameter,
};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{Interval, loss_at_most, paired_ratio};
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::TableKind;
use flow::statistic::Estimator;
use generator::FlowOrder;

/// Name, `--statistics` and estimator of the statistics per flow.
const STATISTICS: [(&str, &str, Estimator); 4] = [
    ("count", "count", Estimator::LogLinear),
    ("gap moments", "gap", Estimator::LogLinear),
    (
        "gap p99, histogram",
        "gap-percentile=99",
        Estimator::LogLinear,
    ),
    ("gap p99, P-square", "gap-percentile=99", Estimator::PSquare),
];

/// Indices of the statistics that are compared.
const COUNT: usize = 0;
const HISTOGRAM: usize = 2;
const P_SQUARE: usize = 3;

/// The paper's bound of the drop ratio.
const PAPER_DROP_RATIO: f64 = 1e-5;

pub(super) struct Fig7c;

pub(super) struct Results {
    repetitions: usize,
    is_full: bool,
    /// By number of flows.
    flows: Vec<ByFlows>,
}

struct ByFlows {
    exponent: u32,
    /// By statistics.
    costs: Vec<Cost>,
    /// Packets lost and offered at 14.88 Mpps, by statistics.
    drops: Vec<(u64, u64)>,
}

impl ByFlows {
    fn measure(
        context: &mut Context<'_>,
        exponent: u32,
        repetitions: usize,
    ) -> Result<Self, TrialError> {
        let flows = 1u32 << exponent;
        context.progress(&format!("{flows} flows"));
        let wire = wire(&small_frames(flows, FlowOrder::Uniform, context.seed()))?;
        let packets = u64::from(flows)
            .saturating_mul(4)
            .max(context.pick(1 << 19, 1 << 23));
        let conditions = STATISTICS
            .iter()
            .map(|(name, list, estimator)| {
                let monitor = Monitor::counting(flows as usize + flows as usize / 8)
                    .with_statistics(list, *estimator)
                    .map_err(TrialError::missing)?
                    .with_table(TableKind::Bucket);
                Ok(Condition::new(*name, &wire, monitor))
            })
            .collect::<Result<Vec<_>, TrialError>>()?;
        // Many flows need long trials, which differ little from each other.
        let repetitions = if exponent > 16 && !context.is_full() {
            1
        } else {
            repetitions
        };
        let costs = context.costs(&conditions, packets, repetitions)?;
        let mut drops = Vec::new();
        for condition in &conditions {
            let link = VirtualOptions {
                packets,
                ..condition.link.clone()
            };
            let trial = context.trial(&wire, &link, &condition.monitor)?;
            drops.push((trial.ledger.lost(), trial.ledger.offered));
        }
        Ok(Self {
            exponent,
            costs,
            drops,
        })
    }

    fn count(&self) -> f64 {
        f64::from(1u32 << self.exponent)
    }

    /// The highest drop ratio of the statistics.
    fn worst_drop_ratio(&self) -> f64 {
        let ratios = self.drops.iter();
        ratios
            .map(|(lost, offered)| *lost as f64 / (*offered).max(1) as f64)
            .fold(0.0, f64::max)
    }
}

impl Results {
    /// The ratio of two statistics' costs with 2^16 flows.
    fn ratio(&self, a: usize, b: usize) -> Interval {
        let flows = self.flows.iter().find(|flows| flows.exponent == 16);
        let samples = |index: usize| flows.map_or(&[][..], |flows| &flows.costs[index].samples);
        paired_ratio(samples(a), samples(b))
    }

    /// The number of flows with the highest drop ratio.
    fn worst(&self) -> &ByFlows {
        let first = &self.flows[0];
        self.flows.iter().fold(first, |worst, flows| {
            if flows.worst_drop_ratio() > worst.worst_drop_ratio() {
                flows
            } else {
                worst
            }
        })
    }
}

impl Experiment for Fig7c {
    type Results = Results;

    const NAME: &'static str = "fig7c";
    const TITLE: &'static str = "Number of flows against count, gap and percentile";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 7c";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let exponents: Vec<u32> = context.pick(vec![8, 12, 16, 18, 20], (8..=20).collect());
        let repetitions = context.repetitions(2, 10);
        let mut flows = Vec::new();
        for exponent in exponents {
            flows.push(ByFlows::measure(context, exponent, repetitions)?);
        }
        Ok(Results {
            repetitions,
            is_full: context.is_full(),
            flows,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        let above = if results.is_full {
            ""
        } else {
            "; one above 2^16 flows"
        };
        let repetitions = format!("{}, in ABBA order{above}", results.repetitions);
        vec![parameter("repetitions", repetitions)]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let worst = results.worst();
        let ratio = worst.worst_drop_ratio();
        let first = results.flows[0].worst_drop_ratio();
        let last = results.flows[results.flows.len() - 1].worst_drop_ratio();
        let worst_text = if ratio > 0.0 {
            format!(
                "The highest drop ratio at 14.88 Mpps is {ratio:.1e}, with 2^{} flows, including the start of the \
                 trial, when every flow is new.",
                worst.exponent
            )
        } else {
            "Nothing is lost at 14.88 Mpps up to 2²⁰ flows.".to_owned()
        };
        vec![Finding::new(
            "The drop ratio grows with the number of flows, and keeping a percentile costs about ten times that of \
             counting; it stays below 10⁻⁵ until the table is as full as it has buckets.",
            [
                Part::new(
                    "The drop ratio grows with the number of flows.",
                    (ratio > 0.0).then_some(last > first),
                    format!(
                        "{worst_text} Costs grow with the flows once these outgrow the caches."
                    ),
                ),
                Part::not_compared(
                    "A percentile has about ten times the drop ratio of counting.",
                    format!(
                        "Costs are compared here, not drop ratios: a percentile by P-square costs {:.2} times a \
                         count, by the histogram {:.2} times.",
                        results.ratio(P_SQUARE, COUNT).value,
                        results.ratio(HISTOGRAM, COUNT).value
                    ),
                ),
                Part::compared(
                    "The drop ratio stays below 10⁻⁵.",
                    ratio < PAPER_DROP_RATIO,
                    worst_text,
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let over_histogram = results.ratio(P_SQUARE, HISTOGRAM);
        vec![
            Comparison::new(
                "99th percentile by P-square against count, 2¹⁶ flows",
                "drop ratio about 10 times",
                format!("cost {:.2} times", results.ratio(P_SQUARE, COUNT).value),
            ),
            Comparison::new(
                "P-square against flowatch's histogram, 2¹⁶ flows",
                "(P-square only)",
                format!(
                    "cost {:.2} times ({:.2} to {:.2})",
                    over_histogram.value, over_histogram.low, over_histogram.high
                ),
            ),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let [low, high, half] = Estimate::COLUMNS;
        let mut table = Table::new(
            "flows",
            "Cost of a packet, and the drop ratio at 14.88 Mpps",
            &[
                "flows",
                "statistics of each",
                "ns per packet",
                low,
                high,
                half,
                "Mpps per core, with receive charge",
                "offered at 14.88 Mpps",
                "lost",
                "drop ratio at most (95 %)",
            ],
        );
        for flows in &results.flows {
            for (cost, &(lost, offered)) in flows.costs.iter().zip(&flows.drops) {
                let mut row = vec![(1u32 << flows.exponent).into(), cost.name.as_str().into()];
                row.extend(cost.estimate.cells());
                row.push(mpps_of_cost(cost.ns()).into());
                row.push(offered.into());
                row.push(lost.into());
                row.push(loss_at_most(lost, offered).into());
                table.row(row);
            }
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut costs = Figure::new(
            "cost",
            "Cost of a packet on one core by the number of flows, uniform, and by the statistics of each.",
            Axis::log2("flows"),
            Axis::linear("cost of a packet (ns)").from_zero(),
        )
        .horizontal(
            "10 GbE, 64 B: 67.2 ns",
            1e3 / mpps(VirtualOptions::LINE_10G),
        );
        let mut drops = Figure::new(
            "drops",
            "Packet drop ratio at 14.88 Mpps, including the start of the trial, when every flow is new. Hollow: \
             nothing was lost; the upper bound is shown.",
            Axis::log2("flows"),
            Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
        );
        for (index, (name, ..)) in STATISTICS.iter().enumerate() {
            let cost = |flows: &ByFlows| flows.costs[index].estimate.point(flows.count());
            let points = results.flows.iter().map(cost);
            costs.series.push(Series::line(name, points.collect()));
            let drop = |flows: &ByFlows| {
                let (lost, offered) = flows.drops[index];
                Point::ratio(flows.count(), lost, offered)
            };
            let points = results.flows.iter().map(drop);
            drops.series.push(Series::line(name, points.collect()));
        }
        vec![costs, drops]
    }
}
