//! The command line as it is typed: one definition for the parser, `--help`, the manual page and
//! the completions. Nothing is decided here; see `plan`.

pub(crate) mod engine;
pub(crate) mod lab;

pub(crate) mod generate;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::EngineArguments;
use lab::LabCommand;
use std::path::PathBuf;
use std::time::Duration;

/// Flow-level network monitoring: every packet accounted for.
#[derive(Debug, Parser)]
#[command(name = "flowatch", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch an interface or a capture: account for every packet, keep statistics of every flow.
    Watch(Box<WatchArguments>),
    /// Send traffic: flows made to measure, or captures replayed, at a rate, counted to the packet.
    Gen(Box<generate::GenArguments>),
    /// Carry out the papers' experiments, and report on them.
    Lab {
        /// What to do.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Say what this machine can do, what is missing, and how to get it.
    Doctor,
    /// Print the completions for a shell.
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
    /// Interface to watch: `eth0`, or `eth0@2` for its queue 2 alone; `dpdk:0000:3b:00.0` or
    /// `dpdk:net_memif0,role=client` for a device of DPDK. May be repeated.
    #[arg(short = 'i', long = "interface", value_name = "SOURCE",
        value_parser = NonEmptyStringValueParser::new())]
    pub(crate) interfaces: Vec<String>,

    /// Capture to read (pcap or pcapng, plain, gzip or zstd); `-` is standard input. May be
    /// repeated: the files are read in turn.
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Count only packets that match this pcap-filter(7) expression.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,

    /// Arguments of DPDK's environment abstraction layer, as in testpmd: `-- --no-huge -m 512`.
    #[arg(value_name = "EAL", last = true, allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,

    /// How devices of DPDK are opened.
    #[command(flatten)]
    pub(crate) dpdk: DpdkArguments,

    /// Which packets form a flow [default: 5tuple; bidirectional with `--statistics tcp`, `app` or
    /// `full`, which need both sides of a flow].
    #[arg(long, value_name = "KEY", help_heading = "Flows")]
    pub(crate) flow: Option<FlowArgument>,

    /// Make the VLAN tags part of the flow key.
    #[arg(long, help_heading = "Flows")]
    pub(crate) vlan: bool,

    /// Look into packets that carry packets: `link` through MPLS and PPPoE, `innermost` through
    /// tunnels too (IP in IP, GRE and ERSPAN, VXLAN, GENEVE, GTP-U, Teredo).
    #[arg(
        long, value_name = "DEPTH", num_args = 0..=1, require_equals = true,
        default_missing_value = "innermost", help_heading = "Flows"
    )]
    pub(crate) decapsulate: Option<DecapsulateArgument>,

    /// A flow ends when no packet of it came for longer than this, or `none`.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = timeout, help_heading = "Flows")]
    pub(crate) idle_timeout: Timeout,

    /// A flow that has lasted this long ends, and its next packet begins another record; or `none`.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = timeout, help_heading = "Flows")]
    pub(crate) active_timeout: Timeout,

    /// A TCP flow that was closed or reset ends after this much silence, or when a SYN opens its
    /// ports anew; `none`: it lasts as any other flow, and its end reason tells that it was closed.
    #[arg(long, value_name = "TIME", default_value = "none", value_parser = timeout, help_heading = "Flows")]
    pub(crate) tcp_close: Timeout,

    /// No flow ends before the input does: all three time-outs `none`.
    #[arg(long, conflicts_with_all = ["idle_timeout", "active_timeout", "tcp_close"], help_heading = "Flows")]
    pub(crate) whole_flows: bool,

    /// The most flows at a time, for each table; beyond it, flows make room that were not seen for
    /// as long as all of the table takes to be looked at by turns, a bucket's at a time, and are
    /// counted as evicted. The paper's double hash has 2^16 buckets of two flows whatever is asked
    /// for, and combined has chains besides.
    #[arg(long, value_name = "N", default_value = "1048576", value_parser = count, help_heading = "Flows")]
    pub(crate) max_flows: u64,

    /// What is computed of every flow: `count`, `moments` (minimum, mean, standard deviation and
    /// maximum of packet size, inter-arrival time and gap), `size`, `iat`, `gap` (the moments of
    /// one), `gap-mean` (alone it costs nothing a packet), `size-percentile=P/P…`,
    /// `iat-percentile=…`, `gap-percentile=…`; `tcp` (volume, timing
    /// and TCP of both sides), `app` (volume, timing and applications), `full` (all of these); a
    /// comma between two.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "count",
        help_heading = "Flows"
    )]
    pub(crate) statistics: String,

    /// Classes of application to add to those that are built in, with `app` or `full`: lines of
    /// CLASS name|tcp|udp|bytes VALUE… (docs/names.md).
    #[arg(long, value_name = "FILE", help_heading = "Flows")]
    pub(crate) applications: Option<PathBuf>,

    /// How percentiles are estimated: `log-linear` (a histogram) or `psquare` (five markers).
    #[arg(
        long,
        value_name = "NAME",
        default_value = "log-linear",
        help_heading = "Flows"
    )]
    pub(crate) estimator: String,

    /// Which threads do what.
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "run-to-completion",
        help_heading = "Engine"
    )]
    pub(crate) model: ModelArgument,

    /// Receiving threads for each interface, each with a queue of its own (for files: threads that
    /// divide the flows among them; run to completion only).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) queues: u16,

    /// Pipeline and cooperative: monitors behind each receiver.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) monitors: Option<u16>,

    /// Cores for the threads, in their order: `2,4-6`.
    #[arg(long, value_name = "LIST", value_parser = cores, help_heading = "Engine")]
    pub(crate) cores: Option<Cores>,

    /// Pipeline and cooperative: packets that the ring before a monitor holds.
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Engine")]
    pub(crate) ring: Option<u64>,

    /// Flow table: `bucket` (exact), or one of the FloWatcher paper, keyed by hash alone:
    /// `double-hash`, `linked-list`, `combined`.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bucket",
        help_heading = "Engine"
    )]
    pub(crate) table: String,

    /// Hash of the flow keys: keyed, toeplitz, symmetric-toeplitz, add, xor, crc32c, murmur3 or
    /// spooky [default: keyed; with --flow rss toeplitz, for packets that the device has not
    /// hashed]. Toeplitz hashes that the device has made already are not made again.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub(crate) hash: Option<String>,

    #[command(flatten)]
    pub(crate) engine: EngineArguments,

    /// Secret of the keyed hash, for runs that must repeat to the slot; drawn anew otherwise.
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub(crate) seed: Option<u64>,

    /// Garbage collection: every PERIOD/PARTS, a share FRACTION/PARTS of the table is looked at
    /// for flows that have ended [default: the idle time-out or 10s, what is less, in 10000 parts].
    #[arg(long, value_name = "PERIOD,PARTS,FRACTION", value_parser = garbage, help_heading = "Engine")]
    pub(crate) garbage: Option<flow::GarbageSchedule>,

    /// Write every flow: `json`, `csv` or `parquet`, with `:FILE` (`json:flows.ndjson`; `-` or
    /// nothing is standard output; `parquet:DIR`; a name that ends in `.gz` or `.zst` is compressed);
    /// `tstat:DIR` or `tstat:DIR,gz`, Tstat's logs; `rrd:DIR` or `rrd:DIR,10s`, round-robin series
    /// with intervals of a minute or ten seconds. May be repeated.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT[:TARGET]",
        help_heading = "Reports"
    )]
    pub(crate) outputs: Vec<String>,

    /// Begin another file when one is so old or long: `5m`, `100MB`, `1h,1GB`. Its name has the time
    /// in it, and ends in `.partial` until it is complete.
    #[arg(long, value_name = "WHEN", help_heading = "Reports")]
    pub(crate) rotate: Option<export::Rotation>,

    /// Replace addresses in every output and on the screen: `crypto-pan=KEYFILE` keeps prefixes
    /// (the key is 32 bytes or 64 hexadecimal digits), `truncate=24/48` keeps the first bits of
    /// IPv4/IPv6 addresses.
    #[arg(
        long,
        visible_alias = "anonymize",
        value_name = "HOW",
        help_heading = "Reports"
    )]
    pub(crate) anonymise: Option<String>,

    /// Write the records sorted by start and key; they wait in memory until the input ends.
    #[arg(long, help_heading = "Reports")]
    pub(crate) sort: bool,

    /// Add the Community ID (version 1) to every record.
    #[arg(long, help_heading = "Reports")]
    pub(crate) community_id: bool,

    /// The summary at the end.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        help_heading = "Reports"
    )]
    pub(crate) summary: SummaryArgument,

    /// Flows in the list of the largest.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100_000), help_heading = "Reports")]
    pub(crate) top: u32,

    /// Time between two lines of progress, where there is no terminal for the live screen.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Reports")]
    pub(crate) interval: Option<Duration>,

    /// Print numbers, not names of protocols.
    #[arg(short = 'n', long, help_heading = "Reports")]
    pub(crate) numeric: bool,

    /// Say more: malformed packets by kind, each queue.
    #[arg(short = 'v', long, help_heading = "Reports")]
    pub(crate) verbose: bool,

    /// Say nothing but errors (and what `-o` and `--summary json` ask for).
    #[arg(
        short = 'q',
        long,
        conflicts_with = "verbose",
        help_heading = "Reports"
    )]
    pub(crate) quiet: bool,

    /// Stop after this many packets, of all interfaces and queues together.
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = count, help_heading = "Input")]
    pub(crate) count: Option<u64>,

    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub(crate) duration: Option<Duration>,

    /// Put the interfaces into promiscuous mode.
    #[arg(long, help_heading = "Input")]
    pub(crate) promiscuous: bool,

    /// Memory of each receive ring of the kernel, in MiB [default: 64].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=16384), help_heading = "Input")]
    pub(crate) ring_memory: Option<u32>,

    /// Exit with 1 when packets or records were lost.
    #[arg(long, help_heading = "Reports")]
    pub(crate) fail_on_loss: bool,
}

