//! A device of DPDK: found or made, configured, started, and closed in the end.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::toeplitz::MICROSOFT_KEY;

use super::captured::captured;
use super::eal::{self, Eal};
use super::name::{DeviceName, Kind};
use super::options::{Options, RssFields, RssOptions};
use super::pool::{self, Pool};
use super::staying::Staying;
use super::{device_arguments, error_hint, shim};
use crate::frame::{PortError, Rss};

/// Ports of one device that are looked for.
const PORTS: usize = 8;

/// The key of a device that does not say how long it is.
const KEY_BYTES: usize = 40;

/// The key that gives both directions one hash (Woo and Park 2012), over and over.
const SYMMETRIC: [u8; 2] = [0x6d, 0x5a];

/// Descriptors of a transmit queue that nothing is sent on.
const TRANSMIT_RING: u16 = 512;

/// The driver whose rings go when the peer does, and whose queues beyond those that its peer has
/// connected read the first one's ring.
const MEMIF: &str = "net_memif";

/// The driver whose library (libbpf) prints on standard error.
const PRINTING: &str = "net_af_xdp";

/// The ports that are open, each of them once: who opens one that is would close it for whoever reads
/// it. Locked while devices are made, started or closed, for which drivers expect to be asked by one
/// thread at a time.
static OPEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());

pub(super) fn control() -> MutexGuard<'static, Vec<u16>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A started port, which its queues share.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) name: DeviceName,
    /// Descriptors of each receive queue, as the device took them.
    pub(super) receive_ring: u16,
    pub(super) rss: Rss,
    /// The key of the hash over addresses and ports, where it was set.
    pub(super) rss_key: Option<Vec<u8>>,
    /// Queues that are read or may be.
    pub(super) reading: AtomicUsize,
    /// What a person should be told.
    pub(super) notices: Vec<String>,
    /// Whether this process made the device, and so lets it go.
    made: bool,
    /// Where the rings go when the peer does: held until the port is closed.
    staying: Option<Staying>,
    /// Of the receive queues. Freed after the port is closed, when no frame is left in it.
    pools: Vec<Pool>,
    /// One for each transmit queue that frames are sent on. A device keeps frames that it has sent, so
    /// that these too are freed after the port is closed, and not when their sender goes.
    transmit_pools: Vec<Pool>,
    /// What the port was configured with: DPDK keeps where it lies, for drivers that start anew.
    given_key: Vec<u8>,
    eal: Eal,
}

/// What a device is and offers.
struct Description {
    driver: String,
    receive_queues_most: u16,
    rss_key_bytes: u8,
    /// The NUMA node that it belongs to; negative: any.
    socket: c_int,
}

/// The queues that a device is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queues {
    pub(super) receive: u16,
    pub(super) transmit: u16,
    /// Descriptors of each transmit queue.
    pub(super) transmit_ring: u16,
    /// Buffers of the pool of each transmit queue, where something is sent.
    pub(super) transmit_buffers: Option<u32>,
}

impl Queues {
    /// For receiving alone. Some drivers do not start without a queue to send on.
    pub(super) fn to_receive(count: u16) -> Self {
        Self {
            receive: count,
            transmit: 1,
            transmit_ring: TRANSMIT_RING,
            transmit_buffers: None,
        }
    }
}

impl Device {
    /// Finds or makes a device and starts it.
    pub(super) fn open(
        eal: &Eal,
        name: &DeviceName,
        options: &Options,
        queues: Queues,
    ) -> Result<Arc<Self>, PortError> {
        let mut open = control();
        let (port, made) = find(name)?;
        if open.contains(&port) {
            return Err(PortError::Failed(format!(
                "{name}: the device is open in this process already; name it once"
            )));
        }
        open.push(port);
        let mut device = Self::closed(eal, name.clone(), port, made, options);
        let started = quietly(name, || device.start(options, queues));
        // One that did not start is closed when it goes.
        drop(open);
        started.map(|()| Arc::new(device))
    }

