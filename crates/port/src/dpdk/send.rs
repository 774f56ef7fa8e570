//! A transmit queue of a DPDK device as a [`Transmit`].

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{Device, QueueConfig};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::{Options, SendOptions};
use super::pool::{Pool, cache_max};
use super::receive::DpdkPort;
use super::shim::{self, Mbuf};
use super::thread;
use crate::frame::{BURST, PortError};
use crate::link_watch::LinkWatch;
use crate::transmit::{Slot, Transmit};

/// Time between two checks of a link while waiting for it.
const LINK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait for sent frames to leave: a NIC must transmit its ring, a peer must read its ring
/// (a memif discards it when one side disconnects).
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// Descriptors of the unused receive queue of a device that only sends.
const MIN_RECEIVE_RING: u16 = 512;

/// A transmit queue of a DPDK device.
///
/// Slots are buffers of the device: frames are not copied.
pub struct DpdkSender {
    buffers: Buffers,
    queue: u16,
    name: String,
    thread_registered: bool,
    frames: u64,
    bytes: u64,
    link: LinkWatch,
    /// Declared after the buffers, which are from its pools.
    device: Arc<Device>,
}

/// Allocated buffers.
struct Buffers {
    /// Number of buffers, at the front of the arrays.
    allocated: usize,
    /// Number of these that were submitted and not accepted.
    pending: usize,
    /// Number of slots reserved last.
    reserved: usize,
    /// Capacity of a buffer in bytes.
    frame_bytes_max: usize,
    buffers: Box<[*mut Mbuf; BURST]>,
    data: Box<[*mut u8; BURST]>,
    lengths: Box<[u32; BURST]>,
    /// The slots last reserved. The caller may have swapped their `bytes`, which are never used.
    slots: Box<[MaybeUninit<Slot<'static>>; BURST]>,
}

// SAFETY: the buffers are owned through these pointers, and DPDK lets any thread use them.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(frame_bytes_max: usize) -> Self {
        Self {
            allocated: 0,
            pending: 0,
            reserved: 0,
            frame_bytes_max,
            buffers: Box::new([ptr::null_mut(); BURST]),
            data: Box::new([ptr::null_mut(); BURST]),
            lengths: Box::new([0; BURST]),
            slots: Box::new([const { MaybeUninit::uninit() }; BURST]),
        }
    }

    /// Allocates buffers from the pool until there are `count`, or fewer if the pool is exhausted.
    fn allocate(&mut self, pool: &Pool, count: usize) {
        let mut wanted = count.min(BURST).saturating_sub(self.allocated);
        while wanted > 0 {
            // SAFETY: the arrays have `BURST` entries, of which the first `allocated` are in use.
            let got = unsafe {
                shim::flowatch_dpdk_allocate(
                    pool.as_ptr(),
                    self.buffers.as_mut_ptr().add(self.allocated),
                    self.data.as_mut_ptr().add(self.allocated),
                    wanted as u32,
                )
            } as usize;
            self.allocated += got;
            if got == wanted {
                break;
            }
            // The shim allocates all or none: try fewer.
            wanted /= 2;
        }
    }

    fn reserve(&mut self, count: usize) -> &mut [Slot<'_>] {
        let count = count.max(self.pending).min(self.allocated);
        for index in 0..count {
            // SAFETY: the buffer is allocated to this queue and has `frame_bytes_max` bytes from `data`
            // on. Nothing else refers to them while the slots live, which have the lifetime of a
            // mutable borrow of `self`.
            let bytes =
                unsafe { slice::from_raw_parts_mut(self.data[index], self.frame_bytes_max) };
            let length = if index < self.pending {
                self.lengths[index] as usize
            } else {
                self.frame_bytes_max
            };
            self.slots[index].write(Slot {
                bytes,
                length,
                time_ns: 0,
                rss_hash: 0,
            });
        }
        self.reserved = count;
        // SAFETY: the first `count` slots were written above. The types differ in a lifetime only, and
        // the `bytes` that remain in the slots after the borrow are never read.
        unsafe { slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast::<Slot<'_>>(), count) }
    }

    /// Records the lengths of the first `count` slots.
    fn record_lengths(&mut self, count: usize) {
        let slots = &self.slots[..count];
        for (length, slot) in self.lengths.iter_mut().zip(slots) {
            // SAFETY: reserved slots were written; the field is an integer.
            let written = unsafe { (*slot.as_ptr()).length };
            *length = written.min(self.frame_bytes_max) as u32;
        }
    }

    /// Of the `submitted` buffers, removes the first `accepted`; the others become pending.
    fn commit(&mut self, accepted: usize, submitted: usize) {
        self.buffers.copy_within(accepted..self.allocated, 0);
        self.data.copy_within(accepted..self.allocated, 0);
        self.lengths.copy_within(accepted..submitted, 0);
        self.allocated -= accepted;
        self.pending = submitted - accepted;
        self.reserved = 0;
    }

    fn free(&mut self) {
        if self.allocated > 0 {
            // SAFETY: the first `allocated` buffers belong to this queue.
            unsafe { shim::flowatch_dpdk_free(self.buffers.as_mut_ptr(), self.allocated as u32) };
        }
        (self.allocated, self.pending, self.reserved) = (0, 0, 0);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.free();
    }
}

impl DpdkSender {
    /// Opens a device for sending and returns a sender for each of its transmit queues. The link may
    /// still be down; see [`DpdkSender::wait_for_link`].
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used, configured or started; the message is one
    /// line.
    pub fn open(
        eal: &Eal,
        name: &DeviceName,
        options: &SendOptions,
    ) -> Result<Vec<Self>, PortError> {
        let receive = Options {
            receive_ring: MIN_RECEIVE_RING,
            ..Options::default()
        };
        let device = Device::open(eal, name, &receive, queues(1, options))?;
        Ok(Self::senders(&device, options))
    }

