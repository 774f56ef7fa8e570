//! DPDK devices (`-i dpdk:…`): checks their flags, and opens them in builds with DPDK.

use super::flags::{BATCH, POOL_SIZE, POOLS, PROMISCUOUS, RX_RING};
use super::kind::{Duplex, LiveOptions, Prepared, SourceKind};
use crate::arguments::WatchArguments;
use crate::doctor::dpdk as machine;
use crate::doctor::finding::Finding;
use crate::doctor::system::System;
#[cfg(feature = "dpdk")]
use crate::messages::warn;
use engine::Stop;
use port::frame::BURST;
use port::{Port, PortError, Transmit};
#[cfg(feature = "dpdk")]
use std::time::{Duration, Instant};

/// Prefix of a DPDK source.
const PREFIX: &str = "dpdk:";

/// A DPDK device.
pub(super) struct Dpdk;

impl SourceKind for Dpdk {
    fn label(&self) -> &'static str {
        "DPDK devices (-i dpdk:…)"
    }

    fn matches(&self, name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    fn flags(&self) -> &'static [&'static str] {
        &[PROMISCUOUS, BATCH, RX_RING, POOLS, POOL_SIZE]
    }

    fn takes_eal_arguments(&self) -> bool {
        true
    }

    fn check(&self, arguments: &WatchArguments) -> Result<(), String> {
        let batch = arguments.dpdk.batch;
        if arguments.engine.buffer.is_some()
            && batch.is_some_and(|batch| usize::from(batch) > BURST)
        {
            return Err(format!(
                "--batch of more than {BURST} with --buffer: timestamps are interpolated between polls of the queue, \
                 and a larger batch would be processed across several polls"
            ));
        }
        Ok(())
    }

    fn prepare(
        &self,
        names: &[&str],
        options: &LiveOptions<'_>,
    ) -> Result<Option<Prepared>, PortError> {
        prepare(names, options)
    }

    fn open(
        &self,
        names: &[&str],
        options: &LiveOptions<'_>,
    ) -> Result<Vec<Box<dyn Port>>, PortError> {
        open(names, options)
    }

    fn open_receiver(&self, name: &str, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
        open_receiver(name, eal)
    }

    fn open_sender(
        &self,
        name: &str,
        eal: &[String],
        stop: &Stop,
    ) -> Result<Box<dyn Transmit>, PortError> {
        open_sender(name, eal, stop)
    }

    fn open_both(&self, name: &str, eal: &[String], stop: &Stop) -> Result<Duplex, PortError> {
        open_both(name, eal, stop)
    }

    fn findings(&self, system: &System) -> Option<(&'static str, Vec<Finding>)> {
        Some(("DPDK", machine::findings(system)))
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
pub(super) fn check_eal(eal: &[String], used: bool) -> Result<(), String> {
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

/// Starts DPDK, and checks that the devices support the number of queues.
#[cfg(feature = "dpdk")]
fn prepare(names: &[&str], options: &LiveOptions<'_>) -> Result<Option<Prepared>, PortError> {
    use port::dpdk::{DpdkPort, Eal};
    let prepared = || {
        let devices = devices(names)?;
        let eal = Eal::start(&devices, &options.dpdk.eal)?;
        if options.queues > 1 {
            for device in &devices {
                DpdkPort::check_queues(&eal, device, &port_options(options))?;
            }
        }
        let prepared: Prepared = Box::new(eal);
        Ok(Some(prepared))
    };
    prepared().inspect_err(|_| print_log(options.verbose))
}

/// Opens devices: a port for each queue.
#[cfg(feature = "dpdk")]
fn open(names: &[&str], options: &LiveOptions<'_>) -> Result<Vec<Box<dyn Port>>, PortError> {
    let ports = open_ports(names, options);
    print_log(options.verbose);
    ports
}

#[cfg(feature = "dpdk")]
fn open_ports(names: &[&str], options: &LiveOptions<'_>) -> Result<Vec<Box<dyn Port>>, PortError> {
    use port::dpdk::{DpdkPort, Eal};
    let devices = devices(names)?;
    let eal = Eal::start(&devices, &options.dpdk.eal)?;
    let options = port_options(options);
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
fn open_sender(sink: &str, eal: &[String], stop: &Stop) -> Result<Box<dyn Transmit>, PortError> {
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
fn open_receiver(source: &str, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
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
fn open_both(name: &str, eal: &[String], stop: &Stop) -> Result<Duplex, PortError> {
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
fn devices(sources: &[&str]) -> Result<Vec<port::dpdk::DeviceName>, PortError> {
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
fn prepare(_: &[&str], _: &LiveOptions<'_>) -> Result<Option<Prepared>, PortError> {
    Ok(None)
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
fn open(names: &[&str], _: &LiveOptions<'_>) -> Result<Vec<Box<dyn Port>>, PortError> {
    Err(not_in_this_build(names.first().unwrap_or(&PREFIX)))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
fn open_sender(sink: &str, _: &[String], _: &Stop) -> Result<Box<dyn Transmit>, PortError> {
    Err(not_in_this_build(sink))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
fn open_receiver(source: &str, _: &[String]) -> Result<Box<dyn Port>, PortError> {
    Err(not_in_this_build(source))
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
fn open_both(name: &str, _: &[String], _: &Stop) -> Result<Duplex, PortError> {
    Err(not_in_this_build(name))
}

#[cfg(not(feature = "dpdk"))]
fn not_in_this_build(name: &str) -> PortError {
    PortError::Failed(format!(
        "{name}: this build has no DPDK support; run ./setup --dpdk && cargo build --release -p flowatch --features dpdk"
    ))
}

#[cfg(feature = "dpdk")]
fn port_options(options: &LiveOptions<'_>) -> port::dpdk::Options {
    use crate::arguments::input::PoolsArgument;
    use flow::FlowDefinition;
    use port::dpdk::{Options, Pools, RssFields, RssOptions};
    let defaults = Options::default();
    let flags = options.dpdk;
    let flow = options.engine.meter.flow;
    Options {
        queues: u16::try_from(options.queues).unwrap_or(u16::MAX),
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
