//! A receive queue on a wire whose time advances with the receiver's work.

use super::options::{Acquisition, Frames, VirtualOptions};
use super::stalls::{Stalled, Stalls};
use super::wire::Wire;
use hw::time::{TickRate, ticks};
use port::frame_pool::FrameMeta;
use port::{Burst, Counters, FramePool, Port, PortError, Received};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers of a pool whose frames stay in the caches: as for a device with 4096 descriptors.
const BUFFERS_HOT: usize = 8192;

/// Buffers of a pool whose frames do not: 128 MiB of 2 KiB buffers, each flushed after it is written.
const BUFFERS_COLD: usize = 1 << 16;

/// Bytes of a buffer, as in a device.
const BUFFER_BYTES: usize = 2048;

/// Fractional bits of the wire's time in ticks.
const FRACTION_BITS: u32 = 20;

/// The counts of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueOutcome {
    /// Packets that the wire delivered for this queue.
    pub offered: u64,
    /// Packets that the receiver received.
    pub received: u64,
    /// Packets that found the ring full.
    pub missed: u64,
    /// Missed packets of the warm-up.
    pub missed_warming: u64,
    /// Offered packets of the warm-up.
    pub offered_warming: u64,
    /// Packets left in the ring: 0 after the end of the wire.
    pub waiting: u64,
    /// Received packets by flow of the [`Wire`].
    pub by_flow: Vec<u64>,
    /// Polls that received packets.
    pub polls: u64,
    /// Ticks of the receiver's work and the receive charge, stalls clipped.
    pub busy_ticks: u64,
    /// Packets of polls that were not stalled.
    pub busy_packets: u64,
    /// Ticks of polls that were not stalled.
    pub own_ticks: u64,
    /// Ticks of the longest of these.
    pub own_worst: u64,
    /// The clipped stalls.
    pub stalled: Stalled,
    /// A histogram of the packets in the ring at a poll: bin k counts those below 2^k.
    pub occupancy: [u64; 18],
    /// The most packets in the ring at a poll.
    pub occupancy_max: u64,
    /// Packets in the ring at each poll (with [`VirtualOptions::trace`]).
    pub occupancies: Vec<u32>,
    /// Packets and measured ticks of each poll (with [`VirtualOptions::trace`]).
    pub trace: Vec<(u16, u64)>,
    /// Elapsed virtual time, in ticks.
    pub elapsed_ticks: u64,
}

/// The outcomes that ports store on drop.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(Arc<Mutex<Vec<(u32, QueueOutcome)>>>);

