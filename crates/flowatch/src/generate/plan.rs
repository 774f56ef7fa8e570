//! Turns the flags of `gen` into a plan: checks how they combine and applies defaults. Opens nothing.

use crate::arguments::generate::{GenArguments, ProtocolArgument, WhenFullArgument};
use crate::file_identity;
use crate::sources;
use engine::check_cores;
use generator::closed_loop::ClientsOptions;
use generator::{
    AddressRange, FlowFields, FlowOrder, FrameSizes, MacAddresses, MatchFilter, Pacing, Protocol,
    Rate, RateSpec, SendClock, SendOptions, TrafficOptions, WhenFull, WhenLate,
};
use port::Input;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default timestamp of the first frame of a written capture: always 2020-01-01, so that the same
/// seed gives the same capture.
const FIRST_TIME_NS: i64 = 1_577_836_800_000_000_000;

/// Default rate of a written capture: a packet per microsecond.
const FILE_RATE: Rate = Rate::Packets(1_000_000_000_000);

/// How late a packet may be before `--when-late skip` drops it.
const SKIP_AFTER: Duration = Duration::from_millis(1);

/// Where frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// An interface, device or `null:`, as `-i` names it.
    Interface(String),
    /// A capture file.
    File(PathBuf),
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum Content {
    /// Generated frames.
    Traffic(Box<TrafficOptions>),
    /// Frames of captures.
    Replay(ReplayPlan),
}

/// The checked options of a replay.
#[derive(Debug)]
pub(crate) struct ReplayPlan {
    pub(crate) inputs: Vec<Input>,
    pub(crate) loops: u64,
    pub(crate) copies: u32,
    pub(crate) shift: u64,
}

/// The checked options of a run that sends.
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
    /// Send packets.
    Send(Box<SendPlan>),
    /// Count numbered packets.
    Receive(ReceivePlan),
    /// Run TCP clients, or the server.
    ClosedLoop(Box<ClosedLoopPlan>),
}

/// Where numbered packets come from.
#[derive(Debug)]
pub(crate) enum ReceivePlan {
    /// An interface.
    Interface(String),
    /// Capture files.
    Files(Vec<Input>),
}

/// The checked options of one end of a closed loop.
#[derive(Debug)]
pub(crate) struct ClosedLoopPlan {
    pub(crate) interface: String,
    /// Options of the clients; `None` for the server.
    pub(crate) clients: Option<ClientsOptions>,
    /// Addresses that the server answers for; `None` for all.
    pub(crate) server: Option<AddressRange>,
    pub(crate) port: u16,
    pub(crate) mac: MacAddresses,
}

impl Task {
    /// Checks the flags and applies defaults.
    ///
    /// # Errors
    /// A one-line message, if a flag is invalid or flags contradict each other.
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
        sources::check_eal(arguments.interface.as_slice(), &arguments.eal)?;
        Ok(task)
    }
}

type PlanResult<T> = Result<T, Box<dyn std::error::Error>>;

