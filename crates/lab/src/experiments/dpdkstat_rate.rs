//! DPDKStat's rate: 40 Gbit/s of real traffic analysed whole, on one core.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, outcome};
use super::real_time::{Load, Real, real_replay};
use super::recorded::{self, TRAFFIC};
use super::writing::Writing;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::wire_of_replay;
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{VirtualOptions, Wire};
use flow::statistic::Estimator;
use flow::{FlowDefinition, Timeouts};
use generator::{FCS_BYTES, Recording, Replay, WIRE_OVERHEAD};
use hw::time::TickRate;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-rate",
    title: "40 Gbit/s of real traffic analysed on one core",
    source: "DPDKStat, section 5: 40 Gbit/s at 716 B a packet",
    run,
};

/// The mean frame of the paper, in bytes, and its link.
const PAPER_BYTES: f64 = 716.0;
const LINK: f64 = 40e9;

/// The longest frame, in bytes.
const LONGEST: usize = 1518;

/// Where the records go.
const OUTPUTS: [&str; 1] = ["csv:records.csv"];

/// A second of the link has as many packets as an hour of the capture's networks: flows end after so
/// much silence that thousands of records are written within a trial.
const IDLE: Duration = Duration::from_millis(20);

/// All of the analysis, of both directions.
///
/// # Errors
/// Never: there are such statistics.
pub fn monitor(flows_max: usize) -> Result<Monitor, TrialError> {
    let mut monitor = Monitor::counting(flows_max)
        .with_flow(FlowDefinition::Bidirectional)
        .with_statistics("full", Estimator::LogLinear)
        .map_err(TrialError::missing)?;
    monitor.options.meter.timeouts = Timeouts {
        idle: Some(IDLE),
        ..Timeouts::NONE
    };
    Ok(monitor)
}

/// A trial whose records this thread writes, and how many they were.
fn written(
    wire: &Arc<Wire>,
    link: &VirtualOptions,
    monitor: &Monitor,
) -> Result<(Trial, u64), TrialError> {
    let mut file = Writing::new(monitor, &OUTPUTS, None)?;
    let trial = Trial::run_looking(wire, link, monitor, |batch| file.take(batch))?;
    Ok((trial, file.finish()?.0))
}

/// The longest poll that the machine did not stall, in microseconds.
fn longest_poll(trial: &Trial) -> f64 {
    let ticks = trial.queues.iter().map(|queue| queue.own_worst).max();
    TickRate::get().to_ns(ticks.unwrap_or(0)) as f64 / 1e3
}

