//! The flags of `gen`. `generate::plan` checks how they combine.

use super::value::{Cores, SummaryArgument, cores, count, duration};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Flags that describe generated packets; refused where packets come from a capture or the network.
const TRAFFIC_FLAGS: [&str; 15] = [
    "order",
    "flows",
    "size",
    "ip",
    "protocol",
    "src",
    "dst",
    "sport",
    "dport",
    "source_mac",
    "destination_mac",
    "random",
    "matching",
    "sequence",
    "timestamps",
];

/// The flags of `gen`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("order").args(["uniform", "round_robin", "zipf", "rate_inverse"]))]
pub(crate) struct GenArguments {
    /// Interface to send on: `eth0`, a DPDK device (`dpdk:0000:3b:00.0`,
    /// `dpdk:net_memif0,role=client`), or `null:`, which discards the frames. With --receive:
    /// interface to receive from.
    #[arg(short = 'i', long = "interface", value_name = "SINK",
        value_parser = NonEmptyStringValueParser::new())]
    pub(crate) interface: Option<String>,

    /// Arguments for DPDK's environment abstraction layer (EAL), as in testpmd: `-- --no-huge -m 512`.
    #[arg(value_name = "EAL", last = true, allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,

    /// Write a capture file (pcap with nanosecond timestamps); `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    /// Number of flows: a number, or a power of two such as `2^16`.
    #[arg(long, value_name = "N", value_parser = flows, default_value = "2^16", help_heading = "Traffic")]
    pub(crate) flows: u32,

    /// Draw each packet's flow uniformly at random (the default).
    #[arg(long, help_heading = "Traffic")]
    pub(crate) uniform: bool,

    /// Send packets of all flows in turn: every gap is exactly N-1 packets.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) round_robin: bool,

    /// Draw each packet's flow at random, the k-th flow with weight k^-ALPHA.
    #[arg(long, value_name = "ALPHA", help_heading = "Traffic")]
    pub(crate) zipf: Option<f64>,

    /// Give the k-th flow exactly 1/k of the packet rate of the first.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) rate_inverse: bool,

    /// Frame sizes, including the 4-byte frame check sequence (64 writes 60 bytes): `64`, `64,1518`,
    /// with weights `64=7,594=4,1518=1`, or `imix`, which has these weights (with the smallest size
    /// that fits the headers instead of 64: 66 for UDP over IPv6, 78 for TCP).
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "64",
        help_heading = "Traffic"
    )]
    pub(crate) size: String,

    /// IP versions of the flows: `4`, `6` or `4,6` (drawn at random per flow).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(4..=6), help_heading = "Traffic")]
    pub(crate) ip: Vec<u8>,

    /// Protocols of the flows: `udp`, `tcp` or `udp,tcp` (drawn at random per flow).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "udp",
        help_heading = "Traffic"
    )]
    pub(crate) protocol: Vec<ProtocolArgument>,

    /// Source addresses of the flows: `10.0.0.0/8`, `10.0.0.1-10.0.0.9`; once per IP version
    /// [default: 198.18.0.0/16, 2001:2:0:1::/64].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) src: Vec<String>,

    /// Destination addresses [default: 198.19.0.0/16, 2001:2:0:2::/64].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) dst: Vec<String>,

    /// Source ports: one, or a range such as `1024-65535`.
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "1024-65535",
        help_heading = "Traffic"
    )]
    pub(crate) sport: String,

    /// Destination ports [default: 1024-65535; in a closed loop the server's port, 7].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) dport: Option<String>,

    /// Source MAC address.
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:00:00:00:00:01", help_heading = "Traffic")]
    pub(crate) source_mac: Mac,

    /// Destination MAC address.
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:00:00:00:00:02", help_heading = "Traffic")]
    pub(crate) destination_mac: Mac,

    /// Fields to randomise in every packet, within their ranges: src, dst, sport, dport, ttl, dscp,
    /// id, payload.
    #[arg(long, value_name = "FIELDS", help_heading = "Traffic")]
    pub(crate) random: Option<String>,

    /// Make this share of the packets (drawn at random) match a filter, and the others not match:
    /// `'udp dst port 320'=30%`. The filter may use ip, ip6, tcp, udp, host, net, port, portrange.
    #[arg(long = "match", value_name = "FILTER=SHARE", help_heading = "Traffic")]
    pub(crate) matching: Option<String>,

    /// Write a 64-bit sequence number into every payload.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) sequence: bool,

    /// Write a sequence number and the send time into every payload.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) timestamps: bool,

    /// Seed of the random number generator; the same seed gives the same packets.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Traffic")]
    pub(crate) seed: u64,

    /// Replay a capture file instead of generating packets. May be repeated: the files are sent in
    /// order.
    #[arg(long, value_name = "FILE", conflicts_with_all = TRAFFIC_FLAGS, help_heading = "Replay")]
    pub(crate) replay: Vec<PathBuf>,

    /// Replay at a multiple of the captured speed, or `max`.
    #[arg(
        long,
        value_name = "FACTOR",
        requires = "replay",
        conflicts_with = "rate",
        help_heading = "Replay"
    )]
    pub(crate) speed: Option<String>,

    /// Number of times to replay the files.
    #[arg(long = "loop", value_name = "N", value_parser = count, requires = "replay", help_heading = "Replay")]
    pub(crate) loops: Option<u64>,

    /// Send K copies of each packet; copy k (from 0) adds k to all addresses.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65536), requires = "replay", help_heading = "Replay")]
    pub(crate) copies: Option<u32>,

    /// Address offset from one copy to the next, to keep the copies' addresses apart [default: 1].
    #[arg(long, value_name = "N", value_parser = count, requires = "copies", help_heading = "Replay")]
    pub(crate) copy_shift: Option<u64>,

    /// Run N TCP clients against a `gen --echo` at the other end; each client repeatedly connects
    /// from a random port, sends 512 bytes, receives them back and closes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["replay", "receive", "echo", "write", "order", "flows", "size", "protocol"], help_heading = "Closed loop")]
    pub(crate) clients: Option<u32>,

    /// Serve TCP clients (--clients): accept, echo what they send, close. Runs until stopped, or with
    /// -c until that many connections have ended.
    #[arg(long, conflicts_with_all = ["replay", "receive", "write", "order", "flows", "size", "protocol", "ip", "src", "sport"], help_heading = "Closed loop")]
    pub(crate) echo: bool,

    /// Receive numbered packets (--sequence, --timestamps) from an interface (-i) or a capture (-r),
    /// and report loss, duplicates, reordering and latency.
    #[arg(long, conflicts_with_all = ["replay", "write", "truth", "rate"], conflicts_with_all = TRAFFIC_FLAGS, help_heading = "Receiving")]
    pub(crate) receive: bool,

    /// Capture file to read numbered packets from.
    #[arg(
        short = 'r',
        long = "read",
        value_name = "FILE",
        requires = "receive",
        conflicts_with_all = ["write", "replay", "clients", "echo"],
        help_heading = "Receiving"
    )]
    pub(crate) read: Vec<PathBuf>,

    /// Number of packets sent: finds packets lost at the end, and ends the run when the last one has
    /// arrived.
    // clap waives `requires` when the required flag conflicts with one that is given, so the
    // conflicts of `receive` are repeated here.
    #[arg(long, value_name = "N", value_parser = count, requires = "receive", conflicts_with_all = ["write", "replay", "clients", "echo"], help_heading = "Receiving")]
    pub(crate) expect: Option<u64>,

    /// Send rate: `14.88Mpps`, `500Kpps`, `10Gbps` (layer 1: including preamble, frame check sequence
    /// and inter-frame gap), `10Gbps@2` (layer 2: including the frame check sequence), or `50%` of
    /// --link-speed [default: as fast as the link accepts frames; -w: 1Mpps].
    #[arg(long, value_name = "RATE", help_heading = "Rate")]
    pub(crate) rate: Option<String>,

    /// Link speed that a percentage in --rate refers to.
    #[arg(long, value_name = "SPEED", requires = "rate", help_heading = "Rate")]
    pub(crate) link_speed: Option<String>,

    /// Stop after exactly this many packets (connections, in a closed loop).
    #[arg(short = 'c', long, value_name = "N", value_parser = count, help_heading = "Rate")]
    pub(crate) count: Option<u64>,

    /// Stop after this time; with a rate, send exactly the packets due in this time.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Rate")]
    pub(crate) duration: Option<Duration>,

    /// What to do with late packets: `catch-up` sends them as fast as the link accepts them, which
    /// keeps the mean rate; `skip` (or `skip=TIME`) drops those more than 1ms (or TIME) late, and
    /// counts them.
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "catch-up",
        help_heading = "Rate"
    )]
    pub(crate) when_late: String,

    /// What to do with frames that the link does not accept.
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "retry",
        help_heading = "Rate"
    )]
    pub(crate) when_full: WhenFullArgument,

    /// Maximum frames per send call.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Rate")]
    pub(crate) burst: u16,

    /// Core to pin the sending thread to.
    #[arg(long, value_name = "CORE", value_parser = cores, help_heading = "Rate")]
    pub(crate) cores: Option<Cores>,

    /// Write the ground truth: packets and bytes sent per flow (CSV, columns as in flow records); `-`
    /// is standard output.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) truth: Option<PathBuf>,

    /// Format of the final summary.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        help_heading = "Reports"
    )]
    pub(crate) summary: SummaryArgument,

    /// Time between progress lines on standard error.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Reports")]
    pub(crate) interval: Option<Duration>,

    /// Print only errors, and what --summary json writes.
    #[arg(short = 'q', long, help_heading = "Reports")]
    pub(crate) quiet: bool,

    /// Exit with status 1 if packets were not sent, or (--receive) were lost.
    #[arg(long, help_heading = "Reports")]
    pub(crate) fail_on_loss: bool,
}

