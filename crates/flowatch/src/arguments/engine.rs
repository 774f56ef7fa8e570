//! The flags of the engine: what is counted at all, on whose time, and behind which buffer.

use clap::{Args, ValueEnum};

/// Flags of `watch` that choose how the engine works.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// What is counted: every `flow`, or each `packet` as it is received, with no byte of it touched
    /// and no flow known.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "flow",
        help_heading = "Flows"
    )]
    pub(crate) level: LevelArgument,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArgument {
    /// Flows.
    Flow,
    /// Packets.
    Packet,
}
