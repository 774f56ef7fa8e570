//! A DPDK device: finds or creates it, configures, starts and closes it.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::toeplitz::MICROSOFT_KEY;

use super::eal::{self, Eal};
use super::name::{DeviceName, Kind};
use super::options::{Options, RssFields, RssOptions};
use super::output_capture::capture_output;
use super::pool::{self, Pool};
use super::ring_guard::RingGuard;
use super::{device_arguments, error_hint, shim};
use crate::frame::{PortError, Rss};

/// Maximum number of ports of a device.
const PORTS_MAX: usize = 8;

/// RSS key length of a device that does not report one.
const DEFAULT_KEY_BYTES: usize = 40;

/// The repeated pattern of the symmetric RSS key, under which both directions have the same hash (Woo
/// and Park 2012).
const SYMMETRIC_KEY_PATTERN: [u8; 2] = [0x6d, 0x5a];

/// Descriptors of an unused transmit queue.
const TRANSMIT_RING: u16 = 512;

/// This driver unmaps the rings of a peer that disconnects, and its queues beyond those that the peer
/// has connected read the ring of the first queue.
const MEMIF: &str = "net_memif";

/// The library of this driver (libbpf) prints on standard error.
const AF_XDP: &str = "net_af_xdp";

/// The open ports. A port can be opened only once, since closing one handle would close it for the
/// other. The lock is also held while devices are created, started or closed, which drivers expect to
/// be done by one thread at a time.
static OPEN_PORTS: Mutex<Vec<u16>> = Mutex::new(Vec::new());

pub(super) fn lock_open_ports() -> MutexGuard<'static, Vec<u16>> {
    OPEN_PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A started port, shared by its queues.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) name: DeviceName,
    /// Descriptors of each receive queue, as adjusted by the device.
    pub(super) receive_ring: u16,
    pub(super) rss: Rss,
    /// RSS key of the hash over addresses and ports, if it was set.
    pub(super) rss_key: Option<Vec<u8>>,
    /// Number of queues that have not ended.
    pub(super) active_queues: AtomicUsize,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
    /// Whether this process created the device and removes it at the end.
    created: bool,
    /// For a driver that unmaps rings of a peer: held until the port is closed.
    ring_guard: Option<RingGuard>,
    /// Pools of the receive queues. Freed after the port is closed, when it holds no more frames.
    pools: Vec<Pool>,
    /// A pool for each transmit queue in use. A device keeps the buffers of sent frames, so that these
    /// are also freed after the port is closed, not when the sender is dropped.
    transmit_pools: Vec<Pool>,
    /// The RSS key in the port's configuration: DPDK keeps a pointer to it, for drivers that restart.
    configured_key: Vec<u8>,
    eal: Eal,
}

/// Properties of a device.
struct DeviceInfo {
    driver: String,
    max_receive_queues: u16,
    rss_key_bytes: u8,
    /// NUMA node; negative: any.
    socket: c_int,
}

/// Queues to configure.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueConfig {
    pub(super) receive: u16,
    pub(super) transmit: u16,
    /// Descriptors of each transmit queue.
    pub(super) transmit_ring: u16,
    /// Buffers in the pool of each transmit queue; `None` if nothing is sent.
    pub(super) transmit_buffers: Option<u32>,
}

impl QueueConfig {
    /// For receiving only. Some drivers do not start without a transmit queue.
    pub(super) fn receive_only(count: u16) -> Self {
        Self {
            receive: count,
            transmit: 1,
            transmit_ring: TRANSMIT_RING,
            transmit_buffers: None,
        }
    }
}

