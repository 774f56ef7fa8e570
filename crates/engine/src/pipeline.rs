//! Pipeline: receiver threads read headers and hand batches of packets to monitor threads, which
//! count them, over single-producer single-consumer rings. On a link, a batch that finds the ring
//! full is dropped and counted; a file waits.

use crate::books::{Count, Drop};
use crate::intake::Intake;
use crate::output::Records;
use crate::progress::Progress;
use crate::report::{QueueReport, Report};
use crate::steer::Steer;
use crate::worker::{
    EngineError, Input, Options, check_cores, enter_port, place, publish_meter, publish_port,
    settle,
};
use flow::{BURST, Batch, Meter};
use hw::ring::{Consumer, Producer, ring};
use port::{Port, Received};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How long a thread with nothing to do sleeps, after it has spun for a while.
const NAP: Duration = Duration::from_micros(50);

/// Empty polls before a thread naps.
const SPINS: u32 = 2000;

/// How often finished records are handed on though no batch of them is full.
const FLUSH_MS: u32 = 1000;

/// Bursts between two updates of the progress, on a busy port.
const PUBLISH_EVERY: u32 = 64;

/// What goes from a receiver to a monitor.
enum Message {
    /// Packets of the monitor's flows.
    Packets(Box<Batch>),
    /// The clock, where no packets drive it.
    Clock(u32),
    /// No more; the clock at the end.
    End(u32),
}

/// A receiver's end of the way to one monitor.
struct ToMonitor {
    full: Producer<Message>,
    empty: Consumer<Box<Batch>>,
    open: Box<Batch>,
}

/// A monitor's end.
struct FromReceiver {
    full: Consumer<Message>,
    empty: Producer<Box<Batch>>,
}

/// What one thread brings home.
enum Worked {
    Receiver {
        queue: QueueReport,
        faults: Vec<String>,
        failed: bool,
        unknown_link: Option<u16>,
    },
    Monitor {
        queue: QueueReport,
        memory_bytes: usize,
    },
}

/// Runs a receiver for each port, and `options.monitors` monitors behind each.
///
/// # Errors
/// When a thread cannot start on its core.
pub fn run(
    options: &Options,
    input: Input,
    records: &Records,
    progress: &Progress,
) -> Result<Report, EngineError> {
    check_cores(&options.cores)?;
    let started = Instant::now();
    let monitors = options.monitors.max(1);
    let slots = (options.ring / BURST).max(2);
    let worked = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (receiver, port) in input.ports.into_iter().enumerate() {
            let first = receiver * (1 + monitors);
            let mut ways = Vec::new();
            for monitor in 0..monitors {
                let (full, full_end) = ring(slots);
                // Room for every batch that can be under way, so that giving back never fails.
                let (empty_end, empty) = ring(slots + 2);
                ways.push(ToMonitor {
                    full,
                    empty,
                    open: Box::default(),
                });
                let work = Monitor {
                    thread: first + 1 + monitor,
                    way: FromReceiver {
                        full: full_end,
                        empty: empty_end,
                    },
                    options,
                    live: input.live,
                    progress,
                };
                let records = records.clone();
                let name = format!("monitor-{receiver}-{monitor}");
                threads.push(start(scope, name.clone(), move || work.run(name, records))?);
            }
            let work = Receiver {
                thread: first,
                steer: Steer::new(monitors),
                ways,
                options,
                live: input.live,
                progress,
                overflow: Count::default(),
            };
            threads.push(start(scope, format!("receiver-{receiver}"), move || {
                work.run(port)
            })?);
        }
        Ok(threads
            .into_iter()
            .map(crate::report::join)
            .collect::<Vec<Worked>>())
    })?;
    let mut report = Report::default();
    for worked in worked {
        match worked {
            Worked::Receiver {
                queue,
                faults,
                failed,
                unknown_link,
            } => {
                report.failed |= failed;
                report.books += &queue.books;
                report.faults.extend(faults);
                report.unknown_links.extend(unknown_link);
                report.queues.push(queue);
            }
            Worked::Monitor {
                queue,
                memory_bytes,
            } => {
                report.add_flows(&queue.flows);
                report.memory_bytes += memory_bytes;
                report.queues.push(queue);
            }
        }
    }
    report.elapsed = started.elapsed();
    report.close();
    Ok(report)
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> Worked + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Worked>, EngineError> {
    thread::Builder::new()
        .name(name)
        .spawn_scoped(scope, work)
        .map_err(|error| EngineError::Thread(error.to_string()))
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

struct Receiver<'a> {
    thread: usize,
    steer: Steer,
    ways: Vec<ToMonitor>,
    options: &'a Options,
    live: bool,
    progress: &'a Progress,
    /// Packets that found a ring full.
    overflow: Count,
}

