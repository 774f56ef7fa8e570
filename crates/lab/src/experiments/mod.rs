//! The experiments, each by the name of a figure or a table of a paper.

mod anomalies;
mod context;
mod dpdkstat_fig11;
mod dpdkstat_fig12;
mod dpdkstat_fig2;
mod dpdkstat_fig5;
mod dpdkstat_fig8;
mod dpdkstat_fig9;
pub mod dpdkstat_rate;
mod fig5a;
mod fig5b;
mod fig5c;
mod fig6a;
mod fig6b;
mod fig6c;
mod fig7a;
mod fig7b;
mod fig7c;
mod fig8;
mod fig9a;
mod fig9b;
mod loss_gate;
mod mix;
mod peers;
mod real_time;
mod recorded;
mod table3;
mod table4;
mod tools;
mod writing;

pub use context::{Context, Extent};

use crate::machine::Provenance;
use crate::outcome::Outcome;
use crate::trial::TrialError;
use std::time::Instant;

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name: the figure or table.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    run: fn(&mut Context<'_>) -> Result<Outcome, TrialError>,
}

/// All of them, in the order of the report.
pub const ALL: &[Experiment] = &[
    loss_gate::EXPERIMENT,
    fig5a::EXPERIMENT,
    fig5b::EXPERIMENT,
    fig5c::EXPERIMENT,
    table3::EXPERIMENT,
    fig6a::EXPERIMENT,
    fig6b::EXPERIMENT,
    fig6c::EXPERIMENT,
    fig7a::EXPERIMENT,
    fig7b::EXPERIMENT,
    fig7c::EXPERIMENT,
    fig8::EXPERIMENT,
    table4::EXPERIMENT,
    fig9a::EXPERIMENT,
    fig9b::EXPERIMENT,
    dpdkstat_fig2::EXPERIMENT,
    dpdkstat_fig5::EXPERIMENT,
    dpdkstat_fig8::EXPERIMENT,
    dpdkstat_fig9::EXPERIMENT,
    dpdkstat_fig11::EXPERIMENT,
    dpdkstat_fig12::EXPERIMENT,
    dpdkstat_rate::EXPERIMENT,
    anomalies::EXPERIMENT,
];

/// The experiment of that name.
#[must_use]
pub fn find(name: &str) -> Option<Experiment> {
    ALL.iter()
        .copied()
        .find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Carries it out; `say` is told what it is doing.
    ///
    /// # Errors
    /// When it cannot be carried out.
    pub fn run(&self, extent: &Extent, say: &mut dyn FnMut(&str)) -> Result<Outcome, TrialError> {
        let provenance = Provenance::here(extent.seed, &extent.command);
        let begun = Instant::now();
        let mut context = Context::new(extent, say);
        let mut outcome = (self.run)(&mut context)?;
        outcome.trials = std::mem::take(&mut context.trials);
        outcome.provenance = provenance;
        outcome.seconds = begun.elapsed().as_secs_f64();
        outcome.settings.insert(
            0,
            (
                "form".into(),
                if extent.full { "full" } else { "short" }.into(),
            ),
        );
        Ok(outcome)
    }
}
