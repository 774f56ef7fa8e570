//! A receive queue of a DPDK device as a [`Port`].

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::LinkType;

use super::clock::Clock;
use super::device::{Device, QueueConfig};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::Options;
use super::queue_ring::QueueRing;
use super::shim::{self, Mbuf, Mempool, RxFrame};
use super::statistics::CounterAccumulator;
use super::thread;
use crate::frame::{
    BURST, Burst, BurstCount, Counters, DeviceCounters, Frame, Port, PortError, Received, Rss,
};
use crate::frame_list::FrameList;

/// Empty polls between two readings of the clock.
const POLLS_PER_CLOCK_READ: u32 = 64;

/// Time between two checks of the link, and of the counters of a hardware device, which are slow to
/// read.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of frames that a stopped port delivers: the capacity of the largest queue.
const DRAIN_FRAMES: u32 = 1 << 16;

/// Consecutive empty polls that end a stopped port.
const DRAIN_POLLS: u32 = 64;

/// How long the first queue of a device waits at the end for the other queues, so that the device's
/// final counters cover what all of them read. Only a queue whose thread does not run takes so long.
const OTHER_QUEUES_TIMEOUT: Duration = Duration::from_secs(10);

/// State of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    /// Not read yet.
    New,
    /// Receiving.
    Open,
    /// Stopped and being emptied.
    Draining {
        /// Frames that may still be delivered.
        remaining: u32,
        /// Consecutive empty polls.
        empty_polls: u32,
    },
    Ended,
}

/// A receive queue of a DPDK device.
///
/// Frames are delivered in the device's buffers, which are returned to their pool by the next
/// [`Port::receive`]. All frames of a burst have the timestamp at which it was read.
pub struct DpdkPort {
    buffers: Buffers,
    frames: FrameList,
    /// When the current batch was read.
    read_ns: i64,
    queue: u16,
    batch: usize,
    poll_timeout: Duration,
    name: String,
    state: QueueState,
    /// The first queue of a device monitors its link and counters.
    leader: Option<Leader>,
    clock: Clock,
    counters: Counters,
    notices: VecDeque<String>,
    /// Declared after the buffers, which are returned before the pools are freed.
    device: Arc<Device>,
    /// Declared after the device, whose port reads it.
    ring: Option<Arc<QueueRing>>,
}

/// Link state and counters of a device.
struct Leader {
    counters: CounterAccumulator,
    /// Whether the link was up at the last check.
    up: Option<bool>,
    /// How often the link went down.
    downs: u64,
    link_checked: Instant,
    /// Frames received until the last check.
    frames_at_check: u64,
    counters_read: Instant,
    /// When its own queue became empty and it began to wait for the others.
    waiting_since: Option<Instant>,
}

/// What the shim reports of received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveMode {
    /// The description of each frame.
    Frames,
    /// The total number of bytes only.
    CountOnly,
}

/// The buffers of the current batch, and their descriptions by the shim.
struct Buffers {
    held: usize,
    /// Number of frames of the batch delivered so far.
    delivered: usize,
    /// Bytes on the wire of the batch, with [`ReceiveMode::CountOnly`].
    bytes: u64,
    /// The pool to return all buffers to without inspecting them, or null.
    pool: *mut Mempool,
    buffers: Box<[*mut Mbuf]>,
    received: Box<[RxFrame]>,
}

/// Placeholder of an unused entry.
const EMPTY: RxFrame = RxFrame {
    data: ptr::null(),
    captured: 0,
    length: 0,
    hash: 0,
};

