//! DPDKStat, figure 2: what one core analyses, beside other analysers.

use super::Experiment;
use super::context::{Context, outcome};
use super::mix::CAMPUS;
use super::peers::{self, Peer, Task, Workplace};
use super::recorded::{self, TRAFFIC};
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{abba, median, paired_ratio};
use crate::trial::TrialError;
use generator::{FCS_BYTES, Source, Traffic, TrafficOptions};
use port::{PcapWriter, Transmit};
use std::path::Path;
use std::process::Command;
use wire::LinkType;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-fig2",
    title: "One core of an analyser, beside other analysers",
    source: "DPDKStat, figure 2",
    run,
};

/// Packets a second, by which the capture is stamped: 40 Gbit/s of 716 B.
const RATE: f64 = 6.8e6;

/// The paper's findings: Tstat's rate over those of two systems of intrusion detection.
const PAPER: [(&str, f64); 2] = [("Suricata", 10.0), ("Zeek", 4.5)];

/// What the capture is made of, in words, and its frames.
fn source(seed: u64, packets: usize) -> Result<(String, Box<dyn Source>), TrialError> {
    let Some(path) = recorded::mix() else {
        let options = TrafficOptions {
            flows: TrafficOptions::default().flows,
            ..CAMPUS.traffic(seed)?
        };
        let traffic = Traffic::new(&options).map_err(TrialError::missing)?;
        let words = format!(
            "the generator's: {} flows of TCP and UDP, Zipf(0.9), without anything said in them (with {TRAFFIC} in \
             the environment it would be real)",
            options.flows
        );
        return Ok((words, Box::new(traffic)));
    };
    let (replay, copies) = recorded::replay(recorded::load(&path)?, packets)?;
    let words = format!(
        "real: {copies} copies of {}, each with addresses of its own",
        recorded::name(&path)
    );
    Ok((words, Box::new(replay)))
}

/// Writes a capture of `packets` frames; their bytes on the wire.
fn write(path: &Path, source: &mut dyn Source, packets: usize) -> Result<u64, TrialError> {
    let mut writer = PcapWriter::create(path, LinkType::Ethernet).map_err(TrialError::missing)?;
    let mut flows = [0; port::frame::BURST];
    let (mut number, mut bytes) = (0, 0);
    while number < packets {
        let count = flows.len().min(packets - number);
        let slots = writer
            .reserve(count, source.slot_bytes())
            .map_err(TrialError::missing)?;
        for (slot, number) in slots.iter_mut().zip(number..) {
            slot.time_ns = 1_700_000_000_000_000_000 + (number as f64 * 1e9 / RATE) as i64;
        }
        let filled = source
            .fill(slots, &mut flows)
            .map_err(TrialError::missing)?
            .frames;
        if filled == 0 {
            return Err(TrialError::missing("the capture has too few packets"));
        }
        bytes += slots
            .iter()
            .take(filled)
            .map(|slot| (slot.length + FCS_BYTES) as u64)
            .sum::<u64>();
        writer.submit(filled).map_err(TrialError::missing)?;
        number += filled;
    }
    writer.flush().map_err(TrialError::missing)?;
    Ok(bytes)
}

