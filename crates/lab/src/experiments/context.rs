//! What an experiment is given, and what several of them do alike.

use crate::monitor::Monitor;
use crate::outcome::{Outcome, Table, Trials};
use crate::search::{Goal, Search, Sustained};
use crate::statistics::{Interval, abba, bootstrap, t_interval};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{Acquisition, VirtualOptions, Wire};
use std::sync::Arc;

/// How the experiments are to run.
#[derive(Clone, Debug)]
pub struct Extent {
    /// As the papers had it, not the short form.
    pub full: bool,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// Repetitions of each trial, if not as the experiment has it.
    pub repetitions: Option<usize>,
    /// The command line, for the result files.
    pub command: String,
}

/// What an experiment is given.
pub struct Context<'a> {
    extent: &'a Extent,
    say: &'a mut dyn FnMut(&str),
    /// The trials so far.
    pub trials: Trials,
}

/// Of the capacity that full bursts promise, where a search begins and ends.
const SEARCHED: (f64, f64) = (0.7, 1.08);

impl<'a> Context<'a> {
    /// For one experiment; `say` is told what it is doing.
    pub fn new(extent: &'a Extent, say: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            extent,
            say,
            trials: Trials::default(),
        }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.extent.seed
    }

    /// Whether it is to be as the paper had it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.extent.full
    }

    /// The one in the short form, the other in the full one.
    #[must_use]
    pub fn pick<T>(&self, short: T, full: T) -> T {
        if self.extent.full { full } else { short }
    }

    /// Repetitions: as they were asked for, or as the experiment has it.
    #[must_use]
    pub fn repetitions(&self, short: usize, full: usize) -> usize {
        self.extent
            .repetitions
            .unwrap_or_else(|| self.pick(short, full))
            .max(1)
    }

    /// Says what is being done.
    pub fn say(&mut self, what: &str) {
        (self.say)(what);
    }

    /// A trial in the virtual clock; one that is not valid is repeated, twice at most.
    ///
    /// # Errors
    /// When it cannot be carried out.
    pub fn trial(
        &mut self,
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
    ) -> Result<Trial, TrialError> {
        let mut trial = Trial::run(wire, link, monitor)?;
        for _ in 0..2 {
            self.trials.count(&trial.verdict.against);
            self.trials.example = trial.ledger.identity();
            if trial.verdict.is_valid() {
                break;
            }
            trial = Trial::run(wire, link, monitor)?;
        }
        Ok(trial)
    }

    /// What a packet costs the monitor in full bursts, in nanoseconds, without the receive charge.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub fn cost(
        &mut self,
        wire: &Arc<Wire>,
        packets: u64,
        link: &VirtualOptions,
        monitor: &Monitor,
    ) -> Result<f64, TrialError> {
        let link = VirtualOptions {
            rate_pps: f64::INFINITY,
            packets,
            truth: false,
            ..link.clone()
        };
        Ok(self.trial(wire, &link, monitor)?.ns_per_packet)
    }

    /// What a packet costs each of several monitors: `repetitions` trials of each, forth and back,
    /// nanoseconds by monitor and repetition.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub(super) fn costs(
        &mut self,
        conditions: &[Condition],
        packets: u64,
        repetitions: usize,
    ) -> Result<Vec<Vec<f64>>, TrialError> {
        let mut costs = vec![Vec::with_capacity(repetitions); conditions.len()];
        for repetition in 0..repetitions {
            for place in abba(conditions.len(), repetition) {
                let condition = &conditions[place];
                let cost = self.cost(
                    &condition.wire,
                    packets,
                    &condition.link,
                    &condition.monitor,
                )?;
                costs[place].push(cost);
            }
        }
        Ok(costs)
    }

    /// The highest rate that a monitor sustains without a lost packet, by halving, to 1 %.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub(super) fn sustained(
        &mut self,
        condition: &Condition,
        packets: u64,
        goal: Goal,
    ) -> Result<Sustained, TrialError> {
        let link = &condition.link;
        let cost = self.cost(&condition.wire, packets / 2, link, &condition.monitor)?;
        let queues = f64::from(link.queues);
        let mut capacity = 1e9 / (cost + link.receive_ns) * queues;
        if let Acquisition::Periodic(ns) = link.acquisition {
            // A ring a period: above it a receiver that is never done may seem to bear more again.
            capacity = capacity.min(link.ring as f64 * 1e9 / ns as f64 * queues);
        }
        let search = Search::new(capacity * SEARCHED.0, capacity * SEARCHED.1, goal);
        let mut found = search.run(|rate_pps| {
            let link = VirtualOptions {
                rate_pps,
                packets,
                warm_up: packets / 4,
                truth: false,
                ..link.clone()
            };
            let trial = self.trial(&condition.wire, &link, &condition.monitor)?;
            Ok::<_, TrialError>(trial.probe())
        })?;
        if found.rate == 0.0 && found.invalid() > 0 {
            // On so busy a machine nothing was sustained and nothing was shown not to be.
            found.rate = f64::NAN;
        }
        Ok(found)
    }

    /// The mean of repeated values with its bootstrap interval.
    #[must_use]
    pub fn mean(&self, values: &[f64]) -> Interval {
        bootstrap(values, self.extent.seed)
    }

    /// Half of the paper's 95 % interval of that mean, by Student's t; NaN of less than two values.
    #[must_use]
    pub fn half_by_t(&self, values: &[f64]) -> f64 {
        let interval = t_interval(values);
        let half = interval.high - interval.value;
        if half.is_finite() { half } else { f64::NAN }
    }
}

