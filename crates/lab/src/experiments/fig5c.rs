//! FloWatcher-DPDK, figure 5c: memory pools.

use super::context::{Context, parameter, repetitions_parameter};
use super::experiment::Experiment;
use super::real_time::{
    Card, Load, RealTimeCondition, RealTimeResult, SOFTWARE_NIC, cores, ratio_text,
    real_time_table, real_time_trials,
};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{mean, paired_ratio};
use crate::traffic::small_frames;
use crate::trial::TrialError;
use generator::FlowOrder;
use std::time::Duration;

const FLOWS: u32 = 1 << 16;
const QUEUES: u16 = 2;

pub(super) struct Fig5c;

pub(super) struct Results {
    load: Load,
    /// A pool per queue, one pool for all queues, and the same two with fewer buffers; or why they were
    /// not measured.
    pools: Result<Vec<RealTimeResult>, String>,
}

fn conditions() -> Vec<RealTimeCondition> {
    let mut monitor = Monitor::counting(FLOWS as usize);
    monitor.options.cores = cores().1;
    [
        ("a pool per queue", false, None),
        ("one pool for all", true, None),
        ("a pool per queue, 8192 buffers", false, Some(8192)),
        ("one pool for all, 12288 buffers", true, Some(12_288)),
    ]
    .map(|(name, shared_pool, pool_size)| RealTimeCondition {
        name: name.into(),
        card: Card {
            queues: QUEUES,
            shared_pool,
            pool_size,
        },
        monitor: monitor.clone(),
    })
    .into()
}

fn judge_pools(pools: &[RealTimeResult], repetitions: usize) -> Part {
    let (own, shared) = (pools[0].total_drop_ratio(), pools[1].total_drop_ratio());
    let is_conclusive = pools.iter().all(|pool| pool.is_conclusive(repetitions));
    let (cpu_own, cpu_shared) = (pools[0].cpu_ns(), pools[1].cpu_ns());
    Part::new(
        "",
        is_conclusive.then_some(shared > 2.0 * own),
        format!(
            "{}One pool loses {}, a pool per queue {}; a packet takes {:.2} times the CPU time ({:.0} against {:.0} ns, \
             polling included). With {} cores for a generator and two receivers, the scheduler of the machine decides \
             which of them runs, and with that what is lost; the table shows losses by full queues and by missing \
             buffers separately.",
            if is_conclusive {
                ""
            } else {
                "Too few trials were valid for a verdict. "
            },
            ratio_text(shared),
            ratio_text(own),
            paired_ratio(&cpu_shared, &cpu_own).value,
            mean(&cpu_shared),
            mean(&cpu_own),
            hw::cores::allowed().len()
        ),
    )
}

impl Experiment for Fig5c {
    type Results = Results;

    const NAME: &'static str = "fig5c";
    const TITLE: &'static str = "Memory pools: one for all queues, or one per queue";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 5c";

    fn instrument() -> String {
        SOFTWARE_NIC.into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let load = Load {
            rate_pps: 10e6,
            time: Duration::from_millis(context.pick(400, 10_000)),
            repetitions: context.repetitions(4, 10),
        };
        context.progress("two queues over the software NIC");
        let traffic = small_frames(FLOWS, FlowOrder::Uniform, context.seed());
        let pools = real_time_trials(context, &traffic, load, &conditions());
        Ok(Results {
            load,
            pools: pools.map_err(|error| error.to_string()),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", FLOWS),
            parameter("queues", QUEUES),
            parameter("time of a trial", format!("{:?}", results.load.time)),
            repetitions_parameter(results.load.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let part = match &results.pools {
            Ok(pools) => judge_pools(pools, results.load.repetitions),
            Err(error) => Part::not_compared("", format!("The experiment {error}.")),
        };
        vec![Finding::new(
            "A pool per queue loses about ten times less than one pool that all queues share.",
            [part],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let Ok(pools) = &results.pools else {
            return Vec::new();
        };
        vec![Comparison::new(
            "drop ratio, one pool for all against a pool per queue",
            "about 10 times",
            format!(
                "{} against {}",
                ratio_text(pools[1].total_drop_ratio()),
                ratio_text(pools[0].total_drop_ratio())
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let pools = results.pools.iter();
        pools
            .map(|pools| real_time_table("pools", "pools", pools))
            .collect()
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let Ok(pools) = &results.pools else {
            return Vec::new();
        };
        let points = pools.iter().enumerate().map(|(index, pool)| {
            let (lost, offered) = pool.lost();
            Point::ratio(index as f64, lost, offered)
        });
        vec![
            Figure::new(
                "pools",
                "Packet drop ratio at 10 Mpps over two queues in real time. Pale: nothing was lost; the upper bound is \
                 shown.",
                Axis::names("", pools.iter().map(|pool| pool.name.as_str())),
                Axis::log10("packet drop ratio").within(f64::NAN, 1.0),
            )
            .with(Series::bars("", points.collect())),
        ]
    }

    fn notes(results: &Results) -> Vec<String> {
        let error = results.pools.as_ref().err();
        error
            .map(|error| format!("Not measured: {error}."))
            .into_iter()
            .collect()
    }
}
