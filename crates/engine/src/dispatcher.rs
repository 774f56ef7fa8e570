//! The receiver of the pipeline and cooperative models: parses headers and sends batches of packets over
//! single-producer single-consumer rings, each packet to the monitor of its flow.

use crate::books::{Books, Count, Loss};
use crate::dns_feed::DnsFeed;
use crate::executor::{Backoff, Executor};
use crate::measurement::MeasurementSet;
use crate::options::Options;
use crate::parser::PacketParser;
use crate::progress::Progress;
use crate::receiver::{Handler, Receiver};
use crate::report::ThreadResult;
use crate::steer::Steer;
use crate::thread::ThreadPlacement;
use app::DnsAnswer;
use flow::{BURST, Batch, FramePayloads};
use port::{Burst, Port};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::ops::Range;

/// The longest interval, in milliseconds, in which a monitor gets no clock reading. A monitor without
/// packets needs the clock to expire its flows. (It also keeps the readings that the monitor compares
/// from wrapping.)
const CLOCK_MS: u32 = 1000;

/// A message from a dispatcher to a monitor.
pub(crate) enum Message {
    /// Packets of the monitor's flows.
    Packets(Box<Batch>),
    /// A clock reading in milliseconds, which advances the clock of a monitor without packets.
    Clock(u32),
    /// The end of the input, with the last clock reading.
    End(u32),
}

/// A receiver with the queues of its monitors.
pub(crate) struct Dispatcher<'a> {
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Progress,
    pub(crate) port: Box<dyn Port>,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    /// Whether packets are dropped if a ring is full: on a link, if the monitors are threads of their own.
    pub(crate) drops_when_full: bool,
    /// Index in [`Progress::queues`].
    pub(crate) progress_index: usize,
    pub(crate) dns_feed: DnsFeed,
    /// Count packets without a flow, which no monitor sees.
    pub(crate) measurements: MeasurementSet,
    pub(crate) queues: Vec<MonitorQueue>,
}

impl Dispatcher<'_> {
    /// Receives and dispatches packets until the port ends, then waits for the monitors to take them.
    pub(crate) async fn run(self, placement: ThreadPlacement, executor: Executor) -> ThreadResult {
        let mut parser = PacketParser::new(&self.options.meter, self.options.decapsulate)
            .with_link_counter(self.options.link_packet_counter());
        let mut handler = DispatchHandler {
            steer: Steer::new(self.queues.len()),
            shares: vec![Vec::with_capacity(BURST); self.queues.len()],
            queues: self.queues,
            dns_feed: self.dns_feed,
            measurements: self.measurements,
            live: self.live,
            drops_when_full: self.drops_when_full,
            executor,
            batch: Batch::default(),
            keep_payloads: self
                .options
                .meter
                .statistics
                .analysis
                .is_some_and(analysis::Level::has_applications),
            overflow: Count::default(),
        };
        let mut receiver = Receiver {
            port: self.port,
            live: self.live,
            stop: &self.options.stop,
            progress: self.progress,
            queue: self.progress.queues.get(self.progress_index),
        };
        let mut faults = receiver.run(&mut parser, &mut handler, executor).await;
        // The port has ended, so nothing is lost by waiting for the monitors.
        handler.live = false;
        handler.drops_when_full = false;
        handler.flush().await;
        for queue in &mut handler.queues {
            push_blocking(
                &mut queue.messages,
                Message::End(parser.clock_ms()),
                executor,
            )
            .await;
        }
        receiver.publish(&parser, &mut handler);
        let mut queue = receiver.report(handler.books(&parser), &placement);
        queue.flows.answers_dropped = handler.dns_feed.dropped() + handler.answers_dropped();
        faults.messages.extend(placement.fault);
        ThreadResult {
            queue,
            memory_bytes: handler.dns_feed.memory_bytes() + handler.measurements.memory_bytes(),
            findings: handler.measurements.report(Some(&parser.books())),
            port_faults: faults,
            unknown_links: parser.unknown_links().to_vec(),
        }
    }
}

/// The dispatcher's end of the rings to one monitor.
pub(crate) struct MonitorQueue {
    messages: Producer<Message>,
    recycled: Consumer<Box<Batch>>,
    /// The batch that is being filled.
    batch: Box<Batch>,
    /// The last clock reading sent.
    sent_clock_ms: u32,
    /// DNS answers that did not fit the open batch.
    answers_dropped: u64,
}

impl MonitorQueue {
    /// Adds a DNS answer to the open batch, after its first `before` packets. The answer is dropped if the
    /// batch already has the maximum of answers, which happens only while the ring is full: the memory
    /// for names is limited anyway.
    fn add_answer(&mut self, before: usize, answer: DnsAnswer) {
        if self.batch.dns_answers().len() < BURST {
            self.batch.push_dns_answer(before, answer);
        } else {
            self.answers_dropped += 1;
        }
    }

    /// Whether the monitor has taken all messages.
    fn is_drained(&self) -> bool {
        self.messages.slots() == self.messages.buffer().capacity()
    }
}

