//! Run to completion: each thread receives a burst, reads its headers, counts it, and only then
//! receives the next.

use crate::books::Books;
use crate::intake::Intake;
use crate::output::Records;
use crate::progress::Progress;
use crate::report::{QueueReport, Report};
use crate::steer::Steer;
use crate::worker::{
    EngineError, Input, Options, check_cores, enter_port, place, publish_meter, publish_port,
    settle,
};
use flow::{Batch, Meter};
use port::{Port, Received};
use std::thread;
use std::time::Instant;

/// How often finished records are handed on though no batch of them is full.
const FLUSH_MS: u32 = 1000;

/// Bursts between two updates of the progress, on a busy port.
const PUBLISH_EVERY: u32 = 64;

/// What one thread brings home.
struct Worked {
    queue: QueueReport,
    memory_bytes: usize,
    faults: Vec<String>,
    failed: bool,
    unknown_link: Option<u16>,
}

/// Runs one thread for each port.
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
    let shares = if input.same_packets {
        input.ports.len()
    } else {
        1
    };
    let worked = thread::scope(|scope| {
        let threads: Vec<_> = input
            .ports
            .into_iter()
            .enumerate()
            .map(|(number, port)| {
                let work = Work {
                    number,
                    shares,
                    live: input.live,
                    options,
                    progress,
                };
                let records = records.clone();
                thread::Builder::new()
                    .name(format!("monitor-{number}"))
                    .spawn_scoped(scope, move || work.run(port, records))
                    .map_err(|error| EngineError::Thread(error.to_string()))
            })
            .collect::<Result<_, _>>()?;
        Ok(threads
            .into_iter()
            .map(crate::report::join)
            .collect::<Vec<Worked>>())
    })?;
    let mut report = Report::default();
    for worked in worked {
        report.books += &worked.queue.books;
        report.add_flows(&worked.queue.flows);
        report.memory_bytes += worked.memory_bytes;
        report.faults.extend(worked.faults);
        report.failed |= worked.failed;
        report.unknown_links.extend(worked.unknown_link);
        report.queues.push(worked.queue);
    }
    report.elapsed = started.elapsed();
    report.close();
    Ok(report)
}

/// One thread's work.
struct Work<'a> {
    number: usize,
    /// Into how many shares the flows are divided, of which this thread keeps its own.
    shares: usize,
    live: bool,
    options: &'a Options,
    progress: &'a Progress,
}

impl Work<'_> {
    fn run(self, mut port: Box<dyn Port>, mut records: Records) -> Worked {
        let core = self.options.core(self.number);
        settle(core);
        let mut intake = Intake::new(&self.options.meter, self.options.decapsulate);
        let mut meter = Meter::new(&self.options.meter);
        let steer = Steer::new(self.shares);
        let (mut batch, mut share) = (Batch::default(), Batch::default());
        let (mut faults, mut failed) = (Vec::new(), false);
        let (mut flushed_ms, mut bursts, mut stopping) = (0u32, 0u32, false);
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
                    batch.clear();
                    intake.read(&burst, &mut batch);
                    if steer.is_single() {
                        meter.process(&batch, &mut records);
                    } else {
                        share.clear();
                        for (index, &hash) in batch.hashes().iter().enumerate() {
                            if steer.worker(hash) == self.number {
                                share.push_from(&batch, index);
                            }
                        }
                        meter.process(&share, &mut records);
                    }
                    bursts += 1;
                }
                Ok(Received::Idle) => {
                    if self.live {
                        meter.advance(intake.tick(), &mut records);
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
            if self.live && intake.clock_ms().wrapping_sub(flushed_ms) >= FLUSH_MS {
                flushed_ms = intake.clock_ms();
                meter.flush(&mut records);
            }
            if bursts >= PUBLISH_EVERY {
                bursts = 0;
                self.publish(&intake.books(), port.as_mut(), &mut meter);
            }
        }
        meter.finish(intake.clock_ms(), &mut records);
        self.publish(&intake.books(), port.as_mut(), &mut meter);
        let mut books = intake.books();
        enter_port(&mut books, port.as_mut());
        if self.number > 0 && self.shares > 1 {
            // The same packets stand in the books of the first thread, and their faults with them.
            books = Books::default();
            faults.clear();
        }
        Worked {
            queue: QueueReport {
                name: port.name().to_owned(),
                core,
                books,
                flows: meter.counters(),
                cpu: hw::time::thread_cpu(),
            },
            memory_bytes: meter.memory_bytes(),
            faults,
            failed,
            unknown_link: intake.unknown_link(),
        }
    }

    fn publish(&self, books: &Books, port: &mut dyn Port, meter: &mut Meter) {
        if let Some(progress) = place(self.progress, self.number) {
            if self.number == 0 || self.shares == 1 {
                publish_port(progress, books, port);
            }
            publish_meter(progress, meter);
        }
    }
}