/// This program over the capture: everything analysed, every record written.
fn flowatch(task: &Task<'_>) -> Result<f64, TrialError> {
    let program = std::env::current_exe().map_err(TrialError::missing)?;
    let mut command = Command::new(program);
    command
        .args(["watch", "-q", "--statistics", "full", "-o"])
        .arg(format!(
            "csv:{}",
            task.directory.join("flows.csv").display()
        ))
        .arg("-r")
        .arg(task.capture);
    peers::cost("flowatch", &mut command, task.directory)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "Processor time, of all threads, that each program takes to read the same capture and write what it writes: \
         programs in turn, forth and back, median. What a core would do alone is its inverse.",
    );
    let installed = peers::installed();
    let paper = "One core of Tstat analyses 4.5 times the traffic of Bro (now Zeek) and 10 times that of Suricata.";
    if installed.is_empty() {
        outcome.findings.push(Finding {
            paper: paper.into(),
            holds: Holds::Unknown,
            because: format!(
                "Not run here, because no other analyser is installed (looked for: {}).",
                peers::names()
            ),
        });
        return Ok(outcome);
    }
    let packets = context.pick(600_000, 4_000_000);
    let repetitions = context.repetitions(3, 10);
    let place = Workplace::new("fig2")?;
    let capture = place.file("capture.pcap");
    let (words, mut frames) = source(context.seed(), packets)?;
    let bytes = write(&capture, &mut *frames, packets)?;
    drop(frames);
    let names: Vec<&str> = std::iter::once("flowatch")
        .chain(installed.iter().map(|peer| peer.name))
        .collect();
    let mut costs = vec![Vec::with_capacity(repetitions); names.len()];
    let mut failed: Vec<Option<String>> = vec![None; names.len()];
    for repetition in 0..repetitions {
        for which in abba(names.len(), repetition) {
            if failed[which].is_some() {
                continue;
            }
            context.say(names[which]);
            let cost = place.task(&capture, |task| match which.checked_sub(1) {
                None => flowatch(task),
                Some(peer) => installed[peer].cost(task),
            });
            match cost {
                Ok(seconds) => costs[which].push(seconds * 1e9 / packets as f64),
                Err(error) if which == 0 => return Err(error),
                Err(error) => failed[which] = Some(error.to_string()),
            }
        }
    }
    for error in failed.iter().flatten() {
        outcome.notes.push(format!("Not compared: {error}."));
    }
    let mut table = Table::new(
        "programs",
        "Processor time of a packet, and what one core would analyse",
        &[
            "program",
            "kind",
            "version",
            "ns a packet",
            "Mpps of a core",
            "Gbit/s of a core",
            "times flowatch's time",
            "95 % from",
            "to",
        ],
    );
    let mut bars = Vec::new();
    let mut found = Vec::new();
    for (which, name) in names.iter().enumerate() {
        let peer: Option<&Peer> = which.checked_sub(1).map(|peer| installed[peer]);
        if failed[which].is_some() {
            continue;
        }
        let ns = median(&costs[which]);
        let gigabits = 8.0 * bytes as f64 / packets as f64 / ns;
        let ratio = paired_ratio(&costs[which], &costs[0]);
        bars.push(Point::new(bars.len() as f64, gigabits));
        table.row(vec![
            (*name).into(),
            peer.map_or("statistical analyser", |peer| peer.kind).into(),
            peer.map_or(env!("CARGO_PKG_VERSION").into(), Peer::version)
                .into(),
            ns.into(),
            (1e3 / ns).into(),
            gigabits.into(),
            ratio.value.into(),
            ratio.low.into(),
            ratio.high.into(),
        ]);
        if let Some(peer) = peer {
            found.push((peer, ratio));
        }
    }
    if found.is_empty() {
        return Err(TrialError::missing(
            "no other analyser could read the capture",
        ));
    }
    let shown = std::iter::once("flowatch").chain(found.iter().map(|(peer, _)| peer.name));
    outcome.figures.push(
        Figure::new(
            "programs",
            "What one core analyses of the same capture, by program.",
            Axis::names("program", shown),
            Axis::log10("rate of a core (Gbit/s)"),
        )
        .with(Series::bars("", bars)),
    );
    outcome.tables.push(table);
    let mut told = Vec::new();
    for (peer, ratio) in &found {
        let here = format!(
            "{:.1} times ({:.1} to {:.1})",
            ratio.value, ratio.low, ratio.high
        );
        let paper = PAPER.iter().find(|(name, _)| *name == peer.name);
        told.push(format!(
            "{} ({}) {:.1} times",
            peer.name, peer.kind, ratio.value
        ));
        outcome.comparisons.push(Comparison {
            what: format!("processor time a packet, {} against flowatch", peer.name),
            paper: paper.map_or("not in the paper".into(), |(_, times)| {
                format!("Tstat {times} times as fast")
            }),
            here,
        });
    }
    let of_paper: Vec<bool> = found
        .iter()
        .filter_map(|(peer, ratio)| {
            let (_, times) = PAPER.iter().find(|(name, _)| *name == peer.name)?;
            Some(ratio.low >= *times)
        })
        .collect();
    let holds = if of_paper.is_empty() {
        Holds::Unknown
    } else if of_paper.iter().all(|&holds| holds) {
        Holds::Yes
    } else {
        Holds::Partly
    };
    let beside = if of_paper.is_empty() {
        "Neither Suricata nor Zeek is installed; what is does another work. "
    } else {
        ""
    };
    outcome.findings.push(Finding {
        paper: paper.into(),
        holds,
        because: format!(
            "{beside}Of flowatch's time with full analysis and every record written, a packet costs: {}.",
            told.join(", ")
        ),
    });
    outcome.settings = vec![
        ("packets".into(), packets.to_string()),
        (
            "mean frame as captured".into(),
            format!("{:.0} B", bytes as f64 / packets as f64),
        ),
        ("traffic".into(), words),
        ("runs of each".into(), repetitions.to_string()),
    ];
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Port, Received};

    #[test]
    fn the_capture_has_as_many_packets_as_were_asked_for() {
        let place = Workplace::new("fig2-test").unwrap();
        let path = place.file("capture.pcap");
        let options = TrafficOptions::default();
        let mut traffic = Traffic::new(&options).unwrap();
        let bytes = write(&path, &mut traffic, 1000).unwrap();
        assert_eq!(bytes, 64_000);
        let input = port::Input::from_argument(path.as_os_str());
        let mut files = port::CaptureFiles::open(&[input]).unwrap();
        let mut packets = 0;
        while let Received::Burst(burst) = files.receive().unwrap() {
            packets += burst.frames.len();
        }
        assert_eq!(packets, 1000);
    }
}
