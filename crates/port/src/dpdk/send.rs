//! A transmit queue of a device as a [`Transmit`].

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{Device, Queues};
use super::eal::Eal;
use super::name::DeviceName;
use super::options::{Options, SendOptions};
use super::pool::{Pool, cache_most};
use super::receive::DpdkPort;
use super::shim::{self, Mbuf};
use super::thread;
use crate::frame::{BURST, PortError};
use crate::link_watch::LinkWatch;
use crate::transmit::{Slot, Transmit};

/// Between two looks at a link that is awaited.
const LINK_LOOK: Duration = Duration::from_millis(5);

/// How long frames that were sent are given to leave: a peer reads what its ring holds (a memif
/// forgets it when one side goes), a card sends what its ring holds.
const LINGER: Duration = Duration::from_millis(100);

/// Descriptors of the receive queue of a device that is only sent on.
const UNREAD_RING: u16 = 512;

/// One transmit queue.
///
/// Slots point into buffers of the device, which it takes as they are: no frame is copied.
pub struct DpdkSender {
    buffers: Buffers,
    queue: u16,
    name: String,
    known_thread: bool,
    frames: u64,
    bytes: u64,
    link: LinkWatch,
    /// After the buffers, which are of its pools.
    device: Arc<Device>,
}

/// Buffers that are written, or lent to be.
struct Buffers {
    /// How many there are, at the front of the arrays.
    held: usize,
    /// How many of these were submitted and not taken.
    left: usize,
    /// How many were lent last.
    lent: usize,
    /// Bytes of each.
    room: usize,
    buffers: Box<[*mut Mbuf; BURST]>,
    data: Box<[*mut u8; BURST]>,
    lengths: Box<[u32; BURST]>,
    /// The slots last lent. Their bytes are never read from here, nor trusted.
    slots: Box<[MaybeUninit<Slot<'static>>; BURST]>,
}

// SAFETY: the buffers belong to whoever holds the pointers, and DPDK lets any thread have them.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(room: usize) -> Self {
        Self {
            held: 0,
            left: 0,
            lent: 0,
            room,
            buffers: Box::new([ptr::null_mut(); BURST]),
            data: Box::new([ptr::null_mut(); BURST]),
            lengths: Box::new([0; BURST]),
            slots: Box::new([const { MaybeUninit::uninit() }; BURST]),
        }
    }

    /// Takes buffers from the pool until there are `count`, or as many as there are.
    fn fill(&mut self, pool: &Pool, count: usize) {
        let mut wanted = count.min(BURST).saturating_sub(self.held);
        while wanted > 0 {
            // SAFETY: the arrays have room for `BURST`, of which `held` are taken.
            let got = unsafe {
                shim::flowatch_dpdk_allocate(
                    pool.as_ptr(),
                    self.buffers.as_mut_ptr().add(self.held),
                    self.data.as_mut_ptr().add(self.held),
                    wanted as u32,
                )
            } as usize;
            self.held += got;
            if got == wanted {
                break;
            }
            // Not all of them: perhaps some.
            wanted /= 2;
        }
    }

    fn lend(&mut self, count: usize) -> &mut [Slot<'_>] {
        let count = count.max(self.left).min(self.held);
        for index in 0..count {
            // SAFETY: the buffer is ours and has `room` bytes from there on. Nothing else refers to
            // them until the slots are back: they are lent with the lifetime of a mutable borrow.
            let bytes = unsafe { slice::from_raw_parts_mut(self.data[index], self.room) };
            let length = if index < self.left {
                self.lengths[index] as usize
            } else {
                self.room
            };
            self.slots[index].write(Slot {
                bytes,
                length,
                time_ns: 0,
                rss_hash: 0,
            });
        }
        self.lent = count;
        // SAFETY: the first `count` were written above; the type differs in a lifetime only, and
        // what stays behind in the slots when the borrow has ended is never read as bytes.
        unsafe { slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast::<Slot<'_>>(), count) }
    }

    /// Notes the lengths of the first `count` slots.
    fn measure(&mut self, count: usize) {
        let lent = &self.slots[..count];
        for (length, slot) in self.lengths.iter_mut().zip(lent) {
            // SAFETY: slots that were lent were written; this is a number.
            let written = unsafe { (*slot.as_ptr()).length };
            *length = written.min(self.room) as u32;
        }
    }

    /// Of `submitted` buffers the first `taken` are gone.
    fn take(&mut self, taken: usize, submitted: usize) {
        self.buffers.copy_within(taken..self.held, 0);
        self.data.copy_within(taken..self.held, 0);
        self.lengths.copy_within(taken..submitted, 0);
        self.held -= taken;
        self.left = submitted - taken;
        self.lent = 0;
    }

    fn release(&mut self) {
        if self.held > 0 {
            // SAFETY: the first `held` are ours.
            unsafe { shim::flowatch_dpdk_free(self.buffers.as_mut_ptr(), self.held as u32) };
        }
        (self.held, self.left, self.lent) = (0, 0, 0);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.release();
    }
}