/// One of several things that are compared.
#[derive(Clone)]
pub(super) struct Condition {
    /// Its name.
    pub(super) name: String,
    /// What comes.
    pub(super) wire: Arc<Wire>,
    /// Over what.
    pub(super) link: VirtualOptions,
    /// The monitor.
    pub(super) monitor: Monitor,
}

impl Condition {
    /// A monitor on a link of the usual kind.
    #[must_use]
    pub(super) fn new(name: impl Into<String>, wire: &Arc<Wire>, monitor: Monitor) -> Self {
        Self {
            name: name.into(),
            wire: Arc::clone(wire),
            link: VirtualOptions::default(),
            monitor,
        }
    }

    /// The same over another link.
    #[must_use]
    pub(super) fn over(mut self, link: VirtualOptions) -> Self {
        self.link = link;
        self
    }
}

/// What experiments in the virtual clock say of their instrument.
pub(super) const VIRTUAL_CLOCK: &str = "Virtual clock: the wire moves on by the receiver's own time-stamp \
    ticks, stalls of the machine are clipped and counted. Optimistic: frames are in the cache, and \
    the device's receive function is a fixed charge of 9.8 ns a packet.";

/// Million packets a second.
#[must_use]
pub(super) fn mpps(rate: f64) -> f64 {
    rate / 1e6
}

/// The highest rate that a sustained cost allows, in Mpps.
#[must_use]
pub(super) fn mpps_of_cost(ns: f64) -> f64 {
    1e3 / (ns + VirtualOptions::RECEIVE_NS)
}

/// An outcome to be filled, with its names.
#[must_use]
pub(super) fn outcome(experiment: &super::Experiment, instrument: &str) -> Outcome {
    Outcome {
        name: experiment.name.into(),
        title: experiment.title.into(),
        source: experiment.source.into(),
        instrument: instrument.into(),
        settings: Vec::new(),
        findings: Vec::new(),
        comparisons: Vec::new(),
        figures: Vec::new(),
        tables: Vec::new(),
        notes: Vec::new(),
        trials: Trials::default(),
        provenance: crate::machine::Provenance::default(),
        seconds: 0.0,
    }
}

/// A table of costs: ns a packet with its interval, and the rate that this allows.
#[must_use]
pub(super) fn cost_table(
    context: &Context<'_>,
    name: &str,
    caption: &str,
    what: &str,
    conditions: &[Condition],
    costs: &[Vec<f64>],
) -> Table {
    let mut table = Table::new(
        name,
        caption,
        &[
            what,
            "ns a packet",
            "95 % from",
            "to",
            "± by t",
            "Mpps of a core, receive charge in",
        ],
    );
    for (condition, costs) in conditions.iter().zip(costs) {
        let mean = context.mean(costs);
        table.row(vec![
            condition.name.as_str().into(),
            mean.value.into(),
            mean.low.into(),
            mean.high.into(),
            context.half_by_t(costs).into(),
            mpps_of_cost(mean.value).into(),
        ]);
    }
    table
}
