//! Anomalies of TCP: conversations with known truth through a port that injects faults, and what all of
//! the analysis tells of them.

mod classes;
mod counts;
mod path;

use super::Experiment;
use super::context::{Context, outcome};
use crate::outcome::Outcome;
use crate::trial::TrialError;
use path::{DELAY, OVERTAKEN_BY};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "anomalies",
    title: "Anomalies of TCP against the truth",
    source: "DPDKStat's analysis is Tstat's, with the classes of Mellia et al. 2008; faults and truth are ours",
    run,
};

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "Conversations in memory: a sender, a probe in the middle of the path and a receiver, of which all is known. \
         A port in front of the probe loses, copies, delays and reorders frames at places that a seed fixes, and \
         behind it runs all of the analysis. The truth is a plain reading of what reached the probe. Nothing is timed.",
    );
    outcome.settings = vec![
        (
            "overtaken by, delayed by".into(),
            format!("at most {OVERTAKEN_BY} frames, {DELAY:?}"),
        ),
        ("statistics".into(), "full".into()),
    ];
    counts::tell(context, &mut outcome)?;
    classes::tell(context, &mut outcome)?;
    Ok(outcome)
}

/// For tests: a context in which every trial is to be valid.
#[cfg(test)]
#[track_caller]
fn with_context(check: impl FnOnce(&mut Context<'_>)) {
    let extent = super::Extent {
        full: false,
        seed: 5,
        repetitions: None,
        command: String::new(),
    };
    let mut say = |_: &str| {};
    let mut context = Context::new(&extent, &mut say);
    check(&mut context);
    assert_eq!(context.trials.invalid, 0, "{:?}", context.trials);
}
