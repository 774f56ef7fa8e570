//! FloWatcher-DPDK, figure 7a: the flow tables.

use super::context::{
    Condition, Context, Cost, Estimate, VIRTUAL_CLOCK, mpps, mpps_of_cost, repetitions_parameter,
};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{abba, paired_ratio};
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::{FlowDefinition, TableKind};
use generator::FlowOrder;

/// The rates at which drop ratios are compared, in Mpps.
const RATES: [f64; 7] = [5.0, 10.0, LINE_RATE, 20.0, 30.0, 40.0, 60.0];
const LINE_RATE: f64 = 14.88;

const PACKETS_ONLY: &str = "packets only";

/// The paper's "orders of magnitude" start at this factor.
const MAGNITUDE: f64 = 10.0;

pub(super) struct Fig7a;

pub(super) struct Results {
    repetitions: usize,
    /// Costs by set of flows.
    sets: Vec<FlowSet>,
    /// Drop ratios by table and rate.
    drops: Vec<Drops>,
}

/// The costs of all tables with one set of flows.
struct FlowSet {
    label: String,
    costs: Vec<Cost>,
    /// The share of packets that find no slot, by table.
    unattributed: Vec<f64>,
}

impl FlowSet {
    fn index(&self, table: &str) -> usize {
        let position = self.costs.iter().position(|cost| cost.name == table);
        position.unwrap_or(0)
    }

    fn cost(&self, table: &str) -> &Cost {
        &self.costs[self.index(table)]
    }
}

/// The drops of one table by offered rate.
struct Drops {
    table: String,
    rates: Vec<Dropped>,
}

struct Dropped {
    mpps: f64,
    offered: u64,
    lost: u64,
    unattributed: u64,
}

impl Dropped {
    fn ratio(&self) -> f64 {
        (self.lost + self.unattributed) as f64 / self.offered.max(1) as f64
    }
}

fn monitors(flows: usize) -> Vec<(String, Monitor)> {
    let rss = Monitor::counting(flows).with_flow(FlowDefinition::Rss);
    let mut list = vec![(PACKETS_ONLY.to_owned(), Monitor::packets())];
    for kind in TableKind::ALL {
        list.push((kind.name().to_owned(), rss.clone().with_table(kind)));
    }
    list.push(("bucket, 5-tuple".to_owned(), Monitor::counting(flows)));
    list
}

/// Measures the cost of a packet in each table.
fn measure_set(
    context: &mut Context<'_>,
    flows: u32,
    order: FlowOrder,
    repetitions: usize,
) -> Result<FlowSet, TrialError> {
    let label = format!("{} {}", flows_name(flows), order_name(order));
    context.progress(&label);
    let wire = wire(&small_frames(flows, order, context.seed()))?;
    let is_large = flows > 1 << 16;
    // Each flow needs several packets, or the trial measures only the insertion of flows.
    let packets = context.pick(3 << 18, 1 << 23) * if is_large { 4 } else { 1 };
    let conditions: Vec<Condition> = monitors(flows as usize + flows as usize / 8)
        .into_iter()
        .map(|(name, monitor)| Condition::new(name, &wire, monitor))
        .collect();
    let repetitions = if is_large { 1 } else { repetitions };
    let mut samples = vec![Vec::new(); conditions.len()];
    let mut unattributed = vec![0.0; conditions.len()];
    for repetition in 0..repetitions {
        for index in abba(conditions.len(), repetition) {
            let condition = &conditions[index];
            // Chains that grow with the flows take microseconds per packet.
            let is_slow =
                is_large && (condition.name == "linked-list" || condition.name == "combined");
            let link = VirtualOptions {
                rate_pps: f64::INFINITY,
                truth: false,
                packets: if is_slow { packets / 3 } else { packets },
                ..condition.link.clone()
            };
            let trial = context.trial(&wire, &link, &condition.monitor)?;
            samples[index].push(trial.ns_per_packet);
            unattributed[index] =
                trial.ledger.unattributed as f64 / trial.ledger.received.max(1) as f64;
        }
    }
    let named = conditions.iter().zip(samples);
    Ok(FlowSet {
        label,
        costs: named
            .map(|(condition, samples)| context.cost_of(&condition.name, samples))
            .collect(),
        unattributed,
    })
}

