//! FloWatcher-DPDK, figure 8: packet and flow level, next to other programs.

use super::context::{Condition, Context, Estimate, VIRTUAL_CLOCK, mpps, mpps_of_cost, parameter};
use super::experiment::Experiment;
use super::tools::{Generator, Receiver, rates};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::search::Goal;
use crate::statistics::{Interval, paired_ratio};
use crate::traffic::{order_name, small_frames, wire};
use crate::trial::TrialError;
use crate::virtual_clock::VirtualOptions;
use flow::FlowDefinition;
use generator::FlowOrder;

const FLOWS: u32 = 1 << 16;

/// A rate that is lower by at most this factor counts as equal.
const EQUAL: f64 = 0.95;

pub(super) struct Fig8;

pub(super) struct Results {
    packets: u64,
    levels: Vec<Measured>,
    /// testpmd, then the generators of the paper.
    programs: Vec<Program>,
}

/// One level with one order of flows.
struct Measured {
    order: String,
    level: &'static str,
    ns: f64,
    rate_mpps: f64,
    /// At 14.88 Mpps.
    lost: u64,
    offered: u64,
}

/// Another program, and flowatch's rate next to it; or why it was not measured.
struct Program {
    name: &'static str,
    paper: &'static str,
    rates: Result<Rates, String>,
}

struct Rates {
    theirs: Estimate,
    ours: Estimate,
    /// Ours over theirs.
    ratio: Interval,
}

fn levels() -> [(&'static str, Monitor); 3] {
    let counting = || Monitor::counting(FLOWS as usize);
    [
        ("packets", Monitor::packets()),
        (
            "flows by RSS hash",
            counting().with_flow(FlowDefinition::Rss),
        ),
        ("flows by 5-tuple", counting()),
    ]
}

fn measure_levels(context: &mut Context<'_>, packets: u64) -> Result<Vec<Measured>, TrialError> {
    let mut measured = Vec::new();
    for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
        let name = order_name(order);
        let wire = wire(&small_frames(FLOWS, order, context.seed()))?;
        for (level, monitor) in levels() {
            context.progress(&format!("{name}, {level}"));
            let condition = Condition::new(level, &wire, monitor);
            let ns = context.cost(&wire, packets, &condition.link, &condition.monitor)?;
            let found = context.sustained(&condition, packets, Goal::Rfc2544)?;
            let link = VirtualOptions {
                packets: packets * 2,
                ..condition.link.clone()
            };
            let trial = context.trial(&wire, &link, &condition.monitor)?;
            measured.push(Measured {
                order: name.clone(),
                level,
                ns,
                rate_mpps: mpps(found.rate),
                lost: trial.ledger.lost(),
                offered: trial.ledger.offered,
            });
        }
    }
    Ok(measured)
}

/// Measures the packet count of flowatch and of another program in ABBA order.
fn measure_rates(context: &mut Context<'_>, other: &Receiver) -> Result<Rates, TrialError> {
    let repetitions = context.repetitions(3, 10);
    let seconds = context.pick(1.5, 10.0);
    context.progress(&format!("next to {}", other.name()));
    let rates = rates(&[Receiver::Flowatch, other.clone()], repetitions, seconds)?;
    Ok(Rates {
        ours: context.estimate(&rates[0]),
        theirs: context.estimate(&rates[1]),
        ratio: paired_ratio(&rates[0], &rates[1]),
    })
}

/// Measures the other programs that are installed.
fn measure_programs(context: &mut Context<'_>) -> Vec<Program> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut others = vec![(Some(Receiver::Testpmd), Receiver::Testpmd.name())];
    for kind in Generator::ALL {
        let found = kind.find(&path);
        let receiver = found.map(|program| Receiver::Generator(kind, program));
        others.push((receiver, kind.name()));
    }
    let mut programs = Vec::new();
    for (receiver, name) in others {
        let rates = match &receiver {
            Some(receiver) => measure_rates(context, receiver).map_err(|error| error.to_string()),
            None => Err(format!("{name} is not installed")),
        };
        programs.push(Program {
            name,
            paper: match receiver {
                Some(Receiver::Testpmd) => "FloWatcher equals Speedometer",
                _ => "FloWatcher loses at least 100 times less",
            },
            rates,
        });
    }
    programs
}

/// Whether flowatch receives at least `least` times as fast as a program.
fn judge_program(program: &Program, claim: &str, least: f64) -> Part {
    match &program.rates {
        Ok(rates) => Part::compared(
            claim,
            rates.ratio.value >= least,
            format!(
                "flowatch --level packet receives {:.2} times as fast as {} ({:.2} to {:.2}).",
                rates.ratio.value, program.name, rates.ratio.low, rates.ratio.high
            ),
        ),
        Err(error) => Part::not_compared(claim, format!("{error}.")),
    }
}

