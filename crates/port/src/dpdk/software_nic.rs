//! A software NIC: distributes the frames sent on its wire to receive queues as a NIC with RSS does,
//! and counts every frame that it drops.
//!
//! ```text
//! wire (a Transmit) ─► RSS hash of the frame ─► indirection table ─► queue: free descriptor? ─no─►
//! missed
//!                                                                        └► free buffer? ─no─► no buffer
//!                                                                             └► ring ─► port (a Port)
//! per queue: offered = received + missed + no buffer
//! ```
//! The queues are rings of a DPDK port (`net_ring`), so that a receiver runs the same code as for a
//! NIC. The wire does not wait: every submitted frame is accepted.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wire::toeplitz::MICROSOFT_KEY;

pub use super::queue_ring::QueueCounts;

use super::device::{self, Device, QueueConfig};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::{Options, Pools};
use super::queue_ring::QueueRing;
use super::receive::DpdkPort;
use super::shim;
use super::thread;
use crate::frame::{BURST, PortError};
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};

/// Number of entries of the indirection table.
pub const INDIRECTION_ENTRIES: usize = 128;

/// Maximum number of queues.
pub const QUEUES_MAX: u16 = 16;

/// Options of a software NIC. The defaults are one queue with the fastest settings of the FloWatcher
/// paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicOptions {
    /// Number of receive queues, at most [`QUEUES_MAX`].
    pub queues: u16,
    /// Capacity of a queue in frames.
    pub descriptors: u16,
    /// Which queues share a buffer pool.
    pub pools: Pools,
    /// Buffers of each pool; `None`: twice the descriptors of its queues, plus caches.
    pub pool_size: Option<u32>,
    /// Frames that a receiver requests at a time.
    pub batch: usize,
    /// How long a receiver polls an empty queue before it returns `Idle`.
    pub poll_timeout: Duration,
    /// RSS key of the hashes that come with the frames.
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
            poll_timeout: options.poll_timeout,
            rss_key: MICROSOFT_KEY.to_vec(),
        }
    }
}

