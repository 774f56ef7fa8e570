//! FloWatcher-DPDK, figure 5b: the number of receive queues.

use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, parameter};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use generator::FlowOrder;

const QUEUES: [u32; 4] = [1, 2, 3, 4];
const FLOWS: u32 = 1 << 16;

/// Rates of two queues below this multiple of one queue's are not clearly better.
const CLEAR_GAIN: f64 = 1.3;

pub(super) struct Fig5b;

pub(super) struct Results {
    packets: u64,
    /// Uniform flows, then Zipf(1).
    orders: [ByQueues; 2],
}

/// The measurements of one order of flows, by number of queues.
struct ByQueues {
    name: String,
    queues: Vec<Measured>,
}

struct Measured {
    queues: u32,
    /// The highest rate without loss, in Mpps.
    rate_mpps: f64,
    /// The share of the packets that the fullest queue receives.
    fullest_share: f64,
    /// At 14.88 Mpps.
    drop_ratio: f64,
    lost: u64,
    offered: u64,
}

impl ByQueues {
    fn measure(
        context: &mut Context<'_>,
        order: FlowOrder,
        packets: u64,
    ) -> Result<Self, TrialError> {
        let name = order_name(order);
        let wire = wire(&small_frames(FLOWS, order, context.seed()))?;
        let mut measured = Vec::new();
        for queues in QUEUES {
            context.progress(&format!("{name}, {queues} queues"));
            let link = VirtualOptions {
                queues,
                packets: packets * 2,
                ..VirtualOptions::default()
            };
            let monitor = Monitor::counting(FLOWS as usize);
            let trial = context.trial(&wire, &link, &monitor)?;
            let fullest = trial.queues.iter().map(|queue| queue.offered).max();
            let condition = Condition::new(name.clone(), &wire, monitor).over(link);
            let found =
                context.sustained(&condition, packets * u64::from(queues), Goal::Rfc2544)?;
            measured.push(Measured {
                queues,
                rate_mpps: mpps(found.rate),
                fullest_share: fullest.unwrap_or(0) as f64 / trial.ledger.offered.max(1) as f64,
                drop_ratio: trial.ledger.drop_ratio(),
                lost: trial.ledger.lost(),
                offered: trial.ledger.offered,
            });
        }
        Ok(Self {
            name,
            queues: measured,
        })
    }

    /// The rate of this many queues as a multiple of one queue's.
    fn gain(&self, queues: usize) -> f64 {
        self.queues[queues - 1].rate_mpps / self.queues[0].rate_mpps
    }
}

impl Experiment for Fig5b {
    type Results = Results;

    const NAME: &'static str = "fig5b";
    const TITLE: &'static str = "Receive queues";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 5b";

    fn instrument() -> String {
        format!(
            "{VIRTUAL_CLOCK} Each queue has its own clock, as if its thread had a core to itself: shared caches and \
             memory bandwidth are not modelled."
        )
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(1 << 19, 1 << 23);
        Ok(Results {
            packets,
            orders: [
                ByQueues::measure(context, FlowOrder::Uniform, packets)?,
                ByQueues::measure(context, FlowOrder::Zipf(1.0), packets)?,
            ],
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("packets per trial and queue", results.packets),
            parameter("goal of the search", Goal::Rfc2544.description()),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let [uniform, zipf] = &results.orders;
        let one: Vec<String> = results
            .orders
            .iter()
            .map(|order| format!("{:.1} Mpps {}", order.queues[0].rate_mpps, order.name))
            .collect();
        let gain = uniform.gain(2);
        vec![Finding::new(
            "Two receive queues lose least; with more of them the drop ratio rises again.",
            [
                Part::new(
                    "Two queues lose less than one.",
                    (!gain.is_nan()).then_some(gain > CLEAR_GAIN),
                    format!(
                        "One queue sustains {} without loss (10 GbE is 14.88). Two sustain {gain:.2} times the rate \
                         of one, uniform. Under Zipf(1) the fullest queue limits the rate ({:.2} times with four).",
                        one.join(", "),
                        zipf.gain(4)
                    ),
                ),
                Part::not_compared(
                    "More than two queues lose more.",
                    format!(
                        "Four queues sustain {:.2} times the rate of one, uniform. Each queue's core is modelled \
                         alone; the device and the cores that the paper's queues shared are not modelled.",
                        uniform.gain(4)
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let [uniform, zipf] = &results.orders;
        vec![Comparison::new(
            "rate of 2 queues, times that of 1",
            "(drop ratio) best at 2 queues",
            format!(
                "{:.2} uniform, {:.2} Zipf(1)",
                uniform.gain(2),
                zipf.gain(2)
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "queues",
            "The highest rate of the whole link without loss, with a thread and a table per queue; and the trial at \
             14.88 Mpps",
            &[
                "flows",
                "queues",
                "highest rate without loss, Mpps",
                "the same per queue",
                "share of the fullest queue",
                "drop ratio at 14.88 Mpps",
                "lost",
                "offered",
            ],
        );
        for order in &results.orders {
            for measured in &order.queues {
                table.row(vec![
                    order.name.as_str().into(),
                    measured.queues.into(),
                    measured.rate_mpps.into(),
                    (measured.rate_mpps / f64::from(measured.queues)).into(),
                    measured.fullest_share.into(),
                    measured.drop_ratio.into(),
                    measured.lost.into(),
                    measured.offered.into(),
                ]);
            }
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figure = Figure::new(
            "queues",
            "The highest rate of the link without loss, by the number of receive queues; the Toeplitz hash over a \
             redirection table of 128 entries selects the queue.",
            Axis::names(
                "receive queues, each with its own thread",
                QUEUES.map(|queues| queues.to_string()),
            ),
            Axis::linear("highest rate without loss (Mpps)").from_zero(),
        )
        .horizontal("10 GbE, 64 B", mpps(VirtualOptions::LINE_10G));
        for order in &results.orders {
            let points = order
                .queues
                .iter()
                .enumerate()
                .map(|(index, measured)| Point::new(index as f64, measured.rate_mpps));
            figure
                .series
                .push(Series::bars(&order.name, points.collect()));
        }
        vec![figure]
    }
}
