//! The steps of an experiment, and its entry in the registry.

use super::context::{Context, Extent};
use crate::machine::Provenance;
use crate::outcome::{Comparison, Finding, Outcome, Table};
use crate::plot::Figure;
use crate::trial::TrialError;
use std::time::Instant;

/// An experiment: it measures typed results; verdicts, tables and plots are functions of these.
pub(super) trait Experiment {
    /// Everything that was measured.
    type Results;

    /// The name on the command line and of the result files: the paper's figure or table.
    const NAME: &'static str;
    /// The subject, in a few words.
    const TITLE: &'static str;
    /// Paper and figure or table.
    const SOURCE: &'static str;

    /// Describes the instrument and its limits.
    fn instrument() -> String;

    /// Measures.
    fn measure(context: &mut Context<'_>) -> Result<Self::Results, TrialError>;

    /// Returns the parameters that decided the results, as name and value.
    fn parameters(results: &Self::Results) -> Vec<(String, String)>;

    /// Returns the paper's findings with a verdict for each part.
    fn judge(results: &Self::Results) -> Vec<Finding>;

    /// Returns the paper's figures next to ours.
    fn compare(_results: &Self::Results) -> Vec<Comparison> {
        Vec::new()
    }

    /// Returns the tables.
    fn tabulate(results: &Self::Results) -> Vec<Table>;

    /// Returns the plots.
    fn draw(results: &Self::Results) -> Vec<Figure>;

    /// Returns remarks, such as why a part was not measured.
    fn notes(_results: &Self::Results) -> Vec<String> {
        Vec::new()
    }
}

/// An experiment in the registry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name on the command line and of the result files.
    pub name: &'static str,
    /// The subject, in a few words.
    pub title: &'static str,
    /// Paper and figure or table.
    pub source: &'static str,
    steps: fn(&mut Context<'_>) -> Result<Outcome, TrialError>,
}

impl Entry {
    /// The entry of an experiment.
    pub(super) const fn of<E: Experiment>() -> Self {
        Self {
            name: E::NAME,
            title: E::TITLE,
            source: E::SOURCE,
            steps: steps::<E>,
        }
    }

    /// Runs the experiment; `progress` receives its progress messages.
    ///
    /// # Errors
    /// When an instrument is missing or a trial cannot run.
    pub fn run(
        &self,
        extent: &Extent,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Outcome, TrialError> {
        let provenance = Provenance::here(extent.seed, &extent.command);
        let begun = Instant::now();
        let mut context = Context::new(extent, progress);
        let mut outcome = (self.steps)(&mut context)?;
        outcome.trials = std::mem::take(&mut context.trials);
        outcome.provenance = provenance;
        outcome.seconds = begun.elapsed().as_secs_f64();
        let form = if extent.full { "full" } else { "short" };
        outcome.settings.insert(0, ("form".into(), form.into()));
        Ok(outcome)
    }
}

/// Runs the steps of an experiment.
fn steps<E: Experiment>(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let results = E::measure(context)?;
    Ok(Outcome {
        name: E::NAME.into(),
        title: E::TITLE.into(),
        source: E::SOURCE.into(),
        instrument: E::instrument(),
        settings: E::parameters(&results),
        findings: E::judge(&results),
        comparisons: E::compare(&results),
        figures: E::draw(&results),
        tables: E::tabulate(&results),
        notes: E::notes(&results),
        trials: Default::default(),
        provenance: Provenance::default(),
        seconds: 0.0,
    })
}