impl Outcomes {
    /// Removes and returns the outcomes of all dropped ports, in the order of their queues.
    #[must_use]
    pub fn take(&self) -> Vec<QueueOutcome> {
        let mut outcomes =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        outcomes.sort_by_key(|(queue, _)| *queue);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// One receive queue of an emulated link, as a port.
///
/// Between two calls of [`Port::receive`] the receiver works: the ticks of this work and a charge for
/// the device's receive function are the time that passes on the wire. The port's own work (writing
/// frames to the ring and to buffers) takes no time. Each queue has its own clock, as if its receiver had
/// its own core, so more queues than cores can be emulated.
pub struct VirtualPort {
    wire: Arc<Wire>,
    options: VirtualOptions,
    queue: u32,
    pool: FramePool,
    stalls: Stalls,
    /// Virtual time in ticks.
    now: u64,
    /// Number of the next frame on the wire, and its arrival time in ticks with [`FRACTION_BITS`].
    next: u64,
    next_due: u64,
    step: u64,
    /// Whether the wire waits for the receiver.
    waits: bool,
    ns_per_packet: f64,
    /// Frames in the ring, by their numbers.
    ring: VecDeque<u64>,
    /// Frames of the last poll that the receiver has not received yet.
    held: VecDeque<u64>,
    /// When the receiver received its last burst, and the packets of that burst.
    last_burst: Option<(u64, u64)>,
    /// Ticks between two polls of a periodic receiver.
    period: Option<u64>,
    receive_ticks: f64,
    /// The fraction of a tick that is charged but has not passed yet.
    charge: f64,
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
    /// When there is too little memory for the buffers.
    pub fn new(
        wire: &Arc<Wire>,
        options: &VirtualOptions,
        queue: u32,
        outcomes: &Outcomes,
    ) -> io::Result<Self> {
        let rate = TickRate::get();
        let waits = options.rate_pps.is_infinite();
        // A rate below a packet per hour is a mistake, and overflows the clock.
        let slowest = 1.0 / 3600.0;
        if options.rate_pps.is_nan()
            || options.rate_pps < slowest
            || options.timestamp_pps < slowest
        {
            let message = format!(
                "invalid rate of the wire: {} packets per second",
                options.rate_pps
            );
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
            step: (ticks_per_packet * f64::from(1u32 << FRACTION_BITS)) as u64,
            waits,
            ns_per_packet: 1e9 / rate_pps,
            ring: VecDeque::with_capacity(options.ring),
            held: VecDeque::with_capacity(options.batch),
            last_burst: None,
            period: match options.acquisition {
                Acquisition::Polled => None,
                Acquisition::Periodic(ns) => Some(rate.to_ticks(ns).max(1)),
            },
            receive_ticks: options.receive_ns * rate.per_second() / 1e9,
            charge: 0.0,
            outcome,
            outcomes: outcomes.clone(),
            counters: Counters::default(),
            stopped: false,
            name: format!("virtual clock, queue {queue}"),
            options: options.clone(),
        })
    }

    /// Returns all queues of a link, and their outcomes.
    ///
    /// # Errors
    /// When there is too little memory for the buffers.
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

    /// Advances the time by the receiver's work since the last burst.
    fn advance(&mut self, entered: u64) {
        let Some((begun, packets)) = self.last_burst.take() else {
            return;
        };
        let elapsed = entered.saturating_sub(begun);
        let (counted, own) = self.stalls.clip(elapsed, packets);
        if self.options.trace {
            self.outcome.trace.push((packets as u16, elapsed));
        }
        if own {
            self.outcome.own_ticks += elapsed;
            self.outcome.own_worst = self.outcome.own_worst.max(elapsed);
            self.outcome.busy_packets += packets;
        }
        self.charge += packets as f64 * self.receive_ticks;
        let charged = self.charge as u64;
        self.charge -= charged as f64;
        self.outcome.busy_ticks += counted + charged;
        self.now += counted + charged;
    }

    /// Moves the frames that have arrived to the ring.
    fn deliver(&mut self) {
        let now = self.now << FRACTION_BITS;
        while self.next < self.options.packets && !self.stopped {
            let is_due = if self.waits {
                self.ring.len() < self.options.batch.min(self.options.ring)
            } else {
                self.next_due <= now
            };
            if !is_due {
                break;
            }
            let frame = self.wire.frame(self.next);
            if frame.queue(self.options.queues) == self.queue {
                let is_warm_up = self.next < self.options.warm_up;
                self.outcome.offered += 1;
                self.outcome.offered_warming += u64::from(is_warm_up);
                if self.ring.len() < self.options.ring {
                    self.ring.push_back(self.next);
                } else {
                    self.outcome.missed += 1;
                    self.outcome.missed_warming += u64::from(is_warm_up);
                    self.counters.missed += 1;
                }
            }
            self.next += 1;
            self.next_due = self.next_due.saturating_add(self.step);
        }
    }

    /// Whether the wire has ended.
    fn is_ended(&self) -> bool {
        self.stopped || self.next >= self.options.packets
    }

    /// Records the packets in the ring at a poll.
    fn record_occupancy(&mut self) {
        let held = self.ring.len() as u64;
        let bin = (u64::BITS - held.leading_zeros()) as usize;
        let last = self.outcome.occupancy.len() - 1;
        self.outcome.occupancy[bin.min(last)] += 1;
        self.outcome.occupancy_max = self.outcome.occupancy_max.max(held);
        if self.options.trace {
            self.outcome.occupancies.push(held as u32);
        }
    }

    /// Waits, in virtual time, until the ring has a frame; `false` at the end of the wire.
    fn wait(&mut self) -> bool {
        self.deliver();
        if self.period.is_none() {
            self.record_occupancy();
        }
        while self.ring.is_empty() {
            if self.is_ended() {
                return false;
            }
            // The tick at which the next frame has arrived.
            let due = self.next_due.saturating_add((1 << FRACTION_BITS) - 1) >> FRACTION_BITS;
            self.now = self.now.max(match self.period {
                None => due,
                // With an empty ring the receiver sleeps until the next period.
                Some(period) => (self.now / period + 1) * period,
            });
            self.deliver();
            if self.period.is_some() {
                self.record_occupancy();
            }
        }
        true
    }

    /// Removes a batch from the ring.
    fn poll(&mut self) {
        let count = self.ring.len().min(self.options.batch.max(1));
        self.held.extend(self.ring.drain(..count));
        self.outcome.polls += 1;
        self.outcome.received += count as u64;
    }

    /// Writes the frames of a burst to buffers; returns their number.
    fn fill_burst(&mut self) -> u64 {
        let count = self.held.len().min(port::frame::BURST);
        let cold = self.options.frames == Frames::Cold;
        for number in self.held.drain(..count) {
            let frame = self.wire.frame(number);
            let meta = FrameMeta {
                time_ns: self.options.begin_ns + (number as f64 * self.ns_per_packet) as i64,
                wire_length: frame.wire_length,
                rss_hash: frame.hash().filter(|_| self.options.reports_hash),
                ..FrameMeta::default()
            };
            self.pool.write(frame.bytes, meta, cold);
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
        self.advance(ticks());
        if self.held.is_empty() {
            if !self.wait() {
                return Ok(Received::End);
            }
            self.poll();
        }
        let count = self.fill_burst();
        let link = self.wire.link();
        // From here on the receiver works.
        self.last_burst = Some((ticks(), count));
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
