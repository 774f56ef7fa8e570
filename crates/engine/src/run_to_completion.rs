//! The run-to-completion model: each thread receives a burst, parses its headers and measures it before
//! it receives the next one.

use crate::books::{Books, Count};
use crate::dns_feed::DnsFeed;
use crate::executor::{Executor, block_on};
use crate::measurement::{MeasurementSet, Measurements, PacketInput, Packets};
use crate::options::{EngineError, Input, Options};
use crate::parser::PacketParser;
use crate::progress::{Progress, QueueProgress};
use crate::receiver::{Handler, Receiver, receive_burst};
use crate::record_channel::RecordSender;
use crate::report::{Report, ThreadResult};
use crate::steer::Steer;
use crate::stop_barrier::StopBarrier;
use crate::thread::{ThreadPlacement, join, spawn};
use flow::{Batch, FramePayloads};
use port::{Burst, Port, PortError, Received};
use std::thread;

/// Runs one thread for each port, with a set of measurements per thread.
///
/// # Errors
/// Fails if a thread cannot start.
pub(crate) fn run(
    options: &Options,
    mut input: Input,
    measurements: Measurements,
    records: &RecordSender,
    progress: &Progress,
) -> Result<Report, EngineError> {
    if options.packet_input() == PacketInput::Frames && input.same_packets {
        // Without flow keys, there is nothing to divide the packets by: one thread counts them all.
        input.ports.truncate(1);
    }
    let shares = if input.same_packets {
        input.ports.len()
    } else {
        1
    };
    let ports = input.ports.len();
    let dns_feeds = DnsFeed::new_all(options, ports, shares == 1)?;
    let stop_barrier = (shares > 1).then(|| StopBarrier::new(shares));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let sets = measurements.monitors.into_iter().zip(dns_feeds);
        for (number, (port, set)) in input.ports.into_iter().zip(sets).enumerate() {
            let (measurements, dns_feed) = set;
            let worker = Worker {
                number,
                shares,
                stop_barrier: stop_barrier.as_ref(),
                dns_feed,
                live: input.live,
                options,
                progress,
            };
            let records = records.for_worker(number);
            let name = format!("monitor-{number}");
            let work = move || worker.run(port, measurements, records);
            threads.push(spawn(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}

/// A thread of this model.
struct Worker<'a> {
    number: usize,
    /// Number of threads that read the same packets and divide the flows among them.
    shares: usize,
    stop_barrier: Option<&'a StopBarrier>,
    dns_feed: DnsFeed,
    live: bool,
    options: &'a Options,
    progress: &'a Progress,
}

impl Worker<'_> {
    fn run(
        self,
        port: Box<dyn Port>,
        measurements: MeasurementSet,
        records: RecordSender,
    ) -> ThreadResult {
        let placement = ThreadPlacement::apply(self.options, self.number);
        let executor = Executor::single_task(&placement.schedule);
        // If threads read the same packets, only the first one counts them.
        let counts_packets = self.number == 0 || self.shares == 1;
        let queue_progress = self.progress.queues.get(self.number);
        let mut parser = PacketParser::new(&self.options.meter, self.options.decapsulate)
            .with_link_counter(
                self.options
                    .link_packet_counter()
                    .filter(|_| self.shares == 1),
            );
        let mut handler = MeasurementHandler {
            measurements,
            records,
            steer: Steer::new(self.shares),
            number: self.number,
            counts_packets,
            input: self.options.packet_input(),
            counted: Count::default(),
            dns_feed: self.dns_feed,
            live: self.live,
            batch: Batch::default(),
            share: Batch::default(),
            queue: queue_progress,
            stop_after: u64::MAX,
        };
        let mut receiver = Receiver {
            port,
            live: self.live,
            stop: &self.options.stop,
            progress: self.progress,
            queue: queue_progress.filter(|_| counts_packets),
            stop_ticket: self.stop_barrier.map(StopBarrier::ticket),
        };
        let mut faults = block_on(receiver.run(&mut parser, &mut handler, executor));
        faults.messages.extend(placement.fault.clone());
        handler.records.set_blocking();
        handler
            .measurements
            .finish(parser.clock_ms(), &mut handler.records);
        receiver.publish(&parser, &mut handler);
        let mut queue = receiver.report(handler.books(&parser), &placement);
        if !counts_packets {
            queue.books = Books::default();
            queue.inputs.clear();
            faults.messages.clear();
        }
        queue.flows = handler.measurements.counters();
        if counts_packets {
            queue.flows.answers_dropped = handler.dns_feed.dropped();
        }
        ThreadResult {
            queue,
            findings: handler
                .measurements
                .report(counts_packets.then(|| parser.books()).as_ref()),
            memory_bytes: handler.measurements.memory_bytes() + handler.dns_feed.memory_bytes(),
            port_faults: faults,
            unknown_links: parser.unknown_links().to_vec(),
        }
    }
}

/// Measures the packets of one thread.
struct MeasurementHandler<'a> {
    measurements: MeasurementSet,
    records: RecordSender,
    steer: Steer,
    number: usize,
    /// Whether this thread counts packets without a flow.
    counts_packets: bool,
    input: PacketInput,
    /// Packets counted without reading their headers.
    counted: Count,
    dns_feed: DnsFeed,
    live: bool,
    batch: Batch,
    /// The packets of the batch in this thread's flows, if threads read the same packets.
    share: Batch,
    queue: Option<&'a QueueProgress>,
    /// Packets of the input to read before stopping.
    stop_after: u64,
}

