//! FloWatcher-DPDK, figure 5a: the batch size.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, mpps_of_cost, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::abba;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5a",
    title: "Batch size",
    source: "FloWatcher-DPDK, figure 5a",
    run,
};

const BATCHES: [usize; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// The place of the paper's best.
const PAPERS: usize = 5;
const FLOWS: u32 = 1 << 16;

/// Of the rate that bursts of 256 sustain, the load at which drop ratios are compared.
const LOAD: f64 = 1.0;

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, VIRTUAL_CLOCK);
    let repetitions = context.repetitions(3, 10);
    let packets = context.pick(1 << 19, 1 << 24);
    let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
    let monitors = [
        ("per-flow count", Monitor::counting(FLOWS as usize)),
        ("packet count", Monitor::packets()),
    ];
    let mut table = Table::new(
        "batch",
        "Cost of a packet in full bursts, and the drop ratio at the highest rate that bursts of 256 sustain",
        &[
            "monitor",
            "batch",
            "ns a packet",
            "95 % from",
            "to",
            "± by t",
            "load, Mpps",
            "drop ratio",
        ],
    );
    let mut cost_figure = Figure::new(
        "cost",
        "What a packet costs one core, by the most packets that one poll takes; 2¹⁶ uniform flows.",
        Axis::log2("batch size (packets)"),
        Axis::linear("cost of a packet (ns)").from_zero(),
    );
    let mut drop_figure = Figure::new(
        "drops",
        "Packet drop ratio at the highest rate that bursts of 256 sustain. Hollow: nothing was lost, \
         the bound that this sets.",
        Axis::log2("batch size (packets)"),
        Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
    );
    let mut best = (f64::INFINITY, 0);
    let mut papers_from = f64::NAN;
    for (name, monitor) in monitors {
        context.say(name);
        let conditions: Vec<Condition> = BATCHES
            .iter()
            .map(|&batch| {
                Condition::new(batch.to_string(), &wire, monitor.clone()).over(VirtualOptions {
                    batch,
                    ..VirtualOptions::default()
                })
            })
            .collect();
        let costs = context.costs(&conditions, packets, repetitions)?;
        let best_there = &conditions[PAPERS];
        let found = context.sustained(best_there, packets, Goal::Rfc2544)?;
        let by_cost = mpps_of_cost(context.mean(&costs[PAPERS]).value) * 1e6;
        let sustained = if found.rate > 0.0 {
            found.rate
        } else {
            by_cost
        };
        let rate_pps = sustained * LOAD;
        let mut lost = vec![[0u64; 2]; BATCHES.len()];
        for repetition in 0..repetitions {
            for place in abba(BATCHES.len(), repetition) {
                let condition = &conditions[place];
                let link = VirtualOptions {
                    rate_pps,
                    packets,
                    warm_up: packets / 4,
                    truth: false,
                    ..condition.link.clone()
                };
                let trial = context.trial(&wire, &link, &condition.monitor)?;
                lost[place][0] += trial.after_warm_up[0];
                lost[place][1] += trial.after_warm_up[1];
            }
        }
        let mut cost_points = Vec::new();
        let mut drop_points = Vec::new();
        for (place, &batch) in BATCHES.iter().enumerate() {
            let mean = context.mean(&costs[place]);
            let [dropped, offered] = lost[place];
            cost_points.push(Point::of(batch as f64, mean));
            drop_points.push(Point::ratio(batch as f64, dropped, offered));
            table.row(vec![
                name.into(),
                batch.into(),
                mean.value.into(),
                mean.low.into(),
                mean.high.into(),
                context.half_by_t(&costs[place]).into(),
                mpps(rate_pps).into(),
                (dropped as f64 / offered.max(1) as f64).into(),
            ]);
            if name == "per-flow count" {
                if place == PAPERS {
                    papers_from = mean.low;
                }
                if mean.value < best.0 {
                    best = (mean.value, batch);
                }
            }
        }
        cost_figure.series.push(Series::line(name, cost_points));
        drop_figure.series.push(Series::line(name, drop_points));
    }
    outcome.figures = vec![cost_figure, drop_figure];
    outcome.tables.push(table);
    outcome.comparisons.push(Comparison {
        what: "best batch size".into(),
        paper: "256".into(),
        here: best.1.to_string(),
    });
    let is_alike = papers_from <= best.0;
    outcome.findings.push(Finding {
        paper: "The drop ratio has its minimum at a batch of 256 packets; smaller and larger ones lose more."
            .into(),
        holds: if is_alike {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "The cheapest batch is {}{}. Small batches cost more because prefetching has less to run ahead of. \
             Larger ones than 256 are taken at once and worked off by 256, from buffers that stay in the cache \
             here: what more of them cost on a card, whose frames wait in memory meanwhile, is not modelled.",
            best.1,
            if is_alike && best.1 != BATCHES[PAPERS] {
                ", whose cost lies within the interval of 256's"
            } else {
                ""
            }
        ),
    });
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("packets a trial".into(), packets.to_string()),
        (
            "repetitions".into(),
            format!("{repetitions}, in ABBA order"),
        ),
    ];
    Ok(outcome)
}
