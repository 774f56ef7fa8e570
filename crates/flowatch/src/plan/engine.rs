//! What of the engine's flags goes together.

use crate::arguments::engine::{GapArgument, LevelArgument};
use crate::arguments::{FlowArgument, ModelArgument, WatchArguments};
use crate::interfaces;
use engine::merge::MergeOptions;
use engine::{Acquisition, Level};
use flow::hash::{HashKind, SYMMETRIC_IS_NO_IDENTITY};
use flow::statistic::Selection;
use flow::table::TableKind;
use flow::{FlowDefinition, MeterOptions};
use hw::schedule::Schedule;
use std::time::Duration;

/// Whether flows are counted, or packets alone.
pub(super) fn level(arguments: &WatchArguments) -> Result<Level, String> {
    if arguments.engine.level == LevelArgument::Flow {
        return Ok(Level::Flow);
    }
    let contradictions = [
        (
            "--model",
            arguments.model != ModelArgument::RunToCompletion,
            "there is one model, run to completion",
        ),
        (
            "-o",
            !arguments.outputs.is_empty(),
            "there are no flows to write",
        ),
        (
            "--statistics",
            arguments.statistics != "count",
            "there are no flows to compute them of",
        ),
        ("--flow", arguments.flow.is_some(), "there are no flows"),
        (
            "--decapsulate",
            arguments.decapsulate.is_some(),
            "no header is read",
        ),
    ];
    match contradictions.iter().find(|(_, given, _)| *given) {
        Some((flag, _, why)) => Err(format!("{flag} with --level packet: {why}")),
        None => Ok(Level::Packet),
    }
}

/// Policies for the threads.
pub(super) fn schedules(arguments: &WatchArguments) -> Vec<Schedule> {
    let given = arguments.engine.schedule.as_ref();
    given
        .map(|schedules| schedules.0.clone())
        .unwrap_or_default()
}

/// Descriptors of a receive queue that does not tell how many it has: the papers' best.
const QUEUE: usize = 4096;

/// Records of one flow from two queues are joined while no more than this many wait: some 150 MB.
const MERGE_MOST: usize = 1 << 20;

/// The link of each worker: queues of one interface are of one link, by whichever name.
pub(super) fn links(interfaces: &[String], queues: usize, workers: usize) -> Vec<usize> {
    let receivers = interfaces.len() * queues;
    let names: Vec<_> = interfaces
        .iter()
        .map(|name| interfaces::link(name))
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

/// How records of one flow are joined: those that the idle time-out would have kept in one, waited for
/// until the sweep must have passed over the other part too.
pub(super) fn merge(meter: &MeterOptions, links: Vec<usize>) -> MergeOptions {
    let idle = meter.timeouts.idle;
    MergeOptions {
        idle,
        hold: idle.map(|idle| idle + meter.garbage.round() + Duration::from_secs(1)),
        most: MERGE_MOST,
        width: meter.schema().statistics.len(),
        both_directions: meter.flow == FlowDefinition::Bidirectional,
        links,
    }
}

/// The machine's memory in bytes, if it says.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Refuses tables of a link, whose memory is taken in the beginning, that the machine cannot hold.
pub(super) fn tables_fit(meter: &MeterOptions, tables: usize) -> Result<(), String> {
    if meter.table == TableKind::DoubleHash {
        // Of one size, whatever the bound.
        return Ok(());
    }
    let flows = meter.flows_max as u64;
    let bytes = flows.saturating_mul((meter.bytes_per_flow() * tables) as u64);
    match machine_memory() {
        Some(memory) if bytes > memory => Err(format!(
            "--max-flows {flows}, in each of {tables} tables: they take {} MiB, and the machine has {} MiB of memory",
            bytes >> 20,
            memory >> 20
        )),
        _ => Ok(()),
    }
}

/// Acquisition apart from processing, for so many receivers.
pub(super) fn acquisition(
    arguments: &WatchArguments,
    statistics: &Selection,
    receivers: usize,
) -> Result<Option<Acquisition>, String> {
    let flags = &arguments.engine;
    let Some(bytes) = flags.buffer else {
        return Ok(None);
    };
    // The kernel promises more memory than there is, and ends the process that uses it.
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
            "--sort-buffer {sort}: at most half of --buffer ({} bytes), since what is sorted is not free for what comes",
            bytes / 2
        ));
    }
    if sort > 0 && statistics.tells_gaps() {
        return Err(
            "--sort-buffer with gaps: sorting changes the order of packets, and gaps count by it; \
             leave --sort-buffer out, or ask for size and iat alone"
                .into(),
        );
    }
    let size = |bytes: u64| usize::try_from(bytes).map_err(|error| format!("--buffer: {error}"));
    Ok(Some(Acquisition {
        buffer_bytes: size(bytes)?,
        sort_bytes: size(sort)?,
        when: flags.acquisition.unwrap_or_default(),
        queue: QUEUE,
    }))
}

/// Whether gaps count the packets of all queues.
pub(super) fn link_gaps(
    arguments: &WatchArguments,
    statistics: &Selection,
) -> Result<bool, String> {
    let wanted = arguments.engine.gap == GapArgument::Link;
    if wanted && !statistics.tells_gaps() {
        return Err("--gap link: no gap is asked for; add --statistics gap".into());
    }
    Ok(wanted)
}

/// The hash of the flow keys; with flows by RSS hash, what stands in for the device's.
pub(super) fn hash(arguments: &WatchArguments) -> Result<HashKind, String> {
    let by_hash = arguments.flow == Some(FlowArgument::Rss);
    for (flag, given) in [
        ("--vlan", arguments.vlan),
        ("--decapsulate", arguments.decapsulate.is_some()),
        ("--community-id", arguments.community_id),
    ] {
        if by_hash && given {
            return Err(format!(
                "{flag} with --flow rss: the device's hash is all that is known of a flow, headers are not read"
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
            "--hash {kind} with {choice}: {SYMMETRIC_IS_NO_IDENTITY}; leave --hash out"
        ));
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_one_interface_are_of_one_link() {
        let names = ["eth0@0", "eth1", "eth0@1"].map(str::to_owned);
        assert_eq!(links(&names, 1, 3), [0, 1, 0]);
        assert_eq!(links(&names, 1, 6), [0, 0, 1, 1, 0, 0]);
        assert_eq!(links(&names[1..2], 4, 8), [0; 8]);
        assert_eq!(links(&names[..2], 2, 4), [0, 0, 1, 1]);
    }
}
