//! DPDK devices (`-i dpdk:…`): checks their flags, and opens them in builds with DPDK.

use crate::arguments::{DpdkArguments, WatchArguments};
use crate::plan::{Plan, Source};
#[cfg(feature = "dpdk")]
use crate::watch::warn;
use engine::Stop;
use port::frame::BURST;
use port::{Port, PortError, Transmit};
#[cfg(feature = "dpdk")]
use std::time::{Duration, Instant};

/// Prefix of a DPDK source.
const PREFIX: &str = "dpdk:";

/// The receiving and the sending end of a link.
pub(crate) type Duplex = (Box<dyn Port>, Box<dyn Transmit>);

/// The options of DPDK devices.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "a build without DPDK opens no devices")
)]
pub(crate) struct DpdkPlan {
    /// The flags.
    pub(crate) flags: DpdkArguments,
    /// The EAL arguments.
    pub(crate) eal: Vec<String>,
}

/// Whether a source is a DPDK device.
pub(crate) fn is_device(source: &str) -> bool {
    source.starts_with(PREFIX)
}

impl DpdkPlan {
    /// Checks the flags for DPDK devices.
    ///
    /// # Errors
    /// If there are flags for DPDK but no DPDK device, or if a flag is invalid.
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
                return Err(format!("{flag} is for DPDK devices (-i dpdk:…)"));
            }
        }
        if arguments.engine.buffer.is_some()
            && flags.batch.is_some_and(|batch| usize::from(batch) > BURST)
        {
            return Err(format!(
                "--batch of more than {BURST} with --buffer: timestamps are interpolated between polls of the queue, \
                 and a larger batch would be processed across several polls"
            ));
        }
        check_eal(&arguments.eal, used)?;
        Ok(Self {
            flags: flags.clone(),
            eal: arguments.eal.clone(),
        })
    }
}

/// EAL arguments that are not followed by a value.
const EAL_FLAGS: [&str; 19] = [
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

/// Rejects EAL arguments without a DPDK device, and words that are not EAL arguments, which DPDK
/// ignores silently.
///
/// # Errors
/// A one-line message.
pub(crate) fn check_eal(eal: &[String], used: bool) -> Result<(), String> {
    let mut may_be_value = false;
    for argument in eal.iter().filter(|_| used) {
        if !argument.starts_with('-') && !may_be_value {
            return Err(format!(
                "'{argument}' after -- is not an EAL argument (these begin with -); a filter goes before the --"
            ));
        }
        // `-m 256` and `--vdev net_null0`; not `-m256`, `--vdev=net_null0` or `--no-huge`.
        let is_whole = argument.contains('=')
            || (argument.len() > 2 && !argument.starts_with("--"))
            || EAL_FLAGS.contains(&argument.as_str());
        may_be_value = argument.starts_with('-') && !is_whole;
    }
    if eal.is_empty() || used {
        return Ok(());
    }
    Err(format!(
        "arguments after -- are EAL arguments for DPDK devices (-i dpdk:…); a filter goes before the --: '{}'",
        eal.join(" ")
    ))
}

/// Keeps DPDK's environment alive until its devices are open.
#[cfg(feature = "dpdk")]
pub(crate) type EalGuard = Option<port::dpdk::Eal>;

/// A build without DPDK has no environment.
#[cfg(not(feature = "dpdk"))]
pub(crate) struct EalGuard;

/// Starts DPDK if a plan needs it, and checks that its devices support the number of queues before
/// the flow tables are allocated, which takes a while.
#[cfg(feature = "dpdk")]
pub(crate) fn prepare(plan: &Plan) -> Result<EalGuard, PortError> {
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
    prepared().inspect_err(|_| print_log(plan.verbose))
}

/// Opens the devices of a plan: a port for each queue.
#[cfg(feature = "dpdk")]
pub(crate) fn open(plan: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    let ports = open_ports(plan, sources);
    print_log(plan.verbose);
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
            while let Some(notice) = port.next_notice() {
                warn(&notice);
            }
            ports.push(Box::new(port));
        }
    }
    Ok(ports)
}