impl DpdkSender {
    /// Opens a device to send on, and gives a sender for each of its transmit queues. The link need
    /// not be up yet: see [`DpdkSender::await_link`].
    ///
    /// # Errors
    /// When there is no such device, or it cannot be had, configured as wanted or started.
    pub fn open(
        eal: &Eal,
        name: &DeviceName,
        options: &SendOptions,
    ) -> Result<Vec<Self>, PortError> {
        let receive = Options {
            receive_ring: UNREAD_RING,
            ..Options::default()
        };
        let device = Device::open(eal, name, &receive, queues(1, options))?;
        Ok(Self::of(&device, options))
    }

    /// Opens a device for both ways: ports for its receive queues, senders for its transmit queues.
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
        let senders = Self::of(&device, send);
        let ports = (0..receive.queues)
            .map(|queue| DpdkPort::new(&device, queue, receive))
            .collect();
        Ok((ports, senders))
    }

    fn of(device: &Arc<Device>, options: &SendOptions) -> Vec<Self> {
        let senders = (0..options.queues).map(|queue| {
            let pool = device.transmit_pool(queue);
            // SAFETY: a pool of frames.
            let room = unsafe { shim::flowatch_dpdk_buffer_room(pool.as_ptr()) };
            Self {
                buffers: Buffers::new(room as usize),
                queue,
                name: if options.queues > 1 {
                    format!("{}@{queue}", device.name)
                } else {
                    device.name.to_string()
                },
                known_thread: false,
                frames: 0,
                bytes: 0,
                link: LinkWatch::new(),
                device: Arc::clone(device),
            }
        });
        senders.collect()
    }

    /// Waits until the link is up (on a virtual device: its peer has come), for so long at most, and
    /// as long as `wait` says so. Whether it is, or may be.
    ///
    /// # Errors
    /// When the device was removed.
    pub fn await_link(
        &mut self,
        patience: Duration,
        mut wait: impl FnMut() -> bool,
    ) -> Result<bool, PortError> {
        let begun = Instant::now();
        while self.device.is_up()? == Some(false) {
            if begun.elapsed() >= patience || !wait() {
                self.link.begins_down(&self.device.name.to_string());
                return Ok(false);
            }
            std::thread::sleep(LINK_LOOK);
        }
        Ok(true)
    }
}

fn queues(receive: u16, options: &SendOptions) -> Queues {
    Queues {
        receive,
        transmit: options.queues,
        transmit_ring: options.ring,
        transmit_buffers: Some(options.buffers(cache_most())),
    }
}

impl Transmit for DpdkSender {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        if room > self.buffers.room {
            return Err(PortError::Failed(format!(
                "{}: a frame of {room} bytes does not fit a buffer of {}",
                self.name, self.buffers.room
            )));
        }
        if !self.known_thread {
            // On the thread that sends.
            thread::enter();
            self.known_thread = true;
        }
        self.buffers
            .fill(self.device.transmit_pool(self.queue), count);
        Ok(self.buffers.lend(count))
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.buffers.lent);
        self.buffers.measure(count);
        // SAFETY: the port is started and has the queue, which no other thread sends on; the first
        // `count` buffers are ours, and hold frames no longer than they are.
        let taken = unsafe {
            shim::flowatch_dpdk_send(
                self.device.port,
                self.queue,
                self.device.rings_go(),
                self.buffers.buffers.as_mut_ptr(),
                self.buffers.lengths.as_ptr(),
                count as u32,
            )
        } as usize;
        let taken = taken.min(count);
        self.frames += taken as u64;
        let lengths = &self.buffers.lengths[..taken];
        self.bytes += lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        self.buffers.take(taken, count);
        if self.link.is_due(taken) {
            let is_down = self.device.is_up()? == Some(false);
            self.link.note(&self.device.name.to_string(), is_down);
        }
        Ok(taken)
    }

    fn down_since(&self) -> Option<Instant> {
        self.link.down_since()
    }

    fn notice(&mut self) -> Option<String> {
        self.link.notice()
    }

    fn discard(&mut self) {
        self.buffers.release();
    }

    /// Waits until the device has given back the buffers of all frames, and then a tenth of a second
    /// for a peer to read them: no device says when that has happened.
    fn flush(&mut self) -> Result<(), PortError> {
        let begun = Instant::now();
        let mine = self.buffers.held as u32;
        loop {
            // SAFETY: the port has the queue, which no other thread sends on.
            let in_use = unsafe {
                shim::flowatch_dpdk_tidy_queue(
                    self.device.port,
                    self.queue,
                    self.device.rings_go(),
                );
                shim::flowatch_dpdk_in_use(self.device.transmit_pool(self.queue).as_ptr())
            };
            if in_use <= mine || begun.elapsed() >= LINGER {
                break;
            }
            std::thread::sleep(LINK_LOOK);
        }
        std::thread::sleep(LINGER);
        Ok(())
    }

    /// A memif's driver takes the rings away on a thread of its own when the peer leaves, be they read
    /// at that moment or not; flowatch prevents that (`staying.rs`), another receiver may not. What
    /// the peer had not read goes with them, and nothing tells how much it has read.
    fn see_off(&mut self, patience: Duration) -> Result<bool, PortError> {
        if !self.device.name.name().starts_with("net_memif") {
            return Ok(true);
        }
        let begun = Instant::now();
        while self.device.is_up()? != Some(false) {
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            std::thread::sleep(LINK_LOOK);
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
