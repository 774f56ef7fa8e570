//! DPDKStat's rate: full analysis of 40 Gbit/s of real traffic on one core.

use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, parameter};
use super::experiment::Experiment;
use super::full_analysis::{self, IDLE, LONGEST, full_monitor, real_wire};
use super::real_time::{Load, RealTimeTrial, real_time_replay};
use super::record_files::RecordFiles;
use super::recorded::{self, TRAFFIC};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{VirtualOptions, Wire};
use generator::{FCS_BYTES, WIRE_OVERHEAD};
use hw::time::TickRate;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The paper's link, in bits per second.
const LINK: f64 = 40e9;

/// The output of the records.
const OUTPUTS: [&str; 1] = ["csv:records.csv"];

const CLAIM: &str = "40 Gbit/s of real traffic, 716 B per packet, are fully analysed without loss.";

pub(super) struct DpdkstatRate;

pub(super) struct Results {
    packets: usize,
    /// The capture; `None` if there is none.
    capture: Option<PathBuf>,
    /// With padded frames, then with frames as captured.
    frames: Vec<ByFrames>,
}

/// The measurements with frames padded to the paper's mean, or as captured.
struct ByFrames {
    name: &'static str,
    is_padded: bool,
    mean_bytes: f64,
    offered_pps: f64,
    /// Packets that each valid trial at 40 Gbit/s lost, sorted.
    lost: Vec<u64>,
    /// The median trial, and what followed it; `None` if no trial was valid.
    median: Option<Median>,
}

struct Median {
    trial: Trial,
    records: u64,
    /// The highest rate without loss, in packets per second.
    rate_pps: f64,
    /// The trial over the software NIC and its records, or why there is none.
    real_time: Result<(RealTimeTrial, u64), String>,
}

impl ByFrames {
    /// Trials without loss.
    fn lossless(&self) -> usize {
        self.lost.iter().filter(|&&lost| lost == 0).count()
    }

    /// The highest rate without loss on the wire, in Gbit/s; NaN without a valid trial.
    fn gigabits(&self) -> f64 {
        let rate = self
            .median
            .as_ref()
            .map_or(f64::NAN, |median| median.rate_pps);
        rate * (self.mean_bytes + WIRE_OVERHEAD as f64) * 8.0 / 1e9
    }

    fn measure(
        context: &mut Context<'_>,
        path: &Path,
        is_padded: bool,
        packets: usize,
    ) -> Result<Self, TrialError> {
        let name = if is_padded { "padded" } else { "as captured" };
        context.progress(&format!("{}, {name}", recorded::name(path)));
        let wire = real_wire(path, is_padded, packets)?;
        let monitor = full_monitor(wire.flows().len())?;
        let mean_bytes = wire.mean_wire_length();
        let link = VirtualOptions {
            rate_pps: LINK / ((mean_bytes + WIRE_OVERHEAD as f64) * 8.0),
            packets: packets as u64,
            reports_hash: false,
            truth: false,
            ..VirtualOptions::default()
        };
        let mut trials = Vec::new();
        for _ in 0..context.repetitions(3, 9) {
            let (trial, records) = trial_with_records(&wire, &link, &monitor)?;
            context.trials.count(&trial.validity.reasons);
            if trial.validity.is_valid() {
                trials.push((trial, records));
            }
        }
        trials.sort_by_key(|(trial, _)| trial.ledger.lost());
        let mut by_frames = Self {
            name,
            is_padded,
            mean_bytes,
            offered_pps: link.rate_pps,
            lost: trials
                .iter()
                .map(|(trial, _)| trial.ledger.lost())
                .collect(),
            median: None,
        };
        if trials.is_empty() {
            return Ok(by_frames);
        }
        let (trial, records) = trials.swap_remove(trials.len() / 2);
        let real_time = measure_real_time(context, path, is_padded, link.rate_pps, &monitor)
            .map_err(|error| error.to_string());
        let condition = Condition::new(name, &wire, monitor).over(link);
        let goal = Goal::Noisy {
            loss_max: 0.0,
            trials: context.pick(1, 3),
        };
        let found = context.sustained(&condition, packets as u64, goal)?;
        by_frames.median = Some(Median {
            trial,
            records,
            rate_pps: found.rate,
            real_time,
        });
        Ok(by_frames)
    }
}

