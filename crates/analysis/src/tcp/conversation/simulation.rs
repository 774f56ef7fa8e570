//! A conversation event by event: a sender, a probe and a receiver, and what is on the way between
//! them.

use super::probe::{Passing, Probe};
use super::{Conversation, MS, PAYLOAD, Random, Seen, Sending, Truth, headers};
use crate::tcp::Class;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use wire::Segment;
use wire::tcp::flag::{ACK, SYN};

/// Time between keep-alives, and between probes of a closed window.
const SILENCE_NS: i64 = 1000 * MS;

/// Duplicate acknowledgements that ask for a segment (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    SegmentAtProbe(Passing),
    SegmentAtReceiver(u32),
    /// An acknowledgement of all segments below a number, which the arrival of a segment caused;
    /// whether it goes on to the sender.
    AckAtProbe {
        below: u32,
        cause: u32,
        goes_on: bool,
    },
    AckAtSender(u32),
    /// The timer of a segment, as it was set when the segment was sent for this time.
    Timer {
        number: u32,
        turn: u32,
    },
}

/// What is to come, in the order of its times; of one time, in the order in which it was caused.
#[derive(Debug, Default)]
struct Queue {
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    caused: u64,
}

impl Queue {
    fn push(&mut self, at_ns: i64, event: Event) {
        self.caused += 1;
        self.events.push(Reverse((at_ns, self.caused, event)));
    }

    fn pop(&mut self) -> Option<(i64, Event)> {
        let Reverse((at_ns, _, event)) = self.events.pop()?;
        Some((at_ns, event))
    }
}

#[derive(Debug)]
struct Sender {
    /// Segments sent, and segments acknowledged.
    sent: u32,
    acked: u32,
    /// Acknowledgements since that acknowledge nothing new.
    duplicates: u32,
    /// Losses below this number are being repaired.
    recovery: u32,
    identification: u16,
    /// How often each segment was sent: the last one's timer counts.
    turns: HashMap<u32, u32>,
}

impl Sender {
    fn new() -> Self {
        Self {
            sent: 0,
            acked: 0,
            duplicates: 0,
            recovery: 0,
            identification: 1,
            turns: HashMap::new(),
        }
    }

    /// The identification of the next packet: any but 0.
    fn identification(&mut self) -> u16 {
        let identification = self.identification;
        self.identification = identification.wrapping_add(1).max(1);
        identification
    }
}

#[derive(Debug, Default)]
struct Receiver {
    received: BTreeSet<u32>,
    /// All segments below this number are there.
    expected: u32,
}

