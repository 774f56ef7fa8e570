//! Discrete-event simulation of a conversation between a sender and a receiver, with a probe between
//! them.

use crate::conversation::{Conversation, MS};
use crate::packet::{ObservedPacket, PAYLOAD, SendReason, headers};
use crate::probe::{DataSegment, Probe};
use crate::random::Random;
use crate::truth::Truth;
use analysis::tcp::Class;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use wire::PacketInfo;
use wire::tcp::flag::{ACK, SYN};

/// Interval of keep-alives and of probes of a closed window.
const PROBE_INTERVAL_NS: i64 = 1000 * MS;

/// The number of duplicate ACKs that trigger a fast retransmit (RFC 5681 section 3.2).
const DUPLICATE_ACK_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    SegmentAtProbe(DataSegment),
    SegmentAtReceiver(u32),
    /// An acknowledgement of all segments below `below`, sent when segment `cause` arrived.
    AckAtProbe {
        below: u32,
        cause: u32,
        reaches_sender: bool,
    },
    AckAtSender(u32),
    /// The timer that was set when the segment was sent for the given time.
    Timer {
        number: u32,
        attempt: u32,
    },
}

/// Events ordered by time. Events of the same time are ordered by insertion.
#[derive(Debug, Default)]
struct EventQueue {
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    pushed: u64,
}

impl EventQueue {
    fn push(&mut self, at_ns: i64, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at_ns, self.pushed, event)));
    }

    fn pop(&mut self) -> Option<(i64, Event)> {
        let Reverse((at_ns, _, event)) = self.events.pop()?;
        Some((at_ns, event))
    }
}

#[derive(Debug)]
struct Sender {
    /// Number of segments sent.
    sent: u32,
    /// Number of segments acknowledged.
    acked: u32,
    duplicate_acks: u32,
    /// Fast recovery lasts until all segments below this one are acknowledged.
    recovery: u32,
    identification: u16,
    /// How often each segment was sent. Only the timer of the last transmission counts.
    attempts: HashMap<u32, u32>,
}

impl Sender {
    fn new() -> Self {
        Self {
            sent: 0,
            acked: 0,
            duplicate_acks: 0,
            recovery: 0,
            identification: 1,
            attempts: HashMap::new(),
        }
    }

    /// Returns the identification of the next packet. It is never 0.
    fn identification(&mut self) -> u16 {
        let identification = self.identification;
        self.identification = identification.wrapping_add(1).max(1);
        identification
    }
}

#[derive(Debug, Default)]
struct Receiver {
    received: BTreeSet<u32>,
    /// All segments below this one were received.
    expected: u32,
}

impl Conversation {
    /// Simulates the conversation. Returns the packets that the probe observes, in the order of their
    /// times, and the truth about them.
    #[must_use]
    pub fn run(&self, random: &mut Random) -> (Vec<ObservedPacket>, Truth) {
        Simulation::new(self, random).run()
    }
}

/// State of the simulation.
#[derive(Debug)]
struct Simulation<'a> {
    path: &'a Conversation,
    random: &'a mut Random,
    now_ns: i64,
    queue: EventQueue,
    sender: Sender,
    probe: Probe,
    receiver: Receiver,
}

impl<'a> Simulation<'a> {
    fn new(path: &'a Conversation, random: &'a mut Random) -> Self {
        Self {
            path,
            random,
            now_ns: 1_700_000_000_000 * MS,
            queue: EventQueue::default(),
            sender: Sender::new(),
            probe: Probe::default(),
            receiver: Receiver::default(),
        }
    }