impl Device {
    /// Finds or creates a device and starts it.
    pub(super) fn open(
        eal: &Eal,
        name: &DeviceName,
        options: &Options,
        queues: QueueConfig,
    ) -> Result<Arc<Self>, PortError> {
        let mut open = lock_open_ports();
        let (port, created) = find_or_create(name)?;
        if open.contains(&port) {
            return Err(PortError::Failed(format!(
                "{name}: the device is already open in this process; specify it once"
            )));
        }
        open.push(port);
        let mut device = Self::unstarted(eal, name.clone(), port, created, options);
        let started = capture_driver_output(name, || device.start(options, queues));
        // A device that did not start is closed on drop, which takes the lock.
        drop(open);
        started.map(|()| Arc::new(device))
    }

    /// Checks that a device has the requested number of receive queues. A device created for this is
    /// removed again, so that it receives nothing before it is read.
    pub(super) fn check_queues(
        _eal: &Eal,
        name: &DeviceName,
        options: &Options,
    ) -> Result<(), PortError> {
        let _lock = lock_open_ports();
        let (port, created) = find_or_create(name)?;
        let checked = describe_for(name, port, options.queues).map(drop);
        if created {
            // SAFETY: the port was created here and has no other user; `_eal` keeps the EAL running.
            unsafe { shim::flowatch_dpdk_close_port(port, 1) };
        }
        checked
    }

    /// Starts a port that was created from rings and is in the list of open ports. Its frames have
    /// hashes under `rss_key`.
    pub(super) fn from_rings(
        eal: &Eal,
        name: DeviceName,
        port: u16,
        options: &Options,
        queues: QueueConfig,
        rss_key: &[u8],
    ) -> Result<Arc<Self>, PortError> {
        let mut device = Self::unstarted(eal, name, port, true, options);
        let lock = lock_open_ports();
        let started = device.start(options, queues);
        drop(lock);
        started?;
        let symmetric = rss_key
            .chunks(2)
            .all(|pair| SYMMETRIC_KEY_PATTERN.starts_with(pair));
        device.rss = Rss::Configured { symmetric };
        device.rss_key = Some(rss_key.to_vec());
        Ok(Arc::new(device))
    }

    fn unstarted(eal: &Eal, name: DeviceName, port: u16, created: bool, options: &Options) -> Self {
        Self {
            port,
            name,
            receive_ring: options.receive_ring,
            rss: Rss::NotOffered,
            rss_key: None,
            active_queues: AtomicUsize::new(0),
            notices: Vec::new(),
            created,
            ring_guard: None,
            pools: Vec::new(),
            transmit_pools: Vec::new(),
            configured_key: Vec::new(),
            eal: eal.clone(),
        }
    }

