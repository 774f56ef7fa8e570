//! A receive queue of a device as a [`Port`].

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::LinkType;

use super::clock::Clock;
use super::device::{Device, Queues};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::Options;
use super::shim::{self, Mbuf, Mempool, Told};
use super::software_nic::QueueRing;
use super::statistics::Counting;
use super::thread;
use crate::frame::{
    BURST, Burst, Counted, Counters, DeviceCounters, Frame, Port, PortError, Received, Rss,
};
use crate::frame_list::FrameList;

/// Polls in vain between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// Between two looks at the link, and at the device's counters, which a card takes its time to tell.
const LOOK: Duration = Duration::from_millis(100);

/// Frames that a stopped port hands over at most: what its queue may hold.
const DRAIN_FRAMES: u32 = 1 << 16;

/// Empty polls, one after the other, that end a stopped port.
const DRAIN_POLLS: u32 = 64;

/// How long the first queue of a device waits in the end for the others, so that what the device
/// counts is what was read from all of them: this is for one whose thread gets no turn.
const OTHERS_PATIENCE: Duration = Duration::from_secs(10);

/// Where a port is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not read yet.
    New,
    Open,
    /// Being emptied: frames that may still come, and empty polls since the last.
    Draining {
        left: u32,
        empty: u32,
    },
    Ended,
}

/// One receive queue.
///
/// Frames are handed over where the device put them, in buffers that go back to their pool at the
/// next [`Port::receive`]. All frames of a burst bear the time at which it was read.
pub struct DpdkPort {
    buffers: Buffers,
    frames: FrameList,
    /// When the frames that are held were read.
    read_ns: i64,
    queue: u16,
    batch: usize,
    patience: Duration,
    name: String,
    state: State,
    /// The first queue of a device speaks for it: its link and what it counts.
    leader: Option<Leader>,
    clock: Clock,
    counters: Counters,
    notices: VecDeque<String>,
    /// After the buffers, which are back before the pools go.
    device: Arc<Device>,
    /// After the port that reads it.
    ring: Option<Arc<QueueRing>>,
}

/// What is known of the device as a whole.
struct Leader {
    counting: Counting,
    /// Whether the link was up when last looked at.
    up: Option<bool>,
    /// How often it went down.
    downs: u64,
    looked: Instant,
    /// Frames received by then.
    frames: u64,
    read: Instant,
    /// Since when its own queue is empty and the others are waited for.
    waiting: Option<Instant>,
}

/// What is asked of the frames that are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// What there is to say of each.
    Each,
    /// Their bytes.
    Bytes,
}

/// The buffers of the frames that are handed over, and what the shim says of them.
struct Buffers {
    held: usize,
    /// How many of these were handed over so far.
    shown: usize,
    /// Their bytes on the wire, where these are asked for.
    bytes: u64,
    /// The pool that they all go back to as they are, if there is one.
    pool: *mut Mempool,
    buffers: Box<[*mut Mbuf]>,
    told: Box<[Told]>,
}

/// Where nothing is told yet.
const NOTHING: Told = Told {
    data: ptr::null(),
    captured: 0,
    length: 0,
    hash: 0,
};