    /// Asks a device whether it has so many receive queues. One that is made for that goes again, so
    /// that it receives nothing before it is read.
    pub(super) fn check_queues(
        _eal: &Eal,
        name: &DeviceName,
        options: &Options,
    ) -> Result<(), PortError> {
        let _alone = control();
        let (port, made) = find(name)?;
        let checked = describe_with(name, port, options.queues).map(drop);
        if made {
            // SAFETY: nobody else knows the port; the layer runs as long as `eal` does.
            unsafe { shim::flowatch_dpdk_close_port(port, 1) };
        }
        checked
    }

    /// Starts a port that was made of rings and put among those that are open; frames come with hashes by `rss_key`.
    pub(super) fn of_rings(
        eal: &Eal,
        name: DeviceName,
        port: u16,
        options: &Options,
        queues: Queues,
        rss_key: &[u8],
    ) -> Result<Arc<Self>, PortError> {
        let mut device = Self::closed(eal, name, port, true, options);
        let alone = control();
        let started = device.start(options, queues);
        drop(alone);
        started?;
        let symmetric = rss_key.chunks(2).all(|pair| SYMMETRIC.starts_with(pair));
        device.rss = Rss::Configured { symmetric };
        device.rss_key = Some(rss_key.to_vec());
        Ok(Arc::new(device))
    }

    fn closed(eal: &Eal, name: DeviceName, port: u16, made: bool, options: &Options) -> Self {
        Self {
            port,
            name,
            receive_ring: options.receive_ring,
            rss: Rss::NotOffered,
            rss_key: None,
            reading: AtomicUsize::new(0),
            notices: Vec::new(),
            made,
            staying: None,
            pools: Vec::new(),
            transmit_pools: Vec::new(),
            given_key: Vec::new(),
            eal: eal.clone(),
        }
    }

    fn start(&mut self, options: &Options, mut queues: Queues) -> Result<(), PortError> {
        let found = describe_with(&self.name, self.port, queues.receive)?;
        let (types, key) = self.plan_rss(options.rss, &found);
        self.given_key = key;
        let key = &mut self.given_key;
        let mut ring = options.receive_ring;
        // SAFETY: the port exists; the key is as long as is said, or not there at all, and stays where
        // it is until the port is closed.
        let result = unsafe {
            shim::flowatch_dpdk_configure(
                self.port,
                queues.receive,
                queues.transmit,
                types,
                if key.is_empty() {
                    ptr::null_mut()
                } else {
                    key.as_mut_ptr()
                },
                key.len() as u8,
                &raw mut ring,
                &raw mut queues.transmit_ring,
            )
        };
        self.check("be configured", result)?;
        if ring != options.receive_ring {
            self.notices.push(format!(
                "{}: a receive queue has {ring} descriptors here, not {}",
                self.name, options.receive_ring
            ));
        }
        self.receive_ring = ring;
        self.make_pools(options, &found, queues)?;
        for queue in 0..queues.receive {
            let pool = self.pool(queue.into());
            // SAFETY: the queue is below their configured number, and the pool outlives the port.
            let result =
                unsafe { shim::flowatch_dpdk_receive_queue(self.port, queue, ring, pool.as_ptr()) };
            self.check("set up a receive queue", result)?;
        }
        for queue in 0..queues.transmit {
            // SAFETY: the queue is below their configured number.
            let result = unsafe {
                shim::flowatch_dpdk_transmit_queue(self.port, queue, queues.transmit_ring)
            };
            self.check("set up a transmit queue", result)?;
        }
        if found.driver == MEMIF {
            let staying = Staying::begin(&self.eal);
            self.staying = Some(staying.map_err(|error| self.failed("keep its rings", error))?);
        }
        // SAFETY: all queues are set up.
        let result = unsafe { shim::flowatch_dpdk_start_port(self.port) };
        self.check("start", result)?;
        // A virtual device has no other mode; what is addressed to others is what a monitor is for.
        // SAFETY: the port is started.
        let result = unsafe { shim::flowatch_dpdk_promiscuous(self.port) };
        if result != 0 && -result != libc::ENOTSUP {
            self.notices.push(format!(
                "{}: not in promiscuous mode, so frames addressed to others may be missing: {}",
                self.name,
                std::io::Error::from_raw_os_error(-result)
            ));
        }
        Ok(())
    }