    fn start(&mut self, options: &Options, mut queues: QueueConfig) -> Result<(), PortError> {
        let info = describe_for(&self.name, self.port, queues.receive)?;
        let (types, key) = self.plan_rss(options.rss, &info);
        self.configured_key = key;
        let key = &mut self.configured_key;
        let mut ring = options.receive_ring;
        // SAFETY: the port exists; the key is null or has the length given, and stays in place until
        // the port is closed.
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
                "{}: a receive queue of this device has {ring} descriptors instead of {}",
                self.name, options.receive_ring
            ));
        }
        self.receive_ring = ring;
        self.make_pools(options, &info, queues)?;
        for queue in 0..queues.receive {
            let pool = self.pool(queue.into());
            // SAFETY: the queue is configured, and the pool outlives the port.
            let result =
                unsafe { shim::flowatch_dpdk_receive_queue(self.port, queue, ring, pool.as_ptr()) };
            self.check("set up a receive queue", result)?;
        }
        for queue in 0..queues.transmit {
            // SAFETY: the queue is configured.
            let result = unsafe {
                shim::flowatch_dpdk_transmit_queue(self.port, queue, queues.transmit_ring)
            };
            self.check("set up a transmit queue", result)?;
        }
        if info.driver == MEMIF {
            let guard = RingGuard::new(&self.eal);
            self.ring_guard = Some(guard.map_err(|error| self.failed("guard its rings", error))?);
        }
        // SAFETY: all queues are set up.
        let result = unsafe { shim::flowatch_dpdk_start_port(self.port) };
        self.check("start", result)?;
        // A virtual device may not support it: all frames reach it anyway.
        // SAFETY: the port is started.
        let result = unsafe { shim::flowatch_dpdk_promiscuous(self.port) };
        if result != 0 && -result != libc::ENOTSUP {
            self.notices.push(format!(
                "{}: promiscuous mode is off, so frames addressed to other hosts may be missing: {}",
                self.name,
                std::io::Error::from_raw_os_error(-result)
            ));
        }
        Ok(())
    }

    fn make_pools(
        &mut self,
        options: &Options,
        info: &DeviceInfo,
        queues: QueueConfig,
    ) -> Result<(), PortError> {
        let cache = pool::cache_max();
        let buffers = options.buffers(cache);
        let descriptors = u32::from(self.receive_ring) * options.queues_per_pool();
        if buffers <= descriptors {
            return Err(PortError::Failed(format!(
                "--pool-size {buffers}: must exceed the {descriptors} descriptors of the receive queues of a pool"
            )));
        }
        let count = u32::from(queues.receive) / options.queues_per_pool().max(1);
        for _ in 0..count.max(1) {
            self.pools.push(Pool::new(&self.eal, buffers, info.socket)?);
        }
        if let Some(buffers) = queues.transmit_buffers {
            for _ in 0..queues.transmit {
                self.transmit_pools
                    .push(Pool::new(&self.eal, buffers, info.socket)?);
            }
        }
        Ok(())
    }

    /// Returns the RSS types to configure and the key; 0 and no key if the device cannot hash the
    /// requested fields.
    fn plan_rss(&mut self, options: RssOptions, info: &DeviceInfo) -> (u64, Vec<u8>) {
        let fields = match options.fields {
            RssFields::FiveTuple => 0,
            RssFields::Addresses => 1,
            RssFields::Source => 2,
            RssFields::Destination => 3,
        };
        let (mut any, mut with_ports) = (0, 0);
        // SAFETY: the port exists.
        let types = unsafe {
            shim::flowatch_dpdk_rss(self.port, fields, &raw mut any, &raw mut with_ports)
        };
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
        let length = match info.rss_key_bytes {
            // The device uses its own key.
            0 if !options.symmetric => return (types, Vec::new()),
            0 => DEFAULT_KEY_BYTES,
            bytes => usize::from(bytes),
        };
        let pattern: &[u8] = if options.symmetric {
            &SYMMETRIC_KEY_PATTERN
        } else {
            // The same key as the software hash.
            &MICROSOFT_KEY
        };
        (
            types,
            pattern.iter().copied().cycle().take(length).collect(),
        )
    }

    /// Returns the pool of a receive queue.
    pub(super) fn pool(&self, queue: usize) -> &Pool {
        &self.pools[queue % self.pools.len()]
    }

    /// Returns the pool of a transmit queue in use.
    pub(super) fn transmit_pool(&self, queue: u16) -> &Pool {
        &self.transmit_pools[usize::from(queue)]
    }

    /// The argument `guarded` of the shim: whether the driver unmaps rings of a peer.
    #[inline]
    pub(super) fn guards_rings(&self) -> c_int {
        c_int::from(self.ring_guard.is_some())
    }

    /// Whether the device is hardware, whose counters are slow to read.
    pub(super) fn is_card(&self) -> bool {
        self.name.kind() == Kind::Pci
    }

    /// Returns whether the link is up, if the device reports it.
    ///
    /// # Errors
    /// If the device was removed.
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

    fn check(&self, action: &str, result: c_int) -> Result<(), PortError> {
        if result == 0 {
            Ok(())
        } else {
            Err(self.failed(action, result))
        }
    }

    fn failed(&self, action: &str, error: c_int) -> PortError {
        error_hint::failed(&self.name, action, &eal::new_log(), error)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut open = lock_open_ports();
        // SAFETY: the port was opened once, and its queues hold `self`, so that none is in use any
        // more.
        unsafe { shim::flowatch_dpdk_close_port(self.port, c_int::from(self.created)) };
        open.retain(|port| *port != self.port);
    }
}

