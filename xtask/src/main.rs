//! Developer commands of the workspace: `cargo xtask <command>`.
#![allow(
    clippy::print_stdout,
    reason = "these commands report to the person who runs them"
)]

mod bench;
mod ci;
mod fuzz;
mod golden;
mod measure;
mod pcap_file;
mod readme;
mod setup;
mod tidy;
mod traffic_64;
mod traffic_mix;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context, bail};
use lexopt::prelude::*;

const USAGE: &str = "\
cargo xtask COMMAND

  ci                          all checks before a commit: formatting, tidy, lints, tests,
                              documentation, the first command of the README
  tidy [--report]             rules of this repository that no compiler or linter checks;
                              --report lists what each rule finds, also those not enforced yet
  setup [--bench] [--fuzz] [--golden] [--dpdk]
                              install the packages that are needed (runs ./setup)
  fuzz [TARGET..] [--seconds N]
                              fuzz all or the named targets, N seconds each (60)
  golden [--check]            write the golden tables, or compare with them
  bench peers [OPTIONS]       CPU per packet of flowatch beside other flow meters
        --rounds N            measurements of each tool (5)
        --traffic NAME        mix, uniform, zipf, all by default; may be repeated
        --only NAME           tools whose name contains NAME; may be repeated
  bench anchors [TURNS]       the paper's tables and P-square beside ours: time and errors
  bench dpdk [--seconds N]    flowatch beside testpmd in mode rxonly, both counting packets
  bench tables [ARGS]         ns per packet of every flow table
  bench sketches [ROUNDS]     ns per packet of sketches beside Count-Min, and their recall
  bench statistics [ARGS]     ns per packet of every statistic
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut parser = lexopt::Parser::from_env();
    let command = match parser.next()? {
        Some(Value(command)) => command.string()?,
        Some(Long("help") | Short('h')) => "help".to_owned(),
        Some(other) => return Err(other.unexpected().into()),
        None => bail!("no command\n\n{USAGE}"),
    };
    match command.as_str() {
        "help" => {
            print!("{USAGE}");
            Ok(())
        }
        "ci" => {
            no_more_arguments(&mut parser)?;
            ci::run()
        }
        "tidy" => {
            let mut report = false;
            while let Some(argument) = parser.next()? {
                match argument {
                    Long("report") => report = true,
                    other => return Err(other.unexpected().into()),
                }
            }
            tidy::run(report)
        }
        "setup" => setup::run(parser.raw_args()?),
        "fuzz" => {
            let mut seconds = 60;
            let mut targets = Vec::new();
            while let Some(argument) = parser.next()? {
                match argument {
                    Long("seconds") => seconds = parser.value()?.parse()?,
                    Value(target) => targets.push(target.string()?),
                    other => return Err(other.unexpected().into()),
                }
            }
            fuzz::run(&targets, seconds)
        }
        "golden" => {
            let mut check = false;
            while let Some(argument) = parser.next()? {
                match argument {
                    Long("check") => check = true,
                    other => return Err(other.unexpected().into()),
                }
            }
            golden::run(check)
        }
        "bench" => {
            let what = parser
                .value()
                .context("no benchmark: anchors, dpdk, peers, sketches, statistics, tables")?
                .string()?;
            bench::run(&what, parser)
        }
        measure::COMMAND => measure::run(parser.raw_args()?),
        unknown => bail!("unknown command {unknown}\n\n{USAGE}"),
    }
}

fn no_more_arguments(parser: &mut lexopt::Parser) -> anyhow::Result<()> {
    match parser.next()? {
        None => Ok(()),
        Some(argument) => Err(argument.unexpected().into()),
    }
}