/// Creates the rings to a monitor, with room for `packets` packets: the dispatcher's end and the two ends
/// of the monitor.
pub(crate) fn monitor_queue(
    packets: usize,
) -> (MonitorQueue, Consumer<Message>, Producer<Box<Batch>>) {
    let slots = (packets / BURST).max(2);
    let (messages, message_consumer) = RingBuffer::new(slots);
    // Room for every batch in flight, so that recycling never fails.
    let (recycled_producer, recycled) = RingBuffer::new(slots + 2);
    let queue = MonitorQueue {
        messages,
        recycled,
        batch: Box::default(),
        sent_clock_ms: 0,
        answers_dropped: 0,
    };
    (queue, message_consumer, recycled_producer)
}

/// Dispatches the packets of one receiver.
struct DispatchHandler {
    steer: Steer,
    /// For each monitor, the indices of its packets in the batch.
    shares: Vec<Vec<u8>>,
    queues: Vec<MonitorQueue>,
    dns_feed: DnsFeed,
    measurements: MeasurementSet,
    live: bool,
    drops_when_full: bool,
    executor: Executor,
    batch: Batch,
    /// Whether monitors inspect payloads, which must then be copied to outlive their frames.
    keep_payloads: bool,
    /// Packets dropped because a ring was full.
    overflow: Count,
}

impl Handler for DispatchHandler {
    async fn handle_burst(&mut self, parser: &mut PacketParser, burst: &Burst<'_>) {
        if self.steer.is_single() {
            if self.queues[0].batch.len() + burst.frames.len() > BURST {
                self.send_batch(0, burst.frames.len()).await;
            }
            let queue = &mut self.queues[0];
            let first = queue.batch.len();
            parser.parse(burst, &mut queue.batch);
            self.measurements
                .count_without_flow(burst.frames, &queue.batch.packets()[first..]);
            self.dns_feed
                .learn(&queue.batch, first, &FramePayloads(burst.frames));
            for (before, answer) in self.dns_feed.drain() {
                queue.add_answer(before, answer);
            }
            if self.keep_payloads {
                queue
                    .batch
                    .copy_payloads(first, |frame| burst.frames[usize::from(frame)].bytes);
            }
        } else {
            self.batch.clear();
            parser.parse(burst, &mut self.batch);
            self.measurements
                .count_without_flow(burst.frames, self.batch.packets());
            self.dns_feed
                .learn(&self.batch, 0, &FramePayloads(burst.frames));
            self.distribute(burst).await;
        }
        let clock_ms = parser.clock_ms();
        for monitor in 0..self.queues.len() {
            let queue = &self.queues[monitor];
            if clock_ms.wrapping_sub(queue.sent_clock_ms) >= CLOCK_MS {
                self.send_clock(monitor, clock_ms).await;
            } else if self.live && !queue.batch.is_empty() && queue.is_drained() {
                // The monitor is idle: send the batch without filling it up.
                self.send_batch(monitor, 0).await;
            }
        }
    }

    async fn handle_idle(&mut self, parser: &mut PacketParser) {
        let clock_ms = if self.live {
            parser.tick()
        } else {
            parser.clock_ms()
        };
        for monitor in 0..self.queues.len() {
            self.send_clock(monitor, clock_ms).await;
        }
    }

    fn publish_progress(&mut self, _: &PacketParser) {}

    fn books(&self, parser: &PacketParser) -> Books {
        let mut books = parser.books();
        books.processed.packets -= self.overflow.packets;
        books.processed.bytes -= self.overflow.bytes;
        books.dropped[Loss::Ring as usize] += self.overflow;
        books
    }
}

impl DispatchHandler {
    /// DNS answers that did not reach all monitors.
    fn answers_dropped(&self) -> u64 {
        self.queues.iter().map(|queue| queue.answers_dropped).sum()
    }

    /// Adds each packet to the batch of its flow's monitor, and each DNS answer to the batches of all
    /// monitors, after the packets that precede it.
    async fn distribute(&mut self, burst: &Burst<'_>) {
        let mut first = 0;
        for number in 0..self.dns_feed.answers().len() {
            let (before, answer) = self.dns_feed.answers()[number].clone();
            let before = before.clamp(first, self.batch.len());
            self.distribute_packets(first..before, burst).await;
            first = before;
            self.publish_answer(&answer).await;
        }
        self.distribute_packets(first..self.batch.len(), burst)
            .await;
    }

    /// Adds each of these packets to the batch of its flow's monitor.
    async fn distribute_packets(&mut self, packets: Range<usize>, burst: &Burst<'_>) {
        for indices in &mut self.shares {
            indices.clear();
        }
        for (index, &hash) in self.batch.hashes()[packets.clone()].iter().enumerate() {
            self.shares[self.steer.worker(hash)].push((packets.start + index) as u8);
        }
        for monitor in 0..self.queues.len() {
            let mut added = 0;
            while let rest @ [_, ..] = &self.shares[monitor][added..] {
                let open_batch = &mut self.queues[monitor].batch;
                let first = open_batch.len();
                added += open_batch.append(&self.batch, rest);
                if self.keep_payloads {
                    open_batch.copy_payloads(first, |frame| burst.frames[usize::from(frame)].bytes);
                }
                if added < self.shares[monitor].len() {
                    self.send_batch(monitor, 1).await;
                }
            }
        }
    }

