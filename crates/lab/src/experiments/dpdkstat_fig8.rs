//! DPDKStat, figures 7 and 8: processing time of packets, and its outliers by sweep schedule.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use super::full_analysis::{full_monitor, real_wire};
use super::record_files::RecordFiles;
use super::recorded::{self, TRAFFIC};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Series};
use crate::statistics::quantile_of_sorted;
use crate::traffic::{small_frames, wire};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{VirtualOptions, Wire};
use export::Rotation;
use flow::{FlowDefinition, GarbageSchedule, Timeouts};
use generator::FlowOrder;
use hw::time::TickRate;
use std::sync::Arc;
use std::time::Duration;

const FLOWS: u32 = 1 << 18;

/// Packets per second of the timestamps: a sweep of 5 s runs twice in a short trial.
const STAMPED_PPS: f64 = 1e6;

/// The time that a ring of 4096 covers at 14.88 Mpps, in microseconds.
const RING_US: f64 = 4096.0 / 14.880_952;

/// Indices of [`cases`].
const WHOLE: usize = 0;
const SPLIT: usize = 2;
const OWN: usize = 3;
const OWN_WRITING: usize = 4;
const OWN_ANALYSING: usize = 5;

/// Quantiles below this ratio are the same.
const SAME: f64 = 1.3;

/// The paper's "orders of magnitude" start at this factor.
const MAGNITUDE: f64 = 10.0;

/// The work of the packet path besides the sweep.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    /// Count flows.
    Count,
    /// Count flows and write their records.
    Write,
    /// Fully analyse real traffic and write its records.
    Analyse,
}

/// A sweep schedule and a task.
struct Case {
    name: &'static str,
    schedule: GarbageSchedule,
    task: Task,
}

/// The outputs of records, compressed, with new files every second.
const OUTPUTS: [&str; 2] = ["csv:records.csv.zst", "tstat:logs"];
const ROTATION: Rotation = Rotation {
    period: Some(Duration::from_secs(1)),
    bytes: None,
};

fn cases() -> [Case; 6] {
    let case = |name, period_us, parts, fraction| Case {
        name,
        schedule: GarbageSchedule {
            period: Duration::from_micros(period_us),
            parts,
            fraction,
        },
        task: Task::Count,
    };
    let own = |name, task| Case {
        name,
        schedule: GarbageSchedule::default(),
        task,
    };
    [
        case("(5 s, 1)", 5_000_000, 1, 1.0),
        case("(50 ms, 1/100)", 50_000, 1, 0.01),
        // The meter's clock counts milliseconds: twice the share in twice the time.
        case("(0.5 ms, 1/10000)", 1_000, 1, 0.0002),
        own("flowatch's own", Task::Count),
        own("flowatch's own, writing", Task::Write),
        own("flowatch's own, analysing and writing", Task::Analyse),
    ]
}

/// Microseconds of each poll: the minimum over identical trials, which excludes disturbances by the
/// machine.
fn minimum(traces: &[Vec<(u16, u64)>]) -> Vec<f64> {
    let length = traces.iter().map(Vec::len).min().unwrap_or(0);
    let rate = TickRate::get().per_second() / 1e6;
    (0..length)
        .map(|poll| {
            let ticks = traces.iter().map(|trace| trace[poll].1).min();
            ticks.unwrap_or(0) as f64 / rate
        })
        .collect()
}

/// A monitor that counts flows with a short idle timeout.
fn counting(case: &Case) -> Monitor {
    let mut monitor = Monitor::counting(FLOWS as usize + FLOWS as usize / 8);
    monitor.options.meter.garbage = case.schedule;
    monitor.options.meter.timeouts = Timeouts {
        idle: Some(Duration::from_secs(2)),
        active: None,
        tcp_close: None,
    };
    monitor
}

/// Runs a trial that writes its records; returns the number of files too.
fn trial_with_files(
    context: &mut Context<'_>,
    wire: &Arc<Wire>,
    link: &VirtualOptions,
    monitor: &Monitor,
) -> Result<(Trial, usize), TrialError> {
    let mut files = RecordFiles::new(monitor, &OUTPUTS, Some(ROTATION))?;
    let trial = Trial::run_observed(wire, link, monitor, |batch| files.write(batch))?;
    context.trials.count(&trial.validity.reasons);
    Ok((trial, files.finish()?.1))
}

/// The trials of a case.
#[derive(Clone, Default)]
struct CaseTrials {
    /// Packets and ticks of each poll, by trial.
    traces: Vec<Vec<(u16, u64)>>,
    /// Records of the last trial, and the files that they were written to.
    records: u64,
    files: usize,
}

