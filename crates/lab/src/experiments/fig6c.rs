//! FloWatcher-DPDK, figure 6c: hashes on line, and what they miscount.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::hash::HashKind;
use flow::{FlowDefinition, TableKind};
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6c",
    title: "Hashes on line: cost and miscounting",
    source: "FloWatcher-DPDK, figure 6c",
    run,
};

const FLOWS: u32 = 1 << 16;

/// What a random hash leaves without a place: packets of flows that are third or later in one of 2^16
/// buckets of two, with one flow a bucket on average: e^-1 × Σ (k - 2) / k! over k > 2, of all.
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

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, VIRTUAL_CLOCK);
    let repetitions = context.repetitions(2, 10);
    let packets = context.pick(1 << 19, 1 << 24);
    let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
    let hashes: Vec<(String, Monitor)> = std::iter::once((
        "RSS (device)".to_owned(),
        Monitor::counting(FLOWS as usize).with_flow(FlowDefinition::Rss),
    ))
    .chain(HashKind::ALL.map(|kind| {
        (
            kind.name().to_owned(),
            Monitor::counting(FLOWS as usize).with_hash(kind),
        )
    }))
    .collect();
    let conditions = |table: TableKind| -> Vec<Condition> {
        hashes
            .iter()
            .map(|(name, monitor)| {
                // A device that tells its hash would have it reused in the place of ours.
                let tells_hash = name.starts_with("RSS");
                Condition::new(name.clone(), &wire, monitor.clone().with_table(table)).over(
                    VirtualOptions {
                        tells_hash,
                        ..VirtualOptions::default()
                    },
                )
            })
            .collect()
    };
    let mut table = Table::new(
        "hashes",
        "Cost of a packet counted by flow under each hash, and what the paper's double hash finds no place for",
        &[
            "hash",
            "ns a packet, exact table",
            "95 % from",
            "to",
            "± by t",
            "ns a packet, double hash",
            "packets without a place, double hash",
            "packets off their flow, exact table",
        ],
    );
    context.say("exact table");
    let exact = conditions(TableKind::Bucket);
    let costs = context.costs(&exact, packets, repetitions)?;
    context.say("double hash");
    let double = conditions(TableKind::DoubleHash);
    let mut points = Vec::new();
    let mut missed = Vec::new();
    let mut miscounts = Vec::new();
    for (place, condition) in double.iter().enumerate() {
        let link = VirtualOptions {
            rate_pps: f64::INFINITY,
            packets,
            ..condition.link.clone()
        };
        let trial = context.trial(&wire, &link, &condition.monitor)?;
        let share = trial.ledger.miscounted as f64 / trial.ledger.received.max(1) as f64;
        let check = context.trial(
            &wire,
            &VirtualOptions {
                packets: packets / 4,
                ..link
            },
            &exact[place].monitor,
        )?;
        let off = check.ledger.flows.map(|truth| truth.off + truth.strangers);
        let mean = context.mean(&costs[place]);
        points.push(Point::of(place as f64, mean));
        missed.push(Point::new(place as f64, share * 100.0));
        miscounts.push((condition.name.clone(), share));
        table.row(vec![
            condition.name.as_str().into(),
            mean.value.into(),
            mean.low.into(),
            mean.high.into(),
            context.half_by_t(&costs[place]).into(),
            trial.ns_per_packet.into(),
            share.into(),
            off.map_or_else(|| "no 5-tuple".into(), Into::into),
        ]);
    }
    let names = || {
        Axis::names(
            "",
            hashes
                .iter()
                .map(|(name, _)| name.replace("symmetric-", "symm. ")),
        )
    };
    outcome.figures.push(
        Figure::new(
            "cost",
            "What a packet costs one core, counted in the exact table under each hash; 2¹⁶ uniform flows.",
            names(),
            Axis::linear("cost of a packet (ns)").from_zero(),
        )
        .with(Series::bars("", points)),
    );
    let expected = random_expectation();
    outcome.figures.push(
        Figure::new(
            "miscounted",
            "Packets that the paper's double hash (2¹⁶ buckets of two) finds no place for, with 2¹⁶ uniform \
             flows. The exact table has a place for all of them under every hash.",
            names(),
            Axis::linear("packets without a place (%)").from_zero(),
        )
        .with(Series::bars("", missed))
        .level(
            &format!("a random hash: {:.1} %", expected * 100.0),
            expected * 100.0,
        ),
    );
    outcome.tables.push(table);
    let of = |name: &str| {
        miscounts
            .iter()
            .find(|(known, _)| known == name)
            .map_or(f64::NAN, |(_, share)| share * 100.0)
    };
    outcome.comparisons.push(Comparison {
        what: "miscounted under Murmur3 and Spooky, double hash".into(),
        paper: "11 % and 13 %".into(),
        here: format!(
            "{:.1} % and {:.1} % (a random hash: {:.1} %)",
            of("murmur3"),
            of("spooky"),
            expected * 100.0
        ),
    });
    let cost_of = |name: &str| {
        hashes
            .iter()
            .position(|(known, _)| known == name)
            .map_or(f64::NAN, |place| context.mean(&costs[place]).value)
    };
    outcome.comparisons.push(Comparison {
        what: "software Toeplitz against the device's hash".into(),
        paper: "30 % of the packets dropped".into(),
        here: format!(
            "{:.1} ns against {:.1} ns a packet, none dropped at 14.88 Mpps",
            cost_of("toeplitz"),
            cost_of("RSS (device)")
        ),
    });
    let explained = (of("murmur3") / 100.0 - expected).abs() < 0.01;
    outcome.findings.push(Finding {
        paper: "Murmur and Spooky miscount 11 to 13 % of the packets, so the device's hash is the better choice.".into(),
        holds: if explained { Holds::No } else { Holds::Partly },
        because: format!(
            "The miscounting is the table's, not the hashes': two places a bucket leave {:.1} % without one under \
             any random hash, and {:.1} % under the device's. The exact table places every packet under each.",
            expected * 100.0,
            of("RSS (device)")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_hash_leaves_what_theory_says() {
        // With Poisson(1) flows a bucket: E[(k-2)+] = E[k] - 2 + 2 P(0) + P(1) = -1 + 3/e.
        assert!((random_expectation() - (3.0 * (-1.0f64).exp() - 1.0)).abs() < 1e-12);
    }
}
