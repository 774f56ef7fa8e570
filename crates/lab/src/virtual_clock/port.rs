//! A receive queue on a wire whose time is the receiver's own.

use super::options::{Acquisition, Frames, VirtualOptions};
use super::stalls::{Stalled, Stalls};
use super::wire::Wire;
use hw::time::{TickRate, ticks};
use port::frame_pool::FrameMeta;
use port::{Burst, Counters, FramePool, Port, PortError, Received};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers of the pool where frames stay in the caches: as many as a device of 4096 descriptors has.
const BUFFERS_HOT: usize = 8192;

/// Buffers where they must not: 128 MiB of 2 KiB, each sent out of the caches when it is written.
const BUFFERS_COLD: usize = 1 << 16;

/// Bytes of a buffer, as those of a device.
const BUFFER_BYTES: usize = 2048;

/// Binary places of the wire's time, below a tick.
const PLACES: u32 = 20;

/// What a queue came to.
#[derive(Clone, Debug, Default)]
pub struct QueueOutcome {
    /// Packets that the wire brought for this queue.
    pub offered: u64,
    /// Packets handed to the receiver.
    pub received: u64,
    /// Packets that found the ring full.
    pub missed: u64,
    /// Of these, packets within the warm-up.
    pub missed_warming: u64,
    /// Packets offered within the warm-up.
    pub offered_warming: u64,
    /// Packets left in the ring: 0 once the port has ended.
    pub waiting: u64,
    /// Packets handed over, by flow of the [`Wire`].
    pub by_flow: Vec<u64>,
    /// Polls that brought packets.
    pub polls: u64,
    /// Ticks of the receiver's own work, stalls clipped.
    pub busy_ticks: u64,
    /// Packets handled in polls that were not stalled.
    pub busy_packets: u64,
    /// Their ticks.
    pub own_ticks: u64,
    /// Ticks of the longest of them.
    pub own_worst: u64,
    /// What was clipped.
    pub stalled: Stalled,
    /// How often the ring held so many packets when it was looked at, by powers of two: place k is
    /// below 2^k.
    pub occupancy: [u64; 18],
    /// The most that it held.
    pub occupancy_max: u64,
    /// Each look: packets in the ring (kept with [`VirtualOptions::trace`]).
    pub looks: Vec<u32>,
    /// Each poll that was not clipped and those that were alike: packets and ticks as measured
    /// (kept with [`VirtualOptions::trace`]).
    pub trace: Vec<(u16, u64)>,
    /// Virtual time that went by, in ticks.
    pub elapsed_ticks: u64,
}

/// Where a port leaves its outcome when it is let go.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(Arc<Mutex<Vec<(u32, QueueOutcome)>>>);

