//! From the flags as typed to what `gen` does: contradictions found, defaults decided, nothing
//! opened yet.

use crate::arguments::generate::{GenArguments, ProtocolArgument, WhenFullArgument};
use crate::dpdk;
use crate::files;
use engine::check_cores;
use generator::closed_loop::ClientsOptions;
use generator::{
    AddressRange, FlowFields, MacAddresses, MatchFilter, Order, Pace, Protocol, Rate, RateText,
    SendOptions, Sizes, Time, TrafficOptions, WhenFull, WhenLate,
};
use port::Input;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time of the first frame of a written capture, where nothing else says one: 2020-01-01, always, so
/// that a capture repeats with its seed.
const FIRST_TIME_NS: i64 = 1_577_836_800_000_000_000;

/// Packets of a written capture are so far apart where nobody said a rate: a microsecond.
const FILE_RATE: Rate = Rate::Packets(1_000_000_000_000);

/// How late a packet may be before `--when-late skip` passes it over.
const SKIP_AFTER: Duration = Duration::from_millis(1);

/// Where frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// An interface, or whatever else `-i` names.
    Interface(String),
    /// A capture.
    File(PathBuf),
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum Content {
    /// Frames of a population.
    Traffic(Box<TrafficOptions>),
    /// Those of captures.
    Replay(ReplayPlan),
}

/// A replay, decided.
#[derive(Debug)]
pub(crate) struct ReplayPlan {
    pub(crate) inputs: Vec<Input>,
    pub(crate) loops: u64,
    pub(crate) copies: u32,
    pub(crate) shift: u64,
}

/// A run that sends, decided.
#[derive(Debug)]
pub(crate) struct SendPlan {
    pub(crate) sink: Sink,
    pub(crate) content: Content,
    pub(crate) options: SendOptions,
    pub(crate) truth: Option<PathBuf>,
}

/// What `gen` does.
#[derive(Debug)]
pub(crate) enum Task {
    /// Sends.
    Send(Box<SendPlan>),
    /// Counts numbered packets.
    Receive(ReceivePlan),
    /// Clients, or the server.
    ClosedLoop(Box<ClosedLoopPlan>),
}

/// Where numbered packets come from.
#[derive(Debug)]
pub(crate) enum ReceivePlan {
    /// An interface.
    Interface(String),
    /// Captures.
    Files(Vec<Input>),
}

/// One end of a closed loop, decided.
#[derive(Debug)]
pub(crate) struct ClosedLoopPlan {
    pub(crate) interface: String,
    /// What the clients do; none for the server.
    pub(crate) clients: Option<ClientsOptions>,
    /// Addresses that the server answers for; none for all.
    pub(crate) server: Option<AddressRange>,
    pub(crate) port: u16,
    pub(crate) mac: MacAddresses,
}

impl Task {
    /// Decides.
    ///
    /// # Errors
    /// One line that says which flags contradict each other, or what is wrong in one.
    pub(crate) fn new(arguments: &GenArguments) -> Result<Self, String> {
        let task = if arguments.receive {
            receive_plan(arguments).map(Self::Receive)
        } else if arguments.clients.is_some() || arguments.echo {
            closed_loop_plan(arguments).map(|plan| Self::ClosedLoop(Box::new(plan)))
        } else {
            send_plan(arguments).map(|plan| Self::Send(Box::new(plan)))
        };
        let task = task.map_err(|error| error.to_string())?;
        let cores = arguments.cores.as_ref();
        check_cores(cores.map_or(&[], |cores| &cores.0)).map_err(|error| error.to_string())?;
        let on_device = arguments.interface.as_deref().is_some_and(dpdk::is_device);
        dpdk::check_eal(&arguments.eal, on_device)?;
        Ok(task)
    }
}

type Decided<T> = Result<T, Box<dyn std::error::Error>>;