// SAFETY: the buffers belong to whoever holds the pointers, and DPDK lets any thread have them.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Room for so many.
    fn new(batch: usize) -> Self {
        Self {
            held: 0,
            shown: 0,
            bytes: 0,
            pool: ptr::null_mut(),
            buffers: vec![ptr::null_mut(); batch].into_boxed_slice(),
            told: vec![NOTHING; batch].into_boxed_slice(),
        }
    }

    /// How many have not been handed over.
    #[inline(always)]
    fn left(&self) -> usize {
        self.held - self.shown
    }

    /// Receives at most `most` frames; the buffers of those before must be back.
    #[inline]
    fn receive(&mut self, device: &Device, queue: u16, most: usize, asked: Asked) -> usize {
        debug_assert_eq!(self.held, 0);
        let (port, rings_go) = (device.port, device.rings_go());
        let most = most.min(self.buffers.len()) as u32;
        let (buffers, pool) = (self.buffers.as_mut_ptr(), &raw mut self.pool);
        // SAFETY: the port is started and has the queue, which no other thread reads; every array
        // has room for as many frames.
        let count = unsafe {
            match asked {
                Asked::Each => {
                    let told = self.told.as_mut_ptr();
                    shim::flowatch_dpdk_receive(port, queue, rings_go, most, buffers, told, pool)
                }
                Asked::Bytes => {
                    let bytes = &raw mut self.bytes;
                    shim::flowatch_dpdk_count(port, queue, rings_go, most, buffers, bytes, pool)
                }
            }
        };
        self.held = count as usize;
        self.shown = 0;
        self.held
    }

    /// Gives the buffers back to their pools.
    #[inline]
    fn release(&mut self) {
        if self.held > 0 {
            // SAFETY: the first `held` were received and not given back, no frame in them is handed
            // over any more, and the pool is the one that was told with them.
            unsafe {
                shim::flowatch_dpdk_release(self.pool, self.buffers.as_mut_ptr(), self.held as u32);
            }
            (self.held, self.shown) = (0, 0);
        }
    }

    /// Writes the next `count` frames into `frames`; their bytes on the wire.
    #[inline]
    fn describe<'a>(&'a self, count: usize, frames: &mut [Frame<'a>], time_ns: i64) -> u64 {
        let mut bytes = 0;
        let told = &self.told[self.shown..self.held][..count];
        for (frame, told) in frames.iter_mut().zip(told) {
            bytes += u64::from(told.length);
            *frame = Frame {
                // SAFETY: the device wrote as many bytes there, and they stay as they are until the
                // buffer goes back, which needs `self` whole.
                bytes: unsafe { std::slice::from_raw_parts(told.data, told.captured as usize) },
                time_ns,
                wire_length: told.length,
                rss_hash: NonZeroU32::new(told.hash),
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
    /// Opens a device, and gives a port for each of its receive queues.
    ///
    /// # Errors
    /// When there is no such device, or it cannot be had, configured as wanted or started.
    pub fn open(eal: &Eal, name: &DeviceName, options: &Options) -> Result<Vec<Self>, PortError> {
        let device = Device::open(eal, name, options, Queues::to_receive(options.queues))?;
        Ok((0..options.queues)
            .map(|queue| Self::new(&device, queue, options))
            .collect())
    }

    /// Asks a device whether it has as many receive queues as the options say, before anything is made
    /// for each of them.
    ///
    /// # Errors
    /// When it has not, or there is no such device.
    pub fn check_queues(eal: &Eal, name: &DeviceName, options: &Options) -> Result<(), PortError> {
        Device::check_queues(eal, name, options)
    }

    pub(super) fn new(device: &Arc<Device>, queue: u16, options: &Options) -> Self {
        let leader = (queue == 0).then(|| Leader {
            counting: Counting::begin(device.port),
            up: device.is_up().unwrap_or_default(),
            downs: 0,
            looked: Instant::now(),
            frames: 0,
            read: Instant::now(),
            waiting: None,
        });
        device.reading.fetch_add(1, Ordering::Relaxed);
        let mut notices = VecDeque::new();
        if let Some(leader) = &leader {
            notices.extend(device.notices.iter().cloned());
            if leader.up == Some(false) {
                notices.push_back(format!(
                    "{}: the link is down, no frames will come until it is up",
                    device.name
                ));
            }
        }
        Self {
            buffers: Buffers::new(options.batch_taken()),
            frames: FrameList::default(),
            read_ns: 0,
            queue,
            batch: options.batch_taken(),
            patience: options.patience,
            name: if options.queues > 1 {
                format!("{}@{queue}", device.name)
            } else {
                device.name.to_string()
            },
            state: State::New,
            leader,
            clock: Clock::new(),
            counters: Counters::default(),
            notices,
            device: Arc::clone(device),
            ring: None,
        }
    }

    /// A queue of a software card, which counts for itself.
    pub(super) fn of_ring(
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

    /// Something that a person should be told, once each.
    pub fn notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    /// Receives at most `most` frames.
    #[inline(always)]
    fn fill(&mut self, most: usize, asked: Asked) -> usize {
        self.buffers.receive(&self.device, self.queue, most, asked)
    }

    /// Polls an empty queue for as long as there is patience. What to say of the link, if anything.
    #[cold]
    fn wait(&mut self, asked: Asked) -> Result<Option<String>, PortError> {
        let begun = Instant::now();
        let fault = self.look_after(begun)?;
        if fault.is_some() {
            return Ok(fault);
        }
        let mut polls = 0;
        loop {
            if self.fill(self.batch, asked) > 0 {
                return Ok(None);
            }
            // SAFETY: does nothing.
            unsafe { shim::flowatch_dpdk_pause() };
            polls += 1;
            if polls % POLLS_PER_LOOK == 0 && begun.elapsed() >= self.patience {
                return Ok(None);
            }
        }
    }

    /// Looks at the link now and then.
    fn look_after(&mut self, now: Instant) -> Result<Option<String>, PortError> {
        let Some(leader) = &mut self.leader else {
            return Ok(None);
        };
        if !self.device.is_card() {
            // A memif forgets what it has counted when its peer leaves.
            leader.counting.update(self.device.port);
        }
        if now - leader.looked < LOOK {
            return Ok(None);
        }
        leader.looked = now;
        let received = std::mem::replace(&mut leader.frames, self.counters.frames);
        let up = self.device.is_up()?;
        let was_up = std::mem::replace(&mut leader.up, up) == Some(true)
            // It came and went between two looks.
            || self.counters.frames > received;
        if was_up && up == Some(false) {
            leader.downs += 1;
            self.counters.faults += 1;
            // A link that flaps is told of once and counted each time.
            if leader.downs == 1 {
                return Ok(Some(format!(
                    "{}: the link went down; reading goes on when it is up again",
                    self.device.name
                )));
            }
        }
        Ok(None)
    }

    /// Receives as the port's state asks for, once all that was received is handed over; how many
    /// frames are there to be handed over.
    #[inline(always)]
    fn poll(&mut self, asked: Asked) -> Result<Received<usize>, PortError> {
        let left = self.buffers.left();
        if left > 0 {
            return Ok(Received::Burst(left));
        }
        self.buffers.release();
        match self.state {
            State::New | State::Open => {
                if self.state == State::New {
                    // On the thread that reads.
                    thread::enter();
                    self.state = State::Open;
                }
                if self.fill(self.batch, asked) == 0
                    && let Some(fault) = self.wait(asked)?
                {
                    return Ok(Received::Fault(fault));
                }
            }
            State::Draining { left, empty } => self.drain(left, empty, asked),
            State::Ended => return Ok(Received::End),
        }
        Ok(match self.buffers.held {
            0 => Received::Idle,
            count => {
                if asked == Asked::Each {
                    self.read_ns = self.clock.now_ns();
                }
                Received::Burst(count)
            }
        })
    }

    /// Of so many frames as many as a burst holds, with the time at which they were read.
    #[inline(always)]
    fn hand_over(&mut self, count: usize) -> Burst<'_> {
        let count = count.min(BURST);
        // SAFETY: the frames are read through `first` only before the port is polled again, which alone
        // gives their buffers back.
        let frames = unsafe { self.frames.borrow() };
        let bytes = self.buffers.describe(count, frames, self.read_ns);
        self.buffers.shown += count;
        self.counters.frames += count as u64;
        self.counters.bytes += bytes;
        Burst {
            link: LinkType::Ethernet,
            frames: self.frames.first(count),
        }
    }

    /// Of frames of which nobody asks more than how many they are; `told`: what is left of those that
    /// were read for one who did.
    #[inline(always)]
    fn count_up(&mut self, count: usize, told: bool) -> Counted {
        let buffers = &mut self.buffers;
        let bytes = if told {
            let told = &buffers.told[buffers.shown..buffers.held];
            told.iter().map(|told| u64::from(told.length)).sum()
        } else {
            buffers.bytes
        };
        buffers.shown = buffers.held;
        self.counters.frames += count as u64;
        self.counters.bytes += bytes;
        Counted {
            frames: count as u64,
            bytes,
        }
    }

    /// A stopped port reads what its queue holds, then ends.
    fn drain(&mut self, left: u32, empty: u32, asked: Asked) {
        let most = self.batch.min(left as usize);
        let count = self.fill(most, asked) as u32;
        let left = left - count;
        let empty = if count == 0 { empty + 1 } else { 0 };
        let is_empty = empty >= DRAIN_POLLS || left == 0;
        if is_empty && count == 0 && !self.waits_for_others() {
            self.close_books();
            self.end();
        } else {
            self.state = State::Draining { left, empty };
        }
    }

    /// Whether the first queue still waits for the others.
    fn waits_for_others(&mut self) -> bool {
        let Some(leader) = &mut self.leader else {
            return false;
        };
        let since = *leader.waiting.get_or_insert_with(Instant::now);
        self.device.reading.load(Ordering::Acquire) > 1 && since.elapsed() < OTHERS_PATIENCE
    }

    /// Nothing is read any more.
    fn end(&mut self) {
        if self.state != State::Ended {
            self.state = State::Ended;
            self.device.reading.fetch_sub(1, Ordering::Release);
        }
    }

    /// The device's counters for the last time.
    fn close_books(&mut self) {
        self.read_statistics(Duration::ZERO);
    }

    /// Reads the device's counters; a card's, if it was asked as long ago as that.
    fn read_statistics(&mut self, age: Duration) {
        if self.state == State::Ended {
            return;
        }
        if let Some(ring) = &self.ring {
            let counts = ring.counts.read();
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
        if self.device.is_card() && now - leader.read < age {
            return;
        }
        leader.read = now;
        let statistics = leader.counting.update(self.device.port);
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
            .poll(Asked::Each)?
            .map(move |count| self.hand_over(count)))
    }

    #[inline]
    fn count(&mut self) -> Result<Received<Counted>, PortError> {
        let told = self.buffers.left() > 0;
        let received = self.poll(Asked::Bytes)?;
        Ok(received.map(|count| self.count_up(count, told)))
    }

    fn counters(&mut self) -> Counters {
        self.read_statistics(LOOK);
        self.counters
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// What the queue holds is handed over, at most `DRAIN_FRAMES` frames of it; a link goes on
    /// sending meanwhile.
    fn stop(&mut self) {
        if matches!(self.state, State::New | State::Open) {
            self.state = State::Draining {
                left: DRAIN_FRAMES,
                empty: 0,
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

    fn stamps_bursts(&self) -> bool {
        true
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.device.rss_key.as_deref()
    }

    fn rss(&self) -> Option<Rss> {
        Some(self.device.rss)
    }
}
