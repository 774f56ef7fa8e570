//! FloWatcher-DPDK, figure 7b: threads and cooperative tasks on one core or two.

use super::context::{
    Condition, Context, Cost, VIRTUAL_CLOCK, cost_table, parameter, repetitions_parameter,
};
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
use engine::Model;
use generator::FlowOrder;
use std::time::Duration;

const FLOWS: u32 = 1 << 16;

/// Rates over the software NIC, in Mpps; the last one is judged.
const RATES: [f64; 4] = [1.0, 5.0, 10.0, 14.88];

/// A generator and two threads of a monitor need this many cores.
const CORES_FOR_TWO_THREADS: usize = 3;

/// Ratios that count as about ten.
const TEN_TIMES: [f64; 2] = [5.0, 20.0];

pub(super) struct Fig7b;

pub(super) struct Results {
    repetitions: usize,
    /// In the virtual clock: run to completion, cooperative tasks.
    costs: Vec<Cost>,
    /// In real time, by rate and condition; or why there was no measurement.
    real_time: Result<Vec<Vec<RealTimeResult>>, String>,
}

impl Results {
    /// The cost of cooperative tasks as a multiple of run to completion's.
    fn cooperative_ratio(&self) -> f64 {
        paired_ratio(&self.costs[1].samples, &self.costs[0].samples).value
    }
}

/// Cooperative tasks on one core, two threads on one core, two threads on two cores.
fn conditions() -> Vec<RealTimeCondition> {
    let (_, own) = cores();
    let one: Vec<usize> = own.first().copied().into_iter().collect();
    [
        ("cooperative, one core", Model::Cooperative, one.clone()),
        ("two threads, one core", Model::Pipeline, one),
        ("two threads, two cores", Model::Pipeline, own),
    ]
    .into_iter()
    .map(|(name, model, cores)| {
        let mut monitor = Monitor::counting(FLOWS as usize).with_model(model);
        monitor.options.cores = cores;
        RealTimeCondition {
            name: name.into(),
            card: Card::default(),
            monitor,
        }
    })
    .collect()
}

fn measure_real_time(context: &mut Context<'_>) -> Result<Vec<Vec<RealTimeResult>>, TrialError> {
    let traffic = small_frames(FLOWS, FlowOrder::Uniform, context.seed());
    let conditions = conditions();
    let mut by_rate = Vec::new();
    for rate in RATES {
        context.progress(&format!("{rate} Mpps over the software NIC"));
        let load = Load {
            rate_pps: rate * 1e6,
            time: Duration::from_millis(context.pick(300, 10_000)),
            repetitions: context.repetitions(2, 10),
        };
        by_rate.push(real_time_trials(context, &traffic, load, &conditions)?);
    }
    Ok(by_rate)
}

/// Compares with two threads on two cores; `holds` gets the drop ratios at the last rate by condition.
fn judge_two_cores(results: &Results, claim: &str, holds: fn([f64; 3]) -> bool) -> Part {
    let cores = hw::cores::allowed().len();
    if cores < CORES_FOR_TWO_THREADS {
        let reason = format!(
            "The generator uses one of {cores} cores, so two threads on two cores cannot be compared fairly."
        );
        return Part::not_compared(claim, reason);
    }
    let line_rate = match &results.real_time {
        Ok(by_rate) => by_rate.last().map_or(&[][..], Vec::as_slice),
        Err(error) => return Part::not_compared(claim, format!("The experiment {error}.")),
    };
    let [cooperative, one_core, two_cores] = line_rate else {
        return Part::not_compared(claim, "No rate was measured.");
    };
    let is_conclusive = line_rate
        .iter()
        .all(|result| result.is_conclusive(result.trials.len()));
    let ratios = [cooperative, one_core, two_cores].map(RealTimeResult::total_drop_ratio);
    Part::new(
        claim,
        is_conclusive.then(|| holds(ratios)),
        format!("{} at 14.88 Mpps.", ratios.map(ratio_text).join(", ")),
    )
}

