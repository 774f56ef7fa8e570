//! The command line: one definition for the parser, `--help`, the manual page and the completions.
//! `plan` checks how flags combine.

pub(crate) mod engine;
pub(crate) mod generate;
pub(crate) mod lab;
mod value;

pub(crate) use value::{SummaryArgument, Timeout};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::EngineArguments;
use lab::LabCommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use value::{Cores, cores, count, duration, garbage, timeout};

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

    /// Arguments for DPDK's environment abstraction layer (EAL), as in testpmd: `-- --no-huge -m 512`.
    #[arg(value_name = "EAL", last = true, allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,

    /// How to open DPDK devices.
    #[command(flatten)]
    pub(crate) dpdk: DpdkArguments,

    /// Flow key [default: 5tuple; bidirectional with `--statistics tcp`, `app` or `full`, which
    /// need both directions of a flow].
    #[arg(long, value_name = "KEY", help_heading = "Flows")]
    pub(crate) flow: Option<FlowArgument>,

    /// Include the VLAN tags in the flow key.
    #[arg(long, help_heading = "Flows")]
    pub(crate) vlan: bool,

    /// Take the flow key from an inner header: `link` looks through MPLS and PPPoE, `innermost`
    /// also through tunnels (IP in IP, GRE, ERSPAN, VXLAN, GENEVE, GTP-U, Teredo).
    #[arg(
        long, value_name = "DEPTH", num_args = 0..=1, require_equals = true,
        default_missing_value = "innermost", help_heading = "Flows"
    )]
    pub(crate) decapsulate: Option<DecapsulateArgument>,

    /// Idle timeout: a flow ends after this long without a packet; `none` disables it.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = timeout, help_heading = "Flows")]
    pub(crate) idle_timeout: Timeout,

    /// Active timeout: a flow that has lasted this long is written as a record, and its next packet
    /// starts another record; `none` disables it.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = timeout, help_heading = "Flows")]
    pub(crate) active_timeout: Timeout,

    /// A closed or reset TCP flow ends after this long without a packet, or when a new SYN reuses
    /// its ports; with `none` it ends by the other timeouts, with an end reason that says it was
    /// closed.
    #[arg(long, value_name = "TIME", default_value = "none", value_parser = timeout, help_heading = "Flows")]
    pub(crate) tcp_close: Timeout,

    /// Keep every flow until the input ends: sets all three timeouts to `none`.
    #[arg(long, conflicts_with_all = ["idle_timeout", "active_timeout", "tcp_close"], help_heading = "Flows")]
    pub(crate) whole_flows: bool,

    /// Maximum number of concurrent flows in each flow table. A full table evicts flows that have
    /// not been seen recently (CLOCK, one bucket at a time) and counts them. `--table double-hash`
    /// always has 2^16 buckets of two flows, and `--table combined` adds chains to them.
    #[arg(long, value_name = "N", default_value = "1048576", value_parser = count, help_heading = "Flows")]
    pub(crate) max_flows: u64,

    /// Statistics to compute for every flow, separated by commas: `count`, `moments` (minimum, mean,
    /// standard deviation and maximum of packet size, inter-arrival time and gap), `size`, `iat`,
    /// `gap` (the moments of one of them), `gap-mean` (no cost per packet on its own),
    /// `size-percentile=P/P…`, `iat-percentile=…`, `gap-percentile=…`; `tcp` (volume, timing and TCP
    /// of both directions), `app` (volume, timing and applications), `full` (`tcp` and `app`). A gap
    /// is the number of other packets between two packets of a flow.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "count",
        help_heading = "Flows"
    )]
    pub(crate) statistics: String,

    /// File of application classes to add to the built-in ones, with `app` or `full`; one line each:
    /// CLASS name|tcp|udp|bytes VALUE… (docs/names.md).
    #[arg(long, value_name = "FILE", help_heading = "Flows")]
    pub(crate) applications: Option<PathBuf>,

    /// Percentile estimator: `log-linear` (a histogram) or `psquare` (five markers).
    #[arg(
        long,
        value_name = "NAME",
        default_value = "log-linear",
        help_heading = "Flows"
    )]
    pub(crate) estimator: String,

    /// Threading model.
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "run-to-completion",
        help_heading = "Engine"
    )]
    pub(crate) model: ModelArgument,

    /// Receiving threads per interface, one per receive queue. With files: threads that divide the
    /// flows among themselves (run to completion only).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) queues: u16,

    /// Monitoring threads (tasks, if cooperative) per receiver, with `--model pipeline` or
    /// `cooperative`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) monitors: Option<u16>,

    /// Cores to pin the threads to, in order: `2,4-6`.
    #[arg(long, value_name = "LIST", value_parser = cores, help_heading = "Engine")]
    pub(crate) cores: Option<Cores>,

    /// Capacity in packets of the ring in front of each monitor, with `--model pipeline` or
    /// `cooperative` [default: 4096].
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Engine")]
    pub(crate) ring: Option<u64>,

    /// Flow table: `bucket` (exact), or a table from the FloWatcher paper, which identifies a flow
    /// by its hash only: `double-hash`, `linked-list`, `combined`.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bucket",
        help_heading = "Engine"
    )]
    pub(crate) table: String,

    /// Hash function for flow keys: keyed, toeplitz, symmetric-toeplitz, add, xor, crc32c, murmur3 or
    /// spooky [default: keyed; with --flow rss toeplitz, for packets without a device hash].
    /// Toeplitz hashes computed by the device are reused.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub(crate) hash: Option<String>,

    #[command(flatten)]
    pub(crate) engine: EngineArguments,

    /// Secret of the keyed hash, for runs that must be reproducible [default: random].
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub(crate) seed: Option<u64>,

    /// Expiry sweep: every PERIOD/PARTS, scan FRACTION/PARTS of the table for flows that have ended
    /// [default: the idle timeout or 10s, whichever is less, in 10000 parts].
    #[arg(long, value_name = "PERIOD,PARTS,FRACTION", value_parser = garbage, help_heading = "Engine")]
    pub(crate) garbage: Option<flow::GarbageSchedule>,

    /// Write flow records: `json`, `csv` or `parquet`, with a target (`json:flows.ndjson`; no target
    /// or `-` is standard output; `parquet:DIR`; a name that ends in `.gz` or `.zst` is compressed;
    /// `json` and `csv` also to a receiver: `tcp://HOST:PORT`, `udp://HOST:PORT`, `unix:PATH`);
    /// `tstat:DIR` or `tstat:DIR,gz`: Tstat log files; `rrd:DIR` or `rrd:DIR,10s`: round-robin
    /// databases with a step of one minute or ten seconds. May be repeated.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT[:TARGET]",
        help_heading = "Reports"
    )]
    pub(crate) outputs: Vec<String>,

    /// Start a new file when the current one reaches this age or size: `5m`, `100MB`, `1h,1GB`. File
    /// names contain the time, and end in `.partial` until the file is complete.
    #[arg(long, value_name = "WHEN", help_heading = "Reports")]
    pub(crate) rotate: Option<export::Rotation>,

    /// Anonymise addresses in every output and on the screen: `crypto-pan=KEYFILE` preserves prefixes
    /// (the key is 32 bytes or 64 hexadecimal digits), `truncate=24/48` keeps the first bits of
    /// IPv4/IPv6 addresses.
    #[arg(
        long,
        visible_alias = "anonymize",
        value_name = "METHOD",
        help_heading = "Reports"
    )]
    pub(crate) anonymise: Option<String>,

    /// Sort the records by start time and key; holds all of them in memory until the input ends.
    #[arg(long, help_heading = "Reports")]
    pub(crate) sort: bool,

    /// Add the Community ID (version 1) to every record.
    #[arg(long, help_heading = "Reports")]
    pub(crate) community_id: bool,

    /// Format of the final summary. It contains the books: the packet accounting, in which every
    /// received packet is in a flow, without a flow, or dropped, and the sums match.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        help_heading = "Reports"
    )]
    pub(crate) summary: SummaryArgument,

    /// Number of flows in the list of the largest flows.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100_000), help_heading = "Reports")]
    pub(crate) top: u32,

    /// Time between progress lines on standard error, printed in place of the live screen.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Reports")]
    pub(crate) interval: Option<Duration>,

    /// Print protocol numbers, not names.
    #[arg(short = 'n', long, help_heading = "Reports")]
    pub(crate) numeric: bool,

    /// Print more detail: malformed packets by kind, figures per queue.
    #[arg(short = 'v', long, help_heading = "Reports")]
    pub(crate) verbose: bool,

    /// Print only errors, and what `-o` and `--summary json` write.
    #[arg(
        short = 'q',
        long,
        conflicts_with = "verbose",
        help_heading = "Reports"
    )]
    pub(crate) quiet: bool,

    /// Stop after this many packets, over all interfaces and queues.
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = count, help_heading = "Input")]
    pub(crate) count: Option<u64>,

    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub(crate) duration: Option<Duration>,

    /// Put the interfaces into promiscuous mode.
    #[arg(long, help_heading = "Input")]
    pub(crate) promiscuous: bool,

    /// Size of each kernel receive ring, in MiB [default: 64].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = "Input")]
    pub(crate) ring_memory: Option<u32>,

    /// Exit with status 1 if packets or records were lost.
    #[arg(long, help_heading = "Reports")]
    pub(crate) fail_on_loss: bool,
}

/// The flags for DPDK devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct DpdkArguments {
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

/// `--flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowArgument {
    /// Addresses, ports and protocol, each direction a flow of its own.
    #[value(name = "5tuple")]
    FiveTuple,
    /// Addresses, ports and protocol, both directions one flow.
    Bidirectional,
    /// Source address.
    Src,
    /// Destination address.
    Dst,
    /// Source and destination address.
    SrcDst,
    /// The device's RSS hash; headers are not parsed.
    Rss,
}

/// `--decapsulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecapsulateArgument {
    /// Look through MPLS and PPPoE.
    Link,
    /// Look through tunnels too.
    Innermost,
}

/// `--model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArgument {
    /// Each thread receives and monitors.
    RunToCompletion,
    /// Receiving threads pass packets to monitoring threads.
    Pipeline,
    /// A receiver and its monitors take turns on one thread.
    Cooperative,
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
