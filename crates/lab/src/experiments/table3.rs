//! FloWatcher-DPDK, table III: programming models and schedulers.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, cost_table, mpps, outcome};
use super::real_time::{
    Card, Load, Real, RealCondition, SOFTWARE_NIC, cores, drop_ratios, lost_of, ratio_text,
    real_table, real_trials, tell,
};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{mean, paired_ratio};
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use engine::Model;
use generator::FlowOrder;
use hw::schedule::Schedule;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "table3",
    title: "Programming models and schedulers",
    source: "FloWatcher-DPDK, table III",
    run,
};

const FLOWS: u32 = 1 << 16;

const MODELS: [Model; 3] = [Model::RunToCompletion, Model::Pipeline, Model::Cooperative];

const PAPER: &str = "Run to completion loses about 1.8 times what the pipeline loses; SCHED_DEADLINE loses a \
    thousand times what SCHED_OTHER does.";

/// Runtime and period of the deadline scheduler; the paper's period of 20 µs is below the kernel's least.
const RUNTIME: Duration = Duration::from_micros(900);
const PERIOD: Duration = Duration::from_micros(1000);

fn model_name(model: Model) -> &'static str {
    match model {
        Model::RunToCompletion => "run to completion",
        Model::Pipeline => "pipeline",
        Model::Cooperative => "cooperative",
    }
}

fn schedules() -> [(&'static str, Schedule); 3] {
    [
        ("other", Schedule::Other),
        ("fifo", Schedule::Fifo(50)),
        (
            "deadline",
            Schedule::Deadline {
                runtime: RUNTIME,
                deadline: PERIOD,
                period: PERIOD,
            },
        ),
    ]
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, &format!("{VIRTUAL_CLOCK} {SOFTWARE_NIC}"));
    let repetitions = context.repetitions(3, 10);
    let packets = context.pick(1 << 19, 1 << 24);
    let traffic = small_frames(FLOWS, FlowOrder::Uniform, context.seed());
    let wire = wire(&traffic)?;
    context.say("models in the virtual clock");
    let conditions: Vec<Condition> = [Model::RunToCompletion, Model::Cooperative]
        .into_iter()
        .map(|model| {
            let monitor = Monitor::counting(FLOWS as usize).with_model(model);
            Condition::new(model_name(model), &wire, monitor)
        })
        .collect();
    let costs = context.costs(&conditions, packets, repetitions)?;
    let virtual_ratio = paired_ratio(&costs[1], &costs[0]);
    outcome.tables.push(cost_table(
        context,
        "virtual",
        "Models of one thread, in the virtual clock (a pipeline's two threads meet in real time, so it has no place \
         there)",
        "model",
        &conditions,
        &costs,
    ));
    outcome.comparisons.push(Comparison {
        what: "cooperative against run to completion, cost of a packet".into(),
        paper: "-".into(),
        here: format!(
            "{:.2} times ({:.2} to {:.2})",
            virtual_ratio.value, virtual_ratio.low, virtual_ratio.high
        ),
    });
    let load = Load {
        rate_pps: VirtualOptions::LINE_10G,
        time: Duration::from_millis(context.pick(400, 10_000)),
        repetitions: context.repetitions(3, 10),
    };
    context.say("models and schedulers over the software NIC");
    let real = real_conditions();
    match real_trials(context, &traffic, load, &real) {
        Ok(results) => {
            outcome.figures.push(drop_figure(context, &results));
            outcome.tables.push(real_table(
                context,
                "real",
                "model and scheduler",
                &real,
                &results,
            ));
            judge(&mut outcome, &results, load.repetitions);
        }
        Err(error) => {
            outcome
                .notes
                .push(format!("Not measured in real time: {error}."));
            outcome.findings.push(Finding {
                paper: PAPER.into(),
                holds: Holds::Unknown,
                because: format!("Schedulers and pipelines need real time: {error}."),
            });
        }
    }
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("rate".into(), format!("{:.2} Mpps", mpps(load.rate_pps))),
        (
            "time of a trial in real time".into(),
            format!("{:?}", load.time),
        ),
        (
            "deadline".into(),
            format!("{RUNTIME:?} in every {PERIOD:?} (the kernel's least period is 100 µs)"),
        ),
    ];
    Ok(outcome)
}