    fn make_pools(
        &mut self,
        options: &Options,
        found: &Description,
        queues: Queues,
    ) -> Result<(), PortError> {
        let cache = pool::cache_most();
        let buffers = options.buffers(cache);
        let least = u32::from(self.receive_ring) * options.queues_per_pool();
        if buffers <= least {
            return Err(PortError::Failed(format!(
                "--pool-size {buffers}: the receive rings that a pool serves hold {least} alone"
            )));
        }
        let count = u32::from(queues.receive) / options.queues_per_pool().max(1);
        for _ in 0..count.max(1) {
            self.pools
                .push(Pool::new(&self.eal, buffers, found.socket)?);
        }
        if let Some(buffers) = queues.transmit_buffers {
            for _ in 0..queues.transmit {
                self.transmit_pools
                    .push(Pool::new(&self.eal, buffers, found.socket)?);
            }
        }
        Ok(())
    }

    /// The kinds of packets that are to be hashed, and the key; none where the device cannot.
    fn plan_rss(&mut self, options: RssOptions, found: &Description) -> (u64, Vec<u8>) {
        let fields = match options.fields {
            RssFields::FiveTuple => 0,
            RssFields::Addresses => 1,
            RssFields::Source => 2,
            RssFields::Destination => 3,
        };
        let (mut any, mut ports_too) = (0, 0);
        // SAFETY: the port exists.
        let types =
            unsafe { shim::flowatch_dpdk_rss(self.port, fields, &raw mut any, &raw mut ports_too) };
        self.rss = match (types, any) {
            (0, 0) => Rss::NotOffered,
            (0, _) => Rss::Offered,
            _ => Rss::Configured {
                symmetric: options.symmetric,
            },
        };
        if types == 0 {
            return (0, Vec::new());
        }
        let length = match found.rss_key_bytes {
            // Its own key may be of any length.
            0 if !options.symmetric => return (types, Vec::new()),
            0 => KEY_BYTES,
            bytes => usize::from(bytes),
        };
        let pattern: &[u8] = if options.symmetric {
            &SYMMETRIC
        } else {
            // The one by which hashes made in software are the same.
            &MICROSOFT_KEY
        };
        (
            types,
            pattern.iter().copied().cycle().take(length).collect(),
        )
    }

    /// The pool of a receive queue.
    pub(super) fn pool(&self, queue: usize) -> &Pool {
        &self.pools[queue % self.pools.len()]
    }

    /// The pool of a transmit queue that frames are sent on.
    pub(super) fn transmit_pool(&self, queue: u16) -> &Pool {
        &self.transmit_pools[usize::from(queue)]
    }

    /// Whether its rings go when the peer does: what the shim asks of who reads or sends.
    #[inline]
    pub(super) fn rings_go(&self) -> c_int {
        c_int::from(self.staying.is_some())
    }

    /// Whether the device is a card, which takes its time to tell what it has counted.
    pub(super) fn is_card(&self) -> bool {
        self.name.kind() == Kind::Pci
    }

    /// Whether the link is up, where the device says so; an error when it has gone.
    pub(super) fn is_up(&self) -> Result<Option<bool>, PortError> {
        // SAFETY: the port is open as long as `self` is.
        match unsafe { shim::flowatch_dpdk_link(self.port) } {
            0 => Ok(Some(false)),
            1 => Ok(Some(true)),
            error if [libc::EIO, libc::ENODEV].contains(&-error) => Err(PortError::Failed(
                format!("{}: the device was removed", self.name),
            )),
            _ => Ok(None),
        }
    }

    fn check(&self, what: &str, result: c_int) -> Result<(), PortError> {
        if result == 0 {
            Ok(())
        } else {
            Err(self.failed(what, result))
        }
    }

    fn failed(&self, what: &str, error: c_int) -> PortError {
        error_hint::failed(&self.name, what, &eal::news(), error)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut open = control();
        // SAFETY: the queues share `self`, and the port was opened by it alone, so that nobody receives
        // or sends any more.
        unsafe { shim::flowatch_dpdk_close_port(self.port, c_int::from(self.made)) };
        open.retain(|port| *port != self.port);
    }
}