/// Prints the log of DPDK and its drivers, if wanted.
#[cfg(feature = "dpdk")]
fn print_log(verbose: bool) {
    if verbose {
        for line in port::dpdk::take_log().lines() {
            warn(line);
        }
    }
}

/// Opens a device to send on, and waits for its link to come up unless `stop` is requested.
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
    wait_for_link(&mut sender, stop)?;
    Ok(Box::new(sender))
}

/// How long a sender waits for its link (for its peer, on a virtual device) to come up.
#[cfg(feature = "dpdk")]
const LINK_WAIT_MAX: Duration = Duration::from_secs(10);

/// A wait shorter than this prints nothing.
#[cfg(feature = "dpdk")]
const LINK_WAIT_QUIET: Duration = Duration::from_millis(500);

/// Waits for a link to come up, and says that it is waiting.
#[cfg(feature = "dpdk")]
fn wait_for_link(sender: &mut port::dpdk::DpdkSender, stop: &Stop) -> Result<(), PortError> {
    let started = Instant::now();
    let waiting = format!(
        "{}: the link is down; waiting up to {} s for it",
        sender.name(),
        LINK_WAIT_MAX.as_secs()
    );
    let mut announced = false;
    let is_up = sender.wait_for_link(LINK_WAIT_MAX, || {
        if !announced && started.elapsed() >= LINK_WAIT_QUIET {
            warn(&waiting);
            announced = true;
        }
        !stop.is_requested()
    })?;
    if let Some(notice) = sender.next_notice()
        && !stop.is_requested()
    {
        warn(&notice);
    }
    if is_up && announced {
        warn(&format!("{}: the link is up", sender.name()));
    }
    Ok(())
}

/// Opens a device to receive from, with one queue.
#[cfg(feature = "dpdk")]
pub(crate) fn open_receiver(source: &String, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
    use port::dpdk::{DpdkPort, Eal, Options};
    let devices = devices(&[source])?;
    let eal = Eal::start(&devices, eal)?;
    let mut ports = DpdkPort::open(&eal, &devices[0], &Options::default())?;
    let mut port = ports.remove(0);
    while let Some(notice) = port.next_notice() {
        warn(&notice);
    }
    Ok(Box::new(port))
}

/// Opens a device to receive and send, with a queue each, and waits for its link to come up unless
/// `stop` is requested.
#[cfg(feature = "dpdk")]
pub(crate) fn open_both(name: &String, eal: &[String], stop: &Stop) -> Result<Duplex, PortError> {
    use port::dpdk::{DpdkSender, Eal, Options, SendOptions};
    let devices = devices(&[name])?;
    let eal = Eal::start(&devices, eal)?;
    let (receive, send) = (Options::default(), SendOptions::default());
    let (mut ports, mut senders) = DpdkSender::open_both(&eal, &devices[0], &receive, &send)?;
    let (port, mut sender) = (ports.remove(0), senders.remove(0));
    wait_for_link(&mut sender, stop)?;
    Ok((Box::new(port), Box::new(sender)))
}

/// Returns the devices that the sources name. A device may be named only once.
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
                "{device} is given twice: its packets would be counted twice"
            )));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// A build without DPDK has nothing to start.
#[cfg(not(feature = "dpdk"))]
#[expect(clippy::unnecessary_wraps, reason = "as in builds with DPDK")]
pub(crate) fn prepare(_: &Plan) -> Result<EalGuard, PortError> {
    Ok(EalGuard)
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
pub(crate) fn open_both(name: &str, _: &[String], _: &Stop) -> Result<Duplex, PortError> {
    Err(not_in_this_build(name))
}

#[cfg(not(feature = "dpdk"))]
fn not_in_this_build(name: &str) -> PortError {
    PortError::Failed(format!(
        "{name}: this build has no DPDK support; run ./setup --dpdk && cargo build --release -p flowatch --features dpdk"
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
            // Both directions of a bidirectional flow must arrive on one queue. A symmetric hash does
            // not identify a flow, so `--flow rss` uses the asymmetric one.
            symmetric: flow == FlowDefinition::Bidirectional,
        },
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::check_eal;

    #[test]
    fn rejects_a_filter_among_eal_arguments() {
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
                message.contains("a filter goes before the --"),
                "{text}: {message}"
            );
        }
    }
}
