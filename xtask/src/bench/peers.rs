//! `cargo xtask bench peers`: CPU time per packet of flowatch, of other flow meters and of a bare
//! read loop, on the same captures. One run measures all programs in rounds, so that a disturbance of
//! the machine affects all of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use lexopt::prelude::*;

use super::statistics::{Ratio, median, ratio};
use super::tools::{self, BARE_LOOP, Role, Tool};
use super::udp_sink::UdpSink;
use crate::measure::{self, Cost};
use crate::traffic_64::Popularity;
use crate::{traffic_64, traffic_mix, workspace};

/// A capture that every program reads.
struct Traffic {
    name: &'static str,
    about: &'static str,
    packets: usize,
    /// The capture has at most 2 to this power unidirectional flows.
    log2_flows: u32,
    /// The goal: the CPU time of the fastest other meter over that of flowatch.
    goal: f64,
}

const TRAFFIC: [Traffic; 3] = [
    Traffic {
        name: "mix",
        about: "real traffic, looped with shifted addresses",
        packets: 3_000_000,
        log2_flows: 18,
        goal: 6.0,
    },
    Traffic {
        name: "uniform",
        about: "64 B frames, 2^16 flows, uniform",
        packets: 10_000_000,
        log2_flows: 16,
        goal: 10.0,
    },
    Traffic {
        name: "zipf",
        about: "64 B frames, 2^16 flows, Zipf(1)",
        packets: 10_000_000,
        log2_flows: 16,
        goal: 10.0,
    },
];

/// Replaces the mix on machines without the shared captures. It has many more flows with fewer packets
/// each, so its results are not comparable.
const EXAMPLE: Traffic = Traffic {
    name: "example",
    about: "the repository's example, looped with shifted addresses",
    packets: 3_000_000,
    log2_flows: 21,
    goal: 6.0,
};

/// The goal: at most this many times the CPU time of the bare loop.
const BOUND_GOAL: f64 = 2.0;

struct Options {
    rounds: usize,
    traffic: Vec<String>,
    only: Vec<String>,
}

/// One measurement of one tool.
struct Run {
    cost: Cost,
    written_bytes: u64,
    flows: Option<u64>,
}

pub(super) fn run(parser: lexopt::Parser) -> anyhow::Result<()> {
    let options = options(parser)?;
    let tools = available_tools(&options.only)?;
    let directory = workspace::target().join("bench");
    fs::create_dir_all(&directory)?;
    let sink = UdpSink::start()?;
    print_load();
    let mut table = String::from(
        "traffic\ttool\tround\tuser_s\tsystem_s\telapsed_s\tmemory_kib\twritten_bytes\tflows\n",
    );
    for traffic in &TRAFFIC {
        if !options.traffic.is_empty() && !options.traffic.iter().any(|name| name == traffic.name) {
            continue;
        }
        let source = traffic_mix::source()?;
        let example = traffic.name == "mix" && source.ends_with("example.pcap");
        let traffic = if example {
            println!(
                "mix: made from {}, since there are no shared captures; not comparable with the mix",
                source.display()
            );
            &EXAMPLE
        } else {
            traffic
        };
        let capture = capture(traffic, &source, &directory)?;
        println!(
            "\n{}: {}, {} packets, {} rounds",
            traffic.name, traffic.about, traffic.packets, options.rounds
        );
        let runs = rounds(&tools, traffic, &capture, &directory, &sink, options.rounds)?;
        for (tool, runs) in tools.iter().zip(&runs) {
            for (round, run) in runs.iter().enumerate() {
                let Cost {
                    user_s,
                    system_s,
                    elapsed_s,
                    memory_kib,
                } = run.cost;
                let flows = run.flows.map_or(String::new(), |flows| flows.to_string());
                writeln!(
                    table,
                    "{}\t{}\t{round}\t{user_s}\t{system_s}\t{elapsed_s}\t{memory_kib}\t{}\t{flows}",
                    traffic.name, tool.name, run.written_bytes
                )?;
            }
        }
        report(&tools, traffic, &runs);
    }
    let path = directory.join("peers.tsv");
    fs::write(&path, table)?;
    println!("\nevery measurement: {}", path.display());
    Ok(())
}

fn options(mut parser: lexopt::Parser) -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 5,
        traffic: Vec::new(),
        only: Vec::new(),
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("traffic") => options.traffic.push(parser.value()?.string()?),
            Long("only") => options.only.push(parser.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    for name in &options.traffic {
        let known = TRAFFIC.iter().any(|traffic| traffic.name == name);
        ensure!(known, "unknown traffic {name}: mix, uniform, zipf");
    }
    Ok(options)
}

/// Installs and builds the programs; prints which ones are missing and leaves them out.
fn available_tools(only: &[String]) -> anyhow::Result<Vec<Tool>> {
    let mut tools = tools::all();
    tools.retain(|tool| only.is_empty() || only.iter().any(|part| tool.name.contains(&**part)));
    ensure!(
        !tools.is_empty(),
        "no tool has a name that contains the value of --only"
    );
    workspace::run(workspace::command("./setup", &["--bench"]))?;
    if tools.iter().any(|tool| tool.name == BARE_LOOP) {
        workspace::run(workspace::cargo(&[
            "build",
            "--release",
            "-p",
            "xtask",
            "--bin",
            "bare_loop",
        ]))?;
    }
    if tools.iter().any(|tool| tool.role == Role::Flowatch) {
        workspace::run(workspace::cargo(&["build", "--release", "-p", "flowatch"]))?;
    }
    tools.retain(|tool| {
        let missing = tool
            .program()
            .filter(|program| !workspace::on_path(program));
        if let Some(program) = missing {
            println!("{}: skipped, no {program} on the PATH", tool.name);
        }
        missing.is_none()
    });
    Ok(tools)
}

