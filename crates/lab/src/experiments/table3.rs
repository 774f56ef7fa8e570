//! FloWatcher-DPDK, table III: programming models and schedulers.

use super::context::{Condition, Context, Cost, VIRTUAL_CLOCK, cost_table, mpps, parameter};
use super::experiment::Experiment;
use super::real_time::{
    Card, Load, RealTimeCondition, RealTimeResult, SOFTWARE_NIC, cores, ratio_text,
    real_time_table, real_time_trials,
};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::paired_ratio;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use engine::Model;
use generator::FlowOrder;
use hw::schedule::Schedule;
use std::time::Duration;

const FLOWS: u32 = 1 << 16;

const MODELS: [Model; 3] = [Model::RunToCompletion, Model::Pipeline, Model::Cooperative];

/// Runtime and period of the deadline scheduler; the paper's period of 20 µs is below the kernel's
/// minimum.
const RUNTIME: Duration = Duration::from_micros(900);
const PERIOD: Duration = Duration::from_micros(1000);

/// A generator and the two threads of a pipeline need this many cores.
const CORES_FOR_PIPELINE: usize = 3;

pub(super) struct Table3;

pub(super) struct Results {
    load: Load,
    /// In the virtual clock: run to completion, cooperative.
    costs: Vec<Cost>,
    /// In real time, by model and then scheduler; or why there was no measurement.
    real_time: Result<Vec<RealTimeResult>, String>,
}

/// The results that the paper compares: run to completion and pipeline under SCHED_OTHER, run to
/// completion under SCHED_DEADLINE.
struct Compared<'a> {
    completion: &'a RealTimeResult,
    deadline: &'a RealTimeResult,
    pipeline: &'a RealTimeResult,
}

impl<'a> Compared<'a> {
    fn of(results: &'a [RealTimeResult]) -> Option<Self> {
        Some(Self {
            completion: results.first()?,
            deadline: results.get(2)?,
            pipeline: results.get(3)?,
        })
    }
}

