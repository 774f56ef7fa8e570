//! `cargo xtask bench`: measurements of flowatch and of other programs.

mod dpdk;
mod peers;
mod statistics;
mod tools;
mod udp_sink;

use std::ffi::OsString;

use anyhow::bail;

use crate::workspace;

pub(crate) fn run(what: &str, mut parser: lexopt::Parser) -> anyhow::Result<()> {
    match what {
        "anchors" => {
            let turns: Vec<_> = parser.raw_args()?.collect();
            example("flowatch-lab", "bench_anchors", &turns)
        }
        "dpdk" => dpdk::run(parser),
        "peers" => peers::run(parser),
        "tables" => {
            let flows: Vec<_> = parser.raw_args()?.collect();
            example("flowatch-engine", "bench_tables", &flows)?;
            example("flowatch-engine", "bench_path", &flows)
        }
        "sketches" => {
            let arguments: Vec<_> = parser.raw_args()?.collect();
            example("flowatch-sketch", "bench_sketches", &arguments)
        }
        "statistics" => {
            let mut arguments: Vec<_> = parser.raw_args()?.collect();
            example("flowatch-flow", "statistic_accuracy", &[])?;
            arguments.insert(0, "statistics".into());
            example("flowatch-engine", "bench_path", &arguments)
        }
        unknown => {
            bail!("unknown benchmark {unknown}: anchors, dpdk, peers, sketches, statistics, tables")
        }
    }
}

/// Runs an example of a crate, built for release.
fn example(package: &str, name: &str, arguments: &[OsString]) -> anyhow::Result<()> {
    let mut command =
        workspace::cargo(&["run", "--release", "-p", package, "--example", name, "--"]);
    command.args(arguments);
    workspace::run(command)
}