/// Keeps from the terminal what a library below a driver prints there.
fn quietly<T>(name: &DeviceName, work: impl FnOnce() -> T) -> T {
    if !name.name().starts_with(PRINTING) {
        return work();
    }
    let (result, printed) = captured(work);
    eal::keep(&printed);
    result
}

/// The port of a device, and whether it was made for this.
fn find(name: &DeviceName) -> Result<(u16, bool), PortError> {
    // What was said before is not about this device.
    drop(eal::news());
    if let Kind::Port(number) = name.kind() {
        // SAFETY: any number may be asked for.
        return if unsafe { shim::flowatch_dpdk_is_port(number) } != 0 {
            Ok((number, false))
        } else {
            Err(error_hint::of_device(name, "", -libc::ENODEV))
        };
    }
    if let Some(port) = only_port(name)? {
        return Ok((port, false));
    }
    device_arguments::make_way(name);
    let whole = name.whole_c();
    // SAFETY: a string with its end.
    let result = quietly(name, || unsafe {
        shim::flowatch_dpdk_probe(whole.as_ptr())
    });
    let port = if result == 0 || -result == libc::EEXIST {
        only_port(name)?
    } else {
        None
    };
    port.map(|port| (port, true))
        .ok_or_else(|| error_hint::of_device(name, &eal::news(), result))
}

/// The port of a device that is there; an error when it has several.
fn only_port(name: &DeviceName) -> Result<Option<u16>, PortError> {
    let mut ports = [0; PORTS];
    // SAFETY: a string with its end, and room for as many ports as is said.
    let count = unsafe {
        shim::flowatch_dpdk_ports(name.name_c().as_ptr(), ports.as_mut_ptr(), PORTS as c_int)
    };
    match count {
        0 => Ok(None),
        1 => Ok(Some(ports[0])),
        _ => {
            let numbers: Vec<_> = ports[..PORTS.min(count as usize)]
                .iter()
                .map(|port| format!("dpdk:{port}"))
                .collect();
            Err(PortError::Failed(format!(
                "{name} has {count} ports: name the one that is meant ({})",
                numbers.join(", ")
            )))
        }
    }
}

/// What a device is, if it has so many receive queues.
fn describe_with(name: &DeviceName, port: u16, queues: u16) -> Result<Description, PortError> {
    let found = describe(port)
        .map_err(|error| error_hint::failed(name, "be asked what it is", &eal::news(), error))?;
    if queues > 1 && found.driver == MEMIF {
        return Err(PortError::Failed(format!(
            "{name}: no --queues {queues}: {MEMIF} does not tell how many rings its peer has connected, and on the \
             queues beyond these it delivers the first one's frames again; use --queues 1 (and --model pipeline \
             --monitors {queues})"
        )));
    }
    let most = found.receive_queues_most;
    if queues > most {
        return Err(PortError::Failed(format!(
            "{name}: it has {most} receive queue{} at most (driver {}), so no --queues {queues}",
            if most == 1 { "" } else { "s" },
            found.driver
        )));
    }
    Ok(found)
}

fn describe(port: u16) -> Result<Description, c_int> {
    let mut driver = [0u8; 64];
    let (mut receive_queues_most, mut rss_key_bytes, mut socket) = (0, 0, 0);
    // SAFETY: there is room for everything, as long as is said.
    let result = unsafe {
        shim::flowatch_dpdk_describe(
            port,
            driver.as_mut_ptr().cast(),
            driver.len(),
            &raw mut receive_queues_most,
            &raw mut rss_key_bytes,
            &raw mut socket,
        )
    };
    if result != 0 {
        return Err(result);
    }
    let end = driver.iter().position(|byte| *byte == 0).unwrap_or(0);
    Ok(Description {
        driver: String::from_utf8_lossy(&driver[..end]).into_owned(),
        receive_queues_most,
        rss_key_bytes,
        socket,
    })
}
