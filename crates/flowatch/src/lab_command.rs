//! `flowatch lab`: lists, runs and reports the experiments.

use crate::arguments::lab::{LabCommand, LabReportArguments, LabRunArguments};
use crate::messages::warn;
use crate::standard_output::print;
use anyhow::Context;
use export::ExportError;
use lab::experiments::{self, Entry, Extent};
use lab::outcome::Finding;
use lab::results::ResultsError;
use lab::{report, results};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;

/// File name of the report, in the directory with the results.
const PAGE: &str = "report.html";

/// Runs a subcommand of `lab`.
///
/// # Errors
/// A one-line message.
pub(crate) fn run(command: LabCommand) -> anyhow::Result<ExitCode> {
    let result = match command {
        LabCommand::List => list(),
        LabCommand::Run(arguments) => run_experiments(&arguments),
        LabCommand::Report(arguments) => write_report(&arguments),
    };
    match result {
        Err(error) if error.is::<PermissionDenied>() => {
            warn(&error.to_string());
            Ok(ExitCode::from(crate::watch::EXIT_PERMISSION))
        }
        result => result,
    }
}

/// A missing permission, as a one-line message.
#[derive(Debug)]
struct PermissionDenied(String);

impl fmt::Display for PermissionDenied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for PermissionDenied {}

/// Converts an error from writing a file or directory of the results.
fn write_error(error: ExportError) -> anyhow::Error {
    match error {
        error @ ExportError::Permission { .. } => {
            PermissionDenied(format!("--output: {error}")).into()
        }
        // Its text includes the path and the cause.
        error => anyhow::anyhow!("--output: {error}"),
    }
}

/// Converts an error from reading results.
fn read_error(error: ResultsError) -> anyhow::Error {
    match error {
        ResultsError::File { path, error } if error.kind() == ErrorKind::PermissionDenied => {
            let right = port::permission_hint(&path);
            PermissionDenied(format!("--output: {}: {right}", path.display())).into()
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
    fs::create_dir_all(&arguments.output).map_err(|error| {
        write_error(ExportError::from_io(
            &arguments.output.display().to_string(),
            error,
        ))
    })?;
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
        warn(&format!("{of}: {}", experiment.title));
        match experiment.run(&extent, &mut |what| warn(&format!("{of}: {what}"))) {
            Ok(outcome) => {
                let files =
                    results::write(&arguments.output, &outcome).map_err(|error| match error {
                        ResultsError::Write(error) => write_error(error),
                        error => error.into(),
                    })?;
                for finding in &outcome.findings {
                    print_finding(&outcome.name, finding)?;
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
            // Continue: what one experiment lacks (DPDK, valgrind) others may not need.
            Err(error) => {
                failed = true;
                warn(&format!("{}: {error}", experiment.name));
            }
        }
    }
    Ok(if failed {
        ExitCode::from(crate::watch::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints a finding with a line for each part.
fn print_finding(experiment: &str, finding: &Finding) -> anyhow::Result<()> {
    print(format!("{experiment}: {}\n", finding.paper))?;
    for part in &finding.parts {
        let verdict = part.verdict.label();
        let line = [verdict, ": ", &part.claim, " ", &part.reason].concat();
        print(format!("  {}\n", line.replace(":  ", ": ")))?;
    }
    Ok(())
}

/// Returns the named experiments, each once, in the order given.
fn choose(names: &[String]) -> anyhow::Result<Vec<Entry>> {
    let mut chosen: Vec<Entry> = Vec::new();
    for name in names {
        let more = if name == "all" {
            experiments::ALL.to_vec()
        } else {
            vec![
                experiments::find(name)
                    .with_context(|| format!("unknown experiment {name}: run flowatch lab list"))?,
            ]
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
    let outcomes = results::read(&arguments.output).map_err(read_error)?;
    let path = arguments.output.join(PAGE);
    export::write_file(&path, report::html(&outcomes)?.as_bytes()).map_err(write_error)?;
    print(format!(
        "{}: {} experiments\n",
        path.display(),
        outcomes.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}
