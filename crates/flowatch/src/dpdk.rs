//! Devices of DPDK (`-i dpdk:…`): what was asked for them, and opening them in builds that can.

use crate::arguments::{DpdkArguments, WatchArguments};
use crate::plan::{Plan, Source};
#[cfg(feature = "dpdk")]
use crate::watch::complain;
use engine::Stop;
use port::frame::BURST;
use port::{Port, PortError, Transmit};
#[cfg(feature = "dpdk")]
use std::time::{Duration, Instant};

/// How a source of DPDK begins.
const PREFIX: &str = "dpdk:";

/// An end that receives and one that sends, of one link.
pub(crate) type BothWays = (Box<dyn Port>, Box<dyn Transmit>);

/// What was asked for devices of DPDK.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "a build without DPDK only refuses")
)]
pub(crate) struct DpdkPlan {
    /// The flags.
    pub(crate) flags: DpdkArguments,
    /// The arguments of the environment abstraction layer.
    pub(crate) eal: Vec<String>,
}

/// Whether a source is a device of DPDK.
pub(crate) fn is_device(source: &str) -> bool {
    source.starts_with(PREFIX)
}

impl DpdkPlan {
    /// Decides.
    ///
    /// # Errors
    /// When there are flags for DPDK and no device of it.
    pub(crate) fn new(source: &Source, arguments: &WatchArguments) -> Result<Self, String> {
        let flags = &arguments.dpdk;
        let used =
            matches!(source, Source::Live(names) if names.iter().any(|name| is_device(name)));
        for (flag, given) in [
            ("--batch", flags.batch.is_some()),
            ("--rx-ring", flags.rx_ring.is_some()),
            ("--pools", flags.pools.is_some()),
            ("--pool-size", flags.pool_size.is_some()),
        ] {
            if given && !used {
                return Err(format!("{flag} is for devices of DPDK (-i dpdk:…)"));
            }
        }
        if arguments.engine.buffer.is_some()
            && flags.batch.is_some_and(|batch| usize::from(batch) > BURST)
        {
            return Err(format!(
                "--batch of more than {BURST} with --buffer: times are interpolated from one look at the queue to \
                 the next, and what waits to be worked off is in between"
            ));
        }
        check_eal(&arguments.eal, used)?;
        Ok(Self {
            flags: flags.clone(),
            eal: arguments.eal.clone(),
        })
    }
}

/// EAL arguments that have no value in the next argument.
const WITHOUT_VALUE: [&str; 19] = [
    "-h",
    "-v",
    "--create-uio-dev",
    "--help",
    "--huge-unlink",
    "--in-memory",
    "--legacy-mem",
    "--match-allocations",
    "--no-hpet",
    "--no-huge",
    "--no-pci",
    "--no-shconf",
    "--no-telemetry",
    "--no-config",
    "--single-file-segments",
    "--telemetry",
    "--trace",
    "--version",
    "--vmware-tsc-map",
];

/// Refuses EAL arguments where no source or sink is a device of DPDK, and what is none: DPDK passes
/// it over in silence.
///
/// # Errors
/// One line that says so.
pub(crate) fn check_eal(eal: &[String], used: bool) -> Result<(), String> {
    let mut may_be_value = false;
    for argument in eal.iter().filter(|_| used) {
        if !argument.starts_with('-') && !may_be_value {
            return Err(format!(
                "'{argument}' after -- is no EAL argument (these begin with -); a filter stands before the --"
            ));
        }
        // `-m 256` and `--vdev net_null0`; not `-m256`, `--vdev=net_null0` or `--no-huge`.
        let is_whole = argument.contains('=')
            || (argument.len() > 2 && !argument.starts_with("--"))
            || WITHOUT_VALUE.contains(&argument.as_str());
        may_be_value = argument.starts_with('-') && !is_whole;
    }
    if eal.is_empty() || used {
        return Ok(());
    }
    Err(format!(
        "what follows -- are EAL arguments, for devices of DPDK (-i dpdk:…); a filter stands before it: '{}'",
        eal.join(" ")
    ))
}

/// DPDK, started: held until its devices are open.
#[cfg(feature = "dpdk")]
pub(crate) type Layer = Option<port::dpdk::Eal>;

/// There is none.
#[cfg(not(feature = "dpdk"))]
pub(crate) struct Layer;

