//! FloWatcher-DPDK, figure 5b: the number of receive queues.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5b",
    title: "Receive queues",
    source: "FloWatcher-DPDK, figure 5b",
    run,
};

const QUEUES: [u32; 4] = [1, 2, 3, 4];
const FLOWS: u32 = 1 << 16;

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!(
            "{VIRTUAL_CLOCK} Each queue has a clock of its own, as if its thread had a core to itself: \
             caches and memory that several cores would share are not."
        ),
    );
    let packets = context.pick(1 << 19, 1 << 23);
    let mut table = Table::new(
        "queues",
        "The highest rate of the whole link without loss, a thread and a table a queue; and the trial at 14.88 Mpps",
        &[
            "flows",
            "queues",
            "highest rate without loss, Mpps",
            "the same a queue",
            "share of the fullest queue",
            "drop ratio at 14.88 Mpps",
            "lost",
            "offered",
        ],
    );
    let mut figure = Figure::new(
        "queues",
        "The highest rate of the link without loss, by its receive queues; packets are steered by \
         Toeplitz hash over a redirection table of 128 entries.",
        Axis::names(
            "receive queues, each with a thread of its own",
            QUEUES.map(|queues| queues.to_string()),
        ),
        Axis::linear("highest rate without loss (Mpps)").from_zero(),
    )
    .level("10 GbE, 64 B", mpps(VirtualOptions::LINE_10G));
    let mut gains = Vec::new();
    let mut one = Vec::new();
    for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
        let name = order_name(order);
        let wire = wire(&small_frames(FLOWS, order, context.seed()))?;
        let mut points = Vec::new();
        let mut first = f64::NAN;
        for (place, queues) in QUEUES.into_iter().enumerate() {
            context.say(&format!("{name}, {queues} queues"));
            let link = VirtualOptions {
                queues,
                packets: packets * 2,
                ..VirtualOptions::default()
            };
            let monitor = Monitor::counting(FLOWS as usize);
            let trial = context.trial(&wire, &link, &monitor)?;
            let fullest = trial.queues.iter().map(|queue| queue.offered).max();
            let share = fullest.unwrap_or(0) as f64 / trial.ledger.offered.max(1) as f64;
            let condition = Condition::new(name.clone(), &wire, monitor).over(link);
            let found =
                context.sustained(&condition, packets * u64::from(queues), Goal::Rfc2544)?;
            let rate = mpps(found.rate);
            if place == 0 {
                first = rate;
                one.push(format!("{rate:.1} Mpps {name}"));
            }
            gains.push((name.clone(), queues, rate / first));
            points.push(Point::new(place as f64, rate));
            table.row(vec![
                name.as_str().into(),
                queues.into(),
                rate.into(),
                (rate / f64::from(queues)).into(),
                share.into(),
                trial.ledger.drop_ratio().into(),
                trial.ledger.lost().into(),
                trial.ledger.offered.into(),
            ]);
        }
        figure.series.push(Series::bars(&name, points));
    }
    outcome.figures.push(figure);
    outcome.tables.push(table);
    let gain = |name: &str, queues: u32| {
        gains
            .iter()
            .find(|(of, count, _)| of == name && *count == queues)
            .map_or(f64::NAN, |(_, _, gain)| *gain)
    };
    outcome.comparisons.push(Comparison {
        what: "rate of 2 queues, times that of 1".into(),
        paper: "(drop ratio) best at 2 queues".into(),
        here: format!(
            "{:.2} uniform, {:.2} Zipf(1)",
            gain("uniform", 2),
            gain("Zipf(1)", 2)
        ),
    });
    outcome.findings.push(Finding {
        paper: "Two receive queues lose least; with more of them the drop ratio rises again.".into(),
        holds: if gain("uniform", 2) > 1.3 && gain("uniform", 4) < gain("uniform", 2) {
            Holds::Yes
        } else {
            Holds::Partly
        },
        because: format!(
            "One queue bears {} without loss (10 GbE is 14.88). Two carry {:.2} times the rate of one, four {:.2} \
             times, uniform: here each queue's core is modelled alone, so what made more queues worse on the paper's \
             machine (a device and cores that they shared) is not seen. Under Zipf(1) the fullest queue sets \
             the rate ({:.2} times with four).",
            one.join(", "),
            gain("uniform", 2),
            gain("uniform", 4),
            gain("Zipf(1)", 4)
        ),
    });
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("packets a trial and queue".into(), packets.to_string()),
        ("goal of the search".into(), Goal::Rfc2544.description()),
    ];
    Ok(outcome)
}
