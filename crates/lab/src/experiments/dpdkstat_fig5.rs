//! DPDKStat, figures 5 and 6: how full the receive queue is when a periodic thread looks, and how
//! likely it overflows.

use super::Experiment;
use super::context::{Context, outcome};
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::quantile_of_sorted;
use crate::trial::TrialError;
use engine::occupancy::Occupancy;
use hw::schedule::{Schedule, yield_cpu};
use hw::time::{TickRate, ticks};
use std::thread;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-fig5",
    title: "Occupancy of the receive queue, its lognormal fit, and overflow",
    source: "DPDKStat, figures 5 and 6",
    run,
};

/// Packets a second of one queue: 40 Gbit/s of 716 B over a dozen of them.
const RATE: f64 = 6.8e6 / 12.0;

const RING: f64 = 4096.0;
const PERIODS_US: [u64; 4] = [500, 1000, 2000, 4000];

/// What the thread does to come back in time.
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

/// Times between two looks of a thread that is to look every `period`, in microseconds; and why it
/// has not the policy that it was to have.
fn looks(waking: Waking, period: Duration, count: usize) -> (Vec<f64>, Option<String>) {
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
                // Against the schedule, so that delays do not add up.
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
    thread::spawn(work)
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "A thread that is to look into its queue every period, in real time; what came meanwhile is the time between \
         two looks at the rate of the queue. The machine's own stalls are in it: they are what fills the tail.",
    );
    let time = context.pick(1.2, 1000.0);
    let mut table = Table::new(
        "occupancy",
        "Packets in the queue when it is looked at",
        &[
            "waking",
            "period, µs",
            "looks",
            "median",
            "99th percentile",
            "most",
            "fit: mean of ln",
            "fit: deviation of ln",
            "P(more than 4096) by the fit",
            "the same as measured",
        ],
    );
    let mut tails = Figure::new(
        "tails",
        "Share of the looks that find more packets than a number (lines), and the lognormal fit (dashed), for \
         SCHED_DEADLINE.",
        Axis::log10("packets in the queue"),
        Axis::log10("share of looks that find more").within(1e-4, 1.0),
    )
    .upright("4096 descriptors", RING);
    let mut overflow = Figure::new(
        "overflow",
        "Probability that a look finds more than 4096 packets, by the fit, and as measured where it was.",
        Axis::linear("period (ms)").from_zero(),
        Axis::log10("P(occupancy > 4096)").within(1e-30, 1.0),
    );
    let mut fits = Vec::new();
    let mut measured_all = Vec::new();
    let mut curves = Vec::new();
    for waking in [Waking::Deadline, Waking::Sleep] {
        let mut by_fit = Vec::new();
        let mut as_measured = Vec::new();
        for period in PERIODS_US {
            context.say(&format!("{}, {period} µs", waking.name()));
            let count = (time * 1e6 / period as f64) as usize;
            let (times, refused) = looks(waking, Duration::from_micros(period), count);
            if let Some(refused) = refused {
                outcome.notes.push(format!(
                    "{period} µs: the kernel refuses SCHED_DEADLINE ({refused}); slept instead."
                ));
            }
            let mut packets: Vec<f64> = times.iter().map(|time| time * RATE / 1e6).collect();
            packets.sort_by(f64::total_cmp);
            let above = packets.iter().filter(|held| **held > RING).count();
            let measured = above as f64 / packets.len().max(1) as f64;
            let mut occupancy = Occupancy::default();
            for &held in &packets {
                occupancy.add(held as usize);
            }
            let Some(fit) = occupancy.lognormal() else {
                continue;
            };
            let ms = period as f64 / 1e3;
            by_fit.push(Point::new(
                ms,
                fit.probability_above(RING as usize).max(1e-30),
            ));
            as_measured.push(Point::ratio(ms, above as u64, packets.len() as u64));
            if waking == Waking::Deadline {
                fits.push(fit.probability_above(RING as usize));
                measured_all.push(measured);
                tails
                    .series
                    .push(Series::survival(&format!("{ms} ms"), &packets));
                let (low, high) = (packets[0].max(1.0), RING * 4.0);
                curves.push(Series::curve(
                    &format!("{ms} ms, fit"),
                    (0..60)
                        .map(|step| {
                            let held = low * (high / low).powf(f64::from(step) / 59.0);
                            Point::new(held, fit.probability_above(held as usize))
                        })
                        .filter(|point| point.y > 1e-4)
                        .collect(),
                ));
            }
            table.row(vec![
                waking.name().into(),
                period.into(),
                packets.len().into(),
                quantile_of_sorted(&packets, 0.5).into(),
                quantile_of_sorted(&packets, 0.99).into(),
                packets.last().copied().unwrap_or(f64::NAN).into(),
                fit.mu.into(),
                fit.sigma.into(),
                fit.probability_above(RING as usize).into(),
                measured.into(),
            ]);
        }
        overflow
            .series
            .push(Series::line(&format!("{}, fit", waking.name()), by_fit));
        overflow.series.push(Series::line(
            &format!("{}, measured", waking.name()),
            as_measured,
        ));
    }
    // Fits take the colours of their curves, and dashes: series are coloured by their number.
    while tails.series.len() < 7 {
        tails.series.push(Series::curve("", Vec::new()));
    }
    tails.series.extend(curves);
    outcome.figures = vec![tails, overflow];
    outcome.tables.push(table);
    let falls = fits.windows(2).all(|pair| pair[0] <= pair[1]);
    let said: Vec<String> = PERIODS_US
        .iter()
        .zip(fits.iter().zip(&measured_all))
        .map(|(period, (fit, measured))| {
            format!("{fit:.0e} ({measured:.0e}) at {} ms", *period as f64 / 1e3)
        })
        .collect();
    outcome.comparisons.push(Comparison {
        what: "P(occupancy > 4096) under SCHED_DEADLINE by the fit (as measured)".into(),
        paper: "falls by 100 to 10,000 times for each halving of the period".into(),
        here: said.join(", "),
    });
    let honest = fits
        .iter()
        .zip(&measured_all)
        .any(|(fit, measured)| *measured > 10.0 * fit);
    outcome.findings.push(Finding {
        paper: "The occupancy's tail is lognormal, and the probability of overflow falls by orders of magnitude with \
                the period."
            .into(),
        holds: match (falls, honest) {
            (true, false) => Holds::Yes,
            (true, true) => Holds::Partly,
            _ => Holds::No,
        },
        because: if !falls {
            "The probability by the fit does not fall evenly with the period: a few stalls of the machine widen the \
             fit where they happen, and it follows them more than the period."
                .into()
        } else if honest {
            "By the fit it does; the machine's stalls, which no fit of the body foresees, overflow the queue far more \
             often than that."
                .into()
        } else {
            "The probability by the fit falls with the period, and what was measured does not contradict it.".into()
        },
    });
    outcome.settings = vec![
        ("rate of a queue".into(), format!("{:.0} kpps", RATE / 1e3)),
        ("time a setting".into(), format!("{time} s")),
    ];
    Ok(outcome)
}
