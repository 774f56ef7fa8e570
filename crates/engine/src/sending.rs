//! The sending half of a model that hands packets on: headers are read, and batches of packets go
//! over a single-producer single-consumer ring to the monitor of their flow.

use crate::books::{Books, Count, Loss};
use crate::intake::Intake;
use crate::options::{Options, Seat};
use crate::overhearing::Overhearing;
use crate::pace::{Pace, Patience};
use crate::progress::Progress;
use crate::receive::{Handler, Receiver};
use crate::report::Worked;
use crate::steer::Steer;
use flow::names::Told;
use flow::{BURST, Batch, InFrames};
use hw::ring::{Consumer, Popped, Producer, ring};
use port::{Burst, Port};

/// Every monitor is told the time at least so often: it may have no packets of its own, and its
/// flows end all the same. (Also, no two readings that it compares are far enough apart to wrap.)
const CLOCK_MS: u32 = 1000;

/// What goes from a receiver to a monitor.
pub(crate) enum Message {
    /// Packets of the monitor's flows.
    Packets(Box<Batch>),
    /// The clock, where no packets drive it.
    Clock(u32),
    /// No more; the clock at the end.
    End(u32),
}

/// A receiver, and the ways to its monitors.
pub(crate) struct Sender<'a> {
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Progress,
    pub(crate) port: Box<dyn Port>,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    /// Whether packets that find a ring full are dropped: on a link whose monitors run beside it.
    pub(crate) drops: bool,
    /// Number of its place in the progress.
    pub(crate) place: usize,
    pub(crate) overhearing: Overhearing,
    pub(crate) ways: Vec<ToMonitor>,
}

impl Sender<'_> {
    /// The task of a receiver.
    pub(crate) async fn run(self, seat: Seat, pace: Pace) -> Worked {
        let mut intake = Intake::new(&self.options.meter, self.options.decapsulate)
            .numbered_by(self.options.link_numbers());
        let mut sending = Sending {
            steer: Steer::new(self.ways.len()),
            ways: self.ways,
            overhearing: self.overhearing,
            live: self.live,
            drops: self.drops,
            pace,
            batch: Batch::default(),
            keep_payloads: self
                .options
                .meter
                .statistics
                .analysis
                .is_some_and(flow::Level::has_applications),
            overflow: Count::default(),
        };
        let mut receiver = Receiver {
            port: self.port,
            live: self.live,
            stop: &self.options.stop,
            progress: self.progress,
            place: self.progress.queues.get(self.place),
        };
        let mut told = receiver.run(&mut intake, &mut sending, pace).await;
        // The port has ended: there is time to wait for the monitors.
        sending.live = false;
        sending.drops = false;
        sending.send_open().await;
        for way in &mut sending.ways {
            push(&mut way.full, Message::End(intake.clock_ms()), pace).await;
        }
        receiver.publish(&intake, &mut sending);
        let queue = receiver.report(sending.books(&intake), &seat);
        told.faults.extend(seat.fault);
        Worked {
            queue,
            memory_bytes: sending.overhearing.memory_bytes(),
            told,
            unknown_links: intake.unknown_links().to_vec(),
        }
    }
}

/// A receiver's end of the way to one monitor.
pub(crate) struct ToMonitor {
    full: Producer<Message>,
    empty: Consumer<Box<Batch>>,
    /// The batch that is being filled.
    open: Box<Batch>,
    /// The clock that the monitor was last told.
    clock_ms: u32,
}

impl ToMonitor {
    /// Tells the monitor what a client was told, unless its ring is full and so much waits already:
    /// names are remembered as far as there is room.
    fn tell(&mut self, told: Told) {
        if self.open.told().len() < BURST {
            self.open.tell(self.open.len(), told);
        }
    }
}

/// A way of `packets` packets to a monitor: the receiver's end, and the monitor's.
pub(crate) fn way(packets: usize) -> (ToMonitor, Consumer<Message>, Producer<Box<Batch>>) {
    let slots = (packets / BURST).max(2);
    let (full, full_end) = ring(slots);
    // Room for every batch that can be under way, so that giving back never fails.
    let (empty_end, empty) = ring(slots + 2);
    let way = ToMonitor {
        full,
        empty,
        open: Box::default(),
        clock_ms: 0,
    };
    (way, full_end, empty_end)
}

/// What a receiver does with its packets.
struct Sending {
    steer: Steer,
    ways: Vec<ToMonitor>,
    overhearing: Overhearing,
    live: bool,
    drops: bool,
    pace: Pace,
    batch: Batch,
    /// Whether monitors look into payloads, which must outlive their frames then.
    keep_payloads: bool,
    /// Packets that found a ring full.
    overflow: Count,
}

