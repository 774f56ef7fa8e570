//! FloWatcher-DPDK, figure 7c: the number of flows, against what is kept of each.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, mpps_of_cost, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{loss_at_most, paired_ratio};
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::TableKind;
use flow::statistic::Estimator;
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig7c",
    title: "Number of flows against count, gap and percentile",
    source: "FloWatcher-DPDK, figure 7c",
    run,
};

const KEPT: [(&str, &str, Estimator); 4] = [
    ("count", "count", Estimator::LogLinear),
    ("gap moments", "gap", Estimator::LogLinear),
    (
        "gap p99, histogram",
        "gap-percentile=99",
        Estimator::LogLinear,
    ),
    ("gap p99, P-square", "gap-percentile=99", Estimator::PSquare),
];

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, VIRTUAL_CLOCK);
    let exponents: Vec<u32> = context.pick(vec![8, 12, 16, 18, 20], (8..=20).collect());
    let repetitions = context.repetitions(2, 10);
    let mut table = Table::new(
        "flows",
        "Cost of a packet, and the drop ratio at 14.88 Mpps",
        &[
            "flows",
            "kept of each",
            "ns a packet",
            "95 % from",
            "to",
            "± by t",
            "Mpps of a core, receive charge in",
            "offered at 14.88 Mpps",
            "lost",
            "drop ratio at most (95 %)",
        ],
    );
    let mut series: Vec<Series> = KEPT
        .iter()
        .map(|(name, ..)| Series::line(name, Vec::new()))
        .collect();
    let mut drops = series.clone();
    let mut at_2_16 = Vec::new();
    let mut worst = (0.0, 0);
    for exponent in exponents {
        let flows = 1u32 << exponent;
        context.say(&format!("{flows} flows"));
        let wire = wire(&small_frames(flows, FlowOrder::Uniform, context.seed()))?;
        let packets = u64::from(flows)
            .saturating_mul(4)
            .max(context.pick(1 << 19, 1 << 23));
        let conditions = KEPT
            .iter()
            .map(|(name, list, estimator)| {
                let monitor = Monitor::counting(flows as usize + flows as usize / 8)
                    .with_statistics(list, *estimator)
                    .map_err(TrialError::missing)?
                    .with_table(TableKind::Bucket);
                Ok(Condition::new(*name, &wire, monitor))
            })
            .collect::<Result<Vec<_>, TrialError>>()?;
        // Many flows take many packets; one trial of so many differs little from the next.
        let repetitions = if exponent > 16 && !context.is_full() {
            1
        } else {
            repetitions
        };
        let costs = context.costs(&conditions, packets, repetitions)?;
        for (place, condition) in conditions.iter().enumerate() {
            let mean = context.mean(&costs[place]);
            series[place].points.push(Point::of(f64::from(flows), mean));
            let link = VirtualOptions {
                packets,
                ..condition.link.clone()
            };
            let trial = context.trial(&wire, &link, &condition.monitor)?;
            let (lost, offered) = (trial.ledger.lost(), trial.ledger.offered);
            drops[place]
                .points
                .push(Point::ratio(f64::from(flows), lost, offered));
            let ratio = lost as f64 / offered.max(1) as f64;
            if ratio > worst.0 {
                worst = (ratio, exponent);
            }
            table.row(vec![
                flows.into(),
                condition.name.as_str().into(),
                mean.value.into(),
                mean.low.into(),
                mean.high.into(),
                context.half_by_t(&costs[place]).into(),
                mpps_of_cost(mean.value).into(),
                offered.into(),
                lost.into(),
                loss_at_most(lost, offered).into(),
            ]);
        }
        if exponent == 16 {
            at_2_16 = costs;
        }
    }
    let mut figure = Figure::new(
        "cost",
        "What a packet costs one core by the number of flows, uniform, and by what is kept of each.",
        Axis::log2("flows"),
        Axis::linear("cost of a packet (ns)").from_zero(),
    )
    .level("10 GbE, 64 B: 67.2 ns", 1e3 / mpps(VirtualOptions::LINE_10G));
    figure.series = series;
    outcome.figures.push(figure);
    let mut figure = Figure::new(
        "drops",
        "Packet drop ratio at 14.88 Mpps, the beginning of the trial included, when every flow is new. Hollow: \
         nothing was lost, the bound that this sets.",
        Axis::log2("flows"),
        Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
    );
    figure.series = drops;
    outcome.figures.push(figure);
    outcome.tables.push(table);
    let over_count = paired_ratio(&at_2_16[3], &at_2_16[0]);
    let over_histogram = paired_ratio(&at_2_16[3], &at_2_16[2]);
    outcome.comparisons.push(Comparison {
        what: "99th percentile by P-square against count, 2¹⁶ flows".into(),
        paper: "drop ratio about 10 times".into(),
        here: format!("cost {:.2} times", over_count.value),
    });
    outcome.comparisons.push(Comparison {
        what: "P-square against the histogram of ours, 2¹⁶ flows".into(),
        paper: "(P-square only)".into(),
        here: format!(
            "cost {:.2} times ({:.2} to {:.2})",
            over_histogram.value, over_histogram.low, over_histogram.high
        ),
    });
    outcome.findings.push(Finding {
        paper: "The drop ratio grows with the number of flows, and keeping a percentile costs about ten times that of \
                counting; it stays below 10⁻⁵ until the table is as full as it has buckets."
            .into(),
        holds: if worst.0 < 1e-5 { Holds::Partly } else { Holds::No },
        because: format!(
            "Costs grow with the flows as said, once they outgrow the caches. {} A percentile by P-square costs {:.2} \
             times a count here, by the histogram {:.2} times.",
            if worst.0 > 0.0 {
                format!(
                    "The worst drop ratio at 14.88 Mpps is {:.1e}, with 2^{} flows, the beginning in it, when every \
                     flow is new.",
                    worst.0, worst.1
                )
            } else {
                "Nothing is lost at 14.88 Mpps up to 2²⁰ flows, so drop ratios cannot grow.".to_owned()
            },
            over_count.value,
            paired_ratio(&at_2_16[2], &at_2_16[0]).value
        ),
    });
    outcome.settings = vec![(
        "repetitions".into(),
        format!(
            "{repetitions}, in ABBA order{}",
            if context.is_full() {
                ""
            } else {
                "; one above 2^16 flows"
            }
        ),
    )];
    Ok(outcome)
}