impl Handler for MeasurementHandler<'_> {
    async fn handle_burst(&mut self, parser: &mut PacketParser, burst: &Burst<'_>) {
        self.batch.clear();
        let left = self.stop_after.saturating_sub(parser.received());
        let count = burst
            .frames
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let burst = &Burst {
            frames: &burst.frames[..count],
            ..*burst
        };
        parser.parse(burst, &mut self.batch);
        let frames = burst.frames;
        self.dns_feed.learn(&self.batch, 0, &FramePayloads(frames));
        if self.counts_packets {
            self.measurements
                .count_without_flow(frames, self.batch.packets());
        }
        if self.steer.is_single() {
            for (before, answer) in self.dns_feed.drain() {
                self.batch.push_dns_answer(before, answer);
            }
            let packets = Packets {
                batch: &self.batch,
                frames: Some(frames),
            };
            self.measurements.process(&packets, &mut self.records);
        } else {
            self.share.clear();
            let mut answers = self.dns_feed.drain().peekable();
            for (index, &hash) in self.batch.hashes().iter().enumerate() {
                while let Some((_, answer)) = answers.next_if(|(before, _)| *before <= index) {
                    self.share.push_dns_answer(self.share.len(), answer);
                }
                if self.steer.worker(hash) == self.number {
                    self.share.push_from(&self.batch, index);
                }
            }
            for (_, answer) in answers {
                self.share.push_dns_answer(self.share.len(), answer);
            }
            let packets = Packets {
                batch: &self.share,
                frames: Some(frames),
            };
            self.measurements.process(&packets, &mut self.records);
            // The clock advances even if no packet of the burst was for this thread.
            self.measurements
                .advance(parser.clock_ms(), &mut self.records);
        }
    }

    /// Lets the port count without building a list of frames, if no frame is read.
    async fn receive(
        &mut self,
        parser: &mut PacketParser,
        port: &mut dyn Port,
    ) -> Result<Received<()>, PortError> {
        if self.input == PacketInput::Headers {
            return receive_burst(self, parser, port).await;
        }
        Ok(port.receive_count()?.map(|frames| {
            self.counted += Count {
                packets: frames.frames,
                bytes: frames.bytes,
            };
            self.measurements.count_frames(frames);
        }))
    }

    async fn handle_idle(&mut self, parser: &mut PacketParser) {
        let clock_ms = self.live.then(|| parser.tick());
        self.measurements.idle(clock_ms, &mut self.records);
    }

    fn stop_after(&mut self, packets: u64) {
        self.stop_after = packets;
    }

    fn is_done(&self, parser: &PacketParser) -> bool {
        parser.received() >= self.stop_after
    }

    fn books(&self, parser: &PacketParser) -> Books {
        let mut books = parser.books();
        books.received += self.counted;
        books.processed += self.counted;
        books.counted_only += self.counted;
        books
    }

    fn publish_progress(&mut self, parser: &PacketParser) {
        if self.live {
            self.measurements
                .flush_after(parser.clock_ms(), &mut self.records);
        }
        if let Some(queue) = self.queue {
            queue.update_measurements(&mut self.measurements);
        }
    }
}
