//! `flowatch lab`: the experiments are named, carried out, and reported.

use crate::arguments::lab::{LabCommand, LabReportArguments, LabRunArguments};
use crate::standard_output::print;
use crate::watch::complain;
use anyhow::Context;
use export::ExportError;
use lab::experiments::{self, Experiment, Extent};
use lab::results::ResultsError;
use lab::{report, results};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// The page of a report, in the directory of the results.
const PAGE: &str = "report.html";

/// Carries out a command of `lab`.
///
/// # Errors
/// What is wrong, in one line.
pub(crate) fn run(command: LabCommand) -> anyhow::Result<ExitCode> {
    let result = match command {
        LabCommand::List => list(),
        LabCommand::Run(arguments) => run_experiments(&arguments),
        LabCommand::Report(arguments) => write_report(&arguments),
    };
    match result {
        Err(error) if error.is::<MissingRight>() => {
            complain(&error.to_string());
            Ok(ExitCode::from(crate::watch::EXIT_PERMISSION))
        }
        result => result,
    }
}

/// A right that is missing, in one line.
#[derive(Debug)]
struct MissingRight(String);

impl fmt::Display for MissingRight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for MissingRight {}

/// Why a file or directory of the results cannot be written.
fn not_written(path: &Path, error: io::Error) -> anyhow::Error {
    match ExportError::from_io(&path.display().to_string(), error) {
        error @ ExportError::Permission { .. } => MissingRight(format!("--output: {error}")).into(),
        // Its text has the whole of it.
        error => anyhow::anyhow!("--output: {error}"),
    }
}

/// Why results cannot be read.
fn not_read(error: ResultsError) -> anyhow::Error {
    match error {
        ResultsError::File { path, error } if error.kind() == ErrorKind::PermissionDenied => {
            let right = port::missing_right(&path);
            MissingRight(format!("--output: {}: {right}", path.display())).into()
        }
        error => error.into(),
    }
}

fn list() -> anyhow::Result<ExitCode> {
    for experiment in experiments::ALL {
        print(format!(
            "{:<16} {}\n{:16} {}\n",
            experiment.name, experiment.title, "", experiment.source
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_experiments(arguments: &LabRunArguments) -> anyhow::Result<ExitCode> {
    let chosen = choose(&arguments.experiments)?;
    fs::create_dir_all(&arguments.output).map_err(|error| not_written(&arguments.output, error))?;
    let command: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let extent = Extent {
        full: arguments.full,
        seed: arguments.seed,
        repetitions: arguments.repetitions.map(usize::from),
        command: format!("flowatch {}", command.join(" ")),
    };
    let mut failed = false;
    for (index, experiment) in chosen.iter().enumerate() {
        let of = format!("{} ({} of {})", experiment.name, index + 1, chosen.len());
        complain(&format!("{of}: {}", experiment.title));
        match experiment.run(&extent, &mut |what| complain(&format!("{of}: {what}"))) {
            Ok(outcome) => {
                let files =
                    results::write(&arguments.output, &outcome).map_err(|error| match error {
                        ResultsError::File { path, error } => not_written(&path, error),
                        error => error.into(),
                    })?;
                for finding in &outcome.findings {
                    print(format!(
                        "{}: {} ({}) {}\n",
                        outcome.name,
                        finding.holds.word(),
                        finding.paper,
                        finding.because
                    ))?;
                }
                print(format!(
                    "{}: {:.1} s, {} valid trials, {} invalid, {} files in {}\n",
                    outcome.name,
                    outcome.seconds,
                    outcome.trials.valid,
                    outcome.trials.invalid,
                    files.len(),
                    arguments.output.display()
                ))?;
            }
            // The others can go on: what one lacks (DPDK, valgrind) they may not need.
            Err(error) => {
                failed = true;
                complain(&format!("{}: {error}", experiment.name));
            }
        }
    }
    Ok(if failed {
        ExitCode::from(crate::watch::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The experiments of these names, each once, in the order given.
fn choose(names: &[String]) -> anyhow::Result<Vec<Experiment>> {
    let mut chosen: Vec<Experiment> = Vec::new();
    for name in names {
        let more = if name == "all" {
            experiments::ALL.to_vec()
        } else {
            vec![experiments::find(name).with_context(|| {
                format!("no experiment is called {name}: see flowatch lab list")
            })?]
        };
        for experiment in more {
            if chosen.iter().all(|known| known.name != experiment.name) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

fn write_report(arguments: &LabReportArguments) -> anyhow::Result<ExitCode> {
    let outcomes = results::read(&arguments.output).map_err(not_read)?;
    let path = arguments.output.join(PAGE);
    fs::write(&path, report::html(&outcomes)?).map_err(|error| not_written(&path, error))?;
    print(format!(
        "{}: {} experiments\n",
        path.display(),
        outcomes.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}
