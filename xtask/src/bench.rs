//! `cargo xtask bench`: measurements beside what others reach.

mod peers;
pub(crate) mod random;
mod statistics;
mod tools;
mod udp_sink;

use anyhow::bail;

use crate::workspace;

pub(crate) fn run(what: &str, mut parser: lexopt::Parser) -> anyhow::Result<()> {
    match what {
        "peers" => peers::run(parser),
        "tables" => example("bench_tables", &mut parser),
        "statistics" => example("bench_statistics", &mut parser),
        unknown => bail!("no benchmark {unknown}: peers, tables, statistics"),
    }
}

/// Runs an example of the `flow` crate, which measures what is its own.
fn example(name: &str, parser: &mut lexopt::Parser) -> anyhow::Result<()> {
    let mut command = workspace::cargo(&[
        "run",
        "--release",
        "-p",
        "flowatch-flow",
        "--example",
        name,
        "--",
    ]);
    command.args(parser.raw_args()?);
    workspace::run(command)
}