/// Every model under every scheduler.
fn real_conditions() -> Vec<RealCondition> {
    let mut real: Vec<RealCondition> = Vec::new();
    for model in MODELS {
        for (name, schedule) in schedules() {
            let mut monitor = Monitor::counting(FLOWS as usize).with_model(model);
            // A deadline thread may not be kept on one core: the kernel wants it free to move.
            if schedule.is_deadline() {
                monitor.options.cores = Vec::new();
            } else {
                monitor.options.cores = cores().1;
            }
            monitor.options.schedules = vec![schedule];
            real.push(RealCondition {
                name: format!("{}, {name}", model_name(model)),
                card: Card::default(),
                monitor,
            });
        }
    }
    real
}

/// What each of them dropped.
fn drop_figure(context: &Context<'_>, results: &[Vec<Real>]) -> Figure {
    let mut figure = Figure::new(
        "models",
        "Packet drop ratio at 14.88 Mpps in real time, 2¹⁶ uniform flows; mean of the trials with its \
         bootstrap 95 % interval. Pale: nothing was lost, the bound that this sets.",
        Axis::names("programming model", MODELS.map(model_name)),
        Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
    );
    for (index, (name, _)) in schedules().into_iter().enumerate() {
        let points = (0..MODELS.len())
            .map(|model| {
                let trials = &results[model * 3 + index];
                let (lost, offered) = lost_of(trials);
                let mut point = Point::ratio(model as f64, lost, offered);
                let interval = context.mean(&drop_ratios(trials));
                if lost > 0 && interval.low > 0.0 {
                    point.error = Some((interval.low, interval.high));
                }
                point
            })
            .collect();
        figure.series.push(Series::bars(name, points));
    }
    figure
}

/// Holds the drop ratios against the paper's, of so many trials each.
fn judge(outcome: &mut Outcome, results: &[Vec<Real>], repetitions: usize) {
    let ratio = |index: usize| mean(&drop_ratios(&results[index]));
    let (completion, pipeline) = (ratio(0), ratio(3));
    let deadline = ratio(2);
    outcome.comparisons.push(Comparison {
        what: "drop ratio, run to completion against pipeline (other)".into(),
        paper: "4.8 against 2.6 × 10⁻⁷: 1.8 times".into(),
        here: format!(
            "{} against {}",
            ratio_text(completion),
            ratio_text(pipeline)
        ),
    });
    outcome.comparisons.push(Comparison {
        what: "drop ratio under SCHED_DEADLINE against SCHED_OTHER (run to completion)".into(),
        paper: "about 1000 times".into(),
        here: format!(
            "{} against {}",
            ratio_text(deadline),
            ratio_text(completion)
        ),
    });
    let worse = deadline > completion;
    let known = [0, 2, 3]
        .iter()
        .all(|&index| tell(&results[index], repetitions));
    outcome.findings.push(Finding {
        paper: PAPER.into(),
        holds: if !known {
            Holds::Unknown
        } else if worse && completion > pipeline {
            Holds::Yes
        } else if worse {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "{} The pipeline's second thread shares a core with the generator here ({} cores for three busy \
             threads), so its figure is no fair one, and all ratios are those of a machine that stalls.",
            if !known {
                "Not every condition had a valid trial: the generator could not keep its rate."
            } else if worse {
                "SCHED_DEADLINE loses more than SCHED_OTHER: the thread is throttled at the end of its runtime."
            } else {
                "SCHED_DEADLINE loses no more than SCHED_OTHER: the stalls of the machine outweigh it."
            },
            hw::cores::allowed().len()
        ),
    });
}
