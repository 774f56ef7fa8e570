//! DPDKStat, figure 11: mixes of traffic.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, outcome};
use super::mix::{CAMPUS, Mix};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::wire;
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::statistic::Estimator;
use generator::{Protocol, WIRE_OVERHEAD};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-fig11",
    title: "Mixes of traffic",
    source: "DPDKStat, figure 11",
    run,
};

const MIXES: [Mix; 4] = [
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

/// The mean packet of the paper, in bytes, and its link.
const PAPER_BYTES: f64 = 716.0;
const LINK: f64 = 40e9;

/// The names of the mixes with the least and the greatest of the values.
fn extremes(values: &[f64]) -> (&'static str, &'static str) {
    let named = || MIXES.iter().zip(values);
    let name = |(mix, _): (&Mix, &f64)| mix.name;
    (
        named().min_by(|a, b| a.1.total_cmp(b.1)).map_or("", name),
        named().max_by(|a, b| a.1.total_cmp(b.1)).map_or("", name),
    )
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!(
            "{VIRTUAL_CLOCK} The mixes are made by the generator in the manner of the paper's traces, which are not \
             public: flows, protocols and sizes, without the conversations within."
        ),
    );
    let packets = context.pick(1 << 19, 1 << 23);
    let mut table = Table::new(
        "mixes",
        "The highest rate of one core without loss, all moments kept of every flow",
        &[
            "mix",
            "flows",
            "mean frame, B",
            "ns a packet",
            "highest rate without loss, Mpps",
            "the same on the wire, Gbit/s",
        ],
    );
    let mut points = Vec::new();
    let mut costs = Vec::new();
    for (place, mix) in MIXES.iter().enumerate() {
        context.say(mix.name);
        let wire = wire(&mix.traffic(context.seed())?)?;
        let monitor = Monitor::counting(mix.flows as usize + mix.flows as usize / 8)
            .with_statistics("moments", Estimator::LogLinear)
            .map_err(TrialError::missing)?;
        let condition = Condition::new(mix.name, &wire, monitor);
        let cost = context.cost(
            &wire,
            packets,
            &VirtualOptions::default(),
            &condition.monitor,
        )?;
        let found = context.sustained(&condition, packets, Goal::Rfc2544)?;
        let bytes = wire.mean_wire_length();
        let gigabits = found.rate * (bytes + WIRE_OVERHEAD as f64) * 8.0 / 1e9;
        costs.push(cost);
        points.push(Point::new(place as f64, gigabits));
        table.row(vec![
            mix.name.into(),
            mix.flows.into(),
            bytes.into(),
            cost.into(),
            mpps(found.rate).into(),
            gigabits.into(),
        ]);
    }
    let rates: Vec<f64> = points.iter().map(|point| point.y).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let (least_name, most_name) = extremes(&rates);
    let (quickest, slowest) = extremes(&costs);
    outcome.figures.push(
        Figure::new(
            "mixes",
            "The highest rate of one core without loss, in bits on the wire, by mix of traffic.",
            Axis::names("mix", MIXES.iter().map(|mix| mix.name)),
            Axis::linear("highest rate without loss (Gbit/s)").from_zero(),
        )
        .with(Series::bars("", points))
        .level("40 Gbit/s", LINK / 1e9),
    );
    outcome.tables.push(table);
    outcome.comparisons.push(Comparison {
        what: "least of the mixes on one core".into(),
        paper: format!("40 Gbit/s on many cores, {PAPER_BYTES} B a packet on average"),
        here: format!("{least:.1} Gbit/s"),
    });
    outcome.findings.push(Finding {
        paper: "The mix without port 80, of small packets of UDP and many flows, is the slowest; web traffic the fastest."
            .into(),
        holds: match (least_name == MIXES[3].name, most_name == MIXES[2].name) {
            (true, true) => Holds::Yes,
            (false, false) => Holds::No,
            _ => Holds::Partly,
        },
        because: format!(
            "In bits a second \"{least_name}\" is the slowest and \"{most_name}\" the fastest; a packet costs most in \
             \"{slowest}\" and least in \"{quickest}\". What is measured is moments of sizes, times and gaps, not the \
             paper's TCP analysis."
        ),
    });
    outcome.settings = vec![
        ("statistics".into(), "moments".into()),
        ("packets a trial".into(), packets.to_string()),
    ];
    Ok(outcome)
}
