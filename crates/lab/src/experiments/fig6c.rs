//! FloWatcher-DPDK, figure 6c: hashes on the packet path, and the packets that a table attributes to no
//! flow under each.

use super::context::{
    Condition, Context, Cost, Estimate, VIRTUAL_CLOCK, parameter, repetitions_parameter,
};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::{VirtualOptions, Wire};
use flow::hash::HashKind;
use flow::{FlowDefinition, TableKind};
use generator::FlowOrder;
use std::sync::Arc;

const FLOWS: u32 = 1 << 16;

/// The device's hash.
const RSS: &str = "RSS (device)";

/// The paper's shares of unattributed packets, with two points of tolerance on either side: the short
/// form has only eight packets per flow.
const PAPER_SHARES: [f64; 2] = [0.09, 0.15];

pub(super) struct Fig6c;

pub(super) struct Results {
    packets: u64,
    repetitions: usize,
    hashes: Vec<Measured>,
}

struct Measured {
    name: String,
    /// With the exact table.
    cost: Cost,
    /// With the double hash, in ns per packet.
    double_hash_ns: f64,
    /// The share of packets that find no slot in the double hash.
    unattributed: f64,
    /// Packets that the exact table counts for a wrong flow; `None` without 5-tuples.
    wrong_flow: Option<u64>,
}

impl Results {
    fn find(&self, name: &str) -> Option<&Measured> {
        self.hashes.iter().find(|hash| hash.name == name)
    }

    /// The share of unattributed packets under a hash.
    fn unattributed(&self, name: &str) -> f64 {
        self.find(name).map_or(f64::NAN, |hash| hash.unattributed)
    }

    fn ns(&self, name: &str) -> f64 {
        self.find(name).map_or(f64::NAN, |hash| hash.cost.ns())
    }
}

/// The share of packets that find no slot under a random hash: those of flows that are third or later in
/// one of 2^16 buckets of two slots, with one flow per bucket on average: e^-1 × Σ (k - 2) / k!, k > 2.
fn random_expectation() -> f64 {
    let mut term = (-1.0f64).exp();
    let mut sum = 0.0;
    for k in 1..40 {
        term /= f64::from(k);
        if k > 2 {
            sum += term * f64::from(k - 2);
        }
    }
    sum
}

fn monitors() -> Vec<(String, Monitor)> {
    let counting = || Monitor::counting(FLOWS as usize);
    let mut monitors = vec![(RSS.to_owned(), counting().with_flow(FlowDefinition::Rss))];
    monitors.extend(HashKind::ALL.map(|kind| (kind.name().to_owned(), counting().with_hash(kind))));
    monitors
}

fn conditions(wire: &Arc<Wire>, table: TableKind) -> Vec<Condition> {
    let conditions = monitors().into_iter().map(|(name, monitor)| {
        // The meter reuses the hash of a device that reports it, instead of its own.
        let reports_hash = name == RSS;
        Condition::new(name, wire, monitor.with_table(table)).over(VirtualOptions {
            reports_hash,
            ..VirtualOptions::default()
        })
    });
    conditions.collect()
}

impl Experiment for Fig6c {
    type Results = Results;

