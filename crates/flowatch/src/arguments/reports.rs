//! The flags of `watch` about outputs, and about what is printed.

use super::value::SummaryArgument;
use clap::Args;
use std::time::Duration;

/// The flags about records. `plan::outputs` checks them.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArguments {
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
    pub(crate) targets: Vec<String>,

    /// Start a new file when the current one reaches this age or size: `5m`, `100MB`, `1h,1GB`. File
    /// names contain the time, and end in `.partial` until the file is complete.
    #[arg(long, value_name = "WHEN", help_heading = "Reports")]
    pub(crate) rotate: Option<export::Rotation>,

    /// Replace files that exist. By default, `-i` continues an existing JSON or CSV file, and `-r`
    /// refuses an existing file.
    #[arg(long, conflicts_with = "append", help_heading = "Reports")]
    pub(crate) overwrite: bool,

    /// Continue JSON and CSV files that exist, if they have the same columns.
    #[arg(long, help_heading = "Reports")]
    pub(crate) append: bool,

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

    /// Sort the records by start time and key; holds all of them in memory until the input ends. Records
    /// that do not fit into half of the machine's memory are sorted in parts, with a warning. Not with -i.
    #[arg(long, help_heading = "Reports")]
    pub(crate) sort: bool,

    /// Add the Community ID (version 1) to every record.
    #[arg(long, help_heading = "Reports")]
    pub(crate) community_id: bool,
}

/// The flags about what is printed, and the exit status. They need no check: a plan holds them as they
/// are.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArguments {
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

    /// Exit with status 1 if packets or records were lost.
    #[arg(long, help_heading = "Reports")]
    pub(crate) fail_on_loss: bool,
}
