//! The flags of `lab`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The commands of `lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments.
    List,
    /// Run experiments and write their results to files.
    Run(LabRunArguments),
    /// Write an HTML page with all results.
    Report(LabReportArguments),
}

/// The flags of `lab run`.
#[derive(Debug, Args)]
pub(crate) struct LabRunArguments {
    /// Names of experiments, or `all`.
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,

    /// Run the short form: all experiments take minutes. This is the default.
    #[arg(long, conflicts_with = "full")]
    pub(crate) short: bool,

    /// Run the papers' full form: all experiments take hours.
    #[arg(long)]
    pub(crate) full: bool,

    /// Seed of the random number generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Repetitions of each trial [default: set by the experiment].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repetitions: Option<u16>,

    /// Directory to write the results to.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) output: PathBuf,
}

/// The flags of `lab report`.
#[derive(Debug, Args)]
pub(crate) struct LabReportArguments {
    /// Directory with the results; the page is written there too.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) output: PathBuf,
}