/// Runs the trials of all cases in ABBA order, over a wire, or over one of real traffic if there is any.
fn run_cases(
    context: &mut Context<'_>,
    cases: &[Case],
    repetitions: usize,
    (wire, link): (&Arc<Wire>, &VirtualOptions),
    real: Option<&(Arc<Wire>, VirtualOptions)>,
) -> Result<Vec<CaseTrials>, TrialError> {
    let mut trials = vec![CaseTrials::default(); cases.len()];
    for repetition in 0..repetitions {
        for index in crate::statistics::abba(cases.len(), repetition) {
            let case = &cases[index];
            context.progress(case.name);
            let (mut trial, files) = match case.task {
                Task::Count => (context.trial(wire, link, &counting(case))?, 0),
                Task::Write => {
                    let monitor = counting(case).with_flow(FlowDefinition::Bidirectional);
                    trial_with_files(context, wire, link, &monitor)?
                }
                Task::Analyse => {
                    let Some((wire, link)) = real else {
                        continue;
                    };
                    let monitor = full_monitor(wire.flows().len())?;
                    trial_with_files(context, wire, link, &monitor)?
                }
            };
            let case = &mut trials[index];
            (case.records, case.files) = (trial.report.flows.records, files);
            case.traces
                .extend(trial.queues.drain(..).map(|queue| queue.trace));
        }
    }
    Ok(trials)
}

pub(super) struct DpdkstatFig8;

pub(super) struct Results {
    packets: u64,
    repetitions: usize,
    /// By case; `None` if it needs real traffic and there is none.
    cases: Vec<(&'static str, Option<Measured>)>,
}

/// The polls of a case.
struct Measured {
    /// The minimum of each poll over the trials, in microseconds, in order and sorted.
    times: Vec<f64>,
    sorted: Vec<f64>,
    /// The longest poll after the first 2 %, which open the flows and let the table grow.
    longest_settled: f64,
    /// The longest poll of any trial.
    longest_of_any: f64,
    records: u64,
    files: usize,
}

impl Measured {
    fn of(trials: &CaseTrials) -> Self {
        let times = minimum(&trials.traces);
        let settled = &times[times.len() / 50..];
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let polls = trials.traces.iter().flatten();
        let any = polls.map(|poll| poll.1).max().unwrap_or(0);
        Self {
            longest_settled: settled.iter().copied().fold(0.0, f64::max),
            longest_of_any: any as f64 / (TickRate::get().per_second() / 1e6),
            times,
            sorted,
            records: trials.records,
            files: trials.files,
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        quantile_of_sorted(&self.sorted, share)
    }

    fn longest(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }
}

impl Results {
    /// A value of a case; NaN if the case was not measured.
    fn value(&self, case: usize, value: fn(&Measured) -> f64) -> f64 {
        let measured = self.cases.get(case).and_then(|case| case.1.as_ref());
        measured.map_or(f64::NAN, value)
    }

    /// The longest poll of a case, the start of the trial included.
    fn longest(&self, case: usize) -> f64 {
        self.value(case, Measured::longest)
    }

    /// Describes flowatch's own schedule with real traffic.
    fn analysing_text(&self) -> String {
        let analysing = self.longest(OWN_ANALYSING);
        if analysing.is_nan() {
            return "not measured with full analysis of real traffic".to_owned();
        }
        format!(
            "{analysing:.0} µs with full analysis of real traffic as well, the work on its packets included"
        )
    }
}

/// Whether a quantile of the polls is the same when the sweep is split.
fn judge_quantile(results: &Results, claim: &str, quantile: fn(&Measured) -> f64) -> Part {
    let whole = results.value(WHOLE, quantile);
    let split = results.value(SPLIT, quantile);
    Part::compared(
        claim,
        split / whole < SAME,
        format!("{whole:.1} µs with (5 s, 1) against {split:.1} µs with (0.5 ms, 1/10000)."),
    )
}

impl Experiment for DpdkstatFig8 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig8";
    const TITLE: &'static str = "Processing time, and outliers by the garbage schedule";
    const SOURCE: &'static str = "DPDKStat, figures 7 and 8";