/// The flags for devices of DPDK.
#[derive(Clone, Debug, Args)]
pub(crate) struct DpdkArguments {
    /// Frames that the device is asked for at a time [default: 256]; more are worked off by 256.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "DPDK")]
    pub(crate) batch: Option<u16>,

    /// Descriptors of each receive queue: frames that wait there at most [default: 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32768), help_heading = "DPDK")]
    pub(crate) rx_ring: Option<u16>,

    /// Who shares a pool of buffers [default: per-queue].
    #[arg(long, value_name = "WHO", help_heading = "DPDK")]
    pub(crate) pools: Option<PoolsArgument>,

    /// Buffers of each pool [default: twice what its queues hold, and some].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=16_777_216), help_heading = "DPDK")]
    pub(crate) pool_size: Option<u32>,
}

/// `--pools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolsArgument {
    /// A pool for each queue.
    PerQueue,
    /// One pool for all queues of a device.
    Shared,
}

/// `--flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowArgument {
    /// Addresses, ports and protocol, one direction.
    #[value(name = "5tuple")]
    FiveTuple,
    /// The same, both directions together.
    Bidirectional,
    /// Source address.
    Src,
    /// Destination address.
    Dst,
    /// Source and destination address.
    SrcDst,
    /// The device's hash for receive-side scaling; headers are not read.
    Rss,
}