/// `--protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArgument {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// `--when-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenFullArgument {
    /// Try again until it does.
    Retry,
    /// Drop and count them.
    Drop,
}

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

fn flows(text: &str) -> Result<u32, String> {
    let number = count(text)?.try_into().ok();
    number
        .filter(|&number| number <= generator::FLOWS_MAX)
        .ok_or_else(|| format!("must be at most {} flows", generator::FLOWS_MAX))
}

fn mac(text: &str) -> Result<Mac, String> {
    let invalid = || format!("'{text}' is not a MAC address; write 02:00:00:00:00:01");
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts
            .next()
            .filter(|part| part.len() == 2)
            .ok_or_else(invalid)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| invalid())?;
    }
    match parts.next() {
        None => Ok(Mac(bytes)),
        Some(_) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_flow_counts_and_mac_addresses() {
        assert_eq!(flows("2^16"), Ok(65536));
        assert_eq!(flows("1_000"), Ok(1000));
        for invalid in ["0", "2^40", "2^", "2^27", "x", "-1"] {
            assert!(flows(invalid).is_err(), "{invalid}");
        }
        assert_eq!(mac("02:0a:ff:00:01:10"), Ok(Mac([2, 10, 255, 0, 1, 16])));
        for invalid in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "g2:00:00:00:00:00",
        ] {
            assert!(mac(invalid).is_err(), "{invalid}");
        }
    }
}