/// Runs `work` and captures what the library of a driver prints.
fn capture_driver_output<T>(name: &DeviceName, work: impl FnOnce() -> T) -> T {
    if !name.name().starts_with(AF_XDP) {
        return work();
    }
    let (result, printed) = capture_output(work);
    eal::keep_log(&printed);
    result
}

/// Returns the port of a device, and whether it was created by this call.
fn find_or_create(name: &DeviceName) -> Result<(u16, bool), PortError> {
    // Discard older log lines, which are not about this device.
    drop(eal::new_log());
    if let Kind::Port(number) = name.kind() {
        // SAFETY: any number is valid here.
        return if unsafe { shim::flowatch_dpdk_is_port(number) } != 0 {
            Ok((number, false))
        } else {
            Err(error_hint::of_device(name, "", -libc::ENODEV))
        };
    }
    if let Some(port) = single_port(name)? {
        return Ok((port, false));
    }
    device_arguments::remove_stale_socket(name);
    let whole = name.full_c();
    // SAFETY: a NUL-terminated string.
    let result = capture_driver_output(name, || unsafe {
        shim::flowatch_dpdk_probe(whole.as_ptr())
    });
    let port = if result == 0 || -result == libc::EEXIST {
        single_port(name)?
    } else {
        None
    };
    port.map(|port| (port, true))
        .ok_or_else(|| error_hint::of_device(name, &eal::new_log(), result))
}

/// Returns the port of an existing device.
///
/// # Errors
/// If the device has several ports.
fn single_port(name: &DeviceName) -> Result<Option<u16>, PortError> {
    let mut ports = [0; PORTS_MAX];
    // SAFETY: a NUL-terminated string, and an array of the length given.
    let count = unsafe {
        shim::flowatch_dpdk_ports(
            name.name_c().as_ptr(),
            ports.as_mut_ptr(),
            PORTS_MAX as c_int,
        )
    };
    match count {
        0 => Ok(None),
        1 => Ok(Some(ports[0])),
        _ => {
            let numbers: Vec<_> = ports[..PORTS_MAX.min(count as usize)]
                .iter()
                .map(|port| format!("dpdk:{port}"))
                .collect();
            Err(PortError::Failed(format!(
                "{name} has {count} ports; specify one of them ({})",
                numbers.join(", ")
            )))
        }
    }
}

/// Returns the properties of a device.
///
/// # Errors
/// If it has fewer than `queues` receive queues.
fn describe_for(name: &DeviceName, port: u16, queues: u16) -> Result<DeviceInfo, PortError> {
    let info = describe(port)
        .map_err(|error| error_hint::failed(name, "be queried", &eal::new_log(), error))?;
    if queues > 1 && info.driver == MEMIF {
        return Err(PortError::Failed(format!(
            "{name}: --queues {queues} is not supported: {MEMIF} does not report how many rings its peer has \
             connected, and its other queues deliver the frames of the first queue again; use --queues 1 (and \
             --model pipeline --monitors {queues})"
        )));
    }
    let max = info.max_receive_queues;
    if queues > max {
        return Err(PortError::Failed(format!(
            "{name}: --queues {queues}: the device has at most {max} receive queue{} (driver {})",
            if max == 1 { "" } else { "s" },
            info.driver
        )));
    }
    Ok(info)
}

fn describe(port: u16) -> Result<DeviceInfo, c_int> {
    let mut driver = [0u8; 64];
    let (mut receive_queues_most, mut rss_key_bytes, mut socket) = (0, 0, 0);
    // SAFETY: the buffer has the length given, and the other pointers are valid.
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
    Ok(DeviceInfo {
        driver: String::from_utf8_lossy(&driver[..end]).into_owned(),
        max_receive_queues: receive_queues_most,
        rss_key_bytes,
        socket,
    })
}
