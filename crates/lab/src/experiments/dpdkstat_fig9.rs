//! DPDKStat, figure 9: instances with polled or periodic acquisition.

use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, parameter};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::{Acquisition, VirtualOptions};
use flow::statistic::Estimator;
use generator::FlowOrder;

const FLOWS: u32 = 1 << 16;
const INSTANCES: [u32; 3] = [1, 2, 4];

/// Four instances scale above this multiple of one instance's rate.
const SCALES: f64 = 1.5;

const ACQUISITIONS: [(&str, Acquisition); 4] = [
    ("polled", Acquisition::Polled),
    ("every 0.5 ms", Acquisition::Periodic(500_000)),
    ("every 1 ms", Acquisition::Periodic(1_000_000)),
    ("every 2 ms", Acquisition::Periodic(2_000_000)),
];

pub(super) struct DpdkstatFig9;

pub(super) struct Results {
    packets: u64,
    /// By acquisition and number of instances.
    measured: Vec<Measured>,
}

struct Measured {
    acquisition: &'static str,
    instances: u32,
    /// The highest rate without loss and the lowest with loss, in Mpps.
    rate_mpps: f64,
    failed_mpps: f64,
}

impl Results {
    fn rate(&self, acquisition: &str, instances: u32) -> f64 {
        self.measured
            .iter()
            .find(|known| known.acquisition == acquisition && known.instances == instances)
            .map_or(f64::NAN, |measured| measured.rate_mpps)
    }
}

impl Experiment for DpdkstatFig9 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig9";
    const TITLE: &'static str = "Instances, polled or periodic";
    const SOURCE: &'static str = "DPDKStat, figure 9";

    fn instrument() -> String {
        format!("{VIRTUAL_CLOCK} Each instance has its own clock, as if alone on its core.")
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(1 << 19, 1 << 22);
        let wire = wire(&small_frames(FLOWS, FlowOrder::Zipf(1.0), context.seed()))?;
        let monitor = Monitor::counting(FLOWS as usize)
            .with_statistics("moments", Estimator::LogLinear)
            .map_err(TrialError::missing)?;
        let mut measured = Vec::new();
        for (name, acquisition) in ACQUISITIONS {
            for instances in INSTANCES {
                context.progress(&format!("{instances} instances, {name}"));
                let condition = Condition::new(name, &wire, monitor.clone()).over(VirtualOptions {
                    queues: instances,
                    acquisition,
                    ..VirtualOptions::default()
                });
                let packets = packets * u64::from(instances);
                let found = context.sustained(&condition, packets, Goal::Rfc2544)?;
                measured.push(Measured {
                    acquisition: name,
                    instances,
                    rate_mpps: mpps(found.rate),
                    failed_mpps: mpps(found.failed),
                });
            }
        }
        Ok(Results { packets, measured })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", format!("{FLOWS}, Zipf(1)")),
            parameter("statistics", "moments"),
            parameter("packets per trial and instance", results.packets),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let gain = results.rate("polled", 4) / results.rate("polled", 1);
        vec![Finding::new(
            "Instances scale; acquisition by SCHED_DEADLINE on the processing thread's core sustains about twice the \
             load of polling there.",
            [
                Part::new(
                    "Instances scale.",
                    (!gain.is_nan()).then_some(gain > SCALES),
                    format!("Four instances sustain {gain:.1} times the rate of one."),
                ),
                Part::not_compared(
                    "SCHED_DEADLINE on the processing thread's core sustains about twice the load of polling.",
                    format!(
                        "In the paper two busy threads share the core, which is not modelled: an instance is alone on \
                         its core here, where polling has no limit of this kind. Receiving every 0.5 ms sustains about \
                         a ring per period, {:.1} Mpps (measured: {:.1}).",
                        VirtualOptions::RING as f64 / 500.0,
                        results.rate("every 0.5 ms", 1)
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        vec![Comparison::new(
            "one instance: every 0.5 ms against polled",
            "periodic under SCHED_DEADLINE about twice polling at full load, where threads share a core",
            format!(
                "{:.1} against {:.1} Mpps, each alone on its core",
                results.rate("every 0.5 ms", 1),
                results.rate("polled", 1)
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "instances",
            "The highest rate of the link without loss, with all moments of every flow",
            &[
                "instances",
                "acquisition",
                "highest rate without loss, Mpps",
                "lower bound of a failed rate",
            ],
        );
        for measured in &results.measured {
            table.row(vec![
                measured.instances.into(),
                measured.acquisition.into(),
                measured.rate_mpps.into(),
                measured.failed_mpps.into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figure = Figure::new(
            "instances",
            "The highest rate of the link without loss by the number of instances, each with a queue of 4096 and a \
             flow table.",
            Axis::names("instances", INSTANCES.map(|count| count.to_string())),
            Axis::linear("highest rate without loss (Mpps)").from_zero(),
        );
        for instances in results.measured.chunks(INSTANCES.len()) {
            let points = instances.iter().enumerate();
            let points =
                points.map(|(index, measured)| Point::new(index as f64, measured.rate_mpps));
            figure
                .series
                .push(Series::bars(instances[0].acquisition, points.collect()));
        }
        vec![figure]
    }
}
