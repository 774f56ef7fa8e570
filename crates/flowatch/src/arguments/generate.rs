//! The flags of `gen`. Nothing is decided here; see `generate::plan`.

use super::{Cores, SummaryArgument, cores, count};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Flags of packets that are made: where they come from somewhere else these would say nothing.
const MADE: [&str; 15] = [
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
    /// Where frames go: an interface (`eth0`), a device of DPDK (`dpdk:0000:3b:00.0`,
    /// `dpdk:net_memif0,role=client`), or `null:`, which forgets them. With --receive: where they come
    /// from.
    #[arg(short = 'i', long = "interface", value_name = "SINK",
        value_parser = NonEmptyStringValueParser::new())]
    pub(crate) interface: Option<String>,

    /// Arguments of DPDK's environment abstraction layer, as in testpmd: `-- --no-huge -m 512`.
    #[arg(value_name = "EAL", last = true, allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,

    /// Write a capture (pcap with nanoseconds); `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    /// Flows: a number, or a power of two as `2^16`.
    #[arg(long, value_name = "N", value_parser = flows, default_value = "2^16", help_heading = "Traffic")]
    pub(crate) flows: u32,

    /// Every packet draws its flow, all alike (the default).
    #[arg(long, help_heading = "Traffic")]
    pub(crate) uniform: bool,

    /// One flow after the other: the gap of each is N-1, exactly.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) round_robin: bool,

    /// Every packet draws its flow, the k-th with weight k^-ALPHA.
    #[arg(long, value_name = "ALPHA", help_heading = "Traffic")]
    pub(crate) zipf: Option<f64>,

    /// The k-th flow is k times slower than the first, to the packet.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) rate_inverse: bool,

    /// Frame size with its check sequence (64: 60 bytes are written and 4 of check sequence count):
    /// `64`, `imix`, `64,1518`, or with weights `64=7,594=4,1518=1`, which is what `imix` is (with the
    /// least size that has room for the headers in place of 64: 66 for UDP in IPv6, 78 for TCP).
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "64",
        help_heading = "Traffic"
    )]
    pub(crate) size: String,

    /// IP versions of the flows: `4`, `6` or `4,6` (each flow draws one).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(4..=6), help_heading = "Traffic")]
    pub(crate) ip: Vec<u8>,

    /// Protocols of the flows: `udp`, `tcp` or `udp,tcp` (each flow draws one).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "udp",
        help_heading = "Traffic"
    )]
    pub(crate) protocol: Vec<ProtocolArgument>,

    /// Source addresses of the flows: `10.0.0.0/8`, `10.0.0.1-10.0.0.9`; once for each IP version
    /// [default: 198.18.0.0/16, 2001:2:0:1::/64].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) src: Vec<String>,

    /// Destination addresses [default: 198.19.0.0/16, 2001:2:0:2::/64].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) dst: Vec<String>,

    /// Source ports: `1024-65535`, or one.
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "1024-65535",
        help_heading = "Traffic"
    )]
    pub(crate) sport: String,

    /// Destination ports [default: 1024-65535; of a closed loop, the server's port: 7].
    #[arg(long, value_name = "RANGE", help_heading = "Traffic")]
    pub(crate) dport: Option<String>,

    /// Source Ethernet address.
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:00:00:00:00:01", help_heading = "Traffic")]
    pub(crate) source_mac: Mac,

    /// Destination Ethernet address.
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:00:00:00:00:02", help_heading = "Traffic")]
    pub(crate) destination_mac: Mac,

    /// Fields drawn anew for every packet, within their ranges: src, dst, sport, dport, ttl, dscp, id,
    /// payload.
    #[arg(long, value_name = "FIELDS", help_heading = "Traffic")]
    pub(crate) random: Option<String>,

    /// A filter and the share of packets that match it, drawn for every packet; the others do not
    /// match: `'udp dst port 320'=30%`. It may name ip, ip6, tcp, udp, host, net, port, portrange.
    #[arg(long = "match", value_name = "FILTER=SHARE", help_heading = "Traffic")]
    pub(crate) matching: Option<String>,

    /// Number every packet in its payload (64 bits).
    #[arg(long, help_heading = "Traffic")]
    pub(crate) sequence: bool,

    /// Number every packet and put the time into its payload.
    #[arg(long, help_heading = "Traffic")]
    pub(crate) timestamps: bool,

    /// Everything that is drawn follows from it.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Traffic")]
    pub(crate) seed: u64,

    /// Send the packets of a capture instead of making some. May be repeated: one after the other.
    #[arg(long, value_name = "FILE", conflicts_with_all = MADE, help_heading = "Replay")]
    pub(crate) replay: Vec<PathBuf>,

    /// Replay so many times as fast as captured, or `max`.
    #[arg(
        long,
        value_name = "FACTOR",
        requires = "replay",
        conflicts_with = "rate",
        help_heading = "Replay"
    )]
    pub(crate) speed: Option<String>,

    /// Replay so many times over.
    #[arg(long = "loop", value_name = "N", value_parser = count, requires = "replay", help_heading = "Replay")]
    pub(crate) loops: Option<u64>,

    /// Send so many copies of each packet, all addresses of copy k (from 0) higher by k.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65536), requires = "replay", help_heading = "Replay")]
    pub(crate) copies: Option<u32>,

    /// By how much the addresses of one copy are higher than those of the one before, for copies
    /// whose addresses must not meet those of others.
    #[arg(long, value_name = "N", value_parser = count, requires = "copies", help_heading = "Replay")]
    pub(crate) copy_shift: Option<u64>,

    /// Run so many TCP clients instead, each of which connects from a random port, sends 512 bytes,
    /// gets them back and closes, again and again, to a --echo at the other end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["replay", "receive", "echo", "write", "order", "flows", "size", "protocol"], help_heading = "Closed loop")]
    pub(crate) clients: Option<u32>,

    /// Answer TCP clients (--clients): accept, send back what they send, close. Until it is stopped,
    /// or, with -c, until so many connections are over.
    #[arg(long, conflicts_with_all = ["replay", "receive", "write", "order", "flows", "size", "protocol", "ip", "src", "sport"], help_heading = "Closed loop")]
    pub(crate) echo: bool,

    /// Count the numbered packets that arrive (--sequence, --timestamps): lost, duplicate, reordered,
    /// and how long they took. From -i, or from a capture (-r).
    #[arg(long, conflicts_with_all = ["replay", "write", "truth", "rate"], conflicts_with_all = MADE, help_heading = "Receiving")]
    pub(crate) receive: bool,

    /// Capture to count the numbered packets of.
    #[arg(
        short = 'r',
        long = "read",
        value_name = "FILE",
        requires = "receive",
        conflicts_with_all = ["write", "replay", "clients", "echo"],
        help_heading = "Receiving"
    )]
    pub(crate) read: Vec<PathBuf>,

    /// How many were sent, so that those lost at the end are known too; ends when the last has come.
    // What `receive` is refused with would else excuse its absence.
    #[arg(long, value_name = "N", value_parser = count, requires = "receive", conflicts_with_all = ["write", "replay", "clients", "echo"], help_heading = "Receiving")]
    pub(crate) expect: Option<u64>,

    /// How fast: `14.88Mpps`, `500Kpps`, `10Gbps` (at layer 1: preamble, check sequence and gap
    /// count), `10Gbps@2` (frames and their check sequence), or `50%` of --link-speed
    /// [default: as fast as the link takes frames; -w: 1Mpps].
    #[arg(long, value_name = "RATE", help_heading = "Pace")]
    pub(crate) rate: Option<String>,

    /// Speed of the link that --rate is a part of.
    #[arg(long, value_name = "SPEED", requires = "rate", help_heading = "Pace")]
    pub(crate) link_speed: Option<String>,

    /// Stop after exactly this many packets (in a closed loop: connections).
    #[arg(short = 'c', long, value_name = "N", value_parser = count, help_heading = "Pace")]
    pub(crate) count: Option<u64>,

    /// Stop after this time; with a rate, exactly the packets of this time are sent.
    #[arg(long, value_name = "TIME", value_parser = super::duration, help_heading = "Pace")]
    pub(crate) duration: Option<Duration>,

    /// What happens to packets whose time has passed: `catch-up` sends them as fast as the link takes
    /// them, so that the mean rate holds; `skip` (or `skip=TIME`) never sends those that are later
    /// than 1ms (or TIME), and counts them.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "catch-up",
        help_heading = "Pace"
    )]
    pub(crate) when_late: String,

    /// What happens to frames that the link does not take at once.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "retry",
        help_heading = "Pace"
    )]
    pub(crate) when_full: WhenFullArgument,

    /// The most frames handed to the link at a time.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Pace")]
    pub(crate) burst: u16,

    /// Core to run on.
    #[arg(long, value_name = "CORE", value_parser = cores, help_heading = "Pace")]
    pub(crate) cores: Option<Cores>,

    /// Write what every flow sent (CSV, columns as in flow records); `-` is standard output.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) truth: Option<PathBuf>,

    /// The summary at the end.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        help_heading = "Reports"
    )]
    pub(crate) summary: SummaryArgument,

    /// Time between two lines of progress on standard error.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Reports")]
    pub(crate) interval: Option<Duration>,

    /// Say nothing but errors (and what --summary json asks for).
    #[arg(short = 'q', long, help_heading = "Reports")]
    pub(crate) quiet: bool,

    /// Exit with 1 when packets were not sent, or (--receive) were lost.
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
    /// Offer them again until it does.
    Retry,
    /// Give them up, and count them.
    Drop,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

fn flows(text: &str) -> Result<u32, String> {
    let number = count(text)?.try_into().ok();
    number
        .filter(|&number| number <= generator::FLOWS_MAX)
        .ok_or_else(|| format!("at most {} flows", generator::FLOWS_MAX))
}

fn mac(text: &str) -> Result<Mac, String> {
    let wrong = || format!("'{text}' is no Ethernet address; write 02:00:00:00:00:01");
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts
            .next()
            .filter(|part| part.len() == 2)
            .ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    match parts.next() {
        None => Ok(Mac(bytes)),
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_flows_and_ethernet_addresses() {
        assert_eq!(flows("2^16"), Ok(65536));
        assert_eq!(flows("1_000"), Ok(1000));
        for wrong in ["0", "2^40", "2^", "2^27", "x", "-1"] {
            assert!(flows(wrong).is_err(), "{wrong}");
        }
        assert_eq!(mac("02:0a:ff:00:01:10"), Ok(Mac([2, 10, 255, 0, 1, 16])));
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "g2:00:00:00:00:00",
        ] {
            assert!(mac(wrong).is_err(), "{wrong}");
        }
    }
}
