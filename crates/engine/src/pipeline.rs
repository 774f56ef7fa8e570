//! Pipeline: receiver threads read headers and hand batches of packets to monitor threads, which
//! count them, over single-producer single-consumer rings. On a link, packets that find the ring
//! full are dropped and counted; a file waits.

use crate::books::{Books, Count, Loss};
use crate::intake::Intake;
use crate::options::{EngineError, Input, Options, settle};
use crate::output::Records;
use crate::progress::Progress;
use crate::receive::{Handler, PUBLISH_MS, Receiver};
use crate::report::{QueueReport, Report, Worked, join};
use crate::steer::Steer;
use flow::{BURST, Batch, Meter};
use hw::ring::{Consumer, Popped, Producer, ring};
use port::{Burst, Port};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// How long a thread with nothing to do sleeps, after it has spun for a while.
const NAP: Duration = Duration::from_micros(50);

/// Empty polls before a thread naps.
const SPINS: u32 = 2000;

/// Every monitor is told the time at least so often: it may have no packets of its own, and its
/// flows end all the same. (Also, no two readings that it compares are far enough apart to wrap.)
const CLOCK_MS: u32 = 1000;

/// What goes from a receiver to a monitor.
enum Message {
    /// Packets of the monitor's flows.
    Packets(Box<Batch>),
    /// The clock, where no packets drive it.
    Clock(u32),
    /// No more; the clock at the end.
    End(u32),
}