/// `--decapsulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecapsulateArgument {
    /// MPLS and PPPoE.
    Link,
    /// Tunnels too.
    Innermost,
}

/// `--model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArgument {
    /// Each thread receives and counts.
    RunToCompletion,
    /// Receivers and monitors.
    Pipeline,
    /// A receiver and its monitors by turns, on one thread.
    Cooperative,
}

/// `--summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryArgument {
    /// For a person.
    Text,
    /// One JSON object.
    Json,
    /// None.
    None,
}

/// A time-out; `None` is `none`. (A type of its own, since clap gives `Option` another meaning.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

/// A list of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

fn timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" {
        return Ok(Timeout(None));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; give a time as 15s, 500ms or 30m, or none"))?;
    if duration.as_millis() == 0 {
        return Err("at least 1ms, or none".into());
    }
    if duration > flow::Timeouts::MAX {
        return Err("at most 2 hours, or none".into());
    }
    Ok(Timeout(Some(duration)))
}

/// A time that is some.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a time above 0".into()),
        result => result.map_err(|error| error.to_string()),
    }
}

fn count(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("2^") {
        Some(power) => power.parse().ok().and_then(|power| 1u64.checked_shl(power)),
        None => text.replace('_', "").parse().ok(),
    };
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| "a number of at least 1; write 65536 or 2^16".into())
}

fn cores(text: &str) -> Result<Cores, String> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            text.trim()
                .parse::<usize>()
                .map_err(|_| format!("'{part}' is not a core; write 2,4-6"))
        };
        match part.split_once('-') {
            None => list.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last - first > 4096 {
                    return Err(format!("'{part}' is not a range of cores; write 4-6"));
                }
                list.extend(first..=last);
            }
        }
    }
    Ok(Cores(list))
}

fn garbage(text: &str) -> Result<flow::GarbageSchedule, String> {
    let wrong = || format!("'{text}' is not PERIOD,PARTS,FRACTION as in 10s,10000,1");
    let mut parts = text.split(',');
    let (Some(period), Some(count), Some(fraction), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let period = humantime::parse_duration(period).map_err(|_| wrong())?;
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let fraction: f64 = fraction.parse().map_err(|_| wrong())?;
    if period.is_zero() || count == 0 || !(fraction > 0.0 && fraction <= 1.0) {
        return Err(
            "a period above 0, at least one part, and a fraction above 0 and at most 1".into(),
        );
    }
    let schedule = flow::GarbageSchedule {
        period,
        parts: count,
        fraction,
    };
    if schedule.round() > flow::GarbageSchedule::ROUND_MAX {
        return Err("a round over the table (period / fraction) of at most a day".into());
    }
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn lists_of_cores_and_time_outs() {
        assert_eq!(cores("2,4-6").unwrap().0, [2, 4, 5, 6]);
        assert!(cores("2,x").is_err());
        assert!(cores("6-4").is_err());
        assert_eq!(timeout("none").unwrap().0, None);
        assert_eq!(
            timeout("500ms").unwrap().0,
            Some(Duration::from_millis(500))
        );
        assert!(timeout("0s").is_err());
        assert!(timeout("3h").is_err());
        assert!(garbage("50ms,100,0.5").is_ok());
        assert!(garbage("50ms,0,1").is_err());
    }
}
