//! The `flowatch` command.

mod acquisition_summary;
mod arguments;
mod collector;
mod command_line;
mod cpu_time;
mod device_text;
mod doctor;
mod file_identity;
mod finished_run;
mod generate;
mod inputs;
mod interfaces;
mod join_summary;
mod lab_command;
mod live_books;
mod measurement_summary;
mod memory_plan;
mod messages;
mod net_summary;
mod plan;
mod privileges;
mod progress_display;
mod progress_text;
mod protocol_name;
mod run_end;
mod screen;
mod signals;
mod snaplen_warnings;
mod sources;
mod standard_output;
mod summary;
mod summary_text;
mod top_flows;
mod units;
mod watch;

use arguments::{Arguments, Command};
use clap::CommandFactory;
use std::process::ExitCode;

fn main() -> ExitCode {
    cpu_time::start();
    let result = match command_line::parse_or_exit().command {
        Command::Watch(arguments) => match plan::Plan::new(*arguments) {
            Ok(plan) => return watch::run(plan),
            Err(plan::PlanError::Permission(message)) => {
                messages::warn(&message);
                return ExitCode::from(watch::EXIT_PERMISSION);
            }
            Err(plan::PlanError::Failed(message)) => Err(anyhow::anyhow!(message)),
        },
        Command::Gen(arguments) => return generate::run(&arguments),
        Command::Lab { command } => match lab_command::run(command) {
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
            messages::warn(&format!("{error:#}"));
            ExitCode::from(watch::EXIT_FAILED)
        }
    }
}
