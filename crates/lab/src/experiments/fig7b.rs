//! FloWatcher-DPDK, figure 7b: threads, light and heavy, on one core or two.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, cost_table, outcome};
use super::real_time::{
    Card, Load, RealCondition, SOFTWARE_NIC, cores, lost_of, ratio_text, real_table, real_trials,
    tell,
};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::paired_ratio;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use engine::Model;
use generator::FlowOrder;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig7b",
    title: "Cooperative tasks on a core, two threads on a core, two cores",
    source: "FloWatcher-DPDK, figure 7b",
    run,
};

const FLOWS: u32 = 1 << 16;

/// Rates over the software NIC, in Mpps.
const RATES: [f64; 4] = [1.0, 5.0, 10.0, 14.88];

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, &format!("{VIRTUAL_CLOCK} {SOFTWARE_NIC}"));
    let traffic = small_frames(FLOWS, FlowOrder::Uniform, context.seed());
    let wire = wire(&traffic)?;
    let repetitions = context.repetitions(3, 10);
    context.say("one core in the virtual clock");
    let conditions = [
        Condition::new(
            "run to completion",
            &wire,
            Monitor::counting(FLOWS as usize),
        ),
        Condition::new(
            "cooperative tasks",
            &wire,
            Monitor::counting(FLOWS as usize).with_model(Model::Cooperative),
        ),
    ];
    let costs = context.costs(&conditions, context.pick(1 << 19, 1 << 24), repetitions)?;
    let ratio = paired_ratio(&costs[1], &costs[0]);
    outcome.tables.push(cost_table(
        context,
        "virtual",
        "One core, in the virtual clock",
        "threads",
        &conditions,
        &costs,
    ));
    let (_, own) = cores();
    let one = own.first().copied();
    let with = |model: Model, cores: Vec<usize>| {
        let mut monitor = Monitor::counting(FLOWS as usize).with_model(model);
        monitor.options.cores = cores;
        monitor
    };
    let real: Vec<RealCondition> = [
        (
            "cooperative, one core",
            with(Model::Cooperative, one.into_iter().collect()),
        ),
        (
            "two threads, one core",
            with(Model::Pipeline, one.into_iter().collect()),
        ),
        ("two threads, two cores", with(Model::Pipeline, own)),
    ]
    .into_iter()
    .map(|(name, monitor)| RealCondition {
        name: name.into(),
        card: Card::default(),
        monitor,
    })
    .collect();
    let paper = "Two threads on two cores lose least; cooperative tasks on one core lose about ten times as much, and \
                 still keep the rate.";
    let mut figure = Figure::new(
        "threads",
        "Packet drop ratio by offered rate in real time. Hollow: nothing was lost, the bound that this sets.",
        Axis::linear("offered (Mpps)").from_zero(),
        Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
    );
    figure.series = real
        .iter()
        .map(|condition| Series::line(&condition.name, Vec::new()))
        .collect();
    let mut last = Vec::new();
    let mut failure = None;
    let repetitions = context.repetitions(2, 10);
    for rate in RATES {
        context.say(&format!("{rate} Mpps over the software NIC"));
        let load = Load {
            rate_pps: rate * 1e6,
            time: Duration::from_millis(context.pick(300, 10_000)),
            repetitions,
        };
        match real_trials(context, &traffic, load, &real) {
            Ok(results) => {
                for (series, trials) in figure.series.iter_mut().zip(&results) {
                    let (lost, offered) = lost_of(trials);
                    if offered > 0 {
                        series.points.push(Point::ratio(rate, lost, offered));
                    }
                }
                last = results;
            }
            Err(error) => {
                failure = Some(error.to_string());
                break;
            }
        }
    }
    match failure {
        None => {
            outcome.figures.push(figure);
            outcome.tables.push(real_table(
                context,
                "real",
                "threads, at 14.88 Mpps",
                &real,
                &last,
            ));
            let drop = |index: usize| {
                let (lost, offered) = lost_of(&last[index]);
                lost as f64 / offered as f64
            };
            outcome.comparisons.push(Comparison {
                what: "drop ratio at 14.88 Mpps: cooperative, two threads on a core, on two".into(),
                paper: "cooperative about 10 times two cores".into(),
                here: [0, 1, 2].map(|index| ratio_text(drop(index))).join(", "),
            });
            let worst = drop(1) >= drop(0);
            let known = last[..2].iter().all(|trials| tell(trials, repetitions));
            outcome.findings.push(Finding {
                paper: paper.into(),
                holds: match known {
                    false => Holds::Unknown,
                    true if worst => Holds::Partly,
                    true => Holds::No,
                },
                because: format!(
                    "{} Two cores cannot be shown fairly with the generator on one of {}. In the virtual clock \
                     cooperative tasks cost {:.2} times run to completion.",
                    if !known {
                        "At 14.88 Mpps too few trials were valid for a verdict: the generator could not keep its rate."
                    } else if worst {
                        "Two threads that share a core lose more than cooperative tasks: the kernel switches between \
                         them by milliseconds, tasks switch by bursts."
                    } else {
                        "Two threads that share a core lose no more than cooperative tasks in this run."
                    },
                    hw::cores::allowed().len(),
                    ratio.value
                ),
            });
        }
        Some(error) => {
            outcome
                .notes
                .push(format!("Not measured in real time: {error}."));
            outcome.findings.push(Finding {
                paper: paper.into(),
                holds: Holds::Unknown,
                because: format!(
                    "Threads need real time: {error}. In the virtual clock cooperative tasks cost {:.2} times run to \
                     completion.",
                    ratio.value
                ),
            });
        }
    }
    outcome.settings = vec![("flows".into(), FLOWS.to_string())];
    Ok(outcome)
}
