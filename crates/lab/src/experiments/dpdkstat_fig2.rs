//! DPDKStat, figure 2: the rate of one core, next to other analysers.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use super::mix::CAMPUS;
use super::peers::{self, Peer, Task, Workspace};
use super::recorded::{self, TRAFFIC};
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{Interval, abba, median, paired_ratio};
use crate::trial::TrialError;
use generator::{FCS_BYTES, Source, Traffic, TrafficOptions};
use port::{PcapWriter, Transmit};
use std::path::Path;
use std::process::Command;
use wire::LinkType;

/// Packets per second of the capture's timestamps: 40 Gbit/s of 716 B.
const RATE: f64 = 6.8e6;

/// The paper's findings: Tstat's rate as a multiple of those of two intrusion detection systems.
const PAPER: [(&str, f64); 2] = [("Suricata", 10.0), ("Zeek", 4.5)];

/// The traffic's description, and its frames.
fn source(seed: u64, packets: usize) -> Result<(String, Box<dyn Source>), TrialError> {
    let Some(path) = recorded::mix() else {
        let options = TrafficOptions {
            flows: TrafficOptions::default().flows,
            ..CAMPUS.traffic(seed)?
        };
        let traffic = Traffic::new(&options).map_err(TrialError::missing)?;
        let description = format!(
            "the generator's: {} flows of TCP and UDP, Zipf(0.9), without application \
             payloads (set {TRAFFIC} for real traffic)",
            options.flows
        );
        return Ok((description, Box::new(traffic)));
    };
    let (replay, copies) = recorded::replay(recorded::load(&path)?, packets)?;
    let description = format!(
        "real: {copies} copies of {}, each with its own addresses",
        recorded::name(&path)
    );
    Ok((description, Box::new(replay)))
}

