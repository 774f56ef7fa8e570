//! DPDKStat, figure 11: mixes of traffic.

use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, parameter};
use super::experiment::Experiment;
use super::mix::{CAMPUS, Mix};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::wire;
use crate::trial::TrialError;
use flow::statistic::Estimator;
use generator::{Protocol, WIRE_OVERHEAD};

static MIXES: [Mix; 4] = [
    CAMPUS,
    Mix {
        name: "ISP, all of it",
        flows: 1 << 18,
        protocols: &[Protocol::Tcp, Protocol::Udp],
        sizes: &[(64, 5.0), (200, 2.0), (600, 1.0), (1518, 3.5)],
    },
    Mix {
        name: "ISP, port 80",
        flows: 1 << 16,
        protocols: &[Protocol::Tcp],
        sizes: &[(64, 3.0), (600, 1.0), (1518, 6.0)],
    },
    Mix {
        name: "ISP, all but port 80",
        flows: 1 << 18,
        protocols: &[Protocol::Udp, Protocol::Tcp],
        sizes: &[(64, 6.0), (130, 5.0), (400, 2.0), (1400, 1.5)],
    },
];

/// Indices of the mixes that the paper compares.
const WEB: usize = 2;
const WITHOUT_WEB: usize = 3;

/// The paper's mean packet, in bytes, and its link, in bits per second.
const PAPER_BYTES: f64 = 716.0;
const LINK: f64 = 40e9;

pub(super) struct DpdkstatFig11;

pub(super) struct Results {
    packets: u64,
    /// By mix.
    mixes: Vec<Measured>,
}

struct Measured {
    mix: &'static Mix,
    /// Mean frame, in bytes.
    frame_bytes: f64,
    ns: f64,
    /// The highest rate without loss, in packets per second.
    rate_pps: f64,
}

impl Measured {
    /// The rate on the wire, in Gbit/s.
    fn gigabits(&self) -> f64 {
        self.rate_pps * (self.frame_bytes + WIRE_OVERHEAD as f64) * 8.0 / 1e9
    }
}

impl Results {
    /// The names of the mixes with the least and the greatest value.
    fn extremes(&self, value: fn(&Measured) -> f64) -> (&'static str, &'static str) {
        let by_value = |a: &&Measured, b: &&Measured| value(a).total_cmp(&value(b));
        let name = |measured: &Measured| measured.mix.name;
        (
            self.mixes.iter().min_by(by_value).map_or("", name),
            self.mixes.iter().max_by(by_value).map_or("", name),
        )
    }
}

impl Experiment for DpdkstatFig11 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig11";
    const TITLE: &'static str = "Mixes of traffic";
    const SOURCE: &'static str = "DPDKStat, figure 11";

    fn instrument() -> String {
        format!(
            "{VIRTUAL_CLOCK} The paper's traces are not public: the generator imitates their flows, protocols and \
             frame sizes, without conversations."
        )
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(1 << 19, 1 << 23);
        let mut mixes = Vec::new();
        for mix in &MIXES {
            context.progress(mix.name);
            let wire = wire(&mix.traffic(context.seed())?)?;
            let monitor = Monitor::counting(mix.flows as usize + mix.flows as usize / 8)
                .with_statistics("moments", Estimator::LogLinear)
                .map_err(TrialError::missing)?;
            let condition = Condition::new(mix.name, &wire, monitor);
            let ns = context.cost(&wire, packets, &condition.link, &condition.monitor)?;
            let found = context.sustained(&condition, packets, Goal::Rfc2544)?;
            mixes.push(Measured {
                mix,
                frame_bytes: wire.mean_wire_length(),
                ns,
                rate_pps: found.rate,
            });
        }
        Ok(Results { packets, mixes })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("statistics", "moments"),
            parameter("packets per trial", results.packets),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let (slowest, fastest) = results.extremes(Measured::gigabits);
        let (cheapest, dearest) = results.extremes(|measured| measured.ns);
        vec![Finding::new(
            "The mix without port 80, of small packets of UDP and many flows, is the slowest; web traffic the fastest.",
            [
                Part::compared(
                    "The mix without port 80 is the slowest.",
                    slowest == MIXES[WITHOUT_WEB].name,
                    format!(
                        "In bits per second \"{slowest}\" is the slowest; a packet costs most in \"{dearest}\". \
                         Moments of sizes, times and gaps are measured, not the paper's TCP analysis."
                    ),
                ),
                Part::compared(
                    "Web traffic is the fastest.",
                    fastest == MIXES[WEB].name,
                    format!(
                        "In bits per second \"{fastest}\" is the fastest; a packet costs least in \"{cheapest}\"."
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let rates = results.mixes.iter().map(Measured::gigabits);
        vec![Comparison::new(
            "least of the mixes on one core",
            format!("40 Gbit/s on many cores, {PAPER_BYTES} B per packet on average"),
            format!("{:.1} Gbit/s", rates.fold(f64::INFINITY, f64::min)),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "mixes",
            "The highest rate of one core without loss, with all moments of every flow",
            &[
                "mix",
                "flows",
                "mean frame, B",
                "ns per packet",
                "highest rate without loss, Mpps",
                "the same on the wire, Gbit/s",
            ],
        );
        for measured in &results.mixes {
            table.row(vec![
                measured.mix.name.into(),
                measured.mix.flows.into(),
                measured.frame_bytes.into(),
                measured.ns.into(),
                mpps(measured.rate_pps).into(),
                measured.gigabits().into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mixes = results.mixes.iter().enumerate();
        let points = mixes.map(|(index, measured)| Point::new(index as f64, measured.gigabits()));
        vec![
            Figure::new(
                "mixes",
                "The highest rate of one core without loss, in bits on the wire, by mix of traffic.",
                Axis::names("mix", MIXES.iter().map(|mix| mix.name)),
                Axis::linear("highest rate without loss (Gbit/s)").from_zero(),
            )
            .with(Series::bars("", points.collect()))
            .horizontal("40 Gbit/s", LINK / 1e9),
        ]
    }
}
