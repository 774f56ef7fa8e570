//! The flags of `watch` about flows. `plan::meter` checks how most of them combine, `plan::engine` the
//! others.

use super::value::{Timeout, count, timeout};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The flags about flows: what a flow is, when it ends, and what is computed for it.
#[derive(Clone, Debug, Args)]
pub(crate) struct FlowArguments {
    /// Flow key [default: 5tuple; bidirectional with `--statistics tcp`, `app` or `full`, which
    /// need both directions of a flow].
    #[arg(long, value_name = "KEY", help_heading = "Flows")]
    pub(crate) flow: Option<FlowKeyArgument>,

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

    /// Counting level: `flow` keeps flows; `packet` only counts packets as they are received,
    /// without reading any of their bytes.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "flow",
        help_heading = "Flows"
    )]
    pub(crate) level: LevelArgument,

    /// Also count packets and bytes by IP protocol and by frame size, and show them in the summary.
    #[arg(long, help_heading = "Flows")]
    pub(crate) mix: bool,

    /// Which packets a gap counts between two packets of a flow: those of the flow's `queue`, or
    /// those of the whole `link` (its queues then share a counter).
    #[arg(
        long,
        value_name = "SCOPE",
        default_value = "queue",
        help_heading = "Flows"
    )]
    pub(crate) gap: GapArgument,
}

/// `--flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowKeyArgument {
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

/// `--gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapArgument {
    /// Packets of the flow's queue.
    Queue,
    /// Packets of all queues of the link.
    Link,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArgument {
    /// Keep flows.
    Flow,
    /// Count packets only.
    Packet,
}