    /// Adds a DNS answer to the batches of all monitors.
    async fn publish_answer(&mut self, answer: &DnsAnswer) {
        for monitor in 0..self.queues.len() {
            // If no packets come for this monitor, nothing else sends its batch.
            if self.queues[monitor].batch.dns_answers().len() == BURST {
                self.send_batch(monitor, 0).await;
            }
            let queue = &mut self.queues[monitor];
            queue.add_answer(queue.batch.len(), answer.clone());
        }
    }

    /// Sends all open batches, full or not.
    async fn flush(&mut self) {
        for monitor in 0..self.queues.len() {
            self.send_batch(monitor, 0).await;
        }
    }

    /// Sends the open batch of a monitor and a clock reading. If packets are dropped and the ring is full,
    /// the reading is skipped: the packets in the ring advance the clock as well.
    async fn send_clock(&mut self, monitor: usize, clock_ms: u32) {
        self.send_batch(monitor, 0).await;
        let queue = &mut self.queues[monitor];
        if !self.drops_when_full {
            push_blocking(&mut queue.messages, Message::Clock(clock_ms), self.executor).await;
        } else if !queue.batch.is_empty() || queue.messages.push(Message::Clock(clock_ms)).is_err()
        {
            return;
        }
        queue.sent_clock_ms = clock_ms;
    }

    /// Sends the open batch of a monitor, before `next` more packets are added. If packets are dropped and
    /// the ring is full, the batch stays open while it has room for them; otherwise its packets are
    /// dropped.
    async fn send_batch(&mut self, monitor: usize, next: usize) {
        let queue = &mut self.queues[monitor];
        if queue.batch.is_empty() {
            return;
        }
        if self.drops_when_full && queue.messages.is_full() {
            if queue.batch.len() + next > BURST {
                let lengths = queue.batch.packets().iter();
                self.overflow += Count {
                    packets: queue.batch.len() as u64,
                    bytes: lengths.map(|packet| u64::from(packet.length)).sum(),
                };
                queue.batch.clear_packets();
            }
            return;
        }
        let mut empty = queue.recycled.pop().unwrap_or_default();
        empty.clear();
        push_blocking(
            &mut queue.messages,
            Message::Packets(std::mem::replace(&mut queue.batch, empty)),
            self.executor,
        )
        .await;
    }
}

/// Pushes a message, waiting until there is room. If the monitor is gone, the message is dropped.
async fn push_blocking(messages: &mut Producer<Message>, mut message: Message, executor: Executor) {
    let mut backoff = Backoff::default();
    while let Err(PushError::Full(rejected)) = messages.push(message) {
        if messages.is_abandoned() {
            return;
        }
        message = rejected;
        executor.back_off(&mut backoff).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::block_on;
    use flow::MeterOptions;
    use port::Frame;
    use wire::{Decapsulate, LinkType};

    /// With a full ring and no time to wait, packets collect in the batch until it is full, however often
    /// the clock ticks.
    #[test]
    fn packets_are_dropped_only_if_both_ring_and_batch_are_full() {
        let mut parser = PacketParser::new(&MeterOptions::default(), Decapsulate::No);
        let (to_monitor, mut full, _empty) = monitor_queue(2 * BURST);
        let mut sending = DispatchHandler {
            steer: Steer::new(1),
            shares: Vec::new(),
            queues: vec![to_monitor],
            dns_feed: DnsFeed::default(),
            measurements: MeasurementSet::default(),
            live: true,
            drops_when_full: true,
            executor: Executor::single_task(&hw::schedule::Schedule::Other),
            batch: Batch::default(),
            keep_payloads: false,
            overflow: Count::default(),
        };
        while sending.queues[0].messages.push(Message::Clock(0)).is_ok() {}
        let mut bytes = [0; 60];
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        bytes[16..18].copy_from_slice(&46u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        let mut receive = |sending: &mut DispatchHandler, count: usize, time_ns: i64| {
            let frames = vec![Frame::new(&bytes, time_ns, 64); count];
            let link = LinkType::Ethernet;
            let burst = Burst {
                link,
                frames: &frames,
            };
            block_on(sending.handle_burst(&mut parser, &burst));
            block_on(sending.handle_idle(&mut parser));
        };
        for second in 1..=4 {
            receive(&mut sending, 64, second * 2_000_000_000);
            assert_eq!(sending.overflow, Count::default());
        }
        receive(&mut sending, 1, 10_000_000_000);
        assert_eq!(sending.overflow.packets, 256);
        assert_eq!(sending.overflow.bytes, 256 * 64);
        while full.pop().is_ok() {}
        block_on(sending.flush());
        let Ok(Message::Packets(batch)) = full.pop() else {
            panic!("no packets");
        };
        assert_eq!(batch.len(), 1);
    }
}
