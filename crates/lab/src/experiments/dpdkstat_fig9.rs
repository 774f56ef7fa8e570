//! DPDKStat, figure 9: instances, polling or looking from time to time.

use super::Experiment;
use super::context::{Condition, Context, VIRTUAL_CLOCK, mpps, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::traffic::{small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::{Acquisition, VirtualOptions};
use flow::statistic::Estimator;
use generator::FlowOrder;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-fig9",
    title: "Instances, polled or periodic",
    source: "DPDKStat, figure 9",
    run,
};

const FLOWS: u32 = 1 << 16;
const INSTANCES: [u32; 3] = [1, 2, 4];

fn ways() -> [(&'static str, Acquisition); 4] {
    [
        ("polled", Acquisition::Polled),
        ("every 0.5 ms", Acquisition::Periodic(500_000)),
        ("every 1 ms", Acquisition::Periodic(1_000_000)),
        ("every 2 ms", Acquisition::Periodic(2_000_000)),
    ]
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        &format!("{VIRTUAL_CLOCK} Each instance has a clock of its own, as if alone on its core."),
    );
    let packets = context.pick(1 << 19, 1 << 22);
    let wire = wire(&small_frames(FLOWS, FlowOrder::Zipf(1.0), context.seed()))?;
    let monitor = Monitor::counting(FLOWS as usize)
        .with_statistics("moments", Estimator::LogLinear)
        .map_err(TrialError::missing)?;
    let mut table = Table::new(
        "instances",
        "The highest rate of the link without loss, all moments kept of every flow",
        &[
            "instances",
            "acquisition",
            "highest rate without loss, Mpps",
            "lower bound of a failed rate",
        ],
    );
    let mut figure = Figure::new(
        "instances",
        "The highest rate of the link without loss by the number of instances; a queue of 4096 and a flow table each.",
        Axis::names("instances", INSTANCES.map(|count| count.to_string())),
        Axis::linear("highest rate without loss (Mpps)").from_zero(),
    );
    let mut rates = Vec::new();
    for (name, acquisition) in ways() {
        let mut points = Vec::new();
        for (place, instances) in INSTANCES.into_iter().enumerate() {
            context.say(&format!("{instances} instances, {name}"));
            let condition = Condition::new(name, &wire, monitor.clone()).over(VirtualOptions {
                queues: instances,
                acquisition,
                ..VirtualOptions::default()
            });
            let found =
                context.sustained(&condition, packets * u64::from(instances), Goal::Rfc2544)?;
            points.push(Point::new(place as f64, mpps(found.rate)));
            rates.push((name, instances, mpps(found.rate)));
            table.row(vec![
                instances.into(),
                name.into(),
                mpps(found.rate).into(),
                mpps(found.failed).into(),
            ]);
        }
        figure.series.push(Series::bars(name, points));
    }
    outcome.figures.push(figure);
    outcome.tables.push(table);
    let rate = |name: &str, instances: u32| {
        rates
            .iter()
            .find(|(known, count, _)| *known == name && *count == instances)
            .map_or(f64::NAN, |(_, _, rate)| *rate)
    };
    let (polled, half) = (rate("polled", 1), rate("every 0.5 ms", 1));
    outcome.comparisons.push(Comparison {
        what: "one instance: every 0.5 ms against polled".into(),
        paper: "periodic under SCHED_DEADLINE about twice polling at full load, where threads share a core".into(),
        here: format!("{half:.1} against {polled:.1} Mpps, each alone on its core"),
    });
    outcome.findings.push(Finding {
        paper: "Instances scale; acquisition by SCHED_DEADLINE on the processing thread's core bears about twice the \
                load of polling there."
            .into(),
        holds: if rate("polled", 4) > 1.5 * polled { Holds::Partly } else { Holds::No },
        because: format!(
            "Four instances bear {:.1} times the rate of one. Looking every 0.5 ms bears about a ring a period, \
             {:.1} Mpps (found: {half:.1}); polling has no such bound when it is alone on its core, as here. What \
             makes it worse in the paper, two busy threads on one core, is not modelled.",
            rate("polled", 4) / polled,
            4096.0 / 500.0
        ),
    });
    outcome.settings = vec![
        ("flows".into(), format!("{FLOWS}, Zipf(1)")),
        ("statistics".into(), "moments".into()),
        ("packets a trial and instance".into(), packets.to_string()),
    ];
    Ok(outcome)
}
