//! Anomalies of TCP: conversations with known truth through a port that injects faults, and how the full
//! analysis reports them.

mod classes;
mod counts;
mod path;

use super::context::{Context, parameter};
use super::experiment::Experiment;
use crate::outcome::{Comparison, Finding, Table};
use crate::plot::Figure;
use crate::trial::TrialError;
use path::{DELAY, OVERTAKEN_BY};

pub(super) struct Anomalies;

pub(super) struct Results {
    counts: counts::Results,
    classes: classes::Results,
}

impl Experiment for Anomalies {
    type Results = Results;

    const NAME: &'static str = "anomalies";
    const TITLE: &'static str = "Anomalies of TCP against the truth";
    const SOURCE: &'static str = "DPDKStat's analysis is Tstat's, with the classes of Mellia et al. 2008; faults and truth are ours";

    fn instrument() -> String {
        "Simulated conversations: a sender, a probe in the middle of the path and a receiver, with known truth. A port \
         before the probe loses, copies, delays and reorders frames at positions that a seed determines; the full \
         analysis runs after it. The truth is a reference implementation over the frames that reached the probe. No \
         time is measured."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        Ok(Results {
            counts: counts::measure(context)?,
            classes: classes::measure(context)?,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter(
                "overtaken by, delayed by",
                format!("at most {OVERTAKEN_BY} frames, {DELAY:?}"),
            ),
            parameter("statistics", "full"),
            results.counts.parameter(),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        vec![results.counts.judge(), results.classes.judge()]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        vec![results.classes.compare()]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut tables = results.counts.tabulate();
        tables.push(results.classes.tabulate());
        tables
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let mut figures = results.counts.draw();
        figures.push(results.classes.draw());
        figures
    }

    fn notes(results: &Results) -> Vec<String> {
        vec![results.classes.note()]
    }
}

/// For tests: a context in which every trial must be valid.
#[cfg(test)]
#[track_caller]
fn with_context(check: impl FnOnce(&mut Context<'_>)) {
    let extent = super::context::Extent {
        full: false,
        seed: 5,
        repetitions: None,
        command: String::new(),
    };
    let mut progress = |_: &str| {};
    let mut context = Context::new(&extent, &mut progress);
    check(&mut context);
    assert_eq!(context.trials.invalid, 0, "{:?}", context.trials);
}
