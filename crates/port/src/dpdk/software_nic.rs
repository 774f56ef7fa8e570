//! A network card made of software: what is put on its wire is divided over receive queues as a card
//! with receive-side scaling does it, and every frame that finds no place is counted.
//!
//! ```text
//! wire (a Transmit) ─► hash of the frame ─► redirection table (128) ─► queue: free descriptor? ─no─► missed
//!                                                                        └► free buffer? ─no─► no buffer
//!                                                                             └► ring ─► port (a Port)
//! for each queue: offered = received + missed + no buffer
//! ```
//! The queues are rings that DPDK makes into a port (`net_ring`), so that a receiver runs the code
//! that it runs for a card. The wire waits for nobody: what is submitted is taken.

use std::ffi::CString;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use wire::toeplitz::MICROSOFT_KEY;

use super::device::{self, Device, Queues};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::{Options, Pools};
use super::receive::DpdkPort;
use super::shim;
use super::thread;
use crate::frame::{BURST, PortError};
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};

/// Entries of the redirection table.
pub const REDIRECTIONS: usize = 128;

/// The most queues.
pub const QUEUES_MAX: u16 = 16;

/// How a software card is made. The defaults are one queue of the paper's best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicOptions {
    /// Receive queues, at most [`QUEUES_MAX`].
    pub queues: u16,
    /// Frames that a queue holds.
    pub descriptors: u16,
    /// Who shares a pool of buffers.
    pub pools: Pools,
    /// Buffers of each pool; `None`: twice what its queues hold, and the caches.
    pub pool_size: Option<u32>,
    /// Frames that a receiver asks for at a time.
    pub batch: usize,
    /// How long a receiver polls an empty queue before it says that there is nothing.
    pub patience: Duration,
    /// The key of the hashes that will be given with the frames.
    pub rss_key: Vec<u8>,
}

impl Default for NicOptions {
    fn default() -> Self {
        let options = Options::default();
        Self {
            queues: 1,
            descriptors: options.receive_ring,
            pools: options.pools,
            pool_size: None,
            batch: options.batch,
            patience: options.patience,
            rss_key: MICROSOFT_KEY.to_vec(),
        }
    }
}

/// What became of the frames of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Frames that the redirection table gave to the queue.
    pub offered: u64,
    /// Frames that were put into it, and their bytes.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Frames that found it full.
    pub missed: u64,
    /// Frames for which there was no buffer.
    pub no_buffer: u64,
}

/// The same, as the wire shows them to others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SharedCounts {
    offered: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    missed: AtomicU64,
    no_buffer: AtomicU64,
}

