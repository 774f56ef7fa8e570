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
use port::{Burst, Port};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

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
            together: None,
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
    /// Tells the monitor what a client was told, behind so many packets of the open batch, unless its
    /// ring is full and so much waits already: names are remembered as far as there is room.
    fn tell(&mut self, before: usize, told: Told) {
        if self.open.told().len() < BURST {
            self.open.tell(before, told);
        }
    }

    /// Whether the monitor has taken all that was sent.
    fn is_starving(&self) -> bool {
        self.full.slots() == self.full.buffer().capacity()
    }
}

/// A way of `packets` packets to a monitor: the receiver's end, and the monitor's.
pub(crate) fn way(packets: usize) -> (ToMonitor, Consumer<Message>, Producer<Box<Batch>>) {
    let slots = (packets / BURST).max(2);
    let (full, full_end) = RingBuffer::new(slots);
    // Room for every batch that can be under way, so that giving back never fails.
    let (empty_end, empty) = RingBuffer::new(slots + 2);
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
                self.send(0, burst.frames.len()).await;
            }
            let way = &mut self.ways[0];
            let first = way.open.len();
            intake.read(burst, &mut way.open);
            self.overhearing
                .listen(&way.open, first, &InFrames(burst.frames));
            for (before, told) in self.overhearing.take() {
                way.tell(before, told);
            }
            if self.keep_payloads {
                way.open
                    .keep_payloads(first, |frame| burst.frames[usize::from(frame)].bytes);
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
            } else if self.live && !way.open.is_empty() && way.is_starving() {
                // Batches fill up only as far as the monitor is busy.
                self.send(monitor, 0).await;
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
                self.send(monitor, 1).await;
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
                    self.send(monitor, 0).await;
                }
                let way = &mut self.ways[monitor];
                way.tell(way.open.len(), told.clone());
            }
            heard += 1;
        }
        heard
    }

    /// Sends what is begun, full or not.
    async fn send_open(&mut self) {
        for monitor in 0..self.ways.len() {
            self.send(monitor, 0).await;
        }
    }

    /// Sends what is begun for a monitor and tells it the time, unless it is too busy to listen: then
    /// it has packets in its ring, which tell it too.
    async fn tell(&mut self, monitor: usize, clock_ms: u32) {
        self.send(monitor, 0).await;
        let way = &mut self.ways[monitor];
        if !self.drops {
            push(&mut way.full, Message::Clock(clock_ms), self.pace).await;
        } else if !way.open.is_empty() || way.full.push(Message::Clock(clock_ms)).is_err() {
            return;
        }
        way.clock_ms = clock_ms;
    }

    /// Sends the open batch of a monitor, to which so many packets are to be added next. Where packets
    /// are dropped, with the ring full, it stays open as long as these find room in it; when they do
    /// not, its packets are dropped.
    async fn send(&mut self, monitor: usize, next: usize) {
        let way = &mut self.ways[monitor];
        if way.open.is_empty() {
            return;
        }
        if self.drops && way.full.is_full() {
            if way.open.len() + next > BURST {
                let lengths = way.open.packets().iter();
                self.overflow += Count {
                    packets: way.open.len() as u64,
                    bytes: lengths.map(|packet| u64::from(packet.length)).sum(),
                };
                way.open.drop_packets();
            }
            return;
        }
        let mut fresh = way.empty.pop().unwrap_or_default();
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
    while let Err(PushError::Full(back)) = full.push(message) {
        if full.is_abandoned() {
            return;
        }
        message = back;
        pace.wait(&mut patience).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::alone;
    use flow::MeterOptions;
    use port::Frame;
    use wire::{Decapsulate, LinkType};

    /// A monitor's ring that is full, and no time to wait: packets are gathered as long as a batch has
    /// room, however often the clock ticks.
    #[test]
    fn packets_wait_for_room_in_a_ring_as_long_as_they_have_some() {
        let mut intake = Intake::new(&MeterOptions::default(), Decapsulate::No);
        let (to_monitor, mut full, _empty) = way(2 * BURST);
        let mut sending = Sending {
            steer: Steer::new(1),
            ways: vec![to_monitor],
            overhearing: Overhearing::default(),
            live: true,
            drops: true,
            pace: Pace::alone(&hw::schedule::Schedule::Other),
            batch: Batch::default(),
            keep_payloads: false,
            overflow: Count::default(),
        };
        while sending.ways[0].full.push(Message::Clock(0)).is_ok() {}
        let mut bytes = [0; 60];
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        bytes[16..18].copy_from_slice(&46u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        let mut receive = |sending: &mut Sending, count: usize, time_ns: i64| {
            let frames = vec![Frame::new(&bytes, time_ns, 64); count];
            let link = LinkType::Ethernet;
            let burst = Burst {
                link,
                frames: &frames,
            };
            alone(sending.burst(&mut intake, &burst));
            alone(sending.idle(&mut intake));
        };
        for second in 1..=4 {
            receive(&mut sending, 64, second * 2_000_000_000);
            assert_eq!(sending.overflow, Count::default());
        }
        receive(&mut sending, 1, 10_000_000_000);
        assert_eq!(sending.overflow.packets, 256);
        assert_eq!(sending.overflow.bytes, 256 * 64);
        while full.pop().is_ok() {}
        alone(sending.send_open());
        let Ok(Message::Packets(batch)) = full.pop() else {
            panic!("no packets");
        };
        assert_eq!(batch.len(), 1);
    }
}