impl Receiver<'_> {
    fn run(mut self, mut port: Box<dyn Port>) -> Worked {
        let core = self.options.core(self.thread);
        settle(core);
        let mut intake = Intake::new(&self.options.meter, self.options.decapsulate);
        let mut batch = Batch::default();
        let (mut faults, mut failed) = (Vec::new(), false);
        let (mut bursts, mut stopping) = (0u32, false);
        loop {
            if !stopping && self.options.stop.is_requested() {
                stopping = true;
                port.stop();
                if !self.live {
                    break;
                }
            }
            match port.receive() {
                Ok(Received::Burst(burst)) => {
                    if self.steer.is_single() {
                        if self.ways[0].open.len() + burst.frames.len() > BURST {
                            self.send(0);
                        }
                        intake.read(&burst, &mut self.ways[0].open);
                    } else {
                        batch.clear();
                        intake.read(&burst, &mut batch);
                        self.hand_out(&batch);
                    }
                    if self.live {
                        self.send_to_idle();
                    }
                    bursts += 1;
                }
                Ok(Received::Idle) => {
                    self.send_open();
                    if self.live {
                        let clock_ms = intake.tick();
                        for way in &mut self.ways {
                            // A full ring has packets in it, which drive the clock as well.
                            let _ = way.full.push(Message::Clock(clock_ms));
                        }
                    }
                    bursts = PUBLISH_EVERY;
                }
                Ok(Received::Fault(message)) => faults.push(message),
                Ok(Received::End) => break,
                Err(error) => {
                    faults.push(error.to_string());
                    failed = true;
                    break;
                }
            }
            if bursts >= PUBLISH_EVERY {
                bursts = 0;
                if let Some(progress) = place(self.progress, self.thread) {
                    publish_port(progress, &self.books(&intake), port.as_mut());
                }
            }
        }
        self.send_open();
        for way in &mut self.ways {
            push(&mut way.full, Message::End(intake.clock_ms()));
        }
        let mut books = self.books(&intake);
        enter_port(&mut books, port.as_mut());
        if let Some(progress) = place(self.progress, self.thread) {
            publish_port(progress, &self.books(&intake), port.as_mut());
        }
        Worked::Receiver {
            queue: QueueReport {
                name: port.name().to_owned(),
                core,
                books,
                cpu: hw::time::thread_cpu(),
                ..QueueReport::default()
            },
            faults,
            failed,
            unknown_link: intake.unknown_link(),
        }
    }

    fn books(&self, intake: &Intake) -> crate::Books {
        let mut books = intake.books();
        books.processed.packets -= self.overflow.packets;
        books.processed.bytes -= self.overflow.bytes;
        books.dropped[Drop::Ring as usize] += self.overflow;
        books
    }

    /// Gives each packet to the monitor of its flow.
    fn hand_out(&mut self, batch: &Batch) {
        for (index, &hash) in batch.hashes().iter().enumerate() {
            let monitor = self.steer.worker(hash);
            self.ways[monitor].open.push_from(batch, index);
            if self.ways[monitor].open.is_full() {
                self.send(monitor);
            }
        }
    }

    /// Sends what is begun to the monitors that have nothing else to do: batches fill up only as
    /// far as monitors are busy.
    fn send_to_idle(&mut self) {
        for monitor in 0..self.ways.len() {
            let way = &self.ways[monitor];
            if !way.open.is_empty() && way.full.occupancy() == 0 {
                self.send(monitor);
            }
        }
    }

    /// Sends what is begun, full or not.
    fn send_open(&mut self) {
        for monitor in 0..self.ways.len() {
            if !self.ways[monitor].open.is_empty() {
                self.send(monitor);
            }
        }
    }

    fn send(&mut self, monitor: usize) {
        let way = &mut self.ways[monitor];
        let mut fresh = way.empty.pop().unwrap_or_default();
        fresh.clear();
        let full = Message::Packets(std::mem::replace(&mut way.open, fresh));
        if !self.live {
            push(&mut way.full, full);
        } else if let Err(Message::Packets(batch)) = way.full.push(full) {
            self.overflow.packets += batch.len() as u64;
            self.overflow.bytes += batch
                .packets()
                .iter()
                .map(|packet| u64::from(packet.length))
                .sum::<u64>();
            way.open = batch;
            way.open.clear();
        }
    }
}

/// Puts a message in, waiting for room.
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

struct Monitor<'a> {
    thread: usize,
    way: FromReceiver,
    options: &'a Options,
    live: bool,
    progress: &'a Progress,
}

impl Monitor<'_> {
    fn run(mut self, name: String, mut records: Records) -> Worked {
        let core = self.options.core(self.thread);
        settle(core);
        let mut meter = Meter::new(&self.options.meter);
        let mut patience = Patience::default();
        let (mut clock_ms, mut flushed_ms, mut bursts) = (0u32, 0u32, 0u32);
        loop {
            match self.way.full.pop() {
                Some(Message::Packets(batch)) => {
                    patience.reset();
                    meter.process(&batch, &mut records);
                    clock_ms = batch
                        .packets()
                        .last()
                        .map_or(clock_ms, |packet| packet.clock_ms);
                    // With no room left on the way back, the batch is let go.
                    let _ = self.way.empty.push(batch);
                    bursts += 1;
                }
                Some(Message::Clock(now_ms)) => {
                    clock_ms = now_ms;
                    meter.advance(clock_ms, &mut records);
                    bursts = PUBLISH_EVERY;
                }
                Some(Message::End(end_ms)) => {
                    clock_ms = end_ms;
                    break;
                }
                None if self.way.full.is_abandoned() => break,
                None => patience.wait(),
            }
            if self.live && clock_ms.wrapping_sub(flushed_ms) >= FLUSH_MS {
                flushed_ms = clock_ms;
                meter.flush(&mut records);
            }
            if bursts >= PUBLISH_EVERY {
                bursts = 0;
                self.publish(&mut meter);
            }
        }
        meter.finish(clock_ms, &mut records);
        self.publish(&mut meter);
        Worked::Monitor {
            queue: QueueReport {
                name,
                core,
                flows: meter.counters(),
                cpu: hw::time::thread_cpu(),
                ..QueueReport::default()
            },
            memory_bytes: meter.memory_bytes(),
        }
    }

    fn publish(&self, meter: &mut Meter) {
        if let Some(progress) = place(self.progress, self.thread) {
            publish_meter(progress, meter);
        }
    }
}
