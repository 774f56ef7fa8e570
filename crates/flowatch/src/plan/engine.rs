//! The options of the engine: checks how the flags about its threads combine.

use super::error::PlanError;
use super::meter;
use super::source::Source;
use crate::arguments::WatchArguments;
use crate::arguments::engine::{EngineArguments, ModelArgument};
use crate::arguments::flows::{DecapsulateArgument, FlowArguments, GapArgument, LevelArgument};
use crate::interfaces;
use engine::merge::MergeOptions;
use engine::{Acquisition, Level, MeasurementSpec, Model, Options, Stop, TRAFFIC_MIX, check_cores};
use flow::statistic::Selection;
use flow::table::TableKind;
use flow::{FlowDefinition, MeterOptions};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use wire::Decapsulate;

/// Maximum capacity of a ring, in packets; more is a typing error.
const RING_MAX: u64 = 1 << 26;

/// Descriptors of a receive queue whose size is unknown: the papers' best value.
const QUEUE_SIZE_DEFAULT: usize = 4096;

/// Packets that threads which share the reading may be ahead of each other. With fewer they wait more often,
/// with more the packets leave the cache.
const SHARED_READING_RING: usize = 2048;

/// The most records held back for merging: about 150 MB.
const MERGE_HELD_MAX: usize = 1 << 20;

/// Returns the options of the engine, with those of its meters.
pub(super) fn options(arguments: &WatchArguments, source: &Source) -> Result<Options, PlanError> {
    let (flags, defaults) = (&arguments.engine, Options::default());
    let model = model(flags, source)?;
    let cores = flags.cores.clone().unwrap_or_default().0;
    check_cores(&cores).map_err(|error| error.to_string())?;
    let meter = meter::options(arguments, source)?;
    let receivers = source.receivers(usize::from(flags.queues));
    let options = Options {
        model,
        level: level(arguments)?,
        acquisition: acquisition(flags, &meter.statistics, receivers)?,
        extra_measurements: extra_measurements(&arguments.flows),
        decapsulate: decapsulate(&arguments.flows),
        cores,
        schedules: flags.schedule.clone().unwrap_or_default().0,
        monitors: match model {
            Model::SharedReading => usize::from(flags.queues),
            _ => flags.monitors.map_or(defaults.monitors, usize::from),
        },
        link_packet_counter: link_packet_counter(&arguments.flows, &meter.statistics)?,
        ring: match model {
            Model::SharedReading => SHARED_READING_RING,
            _ => flags.ring.map_or(Ok(defaults.ring), ring)?,
        },
        meter,
        stop: Stop::default(),
    };
    if source.is_live() {
        check_table_memory(&options, receivers)?;
    }
    Ok(options)
}

/// Returns the threading model, and rejects flags that it does not use.
fn model(flags: &EngineArguments, source: &Source) -> Result<Model, String> {
    let mut model = match flags.model {
        ModelArgument::RunToCompletion => Model::RunToCompletion,
        ModelArgument::Pipeline => Model::Pipeline,
        ModelArgument::Cooperative => Model::Cooperative,
    };
    if !source.is_live() && flags.queues > 1 {
        if model != Model::RunToCompletion {
            return Err(
                "--queues with files needs run to completion; the other models read files with one \
                    receiver: use --monitors"
                    .into(),
            );
        }
        model = Model::SharedReading;
    }
    if matches!(model, Model::RunToCompletion | Model::SharedReading) {
        for (flag, given) in [
            ("--monitors", flags.monitors.is_some()),
            ("--ring", flags.ring.is_some()),
        ] {
            if given {
                return Err(format!(
                    "{flag} needs --model pipeline or cooperative: run to completion has no separate monitors"
                ));
            }
        }
    }
    Ok(model)
}

/// Returns the capacity of a monitor's ring, in packets.
fn ring(packets: u64) -> Result<usize, String> {
    usize::try_from(packets)
        .ok()
        .filter(|_| packets <= RING_MAX)
        .ok_or_else(|| format!("--ring {packets}: at most {RING_MAX} packets"))
}

/// Returns the counting level.
fn level(arguments: &WatchArguments) -> Result<Level, String> {
    let (flags, engine) = (&arguments.flows, &arguments.engine);
    if flags.level == LevelArgument::Flow {
        return Ok(Level::Flow);
    }
    let contradictions = [
        (
            "--model",
            engine.model != ModelArgument::RunToCompletion,
            "it always uses run to completion",
        ),
        (
            "-o",
            !arguments.outputs.targets.is_empty(),
            "there are no flows to write",
        ),
        (
            "--statistics",
            flags.statistics != "count",
            "there are no flows to compute them for",
        ),
        ("--flow", flags.flow.is_some(), "there are no flows"),
        (
            "--decapsulate",
            flags.decapsulate.is_some(),
            "no header is parsed",
        ),
        ("--mix", flags.mix, "no header is parsed"),
    ];
    match contradictions.iter().find(|(_, given, _)| *given) {
        Some((flag, _, why)) => Err(format!("{flag} with --level packet: {why}")),
        None => Ok(Level::Packet),
    }
}

/// Returns the measurements beside the one of the counting level.
fn extra_measurements(flags: &FlowArguments) -> Vec<MeasurementSpec> {
    let requested = [(flags.mix, TRAFFIC_MIX)];
    requested
        .into_iter()
        .filter_map(|(is_requested, spec)| is_requested.then_some(spec))
        .collect()
}