/// Starts DPDK where a plan needs it, and asks its devices whether they have the queues that are
/// wanted: each is to have a table, which takes a while to make.
#[cfg(feature = "dpdk")]
pub(crate) fn prepare(plan: &Plan) -> Result<Layer, PortError> {
    use port::dpdk::{DpdkPort, Eal};
    let Source::Live(names) = &plan.source else {
        return Ok(None);
    };
    let sources: Vec<_> = names.iter().filter(|name| is_device(name)).collect();
    if sources.is_empty() {
        return Ok(None);
    }
    let prepared = || {
        let devices = devices(&sources)?;
        let eal = Eal::start(&devices, &plan.dpdk.eal)?;
        if plan.queues > 1 {
            for device in &devices {
                DpdkPort::check_queues(&eal, device, &options(plan))?;
            }
        }
        Ok(Some(eal))
    };
    prepared().inspect_err(|_| tell_log(plan.verbose))
}

/// Opens the devices of a plan: a port for each of their queues.
#[cfg(feature = "dpdk")]
pub(crate) fn open(plan: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    let ports = open_ports(plan, sources);
    tell_log(plan.verbose);
    ports
}

#[cfg(feature = "dpdk")]
fn open_ports(plan: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    use port::dpdk::{DpdkPort, Eal};
    let devices = devices(sources)?;
    let eal = Eal::start(&devices, &plan.dpdk.eal)?;
    let options = options(plan);
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for device in &devices {
        for mut port in DpdkPort::open(&eal, device, &options)? {
            while let Some(notice) = port.notice() {
                complain(&notice);
            }
            ports.push(Box::new(port));
        }
    }
    Ok(ports)
}

/// What DPDK and its drivers have said, for who asked for it.
#[cfg(feature = "dpdk")]
fn tell_log(verbose: bool) {
    if verbose {
        for line in port::dpdk::take_log().lines() {
            complain(line);
        }
    }
}

/// Opens a device to send on, and waits for its link until `stop`.
#[cfg(feature = "dpdk")]
pub(crate) fn open_sender(
    sink: &String,
    eal: &[String],
    stop: &Stop,
) -> Result<Box<dyn Transmit>, PortError> {
    use port::dpdk::{DpdkSender, Eal, SendOptions};
    let devices = devices(&[sink])?;
    let eal = Eal::start(&devices, eal)?;
    let mut senders = DpdkSender::open(&eal, &devices[0], &SendOptions::default())?;
    let mut sender = senders.remove(0);
    await_link(&mut sender, stop)?;
    Ok(Box::new(sender))
}

/// How long a sender waits in the beginning for its link (for its peer, on a virtual device).
#[cfg(feature = "dpdk")]
const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// What takes no longer is not spoken of.
#[cfg(feature = "dpdk")]
const SILENCE: Duration = Duration::from_millis(500);

/// Waits for a link to come up, and says so.
#[cfg(feature = "dpdk")]
fn await_link(sender: &mut port::dpdk::DpdkSender, stop: &Stop) -> Result<(), PortError> {
    let begun = Instant::now();
    let told = format!(
        "{}: the link is down; it is waited for, {} s at most",
        sender.name(),
        LINK_PATIENCE.as_secs()
    );
    let mut is_told = false;
    let is_up = sender.await_link(LINK_PATIENCE, || {
        if !is_told && begun.elapsed() >= SILENCE {
            complain(&told);
            is_told = true;
        }
        !stop.is_requested()
    })?;
    if let Some(notice) = sender.notice()
        && !stop.is_requested()
    {
        complain(&notice);
    }
    if is_up && is_told {
        complain(&format!("{}: the link is up", sender.name()));
    }
    Ok(())
}

/// Opens a device to receive from with one queue.
#[cfg(feature = "dpdk")]
pub(crate) fn open_receiver(source: &String, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
    use port::dpdk::{DpdkPort, Eal, Options};
    let devices = devices(&[source])?;
    let eal = Eal::start(&devices, eal)?;
    let mut ports = DpdkPort::open(&eal, &devices[0], &Options::default())?;
    let mut port = ports.remove(0);
    while let Some(notice) = port.notice() {
        complain(&notice);
    }
    Ok(Box::new(port))
}