impl Handler for Sending {
    async fn burst(&mut self, intake: &mut Intake, burst: &Burst<'_>) {
        if self.steer.is_single() {
            if self.ways[0].open.len() + burst.frames.len() > BURST {
                self.send(0).await;
            }
            let open = &mut self.ways[0].open;
            let first = open.len();
            intake.read(burst, open);
            self.overhearing
                .listen(open, first, &InFrames(burst.frames));
            for (before, told) in self.overhearing.take() {
                open.tell(before, told);
            }
            if self.keep_payloads {
                open.keep_payloads(first, |frame| burst.frames[usize::from(frame)].bytes);
            }
        } else {
            self.batch.clear();
            intake.read(burst, &mut self.batch);
            self.overhearing
                .listen(&self.batch, 0, &InFrames(burst.frames));
            self.hand_out(burst).await;
        }
        let clock_ms = intake.clock_ms();
        for monitor in 0..self.ways.len() {
            let way = &self.ways[monitor];
            if clock_ms.wrapping_sub(way.clock_ms) >= CLOCK_MS {
                self.tell(monitor, clock_ms).await;
            } else if self.live && !way.open.is_empty() && way.full.occupancy() == 0 {
                // Batches fill up only as far as the monitor is busy.
                self.send(monitor).await;
            }
        }
    }

    async fn idle(&mut self, intake: &mut Intake) {
        let clock_ms = if self.live {
            intake.tick()
        } else {
            intake.clock_ms()
        };
        for monitor in 0..self.ways.len() {
            self.tell(monitor, clock_ms).await;
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
    /// Gives each packet to the monitor of its flow, and what was heard to all of them.
    async fn hand_out(&mut self, burst: &Burst<'_>) {
        let mut heard = 0;
        for index in 0..self.batch.len() {
            heard = self.tell_all(heard, index).await;
            let monitor = self.steer.worker(self.batch.hashes()[index]);
            if self.ways[monitor].open.is_full() {
                self.send(monitor).await;
            }
            let open = &mut self.ways[monitor].open;
            open.push_from(&self.batch, index);
            if self.keep_payloads {
                let last = open.len() - 1;
                open.keep_payloads(last, |frame| burst.frames[usize::from(frame)].bytes);
            }
        }
        self.tell_all(heard, self.batch.len()).await;
    }

    /// Tells all monitors what was heard before packet `index`, from number `heard` on; the number of
    /// what is next.
    async fn tell_all(&mut self, mut heard: usize, index: usize) -> usize {
        while let Some((before, told)) = self.overhearing.heard().get(heard)
            && *before <= index
        {
            let told = told.clone();
            for monitor in 0..self.ways.len() {
                // Of a monitor without packets nothing else sends the batch.
                if self.ways[monitor].open.told().len() == BURST {
                    self.send(monitor).await;
                }
                self.ways[monitor].tell(told.clone());
            }
            heard += 1;
        }
        heard
    }

    /// Sends what is begun, full or not.
    async fn send_open(&mut self) {
        for monitor in 0..self.ways.len() {
            self.send(monitor).await;
        }
    }

    /// Sends what is begun for a monitor and tells it the time, unless it is too busy to listen: then
    /// it has packets in its ring, which tell it too.
    async fn tell(&mut self, monitor: usize, clock_ms: u32) {
        self.send(monitor).await;
        let way = &mut self.ways[monitor];
        if !self.drops {
            push(&mut way.full, Message::Clock(clock_ms), self.pace).await;
        } else if !way.open.is_empty() || way.full.push(Message::Clock(clock_ms)).is_err() {
            return;
        }
        way.clock_ms = clock_ms;
    }

    /// Sends the open batch of a monitor. Where packets are dropped, with the ring full, it stays open while there
    /// is room in it, and is dropped when there is none.
    async fn send(&mut self, monitor: usize) {
        let way = &mut self.ways[monitor];
        if way.open.is_empty() {
            return;
        }
        if self.drops && way.full.is_full() {
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
            self.pace,
        )
        .await;
    }
}

/// Puts a message in, waiting for room; without a monitor at the other end, it is let go.
async fn push(full: &mut Producer<Message>, mut message: Message, pace: Pace) {
    let mut patience = Patience::default();
    while let Err(back) = full.push(message) {
        if full.is_abandoned() {
            return;
        }
        message = back;
        pace.wait(&mut patience).await;
    }
}
