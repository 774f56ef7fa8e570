//! Trials in real time over the software NIC, in builds with DPDK.

use super::context::{Context, Estimate};
use crate::ledger::Ledger;
use crate::monitor::Monitor;
use crate::outcome::Table;
use crate::trial::{TrialError, Validity};
use flow::RecordBatch;
use generator::{Replay, TrafficOptions};
use std::time::Duration;

/// The instrument's description for experiments over the software NIC.
pub(super) const SOFTWARE_NIC: &str = "Software NIC: a paced generator on its own thread, DPDK's \
    rings as a card with receive queues of 4096. It runs in real time on a machine whose cores stall: only \
    ratios within one run are meaningful.";

/// The error in builds without DPDK.
#[cfg(not(feature = "dpdk"))]
const WITHOUT_DPDK: &str =
    "needs the software NIC: build with --features dpdk (./setup installs the dependencies)";

/// The receive side of the software NIC.
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "read in builds with DPDK only")
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
    allow(dead_code, reason = "read in builds with DPDK only")
)]
#[derive(Clone)]
pub(super) struct RealTimeCondition {
    pub(super) name: String,
    pub(super) card: Card,
    pub(super) monitor: Monitor,
}

/// The result of a trial in real time.
#[derive(Clone, Debug)]
pub(super) struct RealTimeTrial {
    pub(super) ledger: Ledger,
    pub(super) validity: Validity,
    pub(super) sent_pps: f64,
    pub(super) cpu_ns: f64,
    /// Faults that do not make the trial invalid, such as a thread without its scheduling policy.
    pub(super) faults: Vec<String>,
}

#[cfg(feature = "dpdk")]
impl From<crate::software_link::RealTrial> for RealTimeTrial {
    fn from(trial: crate::software_link::RealTrial) -> Self {
        Self {
            ledger: trial.ledger,
            validity: trial.validity,
            sent_pps: trial.sent_pps,
            cpu_ns: trial.cpu_ns,
            faults: trial.faults,
        }
    }
}

/// Rate, duration and repetitions of the trials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rate_pps: f64,
    pub(super) time: Duration,
    pub(super) repetitions: usize,
}

/// The core of the generator, and those of the monitor's threads. With two cores the monitor's second
/// thread shares the generator's core.
pub(super) fn cores() -> (Option<usize>, Vec<usize>) {
    let allowed = hw::cores::allowed();
    match allowed[..] {
        [] | [_] => (None, Vec::new()),
        [first, second] => (Some(first), vec![second, first]),
        [first, ref rest @ ..] => (Some(first), rest.to_vec()),
    }
}

/// Runs trials of each condition in ABBA order; repeats an invalid one once.
#[cfg(feature = "dpdk")]
pub(super) fn real_time_trials(
    context: &mut Context<'_>,
    traffic: &TrafficOptions,
    load: Load,
    conditions: &[RealTimeCondition],
) -> Result<Vec<RealTimeResult>, TrialError> {
    use crate::software_link::{Extent, RealOptions, RealTrial};
    use port::dpdk::Pools;
    use port::dpdk::software_nic::NicOptions;

    let mut results: Vec<Vec<RealTimeTrial>> = vec![Vec::new(); conditions.len()];
    for repetition in 0..load.repetitions {
        for index in crate::statistics::abba(conditions.len(), repetition) {
            let condition = &conditions[index];
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
            context.trials.count(&trial.validity.reasons);
            if !trial.validity.is_valid() {
                trial = RealTrial::run(traffic, &options, &condition.monitor)?;
                context.trials.count(&trial.validity.reasons);
            }
            context.trials.example = trial.ledger.identity();
            results[index].push(trial.into());
        }
    }
    let named = conditions.iter().zip(results);
    Ok(named
        .map(|(condition, trials)| RealTimeResult::new(context, &condition.name, trials))
        .collect())
}

/// Fails: this build has no software NIC.
#[cfg(not(feature = "dpdk"))]
pub(super) fn real_time_trials(
    _: &mut Context<'_>,
    _: &TrafficOptions,
    _: Load,
    _: &[RealTimeCondition],
) -> Result<Vec<RealTimeResult>, TrialError> {
    Err(TrialError::Missing(WITHOUT_DPDK.into()))
}