/// Opens a device for both ways, a queue each, and waits for its link until `stop`.
#[cfg(feature = "dpdk")]
pub(crate) fn open_both(name: &String, eal: &[String], stop: &Stop) -> Result<BothWays, PortError> {
    use port::dpdk::{DpdkSender, Eal, Options, SendOptions};
    let devices = devices(&[name])?;
    let eal = Eal::start(&devices, eal)?;
    let (receive, send) = (Options::default(), SendOptions::default());
    let (mut ports, mut senders) = DpdkSender::open_both(&eal, &devices[0], &receive, &send)?;
    let (port, mut sender) = (ports.remove(0), senders.remove(0));
    await_link(&mut sender, stop)?;
    Ok((Box::new(port), Box::new(sender)))
}

/// The devices that sources name, each once.
#[cfg(feature = "dpdk")]
fn devices(sources: &[&String]) -> Result<Vec<port::dpdk::DeviceName>, PortError> {
    use port::dpdk::DeviceName;
    let mut devices: Vec<DeviceName> = Vec::new();
    for source in sources {
        let device = DeviceName::parse(&source[PREFIX.len()..]).map_err(PortError::Failed)?;
        if devices
            .iter()
            .any(|earlier| earlier.name() == device.name())
        {
            return Err(PortError::Failed(format!(
                "{device} is given twice: its packets would count twice"
            )));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// A build without DPDK has nothing to start.
#[cfg(not(feature = "dpdk"))]
#[expect(clippy::unnecessary_wraps, reason = "as in builds with DPDK")]
pub(crate) fn prepare(_: &Plan) -> Result<Layer, PortError> {
    Ok(Layer)
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn open(_: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    Err(not_in_this_build(
        sources.first().map_or(PREFIX, |source| source.as_str()),
    ))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn open_sender(
    sink: &str,
    _: &[String],
    _: &Stop,
) -> Result<Box<dyn Transmit>, PortError> {
    Err(not_in_this_build(sink))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn open_receiver(source: &str, _: &[String]) -> Result<Box<dyn Port>, PortError> {
    Err(not_in_this_build(source))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn open_both(name: &str, _: &[String], _: &Stop) -> Result<BothWays, PortError> {
    Err(not_in_this_build(name))
}

#[cfg(not(feature = "dpdk"))]
fn not_in_this_build(name: &str) -> PortError {
    PortError::Failed(format!(
        "{name}: this flowatch was built without DPDK: ./setup --dpdk && cargo build --release -p flowatch --features dpdk"
    ))
}

#[cfg(feature = "dpdk")]
fn options(plan: &Plan) -> port::dpdk::Options {
    use crate::arguments::PoolsArgument;
    use flow::FlowDefinition;
    use port::dpdk::{Options, Pools, RssFields, RssOptions};
    let defaults = Options::default();
    let flags = &plan.dpdk.flags;
    let flow = plan.meter.flow;
    Options {
        queues: u16::try_from(plan.queues).unwrap_or(u16::MAX),
        batch: flags.batch.map_or(defaults.batch, usize::from),
        receive_ring: flags.rx_ring.unwrap_or(defaults.receive_ring),
        pools: match flags.pools {
            Some(PoolsArgument::Shared) => Pools::Shared,
            Some(PoolsArgument::PerQueue) | None => Pools::PerQueue,
        },
        pool_size: flags.pool_size,
        rss: RssOptions {
            fields: match flow {
                FlowDefinition::Source => RssFields::Source,
                FlowDefinition::Destination => RssFields::Destination,
                FlowDefinition::SourceDestination => RssFields::Addresses,
                _ => RssFields::FiveTuple,
            },
            // Where a flow is both directions, both must come to one queue; a symmetric hash is no
            // identity, so that for flows by hash alone they do not.
            symmetric: flow == FlowDefinition::Bidirectional,
        },
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::check_eal;

    #[test]
    fn a_filter_among_eal_arguments_is_refused() {
        let check = |text: &str| {
            let eal: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            check_eal(&eal, true)
        };
        for text in [
            "",
            "--no-huge -m 256",
            "-m256 --vdev net_null0 --file-prefix=x",
            "-a 3b:00.0,x=1 -l 0,1 --no-pci --log-level pmd:debug",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            "tcp",
            "--no-huge udp",
            "-m 256 tcp",
            "-m256 tcp",
            "--vdev=net_null0 tcp port 80",
        ] {
            let message = check(text).unwrap_err();
            assert!(
                message.contains("a filter stands before the --"),
                "{text}: {message}"
            );
        }
    }
}
