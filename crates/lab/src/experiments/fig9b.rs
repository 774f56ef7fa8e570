//! FloWatcher-DPDK, figure 9b: a thousand flows through a device that drops fairly.

use super::context::{Context, VIRTUAL_CLOCK, parameter};
use super::experiment::Experiment;
use crate::fair_dropper::FairDropper;
use crate::monitor::{FlowCounts, Monitor};
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire_of};
use crate::trial::{Trial, TrialError};
use crate::virtual_clock::{VirtualOptions, Wire};
use generator::FlowOrder;
use std::sync::Arc;
use wire::LinkType;

const FLOWS: u32 = 1000;

/// Flows that the device is to clip.
const CLIPPED: u32 = 200;

/// Packets per second before the device, and packets per slot of the device.
const RATE: f64 = 10e6;
const SLOT: usize = 100_000;

/// The largest deviation from the fair share.
const DEVIATION_MAX: f64 = 0.2;

pub(super) struct Fig9b;

pub(super) struct Results {
    packets: usize,
    /// Packets that the device forwarded.
    forwarded: usize,
    /// Packets before and after the device by flow, most packets first.
    flows: Vec<[u64; 2]>,
}

impl Results {
    /// Converts a flow's packets to packets per second.
    fn rate(&self, packets: u64) -> f64 {
        packets as f64 * RATE / self.packets as f64
    }

    /// The rate of a flow after a max-min fair device.
    fn expected(&self, sent: u64) -> f64 {
        self.rate(sent).min(fair_share())
    }

    /// Flows that lost packets.
    fn clipped(&self) -> u32 {
        let clipped = self.flows.iter().filter(|[sent, passed]| passed < sent);
        clipped.count() as u32
    }

    /// The largest relative deviation of a flow from its max-min share.
    fn worst(&self) -> f64 {
        let deviation =
            |[sent, passed]: &[u64; 2]| (self.rate(*passed) / self.expected(*sent) - 1.0).abs();
        self.flows.iter().map(deviation).fold(0.0, f64::max)
    }
}

/// The sum of 1/k over the flows from `first` to `last`.
fn harmonic(first: u32, last: u32) -> f64 {
    (first..=last).map(|k| 1.0 / f64::from(k)).sum()
}

/// The device's capacity as a share of the offered load: exactly the first flows are above their fair
/// share.
fn capacity_share() -> f64 {
    (1.0 + harmonic(CLIPPED + 1, FLOWS)) / harmonic(1, FLOWS)
}

/// The device's capacity, in packets per slot.
fn capacity() -> u64 {
    (SLOT as f64 * capacity_share()) as u64
}

/// The max-min fair share of a clipped flow, in packets per second.
fn fair_share() -> f64 {
    capacity() as f64 / SLOT as f64 * RATE
        / (f64::from(CLIPPED) + f64::from(CLIPPED) * harmonic(CLIPPED + 1, FLOWS))
}

/// Counts the packets of each flow with the engine.
fn count_flows(
    context: &mut Context<'_>,
    wire: &Arc<Wire>,
    rate_pps: f64,
    packets: u64,
) -> Result<FlowCounts, TrialError> {
    let mut counts = FlowCounts::default();
    let link = VirtualOptions {
        rate_pps,
        packets,
        ..VirtualOptions::default()
    };
    let monitor = Monitor::counting(FLOWS as usize);
    let trial = Trial::run_observed(wire, &link, &monitor, |records| counts.add(records))?;
    context.trials.count(&trial.validity.reasons);
    context.trials.example = trial.ledger.identity();
    if !trial.validity.is_valid() || trial.ledger.lost() > 0 {
        context.progress(&format!(
            "{}; {}",
            trial.validity.description(),
            trial.ledger.identity()
        ));
    }
    Ok(counts)
}

/// Sends the packets of a wire through the device; returns the flows of the forwarded packets.
fn forward(wire: &Wire, slots: usize) -> Vec<u32> {
    let dropper = FairDropper::new(capacity());
    let mut forwarded = Vec::new();
    for slot in 0..slots {
        let begin = (slot * SLOT) as u64;
        let indices = begin..begin + SLOT as u64;
        let flows: Vec<Option<u32>> = indices.map(|index| wire.frame(index).flow).collect();
        let passed = dropper.forward(&flows);
        let passed = flows.into_iter().zip(passed).filter(|(_, passed)| *passed);
        forwarded.extend(passed.filter_map(|(flow, _)| flow));
    }
    forwarded
}

