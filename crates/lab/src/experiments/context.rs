//! The context of an experiment: its extent, its trials, and the measurements that several experiments
//! share.

use crate::monitor::Monitor;
use crate::outcome::{Cell, Table, Trials};
use crate::plot::Point;
use crate::search::{Goal, Search, Sustained};
use crate::statistics::{Interval, abba, bootstrap, t_interval};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{Acquisition, VirtualOptions, Wire};
use std::sync::Arc;

/// How long and how often the experiments measure.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Full form, as in the papers; otherwise the short form.
    pub full: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Repetitions of each trial; `None`: the experiment's own number.
    pub repetitions: Option<usize>,
    /// The command line, for the result files.
    pub command: String,
}

/// The extent of an experiment, its progress messages and its trials.
pub struct Context<'a> {
    extent: &'a Extent,
    progress: &'a mut dyn FnMut(&str),
    /// The trials so far.
    pub trials: Trials,
}

/// Start and end of a search, as shares of the capacity that full bursts promise.
const SEARCH_INTERVAL: (f64, f64) = (0.7, 1.08);

impl<'a> Context<'a> {
    /// For one experiment; `progress` receives its progress messages.
    pub fn new(extent: &'a Extent, progress: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            extent,
            progress,
            trials: Trials::default(),
        }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.extent.seed
    }

    /// Whether this is the full form.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.extent.full
    }

    /// Returns `short` in the short form, `full` in the full form.
    #[must_use]
    pub fn pick<T>(&self, short: T, full: T) -> T {
        if self.extent.full { full } else { short }
    }

    /// The number of repetitions: the requested one, or `short` or `full`; at least 1.
    #[must_use]
    pub fn repetitions(&self, short: usize, full: usize) -> usize {
        self.extent
            .repetitions
            .unwrap_or_else(|| self.pick(short, full))
            .max(1)
    }

    /// Reports what the experiment is doing.
    pub fn progress(&mut self, step: &str) {
        (self.progress)(step);
    }

    /// Runs a trial in the virtual clock; repeats an invalid one up to twice.
    ///
    /// # Errors
    /// When the trial cannot run.
    pub fn trial(
        &mut self,
        wire: &Arc<Wire>,
        link: &VirtualOptions,
        monitor: &Monitor,
    ) -> Result<Trial, TrialError> {
        let mut trial = Trial::run(wire, link, monitor)?;
        for _ in 0..2 {
            self.trials.count(&trial.validity.reasons);
            self.trials.example = trial.ledger.identity();
            if trial.validity.is_valid() {
                break;
            }
            trial = Trial::run(wire, link, monitor)?;
        }
        Ok(trial)
    }

    /// Measures the monitor's time per packet in full bursts, in nanoseconds, without the receive charge.
    ///
    /// # Errors
    /// When the trial cannot run.
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

    /// Measures the cost of several conditions in ABBA order, `repetitions` trials each.
    ///
    /// # Errors
    /// When a trial cannot run.
    pub(super) fn costs(
        &mut self,
        conditions: &[Condition],
        packets: u64,
        repetitions: usize,
    ) -> Result<Vec<Cost>, TrialError> {
        let mut samples = vec![Vec::with_capacity(repetitions); conditions.len()];
        for repetition in 0..repetitions {
            for index in abba(conditions.len(), repetition) {
                let Condition {
                    wire,
                    link,
                    monitor,
                    ..
                } = &conditions[index];
                samples[index].push(self.cost(wire, packets, link, monitor)?);
            }
        }
        let named = conditions.iter().zip(samples);
        Ok(named
            .map(|(condition, samples)| self.cost_of(&condition.name, samples))
            .collect())
    }

    /// Names a condition's samples and estimates their mean.
    pub(super) fn cost_of(&self, name: &str, samples: Vec<f64>) -> Cost {
        Cost {
            name: name.into(),
            estimate: self.estimate(&samples),
            samples,
        }
    }

    /// Searches the highest rate that a monitor sustains without a lost packet, by bisection, to 1 %.
    /// The rate is NaN if no trial was sustained and some were invalid.
    ///
    /// # Errors
    /// When a trial cannot run.
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
            // A periodic receiver takes at most a ring per period. Above that rate it never finds the
            // ring empty, works without a break and may seem to sustain more again.
            capacity = capacity.min(link.ring as f64 * 1e9 / ns as f64 * queues);
        }
        let (low, high) = SEARCH_INTERVAL;
        let search = Search::new(capacity * low, capacity * high, goal);
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
            // The machine was too busy to show either that a rate is sustained or that it is not.
            found.rate = f64::NAN;
        }
        Ok(found)
    }

    /// Estimates the mean of repeated values.
    #[must_use]
    pub(super) fn estimate(&self, values: &[f64]) -> Estimate {
        let by_t = t_interval(values);
        let half = by_t.high - by_t.value;
        Estimate {
            interval: bootstrap(values, self.extent.seed),
            half_by_t: if half.is_finite() { half } else { f64::NAN },
        }
    }
}

