//! `flowatch lab`, as it is typed.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The commands of `lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Name the experiments.
    List,
    /// Carry experiments out; their results go to files.
    Run(LabRunArguments),
    /// Write one HTML page with all results.
    Report(LabReportArguments),
}

/// The flags of `lab run`.
#[derive(Debug, Args)]
pub(crate) struct LabRunArguments {
    /// Experiments by name, or `all`.
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,

    /// The short form: all experiments in minutes. This is the default.
    #[arg(long, conflicts_with = "full")]
    pub(crate) short: bool,

    /// As the papers had them: hours.
    #[arg(long)]
    pub(crate) full: bool,

    /// Seed of all that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Repetitions of each trial, in place of the experiment's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repetitions: Option<u16>,

    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) output: PathBuf,
}

/// The flags of `lab report`.
#[derive(Debug, Args)]
pub(crate) struct LabReportArguments {
    /// Directory with the results, where the page is written too.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) output: PathBuf,
}