    /// Runs the simulation. Returns the packets that the probe observes, in the order of their times,
    /// and the truth about them.
    fn run(mut self) -> (Vec<ObservedPacket>, Truth) {
        self.open();
        self.fill_window();
        while let Some((at_ns, event)) = self.queue.pop() {
            self.now_ns = self.now_ns.max(at_ns);
            match event {
                Event::SegmentAtProbe(segment) => self.segment_at_probe(at_ns, segment),
                Event::SegmentAtReceiver(number) => self.segment_at_receiver(at_ns, number),
                Event::AckAtProbe {
                    below,
                    cause,
                    reaches_sender,
                } => self.ack_at_probe(at_ns, below, cause, reaches_sender),
                Event::AckAtSender(below) => self.ack_at_sender(below),
                Event::Timer { number, attempt } => self.timer(at_ns, number, attempt),
            }
            self.fill_window();
        }
        self.send_probes();
        self.probe.finish()
    }

    /// Returns true with the given probability, in thousandths.
    fn happens(&mut self, per_thousand: u64) -> bool {
        self.random.below(1000) < per_thousand
    }

    /// Opens the connection with a three-way handshake.
    fn open(&mut self) {
        let start = self.path.start;
        let syn_ack_ns = 2 * self.path.to_receiver_ns;
        let ack_ns = syn_ack_ns + 2 * self.path.to_probe_ns;
        for (after_ns, side, sequence, acknowledgement, tcp_flags) in [
            (0, 0, start.wrapping_sub(1), 0, SYN),
            (syn_ack_ns, 1, 99, start, SYN | ACK),
            (ack_ns, 0, start, 100, ACK),
        ] {
            let segment = headers(sequence, acknowledgement, tcp_flags);
            self.probe.observe(self.now_ns + after_ns, side, segment);
        }
        self.now_ns += ack_ns + MS;
    }

    /// Sends as many segments as the window permits.
    fn fill_window(&mut self) {
        while self.sender.sent < self.path.segments
            && self.sender.sent < self.sender.acked + self.path.window
        {
            self.send(self.sender.sent, SendReason::First);
            self.sender.sent += 1;
            self.now_ns += MS / 2;
        }
    }

    fn send(&mut self, number: u32, reason: SendReason) {
        let faults = self.path.faults;
        let identification = self.sender.identification();
        let is_reordered = reason == SendReason::First && self.happens(faults.reordered);
        let delay_ns = self.path.to_probe_ns + if is_reordered { 3 * MS / 2 } else { 0 };
        let is_lost = !is_reordered && self.happens(faults.lost_before);
        let reaches_receiver = !self.happens(faults.lost_after);
        if !is_lost {
            let segment = DataSegment {
                number,
                identification,
                reason,
                is_copy: false,
                reaches_receiver,
            };
            let at_ns = self.now_ns + delay_ns;
            self.queue.push(at_ns, Event::SegmentAtProbe(segment));
            if self.happens(faults.duplicated) {
                let copy = DataSegment {
                    is_copy: true,
                    reaches_receiver: true,
                    ..segment
                };
                self.queue.push(at_ns + 20_000, Event::SegmentAtProbe(copy));
            }
        }
        let attempt = self.sender.attempts.entry(number).or_default();
        *attempt += 1;
        let attempt = *attempt;
        let after_ns = self.path.timeout_ns << (attempt - 1).min(4);
        self.queue
            .push(self.now_ns + after_ns, Event::Timer { number, attempt });
    }

    fn segment_at_probe(&mut self, at_ns: i64, segment: DataSegment) {
        if segment.reaches_receiver {
            let arrives_ns = at_ns + self.path.to_receiver_ns;
            self.queue
                .push(arrives_ns, Event::SegmentAtReceiver(segment.number));
        }
        if segment.reason == SendReason::First
            && !segment.is_copy
            && segment.reaches_receiver
            && self.happens(self.path.faults.missed)
        {
            self.probe.miss(segment.number);
        } else {
            self.probe.observe_data(at_ns, segment, self.path);
        }
    }

    fn segment_at_receiver(&mut self, at_ns: i64, number: u32) {
        let receiver = &mut self.receiver;
        receiver.received.insert(number);
        while receiver.received.contains(&receiver.expected) {
            receiver.expected += 1;
        }
        let below = receiver.expected;
        let reaches_sender = !self.happens(self.path.faults.acks_lost);
        self.queue.push(
            at_ns + self.path.to_receiver_ns,
            Event::AckAtProbe {
                below,
                cause: number,
                reaches_sender,
            },
        );
    }