fn send_plan(arguments: &GenArguments) -> PlanResult<SendPlan> {
    let sink = match (&arguments.interface, &arguments.write) {
        (Some(name), None) => Sink::Interface(name.clone()),
        (None, Some(path)) => Sink::File(file_identity::normalize(path)),
        (Some(_), Some(_)) => {
            return Err("-i and -w together: use an interface or a file, not both".into());
        }
        (None, None) => {
            return Err(
                "nowhere to send to: give an interface (-i eth0, -i null:) or a file (-w FILE)"
                    .into(),
            );
        }
    };
    let to_file = matches!(sink, Sink::File(_));
    let truth = arguments.truth.as_deref().map(file_identity::normalize);
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
    let pace = pacing(arguments, &content, to_file)?;
    if to_file
        && matches!(content, Content::Traffic(_))
        && arguments.count.is_none()
        && arguments.duration.is_none()
    {
        return Err("-w needs a limit: add --count N or --duration TIME".into());
    }
    let when_late = when_late(&arguments.when_late)?;
    if when_late != WhenLate::CatchUp && !matches!(pace, Pacing::Rate(_)) {
        return Err("--when-late skip needs a --rate".into());
    }
    if when_late != WhenLate::CatchUp && matches!(content, Content::Replay(_)) {
        return Err(
            "--when-late skip would drop packets of the capture: a replay always catches up".into(),
        );
    }
    Ok(SendPlan {
        options: SendOptions {
            pacing: pace,
            clock: if to_file {
                SendClock::Virtual(FIRST_TIME_NS)
            } else {
                SendClock::Wall
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

/// Determines what sets the times of packets: a rate, the capture, or the link.
fn pacing(arguments: &GenArguments, content: &Content, to_file: bool) -> PlanResult<Pacing> {
    let rate = match &arguments.rate {
        None => None,
        Some(text) => {
            let speed = match &arguments.link_speed {
                None => None,
                Some(text) => Some(link_speed(text)?),
            };
            Some(text.parse::<RateSpec>()?.resolve(speed)?)
        }
    };
    Ok(match (content, rate, arguments.speed.as_deref()) {
        (_, Some(rate), _) => Pacing::Rate(rate),
        (Content::Replay(_), None, speed) => match speed {
            None => Pacing::Recorded(1.0),
            Some("max") if to_file => {
                return Err(
                    "--speed max gives no timestamps for -w: use a factor or --rate".into(),
                );
            }
            Some("max") => Pacing::Link,
            Some(text) => match text.parse::<f64>() {
                Ok(factor) if factor.is_finite() && (1e-6..=1e9).contains(&factor) => {
                    Pacing::Recorded(factor)
                }
                _ => {
                    return Err(
                        format!("--speed {text}: write a factor such as 2 or 0.5, or max").into(),
                    );
                }
            },
        },
        (Content::Traffic(_), None, _) if to_file => Pacing::Rate(FILE_RATE),
        (Content::Traffic(_), None, _) => Pacing::Link,
    })
}

/// Extensions of compressed captures, which `gen` does not write.
const COMPRESSED_EXTENSIONS: [&str; 5] = ["gz", "zst", "xz", "bz2", "lz4"];

/// Rejects output files that are also inputs or other outputs, and names of compressed files.
fn check_files(sink: &Sink, truth: Option<&Path>, replayed: &[PathBuf]) -> PlanResult<()> {
    let mut written: Vec<file_identity::NamedFile<'_>> = Vec::new();
    if let Sink::File(path) = sink {
        let extension = path.extension().unwrap_or_default();
        if COMPRESSED_EXTENSIONS
            .iter()
            .any(|packed| extension == *packed)
        {
            return Err(format!(
                "-w {}: captures are written uncompressed; leave out .{} and compress the file afterwards, or use: \
                 -w - | gzip",
                path.display(),
                extension.display()
            )
            .into());
        }
        written.push(("-w", path));
    }
    written.extend(truth.map(|path| ("--truth", path)));
    let is_file = |path: &&PathBuf| path.as_path() != Path::new("-");
    let read: Vec<file_identity::NamedFile<'_>> = replayed
        .iter()
        .filter(is_file)
        .map(|path| ("--replay", path.as_path()))
        .collect();
    Ok(file_identity::check_distinct(&written, &read)?)
}

fn receive_plan(arguments: &GenArguments) -> PlanResult<ReceivePlan> {
    match (&arguments.interface, &arguments.read[..]) {
        (Some(_), [_, ..]) => Err("-i and -r together: use an interface or files, not both".into()),
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

/// The port of the echo service (RFC 862).
const ECHO_PORT: u16 = 7;

/// The retransmission timeout of a client.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);

/// Retransmissions before a client abandons a connection: about ten seconds, for which a server on a
/// busy machine may not run.
const MAX_RETRIES: u8 = 50;

fn closed_loop_plan(arguments: &GenArguments) -> PlanResult<ClosedLoopPlan> {
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
                "{flag} is not for a closed loop: clients send when they are answered"
            )
            .into());
        }
    }
    if arguments.echo && arguments.truth.is_some() {
        return Err("--truth is for --clients: --echo does not count per client".into());
    }
    let port = match &arguments.dport {
        None => ECHO_PORT,
        Some(text) => text
            .parse()
            .map_err(|_| format!("--dport {text}: a closed loop needs one server port"))?,
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
                timeout: RETRANSMISSION_TIMEOUT,
                max_retries: MAX_RETRIES,
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

/// Parses a link speed. Returns bits per second, times 10^6.
fn link_speed(text: &str) -> PlanResult<u128> {
    match text.parse::<RateSpec>()?.resolve(None) {
        Ok(Rate::Bits(bits, _)) => Ok(bits),
        _ => Err(format!("--link-speed {text}: write a speed such as 10Gbps").into()),
    }
}

fn when_late(text: &str) -> PlanResult<WhenLate> {
    match text.split_once('=') {
        None if text == "catch-up" => Ok(WhenLate::CatchUp),
        None if text == "skip" => Ok(WhenLate::Skip(SKIP_AFTER)),
        Some(("skip", time)) => Ok(WhenLate::Skip(
            humantime::parse_duration(time)
                .map_err(|error| format!("--when-late {text}: {error}; write skip=1ms"))?,
        )),
        _ => Err(format!("--when-late {text}: use catch-up, skip or skip=TIME").into()),
    }
}

fn traffic(arguments: &GenArguments) -> PlanResult<TrafficOptions> {
    let order = if arguments.round_robin {
        FlowOrder::RoundRobin
    } else if let Some(alpha) = arguments.zipf {
        FlowOrder::Zipf(alpha)
    } else if arguments.rate_inverse {
        FlowOrder::RateInverse
    } else {
        FlowOrder::Uniform
    };
    let random = match &arguments.random {
        None => generator::RandomFields::default(),
        Some(fields) => fields.parse()?,
    };
    if random.changes_flow_key() && arguments.truth.is_some() {
        return Err("--random src, dst, sport or dport makes every packet a flow of its own, so there is no --truth"
            .into());
    }
    let mut options = TrafficOptions {
        flows: arguments.flows,
        order,
        kinds: kinds(arguments)?,
        sizes: arguments.size.parse::<FrameSizes>()?,
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
        options.sizes = FrameSizes::imix_from(options.min_frame_size());
    }
    Ok(options)
}

/// Parses `--match`, such as `'udp dst port 320'=30%`.
fn matching(text: &str) -> PlanResult<(MatchFilter, f64)> {
    let invalid =
        || format!("--match '{text}': write a filter and a share, such as 'udp dst port 320'=30%");
    let (filter, share) = text.rsplit_once('=').ok_or_else(invalid)?;
    let share = match share.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => share.parse(),
    };
    let share = share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(invalid)?;
    let filter = filter.trim_matches(['\'', '"']);
    Ok((MatchFilter::parse(filter)?, share))
}

/// Returns the flow fields for each IP version and protocol.
fn kinds(arguments: &GenArguments) -> PlanResult<Vec<FlowFields>> {
    let source = ranges(&arguments.src, "--src")?;
    let destination = ranges(&arguments.dst, "--dst")?;
    let mut versions = arguments.ip.clone();
    if versions.contains(&5) {
        return Err("--ip: use 4, 6 or 4,6".into());
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
                "{flag} {range}: IPv{} is not enabled (--ip)",
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

/// Parses address ranges: at most one per IP version.
fn ranges(texts: &[String], flag: &str) -> PlanResult<Vec<AddressRange>> {
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