/// Runs a receiver for each port, and `options.monitors` monitors behind each, with a meter each.
///
/// # Errors
/// When a thread cannot start.
pub(crate) fn run(
    options: &Options,
    input: Input,
    meters: Vec<Meter>,
    records: &Records,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let slots = (options.ring / BURST).max(2);
    let mut meters = meters.into_iter();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (receiver, port) in input.ports.into_iter().enumerate() {
            let first = receiver * (1 + options.monitors);
            let mut ways = Vec::new();
            for (monitor, meter) in meters.by_ref().take(options.monitors).enumerate() {
                let (full, full_end) = ring(slots);
                // Room for every batch that can be under way, so that giving back never fails.
                let (empty_end, empty) = ring(slots + 2);
                ways.push(ToMonitor {
                    full,
                    empty,
                    open: Box::default(),
                    clock_ms: 0,
                });
                let work = Monitor {
                    name: format!("monitor-{receiver}-{monitor}"),
                    thread: first + 1 + monitor,
                    full: full_end,
                    empty: empty_end,
                    options,
                    live: input.live,
                    progress,
                };
                let records = records.clone();
                let name = work.name.clone();
                threads.push(start(scope, options, name, move || {
                    work.run(meter, records)
                })?);
            }
            let name = format!("receiver-{receiver}");
            let live = input.live;
            let work = move || receive(options, progress, port, live, first, ways);
            threads.push(start(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    options: &Options,
    name: String,
    work: impl FnOnce() -> Worked + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Worked>, EngineError> {
    thread::Builder::new()
        .name(name)
        .spawn_scoped(scope, work)
        .map_err(|error| {
            options.stop.request();
            EngineError::Thread(error.to_string())
        })
}

/// A receiver's thread.
fn receive(
    options: &Options,
    progress: &Progress,
    port: Box<dyn Port>,
    live: bool,
    thread: usize,
    ways: Vec<ToMonitor>,
) -> Worked {
    let _guard = options.stop.on_panic();
    let core = options.core(thread);
    settle(core);
    let mut intake = Intake::new(&options.meter, options.decapsulate);
    let mut sending = Sending {
        steer: Steer::new(ways.len()),
        ways,
        live,
        batch: Batch::default(),
        overflow: Count::default(),
    };
    let place = progress.queues.get(thread);
    let mut receiver = Receiver {
        port,
        live,
        stop: &options.stop,
        progress,
        place,
    };
    let told = receiver.run(&mut intake, &mut sending);
    // The port has ended: there is time to wait for the monitors.
    sending.live = false;
    sending.send_open();
    for way in &mut sending.ways {
        push(&mut way.full, Message::End(intake.clock_ms()));
    }
    receiver.publish(&intake, &mut sending);
    let queue = receiver.report(sending.books(&intake), core);
    Worked {
        queue,
        memory_bytes: 0,
        told,
        unknown_links: intake.unknown_links().to_vec(),
    }
}

/// A receiver's end of the way to one monitor.
struct ToMonitor {
    full: Producer<Message>,
    empty: Consumer<Box<Batch>>,
    /// The batch that is being filled.
    open: Box<Batch>,
    /// The clock that the monitor was last told.
    clock_ms: u32,
}

/// What a receiver does with its packets.
struct Sending {
    steer: Steer,
    ways: Vec<ToMonitor>,
    live: bool,
    batch: Batch,
    /// Packets that found a ring full.
    overflow: Count,
}

impl Handler for Sending {
    fn burst(&mut self, intake: &mut Intake, burst: &Burst<'_>) {
        if self.steer.is_single() {
            if self.ways[0].open.len() + burst.frames.len() > BURST {
                self.send(0);
            }
            intake.read(burst, &mut self.ways[0].open);
        } else {
            self.batch.clear();
            intake.read(burst, &mut self.batch);
            self.hand_out();
        }
        let clock_ms = intake.clock_ms();
        for monitor in 0..self.ways.len() {
            let way = &self.ways[monitor];
            if clock_ms.wrapping_sub(way.clock_ms) >= CLOCK_MS {
                self.tell(monitor, clock_ms);
            } else if self.live && !way.open.is_empty() && way.full.occupancy() == 0 {
                // Batches fill up only as far as the monitor is busy.
                self.send(monitor);
            }
        }
    }

    fn idle(&mut self, intake: &mut Intake) {
        let clock_ms = if self.live {
            intake.tick()
        } else {
            intake.clock_ms()
        };
        for monitor in 0..self.ways.len() {
            self.tell(monitor, clock_ms);
        }
    }

    fn now_and_then(&mut self, _: &Intake) {}

    fn books(&self, intake: &Intake) -> Books {
        let mut books = intake.books();
        books.processed.packets -= self.overflow.packets;
        books.processed.bytes -= self.overflow.bytes;
        books.dropped[Loss::Ring as usize] += self.overflow;
        books
    }
}

impl Sending {
    /// Gives each packet to the monitor of its flow.
    fn hand_out(&mut self) {
        for index in 0..self.batch.len() {
            let monitor = self.steer.worker(self.batch.hashes()[index]);
            if self.ways[monitor].open.is_full() {
                self.send(monitor);
            }
            self.ways[monitor].open.push_from(&self.batch, index);
        }
    }

    /// Sends what is begun, full or not.
    fn send_open(&mut self) {
        for monitor in 0..self.ways.len() {
            self.send(monitor);
        }
    }

    /// Sends what is begun for a monitor and tells it the time, unless it is too busy to listen: then
    /// it has packets in its ring, which tell it too.
    fn tell(&mut self, monitor: usize, clock_ms: u32) {
        self.send(monitor);
        let way = &mut self.ways[monitor];
        if !self.live {
            push(&mut way.full, Message::Clock(clock_ms));
        } else if !way.open.is_empty() || way.full.push(Message::Clock(clock_ms)).is_err() {
            return;
        }
        way.clock_ms = clock_ms;
    }

    /// Sends the open batch of a monitor. On a link, with the ring full, it stays open while there
    /// is room in it, and is dropped when there is none.
    fn send(&mut self, monitor: usize) {
        let way = &mut self.ways[monitor];
        if way.open.is_empty() {
            return;
        }
        if self.live && way.full.is_full() {
            // A burst must find room for as many packets as it may have.
            if !self.steer.is_single() && !way.open.is_full() {
                return;
            }
            self.overflow.packets += way.open.len() as u64;
            let lengths = way
                .open
                .packets()
                .iter()
                .map(|packet| u64::from(packet.length));
            self.overflow.bytes += lengths.sum::<u64>();
            way.open.clear();
            return;
        }
        let mut fresh = match way.empty.pop() {
            Popped::Item(batch) => batch,
            Popped::Empty | Popped::Closed => Box::default(),
        };
        fresh.clear();
        push(
            &mut way.full,
            Message::Packets(std::mem::replace(&mut way.open, fresh)),
        );
    }
}

/// Puts a message in, waiting for room; without a monitor at the other end, it is let go.
fn push(full: &mut Producer<Message>, mut message: Message) {
    let mut patience = Patience::default();
    while let Err(back) = full.push(message) {
        if full.is_abandoned() {
            return;
        }
        message = back;
        patience.wait();
    }
}

/// Waits a little longer each time there is nothing to do.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn reset(&mut self) {
        self.0 = 0;
    }

    fn wait(&mut self) {
        self.0 += 1;
        if self.0 < SPINS {
            std::hint::spin_loop();
        } else {
            thread::sleep(NAP);
        }
    }
}

/// A monitor's thread.
struct Monitor<'a> {
    name: String,
    thread: usize,
    full: Consumer<Message>,
    empty: Producer<Box<Batch>>,
    options: &'a Options,
    live: bool,
    progress: &'a Progress,
}

impl Monitor<'_> {
    fn run(mut self, mut meter: Meter, mut records: Records) -> Worked {
        let _guard = self.options.stop.on_panic();
        let core = self.options.core(self.thread);
        settle(core);
        let place = self.progress.queues.get(self.thread);
        let mut patience = Patience::default();
        let (mut clock_ms, mut shown_ms) = (0u32, 0u32);
        loop {
            match self.full.pop() {
                Popped::Item(Message::Packets(batch)) => {
                    patience.reset();
                    meter.process(&batch, &mut records);
                    clock_ms = batch
                        .packets()
                        .last()
                        .map_or(clock_ms, |packet| packet.clock_ms);
                    // With no room left on the way back, the batch is let go.
                    let _ = self.empty.push(batch);
                }
                Popped::Item(Message::Clock(now_ms)) => {
                    clock_ms = now_ms;
                    meter.advance(clock_ms, &mut records);
                    meter.flush(&mut records);
                }
                Popped::Item(Message::End(end_ms)) => {
                    clock_ms = end_ms;
                    break;
                }
                Popped::Closed => break,
                Popped::Empty => patience.wait(),
            }
            if clock_ms.wrapping_sub(shown_ms) >= PUBLISH_MS {
                shown_ms = clock_ms;
                if self.live {
                    meter.flush_after(clock_ms, &mut records);
                }
                if let Some(place) = place {
                    place.show_meter(&mut meter);
                }
            }
        }
        records.wait_from_now_on();
        meter.finish(clock_ms, &mut records);
        if let Some(place) = place {
            place.show_meter(&mut meter);
        }
        let queue = QueueReport {
            name: self.name,
            core,
            flows: meter.counters(),
            cpu: hw::time::thread_cpu(),
            ..QueueReport::default()
        };
        Worked {
            queue,
            memory_bytes: meter.memory_bytes(),
            ..Worked::default()
        }
    }
}