fn send_plan(arguments: &GenArguments) -> Decided<SendPlan> {
    let sink = match (&arguments.interface, &arguments.write) {
        (Some(name), None) => Sink::Interface(name.clone()),
        (None, Some(path)) => Sink::File(files::named(path)),
        (Some(_), Some(_)) => {
            return Err("-i and -w together: send on an interface, or write a file".into());
        }
        (None, None) => {
            return Err(
                "nowhere to send to: give an interface (-i eth0, -i null:) or a file (-w FILE)"
                    .into(),
            );
        }
    };
    let to_file = matches!(sink, Sink::File(_));
    let truth = arguments.truth.as_deref().map(files::named);
    check_files(&sink, truth.as_deref(), &arguments.replay)?;
    let content = if arguments.replay.is_empty() {
        Content::Traffic(Box::new(traffic(arguments)?))
    } else {
        Content::Replay(ReplayPlan {
            inputs: arguments
                .replay
                .iter()
                .map(|path| Input::from_argument(path.as_os_str()))
                .collect(),
            loops: arguments.loops.unwrap_or(1),
            copies: arguments.copies.unwrap_or(1),
            shift: arguments.copy_shift.unwrap_or(1),
        })
    };
    let rate = match &arguments.rate {
        None => None,
        Some(text) => {
            let speed = match &arguments.link_speed {
                None => None,
                Some(text) => Some(link_speed(text)?),
            };
            Some(text.parse::<RateText>()?.of_link(speed)?)
        }
    };
    let pace = match (&content, rate, arguments.speed.as_deref()) {
        (_, Some(rate), _) => Pace::Rate(rate),
        (Content::Replay(_), None, speed) => match speed {
            None => Pace::Recorded(1.0),
            Some("max") if to_file => {
                return Err("--speed max says no times for -w: give a factor or a --rate".into());
            }
            Some("max") => Pace::Link,
            Some(text) => match text.parse::<f64>() {
                Ok(factor) if factor.is_finite() && (1e-6..=1e9).contains(&factor) => {
                    Pace::Recorded(factor)
                }
                _ => return Err(format!("--speed {text}: a factor as 2 or 0.5, or max").into()),
            },
        },
        (Content::Traffic(_), None, _) if to_file => Pace::Rate(FILE_RATE),
        (Content::Traffic(_), None, _) => Pace::Link,
    };
    if to_file
        && matches!(content, Content::Traffic(_))
        && arguments.count.is_none()
        && arguments.duration.is_none()
    {
        return Err("a capture has an end: give --count N or --duration TIME with -w".into());
    }
    let when_late = when_late(&arguments.when_late)?;
    if when_late != WhenLate::CatchUp && !matches!(pace, Pace::Rate(_)) {
        return Err("--when-late skip needs a --rate to be late for".into());
    }
    if when_late != WhenLate::CatchUp && matches!(content, Content::Replay(_)) {
        return Err(
            "--when-late skip would leave packets of the capture out: a replay catches up".into(),
        );
    }
    Ok(SendPlan {
        options: SendOptions {
            pace,
            time: if to_file {
                Time::Virtual(FIRST_TIME_NS)
            } else {
                Time::Wall
            },
            count: arguments.count,
            duration: arguments.duration,
            when_late,
            when_full: match arguments.when_full {
                WhenFullArgument::Retry => WhenFull::Retry,
                WhenFullArgument::Drop => WhenFull::Drop,
            },
            burst: usize::from(arguments.burst),
            ..SendOptions::default()
        },
        sink,
        content,
        truth,
    })
}

/// What a packed capture is called; none is written.
const PACKED: [&str; 2] = ["gz", "zst"];

/// Refuses to write over what is read or written as well, and names that promise compression.
fn check_files(sink: &Sink, truth: Option<&Path>, replayed: &[PathBuf]) -> Decided<()> {
    let mut written: Vec<files::Named<'_>> = Vec::new();
    if let Sink::File(path) = sink {
        let end = path.extension().unwrap_or_default();
        if PACKED.iter().any(|packed| end == *packed) {
            return Err(format!(
                "-w {}: captures are written unpacked; leave the .{} out, and pack the file afterwards, or: \
                 -w - | gzip",
                path.display(),
                end.display()
            )
            .into());
        }
        written.push(("-w", path));
    }
    written.extend(truth.map(|path| ("--truth", path)));
    let is_file = |path: &&PathBuf| path.as_path() != Path::new("-");
    let read: Vec<files::Named<'_>> = replayed
        .iter()
        .filter(is_file)
        .map(|path| ("--replay", path.as_path()))
        .collect();
    Ok(files::check(&written, &read)?)
}

