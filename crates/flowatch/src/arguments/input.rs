//! The flags of `watch` about its sources. A plan holds them as they are; `sources` rejects those that do
//! not apply.

use super::value::{count, duration};
use clap::{Args, ValueEnum};
use std::time::Duration;

/// The flags about all sources, and about interfaces.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArguments {
    /// Stop after this many packets, over all interfaces and queues.
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = count, help_heading = "Input")]
    pub(crate) count: Option<u64>,

    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub(crate) duration: Option<Duration>,

    /// Join all inputs into one, in the order of packet times: the two ports of a TAP (`-i rx -i tx`)
    /// or their files (`-r rx.pcap tx.pcap`). Each interface delivers a packet within WINDOW, from 1ms
    /// to 1s [default: 30ms]; later ones are counted. Files are merged over their whole length.
    #[arg(
        long, value_name = "WINDOW", num_args = 0..=1, require_equals = true,
        value_parser = join_window, help_heading = "Input"
    )]
    pub(crate) join: Option<Option<Duration>>,

    /// Put the interfaces into promiscuous mode.
    #[arg(long, help_heading = "Input")]
    pub(crate) promiscuous: bool,

    /// Size of each kernel receive ring, in MiB [default: 64].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = "Input")]
    pub(crate) ring_memory: Option<u32>,
}

/// Parses the window of `--join`. The packet clock takes a lag of more than a second for a step back.
fn join_window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&window) {
        return Err("from 1ms to 1s".into());
    }
    Ok(window)
}

/// The flags for DPDK devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct DpdkArguments {
    /// Arguments for DPDK's environment abstraction layer (EAL), as in testpmd: `-- --no-huge -m 512`.
    #[arg(value_name = "EAL", last = true, allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,

    /// Maximum frames per receive call [default: 256]; larger batches are processed 256 at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "DPDK")]
    pub(crate) batch: Option<u16>,

    /// Descriptors in each receive queue [default: 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32768), help_heading = "DPDK")]
    pub(crate) rx_ring: Option<u16>,

    /// Buffer pools [default: per-queue].
    #[arg(long, value_name = "SCOPE", help_heading = "DPDK")]
    pub(crate) pools: Option<PoolsArgument>,

    /// Buffers in each pool [default: enough for twice its queues' descriptors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=16_777_216), help_heading = "DPDK")]
    pub(crate) pool_size: Option<u32>,
}

/// `--pools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolsArgument {
    /// One pool per queue.
    PerQueue,
    /// One pool per device.
    Shared,
}