/// Runs one trial of a replayed recording; `observe` sees each batch of records.
#[cfg(feature = "dpdk")]
pub(super) fn real_time_replay(
    context: &mut Context<'_>,
    replay: &mut Replay,
    load: Load,
    monitor: &Monitor,
    observe: impl FnMut(&RecordBatch) + Send,
) -> Result<RealTimeTrial, TrialError> {
    use crate::software_link::{Extent, RealOptions, RealTrial};
    let options = RealOptions {
        rate_pps: load.rate_pps,
        extent: Extent::Time(load.time),
        core: cores().0,
        nic: port::dpdk::software_nic::NicOptions::default(),
    };
    let flows = replay.flows();
    let trial = RealTrial::of(replay, flows, Replay::key, &options, monitor, observe)?;
    context.trials.count(&trial.validity.reasons);
    Ok(trial.into())
}

/// Fails: this build has no software NIC.
#[cfg(not(feature = "dpdk"))]
pub(super) fn real_time_replay(
    _: &mut Context<'_>,
    _: &mut Replay,
    _: Load,
    _: &Monitor,
    _: impl FnMut(&RecordBatch) + Send,
) -> Result<RealTimeTrial, TrialError> {
    Err(TrialError::Missing(WITHOUT_DPDK.into()))
}

/// The trials of one condition.
pub(super) struct RealTimeResult {
    pub(super) name: String,
    pub(super) trials: Vec<RealTimeTrial>,
    /// The drop ratio of the valid trials.
    pub(super) drop_ratio: Estimate,
}

impl RealTimeResult {
    #[cfg(feature = "dpdk")]
    fn new(context: &Context<'_>, name: &str, trials: Vec<RealTimeTrial>) -> Self {
        let valid = trials.iter().filter(|trial| trial.validity.is_valid());
        let ratios: Vec<f64> = valid.map(|trial| trial.ledger.drop_ratio()).collect();
        Self {
            name: name.into(),
            drop_ratio: context.estimate(&ratios),
            trials,
        }
    }

    fn valid(&self) -> impl Iterator<Item = &RealTimeTrial> {
        self.trials.iter().filter(|trial| trial.validity.is_valid())
    }

    /// Lost and offered packets of the valid trials together.
    pub(super) fn lost(&self) -> (u64, u64) {
        self.valid().fold((0, 0), |(lost, offered), trial| {
            (lost + trial.ledger.lost(), offered + trial.ledger.offered)
        })
    }

    /// The drop ratio of the valid trials together; NaN without one.
    pub(super) fn total_drop_ratio(&self) -> f64 {
        let (lost, offered) = self.lost();
        lost as f64 / offered as f64
    }

    /// CPU time per packet of each trial, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Vec<f64> {
        self.trials.iter().map(|trial| trial.cpu_ns).collect()
    }

    /// Whether there are enough valid trials for a verdict: two, or all if there is only one.
    pub(super) fn is_conclusive(&self, repetitions: usize) -> bool {
        self.valid().count() >= repetitions.min(2)
    }

    /// Packets that were lost for one reason in the valid trials.
    fn lost_for(&self, reason: &str) -> u64 {
        self.valid()
            .flat_map(|trial| &trial.ledger.monitor_loss)
            .filter(|(name, _)| name == reason)
            .map(|(_, packets)| packets)
            .sum()
    }

    /// At most two faults or reasons why trials were invalid.
    fn remarks(&self) -> String {
        let mut remarks: Vec<&str> = self
            .trials
            .iter()
            .flat_map(|trial| trial.faults.iter().chain(&trial.validity.reasons))
            .map(String::as_str)
            .collect();
        remarks.sort_unstable();
        remarks.dedup();
        remarks.truncate(2);
        remarks.join("; ")
    }
}

/// Tabulates trials in real time; `what` names the first column.
pub(super) fn real_time_table(name: &str, what: &str, results: &[RealTimeResult]) -> Table {
    let [low, high, half] = Estimate::COLUMNS;
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
            low,
            high,
            half,
            "CPU time, ns per packet",
            "remarks",
        ],
    );
    for result in results {
        let mean_of = |figure: fn(&RealTimeTrial) -> f64| {
            crate::statistics::mean(&result.valid().map(figure).collect::<Vec<_>>())
        };
        let mut row = vec![
            result.name.as_str().into(),
            result.valid().count().into(),
            (mean_of(|trial| trial.sent_pps) / 1e6).into(),
            result.lost().1.into(),
            result.lost_for("missed").into(),
            result.lost_for("no-buffer").into(),
            result.lost_for("ring").into(),
        ];
        row.extend(result.drop_ratio.cells());
        row.push(mean_of(|trial| trial.cpu_ns).into());
        row.push(result.remarks().into());
        table.row(row);
    }
    table
}

/// Formats a drop ratio.
pub(super) fn ratio_text(ratio: f64) -> String {
    if ratio.is_nan() {
        "(no valid trial)".into()
    } else {
        format!("{ratio:.1e}")
    }
}
