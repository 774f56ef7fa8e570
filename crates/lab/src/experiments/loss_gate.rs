//! The gate for loss: 10 Gigabit Ethernet of 64-byte frames on one core that receives and monitors.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::loss_at_most;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::{Frames, VirtualOptions};
use flow::statistic::Estimator;
use generator::FlowOrder;

/// The gate.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "gate",
    title: "The gate: 14.88 Mpps on one core, loss below one in a million",
    source: "FloWatcher-DPDK: packet drop ratio at 10 GbE of 64 B frames",
    run,
};

/// Flows.
const FLOWS: u32 = 1 << 16;

/// The drop ratio that must not be reached.
const GATE: f64 = 1e-6;

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, VIRTUAL_CLOCK);
    // No loss in so many packets bounds the ratio below the gate with room to spare.
    let packets = context.pick(4_000_000, 60_000_000);
    let search_packets = context.pick(1 << 19, 1 << 23);
    let goal = Goal::Noisy {
        loss_max: 0.0,
        trials: context.pick(1, 3),
    };
    let statistics = [
        ("count", "count"),
        ("99th percentile of the gap", "gap-percentile=99"),
    ];
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
            "ns a packet",
            "packets a poll",
            "stalls clipped",
            "highest rate without loss, Mpps",
            "per-flow counts exact",
        ],
    );
    let mut series: Vec<Series> = Vec::new();
    let (mut passed, mut passed_cold) = (true, true);
    let mut slowest = f64::INFINITY;
    let mut slowest_cold = f64::INFINITY;
    for (place, (label, list)) in statistics.into_iter().enumerate() {
        for frames in [Frames::Hot, Frames::Cold] {
            let kind = if frames == Frames::Hot {
                "in cache"
            } else {
                "in memory"
            };
            let mut points = Vec::new();
            for (spread, order) in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)]
                .into_iter()
                .enumerate()
            {
                let name = order_name(order);
                context.say(&format!("{name}, {label}, frames {kind}"));
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
                let lost = trial.ledger.lost();
                let bound = loss_at_most(lost, trial.ledger.offered);
                let below = bound < GATE && trial.verdict.is_valid();
                match frames {
                    Frames::Hot => passed &= below,
                    Frames::Cold => passed_cold &= below,
                }
                let condition = Condition::new(label, &wire, monitor).over(link);
                let found = context.sustained(&condition, search_packets, goal)?;
                let rate = mpps(found.rate);
                match frames {
                    Frames::Hot => slowest = slowest.min(rate),
                    Frames::Cold => slowest_cold = slowest_cold.min(rate),
                }
                points.push(Point::new(spread as f64 + place as f64 * 2.0, rate));
                let exact = trial.ledger.flows.map_or_else(String::new, |truth| {
                    format!("{} of {}", truth.exact, truth.flows)
                });
                table.row(vec![
                    name.into(),
                    label.into(),
                    kind.into(),
                    trial.ledger.offered.into(),
                    lost.into(),
                    bound.into(),
                    trial.occupancy_max.into(),
                    trial.ns_per_packet.into(),
                    trial.packets_per_poll.into(),
                    trial.stalls.into(),
                    rate.into(),
                    exact.into(),
                ]);
            }
            let label = format!("frames {kind}");
            match series.iter_mut().find(|series| series.label == label) {
                Some(series) => series.points.extend(points),
                None => series.push(Series::bars(&label, points)),
            }
        }
    }
    let mut figure = Figure::new(
        "rates",
        "The highest rate without a lost packet of one core that receives and monitors, 2¹⁶ flows, \
         frames of 64 B.",
        Axis::names(
            "flows, and what is kept of each",
            [
                "uniform, count",
                "Zipf(1), count",
                "uniform, gap p99",
                "Zipf(1), gap p99",
            ],
        ),
        Axis::linear("highest rate without loss (Mpps)").from_zero(),
    )
    .level("10 GbE, 64 B: 14.88 Mpps", mpps(VirtualOptions::LINE_10G));
    figure.series = series;
    outcome.figures.push(figure);
    outcome.tables.push(table);
    outcome.comparisons.push(Comparison {
        what: "highest rate without loss, one core, the slowest of the cases".into(),
        paper: "14.88 Mpps with a drop ratio of about 10⁻⁶ to 10⁻⁴ (two cores and more)".into(),
        here: format!(
            "{slowest:.1} Mpps with frames in the cache, {slowest_cold:.1} with frames in memory"
        ),
    });
    outcome.findings.push(Finding {
        paper: "Per-flow monitoring of 10 GbE at 64 B with a drop ratio near one in a million, on few cores."
            .into(),
        holds: if passed { Holds::Yes } else { Holds::No },
        because: format!(
            "At 14.88 Mpps the drop ratio is {} 10⁻⁶ in every case with frames in the cache (95 % \
             bound), on one core, for counts and for the 99th percentile of the gap; with frames \
             sent out of every cache, which no device does, it is {}.",
            if passed { "below" } else { "not always below" },
            if passed_cold { "too" } else { "not always" },
        ),
    });
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("ring".into(), VirtualOptions::RING.to_string()),
        ("packets".into(), packets.to_string()),
        ("goal of the search".into(), goal.description()),
    ];
    Ok(outcome)
}