/// Runs a trial while this thread writes its records; returns their number too.
fn trial_with_records(
    wire: &Arc<Wire>,
    link: &VirtualOptions,
    monitor: &Monitor,
) -> Result<(Trial, u64), TrialError> {
    let mut files = RecordFiles::new(monitor, &OUTPUTS, None)?;
    let trial = Trial::run_observed(wire, link, monitor, |batch| files.write(batch))?;
    Ok((trial, files.finish()?.0))
}

/// Runs the same in real time over the software NIC; returns the number of records too.
fn measure_real_time(
    context: &mut Context<'_>,
    path: &Path,
    is_padded: bool,
    rate_pps: f64,
    monitor: &Monitor,
) -> Result<(RealTimeTrial, u64), TrialError> {
    let time = Duration::from_millis(context.pick(100, 1000));
    let packets = (rate_pps * time.as_secs_f64()) as usize;
    // The card's buffers do not hold frames that the capturing host reassembled from several.
    let recording = recorded::load_up_to(path, LONGEST - FCS_BYTES)?;
    let mut replay = full_analysis::replay(recording, is_padded, packets)?;
    let mut files = RecordFiles::new(monitor, &OUTPUTS, None)?;
    let load = Load {
        rate_pps,
        time,
        repetitions: 1,
    };
    let trial = real_time_replay(context, &mut replay, load, monitor, |batch| {
        files.write(batch);
    })?;
    Ok((trial, files.finish()?.0))
}

/// The longest poll that the machine did not stall, in microseconds.
fn longest_poll(trial: &Trial) -> f64 {
    let ticks = trial.queues.iter().map(|queue| queue.own_worst).max();
    TickRate::get().to_ns(ticks.unwrap_or(0)) as f64 / 1e3
}

fn rates_table(frames: &[ByFrames]) -> Table {
    let mut table = Table::new(
        "rates",
        "One core: 40 Gbit/s offered, every record written; and the highest rate without loss",
        &[
            "frames",
            "mean frame, B",
            "offered, Mpps",
            "packets offered",
            "trials",
            "of them without loss",
            "lost, median",
            "records written",
            "ns per packet",
            "longest poll, us",
            "most in the ring of 4096",
            "stalls clipped",
            "highest rate without loss, Mpps",
            "the same on the wire, Gbit/s",
        ],
    );
    for by_frames in frames {
        let Some(median) = &by_frames.median else {
            continue;
        };
        let trial = &median.trial;
        table.row(vec![
            by_frames.name.into(),
            by_frames.mean_bytes.into(),
            mpps(by_frames.offered_pps).into(),
            trial.ledger.offered.into(),
            by_frames.lost.len().into(),
            by_frames.lossless().into(),
            trial.ledger.lost().into(),
            median.records.into(),
            trial.ns_per_packet.into(),
            longest_poll(trial).into(),
            trial.occupancy_max.into(),
            trial.stalls.into(),
            mpps(median.rate_pps).into(),
            by_frames.gigabits().into(),
        ]);
    }
    table
}

fn real_time_table(frames: &[ByFrames]) -> Table {
    let mut table = Table::new(
        "software-nic",
        "The same 40 Gbit/s in real time over the software NIC, generator and writer sharing a core",
        &[
            "frames",
            "sent, Mpps",
            "offered",
            "lost",
            "drop ratio",
            "records written",
            "remarks",
        ],
    );
    for by_frames in frames {
        let median = by_frames.median.as_ref();
        if let Some(Ok((trial, records))) = median.map(|median| &median.real_time) {
            table.row(vec![
                by_frames.name.into(),
                mpps(trial.sent_pps).into(),
                trial.ledger.offered.into(),
                trial.ledger.lost().into(),
                trial.ledger.drop_ratio().into(),
                (*records).into(),
                trial.validity.description().into(),
            ]);
        }
    }
    table
}

impl Experiment for DpdkstatRate {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-rate";
    const TITLE: &'static str = "40 Gbit/s of real traffic analysed on one core";
    const SOURCE: &'static str = "DPDKStat, section 5: 40 Gbit/s at 716 B per packet";

