//! Devices of DPDK (`-i dpdk:…`): what was asked for them, and opening them in builds that can.

use crate::arguments::{DpdkArguments, WatchArguments};
use crate::plan::{Plan, Source};
use port::{Port, PortError};

/// How a source of DPDK begins.
const PREFIX: &str = "dpdk:";

/// What was asked for devices of DPDK.
#[derive(Clone, Debug)]
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
        if !arguments.eal.is_empty() && !used {
            return Err(format!(
                "what follows -- are EAL arguments, for devices of DPDK (-i dpdk:…); a filter stands before it: '{}'",
                arguments.eal.join(" ")
            ));
        }
        Ok(Self {
            flags: flags.clone(),
            eal: arguments.eal.clone(),
        })
    }
}

/// Opens devices: a port for each of their queues.
#[cfg(feature = "dpdk")]
pub(crate) fn open(plan: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    use crate::watch::complain;
    use port::dpdk::{DeviceName, DpdkPort, Eal};
    let devices: Vec<DeviceName> = sources
        .iter()
        .map(|source| DeviceName::parse(&source[PREFIX.len()..]).map_err(PortError::Failed))
        .collect::<Result<_, _>>()?;
    for (index, device) in devices.iter().enumerate() {
        if devices[..index]
            .iter()
            .any(|earlier| earlier.name() == device.name())
        {
            return Err(PortError::Failed(format!(
                "{device} is given twice: its packets would count twice"
            )));
        }
    }
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
    if plan.verbose {
        for line in eal.take_log().lines() {
            complain(line);
        }
    }
    Ok(ports)
}

/// A build without DPDK opens nothing.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn open(_: &Plan, sources: &[&String]) -> Result<Vec<Box<dyn Port>>, PortError> {
    let source = sources.first().map_or(PREFIX, |source| source.as_str());
    Err(PortError::Failed(format!(
        "{source}: this flowatch was built without DPDK: ./setup && cargo build --release -p flowatch --features dpdk"
    )))
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