    const NAME: &'static str = "fig6c";
    const TITLE: &'static str = "Hashes on the packet path: cost and unattributed packets";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 6c";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(2, 10);
        let packets = context.pick(1 << 19, 1 << 24);
        let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
        context.progress("exact table");
        let exact = conditions(&wire, TableKind::Bucket);
        let costs = context.costs(&exact, packets, repetitions)?;
        context.progress("double hash");
        let double = conditions(&wire, TableKind::DoubleHash);
        let mut hashes = Vec::new();
        for ((double, exact), cost) in double.iter().zip(&exact).zip(costs) {
            let link = VirtualOptions {
                rate_pps: f64::INFINITY,
                packets,
                ..double.link.clone()
            };
            let trial = context.trial(&wire, &link, &double.monitor)?;
            let link = VirtualOptions {
                packets: packets / 4,
                ..link
            };
            let check = context.trial(&wire, &link, &exact.monitor)?;
            hashes.push(Measured {
                name: double.name.clone(),
                cost,
                double_hash_ns: trial.ns_per_packet,
                unattributed: trial.ledger.unattributed as f64
                    / trial.ledger.received.max(1) as f64,
                wrong_flow: check
                    .ledger
                    .flows
                    .map(|truth| truth.deviation + truth.unexpected),
            });
        }
        Ok(Results {
            packets,
            repetitions,
            hashes,
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
        let expected = random_expectation();
        let murmur = results.unattributed("murmur3");
        let spooky = results.unattributed("spooky");
        let [low, high] = PAPER_SHARES;
        let in_range = |share: f64| (low..=high).contains(&share);
        vec![Finding::new(
            "Murmur and Spooky attribute 11 to 13 % of the packets to no flow, so the device's hash is the better \
             choice.",
            [
                Part::compared(
                    "Murmur and Spooky attribute 11 to 13 % of the packets to no flow.",
                    in_range(murmur) && in_range(spooky),
                    format!(
                        "{:.1} % and {:.1} % with the paper's double hash; two percentage points of tolerance are \
                         allowed.",
                        murmur * 100.0,
                        spooky * 100.0
                    ),
                ),
                Part::compared(
                    "The cause is the hash, so the device's is better.",
                    (murmur - expected).abs() >= 0.01,
                    format!(
                        "The cause is the table: with two slots per bucket {:.1} % of the packets find none under any \
                         random hash, and {:.1} % under the device's. The exact table has a slot for every packet \
                         under each.",
                        expected * 100.0,
                        results.unattributed(RSS) * 100.0
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        vec![
            Comparison::new(
                "unattributed under Murmur3 and Spooky, double hash",
                "11 % and 13 %",
                format!(
                    "{:.1} % and {:.1} % (a random hash: {:.1} %)",
                    results.unattributed("murmur3") * 100.0,
                    results.unattributed("spooky") * 100.0,
                    random_expectation() * 100.0
                ),
            ),
            Comparison::new(
                "software Toeplitz against the device's hash",
                "30 % of the packets dropped",
                format!(
                    "{:.1} ns against {:.1} ns per packet, none dropped at 14.88 Mpps",
                    results.ns("toeplitz"),
                    results.ns(RSS)
                ),
            ),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let [low, high, half] = Estimate::COLUMNS;
        let mut table = Table::new(
            "hashes",
            "Cost of a packet counted by flow under each hash, and the packets that find no slot in the paper's \
             double hash",
            &[
                "hash",
                "ns per packet, exact table",
                low,
                high,
                half,
                "ns per packet, double hash",
                "packets without a slot, double hash",
                "packets counted for a wrong flow, exact table",
            ],
        );
        for hash in &results.hashes {
            let mut row = vec![hash.name.as_str().into()];
            row.extend(hash.cost.estimate.cells());
            row.push(hash.double_hash_ns.into());
            row.push(hash.unattributed.into());
            row.push(
                hash.wrong_flow
                    .map_or_else(|| "no 5-tuple".into(), Into::into),
            );
            table.row(row);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let names = || {
            let names = results.hashes.iter().map(|hash| &hash.name);
            Axis::names("", names.map(|name| name.replace("symmetric-", "symm. ")))
        };
        let numbered = || results.hashes.iter().enumerate();
        let costs = numbered().map(|(index, hash)| hash.cost.estimate.point(index as f64));
        let shares =
            numbered().map(|(index, hash)| Point::new(index as f64, hash.unattributed * 100.0));
        let expected = random_expectation() * 100.0;
        vec![
            Figure::new(
                "cost",
                "Cost of a packet on one core, counted in the exact table under each hash; 2¹⁶ uniform flows.",
                names(),
                Axis::linear("cost of a packet (ns)").from_zero(),
            )
            .with(Series::bars("", costs.collect())),
            Figure::new(
                "unattributed",
                "Packets that find no slot in the paper's double hash (2¹⁶ buckets of two slots), with 2¹⁶ uniform \
                 flows. The exact table has a slot for all of them under every hash.",
                names(),
                Axis::linear("packets without a slot (%)").from_zero(),
            )
            .with(Series::bars("", shares.collect()))
            .horizontal(&format!("a random hash: {expected:.1} %"), expected),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectation_of_a_random_hash_matches_the_closed_form() {
        // With Poisson(1) flows per bucket: E[(k-2)+] = E[k] - 2 + 2 P(0) + P(1) = -1 + 3/e.
        assert!((random_expectation() - (3.0 * (-1.0f64).exp() - 1.0)).abs() < 1e-12);
    }
}
