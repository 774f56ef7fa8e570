//! What of the engine's flags goes together.

use crate::arguments::engine::{GapArgument, LevelArgument};
use crate::arguments::{FlowArgument, ModelArgument, WatchArguments};
use engine::Level;
use flow::hash::{HashKind, SYMMETRIC_IS_NO_IDENTITY};
use hw::schedule::Schedule;

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

/// Whether gaps count the packets of all queues.
pub(super) fn link_gaps(arguments: &WatchArguments) -> Result<bool, String> {
    let wanted = arguments.engine.gap == GapArgument::Link;
    if wanted && !arguments.statistics.contains("gap") && !arguments.statistics.contains("moments")
    {
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
    if by_hash && kind == HashKind::SymmetricToeplitz {
        return Err(format!(
            "--hash {kind} with --flow rss: {SYMMETRIC_IS_NO_IDENTITY}; leave --hash out"
        ));
    }
    Ok(kind)
}