/// Bits a second on the link.
fn gigabits(rate: f64, bytes: f64) -> f64 {
    rate * (bytes + WIRE_OVERHEAD as f64) * 8.0 / 1e9
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!(
            "{VIRTUAL_CLOCK} The records, of all columns, are written to a file by another thread while the trial runs."
        ),
    );
    let paper = "40 Gbit/s of real traffic, 716 B a packet, are analysed whole and without loss."
        .to_owned();
    let Some(path) = recorded::any() else {
        outcome.findings.push(Finding {
            paper,
            holds: Holds::Unknown,
            because: format!(
                "Not run here, because there is no real traffic: {TRAFFIC} names no directory with it, and the shipped capture \
                 is found in the source tree alone."
            ),
        });
        return Ok(outcome);
    };
    let packets = context.pick(1_000_000, 2_000_000);
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
            "ns a packet",
            "longest poll, us",
            "most in the ring of 4096",
            "stalls clipped",
            "highest rate without loss, Mpps",
            "the same on the wire, Gbit/s",
        ],
    );
    let mut in_real_time = Table::new(
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
    let mut points = Vec::new();
    let mut names = Vec::new();
    let (mut holds, mut kept, mut highest) =
        (Holds::Unknown, "no valid trial".to_owned(), f64::NAN);
    for lengthened in [true, false] {
        let name = if lengthened {
            "lengthened"
        } else {
            "as captured"
        };
        context.say(&format!("{}, {name}", recorded::name(&path)));
        let wire = wire(&path, lengthened, packets)?;
        let monitor = monitor(wire.flows().len())?;
        let bytes = wire.mean_wire_length();
        let link = VirtualOptions {
            rate_pps: LINK / ((bytes + WIRE_OVERHEAD as f64) * 8.0),
            packets: packets as u64,
            tells_hash: false,
            truth: false,
            ..VirtualOptions::default()
        };
        let (mut trials, mut records) = (Vec::new(), 0);
        for _ in 0..context.repetitions(3, 9) {
            let (trial, written) = written(&wire, &link, &monitor)?;
            context.trials.count(&trial.verdict.against);
            if trial.verdict.is_valid() {
                records = written;
                trials.push(trial);
            }
        }
        // The middle one stands for all.
        trials.sort_by_key(|trial| trial.ledger.lost());
        let lost: Vec<u64> = trials.iter().map(|trial| trial.ledger.lost()).collect();
        let Some(trial) = trials.get(trials.len() / 2) else {
            outcome
                .notes
                .push(format!("{name}: no trial at 40 Gbit/s was valid."));
            continue;
        };
        match in_software_nic(context, &path, lengthened, link.rate_pps, &monitor) {
            Ok((real, records)) => in_real_time.row(vec![
                name.into(),
                mpps(real.sent_pps).into(),
                real.ledger.offered.into(),
                real.ledger.lost().into(),
                real.ledger.drop_ratio().into(),
                records.into(),
                real.verdict.description().into(),
            ]),
            Err(error) => outcome.notes.push(format!("Software NIC: {error}")),
        }
        let condition = Condition::new(name, &wire, monitor).over(link.clone());
        let goal = Goal::Noisy {
            loss_max: 0.0,
            trials: context.pick(1, 3),
        };
        let found = context.sustained(&condition, packets as u64, goal)?;
        let lossless = lost.iter().filter(|&&lost| lost == 0).count();
        if lengthened {
            holds = match lossless {
                0 => Holds::No,
                all if all == lost.len() => Holds::Yes,
                _ => Holds::Partly,
            };
            kept = format!("{lossless} of {} trials", lost.len());
        }
        let rate = gigabits(found.rate, bytes);
        if lengthened {
            highest = rate;
        }
        names.push(format!("{name}: {bytes:.0} B on average"));
        points.push(Point::new(points.len() as f64, rate));
        table.row(vec![
            name.into(),
            bytes.into(),
            mpps(link.rate_pps).into(),
            trial.ledger.offered.into(),
            lost.len().into(),
            lossless.into(),
            lost[lost.len() / 2].into(),
            records.into(),
            trial.ns_per_packet.into(),
            longest_poll(trial).into(),
            trial.occupancy_max.into(),
            trial.stalls.into(),
            mpps(found.rate).into(),
            rate.into(),
        ]);
    }
    outcome.figures.push(
        Figure::new(
            "rates",
            "The highest rate that one core analyses whole without a lost packet, on the wire.",
            Axis::names("frames", names.iter().map(String::as_str)),
            Axis::linear("highest rate without loss (Gbit/s)").from_zero(),
        )
        .with(Series::bars("", points))
        .level("40 Gbit/s", LINK / 1e9),
    );
    outcome.tables.push(table);
    if !in_real_time.rows.is_empty() {
        outcome.tables.push(in_real_time);
    }
    outcome.comparisons.push(Comparison {
        what: "analysed whole without loss".into(),
        paper: "40 Gbit/s on 4 links, with 8 cores of processing".into(),
        here: format!("{highest:.1} Gbit/s on one core"),
    });
    outcome.findings.push(Finding {
        paper,
        holds,
        because: format!(
            "At 40 Gbit/s one core lost none of {packets} packets in {kept}; the highest rate without loss is \
             {highest:.1} Gbit/s."
        ),
    });
    outcome.settings = vec![
        (
            "traffic".into(),
            format!(
                "{}; over the software NIC without frames of more than {LONGEST} B",
                recorded::name(&path)
            ),
        ),
        ("statistics".into(), "full".into()),
        ("idle time-out".into(), format!("{} ms", IDLE.as_millis())),
        ("packets".into(), packets.to_string()),
    ];
    Ok(outcome)
}

/// A recording, its frames longer or as they are, in enough copies.
fn replay(
    mut recording: Recording,
    lengthened: bool,
    packets: usize,
) -> Result<Replay, TrialError> {
    if lengthened {
        let mean = PAPER_BYTES - FCS_BYTES as f64;
        recording = recording
            .with_longer_payloads(mean, LONGEST - FCS_BYTES)
            .map_err(TrialError::missing)?;
    }
    recorded::replay(recording, packets).map(|(replay, _)| replay)
}

/// So many packets of a capture and of copies of it with other addresses, as a wire; `lengthened`: to
/// the paper's mean.
///
/// # Errors
/// When it cannot be read, or there is nothing in it.
pub fn wire(path: &Path, lengthened: bool, packets: usize) -> Result<Arc<Wire>, TrialError> {
    let mut replay = replay(recorded::load(path)?, lengthened, packets)?;
    wire_of_replay(&mut replay, packets)
}

/// The same in real time, and how many records were written.
fn in_software_nic(
    context: &mut Context<'_>,
    path: &Path,
    lengthened: bool,
    rate_pps: f64,
    monitor: &Monitor,
) -> Result<(Real, u64), TrialError> {
    let time = Duration::from_millis(context.pick(100, 1000));
    let packets = (rate_pps * time.as_secs_f64()) as usize;
    // A card has no buffers for what another has put together from several frames.
    let recording = recorded::load_up_to(path, LONGEST - FCS_BYTES)?;
    let mut replay = replay(recording, lengthened, packets)?;
    let mut file = Writing::new(monitor, &OUTPUTS, None)?;
    let load = Load {
        rate_pps,
        time,
        repetitions: 1,
    };
    let real = real_replay(context, &mut replay, load, monitor, |batch| {
        file.take(batch);
    })?;
    Ok((real, file.finish()?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_the_link_is_analysed_and_every_record_written() {
        let shipped =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/example.pcap");
        let wire = wire(&shipped, true, 2000).unwrap();
        assert!((wire.mean_wire_length() - PAPER_BYTES).abs() < 40.0);
        let monitor = monitor(wire.flows().len()).unwrap();
        let link = VirtualOptions {
            rate_pps: f64::INFINITY,
            packets: 2000,
            tells_hash: false,
            truth: false,
            ..VirtualOptions::default()
        };
        let (trial, records) = written(&wire, &link, &monitor).unwrap();
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