impl Outcomes {
    /// The outcomes of all ports that have been let go, in the order of their queues.
    #[must_use]
    pub fn take(&self) -> Vec<QueueOutcome> {
        let mut left = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        left.sort_by_key(|(queue, _)| *queue);
        left.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// One receive queue of an emulated link, as a port.
///
/// Between two calls of [`Port::receive`] the receiver works: the ticks that this takes, and a
/// charge for the device's receive function, are the time that goes by on the wire. What the port
/// does itself (bringing frames into the ring and into buffers) takes no time. Each queue has a
/// clock of its own, as if its receiver had a core of its own: several queues need no more cores
/// than there are.
pub struct VirtualPort {
    wire: Arc<Wire>,
    options: VirtualOptions,
    queue: u32,
    pool: FramePool,
    stalls: Stalls,
    /// Virtual time in ticks.
    now: u64,
    /// Number of the next frame on the wire, and when it comes, in ticks with [`PLACES`].
    next: u64,
    next_due: u64,
    step: u64,
    /// Whether the wire waits for the receiver.
    waits: bool,
    ns_per_packet: f64,
    /// Frames in the ring, by their numbers.
    ring: VecDeque<u64>,
    /// Taken out of the ring by the last poll, and not handed over yet.
    held: VecDeque<u64>,
    /// When the receiver was given its last burst, and how many packets that had.
    left: Option<(u64, u64)>,
    /// Ticks between two looks, where the receiver looks from time to time.
    period: Option<u64>,
    receive_ticks: f64,
    /// Charged and not yet a whole tick.
    owed: f64,
    outcome: QueueOutcome,
    outcomes: Outcomes,
    counters: Counters,
    stopped: bool,
    name: String,
}

impl VirtualPort {
    /// Queue `queue` of the link.
    ///
    /// # Errors
    /// When the machine has no room for the buffers.
    pub fn new(
        wire: &Arc<Wire>,
        options: &VirtualOptions,
        queue: u32,
        outcomes: &Outcomes,
    ) -> io::Result<Self> {
        let rate = TickRate::get();
        let waits = options.rate_pps.is_infinite();
        // Slower than a packet an hour is a mistake, and more than the clock can hold.
        let slowest = 1.0 / 3600.0;
        if options.rate_pps.is_nan()
            || options.rate_pps < slowest
            || options.timestamp_pps < slowest
        {
            let message = format!("a wire at {} packets a second", options.rate_pps);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let rate_pps = if waits {
            options.timestamp_pps
        } else {
            options.rate_pps
        };
        let ticks_per_packet = rate.per_second() / rate_pps;
        let buffers = match options.frames {
            Frames::Hot => BUFFERS_HOT,
            Frames::Cold => BUFFERS_COLD,
        };
        let buffer_bytes = wire.longest().max(1).next_multiple_of(BUFFER_BYTES);
        let pool = FramePool::new(buffers, buffer_bytes)?;
        pool.populate();
        let stall = match options.stall_ns {
            0 => u64::MAX,
            ns => rate.to_ticks(ns),
        };
        let outcome = QueueOutcome {
            by_flow: vec![0; wire.flows().len()],
            ..QueueOutcome::default()
        };
        Ok(Self {
            wire: Arc::clone(wire),
            queue,
            pool,
            stalls: Stalls::new(stall),
            now: 0,
            next: 0,
            next_due: 0,
            step: (ticks_per_packet * f64::from(1u32 << PLACES)) as u64,
            waits,
            ns_per_packet: 1e9 / rate_pps,
            ring: VecDeque::with_capacity(options.ring),
            held: VecDeque::with_capacity(options.batch),
            left: None,
            period: match options.acquisition {
                Acquisition::Polled => None,
                Acquisition::Periodic(ns) => Some(rate.to_ticks(ns).max(1)),
            },
            receive_ticks: options.receive_ns * rate.per_second() / 1e9,
            owed: 0.0,
            outcome,
            outcomes: outcomes.clone(),
            counters: Counters::default(),
            stopped: false,
            name: format!("virtual clock, queue {queue}"),
            options: options.clone(),
        })
    }

    /// All queues of a link, and where they leave their outcomes.
    ///
    /// # Errors
    /// When the machine has no room for the buffers.
    pub fn queues(
        wire: &Arc<Wire>,
        options: &VirtualOptions,
    ) -> io::Result<(Vec<Box<dyn Port>>, Outcomes)> {
        let outcomes = Outcomes::default();
        let ports = (0..options.queues.max(1))
            .map(|queue| {
                let port = Self::new(wire, options, queue, &outcomes)?;
                Ok(Box::new(port) as Box<dyn Port>)
            })
            .collect::<io::Result<_>>()?;
        Ok((ports, outcomes))
    }

    /// Time goes on by what the receiver took.
    fn pass(&mut self, entered: u64) {
        let Some((left, packets)) = self.left.take() else {
            return;
        };
        let took = entered.saturating_sub(left);
        let (counted, own) = self.stalls.clip(took, packets);
        if self.options.trace {
            self.outcome.trace.push((packets as u16, took));
        }
        if own {
            self.outcome.own_ticks += took;
            self.outcome.own_worst = self.outcome.own_worst.max(took);
            self.outcome.busy_packets += packets;
        }
        self.owed += packets as f64 * self.receive_ticks;
        let charged = self.owed as u64;
        self.owed -= charged as f64;
        self.outcome.busy_ticks += counted + charged;
        self.now += counted + charged;
    }

    /// Brings what the wire has delivered by now into the ring.
    fn deliver(&mut self) {
        let now = self.now << PLACES;
        while self.next < self.options.packets && !self.stopped {
            let wanted = if self.waits {
                self.ring.len() < self.options.batch.min(self.options.ring)
            } else {
                self.next_due <= now
            };
            if !wanted {
                break;
            }
            let frame = self.wire.frame(self.next);
            if frame.queue(self.options.queues) == self.queue {
                let warming = self.next < self.options.warm_up;
                self.outcome.offered += 1;
                self.outcome.offered_warming += u64::from(warming);
                if self.ring.len() < self.options.ring {
                    self.ring.push_back(self.next);
                } else {
                    self.outcome.missed += 1;
                    self.outcome.missed_warming += u64::from(warming);
                    self.counters.missed += 1;
                }
            }
            self.next += 1;
            self.next_due = self.next_due.saturating_add(self.step);
        }
    }

    /// Whether the wire has nothing more.
    fn is_quiet(&self) -> bool {
        self.stopped || self.next >= self.options.packets
    }

    /// The receiver looks into the ring; what was there is counted.
    fn look(&mut self) {
        let held = self.ring.len() as u64;
        let place = (u64::BITS - held.leading_zeros()) as usize;
        let last = self.outcome.occupancy.len() - 1;
        self.outcome.occupancy[place.min(last)] += 1;
        self.outcome.occupancy_max = self.outcome.occupancy_max.max(held);
        if self.options.trace {
            self.outcome.looks.push(held as u32);
        }
    }

    /// Waits, in virtual time, until there is something in the ring; `false` when there will be no
    /// more.
    fn wait(&mut self) -> bool {
        self.deliver();
        if self.period.is_none() {
            self.look();
        }
        while self.ring.is_empty() {
            if self.is_quiet() {
                return false;
            }
            // The tick at which the next frame is there.
            let due = self.next_due.saturating_add((1 << PLACES) - 1) >> PLACES;
            self.now = self.now.max(match self.period {
                None => due,
                // With nothing in the ring the receiver sleeps until the next look.
                Some(period) => (self.now / period + 1) * period,
            });
            self.deliver();
            if self.period.is_some() {
                self.look();
            }
        }
        true
    }

    /// Takes a batch out of the ring.
    fn poll(&mut self) {
        let count = self.ring.len().min(self.options.batch.max(1));
        self.held.extend(self.ring.drain(..count));
        self.outcome.polls += 1;
        self.outcome.received += count as u64;
    }

    /// Puts as much of it into buffers as a burst holds.
    fn take(&mut self) -> u64 {
        let count = self.held.len().min(port::frame::BURST);
        let cold = self.options.frames == Frames::Cold;
        for number in self.held.drain(..count) {
            let frame = self.wire.frame(number);
            let said = FrameMeta {
                time_ns: self.options.begin_ns + (number as f64 * self.ns_per_packet) as i64,
                wire_length: frame.wire_length,
                rss_hash: frame.hash().filter(|_| self.options.reports_hash),
                ..FrameMeta::default()
            };
            self.pool.write(frame.bytes, said, cold);
            self.counters.frames += 1;
            self.counters.bytes += u64::from(frame.wire_length);
            if let Some(flow) = frame.flow {
                self.outcome.by_flow[flow as usize] += 1;
            }
        }
        count as u64
    }
}

impl Port for VirtualPort {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.pass(ticks());
        if self.held.is_empty() {
            if !self.wait() {
                return Ok(Received::End);
            }
            self.poll();
        }
        let count = self.take();
        let link = self.wire.link();
        // From here on the time is the receiver's.
        self.left = Some((ticks(), count));
        Ok(Received::Burst(Burst {
            link,
            frames: self.pool.take_burst(),
        }))
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.wire.rss_key().filter(|_| self.options.reports_hash)
    }

    fn occupancy(&mut self) -> Option<usize> {
        Some(self.ring.len())
    }

    fn queue_size(&self) -> Option<usize> {
        Some(self.options.ring)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

impl Drop for VirtualPort {
    fn drop(&mut self) {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.received -= self.held.len() as u64;
        outcome.waiting = (self.ring.len() + self.held.len()) as u64;
        outcome.stalled = self.stalls.stalled;
        outcome.elapsed_ticks = self.now;
        let mut outcomes = self
            .outcomes
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        outcomes.push((self.queue, outcome));
    }
}
