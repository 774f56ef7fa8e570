//! FloWatcher-DPDK, figure 9b: a thousand flows through a device that drops fairly.

use super::Experiment;
use super::context::{Context, VIRTUAL_CLOCK, outcome};
use crate::fair_dropper::FairDropper;
use crate::monitor::{FlowCounts, Monitor};
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire_of};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{VirtualOptions, Wire};
use generator::FlowOrder;
use std::sync::Arc;
use wire::LinkType;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig9b",
    title: "A thousand flows at rate 1/k through a fair dropper",
    source: "FloWatcher-DPDK, figure 9b",
    run,
};

const FLOWS: u32 = 1000;

/// Flows that are to be clipped.
const CLIPPED: u32 = 200;

/// Packets a second before the device, and packets that arrive within one of its slots.
const RATE: f64 = 10e6;
const SLOT: usize = 100_000;

/// The sum of 1/k over the flows from `first` to `last`.
fn harmonic(first: u32, last: u32) -> f64 {
    (first..=last).map(|k| 1.0 / f64::from(k)).sum()
}

/// Counts each flow with the engine.
fn counted(
    context: &mut Context<'_>,
    wire: &Arc<Wire>,
    rate_pps: f64,
    packets: u64,
) -> Result<FlowCounts, TrialError> {
    let mut counts = FlowCounts::default();
    let link = VirtualOptions {
        rate_pps,
        packets,
        ..VirtualOptions::default()
    };
    let trial = Trial::run_looking(wire, &link, &Monitor::counting(FLOWS as usize), |records| {
        counts.add(records);
    })?;
    context.trials.count(&trial.verdict.against);
    context.trials.example = trial.ledger.identity();
    if !trial.verdict.is_valid() || trial.ledger.lost() > 0 {
        context.say(&format!(
            "{}; {}",
            trial.verdict.description(),
            trial.ledger.identity()
        ));
    }
    Ok(counts)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!(
            "{VIRTUAL_CLOCK} The device under test is a max-min fair dropper of our own, in slots of 10 ms."
        ),
    );
    let slots = context.pick(10, 200);
    let packets = SLOT * slots;
    // A capacity at which exactly the first flows are above the fair share.
    let of_all = (1.0 + harmonic(CLIPPED + 1, FLOWS)) / harmonic(1, FLOWS);
    let capacity = (SLOT as f64 * of_all) as u64;
    context.say("before the device");
    let before = wire_of(
        &small_frames(FLOWS, FlowOrder::RateInverse, context.seed()),
        packets,
    )?;
    let offered = counted(context, &before, RATE, packets as u64)?;
    context.say("behind the device");
    let dropper = FairDropper::new(capacity);
    let mut forwarded = Vec::new();
    for slot in 0..slots {
        let begin = (slot * SLOT) as u64;
        let indices: Vec<u64> = (begin..begin + SLOT as u64).collect();
        let flows: Vec<Option<u32>> = indices
            .iter()
            .map(|&index| before.frame(index).flow)
            .collect();
        let passed = dropper.forward(&flows);
        forwarded.extend(
            flows
                .into_iter()
                .zip(passed)
                .filter(|(_, passed)| *passed)
                .filter_map(|(flow, _)| flow),
        );
    }
    // One frame a flow, numbered as before.
    let mut frames: Vec<Option<(Vec<u8>, u32, u32)>> = vec![None; before.flows().len()];
    for index in 0..packets as u64 {
        let frame = before.frame(index);
        if let Some(flow) = frame.flow {
            frames[flow as usize]
                .get_or_insert_with(|| (frame.bytes.to_vec(), frame.wire_length, frame.rss_hash));
        }
    }
    let frames: Vec<_> = frames.into_iter().flatten().collect();
    let count = forwarded.len();
    let after = Arc::new(Wire::new(LinkType::Ethernet, frames, forwarded));
    let received = counted(context, &after, RATE * of_all, count as u64)?;

    let seconds = packets as f64 / RATE;
    let mut flows: Vec<(u64, u64)> = offered
        .iter()
        .map(|(key, sent)| (sent, received.of(key)))
        .collect();
    flows.sort_unstable_by(|a, b| b.cmp(a));
    let share = capacity as f64 / SLOT as f64 * RATE
        / (f64::from(CLIPPED) + f64::from(CLIPPED) * harmonic(CLIPPED + 1, FLOWS));
    let rate = |packets: u64| packets as f64 / seconds / 1e3;
    let mut table = Table::new(
        "flows",
        "Each flow before and behind the device, by the monitor's counts",
        &["k", "in, kpps", "out, kpps", "max-min share, kpps"],
    );
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut clipped = 0;
    let mut worst: f64 = 0.0;
    for (place, &(sent, passed)) in flows.iter().enumerate() {
        let k = place as f64 + 1.0;
        let expected = (sent as f64 / seconds).min(share) / 1e3;
        clipped += u32::from(passed < sent);
        worst = worst.max((rate(passed) / expected - 1.0).abs());
        input.push(Point::new(k, rate(sent)));
        output.push(Point::new(k, rate(passed)));
        table.row(vec![
            (place as u64 + 1).into(),
            rate(sent).into(),
            rate(passed).into(),
            expected.into(),
        ]);
    }
    outcome.figures.push(
        Figure::new(
            "rates",
            "A thousand flows, the k-th at 1/k of the first's rate, before and behind a device that drops fairly.",
            Axis::log10("flow k, by rate").within(1.0, 1000.0),
            Axis::log10("rate (kpps)"),
        )
        .with(Series::curve("in", input))
        .with(Series::curve("out", output))
        .level(&format!("fair share: {:.2} kpps", share / 1e3), share / 1e3)
        .upright("k = 200", f64::from(CLIPPED)),
    );
    outcome.tables.push(table);
    outcome.notes.push(format!(
        "Of {} packets {count} passed; every flow's rate behind the device is within {:.1} % of its max-min share \
         (whole packets a slot make up the difference).",
        packets,
        worst * 100.0
    ));
    outcome.comparisons.push(Comparison {
        what: "flows that the device clips".into(),
        paper: "about the first 200".into(),
        here: format!("{clipped}, of which some lose single packets at the edge of the share"),
    });
    let near = clipped.abs_diff(CLIPPED) <= CLIPPED / 5;
    outcome.findings.push(Finding {
        paper: "Of a thousand flows at rate 1/k the first two hundred or so are clipped to the fair share, the others \
                pass unchanged, and the monitor sees each of them."
            .into(),
        holds: if near && worst < 0.2 { Holds::Yes } else { Holds::Partly },
        because: format!(
            "{clipped} flows are clipped, at {:.2} kpps; the device is ours, made to do so: what is shown is that \
             the monitor tells a thousand flows of rates a thousand times apart, exactly.",
            share / 1e3
        ),
    });
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("packets".into(), packets.to_string()),
        (
            "capacity of the device".into(),
            format!("{:.1} % of what is offered", of_all * 100.0),
        ),
    ];
    Ok(outcome)
}