/// A wire of the forwarded packets, with one frame per flow under its old number.
fn wire_after(before: &Wire, packets: usize, forwarded: Vec<u32>) -> Arc<Wire> {
    let mut frames: Vec<Option<(Vec<u8>, u32, u32)>> = vec![None; before.flows().len()];
    for index in 0..packets as u64 {
        let frame = before.frame(index);
        if let Some(flow) = frame.flow {
            frames[flow as usize]
                .get_or_insert_with(|| (frame.bytes.to_vec(), frame.wire_length, frame.rss_hash));
        }
    }
    let frames: Vec<_> = frames.into_iter().flatten().collect();
    Arc::new(Wire::new(LinkType::Ethernet, frames, forwarded))
}

impl Experiment for Fig9b {
    type Results = Results;

    const NAME: &'static str = "fig9b";
    const TITLE: &'static str = "A thousand flows at rate 1/k through a fair dropper";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 9b";

    fn instrument() -> String {
        format!(
            "{VIRTUAL_CLOCK} The device under test is flowatch's own max-min fair dropper, in slots of 10 ms."
        )
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let slots = context.pick(10, 200);
        let packets = SLOT * slots;
        context.progress("before the device");
        let traffic = small_frames(FLOWS, FlowOrder::RateInverse, context.seed());
        let before = wire_of(&traffic, packets)?;
        let offered = count_flows(context, &before, RATE, packets as u64)?;
        context.progress("after the device");
        let passed = forward(&before, slots);
        let forwarded = passed.len();
        let after = wire_after(&before, packets, passed);
        let rate = RATE * capacity_share();
        let received = count_flows(context, &after, rate, forwarded as u64)?;
        let mut flows: Vec<[u64; 2]> = offered
            .iter()
            .map(|(key, sent)| [sent, received.of(key)])
            .collect();
        flows.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Results {
            packets,
            forwarded,
            flows,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("packets", results.packets),
            parameter(
                "capacity of the device",
                format!("{:.1} % of the offered load", capacity_share() * 100.0),
            ),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let (clipped, worst) = (results.clipped(), results.worst());
        let seen = results.flows.iter().filter(|[_, passed]| *passed > 0);
        let seen = seen.count();
        vec![Finding::new(
            "Of a thousand flows at rate 1/k the first two hundred or so are clipped to the fair share, the others \
             pass unchanged, and the monitor sees each of them.",
            [
                Part::compared(
                    "The first two hundred or so are clipped.",
                    clipped.abs_diff(CLIPPED) <= CLIPPED / 5,
                    format!(
                        "{clipped} flows are clipped, at {:.2} kpps; the device is flowatch's and made to do this.",
                        fair_share() / 1e3
                    ),
                ),
                Part::compared(
                    "Each flow passes at its fair share, the others unchanged.",
                    worst < DEVIATION_MAX,
                    format!(
                        "By the monitor's counts every flow is within {:.1} % of its max-min share.",
                        worst * 100.0
                    ),
                ),
                Part::compared(
                    "The monitor sees each flow.",
                    seen == FLOWS as usize,
                    format!(
                        "It counts {seen} flows after the device, whose rates differ by up to a factor of a thousand \
                         before it."
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        vec![Comparison::new(
            "flows that the device clips",
            "about the first 200",
            format!(
                "{}, of which some lose single packets at the edge of the share",
                results.clipped()
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "flows",
            "Each flow before and after the device, by the monitor's counts",
            &["k", "in, kpps", "out, kpps", "max-min share, kpps"],
        );
        for (&[sent, passed], k) in results.flows.iter().zip(1u64..) {
            table.row(vec![
                k.into(),
                (results.rate(sent) / 1e3).into(),
                (results.rate(passed) / 1e3).into(),
                (results.expected(sent) / 1e3).into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let curve = |side: usize| {
            let flows = results.flows.iter().zip(1u32..);
            flows
                .map(|(flow, k)| Point::new(f64::from(k), results.rate(flow[side]) / 1e3))
                .collect()
        };
        let share = fair_share() / 1e3;
        vec![
            Figure::new(
                "rates",
                "A thousand flows, the k-th at 1/k of the first's rate, before and after a device that drops fairly.",
                Axis::log10("flow k, by rate").within(1.0, 1000.0),
                Axis::log10("rate (kpps)"),
            )
            .with(Series::curve("in", curve(0)))
            .with(Series::curve("out", curve(1)))
            .horizontal(&format!("fair share: {share:.2} kpps"), share)
            .vertical("k = 200", f64::from(CLIPPED)),
        ]
    }

    fn notes(results: &Results) -> Vec<String> {
        vec![format!(
            "Of {} packets {} passed; every flow's rate after the device is within {:.1} % of its max-min share (whole \
             packets per slot make up the difference).",
            results.packets,
            results.forwarded,
            results.worst() * 100.0
        )]
    }
}