fn receive_plan(arguments: &GenArguments) -> Decided<ReceivePlan> {
    match (&arguments.interface, &arguments.read[..]) {
        (Some(_), [_, ..]) => {
            Err("-i and -r together: receive from an interface, or read files".into())
        }
        (None, []) => Err(
            "nothing to receive from: give an interface (-i eth0) or a capture (-r FILE)".into(),
        ),
        (Some(name), []) => Ok(ReceivePlan::Interface(name.clone())),
        (None, files) => Ok(ReceivePlan::Files(
            files
                .iter()
                .map(|path| Input::from_argument(path.as_os_str()))
                .collect(),
        )),
    }
}

/// Where the echo service listens (RFC 862).
const ECHO_PORT: u16 = 7;

/// Without an answer for this long a client says again what it said last.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Repetitions before a client gives a connection up: some ten seconds, which a server on a busy
/// machine may be away.
const TRIES: u8 = 50;

fn closed_loop_plan(arguments: &GenArguments) -> Decided<ClosedLoopPlan> {
    let Some(interface) = arguments.interface.clone() else {
        return Err("a closed loop needs an interface: -i eth0".into());
    };
    for (flag, given) in [
        ("--rate", arguments.rate.is_some()),
        ("--random", arguments.random.is_some()),
        ("--match", arguments.matching.is_some()),
        ("--sequence", arguments.sequence),
        ("--timestamps", arguments.timestamps),
    ] {
        if given {
            return Err(format!(
                "{flag} is not for a closed loop: clients send as they are answered"
            )
            .into());
        }
    }
    if arguments.echo && arguments.truth.is_some() {
        return Err("--truth is for --clients: --echo has no line for each".into());
    }
    let port = match &arguments.dport {
        None => ECHO_PORT,
        Some(text) => text
            .parse()
            .map_err(|_| format!("--dport {text}: a closed loop has one server port"))?,
    };
    let mac = MacAddresses {
        source: arguments.source_mac.0,
        destination: arguments.destination_mac.0,
    };
    let destination = ranges(&arguments.dst, "--dst")?.first().copied();
    let clients = match arguments.clients {
        None => None,
        Some(clients) => {
            let kinds = kinds(arguments)?;
            let Some(kind) = kinds.first() else {
                return Err("--clients: no addresses".into());
            };
            Some(ClientsOptions {
                clients,
                addresses: kind.source,
                ports: kind.source_ports,
                server: kind.destination,
                server_port: port,
                connections: arguments.count,
                timeout: TIMEOUT,
                tries: TRIES,
                mac,
                seed: arguments.seed,
            })
        }
    };
    Ok(ClosedLoopPlan {
        interface,
        clients,
        server: destination,
        port,
        mac,
    })
}

/// Bits a second, times 10^6.
fn link_speed(text: &str) -> Decided<u128> {
    match text.parse::<RateText>()?.of_link(None) {
        Ok(Rate::Bits(bits, _)) => Ok(bits),
        _ => Err(format!("--link-speed {text}: write 10Gbps").into()),
    }
}

fn when_late(text: &str) -> Decided<WhenLate> {
    match text.split_once('=') {
        None if text == "catch-up" => Ok(WhenLate::CatchUp),
        None if text == "skip" => Ok(WhenLate::Skip(SKIP_AFTER)),
        Some(("skip", time)) => Ok(WhenLate::Skip(
            humantime::parse_duration(time)
                .map_err(|error| format!("--when-late {text}: {error}; write skip=1ms"))?,
        )),
        _ => Err(format!("--when-late {text}: catch-up, skip or skip=TIME").into()),
    }
}

