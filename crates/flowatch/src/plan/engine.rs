//! Checks how the engine's flags combine.

use crate::arguments::engine::{GapArgument, LevelArgument};
use crate::arguments::{FlowArgument, ModelArgument, WatchArguments};
use crate::interfaces;
use engine::merge::MergeOptions;
use engine::{Acquisition, Level, MeasurementSpec, TRAFFIC_MIX};
use flow::hash::{HashKind, SYMMETRIC_HASH_NOT_UNIQUE};
use flow::statistic::Selection;
use flow::table::TableKind;
use flow::{FlowDefinition, MeterOptions};
use hw::schedule::Schedule;
use std::time::Duration;

/// Returns the counting level.
pub(super) fn level(arguments: &WatchArguments) -> Result<Level, String> {
    if arguments.engine.level == LevelArgument::Flow {
        return Ok(Level::Flow);
    }
    let contradictions = [
        (
            "--model",
            arguments.model != ModelArgument::RunToCompletion,
            "it always uses run to completion",
        ),
        (
            "-o",
            !arguments.outputs.is_empty(),
            "there are no flows to write",
        ),
        (
            "--statistics",
            arguments.statistics != "count",
            "there are no flows to compute them for",
        ),
        ("--flow", arguments.flow.is_some(), "there are no flows"),
        (
            "--decapsulate",
            arguments.decapsulate.is_some(),
            "no header is parsed",
        ),
        ("--mix", arguments.engine.mix, "no header is parsed"),
    ];
    match contradictions.iter().find(|(_, given, _)| *given) {
        Some((flag, _, why)) => Err(format!("{flag} with --level packet: {why}")),
        None => Ok(Level::Packet),
    }
}

/// Returns the measurements beside the one of the counting level.
pub(super) fn extra_measurements(arguments: &WatchArguments) -> Vec<MeasurementSpec> {
    let requested = [(arguments.engine.mix, TRAFFIC_MIX)];
    requested
        .into_iter()
        .filter_map(|(is_requested, spec)| is_requested.then_some(spec))
        .collect()
}

/// Returns the scheduling policies of the threads.
pub(super) fn schedules(arguments: &WatchArguments) -> Vec<Schedule> {
    let given = arguments.engine.schedule.as_ref();
    given
        .map(|schedules| schedules.0.clone())
        .unwrap_or_default()
}

/// Descriptors of a receive queue whose size is unknown: the papers' best value.
const QUEUE_SIZE_DEFAULT: usize = 4096;

/// The most records held back for merging: about 150 MB.
const MERGE_HELD_MAX: usize = 1 << 20;

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
pub(super) fn check_table_memory(meter: &MeterOptions, tables: usize) -> Result<(), String> {
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

/// Returns the options of separate acquisition for `receivers` receivers.
pub(super) fn acquisition(
    arguments: &WatchArguments,
    statistics: &Selection,
    receivers: usize,
) -> Result<Option<Acquisition>, String> {
    let flags = &arguments.engine;
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

/// Whether gaps count the packets of all queues of a link.
pub(super) fn link_gaps(
    arguments: &WatchArguments,
    statistics: &Selection,
) -> Result<bool, String> {
    let all_queues = arguments.engine.gap == GapArgument::Link;
    if all_queues && !statistics.needs_gaps() {
        return Err("--gap link needs gap statistics: add --statistics gap".into());
    }
    Ok(all_queues)
}

/// Returns the hash function for flow keys; with `--flow rss`, the one for packets that have no
/// device hash.
pub(super) fn hash(arguments: &WatchArguments) -> Result<HashKind, String> {
    let by_hash = arguments.flow == Some(FlowArgument::Rss);
    for (flag, given) in [
        ("--vlan", arguments.vlan),
        ("--decapsulate", arguments.decapsulate.is_some()),
        ("--community-id", arguments.community_id),
    ] {
        if by_hash && given {
            return Err(format!(
                "{flag} with --flow rss: a flow is known by the device's hash only, headers are not read"
            ));
        }
    }
    let Some(name) = &arguments.hash else {
        return Ok(if by_hash {
            HashKind::Toeplitz
        } else {
            HashKind::Keyed
        });
    };
    let kind: HashKind = name.parse().map_err(|error| format!("--hash: {error}"))?;
    let table = &arguments.table;
    let known_by_hash = if by_hash {
        Some("--flow rss".to_owned())
    } else {
        let kind = table.parse::<TableKind>();
        matches!(kind, Ok(kind) if !kind.is_exact()).then(|| format!("--table {table}"))
    };
    if let Some(choice) = known_by_hash
        && kind == HashKind::SymmetricToeplitz
    {
        return Err(format!(
            "--hash {kind} with {choice}: {SYMMETRIC_HASH_NOT_UNIQUE}; leave --hash out"
        ));
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_one_interface_share_a_link() {
        let names = ["eth0@0", "eth1", "eth0@1"].map(str::to_owned);
        assert_eq!(links(&names, 1, 3), [0, 1, 0]);
        assert_eq!(links(&names, 1, 6), [0, 0, 1, 1, 0, 0]);
        assert_eq!(links(&names[1..2], 4, 8), [0; 8]);
        assert_eq!(links(&names[..2], 2, 4), [0, 0, 1, 1]);
    }
}