/// Creates a software NIC; returns its wire and a port for each of its queues.
///
/// # Errors
/// If the options are invalid or DPDK has no memory for it.
pub fn software_nic(eal: &Eal, options: &NicOptions) -> Result<(Wire, Vec<DpdkPort>), PortError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let queues = options.queues;
    if !(1..=QUEUES_MAX).contains(&queues) || options.descriptors == 0 {
        return Err(PortError::Failed(format!(
            "a software NIC has 1 to {QUEUES_MAX} queues of at least one descriptor"
        )));
    }
    let name = format!("nic{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let rings: Vec<Arc<QueueRing>> = (0..queues)
        .map(|queue| {
            let name = format!("{name}-{queue}");
            QueueRing::new(eal, &name, options.descriptors).map(Arc::new)
        })
        .collect::<Result<_, _>>()?;
    let mut pointers: Vec<_> = rings.iter().map(|ring| ring.as_ptr()).collect();
    let port_name = CString::new(name.as_str()).unwrap_or_default();
    let mut open = device::lock_open_ports();
    // SAFETY: the array has the length given, and the rings outlive the port.
    let port = unsafe {
        shim::flowatch_dpdk_port_of_rings(
            port_name.as_ptr(),
            pointers.as_mut_ptr(),
            pointers.len() as u32,
        )
    };
    let Ok(port) = u16::try_from(port) else {
        return Err(PortError::Failed(format!(
            "DPDK cannot create a port from rings: {}",
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
        poll_timeout: options.poll_timeout,
        ..Options::default()
    };
    let device = Device::from_rings(
        eal,
        DeviceName::for_software_nic(&name),
        port,
        &receive,
        QueueConfig::receive_only(queues),
        &options.rss_key,
    )?;
    let ports = (0..queues)
        .zip(&rings)
        .map(|(queue, ring)| DpdkPort::for_ring(&device, queue, &receive, Arc::clone(ring)))
        .collect();
    let wire = Wire {
        name: device.name.to_string(),
        memory: SlotMemory::new(),
        indirection_table: std::array::from_fn(|entry| (entry % usize::from(queues)) as u8),
        queue_batches: vec![QueueBatch::default(); usize::from(queues)],
        counts: vec![QueueCounts::default(); usize::from(queues)],
        rings,
        device,
        sent: (0, 0),
    };
    Ok((wire, ports))
}

/// The input of a software NIC: frames sent here arrive at its queues.
pub struct Wire {
    name: String,
    memory: SlotMemory,
    indirection_table: [u8; INDIRECTION_ENTRIES],
    /// The frames of the current burst for each queue.
    queue_batches: Vec<QueueBatch>,
    counts: Vec<QueueCounts>,
    sent: (u64, u64),
    /// Declared before the rings, which its port reads.
    device: Arc<Device>,
    rings: Vec<Arc<QueueRing>>,
}

// SAFETY: the pointers in `queue_batches` point into `memory`, which has the same owner.
unsafe impl Send for Wire {}

/// The frames of a burst for one queue.
#[derive(Clone)]
struct QueueBatch {
    count: usize,
    data: [*const u8; BURST],
    lengths: [u32; BURST],
    hashes: [u32; BURST],
}

impl Default for QueueBatch {
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
    /// Replaces the indirection table: the queue for each value of the hash's low seven bits.
    ///
    /// # Errors
    /// If a queue does not exist.
    pub fn set_indirection_table(
        &mut self,
        queues: [u8; INDIRECTION_ENTRIES],
    ) -> Result<(), PortError> {
        if let Some(queue) = queues
            .iter()
            .find(|queue| usize::from(**queue) >= self.rings.len())
        {
            return Err(PortError::Failed(format!(
                "{}: no such queue in the indirection table: {queue}",
                self.name
            )));
        }
        self.indirection_table = queues;
        Ok(())
    }

    /// Counters of each queue.
    #[must_use]
    pub fn counts(&self) -> &[QueueCounts] {
        &self.counts
    }

    /// Distributes the first `count` frames to the queues.
    fn steer(&mut self, count: usize) {
        for batch in &mut self.queue_batches {
            batch.count = 0;
        }
        for index in 0..count {
            let (bytes, _, hash) = self.memory.frame(index);
            let queue = self.indirection_table[hash as usize % INDIRECTION_ENTRIES];
            let batch = &mut self.queue_batches[usize::from(queue)];
            let index_in_batch = batch.count;
            batch.data[index_in_batch] = bytes.as_ptr();
            batch.lengths[index_in_batch] = bytes.len() as u32;
            batch.hashes[index_in_batch] = hash;
            batch.count = index_in_batch + 1;
        }
    }

    /// Delivers the frames of a queue's batch to its ring.
    fn deliver(&mut self, queue: usize) {
        let (batch, ring) = (&self.queue_batches[queue], &self.rings[queue]);
        if batch.count == 0 {
            return;
        }
        let mut no_buffer = 0;
        // SAFETY: the frames are in the slots' memory, which is not written now. They fit into a
        // buffer: `reserve` checks the slot size, and slots are rounded up to cache lines, of which a
        // buffer holds whole ones (asserted in the shim). Only this wire writes to the ring.
        let delivered = unsafe {
            shim::flowatch_dpdk_deliver(
                ring.as_ptr(),
                self.device.pool(queue).as_ptr(),
                batch.count as u32,
                batch.data.as_ptr(),
                batch.lengths.as_ptr(),
                batch.hashes.as_ptr(),
                &raw mut no_buffer,
            )
        } as usize;
        let lengths = &batch.lengths[..delivered];
        let counts = &mut self.counts[queue];
        counts.offered += batch.count as u64;
        counts.received += delivered as u64;
        counts.received_bytes += lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        counts.no_buffer += u64::from(no_buffer);
        counts.missed += (batch.count - delivered) as u64 - u64::from(no_buffer);
        ring.counts.publish(counts);
    }
}

impl Transmit for Wire {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        // SAFETY: the pool is a mempool of mbufs.
        let max = unsafe { shim::flowatch_dpdk_buffer_room(self.device.pool(0).as_ptr()) };
        if slot_bytes > max as usize {
            return Err(PortError::Failed(format!(
                "{}: a frame of {slot_bytes} bytes does not fit into a buffer of {max} bytes",
                self.name
            )));
        }
        self.memory.reserve(count, slot_bytes)
    }

    /// Accepts all frames: the wire does not wait.
    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        thread::register();
        let count = count.min(self.memory.reserved());
        self.steer(count);
        for queue in 0..self.rings.len() {
            self.deliver(queue);
        }
        let bytes: usize = (0..count).map(|index| self.memory.length(index)).sum();
        self.sent.0 += count as u64;
        self.sent.1 += bytes as u64;
        self.memory.commit(count, count);
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