// SAFETY: the buffers are owned through these pointers, and DPDK lets any thread use them.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Creates arrays for `batch` frames.
    fn new(batch: usize) -> Self {
        Self {
            held: 0,
            delivered: 0,
            bytes: 0,
            pool: ptr::null_mut(),
            buffers: vec![ptr::null_mut(); batch].into_boxed_slice(),
            received: vec![EMPTY; batch].into_boxed_slice(),
        }
    }

    /// Number of frames not delivered yet.
    #[inline]
    fn remaining(&self) -> usize {
        self.held - self.delivered
    }

    /// Receives at most `max` frames; the previous batch must be released.
    #[inline]
    fn receive(&mut self, device: &Device, queue: u16, max: usize, mode: ReceiveMode) -> usize {
        debug_assert_eq!(self.held, 0);
        let (port, guarded) = (device.port, device.guards_rings());
        let max = max.min(self.buffers.len()) as u32;
        let (buffers, pool) = (self.buffers.as_mut_ptr(), &raw mut self.pool);
        // SAFETY: the port is started and has the queue, which no other thread reads; all arrays have
        // space for `max` frames.
        let count = unsafe {
            match mode {
                ReceiveMode::Frames => {
                    let frames = self.received.as_mut_ptr();
                    shim::flowatch_dpdk_receive(port, queue, guarded, max, buffers, frames, pool)
                }
                ReceiveMode::CountOnly => {
                    let bytes = &raw mut self.bytes;
                    shim::flowatch_dpdk_count(port, queue, guarded, max, buffers, bytes, pool)
                }
            }
        };
        self.held = count as usize;
        self.delivered = 0;
        self.held
    }

    /// Returns the buffers to their pools.
    #[inline]
    fn release(&mut self) {
        if self.held > 0 {
            // SAFETY: the first `held` buffers were received and not released yet, no frame in them is
            // in use any more, and the pool is the one reported with them.
            unsafe {
                shim::flowatch_dpdk_release(self.pool, self.buffers.as_mut_ptr(), self.held as u32);
            }
            (self.held, self.delivered) = (0, 0);
        }
    }

    /// Writes the next `count` frames to `frames`; returns their bytes on the wire.
    #[inline]
    fn write_frames<'a>(&'a self, count: usize, frames: &mut [Frame<'a>], time_ns: i64) -> u64 {
        let mut bytes = 0;
        let received = &self.received[self.delivered..self.held][..count];
        for (frame, received) in frames.iter_mut().zip(received) {
            bytes += u64::from(received.length);
            *frame = Frame {
                // SAFETY: the device wrote this many bytes, and they do not change until the buffer is
                // released, which needs `self` mutably.
                bytes: unsafe {
                    std::slice::from_raw_parts(received.data, received.captured as usize)
                },
                time_ns,
                wire_length: received.length,
                rss_hash: NonZeroU32::new(received.hash),
            };
        }
        bytes
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.release();
    }
}

impl DpdkPort {
    /// Opens a device and returns a port for each of its receive queues.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be used, configured or started; the message is one
    /// line.
    pub fn open(eal: &Eal, name: &DeviceName, options: &Options) -> Result<Vec<Self>, PortError> {
        let device = Device::open(
            eal,
            name,
            options,
            QueueConfig::receive_only(options.queues),
        )?;
        Ok((0..options.queues)
            .map(|queue| Self::new(&device, queue, options))
            .collect())
    }

    /// Checks that a device has the requested number of receive queues, before resources for each of
    /// them are allocated.
    ///
    /// # Errors
    /// If it has fewer, or there is no such device; the message is one line.
    pub fn check_queues(eal: &Eal, name: &DeviceName, options: &Options) -> Result<(), PortError> {
        Device::check_queues(eal, name, options)
    }

    pub(super) fn new(device: &Arc<Device>, queue: u16, options: &Options) -> Self {
        let leader = (queue == 0).then(|| Leader {
            counters: CounterAccumulator::new(device.port),
            up: device.is_up().unwrap_or_default(),
            downs: 0,
            link_checked: Instant::now(),
            frames_at_check: 0,
            counters_read: Instant::now(),
            waiting_since: None,
        });
        device.active_queues.fetch_add(1, Ordering::Relaxed);
        let mut notices = VecDeque::new();
        if let Some(leader) = &leader {
            notices.extend(device.notices.iter().cloned());
            if leader.up == Some(false) {
                notices.push_back(format!(
                    "{}: the link is down; no frames are received until it is up",
                    device.name
                ));
            }
        }
        Self {
            buffers: Buffers::new(options.batch_size()),
            frames: FrameList::default(),
            read_ns: 0,
            queue,
            batch: options.batch_size(),
            poll_timeout: options.poll_timeout,
            name: if options.queues > 1 {
                format!("{}@{queue}", device.name)
            } else {
                device.name.to_string()
            },
            state: QueueState::New,
            leader,
            clock: Clock::new(),
            counters: Counters::default(),
            notices,
            device: Arc::clone(device),
            ring: None,
        }
    }

    /// A queue of a software NIC, which has its own counters.
    pub(super) fn for_ring(
        device: &Arc<Device>,
        queue: u16,
        options: &Options,
        ring: Arc<QueueRing>,
    ) -> Self {
        let mut port = Self::new(device, queue, options);
        port.leader = None;
        port.ring = Some(ring);
        port
    }