    fn ack_at_probe(&mut self, at_ns: i64, below: u32, cause: u32, reaches_sender: bool) {
        if reaches_sender {
            let is_delayed = self.happens(self.path.faults.acks_delayed);
            let delay_ns = if is_delayed { self.path.timeout_ns } else { 0 };
            let arrives_ns = at_ns + self.path.to_probe_ns + delay_ns;
            self.queue.push(arrives_ns, Event::AckAtSender(below));
        }
        self.probe.acknowledge(at_ns, below, cause);
        let acknowledgement = self.path.start.wrapping_add(below * PAYLOAD);
        self.probe
            .observe(at_ns, 1, headers(100, acknowledgement, ACK));
    }

    fn ack_at_sender(&mut self, below: u32) {
        let sender = &mut self.sender;
        if below > sender.acked {
            sender.acked = below;
            sender.duplicate_acks = 0;
            // A partial acknowledgement: the next loss of the window is repaired at once (RFC 6582).
            if below < sender.recovery {
                self.send(below, SendReason::DuplicateAcks);
            }
        } else if below == sender.acked && sender.sent > below {
            sender.duplicate_acks += 1;
            if sender.duplicate_acks == DUPLICATE_ACK_THRESHOLD && below >= sender.recovery {
                sender.recovery = sender.sent;
                self.send(below, SendReason::DuplicateAcks);
            }
        }
    }

    fn timer(&mut self, at_ns: i64, number: u32, attempt: u32) {
        let sender = &mut self.sender;
        if number < sender.acked || sender.attempts.get(&number) != Some(&attempt) {
            return;
        }
        if number == sender.acked {
            sender.duplicate_acks = 0;
            sender.recovery = number;
            self.send(number, SendReason::Timer);
        } else {
            // The timer counts only for the oldest segment in flight.
            let at_ns = at_ns + self.path.timeout_ns;
            self.queue.push(at_ns, Event::Timer { number, attempt });
        }
    }

    /// Sends keep-alives, and then probes of a closed window, after all segments are acknowledged. The
    /// first window probe carries a new byte.
    fn send_probes(&mut self) {
        let end = self.path.start.wrapping_add(self.path.segments * PAYLOAD);
        let mut at_ns = self.now_ns;
        let keep_alives = (0..self.path.keep_alives).map(|index| {
            let before = end.wrapping_sub(1);
            (SendReason::KeepAlive, before, (index + 1) % 2, 60_000, true)
        });
        let window_probes = (0..self.path.window_probes)
            .map(|index| (SendReason::WindowProbe, end, 1, 0, index > 0));
        for (reason, sequence, payload_length, window, is_repeated) in
            keep_alives.chain(window_probes)
        {
            let is_first_window_probe = reason == SendReason::WindowProbe && !is_repeated;
            at_ns += PROBE_INTERVAL_NS;
            let answer = PacketInfo {
                window,
                ..headers(100, end, ACK)
            };
            let identification = self.sender.identification();
            let probe = PacketInfo {
                payload_length,
                identification: self.path.identification(identification),
                ..headers(sequence, 100, ACK)
            };
            let answered_ns = at_ns + 2 * self.path.to_receiver_ns;
            if is_first_window_probe {
                self.probe.truth.unique_bytes += 1;
                // The receiver closes its window before it is probed.
                self.probe.observe(at_ns - PROBE_INTERVAL_NS / 2, 1, answer);
            }
            self.probe.observe(answered_ns, 1, answer);
            self.probe.packets.push(ObservedPacket {
                time_ns: at_ns,
                side: 0,
                segment: probe,
                reason,
                class: is_repeated.then_some(Class::FlowControl),
            });
        }
    }
}
