//! Trials in real time over the software NIC, where this program was built with DPDK.

use super::context::Context;
use crate::ledger::Ledger;
use crate::monitor::Monitor;
use crate::outcome::Table;
use crate::trial::{TrialError, Verdict};
use flow::RecordBatch;
use generator::{Replay, TrafficOptions};
use std::time::Duration;

/// What experiments over it say of their instrument.
pub(super) const SOFTWARE_NIC: &str = "Software NIC: a paced generator on a thread of its own, DPDK's \
    rings as a card with receive queues of 4096. Real time on a machine whose cores stall: only ratios \
    within one run say anything.";

/// Why there is nothing where DPDK is not built in.
#[cfg(not(feature = "dpdk"))]
const WITHOUT: &str =
    "needs the software NIC: build with --features dpdk (./setup installs what that takes)";

/// A card.
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "what is wanted is read where there is DPDK")
)]
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) queues: u16,
    pub(super) shared_pool: bool,
    pub(super) pool_size: Option<u32>,
}

impl Default for Card {
    fn default() -> Self {
        Self {
            queues: 1,
            shared_pool: false,
            pool_size: None,
        }
    }
}

/// One of several things that are compared in real time.
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "what is wanted is read where there is DPDK")
)]
#[derive(Clone)]
pub(super) struct RealCondition {
    pub(super) name: String,
    pub(super) card: Card,
    pub(super) monitor: Monitor,
}

/// What a trial in real time showed.
#[derive(Clone, Debug)]
pub(super) struct Real {
    pub(super) ledger: Ledger,
    pub(super) verdict: Verdict,
    pub(super) sent_pps: f64,
    pub(super) cpu_ns: f64,
    /// Faults in words; a thread without its policy is one.
    pub(super) faults: Vec<String>,
}

#[cfg(feature = "dpdk")]
impl From<crate::software_link::RealTrial> for Real {
    fn from(trial: crate::software_link::RealTrial) -> Self {
        Self {
            ledger: trial.ledger,
            verdict: trial.verdict,
            sent_pps: trial.sent_pps,
            cpu_ns: trial.cpu_ns,
            faults: trial.faults,
        }
    }
}

/// How long, how fast, how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rate_pps: f64,
    pub(super) time: Duration,
    pub(super) repetitions: usize,
}

/// The core of the generator, and those of the monitor's threads: one apart from it, where there is
/// one, and then the generator's own.
pub(super) fn cores() -> (Option<usize>, Vec<usize>) {
    let allowed = hw::cores::allowed();
    match allowed[..] {
        [] | [_] => (None, Vec::new()),
        [first, second] => (Some(first), vec![second, first]),
        [first, ref rest @ ..] => (Some(first), rest.to_vec()),
    }
}

/// Trials of each condition, forth and back.
#[cfg(feature = "dpdk")]
pub(super) fn real_trials(
    context: &mut Context<'_>,
    traffic: &TrafficOptions,
    load: Load,
    conditions: &[RealCondition],
) -> Result<Vec<Vec<Real>>, TrialError> {
    use crate::software_link::{Extent, RealOptions, RealTrial};
    use port::dpdk::Pools;
    use port::dpdk::software_nic::NicOptions;

    let mut results: Vec<Vec<Real>> = vec![Vec::new(); conditions.len()];
    for repetition in 0..load.repetitions {
        for place in crate::statistics::abba(conditions.len(), repetition) {
            let condition = &conditions[place];
            let options = RealOptions {
                rate_pps: load.rate_pps,
                extent: Extent::Time(load.time),
                core: cores().0,
                nic: NicOptions {
                    queues: condition.card.queues,
                    pools: if condition.card.shared_pool {
                        Pools::Shared
                    } else {
                        Pools::PerQueue
                    },
                    pool_size: condition.card.pool_size,
                    ..NicOptions::default()
                },
            };
            let mut trial = RealTrial::run(traffic, &options, &condition.monitor)?;
            context.trials.count(&trial.verdict.against);
            if !trial.verdict.is_valid() {
                trial = RealTrial::run(traffic, &options, &condition.monitor)?;
                context.trials.count(&trial.verdict.against);
            }
            context.trials.example = trial.ledger.identity();
            results[place].push(trial.into());
        }
    }
    Ok(results)
}

/// Without DPDK there are none.
#[cfg(not(feature = "dpdk"))]
pub(super) fn real_trials(
    _: &mut Context<'_>,
    _: &TrafficOptions,
    _: Load,
    _: &[RealCondition],
) -> Result<Vec<Vec<Real>>, TrialError> {
    Err(TrialError::Missing(WITHOUT.into()))
}

