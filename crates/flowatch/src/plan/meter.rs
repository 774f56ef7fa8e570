//! The options of the meters: checks how the flags about flows and their table combine.

use super::applications::applications;
use super::error::PlanError;
use super::source::Source;
use crate::arguments::WatchArguments;
use crate::arguments::flows::{FlowArguments, FlowKeyArgument};
use crate::arguments::value::Timeout;
use flow::hash::{HashKind, SYMMETRIC_HASH_NOT_UNIQUE};
use flow::statistic::{Selection, SelectionError};
use flow::{FlowDefinition, GarbageSchedule, MeterOptions, TableKind, Timeouts};
use std::time::Duration;

/// The fewest bytes that a packet of a flow takes in a capture file: a pcap record header and an
/// IPv4 header.
const FILE_BYTES_PER_PACKET: u64 = 16 + 20;

/// Maximum number of flows in a table, whose slots have 32-bit indices.
const FLOWS_MAX: u64 = 64_000_000;

/// The longest time that an ended flow stays in the table.
const GARBAGE_PERIOD_MAX: Duration = Duration::from_secs(10);

/// Returns the options of the meters: flow definition, table, statistics.
pub(super) fn options(
    arguments: &WatchArguments,
    source: &Source,
) -> Result<MeterOptions, PlanError> {
    let (flags, engine) = (&arguments.flows, &arguments.engine);
    let timeouts = timeouts(flags);
    let seed = engine.seed.map_or_else(random_seed, Ok)?;
    let statistics = statistics(flags)?;
    let flow = flow_definition(flags.flow, &statistics, &engine.table)?;
    let options = MeterOptions {
        flow,
        vlan: flags.vlan,
        table: engine.table.parse()?,
        hash: hash(arguments)?,
        seed,
        flows_max: flows_max(flags.max_flows, source)?,
        timeouts,
        garbage: engine.garbage.unwrap_or_else(|| default_garbage(&timeouts)),
        applications: applications(flags.applications.as_deref(), &statistics)?,
        statistics,
        populate: source.is_live(),
        ..MeterOptions::default()
    };
    check_community_id(arguments.outputs.community_id, flow)?;
    Ok(options)
}

fn statistics(flags: &FlowArguments) -> Result<Selection, String> {
    let estimator = flags.estimator.parse();
    let estimator = estimator.map_err(|error: SelectionError| error.to_string())?;
    Selection::parse(&flags.statistics, estimator).map_err(|error| error.to_string())
}

/// Returns the flow definition. An analysis needs both directions of a flow in one entry, and a
/// table that never merges two flows.
fn flow_definition(
    requested: Option<FlowKeyArgument>,
    statistics: &Selection,
    table: &str,
) -> Result<FlowDefinition, String> {
    let Some(level) = statistics.analysis else {
        return Ok(match requested {
            None | Some(FlowKeyArgument::FiveTuple) => FlowDefinition::FiveTuple,
            Some(FlowKeyArgument::Bidirectional) => FlowDefinition::Bidirectional,
            Some(FlowKeyArgument::Src) => FlowDefinition::Source,
            Some(FlowKeyArgument::Dst) => FlowDefinition::Destination,
            Some(FlowKeyArgument::SrcDst) => FlowDefinition::SourceDestination,
            Some(FlowKeyArgument::Rss) => FlowDefinition::Rss,
        });
    };
    let level = level.name();
    if table != TableKind::Bucket.name() {
        return Err(format!(
            "--statistics {level} needs --table bucket: {table} identifies flows by their hash only and may merge \
             two"
        ));
    }
    match requested {
        None | Some(FlowKeyArgument::Bidirectional) => Ok(FlowDefinition::Bidirectional),
        Some(_) => Err(format!(
            "--statistics {level} needs both directions of a flow: leave --flow out, or use --flow bidirectional"
        )),
    }
}

/// Rejects `--community-id` for flow definitions that have none.
fn check_community_id(requested: bool, flow: FlowDefinition) -> Result<(), String> {
    match flow {
        FlowDefinition::Source | FlowDefinition::Destination | FlowDefinition::SourceDestination
            if requested =>
        {
            Err("--community-id with --flow src, dst or src-dst: a Community ID needs the 5-tuple; use --flow \
                 5tuple or bidirectional"
                .into())
        }
        _ => Ok(()),
    }
}

/// Returns the hash function for flow keys; with `--flow rss`, the one for packets that have no
/// device hash.
fn hash(arguments: &WatchArguments) -> Result<HashKind, String> {
    let (flags, engine) = (&arguments.flows, &arguments.engine);
    let by_hash = flags.flow == Some(FlowKeyArgument::Rss);
    for (flag, given) in [
        ("--vlan", flags.vlan),
        ("--decapsulate", flags.decapsulate.is_some()),
        ("--community-id", arguments.outputs.community_id),
    ] {
        if by_hash && given {
            return Err(format!(
                "{flag} with --flow rss: a flow is known by the device's hash only, headers are not read"
            ));
        }
    }
    let Some(name) = &engine.hash else {
        return Ok(if by_hash {
            HashKind::Toeplitz
        } else {
            HashKind::Keyed
        });
    };
    let kind: HashKind = name.parse().map_err(|error| format!("--hash: {error}"))?;
    let table = &engine.table;
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

fn timeouts(flags: &FlowArguments) -> Timeouts {
    if flags.whole_flows {
        return Timeouts::NONE;
    }
    let Timeout(idle) = flags.idle_timeout;
    let Timeout(active) = flags.active_timeout;
    let Timeout(tcp_close) = flags.tcp_close;
    Timeouts {
        idle,
        active,
        tcp_close,
    }
}

/// Returns a sweep schedule that keeps pace with the idle timeout.
fn default_garbage(timeouts: &Timeouts) -> GarbageSchedule {
    let period = timeouts
        .idle
        .map_or(GARBAGE_PERIOD_MAX, |idle| idle.min(GARBAGE_PERIOD_MAX));
    GarbageSchedule {
        period,
        ..GarbageSchedule::default()
    }
}

/// Returns the capacity of the table in flows. An uncompressed capture file has no more flows than
/// packets, so a small file needs only a small table.
fn flows_max(requested: u64, source: &Source) -> Result<usize, String> {
    let mut bound = requested;
    if let Source::Files(inputs) = source {
        let sizes: Option<u64> = inputs.iter().map(port::uncompressed_size).sum();
        if let Some(size) = sizes {
            bound = bound.min(size / FILE_BYTES_PER_PACKET).max(1);
        }
    }
    if requested > FLOWS_MAX {
        return Err(format!(
            "--max-flows {requested}: at most {FLOWS_MAX} flows per table; each queue (--queues) and monitor (--monitors) has its own table"
        ));
    }
    usize::try_from(bound).map_err(|error| format!("--max-flows {requested}: {error}"))
}

fn random_seed() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("cannot draw a random seed: {error}; use --seed"))?;
    Ok(u64::from_le_bytes(bytes))
}