/// Measures the drop ratio of each table by load.
fn measure_drops(context: &mut Context<'_>) -> Result<Vec<Drops>, TrialError> {
    let flows = 1u32 << 16;
    let wire = wire(&small_frames(flows, FlowOrder::Uniform, context.seed()))?;
    let packets = context.pick(1 << 18, 1 << 22);
    let mut drops = Vec::new();
    for (table, monitor) in monitors(flows as usize) {
        context.progress(&format!("drop ratio: {table}"));
        let mut rates = Vec::new();
        for mpps in RATES {
            let link = VirtualOptions {
                rate_pps: mpps * 1e6,
                packets,
                warm_up: packets / 2,
                truth: false,
                ..VirtualOptions::default()
            };
            let trial = context.trial(&wire, &link, &monitor)?;
            let [lost, offered] = trial.after_warm_up;
            // The ledger has the unattributed packets of the whole trial, including the warm-up.
            let share = trial.ledger.unattributed as f64 / trial.ledger.received.max(1) as f64;
            rates.push(Dropped {
                mpps,
                offered,
                lost,
                unattributed: (share * offered as f64) as u64,
            });
        }
        drops.push(Drops { table, rates });
    }
    Ok(drops)
}

/// Whether the linked list loses most at line rate.
fn judge_linked_list(drops: &[Drops]) -> Part {
    const CLAIM: &str = "The linked list loses most by orders of magnitude.";
    let at_line = |table: &str| {
        let drops = drops.iter().find(|drops| drops.table == table)?;
        drops.rates.iter().find(|rate| rate.mpps == LINE_RATE)
    };
    let tables = (at_line("linked-list"), at_line("double-hash"));
    let (Some(linked), Some(double)) = tables else {
        return Part::not_compared(CLAIM, "The build lacks one of the paper's tables.");
    };
    let lost = |dropped: &Dropped| dropped.lost as f64 / dropped.offered.max(1) as f64;
    if linked.lost == 0 {
        return Part::not_compared(
            CLAIM,
            format!("The linked list loses nothing at {LINE_RATE} Mpps, uniform."),
        );
    }
    Part::compared(
        CLAIM,
        linked.lost as f64 >= MAGNITUDE * double.lost.max(1) as f64,
        format!(
            "At {LINE_RATE} Mpps, uniform, the linked list loses {:.1e} of the packets, the double hash {:.1e}.",
            lost(linked),
            lost(double)
        ),
    )
}

impl Experiment for Fig7a {
    type Results = Results;

