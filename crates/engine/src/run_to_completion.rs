//! Run to completion: each thread receives a burst, reads its headers, counts it, and only then
//! receives the next.

use crate::books::Books;
use crate::intake::Intake;
use crate::options::{EngineError, Input, Options};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::{Pace, alone};
use crate::progress::{Progress, QueueProgress};
use crate::receive::{Handler, Receiver};
use crate::report::{Report, Worked};
use crate::steer::Steer;
use crate::thread::{join, start};
use crate::together::Together;
use flow::{Batch, InFrames, Meter};
use port::{Burst, Port};
use std::thread;

/// Runs one thread for each port, with a meter each.
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
    let shares = if input.same_packets {
        input.ports.len()
    } else {
        1
    };
    let ports = input.ports.len();
    let overhearings = Overhearing::of_all(options, ports, shares == 1)?;
    let together = (shares > 1).then(|| Together::new(shares));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let tables = meters.into_iter().zip(overhearings);
        for (number, (port, table)) in input.ports.into_iter().zip(tables).enumerate() {
            let (meter, overhearing) = table;
            let work = Work {
                number,
                shares,
                together: together.as_ref(),
                overhearing,
                live: input.live,
                options,
                progress,
            };
            let records = records.of_worker(number);
            let name = format!("monitor-{number}");
            let work = move || work.run(port, meter, records);
            threads.push(start(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}

/// One thread's work.
struct Work<'a> {
    number: usize,
    /// Into how many shares the flows are divided, of which this thread keeps its own.
    shares: usize,
    together: Option<&'a Together>,
    overhearing: Overhearing,
    live: bool,
    options: &'a Options,
    progress: &'a Progress,
}

impl Work<'_> {
    fn run(self, port: Box<dyn Port>, meter: Meter, records: Records) -> Worked {
        let seat = self.options.settle(self.number);
        let pace = Pace::alone(&seat.schedule);
        // The packets of shared input are in the books of the first thread alone.
        let counts_packets = self.number == 0 || self.shares == 1;
        let place = self.progress.queues.get(self.number);
        let mut intake = Intake::new(&self.options.meter, self.options.decapsulate)
            .numbered_by(self.options.link_numbers().filter(|_| self.shares == 1));
        let mut counting = Counting {
            meter,
            records,
            steer: Steer::new(self.shares),
            number: self.number,
            overhearing: self.overhearing,
            live: self.live,
            batch: Batch::default(),
            share: Batch::default(),
            place,
            end: u64::MAX,
        };
        let mut receiver = Receiver {
            port,
            live: self.live,
            stop: &self.options.stop,
            progress: self.progress,
            place: place.filter(|_| counts_packets),
            together: self.together.map(Together::attend),
        };
        let mut told = alone(receiver.run(&mut intake, &mut counting, pace));
        told.faults.extend(seat.fault.clone());
        counting.records.wait_from_now_on();
        counting
            .meter
            .finish(intake.clock_ms(), &mut counting.records);
        receiver.publish(&intake, &mut counting);
        let mut queue = receiver.report(intake.books(), &seat);
        if !counts_packets {
            queue.books = Books::default();
            told.faults.clear();
        }
        queue.flows = counting.meter.counters();
        Worked {
            queue,
            memory_bytes: counting.meter.memory_bytes() + counting.overhearing.memory_bytes(),
            told,
            unknown_links: intake.unknown_links().to_vec(),
        }
    }
}

/// What the thread does with its packets.
struct Counting<'a> {
    meter: Meter,
    records: Records,
    steer: Steer,
    number: usize,
    overhearing: Overhearing,
    live: bool,
    batch: Batch,
    /// The packets of the batch that are this thread's, where threads share an input.
    share: Batch,
    place: Option<&'a QueueProgress>,
    /// Packets to be read, its own or not.
    end: u64,
}

impl Handler for Counting<'_> {
    async fn burst(&mut self, intake: &mut Intake, burst: &Burst<'_>) {
        self.batch.clear();
        let left = self.end.saturating_sub(intake.received());
        let count = burst
            .frames
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let burst = &Burst {
            frames: &burst.frames[..count],
            ..*burst
        };
        intake.read(burst, &mut self.batch);
        let payloads = InFrames(burst.frames);
        self.overhearing.listen(&self.batch, 0, &payloads);
        if self.steer.is_single() {
            for (before, told) in self.overhearing.take() {
                self.batch.tell(before, told);
            }
            self.meter
                .process_with(&self.batch, &payloads, &mut self.records);
        } else {
            self.share.clear();
            let mut told = self.overhearing.take().peekable();
            for (index, &hash) in self.batch.hashes().iter().enumerate() {
                while let Some((_, told)) = told.next_if(|(before, _)| *before <= index) {
                    self.share.tell(self.share.len(), told);
                }
                if self.steer.worker(hash) == self.number {
                    self.share.push_from(&self.batch, index);
                }
            }
            for (_, told) in told {
                self.share.tell(self.share.len(), told);
            }
            self.meter
                .process_with(&self.share, &payloads, &mut self.records);
            // Time goes on for the flows of a share that has no packet.
            self.meter.advance(intake.clock_ms(), &mut self.records);
        }
    }

    async fn idle(&mut self, intake: &mut Intake) {
        if self.live {
            self.meter.advance_idle(intake.tick(), &mut self.records);
        }
        self.meter.flush(&mut self.records);
    }

    fn end_behind(&mut self, packets: u64) {
        self.end = packets;
    }

    fn has_ended(&self, intake: &Intake) -> bool {
        intake.received() >= self.end
    }

    fn now_and_then(&mut self, intake: &Intake) {
        if self.live {
            self.meter.flush_after(intake.clock_ms(), &mut self.records);
        }
        if let Some(place) = self.place {
            place.show_meter(&mut self.meter);
        }
    }
}
