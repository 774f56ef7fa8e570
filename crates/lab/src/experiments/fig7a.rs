//! FloWatcher-DPDK, figure 7a: the flow tables.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, mpps_of_cost, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::paired_ratio;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::{FlowDefinition, TableKind};
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig7a",
    title: "Flow tables",
    source: "FloWatcher-DPDK, figure 7a",
    run,
};

/// The rates at which drop ratios are compared, in Mpps.
const RATES: [f64; 7] = [5.0, 10.0, 14.88, 20.0, 30.0, 40.0, 60.0];

fn monitors(flows: usize) -> Vec<(String, Monitor)> {
    let rss = Monitor::counting(flows).with_flow(FlowDefinition::Rss);
    let mut list = vec![("packets only".to_owned(), Monitor::packets())];
    for kind in TableKind::ALL {
        list.push((kind.name().to_owned(), rss.clone().with_table(kind)));
    }
    list.push(("bucket, 5-tuple".to_owned(), Monitor::counting(flows)));
    list
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, VIRTUAL_CLOCK);
    let repetitions = context.repetitions(2, 10);
    let mut table = Table::new(
        "tables",
        "Cost of a packet counted by the device's RSS hash (and, in the last line, by the whole 5-tuple)",
        &[
            "flows",
            "table",
            "ns a packet",
            "95 % from",
            "to",
            "± by t",
            "Mpps of a core, receive charge in",
            "packets without a place",
        ],
    );
    let mut figure = Figure::new(
        "cost",
        "What a packet costs one core, by flow table. The paper's tables know a flow by its 32-bit hash; the \
         bucket table compares whole keys.",
        Axis::names("table", monitors(1).iter().map(|(name, _)| name.as_str())),
        Axis::log10("cost of a packet (ns)"),
    );
    let mut ratios = Vec::new();
    let mut double_loss = 0.0;
    let mut ordered = Vec::new();
    for (flows, order) in [
        (1u32 << 16, FlowOrder::Uniform),
        (1 << 16, FlowOrder::Zipf(1.0)),
        (1 << 20, FlowOrder::Uniform),
    ] {
        let label = format!("{} {}", flows_name(flows), order_name(order));
        context.say(&label);
        let wire = wire(&small_frames(flows, order, context.seed()))?;
        // Each flow has to come a few times, or only its making is measured.
        let packets = context.pick(3 << 18, 1 << 23) * if flows > 1 << 16 { 4 } else { 1 };
        let conditions: Vec<Condition> = monitors(flows as usize + flows as usize / 8)
            .into_iter()
            .map(|(name, monitor)| Condition::new(name, &wire, monitor))
            .collect();
        let repetitions = if flows > 1 << 16 { 1 } else { repetitions };
        let mut costs = vec![Vec::new(); conditions.len()];
        let mut misses = vec![0.0; conditions.len()];
        for repetition in 0..repetitions {
            for place in crate::statistics::abba(conditions.len(), repetition) {
                let condition = &conditions[place];
                // Chains that grow with the flows take microseconds a packet.
                let slow = flows > 1 << 16
                    && (condition.name == "linked-list" || condition.name == "combined");
                let link = VirtualOptions {
                    rate_pps: f64::INFINITY,
                    truth: false,
                    packets: if slow { packets / 3 } else { packets },
                    ..condition.link.clone()
                };
                let trial = context.trial(&wire, &link, &condition.monitor)?;
                costs[place].push(trial.ns_per_packet);
                misses[place] =
                    trial.ledger.miscounted as f64 / trial.ledger.received.max(1) as f64;
            }
        }
        let mut points = Vec::new();
        for (place, condition) in conditions.iter().enumerate() {
            let mean = context.mean(&costs[place]);
            points.push(Point::of(place as f64, mean));
            table.row(vec![
                label.as_str().into(),
                condition.name.as_str().into(),
                mean.value.into(),
                mean.low.into(),
                mean.high.into(),
                context.half_by_t(&costs[place]).into(),
                mpps_of_cost(mean.value).into(),
                misses[place].into(),
            ]);
        }
        let at = |name: &str| conditions.iter().position(|known| known.name == name);
        if let (Some(bucket), Some(combined), Some(double)) =
            (at("bucket"), at("combined"), at("double-hash"))
        {
            let cost = |place: usize| crate::statistics::mean(&costs[place]);
            if let Some(linked) = at("linked-list") {
                ordered.push(cost(double) <= cost(combined) && cost(combined) <= cost(linked));
            }
            ratios.push((
                label,
                paired_ratio(&costs[combined], &costs[bucket]),
                paired_ratio(&costs[double], &costs[bucket]),
            ));
            if flows == 1 << 16 && order == FlowOrder::Uniform {
                double_loss = misses[double];
            }
        }
        figure.series.push(Series::bars(
            &format!("{} {}", flows_name(flows), order_name(order)),
            points,
        ));
    }
    outcome.figures.push(figure);
    outcome.tables.push(table);
    drops(context, &mut outcome)?;
    let ratio_text = |index: usize| {
        ratios
            .iter()
            .map(|(label, combined, double)| {
                let ratio = if index == 0 { combined } else { double };
                format!("{:.2} ({label})", ratio.value)
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    outcome.comparisons.push(Comparison {
        what:
            "combined table's cost, times the exact bucket table's, first packets of flows included"
                .into(),
        paper: "(no such table)".into(),
        here: ratio_text(0),
    });
    outcome.comparisons.push(Comparison {
        what: "double hash's cost, times the exact bucket table's, first packets of flows included"
            .into(),
        paper: "(no such table)".into(),
        here: ratio_text(1),
    });
    outcome.findings.push(Finding {
        paper: "Double hash costs hardly more than counting packets, the linked list loses most by orders of \
                magnitude, the combined table lies between."
            .into(),
        holds: if ordered.contains(&true) {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "The costs of the paper's three tables are in the order that it says for {} of {} sets of flows, and \
             double hash has no place for {:.1} % of the packets of 2¹⁶ uniform flows, which the paper does not count \
             as lost. The exact bucket table has a place for all.",
            ordered.iter().filter(|held| **held).count(),
            ordered.len(),
            double_loss * 100.0
        ),
    });
    outcome.settings = vec![(
        "repetitions".into(),
        format!("{repetitions}, in ABBA order"),
    )];
    Ok(outcome)
}

/// The drop ratio of each table by load.
fn drops(context: &mut Context<'_>, outcome: &mut Outcome) -> Result<(), TrialError> {
    let flows = 1u32 << 16;
    let wire = wire(&small_frames(flows, FlowOrder::Uniform, context.seed()))?;
    let packets = context.pick(1 << 18, 1 << 22);
    let mut figure = Figure::new(
        "drops",
        "Packet drop ratio (and packets without a place) by offered rate, 2¹⁶ uniform flows, after the warm-up. \
         Hollow: nothing was lost, the bound that this sets.",
        Axis::linear("offered (Mpps)").from_zero(),
        Axis::log10("packets lost or without a place, of those offered").within(f64::NAN, 1.0),
    )
    .upright("10 GbE", mpps(VirtualOptions::LINE_10G));
    let mut table = Table::new(
        "drops",
        "Drop ratio by load",
        &[
            "table",
            "offered, Mpps",
            "offered",
            "lost",
            "without a place",
            "ratio",
        ],
    );
    for (name, monitor) in monitors(flows as usize) {
        context.say(&format!("drop ratio: {name}"));
        let mut points = Vec::new();
        for rate in RATES {
            let link = VirtualOptions {
                rate_pps: rate * 1e6,
                packets,
                warm_up: packets / 2,
                truth: false,
                ..VirtualOptions::default()
            };
            let trial = context.trial(&wire, &link, &monitor)?;
            let [lost, offered] = trial.after_warm_up;
            // The table tells how many have no place over the whole trial, the warm-up in it.
            let share = trial.ledger.miscounted as f64 / trial.ledger.received.max(1) as f64;
            let without = (share * offered as f64) as u64;
            points.push(Point::ratio(rate, lost + without, offered));
            table.row(vec![
                name.as_str().into(),
                rate.into(),
                offered.into(),
                lost.into(),
                without.into(),
                ((lost + without) as f64 / offered.max(1) as f64).into(),
            ]);
        }
        figure.series.push(Series::line(&name, points));
    }
    outcome.figures.push(figure);
    outcome.tables.push(table);
    Ok(())
}

/// A power of two as people write it.
fn flows_name(flows: u32) -> String {
    match flows {
        65_536 => "2¹⁶".into(),
        1_048_576 => "2²⁰".into(),
        other => other.to_string(),
    }
}
