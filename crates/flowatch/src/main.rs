//! The flowatch command.

mod acquisition_text;
mod arguments;
mod collector;
mod device_text;
mod doctor;
mod dpdk;
mod files;
mod generate;
mod interfaces;
mod laboratory;
mod own_time;
mod plan;
mod progress;
mod reporter;
mod screen;
mod signals;
mod snap_lengths;
mod standard_output;
mod summary;
mod summary_text;
mod top_text;
mod units;
mod usage;
mod watch;

use arguments::{Arguments, Command};
use clap::CommandFactory;
use std::process::ExitCode;

fn main() -> ExitCode {
    own_time::begin();
    let result = match usage::arguments().command {
        Command::Watch(arguments) => match plan::Plan::new(*arguments) {
            Ok(plan) => return watch::run(plan),
            Err(plan::Refusal::MissingRight(message)) => {
                watch::complain(&message);
                return ExitCode::from(watch::EXIT_PERMISSION);
            }
            Err(plan::Refusal::Failed(message)) => Err(anyhow::anyhow!(message)),
        },
        Command::Gen(arguments) => return generate::run(&arguments),
        Command::Lab { command } => match laboratory::run(command) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Doctor => doctor::run(),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "flowatch", &mut text);
            standard_output::print(text).map_err(Into::into)
        }
        Command::Manual => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Arguments::command())
                .render(&mut text)
                .and_then(|()| standard_output::print(text))
                .map_err(Into::into)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            watch::complain(&format!("{error:#}"));
            ExitCode::from(watch::EXIT_FAILED)
        }
    }
}
