//! FloWatcher-DPDK, figure 5c: memory pools.

use super::Experiment;
use super::context::{Context, outcome};
use super::real_time::{
    Card, Load, RealCondition, SOFTWARE_NIC, cores, lost_of, ratio_text, real_table, real_trials,
    tell,
};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{mean, paired_ratio};
use crate::traffic::small_frames;
use crate::trial::TrialError;
use generator::FlowOrder;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5c",
    title: "Memory pools: one for all queues, or one a queue",
    source: "FloWatcher-DPDK, figure 5c",
    run,
};

const FLOWS: u32 = 1 << 16;
const QUEUES: u16 = 2;

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(&EXPERIMENT, SOFTWARE_NIC);
    let load = Load {
        rate_pps: 10e6,
        time: Duration::from_millis(context.pick(400, 10_000)),
        repetitions: context.repetitions(4, 10),
    };
    let mut monitor = Monitor::counting(FLOWS as usize);
    monitor.options.cores = cores().1;
    let conditions: Vec<RealCondition> = [
        ("a pool a queue", false, None),
        ("one pool for all", true, None),
        ("a pool a queue, 8192 buffers", false, Some(8192)),
        ("one pool for all, 12288 buffers", true, Some(12_288)),
    ]
    .into_iter()
    .map(|(name, shared_pool, pool_size)| RealCondition {
        name: name.into(),
        card: Card {
            queues: QUEUES,
            shared_pool,
            pool_size,
        },
        monitor: monitor.clone(),
    })
    .collect();
    context.say("two queues over the software NIC");
    let paper = "A pool a queue loses about ten times less than one pool that all queues share.";
    match real_trials(
        context,
        &small_frames(FLOWS, FlowOrder::Uniform, context.seed()),
        load,
        &conditions,
    ) {
        Ok(results) => {
            let lost: Vec<(u64, u64)> = results.iter().map(|trials| lost_of(trials)).collect();
            outcome.figures.push(
                Figure::new(
                    "pools",
                    "Packet drop ratio at 10 Mpps over two queues in real time. Pale: nothing was lost, the bound \
                     that this sets.",
                    Axis::names("", conditions.iter().map(|condition| condition.name.as_str())),
                    Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
                )
                .with(Series::bars(
                    "",
                    lost.iter()
                        .enumerate()
                        .map(|(place, (lost, offered))| Point::ratio(place as f64, *lost, *offered))
                        .collect(),
                )),
            );
            outcome
                .tables
                .push(real_table(context, "pools", "pools", &conditions, &results));
            let cpu = |index: usize| -> Vec<f64> {
                results[index].iter().map(|trial| trial.cpu_ns).collect()
            };
            let ratio = |index: usize| {
                let (lost, offered) = lost[index];
                lost as f64 / offered as f64
            };
            let cost = paired_ratio(&cpu(1), &cpu(0));
            outcome.comparisons.push(Comparison {
                what: "drop ratio, one pool for all against a pool a queue".into(),
                paper: "about 10 times".into(),
                here: format!("{} against {}", ratio_text(ratio(1)), ratio_text(ratio(0))),
            });
            let more = ratio(1) > 2.0 * ratio(0);
            let known = results.iter().all(|trials| tell(trials, load.repetitions));
            outcome.findings.push(Finding {
                paper: paper.into(),
                holds: match known {
                    false => Holds::Unknown,
                    true if more => Holds::Yes,
                    true => Holds::No,
                },
                because: format!(
                    "{}One pool loses {}, a pool a queue {}; a packet takes {:.2} times the processor time \
                     ({:.0} against {:.0} ns, polling included). With {} cores for a generator and two receivers, \
                     which of them the machine's scheduler runs decides what is lost; the table has the reasons, a \
                     full queue apart from a lack of buffers.",
                    match known {
                        true => "",
                        false => "Too few trials were valid for a verdict. ",
                    },
                    ratio_text(ratio(1)),
                    ratio_text(ratio(0)),
                    cost.value,
                    mean(&cpu(1)),
                    mean(&cpu(0)),
                    hw::cores::allowed().len()
                ),
            });
        }
        Err(error) => {
            outcome.notes.push(format!("Not measured: {error}."));
            outcome.findings.push(Finding {
                paper: paper.into(),
                holds: Holds::Unknown,
                because: format!("{error}."),
            });
        }
    }
    outcome.settings = vec![
        ("flows".into(), FLOWS.to_string()),
        ("queues".into(), QUEUES.to_string()),
        ("time of a trial".into(), format!("{:?}", load.time)),
        (
            "repetitions".into(),
            format!("{}, in ABBA order", load.repetitions),
        ),
    ];
    Ok(outcome)
}