    const NAME: &'static str = "fig7a";
    const TITLE: &'static str = "Flow tables";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 7a";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(2, 10);
        let mut sets = Vec::new();
        for (flows, order) in [
            (1u32 << 16, FlowOrder::Uniform),
            (1 << 16, FlowOrder::Zipf(1.0)),
            (1 << 20, FlowOrder::Uniform),
        ] {
            sets.push(measure_set(context, flows, order, repetitions)?);
        }
        Ok(Results {
            repetitions,
            sets,
            drops: measure_drops(context)?,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![repetitions_parameter(results.repetitions)]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let mut parts = Vec::new();
        for set in &results.sets {
            let ns = |table: &str| set.cost(table).ns();
            let tables = [ns("double-hash"), ns("combined"), ns("linked-list")];
            let [double, combined, linked] = tables;
            parts.push(Part::compared(
                &format!(
                    "Double hash costs least, the linked list most, the combined table is between ({}).",
                    set.label
                ),
                tables.is_sorted(),
                format!("{double:.1}, {combined:.1} and {linked:.1} ns per packet, in the paper's order."),
            ));
        }
        let uniform = &results.sets[0];
        parts.push(Part::not_compared(
            "Double hash costs hardly more than counting packets.",
            format!(
                "The paper compares drop ratios. A packet costs {:.1} ns against {:.1} ns ({}). The double hash has \
                 no slot for {:.1} % of these packets, which the paper does not count as lost; the exact bucket table \
                 has a slot for all.",
                uniform.cost("double-hash").ns(),
                uniform.cost(PACKETS_ONLY).ns(),
                uniform.label,
                uniform.unattributed[uniform.index("double-hash")] * 100.0
            ),
        ));
        parts.push(judge_linked_list(&results.drops));
        vec![Finding::new(
            "Double hash costs hardly more than counting packets, the linked list loses most by orders of magnitude, \
             the combined table is between.",
            parts,
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let ratios = |table: &str| {
            let ratio = |set: &FlowSet| {
                let ratio = paired_ratio(&set.cost(table).samples, &set.cost("bucket").samples);
                format!("{:.2} ({})", ratio.value, set.label)
            };
            let ratios: Vec<String> = results.sets.iter().map(ratio).collect();
            ratios.join(", ")
        };
        let row = |what: &str, table: &str| {
            let what = format!(
                "{what}'s cost, times the exact bucket table's, first packets of flows included"
            );
            Comparison::new(what, "(no such table)", ratios(table))
        };
        vec![
            row("combined table", "combined"),
            row("double hash", "double-hash"),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let [low, high, half] = Estimate::COLUMNS;
        let mut costs = Table::new(
            "tables",
            "Cost of a packet counted by the device's RSS hash (and, in the last line, by the whole 5-tuple)",
            &[
                "flows",
                "table",
                "ns per packet",
                low,
                high,
                half,
                "Mpps per core, with receive charge",
                "packets without a slot",
            ],
        );
        for set in &results.sets {
            for (cost, unattributed) in set.costs.iter().zip(&set.unattributed) {
                let mut row = vec![set.label.as_str().into(), cost.name.as_str().into()];
                row.extend(cost.estimate.cells());
                row.push(mpps_of_cost(cost.ns()).into());
                row.push((*unattributed).into());
                costs.row(row);
            }
        }
        let mut drops = Table::new(
            "drops",
            "Drop ratio by load",
            &[
                "table",
                "offered, Mpps",
                "offered",
                "lost",
                "without a slot",
                "ratio",
            ],
        );
        for table in &results.drops {
            for rate in &table.rates {
                drops.row(vec![
                    table.table.as_str().into(),
                    rate.mpps.into(),
                    rate.offered.into(),
                    rate.lost.into(),
                    rate.unattributed.into(),
                    rate.ratio().into(),
                ]);
            }
        }
        vec![costs, drops]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut costs = Figure::new(
            "cost",
            "Cost of a packet on one core, by flow table. The paper's tables identify a flow by its 32-bit hash; the \
             bucket table compares whole keys.",
            Axis::names("table", monitors(1).iter().map(|(name, _)| name.as_str())),
            Axis::log10("cost of a packet (ns)"),
        );
        for set in &results.sets {
            let points = set.costs.iter().enumerate();
            let points = points.map(|(index, cost)| cost.estimate.point(index as f64));
            costs
                .series
                .push(Series::bars(&set.label, points.collect()));
        }
        let mut drops = Figure::new(
            "drops",
            "Packet drop ratio (and packets without a slot) by offered rate, 2¹⁶ uniform flows, after the warm-up. \
             Hollow: nothing was lost; the upper bound is shown.",
            Axis::linear("offered (Mpps)").from_zero(),
            Axis::log10("packets lost or without a slot, of those offered").within(f64::NAN, 1.0),
        )
        .vertical("10 GbE", mpps(VirtualOptions::LINE_10G));
        for table in &results.drops {
            let points = table
                .rates
                .iter()
                .map(|rate| Point::ratio(rate.mpps, rate.lost + rate.unattributed, rate.offered));
            drops
                .series
                .push(Series::line(&table.table, points.collect()));
        }
        vec![costs, drops]
    }
}

/// Formats a number of flows as a power of two.
fn flows_name(flows: u32) -> String {
    match flows {
        65_536 => "2¹⁶".into(),
        1_048_576 => "2²⁰".into(),
        other => other.to_string(),
    }
}