/// Compares cooperative tasks with two threads that share their core.
fn judge_shared_core(results: &Results) -> Part {
    const CLAIM: &str =
        "Cooperative tasks on one core keep the rate, better than two threads on that core.";
    let costs = format!(
        "In the virtual clock cooperative tasks cost {:.2} times run to completion.",
        results.cooperative_ratio()
    );
    let by_rate = match &results.real_time {
        Ok(by_rate) => by_rate,
        Err(error) => {
            let reason = format!("Threads need real time, and the experiment {error}. {costs}");
            return Part::not_compared(CLAIM, reason);
        }
    };
    let line_rate = by_rate.last().map_or(&[][..], |results| &results[..2]);
    let [cooperative, threads] = line_rate else {
        return Part::not_compared(CLAIM, costs);
    };
    let is_conclusive = line_rate
        .iter()
        .all(|result| result.is_conclusive(result.trials.len()));
    let is_worse = threads.total_drop_ratio() >= cooperative.total_drop_ratio();
    let reason = if !is_conclusive {
        "At 14.88 Mpps too few trials were valid for a verdict: the generator could not keep its rate."
    } else if is_worse {
        "Two threads that share a core lose more than cooperative tasks: the kernel switches threads every few \
         milliseconds, tasks switch after each burst."
    } else {
        "Two threads that share a core lose no more than cooperative tasks in this run."
    };
    Part::new(
        CLAIM,
        is_conclusive.then_some(is_worse),
        format!("{reason} {costs}"),
    )
}

impl Experiment for Fig7b {
    type Results = Results;

    const NAME: &'static str = "fig7b";
    const TITLE: &'static str = "Cooperative tasks on a core, two threads on a core, two cores";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 7b";

    fn instrument() -> String {
        format!("{VIRTUAL_CLOCK} {SOFTWARE_NIC}")
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let wire = wire(&small_frames(FLOWS, FlowOrder::Uniform, context.seed()))?;
        let repetitions = context.repetitions(3, 10);
        context.progress("one core in the virtual clock");
        let counting = || Monitor::counting(FLOWS as usize);
        let conditions = [
            Condition::new("run to completion", &wire, counting()),
            Condition::new(
                "cooperative tasks",
                &wire,
                counting().with_model(Model::Cooperative),
            ),
        ];
        let packets = context.pick(1 << 19, 1 << 24);
        let costs = context.costs(&conditions, packets, repetitions)?;
        Ok(Results {
            repetitions,
            costs,
            real_time: measure_real_time(context).map_err(|error| error.to_string()),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            repetitions_parameter(results.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        vec![Finding::new(
            "Two threads on two cores lose least; cooperative tasks on one core lose about ten times as much, and \
             still keep the rate.",
            [
                judge_two_cores(
                    results,
                    "Two threads on two cores lose least.",
                    |[cooperative, one_core, two_cores]| {
                        two_cores <= cooperative && two_cores <= one_core
                    },
                ),
                judge_two_cores(
                    results,
                    "Cooperative tasks on one core lose about ten times as much.",
                    |[cooperative, _, two_cores]| {
                        (TEN_TIMES[0]..=TEN_TIMES[1]).contains(&(cooperative / two_cores))
                    },
                ),
                judge_shared_core(results),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let Some(line_rate) = results.real_time.iter().flatten().last() else {
            return Vec::new();
        };
        let ratios: Vec<String> = line_rate
            .iter()
            .map(|result| ratio_text(result.total_drop_ratio()))
            .collect();
        vec![Comparison::new(
            "drop ratio at 14.88 Mpps: cooperative, two threads on a core, on two",
            "cooperative about 10 times two cores",
            ratios.join(", "),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut tables = vec![cost_table(
            "virtual",
            "One core, in the virtual clock",
            "threads",
            &results.costs,
        )];
        if let Some(line_rate) = results.real_time.iter().flatten().last() {
            tables.push(real_time_table("real", "threads, at 14.88 Mpps", line_rate));
        }
        tables
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let Ok(by_rate) = &results.real_time else {
            return Vec::new();
        };
        let mut figure = Figure::new(
            "threads",
            "Packet drop ratio by offered rate in real time. Hollow: nothing was lost; the upper bound is shown.",
            Axis::linear("offered (Mpps)").from_zero(),
            Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
        );
        for (index, condition) in conditions().iter().enumerate() {
            let points = RATES.iter().zip(by_rate).filter_map(|(rate, results)| {
                let (lost, offered) = results.get(index)?.lost();
                (offered > 0).then(|| Point::ratio(*rate, lost, offered))
            });
            figure
                .series
                .push(Series::line(&condition.name, points.collect()));
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
