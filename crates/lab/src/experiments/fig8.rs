//! FloWatcher-DPDK, figure 8: packet and flow level, beside other tools.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, mpps_of_cost, outcome};
use super::tools::{Generator, Receiver, rates};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::paired_ratio;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::FlowDefinition;
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig8",
    title: "Packet and flow level, beside other tools",
    source: "FloWatcher-DPDK, figure 8",
    run,
};

const FLOWS: u32 = 1 << 16;

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!(
            "{VIRTUAL_CLOCK} Beside other programs: both in turn on the same core receive from net_null, which gives \
             packets as fast as they are taken."
        ),
    );
    let levels = [
        ("packets", Monitor::packets()),
        (
            "flows by RSS hash",
            Monitor::counting(FLOWS as usize).with_flow(FlowDefinition::Rss),
        ),
        ("flows by 5-tuple", Monitor::counting(FLOWS as usize)),
    ];
    let packets = context.pick(1 << 19, 1 << 23);
    let mut table = Table::new(
        "levels",
        "The highest rate of one core without loss, in the virtual clock",
        &[
            "flows",
            "level",
            "ns a packet",
            "Mpps by that cost",
            "highest rate without loss, Mpps",
            "lost at 14.88 Mpps",
            "of",
        ],
    );
    let mut figure = Figure::new(
        "levels",
        "The highest rate without loss of one core that receives and monitors, at packet and at flow level.",
        Axis::names("level", levels.iter().map(|(name, _)| *name)),
        Axis::linear("highest rate without loss (Mpps)").from_zero(),
    )
    .level("10 GbE, 64 B: 14.88 Mpps", mpps(VirtualOptions::LINE_10G));
    let mut lost_at_line = 0;
    for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
        let name = order_name(order);
        let wire = wire(&small_frames(FLOWS, order, context.seed()))?;
        let mut points = Vec::new();
        for (place, (level, monitor)) in levels.iter().enumerate() {
            context.say(&format!("{name}, {level}"));
            let condition = Condition::new(*level, &wire, monitor.clone());
            let cost = context.cost(&wire, packets, &condition.link, monitor)?;
            let found = context.sustained(&condition, packets, Goal::Rfc2544)?;
            let link = VirtualOptions {
                packets: packets * 2,
                ..condition.link.clone()
            };
            let trial = context.trial(&wire, &link, monitor)?;
            lost_at_line += trial.ledger.lost();
            points.push(Point::new(place as f64, mpps(found.rate)));
            table.row(vec![
                name.as_str().into(),
                (*level).into(),
                cost.into(),
                mpps_of_cost(cost).into(),
                mpps(found.rate).into(),
                trial.ledger.lost().into(),
                trial.ledger.offered.into(),
            ]);
        }
        figure.series.push(Series::bars(&name, points));
    }
    outcome.figures.push(figure);
    outcome.tables.push(table);
    let absent = beside_others(context, &mut outcome);
    outcome.findings.push(Finding {
        paper: "FloWatcher receives as well as Speedometer and far better than MoonGen and pktgen; its flow level is \
                almost free, while MoonGen's costs 10 to 100 times the drops."
            .into(),
        holds: if lost_at_line == 0 {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "At 14.88 Mpps {} at either level, uniform or Zipf(1), in the virtual clock. testpmd's rxonly stands in \
             for Speedometer{}.",
            if lost_at_line == 0 {
                "nothing is lost".to_owned()
            } else {
                format!("{lost_at_line} packets are lost")
            },
            if absent.is_empty() {
                String::new()
            } else {
                format!("; {absent}")
            }
        ),
    });
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("packets a trial".into(), packets.to_string()),
    ];
    Ok(outcome)
}

/// The paper's other programs beside ours, each in turn with it; in words, which of them are not here.
fn beside_others(context: &mut Context<'_>, outcome: &mut Outcome) -> String {
    let mut table = Table::new(
        "tools",
        "Packets taken from net_null on one core, each program in turn with flowatch --level packet",
        &[
            "program",
            "Mpps",
            "95 % from",
            "to",
            "± by t",
            "flowatch, Mpps",
            "flowatch, times as fast",
            "95 % from (times)",
            "to (times)",
        ],
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut absent = Vec::new();
    let mut others = vec![(Receiver::Testpmd, "FloWatcher equals Speedometer")];
    for kind in Generator::ALL {
        match kind.find(&path) {
            Some(program) => others.push((
                Receiver::Generator(kind, program),
                "FloWatcher loses at least 100 times less",
            )),
            None => absent.push(format!("{} is not installed", kind.name())),
        }
    }
    for (other, paper) in others {
        if let Err(error) = beside(context, outcome, &mut table, &other, paper) {
            outcome.notes.push(format!("Not measured beside {error}."));
        }
    }
    if !table.rows.is_empty() {
        outcome.tables.push(table);
    }
    absent.join("; ")
}

/// flowatch's packet count and another program in turn.
fn beside(
    context: &mut Context<'_>,
    outcome: &mut Outcome,
    table: &mut Table,
    other: &Receiver,
    paper: &str,
) -> Result<(), TrialError> {
    let repetitions = context.repetitions(3, 10);
    let seconds = context.pick(1.5, 10.0);
    context.say(&format!("beside {}", other.name()));
    let rates = rates(&[Receiver::Flowatch, other.clone()], repetitions, seconds)?;
    let [ours, theirs] = [0, 1].map(|place| context.mean(&rates[place]));
    let ratio = paired_ratio(&rates[0], &rates[1]);
    table.row(vec![
        other.name().into(),
        mpps(theirs.value).into(),
        mpps(theirs.low).into(),
        mpps(theirs.high).into(),
        mpps(context.half_by_t(&rates[1])).into(),
        mpps(ours.value).into(),
        ratio.value.into(),
        ratio.low.into(),
        ratio.high.into(),
    ]);
    outcome.comparisons.push(Comparison {
        what: format!("packet count, flowatch against {}", other.name()),
        paper: paper.into(),
        here: format!(
            "{:.2} times ({:.2} to {:.2})",
            ratio.value, ratio.low, ratio.high
        ),
    });
    Ok(())
}