fn decapsulate(flags: &FlowArguments) -> Decapsulate {
    match flags.decapsulate {
        None => Decapsulate::No,
        Some(DecapsulateArgument::Link) => Decapsulate::Link,
        Some(DecapsulateArgument::Innermost) => Decapsulate::Innermost,
    }
}

/// Returns the counter with which gaps count the packets of all queues of a link.
fn link_packet_counter(
    flags: &FlowArguments,
    statistics: &Selection,
) -> Result<Option<Arc<AtomicU64>>, String> {
    let all_queues = flags.gap == GapArgument::Link;
    if all_queues && !statistics.needs_gaps() {
        return Err("--gap link needs gap statistics: add --statistics gap".into());
    }
    Ok(all_queues.then(Arc::default))
}

/// Returns the options of separate acquisition for `receivers` receivers.
fn acquisition(
    flags: &EngineArguments,
    statistics: &Selection,
    receivers: usize,
) -> Result<Option<Acquisition>, String> {
    let Some(bytes) = flags.buffer else {
        return Ok(None);
    };
    // The kernel overcommits: it would grant the buffer and kill the process when it is used.
    if let Some(memory) = machine_memory()
        && bytes.saturating_mul(receivers as u64) > memory
    {
        return Err(format!(
            "--buffer {}MiB, one for each of {receivers} receiving threads: the machine has {} MiB of memory",
            bytes >> 20,
            memory >> 20
        ));
    }
    let sort = flags.sort_buffer.unwrap_or(0);
    if sort > bytes / 2 {
        return Err(format!(
            "--sort-buffer {sort}: at most half of --buffer ({} bytes), so that packets can arrive during a sort",
            bytes / 2
        ));
    }
    if sort > 0 && statistics.needs_gaps() {
        return Err(
            "--sort-buffer with gap statistics: sorting changes the order of packets, which gaps depend on; \
             leave --sort-buffer out, or use only size and iat statistics"
                .into(),
        );
    }
    let size = |bytes: u64| usize::try_from(bytes).map_err(|error| format!("--buffer: {error}"));
    Ok(Some(Acquisition {
        buffer_bytes: size(bytes)?,
        sort_bytes: size(sort)?,
        mode: flags.acquisition.unwrap_or_default(),
        queue_size: QUEUE_SIZE_DEFAULT,
    }))
}

/// Returns the machine's memory in bytes, if known.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Rejects tables larger than the machine's memory. On live links, tables are allocated at the
/// start.
fn check_table_memory(options: &Options, receivers: usize) -> Result<(), String> {
    let (meter, tables) = (&options.meter, options.tables(receivers));
    if meter.table == TableKind::DoubleHash {
        // Its size does not depend on the maximum.
        return Ok(());
    }
    let flows = meter.flows_max as u64;
    let bytes = flows.saturating_mul((meter.bytes_per_flow() * tables) as u64);
    match machine_memory() {
        Some(memory) if bytes > memory => Err(format!(
            "--max-flows {flows}, in each of {tables} tables: they take {} MiB, but the machine has {} MiB of memory",
            bytes >> 20,
            memory >> 20
        )),
        _ => Ok(()),
    }
}

/// Returns the link of each worker. Queues of one interface belong to one link, whatever the
/// interface's name in the source.
pub(super) fn links(interfaces: &[String], queues: usize, workers: usize) -> Vec<usize> {
    let receivers = interfaces.len() * queues;
    let names: Vec<_> = interfaces
        .iter()
        .map(|name| interfaces::link_id(name))
        .collect();
    (0..workers)
        .map(|worker| {
            let interface = worker * receivers / workers.max(1) / queues;
            let name = &names[interface];
            names
                .iter()
                .position(|other| other == name)
                .unwrap_or(interface)
        })
        .collect()
}

/// Returns how to merge records of one flow from several queues: those that the idle timeout would
/// have kept in one record. A record is held until the sweep has reached the other part too.
pub(super) fn merge(meter: &MeterOptions, links: Vec<usize>) -> MergeOptions {
    let idle = meter.timeouts.idle;
    MergeOptions {
        idle,
        hold: idle.map(|idle| idle + meter.garbage.round() + Duration::from_secs(1)),
        held_max: MERGE_HELD_MAX,
        width: meter.schema().statistics.len(),
        both_directions: meter.flow == FlowDefinition::Bidirectional,
        links,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn defaults_are_those_of_the_help() {
        let of = |line: &str| {
            let words = "flowatch watch -r x".split(' ').chain(line.split(' '));
            let Command::Watch(arguments) = Arguments::parse_from(words).command else {
                panic!("not watch");
            };
            options(&arguments, &Source::Files(Vec::new())).unwrap()
        };
        let plain = of("-q");
        assert_eq!((plain.ring, plain.monitors), (4096, 1));
        assert_eq!(plain.level, Level::Flow);
        assert_eq!(plain.meter.flow, FlowDefinition::FiveTuple);
        assert_eq!(plain.meter.garbage.period, Duration::from_secs(10));
        assert_eq!(plain.meter.garbage.parts, 10_000);
        let given = of("--model pipeline --ring 64 --monitors 2");
        assert_eq!((given.ring, given.monitors), (64, 2));
    }

    #[test]
    fn queues_of_one_interface_share_a_link() {
        let names = ["eth0@0", "eth1", "eth0@1"].map(str::to_owned);
        assert_eq!(links(&names, 1, 3), [0, 1, 0]);
        assert_eq!(links(&names, 1, 6), [0, 0, 1, 1, 0, 0]);
        assert_eq!(links(&names[1..2], 4, 8), [0; 8]);
        assert_eq!(links(&names[..2], 2, 4), [0, 0, 1, 1]);
    }
}