    fn instrument() -> String {
        "Virtual clock with a wire that waits: every poll receives the same 256 packets in each trial, and the minimum \
         of its times over the trials excludes disturbances by the machine. A stall of flowatch's own repeats, so it \
         remains."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let repetitions = context.repetitions(3, 10);
        let packets = context.pick(6_500_000, 31_000_000);
        let wire = wire(&small_frames(FLOWS, FlowOrder::Zipf(1.0), context.seed()))?;
        let link = VirtualOptions {
            rate_pps: f64::INFINITY,
            timestamp_pps: STAMPED_PPS,
            packets,
            trace: true,
            truth: false,
            ..VirtualOptions::default()
        };
        let real = match recorded::mix() {
            Some(path) => {
                let packets = context.pick(1_000_000, 4_000_000);
                let link = VirtualOptions {
                    packets: packets as u64,
                    reports_hash: false,
                    ..link.clone()
                };
                Some((real_wire(&path, false, packets)?, link))
            }
            None => None,
        };
        let cases = cases();
        let trials = run_cases(context, &cases, repetitions, (&wire, &link), real.as_ref())?;
        let measured = cases.iter().zip(&trials).map(|(case, trials)| {
            let is_measured = !trials.traces.is_empty();
            (case.name, is_measured.then(|| Measured::of(trials)))
        });
        Ok(Results {
            packets,
            repetitions,
            cases: measured.collect(),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", format!("{FLOWS}, Zipf(1)")),
            parameter("packets", results.packets),
            parameter("packet time", format!("{} Mpps", STAMPED_PPS / 1e6)),
            parameter("trials", results.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let settled = |case| results.value(case, |measured| measured.longest_settled);
        let shrinks = settled(WHOLE) / settled(SPLIT);
        let (own, writing) = (results.longest(OWN), results.longest(OWN_WRITING));
        let longest = own.max(writing).max(results.longest(OWN_ANALYSING));
        vec![Finding::new(
            "Splitting garbage collection leaves the 75th and 95th percentile as they were, and shrinks the outliers \
             by orders of magnitude.",
            [
                judge_quantile(results, "The 75th percentile stays the same.", |measured| {
                    measured.quantile(0.75)
                }),
                judge_quantile(results, "The 95th percentile stays the same.", |measured| {
                    measured.quantile(0.95)
                }),
                Part::compared(
                    "The outliers shrink by orders of magnitude.",
                    shrinks > MAGNITUDE,
                    format!(
                        "The longest poll falls {shrinks:.1} times from (5 s, 1) to (0.5 ms, 1/10000). flowatch's own \
                         schedule has its longest stall at {own:.0} µs, {writing:.0} µs while records are written, \
                         compressed, and files rotated every second, {}: {} the 275 µs of a ring at line rate.",
                        results.analysing_text(),
                        if longest < RING_US { "below" } else { "above" }
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let settled = |case| results.value(case, |measured| measured.longest_settled);
        vec![
            Comparison::new(
                "longest poll, (5 s, 1) against (0.5 ms, 1/10000)",
                "outliers shrink 100 times a step",
                format!("{:.0} µs against {:.0} µs", settled(WHOLE), settled(SPLIT)),
            ),
            Comparison::new(
                "longest stall of the packet path with flowatch's own schedule",
                "must stay below the 275 µs that a ring of 4096 covers at 14.88 Mpps",
                format!(
                    "{:.0} µs, the start included; {:.0} µs with records written, compressed and files rotated every \
                     second; {}",
                    results.longest(OWN),
                    results.longest(OWN_WRITING),
                    results.analysing_text()
                ),
            ),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "polls",
            "Time of a poll of 256 packets, microseconds",
            &[
                "garbage schedule",
                "median",
                "75th percentile",
                "95th",
                "99th",
                "99.9th",
                "longest",
                "longest after the first 2 %",
                "longest of any trial",
                "records",
                "files written",
            ],
        );
        for (name, measured) in &results.cases {
            let Some(measured) = measured else { continue };
            let mut row = vec![(*name).into()];
            row.extend([0.5, 0.75, 0.95, 0.99, 0.999].map(|share| measured.quantile(share).into()));
            row.push(measured.longest().into());
            row.push(measured.longest_settled.into());
            row.push(measured.longest_of_any.into());
            row.push(measured.records.into());
            row.push(measured.files.into());
            table.row(row);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figure = Figure::new(
            "polls",
            "Share of the polls of 256 packets that take longer than a time, by garbage schedule (period, share of the \
             table).",
            Axis::log10("time of a poll (µs)"),
            Axis::log10("share of polls that take longer"),
        )
        .vertical("ring of 4096 at 14.88 Mpps", RING_US);
        for (name, measured) in &results.cases {
            if let Some(measured) = measured {
                figure.series.push(Series::survival(name, &measured.times));
            }
        }
        vec![figure]
    }

    fn notes(results: &Results) -> Vec<String> {
        let cases = results.cases.iter();
        cases
            .filter(|(_, measured)| measured.is_none())
            .map(|(name, _)| format!("{name}: not measured, because {TRAFFIC} is not set to a directory with real traffic."))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_of_each_poll_counts() {
        let rate = TickRate::get().per_second() / 1e6;
        let of = |times: &[u64]| {
            times
                .iter()
                .map(|&ticks| (256u16, ticks))
                .collect::<Vec<_>>()
        };
        let times = minimum(&[of(&[10, 900, 30]), of(&[500, 20, 31, 7])]);
        let ticks: Vec<u64> = times
            .iter()
            .map(|time| (time * rate).round() as u64)
            .collect();
        assert_eq!(ticks, [10, 20, 30]);
    }
}