/// One trial of a replayed recording; each batch of records is shown to `look`.
#[cfg(feature = "dpdk")]
pub(super) fn real_replay(
    context: &mut Context<'_>,
    replay: &mut Replay,
    load: Load,
    monitor: &Monitor,
    look: impl FnMut(&RecordBatch) + Send,
) -> Result<Real, TrialError> {
    use crate::software_link::{Extent, RealOptions, RealTrial};
    let options = RealOptions {
        rate_pps: load.rate_pps,
        extent: Extent::Time(load.time),
        core: cores().0,
        nic: port::dpdk::software_nic::NicOptions::default(),
    };
    let flows = replay.flows();
    let trial = RealTrial::of(replay, flows, Replay::key, &options, monitor, look)?;
    context.trials.count(&trial.verdict.against);
    Ok(trial.into())
}

/// Without DPDK there is none.
#[cfg(not(feature = "dpdk"))]
pub(super) fn real_replay(
    _: &mut Context<'_>,
    _: &mut Replay,
    _: Load,
    _: &Monitor,
    _: impl FnMut(&RecordBatch) + Send,
) -> Result<Real, TrialError> {
    Err(TrialError::Missing(WITHOUT.into()))
}

/// Packet drop ratios of the trials that say something.
pub(super) fn drop_ratios(trials: &[Real]) -> Vec<f64> {
    trials
        .iter()
        .filter(|trial| trial.verdict.is_valid())
        .map(|trial| trial.ledger.drop_ratio())
        .collect()
}

/// Lost and offered packets of the trials that say something, all together.
pub(super) fn lost_of(trials: &[Real]) -> (u64, u64) {
    trials
        .iter()
        .filter(|trial| trial.verdict.is_valid())
        .fold((0, 0), |(lost, offered), trial| {
            (lost + trial.ledger.lost(), offered + trial.ledger.offered)
        })
}

/// Whether trials say enough for a verdict: two of them are valid, or all that there were to be.
pub(super) fn tell(trials: &[Real], repetitions: usize) -> bool {
    let valid = trials.iter().filter(|trial| trial.verdict.is_valid());
    valid.count() >= repetitions.min(2)
}

/// The rows of trials in real time.
pub(super) fn real_table(
    context: &Context<'_>,
    name: &str,
    what: &str,
    conditions: &[RealCondition],
    results: &[Vec<Real>],
) -> Table {
    let mut table = Table::new(
        name,
        "In real time over the software NIC",
        &[
            what,
            "valid trials",
            "sent, Mpps",
            "offered",
            "lost: queue full",
            "lost: no buffer",
            "lost: ring before the monitor",
            "drop ratio",
            "95 % from",
            "to",
            "± by t",
            "processor time, ns a packet",
            "remarks",
        ],
    );
    for (condition, trials) in conditions.iter().zip(results) {
        let valid: Vec<&Real> = trials
            .iter()
            .filter(|trial| trial.verdict.is_valid())
            .collect();
        let by_reason = |reason: &str| -> u64 {
            valid
                .iter()
                .flat_map(|trial| &trial.ledger.monitor_loss)
                .filter(|(name, _)| name == reason)
                .map(|(_, packets)| packets)
                .sum()
        };
        let ratios = drop_ratios(trials);
        let mean = context.mean(&ratios);
        let each = |figure: fn(&Real) -> f64| {
            crate::statistics::mean(&valid.iter().map(|trial| figure(trial)).collect::<Vec<_>>())
        };
        let mut remarks: Vec<String> = trials
            .iter()
            .flat_map(|trial| trial.faults.iter().chain(&trial.verdict.against))
            .cloned()
            .collect();
        remarks.sort_unstable();
        remarks.dedup();
        remarks.truncate(2);
        table.row(vec![
            condition.name.as_str().into(),
            valid.len().into(),
            (each(|trial| trial.sent_pps) / 1e6).into(),
            lost_of(trials).1.into(),
            by_reason("missed").into(),
            by_reason("no-buffer").into(),
            by_reason("ring").into(),
            mean.value.into(),
            mean.low.into(),
            mean.high.into(),
            context.half_by_t(&ratios).into(),
            each(|trial| trial.cpu_ns).into(),
            remarks.join("; ").into(),
        ]);
    }
    table
}

/// A drop ratio in words.
pub(super) fn ratio_text(ratio: f64) -> String {
    if ratio.is_nan() {
        "(no valid trial)".into()
    } else {
        format!("{ratio:.1e}")
    }
}