    fn instrument() -> String {
        format!(
            "{VIRTUAL_CLOCK} Another thread writes the records, with all columns, to a file while the trial runs."
        )
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(1_000_000, 2_000_000);
        let capture = recorded::any();
        let mut frames = Vec::new();
        if let Some(path) = &capture {
            for is_padded in [true, false] {
                frames.push(ByFrames::measure(context, path, is_padded, packets)?);
            }
        }
        Ok(Results {
            packets,
            capture,
            frames,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        let Some(path) = &results.capture else {
            return Vec::new();
        };
        vec![
            parameter(
                "traffic",
                format!(
                    "{}; over the software NIC without frames of more than {LONGEST} B",
                    recorded::name(path)
                ),
            ),
            parameter("statistics", "full"),
            parameter("idle timeout", format!("{} ms", IDLE.as_millis())),
            parameter("packets", results.packets),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let padded = results.frames.iter().find(|frames| frames.is_padded);
        let part = match padded {
            None => Part::not_compared(
                "",
                format!(
                    "There is no real traffic: {TRAFFIC} is not set to a directory with it, and the shipped capture is \
                     found only when the program runs in the source tree."
                ),
            ),
            Some(padded) if padded.lost.is_empty() => {
                Part::not_compared("", "No trial at 40 Gbit/s was valid.")
            }
            Some(padded) => Part::compared(
                "",
                padded.lossless() == padded.lost.len(),
                format!(
                    "At 40 Gbit/s one core lost none of {} packets in {} of {} trials; the highest rate without loss \
                     is {:.1} Gbit/s.",
                    results.packets,
                    padded.lossless(),
                    padded.lost.len(),
                    padded.gigabits()
                ),
            ),
        };
        vec![Finding::new(CLAIM, [part])]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let padded = results.frames.iter().filter(|frames| frames.is_padded);
        padded
            .map(|padded| {
                Comparison::new(
                    "fully analysed without loss",
                    "40 Gbit/s on 4 links, with 8 cores of processing",
                    format!("{:.1} Gbit/s on one core", padded.gigabits()),
                )
            })
            .collect()
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let tables = [
            rates_table(&results.frames),
            real_time_table(&results.frames),
        ];
        let tables = tables.into_iter();
        tables.filter(|table| !table.rows.is_empty()).collect()
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let measured = || {
            results
                .frames
                .iter()
                .filter(|frames| frames.median.is_some())
        };
        if measured().count() == 0 {
            return Vec::new();
        }
        let names = measured()
            .map(|frames| format!("{}: {:.0} B on average", frames.name, frames.mean_bytes));
        let rates = measured().enumerate();
        let points = rates.map(|(index, frames)| Point::new(index as f64, frames.gigabits()));
        vec![
            Figure::new(
                "rates",
                "The highest rate on the wire that one core analyses fully without a lost packet.",
                Axis::names("frames", names),
                Axis::linear("highest rate without loss (Gbit/s)").from_zero(),
            )
            .with(Series::bars("", points.collect()))
            .horizontal("40 Gbit/s", LINK / 1e9),
        ]
    }

    fn notes(results: &Results) -> Vec<String> {
        let mut notes = Vec::new();
        for frames in &results.frames {
            match &frames.median {
                None => notes.push(format!("{}: no trial at 40 Gbit/s was valid.", frames.name)),
                Some(median) => notes.extend(
                    median
                        .real_time
                        .as_ref()
                        .err()
                        .map(|error| format!("Software NIC: {error}.")),
                ),
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::full_analysis::PAPER_BYTES;
    use super::*;

    #[test]
    fn analyses_every_packet_and_writes_every_record() {
        let shipped =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/example.pcap");
        let wire = real_wire(&shipped, true, 2000).unwrap();
        assert!((wire.mean_wire_length() - PAPER_BYTES).abs() < 40.0);
        let monitor = full_monitor(wire.flows().len()).unwrap();
        let link = VirtualOptions {
            rate_pps: f64::INFINITY,
            packets: 2000,
            reports_hash: false,
            truth: false,
            ..VirtualOptions::default()
        };
        let (trial, records) = trial_with_records(&wire, &link, &monitor).unwrap();
        assert_eq!(trial.ledger.received, 2000);
        assert_eq!(trial.ledger.lost(), 0);
        let counted: u64 = trial
            .report
            .queues
            .iter()
            .map(|queue| queue.flows.records)
            .sum();
        assert!(records > 0);
        assert_eq!(records, counted);
    }
}
