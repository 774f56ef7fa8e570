//! The gate for loss: 10 Gigabit Ethernet of 64-byte frames on one core that receives and monitors.

use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, parameter};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::loss_at_most;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{Frames, VirtualOptions};
use flow::statistic::Estimator;
use generator::FlowOrder;

const FLOWS: u32 = 1 << 16;

/// The drop ratio must be below this.
const GATE: f64 = 1e-6;

/// Name and `--statistics` of the statistics per flow.
const STATISTICS: [(&str, &str); 2] = [
    ("count", "count"),
    ("99th percentile of the gap", "gap-percentile=99"),
];

const ORDERS: [FlowOrder; 2] = [FlowOrder::Uniform, FlowOrder::Zipf(1.0)];

pub(super) struct LossGate;

pub(super) struct Results {
    packets: u64,
    goal: Goal,
    cases: Vec<Case>,
}

/// Statistics, place of the frames and order of the flows, and what was measured.
struct Case {
    statistics: &'static str,
    frames: Frames,
    order: FlowOrder,
    /// At 14.88 Mpps.
    trial: Trial,
    /// The highest rate without loss, in Mpps.
    rate_mpps: f64,
}

impl Case {
    /// The 95 % upper bound of the drop ratio.
    fn bound(&self) -> f64 {
        loss_at_most(self.trial.ledger.lost(), self.trial.ledger.offered)
    }

    fn passes(&self) -> bool {
        self.bound() < GATE && self.trial.validity.is_valid()
    }
}

impl Results {
    fn with(&self, frames: Frames) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.frames == frames)
    }

    /// The lowest of the highest rates, in Mpps.
    fn slowest(&self, frames: Frames) -> f64 {
        let rates = self.with(frames).map(|case| case.rate_mpps);
        rates.fold(f64::INFINITY, f64::min)
    }

    fn part(&self, claim: &str, frames: Frames, remark: &str) -> Part {
        let passes = self.with(frames).all(Case::passes);
        let worst = self.with(frames).map(Case::bound).fold(0.0, f64::max);
        Part::compared(
            claim,
            passes,
            format!(
                "At 14.88 Mpps the drop ratio is at most {worst:.1e} (95 % bound) in the worst case, on one core, for \
                 counts and for the 99th percentile of the gap{remark}."
            ),
        )
    }
}

fn frames_name(frames: Frames) -> &'static str {
    match frames {
        Frames::Hot => "in cache",
        Frames::Cold => "in memory",
    }
}

impl Experiment for LossGate {
    type Results = Results;

    const NAME: &'static str = "gate";
    const TITLE: &'static str = "The gate: 14.88 Mpps on one core, loss below one in a million";
    const SOURCE: &'static str = "FloWatcher-DPDK: packet drop ratio at 10 GbE of 64 B frames";

    fn instrument() -> String {
        VIRTUAL_CLOCK.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        // Without loss in this many packets the bound is well below the gate.
        let packets = context.pick(4_000_000, 60_000_000);
        let search_packets = context.pick(1 << 19, 1 << 23);
        let goal = Goal::Noisy {
            loss_max: 0.0,
            trials: context.pick(1, 3),
        };
        let mut cases = Vec::new();
        for (statistics, list) in STATISTICS {
            for frames in [Frames::Hot, Frames::Cold] {
                for order in ORDERS {
                    context.progress(&format!(
                        "{}, {statistics}, frames {}",
                        order_name(order),
                        frames_name(frames)
                    ));
                    let wire = wire(&small_frames(FLOWS, order, context.seed()))?;
                    let monitor = Monitor::counting(FLOWS as usize)
                        .with_statistics(list, Estimator::LogLinear)
                        .map_err(TrialError::missing)?;
                    let link = VirtualOptions {
                        packets,
                        frames,
                        ..VirtualOptions::default()
                    };
                    let trial = context.trial(&wire, &link, &monitor)?;
                    let condition = Condition::new(statistics, &wire, monitor).over(link);
                    let found = context.sustained(&condition, search_packets, goal)?;
                    cases.push(Case {
                        statistics,
                        frames,
                        order,
                        trial,
                        rate_mpps: mpps(found.rate),
                    });
                }
            }
        }
        Ok(Results {
            packets,
            goal,
            cases,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("ring", VirtualOptions::RING),
            parameter("packets", results.packets),
            parameter("goal of the search", results.goal.description()),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        vec![Finding::new(
            "Per-flow monitoring of 10 GbE at 64 B with a drop ratio near one in a million, on few cores.",
            [
                results.part(
                    "With frames in the cache: below one in a million.",
                    Frames::Hot,
                    "",
                ),
                results.part(
                    "With frames in memory: below one in a million.",
                    Frames::Cold,
                    "; each frame is flushed from every cache first, which no device does",
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        vec![Comparison::new(
            "highest rate without loss, one core, the slowest of the cases",
            "14.88 Mpps with a drop ratio of about 10⁻⁶ to 10⁻⁴ (two cores and more)",
            format!(
                "{:.1} Mpps with frames in the cache, {:.1} with frames in memory",
                results.slowest(Frames::Hot),
                results.slowest(Frames::Cold)
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "gate",
            "14.88 Mpps offered; and the highest rate at which nothing is lost, to 1 %",
            &[
                "flows",
                "statistics",
                "frames",
                "packets offered",
                "lost",
                "drop ratio at most (95 %)",
                "most in the ring of 4096",
                "ns per packet",
                "packets per poll",
                "stalls clipped",
                "highest rate without loss, Mpps",
                "per-flow counts exact",
            ],
        );
        for case in &results.cases {
            let trial = &case.trial;
            let exact = trial.ledger.flows.map_or_else(String::new, |truth| {
                format!("{} of {}", truth.exact, truth.flows)
            });
            table.row(vec![
                order_name(case.order).into(),
                case.statistics.into(),
                frames_name(case.frames).into(),
                trial.ledger.offered.into(),
                trial.ledger.lost().into(),
                case.bound().into(),
                trial.occupancy_max.into(),
                trial.ns_per_packet.into(),
                trial.packets_per_poll.into(),
                trial.stalls.into(),
                case.rate_mpps.into(),
                exact.into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figure = Figure::new(
            "rates",
            "The highest rate without a lost packet of one core that receives and monitors, 2¹⁶ flows, \
             frames of 64 B.",
            Axis::names(
                "flows, and the statistics of each",
                [
                    "uniform, count",
                    "Zipf(1), count",
                    "uniform, gap p99",
                    "Zipf(1), gap p99",
                ],
            ),
            Axis::linear("highest rate without loss (Mpps)").from_zero(),
        )
        .horizontal("10 GbE, 64 B: 14.88 Mpps", mpps(VirtualOptions::LINE_10G));
        for frames in [Frames::Hot, Frames::Cold] {
            let cases = results.with(frames).enumerate();
            let points = cases.map(|(index, case)| Point::new(index as f64, case.rate_mpps));
            let label = format!("frames {}", frames_name(frames));
            figure.series.push(Series::bars(&label, points.collect()));
        }
        vec![figure]
    }
}
