//! The command line: one definition for the parser, `--help`, the manual page and the completions.
//! The flags of a topic are in one file. `plan` checks how flags combine.

pub(crate) mod engine;
pub(crate) mod flows;
pub(crate) mod generate;
pub(crate) mod input;
pub(crate) mod lab;
pub(crate) mod privileges;
pub(crate) mod reports;
pub(crate) mod value;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use engine::EngineArguments;
use flows::FlowArguments;
use input::{DpdkArguments, InputArguments};
use lab::LabCommand;
use privileges::PrivilegeArguments;
use reports::{OutputArguments, ReportArguments};
use std::ffi::OsString;

/// Flow-level network monitoring that accounts for every packet.
#[derive(Debug, Parser)]
#[command(name = "flowatch", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Monitor interfaces or read capture files: account for every packet, report every flow.
    Watch(Box<WatchArguments>),
    /// Send generated flows or replay captures at a given rate, and count every packet.
    Gen(Box<generate::GenArguments>),
    /// Run the papers' experiments and report the results.
    Lab {
        /// The subcommand.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Check what this machine supports, what is missing, and how to fix it.
    Doctor,
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff).
    #[command(hide = true)]
    Manual,
}

/// The flags of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// Interface to monitor: `eth0`, or `eth0@2` for queue 2 only; `dpdk:0000:3b:00.0` or
    /// `dpdk:net_memif0,role=client` for a DPDK device. May be repeated.
    #[arg(short = 'i', long = "interface", value_name = "SOURCE",
        value_parser = NonEmptyStringValueParser::new())]
    pub(crate) interfaces: Vec<String>,

    /// Capture files to read in this order (pcap or pcapng, plain or compressed with gzip, zstd, xz,
    /// bzip2 or lz4); `-` is standard input, a directory stands for the captures in it, a quoted
    /// pattern ('a*.pcap') for the files that match. May be repeated. A filter may follow the files:
    /// from the first argument on that is not a file, if the rest is a valid expression. If it is not,
    /// an argument that looks like a file name (x.pcap) is a missing file.
    #[arg(short = 'r', long = "read", value_name = "FILE", num_args = 1..)]
    pub(crate) files: Vec<OsString>,

    /// The values of each `-r`, with the filter that may follow them; set by `command_line`.
    #[arg(skip)]
    pub(crate) file_groups: Vec<Vec<OsString>>,

    /// Count only packets that match this pcap-filter(7) expression.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,

    #[command(flatten)]
    pub(crate) dpdk: DpdkArguments,

    #[command(flatten)]
    pub(crate) flows: FlowArguments,

    #[command(flatten)]
    pub(crate) engine: EngineArguments,

    #[command(flatten)]
    pub(crate) outputs: OutputArguments,

    #[command(flatten)]
    pub(crate) reports: ReportArguments,

    #[command(flatten)]
    pub(crate) input: InputArguments,

    #[command(flatten)]
    pub(crate) privileges: PrivilegeArguments,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_accepts_the_definition() {
        Arguments::command().debug_assert();
    }
}