/// A conversation that is under way.
#[derive(Debug)]
pub(super) struct Simulation<'a> {
    path: &'a Conversation,
    random: &'a mut Random,
    now_ns: i64,
    queue: Queue,
    sender: Sender,
    probe: Probe,
    receiver: Receiver,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(path: &'a Conversation, random: &'a mut Random) -> Self {
        Self {
            path,
            random,
            now_ns: 1_700_000_000_000 * MS,
            queue: Queue::default(),
            sender: Sender::new(),
            probe: Probe::default(),
            receiver: Receiver::default(),
        }
    }

    /// The packets at the probe in the order of their times, and what is true of them.
    pub(super) fn run(mut self) -> (Vec<Seen>, Truth) {
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
                    goes_on,
                } => self.ack_at_probe(at_ns, below, cause, goes_on),
                Event::AckAtSender(below) => self.ack_at_sender(below),
                Event::Timer { number, turn } => self.timer(at_ns, number, turn),
            }
            self.fill_window();
        }
        self.end();
        self.probe.finish()
    }

    /// Whether something happens that happens to `of` packets in a thousand.
    fn chance(&mut self, of: u64) -> bool {
        self.random.below(1000) < of
    }

    /// The three packets that open the connection.
    fn open(&mut self) {
        let (start, half) = (self.path.start, 2 * self.path.to_receiver_ns);
        for (after, side, sequence, acknowledgement, tcp_flags) in [
            (0, 0, start.wrapping_sub(1), 0, SYN),
            (half, 1, 99, start, SYN | ACK),
            (half + 2 * self.path.to_probe_ns, 0, start, 100, ACK),
        ] {
            let segment = headers(sequence, acknowledgement, tcp_flags);
            self.probe.see(self.now_ns + after, side, segment);
        }
        self.now_ns += half + 2 * self.path.to_probe_ns + MS;
    }

    /// Sends what may be under way.
    fn fill_window(&mut self) {
        while self.sender.sent < self.path.segments
            && self.sender.sent < self.sender.acked + self.path.window
        {
            self.send(self.sender.sent, Sending::First);
            self.sender.sent += 1;
            self.now_ns += MS / 2;
        }
    }

    fn send(&mut self, number: u32, sending: Sending) {
        let faults = self.path.faults;
        let identification = self.sender.identification();
        let late = sending == Sending::First && self.chance(faults.overtaken);
        let delay_ns = self.path.to_probe_ns + if late { 3 * MS / 2 } else { 0 };
        let lost = !late && self.chance(faults.lost_before);
        let goes_on = !self.chance(faults.lost_behind);
        if !lost {
            let segment = Passing {
                number,
                identification,
                sending,
                is_copy: false,
                goes_on,
            };
            let at_ns = self.now_ns + delay_ns;
            self.queue.push(at_ns, Event::SegmentAtProbe(segment));
            if self.chance(faults.copied) {
                let copy = Passing {
                    is_copy: true,
                    goes_on: true,
                    ..segment
                };
                self.queue.push(at_ns + 20_000, Event::SegmentAtProbe(copy));
            }
        }
        let turn = self.sender.turns.entry(number).or_default();
        *turn += 1;
        let turn = *turn;
        let after_ns = self.path.timeout_ns << (turn - 1).min(4);
        self.queue
            .push(self.now_ns + after_ns, Event::Timer { number, turn });
    }

    fn segment_at_probe(&mut self, at_ns: i64, segment: Passing) {
        if segment.goes_on {
            let arrives_ns = at_ns + self.path.to_receiver_ns;
            self.queue
                .push(arrives_ns, Event::SegmentAtReceiver(segment.number));
        }
        if segment.sending == Sending::First
            && !segment.is_copy
            && segment.goes_on
            && self.chance(self.path.faults.missed)
        {
            self.probe.miss(segment.number);
        } else {
            self.probe.take(at_ns, segment, self.path);
        }
    }

    fn segment_at_receiver(&mut self, at_ns: i64, number: u32) {
        let receiver = &mut self.receiver;
        receiver.received.insert(number);
        while receiver.received.contains(&receiver.expected) {
            receiver.expected += 1;
        }
        let below = receiver.expected;
        let goes_on = !self.chance(self.path.faults.acknowledgement_lost);
        self.queue.push(
            at_ns + self.path.to_receiver_ns,
            Event::AckAtProbe {
                below,
                cause: number,
                goes_on,
            },
        );
    }

    fn ack_at_probe(&mut self, at_ns: i64, below: u32, cause: u32, goes_on: bool) {
        if goes_on {
            let held = self.chance(self.path.faults.held);
            let delay_ns = if held { self.path.timeout_ns } else { 0 };
            let arrives_ns = at_ns + self.path.to_probe_ns + delay_ns;
            self.queue.push(arrives_ns, Event::AckAtSender(below));
        }
        self.probe.acknowledge(at_ns, below, cause);
        let acknowledgement = self.path.start.wrapping_add(below * PAYLOAD);
        self.probe.see(at_ns, 1, headers(100, acknowledgement, ACK));
    }

    fn ack_at_sender(&mut self, below: u32) {
        let sender = &mut self.sender;
        if below > sender.acked {
            sender.acked = below;
            sender.duplicates = 0;
            // Of several losses in a window, the next is repaired at once (RFC 6582).
            if below < sender.recovery {
                self.send(below, Sending::Duplicates);
            }
        } else if below == sender.acked && sender.sent > below {
            sender.duplicates += 1;
            if sender.duplicates == DUPLICATES && below >= sender.recovery {
                sender.recovery = sender.sent;
                self.send(below, Sending::Duplicates);
            }
        }
    }

    fn timer(&mut self, at_ns: i64, number: u32, turn: u32) {
        let sender = &mut self.sender;
        if number < sender.acked || sender.turns.get(&number) != Some(&turn) {
            return;
        }
        if number == sender.acked {
            sender.duplicates = 0;
            sender.recovery = number;
            self.send(number, Sending::Timer);
        } else {
            // The timer runs for the oldest alone.
            let at_ns = at_ns + self.path.timeout_ns;
            self.queue.push(at_ns, Event::Timer { number, turn });
        }
    }

    /// What follows when all is acknowledged: keep-alives, and probes of a closed window, the first of
    /// which has a byte more.
    fn end(&mut self) {
        let end = self.path.start.wrapping_add(self.path.segments * PAYLOAD);
        let mut at_ns = self.now_ns;
        let keep_alives = (0..self.path.keep_alives).map(|turn| {
            let before = end.wrapping_sub(1);
            (Sending::KeepAlive, before, (turn + 1) % 2, 60_000, true)
        });
        let window_probes =
            (0..self.path.window_probes).map(|turn| (Sending::WindowProbe, end, 1, 0, turn > 0));
        for (sending, sequence, payload_length, window, again) in keep_alives.chain(window_probes) {
            let closes = sending == Sending::WindowProbe && !again;
            at_ns += SILENCE_NS;
            let answer = Segment {
                window,
                ..headers(100, end, ACK)
            };
            let identification = self.sender.identification();
            let probe = Segment {
                payload_length,
                identification: self.path.identification(identification),
                ..headers(sequence, 100, ACK)
            };
            let answered_ns = at_ns + 2 * self.path.to_receiver_ns;
            if closes {
                self.probe.truth.unique_bytes += 1;
                // The window is closed before it is probed.
                self.probe.see(at_ns - SILENCE_NS / 2, 1, answer);
            }
            self.probe.see(answered_ns, 1, answer);
            self.probe.seen.push(Seen {
                time_ns: at_ns,
                side: 0,
                segment: probe,
                sending,
                class: again.then_some(Class::FlowControl),
            });
        }
    }
}