    /// Returns the next notice for the user, each once.
    pub fn next_notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    /// Receives at most `max` frames.
    #[inline]
    fn receive_batch(&mut self, max: usize, mode: ReceiveMode) -> usize {
        self.buffers.receive(&self.device, self.queue, max, mode)
    }

    /// Polls an empty queue until frames arrive or the poll timeout expires. Returns a fault of the
    /// link to report, if any.
    #[cold]
    fn poll_until_timeout(&mut self, mode: ReceiveMode) -> Result<Option<String>, PortError> {
        let start = Instant::now();
        let fault = self.check_link(start)?;
        if fault.is_some() {
            return Ok(fault);
        }
        let mut polls = 0;
        loop {
            if self.receive_batch(self.batch, mode) > 0 {
                return Ok(None);
            }
            // SAFETY: executes a pause instruction.
            unsafe { shim::flowatch_dpdk_pause() };
            polls += 1;
            if polls % POLLS_PER_CLOCK_READ == 0 && start.elapsed() >= self.poll_timeout {
                return Ok(None);
            }
        }
    }

    /// Checks the link periodically. Returns a fault to report, if any.
    fn check_link(&mut self, now: Instant) -> Result<Option<String>, PortError> {
        let Some(leader) = &mut self.leader else {
            return Ok(None);
        };
        if !self.device.is_card() {
            // A memif resets its counters when its peer disconnects.
            leader.counters.update(self.device.port);
        }
        if now - leader.link_checked < CHECK_INTERVAL {
            return Ok(None);
        }
        leader.link_checked = now;
        let received = std::mem::replace(&mut leader.frames_at_check, self.counters.frames);
        let up = self.device.is_up()?;
        let was_up = std::mem::replace(&mut leader.up, up) == Some(true)
            // It went up and down between two checks.
            || self.counters.frames > received;
        if was_up && up == Some(false) {
            leader.downs += 1;
            self.counters.faults += 1;
            // Report a flapping link once, and count every time.
            if leader.downs == 1 {
                return Ok(Some(format!(
                    "{}: the link went down; capture resumes when it is up again",
                    self.device.name
                )));
            }
        }
        Ok(None)
    }

    /// Returns the number of frames ready for delivery; receives a new batch if none are left.
    #[inline]
    fn poll(&mut self, mode: ReceiveMode) -> Result<Received<usize>, PortError> {
        let remaining = self.buffers.remaining();
        if remaining > 0 {
            return Ok(Received::Burst(remaining));
        }
        self.buffers.release();
        match self.state {
            QueueState::New | QueueState::Open => {
                if self.state == QueueState::New {
                    // Here, since it must run on the receiving thread.
                    thread::register();
                    self.state = QueueState::Open;
                }
                if self.receive_batch(self.batch, mode) == 0
                    && let Some(fault) = self.poll_until_timeout(mode)?
                {
                    return Ok(Received::Fault(fault));
                }
            }
            QueueState::Draining {
                remaining,
                empty_polls,
            } => self.drain(remaining, empty_polls, mode),
            QueueState::Ended => return Ok(Received::End),
        }
        Ok(match self.buffers.held {
            0 => Received::Idle,
            count => {
                if mode == ReceiveMode::Frames {
                    self.read_ns = self.clock.now_ns();
                }
                Received::Burst(count)
            }
        })
    }