    /// Opens a device for both directions; returns ports for its receive queues and senders for its
    /// transmit queues.
    ///
    /// # Errors
    /// As [`DpdkSender::open`].
    pub fn open_both(
        eal: &Eal,
        name: &DeviceName,
        receive: &Options,
        send: &SendOptions,
    ) -> Result<(Vec<DpdkPort>, Vec<Self>), PortError> {
        let device = Device::open(eal, name, receive, queues(receive.queues, send))?;
        let senders = Self::senders(&device, send);
        let ports = (0..receive.queues)
            .map(|queue| DpdkPort::new(&device, queue, receive))
            .collect();
        Ok((ports, senders))
    }

    fn senders(device: &Arc<Device>, options: &SendOptions) -> Vec<Self> {
        let senders = (0..options.queues).map(|queue| {
            let pool = device.transmit_pool(queue);
            // SAFETY: the pool is a mempool of mbufs.
            let frame_bytes_max = unsafe { shim::flowatch_dpdk_buffer_room(pool.as_ptr()) };
            Self {
                buffers: Buffers::new(frame_bytes_max as usize),
                queue,
                name: if options.queues > 1 {
                    format!("{}@{queue}", device.name)
                } else {
                    device.name.to_string()
                },
                thread_registered: false,
                frames: 0,
                bytes: 0,
                link: LinkWatch::new(),
                device: Arc::clone(device),
            }
        });
        senders.collect()
    }

    /// Waits until the link is up (on a memif: the peer has connected), at most for `timeout` and while
    /// `wait` returns true. Returns false if the link is still down.
    ///
    /// # Errors
    /// If the device was removed.
    pub fn wait_for_link(
        &mut self,
        timeout: Duration,
        mut wait: impl FnMut() -> bool,
    ) -> Result<bool, PortError> {
        let start = Instant::now();
        while self.device.is_up()? == Some(false) {
            if start.elapsed() >= timeout || !wait() {
                self.link.start_down(&self.device.name.to_string());
                return Ok(false);
            }
            std::thread::sleep(LINK_POLL_INTERVAL);
        }
        Ok(true)
    }
}

fn queues(receive: u16, options: &SendOptions) -> QueueConfig {
    QueueConfig {
        receive,
        transmit: options.queues,
        transmit_ring: options.ring,
        transmit_buffers: Some(options.buffers(cache_max())),
    }
}

impl Transmit for DpdkSender {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        if slot_bytes > self.buffers.frame_bytes_max {
            return Err(PortError::Failed(format!(
                "{}: a frame of {slot_bytes} bytes does not fit into a buffer of {} bytes",
                self.name, self.buffers.frame_bytes_max
            )));
        }
        if !self.thread_registered {
            // Here, since it must run on the sending thread.
            thread::register();
            self.thread_registered = true;
        }
        self.buffers
            .allocate(self.device.transmit_pool(self.queue), count);
        Ok(self.buffers.reserve(count))
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.buffers.reserved);
        self.buffers.record_lengths(count);
        // SAFETY: the port is started and has the queue, which no other thread uses; the first `count`
        // buffers belong to this queue, and the lengths do not exceed their capacity.
        let accepted = unsafe {
            shim::flowatch_dpdk_send(
                self.device.port,
                self.queue,
                self.device.guards_rings(),
                self.buffers.buffers.as_mut_ptr(),
                self.buffers.lengths.as_ptr(),
                count as u32,
            )
        } as usize;
        let accepted = accepted.min(count);
        self.frames += accepted as u64;
        let lengths = &self.buffers.lengths[..accepted];
        self.bytes += lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        self.buffers.commit(accepted, count);
        if self.link.is_due(accepted) {
            let is_down = self.device.is_up()? == Some(false);
            self.link.update(&self.device.name.to_string(), is_down);
        }
        Ok(accepted)
    }

    fn down_since(&self) -> Option<Instant> {
        self.link.down_since()
    }

    fn next_notice(&mut self) -> Option<String> {
        self.link.next_notice()
    }

    fn discard(&mut self) {
        self.buffers.free();
    }

    /// Waits until the device has freed the buffers of all frames, then a tenth of a second for a peer
    /// to read them: no device reports when that has happened.
    fn flush(&mut self) -> Result<(), PortError> {
        let start = Instant::now();
        let allocated = self.buffers.allocated as u32;
        loop {
            // SAFETY: the port has the queue, which no other thread uses.
            let in_use = unsafe {
                shim::flowatch_dpdk_clean_up_queue(
                    self.device.port,
                    self.queue,
                    self.device.guards_rings(),
                );
                shim::flowatch_dpdk_buffers_in_use(self.device.transmit_pool(self.queue).as_ptr())
            };
            if in_use <= allocated || start.elapsed() >= DRAIN_TIME {
                break;
            }
            std::thread::sleep(LINK_POLL_INTERVAL);
        }
        std::thread::sleep(DRAIN_TIME);
        Ok(())
    }

    /// When a peer disconnects, the memif driver unmaps the rings on a thread of its own, even while
    /// they are read; flowatch prevents that (`ring_guard.rs`), other receivers may not. Frames that
    /// the peer has not read are lost, and nothing reports how many those are.
    fn wait_for_peer_close(&mut self, timeout: Duration) -> Result<bool, PortError> {
        if !self.device.name.name().starts_with("net_memif") {
            return Ok(true);
        }
        let start = Instant::now();
        while self.device.is_up()? != Some(false) {
            if start.elapsed() >= timeout {
                return Ok(false);
            }
            std::thread::sleep(LINK_POLL_INTERVAL);
        }
        Ok(true)
    }

    fn sent(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
