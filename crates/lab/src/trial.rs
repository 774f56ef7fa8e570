//! One trial in the virtual clock: a link at a rate, a monitor on it, and whether the trial is valid.

use crate::ledger::Ledger;
use crate::monitor::{FlowCounts, Monitor, MonitorResult};
use crate::search::Probe;
use crate::virtual_clock::{QueueOutcome, VirtualOptions, VirtualPort, Wire};
use engine::{EngineError, Report};
use flow::RecordBatch;
use hw::time::TickRate;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

/// Why a trial cannot run.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The engine reports an error.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Too little memory, or invalid options of the link.
    #[error("cannot set up the emulated link: {0}")]
    Link(#[from] io::Error),
    /// An instrument is missing.
    #[error("{0}")]
    Missing(String),
}

impl TrialError {
    /// [`TrialError::Missing`] with the text of `error`.
    pub(crate) fn missing(error: impl Display) -> Self {
        Self::Missing(error.to_string())
    }
}

/// Whether a trial is valid, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// Why it is invalid; empty for a valid trial.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Whether the trial is valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Formats the validity and its reasons.
    #[must_use]
    pub fn description(&self) -> String {
        if self.is_valid() {
            "valid".into()
        } else {
            format!("invalid: {}", self.reasons.join("; "))
        }
    }
}

/// The share of stalled polls above which a trial is invalid.
const STALLED_SHARE_MAX: f64 = 0.02;

/// The result of a trial in the virtual clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Packets offered per second.
    pub rate_pps: f64,
    /// The books.
    pub ledger: Ledger,
    /// Whether the trial is valid.
    pub validity: Validity,
    /// Ticks per packet of the monitor's own work, without the receive charge.
    pub ticks_per_packet: f64,
    /// The same in nanoseconds.
    pub ns_per_packet: f64,
    /// Mean packets per poll.
    pub packets_per_poll: f64,
    /// Polls that the machine stalled.
    pub stalls: u64,
    /// The clipped time of stalls, in seconds.
    pub stalled_seconds: f64,
    /// The longest stall, in microseconds.
    pub worst_stall_us: f64,
    /// The most packets in a ring at a poll.
    pub occupancy_max: u64,
    /// Packets lost and offered after the warm-up.
    pub after_warm_up: [u64; 2],
    /// The counts of each queue's port.
    #[serde(skip)]
    pub queues: Vec<QueueOutcome>,
    /// The engine's report.
    #[serde(skip)]
    pub report: Report,
}

impl Trial {
    /// Runs a trial.
    ///
    /// # Errors
    /// When the engine reports an error, or there is too little memory.
    pub fn run(
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
    ) -> Result<Self, TrialError> {
        Self::run_observed(wire, link, monitor, |_| {})
    }

    /// The same; `observe` sees each batch of records.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn run_observed(
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
        mut observe: impl FnMut(&RecordBatch) + Send,
    ) -> Result<Self, TrialError> {
        let (ports, outcomes) = VirtualPort::queues(wire, link)?;
        let mut counts = (link.truth && monitor.counts_five_tuples()).then(FlowCounts::default);
        let result = monitor.run(ports, |batch| {
            if let Some(counts) = &mut counts {
                counts.add(batch);
            }
            observe(batch);
        })?;
        let queues = outcomes.take();
        Ok(Self::of(wire, link, counts.as_ref(), result, queues))
    }

    fn of(
        wire: &Wire,
        link: &VirtualOptions,
        counts: Option<&FlowCounts>,
        result: MonitorResult,
        queues: Vec<QueueOutcome>,
    ) -> Self {
        let sum = |figure: fn(&QueueOutcome) -> u64| queues.iter().map(figure).sum::<u64>();
        let books = &result.report.books;
        let missed = sum(|queue| queue.missed);
        let truth = counts.map(|counts| {
            let mut truth: HashMap<_, u64> = HashMap::new();
            for queue in &queues {
                for (key, packets) in wire.flows().iter().zip(&queue.by_flow) {
                    *truth.entry(*key).or_default() += packets;
                }
            }
            counts.compare(&truth)
        });
        let mut losses: Vec<(String, u64)> = vec![("missed".into(), missed)];
        for reason in engine::Loss::ALL {
            let packets = books.dropped[reason as usize].packets;
            if reason != engine::Loss::Missed && packets > 0 {
                losses.push((reason.name().into(), packets));
            }
        }
        let ring = books.dropped[engine::Loss::Ring as usize].packets;
        let ledger = Ledger {
            intended: link.packets,
            offered: sum(|queue| queue.offered),
            link_loss: 0,
            monitor_loss: losses,
            waiting: sum(|queue| queue.waiting),
            received: sum(|queue| queue.received) - ring,
            in_flows: books.in_flows.packets,
            no_flow: books.without_flow().packets,
            unattributed: books.unattributed.packets,
            counted_only: books.counted_only.packets,
            flows: truth,
        };
        let rate = TickRate::get();
        let own_packets = sum(|queue| queue.busy_packets).max(1) as f64;
        let ticks_per_packet = sum(|queue| queue.own_ticks) as f64 / own_packets;
        let stalls = sum(|queue| queue.stalled.polls);
        let polls = sum(|queue| queue.polls);
        let worst = queues.iter().map(|queue| queue.stalled.worst).max();
        let mut trial = Self {
            rate_pps: link.rate_pps,
            validity: Validity::default(),
            ticks_per_packet,
            ns_per_packet: ticks_per_packet * 1e9 / rate.per_second(),
            packets_per_poll: ledger.received as f64 / polls.max(1) as f64,
            stalls,
            stalled_seconds: sum(|queue| queue.stalled.ticks) as f64 / rate.per_second(),
            worst_stall_us: rate.to_ns(worst.unwrap_or(0)) as f64 / 1e3,
            occupancy_max: queues
                .iter()
                .map(|queue| queue.occupancy_max)
                .max()
                .unwrap_or(0),
            after_warm_up: [
                missed - sum(|queue| queue.missed_warming),
                ledger.offered - sum(|queue| queue.offered_warming),
            ],
            ledger,
            queues,
            report: result.report,
        };
        trial.judge(&result.records_lost, polls);
        trial
    }

    fn judge(&mut self, records_lost: &u64, polls: u64) {
        let reasons = &mut self.validity.reasons;
        reasons.extend(self.ledger.faults());
        reasons.extend(self.report.faults.iter().cloned());
        if !self.report.books.is_balanced() {
            reasons.push("the engine's books do not balance".into());
        }
        if *records_lost > 0 {
            reasons.push(format!("{records_lost} records were lost"));
        }
        if self.stalls as f64 > STALLED_SHARE_MAX * polls as f64 + 1.0 {
            reasons.push(format!(
                "{} of {polls} polls were stalled: the machine is too busy",
                self.stalls
            ));
        }
    }

    /// The packet drop ratio after the warm-up.
    #[must_use]
    pub fn drop_ratio(&self) -> f64 {
        let [lost, offered] = self.after_warm_up;
        if offered == 0 {
            return f64::NAN;
        }
        lost as f64 / offered as f64
    }

    /// The trial as a probe of a search.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe {
            offered: self.after_warm_up[1],
            lost: self.after_warm_up[0],
            valid: self.validity.is_valid(),
        }
    }
}