    /// Delivers the next `count` frames, at most a burst, with the timestamp of their batch.
    #[inline]
    fn next_burst(&mut self, count: usize) -> Burst<'_> {
        let count = count.min(BURST);
        // SAFETY: the returned burst borrows `self` until the next poll, and only a poll releases the
        // buffers.
        let frames = unsafe { self.frames.slots() };
        let bytes = self.buffers.write_frames(count, frames, self.read_ns);
        self.buffers.delivered += count;
        self.counters.frames += count as u64;
        self.counters.bytes += bytes;
        Burst {
            link: LinkType::Ethernet,
            frames: self.frames.first(count),
        }
    }

    /// Counts the next `count` frames as delivered. `is_described`: they are left over from a batch
    /// received with [`ReceiveMode::Frames`].
    #[inline]
    fn take_count(&mut self, count: usize, is_described: bool) -> BurstCount {
        let buffers = &mut self.buffers;
        let bytes = if is_described {
            let received = &buffers.received[buffers.delivered..buffers.held];
            received.iter().map(|frame| u64::from(frame.length)).sum()
        } else {
            buffers.bytes
        };
        buffers.delivered = buffers.held;
        self.counters.frames += count as u64;
        self.counters.bytes += bytes;
        BurstCount {
            frames: count as u64,
            bytes,
        }
    }

    /// Reads the frames left in the queue of a stopped port, then ends.
    fn drain(&mut self, remaining: u32, empty_polls: u32, mode: ReceiveMode) {
        let max = self.batch.min(remaining as usize);
        let count = self.receive_batch(max, mode) as u32;
        let remaining = remaining - count;
        let empty_polls = if count == 0 { empty_polls + 1 } else { 0 };
        let is_empty = empty_polls >= DRAIN_POLLS || remaining == 0;
        if is_empty && count == 0 && !self.waits_for_others() {
            self.read_final_counters();
            self.end();
        } else {
            self.state = QueueState::Draining {
                remaining,
                empty_polls,
            };
        }
    }

    /// Whether this is the first queue and must still wait for the others.
    fn waits_for_others(&mut self) -> bool {
        let Some(leader) = &mut self.leader else {
            return false;
        };
        let since = *leader.waiting_since.get_or_insert_with(Instant::now);
        self.device.active_queues.load(Ordering::Acquire) > 1
            && since.elapsed() < OTHER_QUEUES_TIMEOUT
    }

    /// Ends the port.
    fn end(&mut self) {
        if self.state != QueueState::Ended {
            self.state = QueueState::Ended;
            self.device.active_queues.fetch_sub(1, Ordering::Release);
        }
    }

    /// Reads the device's final counters.
    fn read_final_counters(&mut self) {
        self.read_statistics(Duration::ZERO);
    }

    /// Reads the device's counters; those of hardware only if the last reading is at least `age` old.
    fn read_statistics(&mut self, age: Duration) {
        if self.state == QueueState::Ended {
            return;
        }
        if let Some(ring) = &self.ring {
            let counts = ring.counts.load();
            self.counters.missed = counts.missed;
            self.counters.no_buffer = counts.no_buffer;
            self.counters.device = Some(DeviceCounters {
                frames: counts.received,
                bytes: counts.received_bytes,
            });
        }
        let Some(leader) = &mut self.leader else {
            return;
        };
        let now = Instant::now();
        if self.device.is_card() && now - leader.counters_read < age {
            return;
        }
        leader.counters_read = now;
        let statistics = leader.counters.update(self.device.port);
        self.counters.missed = statistics.missed;
        self.counters.no_buffer = statistics.no_buffer;
        self.counters.errors = statistics.errors;
        self.counters.device = Some(DeviceCounters {
            frames: statistics.received,
            bytes: statistics.received_bytes,
        });
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        self.end();
    }
}

impl Port for DpdkPort {
    #[inline]
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        Ok(self
            .poll(ReceiveMode::Frames)?
            .map(move |count| self.next_burst(count)))
    }

    #[inline]
    fn receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        let is_described = self.buffers.remaining() > 0;
        let received = self.poll(ReceiveMode::CountOnly)?;
        Ok(received.map(|count| self.take_count(count, is_described)))
    }

    fn counters(&mut self) -> Counters {
        self.read_statistics(CHECK_INTERVAL);
        self.counters
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Frames in the queue are still delivered, at most `DRAIN_FRAMES`, since more arrive meanwhile.
    fn stop(&mut self) {
        if matches!(self.state, QueueState::New | QueueState::Open) {
            self.state = QueueState::Draining {
                remaining: DRAIN_FRAMES,
                empty_polls: 0,
            };
        }
    }

    fn occupancy(&mut self) -> Option<usize> {
        if let Some(ring) = &self.ring {
            return Some(ring.occupancy());
        }
        // SAFETY: the port is open and has the queue.
        let count = unsafe { shim::flowatch_dpdk_occupancy(self.device.port, self.queue) };
        usize::try_from(count).ok()
    }

    fn queue_size(&self) -> Option<usize> {
        Some(usize::from(self.device.receive_ring))
    }

    fn has_burst_timestamps(&self) -> bool {
        true
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.device.rss_key.as_deref()
    }

    fn rss(&self) -> Option<Rss> {
        Some(self.device.rss)
    }
}