/// Prints the load of the machine, since other programs compete for the caches.
fn print_load() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("load before the first round: {load}, on {cores} cores; results are stable below 0.3");
}

/// The path of the capture, which is written unless an earlier run left it.
fn capture(traffic: &Traffic, source: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let path = directory.join(format!("{}-{}.pcap", traffic.name, traffic.packets));
    if !path.is_file() {
        println!("writing {}", path.display());
        let part = path.with_extension("part");
        match traffic.name {
            "uniform" => traffic_64::write(&part, traffic.packets, Popularity::Uniform)?,
            "zipf" => traffic_64::write(&part, traffic.packets, Popularity::Zipf)?,
            _ => traffic_mix::write(&part, source, traffic.packets)?,
        }
        fs::rename(&part, &path)?;
    }
    // Brings the file into the page cache, so that no tool waits for the disk.
    std::io::copy(&mut fs::File::open(&path)?, &mut std::io::sink())?;
    Ok(path)
}

/// Measures all tools in each round, in reverse order in every second one.
fn rounds(
    tools: &[Tool],
    traffic: &Traffic,
    capture: &Path,
    directory: &Path,
    sink: &UdpSink,
    rounds: usize,
) -> anyhow::Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = tools.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..tools.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let tool = &tools[index];
            let out = directory.join("out");
            if out.exists() {
                fs::remove_dir_all(&out)?;
            }
            fs::create_dir_all(&out)?;
            let command = tool.command(capture, traffic.log2_flows, &out, sink.address());
            if round == 0 {
                println!("  {}", workspace::shown(&command));
            }
            sink.take_bytes();
            let log = directory.join("out.log");
            let cost = measure::cost(&command, &log).context(tool.name)?;
            let printed = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
            runs[index].push(Run {
                cost,
                written_bytes: sink.take_bytes() + bytes_below(&out)?,
                flows: tool
                    .flows_label
                    .and_then(|label| tools::labelled_sum(&printed, label)),
            });
        }
    }
    Ok(runs)
}

fn bytes_below(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            bytes_below(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

fn report(tools: &[Tool], traffic: &Traffic, runs: &[Vec<Run>]) {
    let per_packet_ns: Vec<Vec<f64>> = runs
        .iter()
        .map(|runs| {
            let cpu_ns = runs.iter().map(|run| run.cost.cpu_s() * 1e9);
            cpu_ns.map(|ns| ns / traffic.packets as f64).collect()
        })
        .collect();
    let bound = tools.iter().position(|tool| tool.name == BARE_LOOP);
    println!(
        "\n  {:<32} {:>9} {:>17} {:>12} {:>10} {:>9} {:>10}",
        "CPU per packet",
        "median ns",
        "from .. to",
        "x bare loop",
        "memory MB",
        "output MB",
        "flows"
    );
    for ((tool, runs), ns) in tools.iter().zip(runs).zip(&per_packet_ns) {
        let (least, most) = ns.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &ns| {
            (low.min(ns), high.max(ns))
        });
        let over = bound.map_or(f64::NAN, |bound| median(ns) / median(&per_packet_ns[bound]));
        let memory = runs
            .iter()
            .map(|run| run.cost.memory_kib)
            .max()
            .unwrap_or(0) as f64
            / 1024.0;
        let last = runs.last();
        let written = last.map_or(0, |run| run.written_bytes) as f64 / 1e6;
        let flows = last.and_then(|run| run.flows);
        println!(
            "  {:<32} {:>9.1} {:>17} {over:>12.2} {memory:>10.1} {written:>9.1} {:>10}",
            tool.name,
            median(ns),
            format!("{least:.1} .. {most:.1}"),
            flows.map_or_else(|| "-".to_owned(), |flows| flows.to_string()),
        );
    }
    let fastest_meter = tools
        .iter()
        .zip(&per_packet_ns)
        .filter(|(tool, _)| tool.role == Role::Meter)
        .min_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    for (tool, ns) in tools.iter().zip(&per_packet_ns) {
        if tool.role != Role::Flowatch {
            continue;
        }
        if let Some((meter, meter_ns)) = fastest_meter {
            let times = ratio(meter_ns, ns);
            let reached = if times.value >= traffic.goal {
                "reached"
            } else {
                "missed"
            };
            println!(
                "  {}: {} times less than {} (goal {}: {reached})",
                tool.name,
                shown(times),
                meter.name,
                traffic.goal
            );
        }
        if let Some(bound) = bound {
            let times = ratio(ns, &per_packet_ns[bound]);
            let reached = if times.value <= BOUND_GOAL {
                "reached"
            } else {
                "missed"
            };
            println!(
                "  {}: {} times the bare loop (goal {BOUND_GOAL}: {reached})",
                tool.name,
                shown(times)
            );
        }
    }
}

fn shown(ratio: Ratio) -> String {
    format!(
        "{:.2} (95 % from {:.2} to {:.2})",
        ratio.value, ratio.low, ratio.high
    )
}
