//! One trial in the virtual clock: a link at a rate, a monitor on it, and a verdict whether it says
//! anything.

use crate::ledger::Ledger;
use crate::monitor::{FlowCounts, Monitor, Watched};
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

/// Why a trial cannot be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The machine has no room, or there is no such link.
    #[error("the emulated link cannot be made: {0}")]
    Link(#[from] io::Error),
    /// An instrument that is not here.
    #[error("{0}")]
    Missing(String),
}

impl TrialError {
    /// [`TrialError::Missing`] in the words of what cannot be had.
    pub(crate) fn missing(error: impl Display) -> Self {
        Self::Missing(error.to_string())
    }
}

/// Whether a trial says anything, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What speaks against it; empty for a valid trial.
    pub against: Vec<String>,
}

impl Verdict {
    /// Whether it is valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.against.is_empty()
    }

    /// In words.
    #[must_use]
    pub fn description(&self) -> String {
        if self.is_valid() {
            "valid".into()
        } else {
            format!("invalid: {}", self.against.join("; "))
        }
    }
}

/// Of the polls, the share that may be stalled before a trial says nothing.
const STALLED_SHARE_MAX: f64 = 0.02;

/// What a trial in the virtual clock showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Packets offered a second.
    pub rate_pps: f64,
    /// The books.
    pub ledger: Ledger,
    /// Whether it says anything.
    pub verdict: Verdict,
    /// Time-stamp ticks a packet of the monitor's own work (the receive charge not in it).
    pub ticks_per_packet: f64,
    /// The same in nanoseconds.
    pub ns_per_packet: f64,
    /// Packets a poll brought, on average.
    pub packets_per_poll: f64,
    /// Polls that the machine stalled.
    pub stalls: u64,
    /// Time that they were clipped by, in seconds.
    pub stalled_seconds: f64,
    /// The longest of them, in microseconds.
    pub worst_stall_us: f64,
    /// The most packets that a ring held when it was looked at.
    pub occupancy_max: u64,
    /// Packets lost and offered after the warm-up.
    pub after_warm_up: [u64; 2],
    /// Each queue as its port saw it.
    #[serde(skip)]
    pub queues: Vec<QueueOutcome>,
    /// The engine's report.
    #[serde(skip)]
    pub report: Report,
}

impl Trial {
    /// Carries it out.
    ///
    /// # Errors
    /// When the engine refuses, or there is no room.
    pub fn run(
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
    ) -> Result<Self, TrialError> {
        Self::run_looking(wire, link, monitor, |_| {})
    }

    /// The same, and each batch of records is shown to `look`.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn run_looking(
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
        mut look: impl FnMut(&RecordBatch) + Send,
    ) -> Result<Self, TrialError> {
        let (ports, outcomes) = VirtualPort::queues(wire, link)?;
        let mut counts = (link.truth && monitor.tells_flows()).then(FlowCounts::default);
        let watched = monitor.watch(ports, |batch| {
            if let Some(counts) = &mut counts {
                counts.add(batch);
            }
            look(batch);
        })?;
        let queues = outcomes.take();
        Ok(Self::of(wire, link, counts.as_ref(), watched, queues))
    }

    fn of(
        wire: &Wire,
        link: &VirtualOptions,
        counts: Option<&FlowCounts>,
        watched: Watched,
        queues: Vec<QueueOutcome>,
    ) -> Self {
        let sum = |figure: fn(&QueueOutcome) -> u64| queues.iter().map(figure).sum::<u64>();
        let books = &watched.report.books;
        let missed = sum(|queue| queue.missed);
        let truth = counts.map(|counts| {
            let mut truth: HashMap<_, u64> = HashMap::new();
            for queue in &queues {
                for (key, packets) in wire.flows().iter().zip(&queue.by_flow) {
                    *truth.entry(*key).or_default() += packets;
                }
            }
            counts.against(&truth)
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
            miscounted: books.unattributed.packets,
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
            verdict: Verdict::default(),
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
            report: watched.report,
        };
        trial.judge(&watched.records_lost, polls);
        trial
    }

    fn judge(&mut self, records_lost: &u64, polls: u64) {
        let against = &mut self.verdict.against;
        against.extend(self.ledger.faults());
        against.extend(self.report.faults.iter().cloned());
        if !self.report.books.is_balanced() {
            against.push("the engine's books do not balance".into());
        }
        if *records_lost > 0 {
            against.push(format!("{records_lost} records found no room"));
        }
        if self.stalls as f64 > STALLED_SHARE_MAX * polls as f64 + 1.0 {
            against.push(format!(
                "{} of {polls} polls were stalled: too busy a machine",
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

    /// What a search makes of it.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe {
            offered: self.after_warm_up[1],
            lost: self.after_warm_up[0],
            valid: self.verdict.is_valid(),
        }
    }
}
