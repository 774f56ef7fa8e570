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
    input: Input,
    measurements: Measurements,
    records: &RecordSender,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let dns_feeds = DnsFeed::new_all(options, input.ports.len())?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let sets = measurements.monitors.into_iter().zip(dns_feeds);
        for (number, (port, set)) in input.ports.into_iter().zip(sets).enumerate() {
            let (measurements, dns_feed) = set;
            let worker = Worker {
                number,
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
        let queue_progress = self.progress.queues.get(self.number);
        let mut parser = PacketParser::new(&self.options.meter, self.options.decapsulate)
            .with_link_counter(self.options.link_packet_counter());
        let mut handler = MeasurementHandler {
            measurements,
            records,
            input: self.options.packet_input(),
            counted: Count::default(),
            dns_feed: self.dns_feed,
            live: self.live,
            batch: Batch::default(),
            queue: queue_progress,
        };
        let mut receiver = Receiver {
            port,
            live: self.live,
            stop: &self.options.stop,
            progress: self.progress,
            queue: queue_progress,
        };
        let mut faults = block_on(receiver.run(&mut parser, &mut handler, executor));
        faults.messages.extend(placement.fault.clone());
        handler.records.set_blocking();
        handler
            .measurements
            .finish(parser.clock_ms(), &mut handler.records);
        receiver.publish(&parser, &mut handler);
        let mut queue = receiver.report(handler.books(&parser), &placement);
        queue.flows = handler.measurements.counters();
        queue.flows.answers_dropped = handler.dns_feed.dropped();
        ThreadResult {
            queue,
            findings: handler.measurements.report(Some(&parser.books())),
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
    input: PacketInput,
    /// Packets counted without reading their headers.
    counted: Count,
    dns_feed: DnsFeed,
    live: bool,
    batch: Batch,
    queue: Option<&'a QueueProgress>,
}

impl Handler for MeasurementHandler<'_> {
    async fn handle_burst(&mut self, parser: &mut PacketParser, burst: &Burst<'_>) {
        self.batch.clear();
        parser.parse(burst, &mut self.batch);
        let frames = burst.frames;
        self.dns_feed.learn(&self.batch, 0, &FramePayloads(frames));
        self.measurements
            .count_without_flow(frames, self.batch.packets());
        for (before, answer) in self.dns_feed.drain() {
            self.batch.push_dns_answer(before, answer);
        }
        let packets = Packets {
            batch: &self.batch,
            frames: Some(frames),
        };
        self.measurements.process(&packets, &mut self.records);
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