/// The mean of repeated values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// The mean with its 95 % bootstrap interval.
    pub(super) interval: Interval,
    /// Half of the 95 % interval by Student's t, as the papers give it; NaN for fewer than two values.
    pub(super) half_by_t: f64,
}

impl Estimate {
    /// The names of the columns that [`Estimate::cells`] fills after the mean.
    pub(super) const COLUMNS: [&'static str; 3] = ["95 % from", "to", "± by t"];

    /// The mean.
    pub(super) fn mean(&self) -> f64 {
        self.interval.value
    }

    /// The same in another unit.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self {
            interval: Interval {
                value: self.interval.value * factor,
                low: self.interval.low * factor,
                high: self.interval.high * factor,
            },
            half_by_t: self.half_by_t * factor,
        }
    }

    /// Mean, both ends of the interval, half by t.
    pub(super) fn cells(&self) -> [Cell; 4] {
        let Interval { value, low, high } = self.interval;
        [value, low, high, self.half_by_t].map(Cell::from)
    }

    /// A point of a plot with its interval.
    pub(super) fn point(&self, x: f64) -> Point {
        Point::of(x, self.interval)
    }
}

/// The measured cost of a condition, in nanoseconds per packet.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// The condition's name.
    pub(super) name: String,
    /// One value per repetition.
    pub(super) samples: Vec<f64>,
    /// Their mean.
    pub(super) estimate: Estimate,
}

impl Cost {
    /// The mean cost.
    pub(super) fn ns(&self) -> f64 {
        self.estimate.mean()
    }
}

/// One of several things that are compared.
#[derive(Clone)]
pub(super) struct Condition {
    /// Its name.
    pub(super) name: String,
    /// The traffic.
    pub(super) wire: Arc<Wire>,
    /// The link.
    pub(super) link: VirtualOptions,
    /// The monitor.
    pub(super) monitor: Monitor,
}

impl Condition {
    /// A monitor on a link with the default options.
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

/// The instrument's description for experiments in the virtual clock.
pub(super) const VIRTUAL_CLOCK: &str = "Virtual clock: the wire advances by the receiver's own timestamp \
    counter; stalls of the machine are clipped and counted. It is optimistic: frames are in the cache, and \
    the device's receive function is a fixed charge of 9.8 ns per packet.";

/// Converts packets per second to million packets per second.
#[must_use]
pub(super) fn mpps(rate: f64) -> f64 {
    rate / 1e6
}

/// The highest rate that a sustained cost allows, in Mpps; the receive charge is added.
#[must_use]
pub(super) fn mpps_of_cost(ns: f64) -> f64 {
    1e3 / (ns + VirtualOptions::RECEIVE_NS)
}

/// A name and a value of an experiment's parameters.
pub(super) fn parameter(name: &str, value: impl ToString) -> (String, String) {
    (name.into(), value.to_string())
}

/// The repetitions as a parameter.
pub(super) fn repetitions_parameter(repetitions: usize) -> (String, String) {
    parameter("repetitions", format!("{repetitions}, in ABBA order"))
}

/// A table of costs with their intervals and the rates that they allow.
#[must_use]
pub(super) fn cost_table(name: &str, caption: &str, what: &str, costs: &[Cost]) -> Table {
    let [low, high, half] = Estimate::COLUMNS;
    let mut table = Table::new(
        name,
        caption,
        &[
            what,
            "ns per packet",
            low,
            high,
            half,
            "Mpps per core, with receive charge",
        ],
    );
    for cost in costs {
        let mut row = vec![cost.name.as_str().into()];
        row.extend(cost.estimate.cells());
        row.push(mpps_of_cost(cost.ns()).into());
        table.row(row);
    }
    table
}
