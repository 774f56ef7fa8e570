//! The ring of a software NIC's receive queue: its wire writes to it, the queue's port reads from it.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::eal::Eal;
use super::shim;
use crate::frame::PortError;

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Frames that the indirection table assigned to the queue.
    pub offered: u64,
    /// Frames stored in the queue.
    pub received: u64,
    /// Bytes of the frames stored.
    pub received_bytes: u64,
    /// Frames dropped because the queue was full.
    pub missed: u64,
    /// Frames dropped because no buffer was free.
    pub no_buffer: u64,
}

/// Counters of a queue, as the wire publishes them to the receiver.
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
    /// Publishes the counters; only the wire calls it.
    pub(super) fn publish(&self, counts: &QueueCounts) {
        for (counter, count) in [
            (&self.offered, counts.offered),
            (&self.received, counts.received),
            (&self.received_bytes, counts.received_bytes),
            (&self.missed, counts.missed),
            (&self.no_buffer, counts.no_buffer),
        ] {
            counter.store(count, Ordering::Relaxed);
        }
    }

    pub(super) fn load(&self) -> QueueCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        QueueCounts {
            offered: load(&self.offered),
            received: load(&self.received),
            received_bytes: load(&self.received_bytes),
            missed: load(&self.missed),
            no_buffer: load(&self.no_buffer),
        }
    }
}

/// The ring of a receive queue.
#[derive(Debug)]
pub(super) struct QueueRing {
    ring: NonNull<shim::Ring>,
    pub(super) counts: SharedCounts,
    _eal: Eal,
}

// SAFETY: only the wire writes to the ring and only the queue's port reads from it, one thread each;
// any thread may query its number of frames.
unsafe impl Send for QueueRing {}
// SAFETY: as above.
unsafe impl Sync for QueueRing {}

impl QueueRing {
    pub(super) fn new(eal: &Eal, name: &str, size: u16) -> Result<Self, PortError> {
        let name = CString::new(name).unwrap_or_default();
        let mut error = 0;
        // SAFETY: the EAL runs; the name is NUL-terminated and copied.
        let ring = unsafe {
            shim::flowatch_dpdk_make_ring(name.as_ptr(), u32::from(size), &raw mut error)
        };
        let ring = NonNull::new(ring).ok_or_else(|| {
            let error = std::io::Error::from_raw_os_error(error);
            PortError::Failed(format!(
                "DPDK has no memory for a ring of {size} frames: {error}"
            ))
        })?;
        Ok(Self {
            ring,
            counts: SharedCounts::default(),
            _eal: eal.clone(),
        })
    }

    /// DPDK's ring, which lives as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut shim::Ring {
        self.ring.as_ptr()
    }

    /// Number of frames in the ring.
    pub(super) fn occupancy(&self) -> usize {
        // SAFETY: the ring lives as long as `self`.
        let count = unsafe { shim::flowatch_dpdk_ring_count(self.ring.as_ptr()) };
        count as usize
    }
}

impl Drop for QueueRing {
    fn drop(&mut self) {
        // SAFETY: wire and port hold the ring, so neither is left. Buffers in it are freed with their
        // pool.
        unsafe { shim::flowatch_dpdk_free_ring(self.ring.as_ptr()) };
    }
}