fn traffic(arguments: &GenArguments) -> Decided<TrafficOptions> {
    let order = if arguments.round_robin {
        Order::RoundRobin
    } else if let Some(alpha) = arguments.zipf {
        Order::Zipf(alpha)
    } else if arguments.rate_inverse {
        Order::RateInverse
    } else {
        Order::Uniform
    };
    let random = match &arguments.random {
        None => generator::RandomFields::default(),
        Some(fields) => fields.parse()?,
    };
    if random.change_flows() && arguments.truth.is_some() {
        return Err("--random src, dst, sport or dport makes every packet a flow of its own: there is no --truth \
                    of flows"
            .into());
    }
    let mut options = TrafficOptions {
        flows: arguments.flows,
        order,
        kinds: kinds(arguments)?,
        sizes: arguments.size.parse::<Sizes>()?,
        matching: arguments.matching.as_deref().map(matching).transpose()?,
        random,
        sequence: arguments.sequence,
        timestamps: arguments.timestamps,
        mac: MacAddresses {
            source: arguments.source_mac.0,
            destination: arguments.destination_mac.0,
        },
        seed: arguments.seed,
        ..TrafficOptions::default()
    };
    if arguments.size == "imix" {
        options.sizes = Sizes::imix_from(options.least_size());
    }
    Ok(options)
}

/// `'udp dst port 320'=30%`.
fn matching(text: &str) -> Decided<(MatchFilter, f64)> {
    let wrong =
        || format!("--match '{text}': write a filter and a share, as 'udp dst port 320'=30%");
    let (filter, share) = text.rsplit_once('=').ok_or_else(wrong)?;
    let share = match share.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => share.parse(),
    };
    let share = share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(wrong)?;
    let filter = filter.trim_matches(['\'', '"']);
    Ok((MatchFilter::parse(filter)?, share))
}

/// A kind of flows for each IP version and protocol.
fn kinds(arguments: &GenArguments) -> Decided<Vec<FlowFields>> {
    let source = ranges(&arguments.src, "--src")?;
    let destination = ranges(&arguments.dst, "--dst")?;
    let mut versions = arguments.ip.clone();
    if versions.contains(&5) {
        return Err("--ip: 4, 6 or 4,6".into());
    }
    if versions.is_empty() {
        versions.extend(source.iter().chain(&destination).map(AddressRange::version));
    }
    versions.sort_unstable();
    versions.dedup();
    if versions.is_empty() {
        versions.push(4);
    }
    let mut protocols = arguments.protocol.clone();
    protocols.sort_by_key(|protocol| *protocol == ProtocolArgument::Tcp);
    protocols.dedup();
    let of_version = |ranges: &[AddressRange], version: u8| {
        ranges
            .iter()
            .find(|range| range.version() == version)
            .copied()
    };
    for (ranges, flag) in [(&source, "--src"), (&destination, "--dst")] {
        if let Some(range) = ranges
            .iter()
            .find(|range| !versions.contains(&range.version()))
        {
            return Err(format!(
                "{flag} {range}: flows of IPv{} are not asked for (--ip)",
                range.version()
            )
            .into());
        }
    }
    let mut kinds = Vec::new();
    for version in versions {
        for protocol in &protocols {
            let protocol = match protocol {
                ProtocolArgument::Udp => Protocol::Udp,
                ProtocolArgument::Tcp => Protocol::Tcp,
            };
            let base = if version == 6 {
                FlowFields::ipv6(protocol)
            } else {
                FlowFields::ipv4(protocol)
            };
            kinds.push(FlowFields {
                source: of_version(&source, version).unwrap_or(base.source),
                destination: of_version(&destination, version).unwrap_or(base.destination),
                source_ports: arguments.sport.parse()?,
                destination_ports: match &arguments.dport {
                    Some(ports) => ports.parse()?,
                    None => base.destination_ports,
                },
                protocol,
            });
        }
    }
    Ok(kinds)
}

/// At most one range of each family.
fn ranges(texts: &[String], flag: &str) -> Decided<Vec<AddressRange>> {
    let ranges: Vec<AddressRange> = texts
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    for (index, range) in ranges.iter().enumerate() {
        if ranges[..index]
            .iter()
            .any(|other| other.version() == range.version())
        {
            return Err(format!("{flag} is given twice for IPv{}", range.version()).into());
        }
    }
    Ok(ranges)
}