fn model_name(model: Model) -> &'static str {
    match model {
        Model::RunToCompletion => "run to completion",
        Model::Pipeline => "pipeline",
        Model::Cooperative => "cooperative",
        Model::SharedReading => "shared reading",
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

/// Every model under every scheduler.
fn conditions() -> Vec<RealTimeCondition> {
    let mut conditions = Vec::new();
    for model in MODELS {
        for (name, schedule) in schedules() {
            let mut monitor = Monitor::counting(FLOWS as usize).with_model(model);
            // The kernel refuses SCHED_DEADLINE to a thread that is pinned to a core.
            monitor.options.cores = if schedule.is_deadline() {
                Vec::new()
            } else {
                cores().1
            };
            monitor.options.schedules = vec![schedule];
            conditions.push(RealTimeCondition {
                name: format!("{}, {name}", model_name(model)),
                card: Card::default(),
                monitor,
            });
        }
    }
    conditions
}

fn judge_pipeline(compared: &Compared<'_>, repetitions: usize) -> Part {
    const CLAIM: &str = "Run to completion loses about 1.8 times what the pipeline loses.";
    let Compared {
        completion,
        pipeline,
        ..
    } = compared;
    let (lost, pipeline_lost) = (completion.drop_ratio.mean(), pipeline.drop_ratio.mean());
    let measured = format!(
        "{} against {}.",
        ratio_text(lost),
        ratio_text(pipeline_lost)
    );
    let cores = hw::cores::allowed().len();
    if cores < CORES_FOR_PIPELINE {
        return Part::not_compared(
            CLAIM,
            format!(
                "{measured} The pipeline's second thread shares a core with the generator ({cores} cores for three \
                 busy threads), so its drop ratio is not comparable."
            ),
        );
    }
    let is_conclusive =
        completion.is_conclusive(repetitions) && pipeline.is_conclusive(repetitions);
    Part::new(
        CLAIM,
        is_conclusive.then_some(lost > pipeline_lost),
        measured,
    )
}

fn judge_deadline(compared: &Compared<'_>, repetitions: usize) -> Part {
    let Compared {
        completion,
        deadline,
        ..
    } = compared;
    let is_worse = deadline.drop_ratio.mean() > completion.drop_ratio.mean();
    let is_conclusive =
        completion.is_conclusive(repetitions) && deadline.is_conclusive(repetitions);
    let reason = if !is_conclusive {
        "Not every condition had enough valid trials: the generator could not keep its rate."
    } else if is_worse {
        "It loses more: the thread is throttled at the end of its runtime. The factor is that of a machine that \
         stalls."
    } else {
        "It loses no more: the stalls of the machine outweigh it."
    };
    Part::new(
        "SCHED_DEADLINE loses a thousand times what SCHED_OTHER does.",
        is_conclusive.then_some(is_worse),
        format!(
            "{reason} {} against {}.",
            ratio_text(deadline.drop_ratio.mean()),
            ratio_text(completion.drop_ratio.mean())
        ),
    )
}

impl Experiment for Table3 {
    type Results = Results;

    const NAME: &'static str = "table3";
    const TITLE: &'static str = "Programming models and schedulers";
    const SOURCE: &'static str = "FloWatcher-DPDK, table III";

    fn instrument() -> String {
        format!("{VIRTUAL_CLOCK} {SOFTWARE_NIC}")
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(3, 10);
        let packets = context.pick(1 << 19, 1 << 24);
        let traffic = small_frames(FLOWS, FlowOrder::Uniform, context.seed());
        let wire = wire(&traffic)?;
        context.progress("models in the virtual clock");
        let models = [Model::RunToCompletion, Model::Cooperative].map(|model| {
            let monitor = Monitor::counting(FLOWS as usize).with_model(model);
            Condition::new(model_name(model), &wire, monitor)
        });
        let costs = context.costs(&models, packets, repetitions)?;
        let load = Load {
            rate_pps: VirtualOptions::LINE_10G,
            time: Duration::from_millis(context.pick(400, 10_000)),
            repetitions,
        };
        context.progress("models and schedulers over the software NIC");
        let real_time = real_time_trials(context, &traffic, load, &conditions());
        Ok(Results {
            load,
            costs,
            real_time: real_time.map_err(|error| error.to_string()),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        let time = format!("{:?}", results.load.time);
        vec![
            parameter("flows", FLOWS),
            parameter("rate", format!("{:.2} Mpps", mpps(results.load.rate_pps))),
            parameter("time of a trial in real time", time),
            parameter(
                "deadline",
                format!("{RUNTIME:?} in every {PERIOD:?} (the kernel's least period is 100 µs)"),
            ),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let repetitions = results.load.repetitions;
        let parts = match &results.real_time {
            Ok(trials) => Compared::of(trials).map_or_else(Vec::new, |compared| {
                vec![
                    judge_pipeline(&compared, repetitions),
                    judge_deadline(&compared, repetitions),
                ]
            }),
            Err(error) => {
                let reason =
                    format!("Schedulers and pipelines need real time, and the experiment {error}.");
                vec![Part::not_compared("", reason)]
            }
        };
        vec![Finding::new(
            "Run to completion loses about 1.8 times what the pipeline loses; SCHED_DEADLINE loses a thousand times \
             what SCHED_OTHER does.",
            parts,
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let ratio = paired_ratio(&results.costs[1].samples, &results.costs[0].samples);
        let mut comparisons = vec![Comparison::new(
            "cooperative against run to completion, cost of a packet",
            "-",
            format!(
                "{:.2} times ({:.2} to {:.2})",
                ratio.value, ratio.low, ratio.high
            ),
        )];
        let trials = results.real_time.as_deref().unwrap_or_default();
        if let Some(compared) = Compared::of(trials) {
            let [completion, deadline, pipeline] =
                [compared.completion, compared.deadline, compared.pipeline]
                    .map(|result| ratio_text(result.drop_ratio.mean()));
            comparisons.push(Comparison::new(
                "drop ratio, run to completion against pipeline (other)",
                "4.8 against 2.6 × 10⁻⁷: 1.8 times",
                format!("{completion} against {pipeline}"),
            ));
            comparisons.push(Comparison::new(
                "drop ratio under SCHED_DEADLINE against SCHED_OTHER (run to completion)",
                "about 1000 times",
                format!("{deadline} against {completion}"),
            ));
        }
        comparisons
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut tables = vec![cost_table(
            "virtual",
            "Models of one thread, in the virtual clock (the two threads of a pipeline meet in real time, so the \
             virtual clock cannot measure it)",
            "model",
            &results.costs,
        )];
        if let Ok(trials) = &results.real_time {
            tables.push(real_time_table("real", "model and scheduler", trials));
        }
        tables
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let Ok(trials) = &results.real_time else {
            return Vec::new();
        };
        let mut figure = Figure::new(
            "models",
            "Packet drop ratio at 14.88 Mpps in real time, 2¹⁶ uniform flows; mean of the trials with its bootstrap \
             95 % interval. Pale: nothing was lost; the upper bound is shown.",
            Axis::names("programming model", MODELS.map(model_name)),
            Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
        );
        for (index, (name, _)) in schedules().into_iter().enumerate() {
            let points =
                trials
                    .chunks(schedules().len())
                    .enumerate()
                    .filter_map(|(model, trials)| {
                        let result = trials.get(index)?;
                        let (lost, offered) = result.lost();
                        let mut point = Point::ratio(model as f64, lost, offered);
                        let interval = result.drop_ratio.interval;
                        if lost > 0 && interval.low > 0.0 {
                            point.error = Some((interval.low, interval.high));
                        }
                        Some(point)
                    });
            figure.series.push(Series::bars(name, points.collect()));
        }
        vec![figure]
    }

    fn notes(results: &Results) -> Vec<String> {
        let error = results.real_time.as_ref().err();
        error
            .map(|error| format!("Not measured in real time: {error}."))
            .into_iter()
            .collect()
    }
}