impl SharedCounts {
    /// Only the wire writes.
    fn show(&self, counts: &QueueCounts) {
        for (place, count) in [
            (&self.offered, counts.offered),
            (&self.received, counts.received),
            (&self.received_bytes, counts.received_bytes),
            (&self.missed, counts.missed),
            (&self.no_buffer, counts.no_buffer),
        ] {
            place.store(count, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> QueueCounts {
        let load = |place: &AtomicU64| place.load(Ordering::Relaxed);
        QueueCounts {
            offered: load(&self.offered),
            received: load(&self.received),
            received_bytes: load(&self.received_bytes),
            missed: load(&self.missed),
            no_buffer: load(&self.no_buffer),
        }
    }
}

/// A ring that is a receive queue.
#[derive(Debug)]
pub(super) struct QueueRing {
    ring: NonNull<shim::Ring>,
    pub(super) counts: SharedCounts,
    _eal: Eal,
}

// SAFETY: the ring is written by the wire and read by the queue's port, one thread each; its number
// of frames may be asked by any.
unsafe impl Send for QueueRing {}
// SAFETY: as above.
unsafe impl Sync for QueueRing {}

impl QueueRing {
    fn new(eal: &Eal, name: &str, size: u16) -> Result<Self, PortError> {
        let name = CString::new(name).unwrap_or_default();
        let mut error = 0;
        // SAFETY: the EAL runs, the name is a string with its end, and is copied.
        let ring = unsafe {
            shim::flowatch_dpdk_make_ring(name.as_ptr(), u32::from(size), &raw mut error)
        };
        let ring = NonNull::new(ring).ok_or_else(|| {
            let error = std::io::Error::from_raw_os_error(error);
            PortError::Failed(format!("DPDK has no room for a ring of {size}: {error}"))
        })?;
        Ok(Self {
            ring,
            counts: SharedCounts::default(),
            _eal: eal.clone(),
        })
    }

    /// Frames in it.
    pub(super) fn occupancy(&self) -> usize {
        // SAFETY: the ring is there as long as `self`.
        let count = unsafe { shim::flowatch_dpdk_ring_count(self.ring.as_ptr()) };
        count as usize
    }
}

impl Drop for QueueRing {
    fn drop(&mut self) {
        // SAFETY: wire and port hold the ring, so neither is left. Buffers that lie in it go with
        // their pool.
        unsafe { shim::flowatch_dpdk_free_ring(self.ring.as_ptr()) };
    }
}

/// Makes a card: its wire, and a port for each of its queues.
///
/// # Errors
/// When DPDK has no room for it.
pub fn software_nic(eal: &Eal, options: &NicOptions) -> Result<(Wire, Vec<DpdkPort>), PortError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let queues = options.queues;
    if !(1..=QUEUES_MAX).contains(&queues) || options.descriptors == 0 {
        return Err(PortError::Failed(format!(
            "a software card has 1 to {QUEUES_MAX} queues of at least one descriptor"
        )));
    }
    let name = format!("nic{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let rings: Vec<Arc<QueueRing>> = (0..queues)
        .map(|queue| {
            let name = format!("{name}-{queue}");
            QueueRing::new(eal, &name, options.descriptors).map(Arc::new)
        })
        .collect::<Result<_, _>>()?;
    let mut pointers: Vec<_> = rings.iter().map(|ring| ring.ring.as_ptr()).collect();
    let port_name = CString::new(name.as_str()).unwrap_or_default();
    let mut open = device::control();
    // SAFETY: the rings are there, as many as is said, and outlive the port.
    let port = unsafe {
        shim::flowatch_dpdk_port_of_rings(
            port_name.as_ptr(),
            pointers.as_mut_ptr(),
            pointers.len() as u32,
        )
    };
    let Ok(port) = u16::try_from(port) else {
        return Err(PortError::Failed(format!(
            "DPDK cannot make a port of rings: {}",
            std::io::Error::from_raw_os_error(-port)
        )));
    };
    open.push(port);
    drop(open);
    let receive = Options {
        queues,
        batch: options.batch,
        receive_ring: options.descriptors,
        pools: options.pools,
        pool_size: options.pool_size,
        patience: options.patience,
        ..Options::default()
    };
    let device = Device::of_rings(
        eal,
        DeviceName::of_software(&name),
        port,
        &receive,
        Queues::to_receive(queues),
        &options.rss_key,
    )?;
    let ports = (0..queues)
        .zip(&rings)
        .map(|(queue, ring)| DpdkPort::of_ring(&device, queue, &receive, Arc::clone(ring)))
        .collect();
    let wire = Wire {
        name: device.name.to_string(),
        memory: SlotMemory::new(),
        redirections: std::array::from_fn(|entry| (entry % usize::from(queues)) as u8),
        steered: vec![Steered::default(); usize::from(queues)],
        counts: vec![QueueCounts::default(); usize::from(queues)],
        rings,
        device,
        sent: (0, 0),
    };
    Ok((wire, ports))
}

/// The side of a software card that frames come in from.
pub struct Wire {
    name: String,
    memory: SlotMemory,
    redirections: [u8; REDIRECTIONS],
    /// For each queue, its frames of the burst at hand.
    steered: Vec<Steered>,
    counts: Vec<QueueCounts>,
    sent: (u64, u64),
    /// Before the rings: the port reads them.
    device: Arc<Device>,
    rings: Vec<Arc<QueueRing>>,
}

// SAFETY: the pointers in `steered` point into `memory`, which moves with them.
unsafe impl Send for Wire {}

/// Frames of a burst that go to one queue.
#[derive(Clone)]
struct Steered {
    count: usize,
    data: [*const u8; BURST],
    lengths: [u32; BURST],
    hashes: [u32; BURST],
}

impl Default for Steered {
    fn default() -> Self {
        Self {
            count: 0,
            data: [ptr::null(); BURST],
            lengths: [0; BURST],
            hashes: [0; BURST],
        }
    }
}

impl Wire {
    /// Replaces the redirection table: the queue of each value of the hash's last seven bits.
    ///
    /// # Errors
    /// When a queue is not there.
    pub fn redirect(&mut self, queues: [u8; REDIRECTIONS]) -> Result<(), PortError> {
        if let Some(queue) = queues
            .iter()
            .find(|queue| usize::from(**queue) >= self.rings.len())
        {
            return Err(PortError::Failed(format!(
                "{}: there is no queue {queue} to redirect to",
                self.name
            )));
        }
        self.redirections = queues;
        Ok(())
    }

    /// What became of the frames of each queue.
    #[must_use]
    pub fn counts(&self) -> &[QueueCounts] {
        &self.counts
    }

    /// Divides the first `count` frames over the queues.
    fn steer(&mut self, count: usize) {
        for steered in &mut self.steered {
            steered.count = 0;
        }
        for index in 0..count {
            let (bytes, _, hash) = self.memory.frame(index);
            let queue = self.redirections[hash as usize % REDIRECTIONS];
            let steered = &mut self.steered[usize::from(queue)];
            let place = steered.count;
            steered.data[place] = bytes.as_ptr();
            steered.lengths[place] = bytes.len() as u32;
            steered.hashes[place] = hash;
            steered.count = place + 1;
        }
    }

    /// Hands its frames to a queue.
    fn deliver(&mut self, queue: usize) {
        let (steered, ring) = (&self.steered[queue], &self.rings[queue]);
        if steered.count == 0 {
            return;
        }
        let mut no_buffer = 0;
        // SAFETY: the frames lie in the slots' memory, which nobody writes now, and are no longer
        // than a buffer: `reserve` sees to it, and what the room of a slot is rounded up to is a part
        // of a buffer's (the shim asserts it); only this wire fills the ring.
        let delivered = unsafe {
            shim::flowatch_dpdk_deliver(
                ring.ring.as_ptr(),
                self.device.pool(queue).as_ptr(),
                steered.count as u32,
                steered.data.as_ptr(),
                steered.lengths.as_ptr(),
                steered.hashes.as_ptr(),
                &raw mut no_buffer,
            )
        } as usize;
        let lengths = &steered.lengths[..delivered];
        let counts = &mut self.counts[queue];
        counts.offered += steered.count as u64;
        counts.received += delivered as u64;
        counts.received_bytes += lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        counts.no_buffer += u64::from(no_buffer);
        counts.missed += (steered.count - delivered) as u64 - u64::from(no_buffer);
        ring.counts.show(counts);
    }
}

impl Transmit for Wire {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        // SAFETY: a pool of frames.
        let most = unsafe { shim::flowatch_dpdk_buffer_room(self.device.pool(0).as_ptr()) };
        if room > most as usize {
            return Err(PortError::Failed(format!(
                "{}: a frame of {room} bytes does not fit a buffer of {most}",
                self.name
            )));
        }
        self.memory.lend(count, room)
    }

    /// Takes all of them: a wire does not wait.
    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        thread::enter();
        let count = count.min(self.memory.lent());
        self.steer(count);
        for queue in 0..self.rings.len() {
            self.deliver(queue);
        }
        let bytes: usize = (0..count).map(|index| self.memory.length(index)).sum();
        self.sent.0 += count as u64;
        self.sent.1 += bytes as u64;
        self.memory.take(count, count);
        Ok(count)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn sent(&self) -> (u64, u64) {
        self.sent
    }

    fn name(&self) -> &str {
        &self.name
    }
}