impl Experiment for Fig8 {
    type Results = Results;

    const NAME: &'static str = "fig8";
    const TITLE: &'static str = "Packet and flow level, next to other programs";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 8";

    fn instrument() -> String {
        format!(
            "{VIRTUAL_CLOCK} Other programs: each receives alternately with flowatch on the same core from net_null, \
             which delivers packets as fast as they are received."
        )
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(1 << 19, 1 << 23);
        Ok(Results {
            packets,
            levels: measure_levels(context, packets)?,
            programs: measure_programs(context),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("packets per trial", results.packets),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let lost: u64 = results.levels.iter().map(|level| level.lost).sum();
        let mut parts = Vec::new();
        for (index, program) in results.programs.iter().enumerate() {
            parts.push(if index == 0 {
                let claim = "It receives as well as Speedometer (here: testpmd's rxonly).";
                judge_program(program, claim, EQUAL)
            } else {
                let claim = format!("It receives far better than {}.", program.name);
                judge_program(program, &claim, 1.0)
            });
        }
        parts.push(Part::compared(
            "Its flow level is almost free.",
            lost == 0,
            if lost == 0 {
                "At 14.88 Mpps nothing is lost at either level, uniform or Zipf(1), in the virtual clock.".to_owned()
            } else {
                format!("At 14.88 Mpps {lost} packets are lost in the virtual clock, uniform and Zipf(1) together.")
            },
        ));
        parts.push(Part::not_compared(
            "MoonGen's flow level costs 10 to 100 times the drops.",
            "Only packet counts are compared with other programs.",
        ));
        vec![Finding::new(
            "FloWatcher receives as well as Speedometer and far better than MoonGen and pktgen; its flow level is \
             almost free, while MoonGen's costs 10 to 100 times the drops.",
            parts,
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let measured = results
            .programs
            .iter()
            .filter_map(|program| Some((program, program.rates.as_ref().ok()?.ratio)));
        measured
            .map(|(program, ratio)| {
                Comparison::new(
                    format!("packet count, flowatch against {}", program.name),
                    program.paper,
                    format!(
                        "{:.2} times ({:.2} to {:.2})",
                        ratio.value, ratio.low, ratio.high
                    ),
                )
            })
            .collect()
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut levels = Table::new(
            "levels",
            "The highest rate of one core without loss, in the virtual clock",
            &[
                "flows",
                "level",
                "ns per packet",
                "Mpps by that cost",
                "highest rate without loss, Mpps",
                "lost at 14.88 Mpps",
                "of",
            ],
        );
        for level in &results.levels {
            levels.row(vec![
                level.order.as_str().into(),
                level.level.into(),
                level.ns.into(),
                mpps_of_cost(level.ns).into(),
                level.rate_mpps.into(),
                level.lost.into(),
                level.offered.into(),
            ]);
        }
        let [low, high, half] = Estimate::COLUMNS;
        let mut programs = Table::new(
            "tools",
            "Packets received from net_null on one core, each program alternately with flowatch --level packet",
            &[
                "program",
                "Mpps",
                low,
                high,
                half,
                "flowatch, Mpps",
                "flowatch, times as fast",
                "95 % from (times)",
                "to (times)",
            ],
        );
        for program in &results.programs {
            let Ok(rates) = &program.rates else { continue };
            let mut row = vec![program.name.into()];
            row.extend(rates.theirs.scaled(1e-6).cells());
            row.push(mpps(rates.ours.mean()).into());
            row.extend([rates.ratio.value, rates.ratio.low, rates.ratio.high].map(Into::into));
            programs.row(row);
        }
        let mut tables = vec![levels];
        if !programs.rows.is_empty() {
            tables.push(programs);
        }
        tables
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figure = Figure::new(
            "levels",
            "The highest rate without loss of one core that receives and monitors, at packet and at flow level.",
            Axis::names("level", levels().map(|(name, _)| name)),
            Axis::linear("highest rate without loss (Mpps)").from_zero(),
        )
        .horizontal("10 GbE, 64 B: 14.88 Mpps", mpps(VirtualOptions::LINE_10G));
        for levels in results.levels.chunks(levels().len()) {
            let points = levels.iter().enumerate();
            let points = points.map(|(index, level)| Point::new(index as f64, level.rate_mpps));
            figure
                .series
                .push(Series::bars(&levels[0].order, points.collect()));
        }
        vec![figure]
    }

    fn notes(results: &Results) -> Vec<String> {
        let errors = results.programs.iter();
        errors
            .filter_map(|program| program.rates.as_ref().err())
            .map(|error| format!("Not measured: {error}."))
            .collect()
    }
}
