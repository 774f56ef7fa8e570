//! DPDKStat, figures 5 and 6: the occupancy of the receive queue at the wakeups of a periodic thread,
//! and the probability that it overflows.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::quantile_of_sorted;
use crate::trial::TrialError;
use engine::occupancy::{Lognormal, Occupancy};
use hw::schedule::{Schedule, yield_cpu};
use hw::time::{TickRate, ticks};
use std::thread;
use std::time::Duration;

/// Packets per second of one queue: 40 Gbit/s of 716 B over twelve queues.
const RATE: f64 = 6.8e6 / 12.0;

const RING: f64 = 4096.0;
const PERIODS_US: [u64; 4] = [500, 1000, 2000, 4000];

/// More overflows than this multiple of the fit contradict it.
const TAIL_FACTOR: f64 = 10.0;

/// How the thread waits for the end of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waking {
    Deadline,
    Sleep,
}

impl Waking {
    fn name(self) -> &'static str {
        match self {
            Self::Deadline => "SCHED_DEADLINE",
            Self::Sleep => "sleeping, SCHED_OTHER",
        }
    }
}

/// Returns the times between the wakeups of a thread with a `period`, in microseconds; and the error if
/// the kernel refused its scheduling policy.
fn wakeups(waking: Waking, period: Duration, count: usize) -> (Vec<f64>, Option<String>) {
    let work = move || {
        let mut refused = None;
        if waking == Waking::Deadline {
            let schedule = Schedule::Deadline {
                runtime: period / 4,
                deadline: period,
                period,
            };
            if let Err(error) = schedule.apply() {
                refused = Some(error.to_string());
            }
        }
        let rate = TickRate::get();
        let mut times = Vec::with_capacity(count);
        let mut last = ticks();
        let begun = last;
        for number in 1..=count as u64 {
            if waking == Waking::Deadline && refused.is_none() {
                yield_cpu();
            } else {
                // Relative to the start, so that delays do not add up.
                let due = rate.to_ticks(period.as_nanos() as u64 * number);
                let left = due.saturating_sub(ticks() - begun);
                thread::sleep(Duration::from_nanos(rate.to_ns(left)));
            }
            let now = ticks();
            times.push(rate.to_ns(now - last) as f64 / 1e3);
            last = now;
        }
        (times, refused)
    };
    match hw::threads::spawn("wakeups", work) {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

/// The occupancy at the wakeups of one thread with one period.
struct Measured {
    waking: Waking,
    period_us: u64,
    /// Packets in the queue at each wakeup, sorted.
    packets: Vec<f64>,
    fit: Lognormal,
}

impl Measured {
    fn period_ms(&self) -> f64 {
        self.period_us as f64 / 1e3
    }

    /// Wakeups that find more packets than the ring holds.
    fn above(&self) -> u64 {
        self.packets.iter().filter(|held| **held > RING).count() as u64
    }

    /// The measured share of such wakeups.
    fn measured(&self) -> f64 {
        self.above() as f64 / self.packets.len().max(1) as f64
    }

    /// Their probability by the fit.
    fn fitted(&self) -> f64 {
        self.fit.probability_above(RING as usize)
    }

    /// The tail of the fit, for a plot.
    fn fitted_tail(&self) -> Vec<Point> {
        let (low, high) = (self.packets[0].max(1.0), RING * 4.0);
        (0..60)
            .map(|step| {
                let held = low * (high / low).powf(f64::from(step) / 59.0);
                Point::new(held, self.fit.probability_above(held as usize))
            })
            .filter(|point| point.y > 1e-4)
            .collect()
    }
}

pub(super) struct DpdkstatFig5;

pub(super) struct Results {
    /// Seconds per thread and period.
    seconds: f64,
    measured: Vec<Measured>,
    /// Periods for which the kernel refused SCHED_DEADLINE.
    refused: Vec<String>,
}

impl Results {
    fn with(&self, waking: Waking) -> impl Iterator<Item = &Measured> {
        self.measured
            .iter()
            .filter(move |measured| measured.waking == waking)
    }
}

impl Experiment for DpdkstatFig5 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig5";
    const TITLE: &'static str = "Occupancy of the receive queue, its lognormal fit, and overflow";
    const SOURCE: &'static str = "DPDKStat, figures 5 and 6";

    fn instrument() -> String {
        "A thread that wakes up every period, in real time; the packets in its queue are the time between two wakeups \
         times the rate of the queue. Stalls of the machine are included: they fill the tail."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let seconds = context.pick(1.2, 1000.0);
        let mut measured = Vec::new();
        let mut refused = Vec::new();
        for waking in [Waking::Deadline, Waking::Sleep] {
            for period_us in PERIODS_US {
                context.progress(&format!("{}, {period_us} µs", waking.name()));
                let count = (seconds * 1e6 / period_us as f64) as usize;
                let (times, error) = wakeups(waking, Duration::from_micros(period_us), count);
                if let Some(error) = error {
                    refused.push(format!(
                        "{period_us} µs: the kernel refuses SCHED_DEADLINE ({error}); the thread slept instead."
                    ));
                }
                let mut packets: Vec<f64> = times.iter().map(|time| time * RATE / 1e6).collect();
                packets.sort_by(f64::total_cmp);
                let mut occupancy = Occupancy::default();
                for &held in &packets {
                    occupancy.add(held as usize);
                }
                if let Some(fit) = occupancy.lognormal() {
                    measured.push(Measured {
                        waking,
                        period_us,
                        packets,
                        fit,
                    });
                }
            }
        }
        Ok(Results {
            seconds,
            measured,
            refused,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("rate of a queue", format!("{:.0} kpps", RATE / 1e3)),
            parameter("time per setting", format!("{} s", results.seconds)),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let deadline: Vec<&Measured> = results.with(Waking::Deadline).collect();
        let falls = deadline
            .windows(2)
            .all(|pair| pair[0].fitted() <= pair[1].fitted());
        let exceeds = deadline
            .iter()
            .any(|measured| measured.measured() > TAIL_FACTOR * measured.fitted());
        vec![Finding::new(
            "The occupancy's tail is lognormal, and the probability of overflow falls by orders of magnitude with the \
             period.",
            [
                Part::compared(
                    "The tail is lognormal.",
                    !exceeds,
                    if exceeds {
                        "Stalls of the machine, which a fit of the body does not predict, overflow the queue far more \
                         often than the fit."
                    } else {
                        "The measured overflows do not contradict the fit."
                    },
                ),
                Part::compared(
                    "The probability of overflow falls with the period.",
                    falls,
                    if falls {
                        "The probability by the fit falls with the period."
                    } else {
                        "The probability by the fit does not fall evenly with the period: a few stalls of the machine \
                         widen some fits, and outweigh the period."
                    },
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let texts: Vec<String> = results
            .with(Waking::Deadline)
            .map(|measured| {
                format!(
                    "{:.0e} ({:.0e}) at {} ms",
                    measured.fitted(),
                    measured.measured(),
                    measured.period_ms()
                )
            })
            .collect();
        vec![Comparison::new(
            "P(occupancy > 4096) under SCHED_DEADLINE by the fit (as measured)",
            "falls by 100 to 10,000 times for each halving of the period",
            texts.join(", "),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "occupancy",
            "Packets in the queue at a wakeup",
            &[
                "waking",
                "period, µs",
                "wakeups",
                "median",
                "99th percentile",
                "most",
                "fit: mean of ln",
                "fit: deviation of ln",
                "P(more than 4096) by the fit",
                "the same as measured",
            ],
        );
        for measured in &results.measured {
            let packets = &measured.packets;
            table.row(vec![
                measured.waking.name().into(),
                measured.period_us.into(),
                packets.len().into(),
                quantile_of_sorted(packets, 0.5).into(),
                quantile_of_sorted(packets, 0.99).into(),
                packets.last().copied().unwrap_or(f64::NAN).into(),
                measured.fit.mu.into(),
                measured.fit.sigma.into(),
                measured.fitted().into(),
                measured.measured().into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut tails = Figure::new(
            "tails",
            "Share of the wakeups that find more packets than a number (lines), and the lognormal fit (dashed), for \
             SCHED_DEADLINE.",
            Axis::log10("packets in the queue"),
            Axis::log10("share of wakeups that find more").within(1e-4, 1.0),
        )
        .vertical("4096 descriptors", RING);
        for measured in results.with(Waking::Deadline) {
            let label = format!("{} ms", measured.period_ms());
            let series = Series::survival(&label, &measured.packets);
            tails.series.push(series);
        }
        // A series' colour and dashes follow from its number: from the eighth on, lines are dashed and the
        // colours repeat, so that each fit has the colour of its measurement.
        while tails.series.len() < 7 {
            tails.series.push(Series::curve("", Vec::new()));
        }
        for measured in results.with(Waking::Deadline) {
            let label = format!("{} ms, fit", measured.period_ms());
            let series = Series::curve(&label, measured.fitted_tail());
            tails.series.push(series);
        }
        let mut overflow = Figure::new(
            "overflow",
            "Probability that a wakeup finds more than 4096 packets, by the fit, and as measured where it happened.",
            Axis::linear("period (ms)").from_zero(),
            Axis::log10("P(occupancy > 4096)").within(1e-30, 1.0),
        );
        for waking in [Waking::Deadline, Waking::Sleep] {
            let fitted = results
                .with(waking)
                .map(|measured| Point::new(measured.period_ms(), measured.fitted().max(1e-30)));
            let label = format!("{}, fit", waking.name());
            overflow.series.push(Series::line(&label, fitted.collect()));
            let as_measured = results.with(waking).map(|measured| {
                let wakeups = measured.packets.len() as u64;
                Point::ratio(measured.period_ms(), measured.above(), wakeups)
            });
            let label = format!("{}, measured", waking.name());
            overflow
                .series
                .push(Series::line(&label, as_measured.collect()));
        }
        vec![tails, overflow]
    }

    fn notes(results: &Results) -> Vec<String> {
        results.refused.clone()
    }
}