/// Writes a capture of `packets` frames; returns their bytes on the wire.
fn write_capture(path: &Path, source: &mut dyn Source, packets: usize) -> Result<u64, TrialError> {
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

/// Measures this program over the capture, with full analysis and every record written.
fn flowatch(task: &Task<'_>) -> Result<f64, TrialError> {
    let program = std::env::current_exe().map_err(TrialError::missing)?;
    let mut command = Command::new(program);
    command
        .args(["watch", "-q", "--overwrite", "--statistics", "full", "-o"])
        .arg(format!(
            "csv:{}",
            task.directory.join("flows.csv").display()
        ))
        .arg("-r")
        .arg(task.capture);
    peers::cost("flowatch", &mut command, task.directory)
}

/// A program and its CPU time per packet.
struct Program {
    name: &'static str,
    kind: &'static str,
    version: String,
    /// CPU time in ns per packet, one value per run.
    ns: Vec<f64>,
}

pub(super) struct DpdkstatFig2;

pub(super) struct Results {
    packets: usize,
    bytes: u64,
    traffic: String,
    repetitions: usize,
    /// flowatch, then the others that could read the capture; empty if none is installed.
    programs: Vec<Program>,
    /// Why the others could not.
    errors: Vec<String>,
}

impl Results {
    fn others(&self) -> &[Program] {
        self.programs.get(1..).unwrap_or_default()
    }

    /// A program's time as a multiple of flowatch's.
    fn ratio(&self, program: &Program) -> Interval {
        paired_ratio(&program.ns, &self.programs[0].ns)
    }

    /// The rate of one core, in Gbit/s.
    fn gigabits(&self, program: &Program) -> f64 {
        8.0 * self.bytes as f64 / self.packets as f64 / median(&program.ns)
    }
}

/// Measures flowatch and the installed programs in ABBA order. A program that fails once is not run
/// again.
fn measure_programs(
    context: &mut Context<'_>,
    installed: &[&'static Peer],
    workspace: &Workspace,
    capture: &Path,
    (packets, repetitions): (usize, usize),
) -> Result<(Vec<Program>, Vec<String>), TrialError> {
    let mut programs = vec![Program {
        name: "flowatch",
        kind: "statistical analyser",
        version: env!("CARGO_PKG_VERSION").into(),
        ns: Vec::new(),
    }];
    programs.extend(installed.iter().map(|peer| Program {
        name: peer.name,
        kind: peer.kind,
        version: peer.version(),
        ns: Vec::new(),
    }));
    let mut errors: Vec<Option<String>> = vec![None; programs.len()];
    for repetition in 0..repetitions {
        for index in abba(programs.len(), repetition) {
            if errors[index].is_some() {
                continue;
            }
            context.progress(programs[index].name);
            let cost = workspace.task(capture, |task| match index.checked_sub(1) {
                None => flowatch(task),
                Some(peer) => installed[peer].cost(task),
            });
            match cost {
                Ok(seconds) => programs[index].ns.push(seconds * 1e9 / packets as f64),
                Err(error) if index == 0 => return Err(error),
                Err(error) => errors[index] = Some(error.to_string()),
            }
        }
    }
    let measured = programs.into_iter().zip(&errors);
    let measured: Vec<Program> = measured
        .filter(|(_, error)| error.is_none())
        .map(|(program, _)| program)
        .collect();
    if measured.len() == 1 {
        return Err(TrialError::missing(
            "no other analyser could read the capture",
        ));
    }
    Ok((measured, errors.into_iter().flatten().collect()))
}

impl Experiment for DpdkstatFig2 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig2";
    const TITLE: &'static str = "One core of an analyser, next to other analysers";
    const SOURCE: &'static str = "DPDKStat, figure 2";

    fn instrument() -> String {
        "CPU time, of all threads, that each program needs to read the same capture and write its default output: \
         programs alternate in ABBA order, median. The rate of one core is the inverse."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(600_000, 4_000_000);
        let repetitions = context.repetitions(3, 10);
        let mut results = Results {
            packets,
            bytes: 0,
            traffic: String::new(),
            repetitions,
            programs: Vec::new(),
            errors: Vec::new(),
        };
        let installed = peers::installed();
        if installed.is_empty() {
            return Ok(results);
        }
        let workspace = Workspace::new("fig2")?;
        let capture = workspace.file("capture.pcap");
        let (traffic, mut frames) = source(context.seed(), packets)?;
        results.traffic = traffic;
        results.bytes = write_capture(&capture, &mut *frames, packets)?;
        drop(frames);
        let extent = (packets, repetitions);
        let measured = measure_programs(context, &installed, &workspace, &capture, extent)?;
        (results.programs, results.errors) = measured;
        Ok(results)
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        if results.programs.is_empty() {
            return Vec::new();
        }
        let frame = results.bytes as f64 / results.packets as f64;
        vec![
            parameter("packets", results.packets),
            parameter("mean frame as captured", format!("{frame:.0} B")),
            parameter("traffic", &results.traffic),
            parameter("runs of each", results.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let parts = PAPER.map(|(name, times)| {
            let claim = format!("One core analyses {times} times the traffic of {name}.");
            let Some(program) = results.others().iter().find(|other| other.name == name) else {
                return Part::not_compared(&claim, format!("{name} was not measured."));
            };
            let ratio = results.ratio(program);
            Part::compared(
                &claim,
                ratio.low >= times,
                format!(
                    "A packet costs {:.1} times the CPU time of flowatch with full analysis and every record written \
                     ({:.1} to {:.1}).",
                    ratio.value, ratio.low, ratio.high
                ),
            )
        });
        vec![Finding::new(
            "One core of Tstat analyses 4.5 times the traffic of Bro (now Zeek) and 10 times that of Suricata.",
            parts,
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let others = results.others().iter();
        others
            .map(|program| {
                let ratio = results.ratio(program);
                let paper = PAPER.iter().find(|(name, _)| *name == program.name);
                Comparison::new(
                    format!("CPU time per packet, {} against flowatch", program.name),
                    paper.map_or("not in the paper".into(), |(_, times)| {
                        format!("Tstat {times} times as fast")
                    }),
                    format!(
                        "{:.1} times ({:.1} to {:.1})",
                        ratio.value, ratio.low, ratio.high
                    ),
                )
            })
            .collect()
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        if results.programs.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(
            "programs",
            "CPU time of a packet, and the rate of one core",
            &[
                "program",
                "kind",
                "version",
                "ns per packet",
                "Mpps per core",
                "Gbit/s per core",
                "times flowatch's time",
                "95 % from",
                "to",
            ],
        );
        for program in &results.programs {
            let ns = median(&program.ns);
            let ratio = results.ratio(program);
            table.row(vec![
                program.name.into(),
                program.kind.into(),
                program.version.as_str().into(),
                ns.into(),
                (1e3 / ns).into(),
                results.gigabits(program).into(),
                ratio.value.into(),
                ratio.low.into(),
                ratio.high.into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        if results.programs.is_empty() {
            return Vec::new();
        }
        let programs = results.programs.iter().enumerate();
        let points =
            programs.map(|(index, program)| Point::new(index as f64, results.gigabits(program)));
        vec![
            Figure::new(
                "programs",
                "Rate at which one core analyses the same capture, by program.",
                Axis::names(
                    "program",
                    results.programs.iter().map(|program| program.name),
                ),
                Axis::log10("rate per core (Gbit/s)"),
            )
            .with(Series::bars("", points.collect())),
        ]
    }

    fn notes(results: &Results) -> Vec<String> {
        if results.programs.is_empty() {
            return vec![format!(
                "Not measured: none of the other analysers is installed ({}).",
                peers::names()
            )];
        }
        let errors = results.errors.iter();
        errors
            .map(|error| format!("Not compared: {error}."))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Port, Received};

    #[test]
    fn capture_has_the_requested_number_of_packets() {
        let workspace = Workspace::new("fig2-test").unwrap();
        let path = workspace.file("capture.pcap");
        let options = TrafficOptions::default();
        let mut traffic = Traffic::new(&options).unwrap();
        let bytes = write_capture(&path, &mut traffic, 1000).unwrap();
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
