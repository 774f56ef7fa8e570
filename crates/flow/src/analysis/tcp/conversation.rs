//! TCP conversations with known truth: a sender, a probe in the middle of the path, a receiver, and
//! faults at known places before and behind the probe. Tests and the laboratory
//! hold the analysis against them.

mod frames;
mod judges;
mod reading;

pub use frames::{Frames, Timed};
pub use judges::Judges;
pub use reading::{AtProbe, Reading, Truth as TruthAtProbe};

use super::Class;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use wire::Segment;
use wire::tcp::flag::{ACK, SYN};

/// A millisecond.
pub const MS: i64 = 1_000_000;

/// Bytes of payload of each segment.
pub const PAYLOAD: u32 = 1000;

/// Time between keep-alives, and between probes of a closed window.
const SILENCE_NS: i64 = 1000 * MS;

/// Why the sender sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Data for the first time, or no data.
    First,
    /// Its timer ran out.
    Timer,
    /// Duplicate acknowledgements ask for it.
    Duplicates,
    /// It asks whether the receiver is alive.
    KeepAlive,
    /// It asks whether the receiver's window is open again.
    WindowProbe,
}

/// A packet at the probe, and what is true of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it passes.
    pub time_ns: i64,
    /// 0: the sender's.
    pub side: usize,
    /// Its headers.
    pub segment: Segment,
    /// Why it was sent.
    pub sending: Sending,
    /// The class of a segment out of sequence.
    pub class: Option<Class>,
}

/// What is true of the sender's data.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Bytes that passed the probe, each once.
    pub unique_bytes: u64,
    /// Segments whose bytes had passed it before, but for copies.
    pub retransmitted: u32,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Segments that came first behind others of higher sequence numbers.
    pub out_of_order: u32,
    /// Bytes that were delivered and never passed it.
    pub missed_bytes: u64,
    /// Round trips from the probe to the receiver and back, by Karn's rule.
    pub rtt_ns: Vec<u64>,
}

/// Faults, each for one packet in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost before the probe.
    pub lost_before: u64,
    /// Lost behind it.
    pub lost_behind: u64,
    /// Acknowledgements lost behind it, on their way to the sender.
    pub acknowledgement_lost: u64,
    /// Delivered twice.
    pub copied: u64,
    /// Overtaken by others before the probe.
    pub overtaken: u64,
    /// Not seen by the probe, though delivered.
    pub missed: u64,
    /// Acknowledgements held back until the sender's timer runs out.
    pub held: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment at the probe: number, identification, why (0 first, 1 timer, 2 duplicates), whether
    /// it is a copy, whether it goes on to the receiver.
    AtProbe(u32, u16, u8, bool, bool),
    AtReceiver(u32),
    /// An acknowledgement of all segments below a number, which the arrival of a segment caused.
    AckAtProbe(u32, u32, bool),
    AckAtSender(u32),
    Timer(u32, u32),
}

/// Numbers without a pattern (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that `seed` fixes.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // From zero, zeroes follow.
        Self(if seed == 0 { 1 } else { seed })
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The path and the sender.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    /// Segments of data.
    pub segments: u32,
    /// How many of them may be under way.
    pub window: u32,
    /// From the sender to the probe, and back.
    pub to_probe_ns: i64,
    /// From the probe to the receiver, and back.
    pub to_receiver_ns: i64,
    /// The sender's timer when it runs out for the first time.
    pub timeout_ns: i64,
    /// Sequence number of the first byte.
    pub start: u32,
    /// Whether packets have identifications.
    pub identified: bool,
    /// Keep-alives behind the last segment, every other one without a byte.
    pub keep_alives: u32,
    /// Probes of a closed window behind these.
    pub window_probes: u32,
    /// What goes wrong.
    pub faults: Faults,
}

impl Conversation {
    /// The packets at the probe in the order of their times, and what is true of them.
    #[must_use]
    pub fn run(&self, random: &mut Random) -> (Vec<Seen>, Truth) {
        let (mut seen, mut truth) = (Vec::new(), Truth::default());
        let mut queue: BinaryHeap<Reverse<(i64, u64, Event)>> = BinaryHeap::new();
        let mut order = 0u64;
        let mut push = |queue: &mut BinaryHeap<_>, at: i64, event: Event| {
            order += 1;
            queue.push(Reverse((at, order, event)));
        };
        let begun = 1_700_000_000_000 * MS;
        let half = 2 * self.to_receiver_ns;
        for (after, side, sequence, acknowledgement, tcp_flags) in [
            (0, 0, self.start.wrapping_sub(1), 0, SYN),
            (half, 1, 99, self.start, SYN | ACK),
            (half + 2 * self.to_probe_ns, 0, self.start, 100, ACK),
        ] {
            let segment = Segment {
                sequence,
                acknowledgement,
                tcp_flags,
                window: 60_000,
                transport: 6,
                ..Segment::default()
            };
            seen.push(Seen {
                time_ns: begun + after,
                side,
                segment,
                sending: Sending::First,
                class: None,
            });
        }
        let mut now = begun + half + 2 * self.to_probe_ns + MS;
        // Sender.
        let (mut sent, mut acked, mut duplicates, mut recovery) = (0u32, 0u32, 0u8, 0u32);
        let mut identification = 1u16;
        let mut timers: HashMap<u32, u32> = HashMap::new();
        // Receiver and probe.
        let (mut received, mut expected) = (BTreeSet::new(), 0u32);
        let mut at_probe: HashMap<u32, (i64, u32)> = HashMap::new();
        let (mut highest, mut acked_at_probe) = (0u32, 0u32);
        let mut unseen: HashSet<u32> = HashSet::new();
        let chance = |random: &mut Random, of: u64| random.below(1000) < of;
        macro_rules! send {
            ($number:expr, $why:expr, $at:expr) => {{
                let number: u32 = $number;
                let id = identification;
                identification = identification.wrapping_add(1).max(1);
                let late = $why == 0 && chance(random, self.faults.overtaken);
                let delay = self.to_probe_ns + if late { 3 * MS / 2 } else { 0 };
                let lost = !late && chance(random, self.faults.lost_before);
                let behind = chance(random, self.faults.lost_behind);
                if !lost {
                    push(
                        &mut queue,
                        $at + delay,
                        Event::AtProbe(number, id, $why, false, !behind),
                    );
                    if chance(random, self.faults.copied) {
                        push(
                            &mut queue,
                            $at + delay + 20_000,
                            Event::AtProbe(number, id, $why, true, true),
                        );
                    }
                }
                let turn = timers.entry(number).or_default();
                *turn += 1;
                let turn = *turn;
                push(
                    &mut queue,
                    $at + (self.timeout_ns << (turn - 1).min(4)),
                    Event::Timer(number, turn),
                );
            }};
        }
        loop {
            while sent < self.segments && sent < acked + self.window {
                send!(sent, 0, now);
                sent += 1;
                now += MS / 2;
            }
            let Some(Reverse((at, _, event))) = queue.pop() else {
                break;
            };
            now = now.max(at);
            match event {
                Event::AtProbe(number, id, why, copy, goes_on) => {
                    if goes_on {
                        push(
                            &mut queue,
                            at + self.to_receiver_ns,
                            Event::AtReceiver(number),
                        );
                    }
                    if why == 0 && !copy && goes_on && chance(random, self.faults.missed) {
                        unseen.insert(number);
                        continue;
                    }
                    let before = at_probe.get(&number).copied();
                    let mut class = None;
                    if before.is_some() {
                        let acknowledged = number < acked_at_probe;
                        class = Some(match (copy, why, acknowledged) {
                            (true, _, _) => Class::Duplicate,
                            (_, 1, false) => Class::Timeout,
                            (_, 1, true) => Class::UnnecessaryTimeout,
                            (_, 2, false) => Class::FastRetransmit,
                            (_, 2, true) => Class::UnnecessaryFastRetransmit,
                            _ => Class::Unknown,
                        });
                        if !copy {
                            truth.retransmitted += 1;
                            truth.retransmitted_bytes += u64::from(PAYLOAD);
                            at_probe.insert(number, (at, 2));
                        }
                    } else {
                        truth.unique_bytes += u64::from(PAYLOAD);
                        at_probe.insert(number, (at, 1));
                        if number < highest {
                            truth.out_of_order += 1;
                            class = Some(match why {
                                0 => Class::Reordering,
                                1 if number < acked_at_probe => Class::UnnecessaryTimeout,
                                1 => Class::Timeout,
                                _ if number < acked_at_probe => Class::UnnecessaryFastRetransmit,
                                _ => Class::FastRetransmit,
                            });
                            if why != 0 {
                                at_probe.insert(number, (at, 2));
                            }
                        }
                    }
                    highest = highest.max(number + 1);
                    let segment = Segment {
                        sequence: self.start.wrapping_add(number * PAYLOAD),
                        acknowledgement: 100,
                        tcp_flags: ACK,
                        window: 60_000,
                        transport: 6,
                        payload_length: PAYLOAD,
                        identification: if self.identified { id } else { 0 },
                        ..Segment::default()
                    };
                    seen.push(Seen {
                        time_ns: at,
                        side: 0,
                        segment,
                        sending: match why {
                            0 => Sending::First,
                            1 => Sending::Timer,
                            _ => Sending::Duplicates,
                        },
                        class,
                    });
                }
                Event::AtReceiver(number) => {
                    received.insert(number);
                    while received.contains(&expected) {
                        expected += 1;
                    }
                    let lost = chance(random, self.faults.acknowledgement_lost);
                    push(
                        &mut queue,
                        at + self.to_receiver_ns,
                        Event::AckAtProbe(expected, number, !lost),
                    );
                }
                Event::AckAtProbe(below, cause, goes_on) => {
                    if goes_on {
                        let held = chance(random, self.faults.held);
                        let delay = if held { self.timeout_ns } else { 0 };
                        push(
                            &mut queue,
                            at + self.to_probe_ns + delay,
                            Event::AckAtSender(below),
                        );
                    }
                    if below > acked_at_probe {
                        let once = (acked_at_probe..below).all(|number| {
                            at_probe.get(&number).is_none_or(|&(_, times)| times == 1)
                        });
                        if let Some(&(time, _)) = at_probe.get(&cause)
                            && once
                            && cause + 1 == below
                        {
                            truth.rtt_ns.push((at - time) as u64);
                        }
                        acked_at_probe = below;
                        highest = highest.max(below);
                    }
                    let segment = Segment {
                        sequence: 100,
                        acknowledgement: self.start.wrapping_add(below * PAYLOAD),
                        tcp_flags: ACK,
                        window: 60_000,
                        transport: 6,
                        ..Segment::default()
                    };
                    seen.push(Seen {
                        time_ns: at,
                        side: 1,
                        segment,
                        sending: Sending::First,
                        class: None,
                    });
                }
                Event::AckAtSender(below) => {
                    if below > acked {
                        acked = below;
                        duplicates = 0;
                        // Of several losses in a window, the next is repaired at once (RFC 6582).
                        if acked < recovery {
                            send!(acked, 2, now);
                        }
                    } else if below == acked && sent > acked {
                        duplicates += 1;
                        if duplicates == 3 && acked >= recovery {
                            recovery = sent;
                            send!(acked, 2, now);
                        }
                    }
                }
                Event::Timer(number, turn) => {
                    if number == acked && timers.get(&number) == Some(&turn) {
                        duplicates = 0;
                        recovery = acked;
                        send!(number, 1, now);
                    } else if number > acked && timers.get(&number) == Some(&turn) {
                        // The timer runs for the oldest alone.
                        push(&mut queue, at + self.timeout_ns, Event::Timer(number, turn));
                    }
                }
            }
        }
        self.end(now, identification, &mut seen, &mut truth);
        seen.sort_by_key(|packet| packet.time_ns);
        truth.missed_bytes = unseen
            .iter()
            .filter(|number| !at_probe.contains_key(number))
            .count() as u64
            * u64::from(PAYLOAD);
        (seen, truth)
    }

    /// What follows when all is acknowledged: keep-alives, and probes of a closed window, the first of
    /// which has a byte more.
    fn end(&self, last_ns: i64, mut identification: u16, seen: &mut Vec<Seen>, truth: &mut Truth) {
        let end = self.start.wrapping_add(self.segments * PAYLOAD);
        let mut at_ns = last_ns;
        let keep_alives = (0..self.keep_alives).map(|turn| {
            let before = end.wrapping_sub(1);
            (Sending::KeepAlive, before, (turn + 1) % 2, 60_000, true)
        });
        let window_probes =
            (0..self.window_probes).map(|turn| (Sending::WindowProbe, end, 1, 0, turn > 0));
        for (sending, sequence, payload_length, window, again) in keep_alives.chain(window_probes) {
            let closes = sending == Sending::WindowProbe && !again;
            at_ns += SILENCE_NS;
            let answer = Segment {
                sequence: 100,
                acknowledgement: end,
                tcp_flags: ACK,
                window,
                transport: 6,
                ..Segment::default()
            };
            let probe = Segment {
                sequence,
                acknowledgement: 100,
                payload_length,
                window: 60_000,
                identification: if self.identified { identification } else { 0 },
                ..answer
            };
            identification = identification.wrapping_add(1).max(1);
            truth.unique_bytes += u64::from(closes);
            let answered_ns = at_ns + 2 * self.to_receiver_ns;
            // The window is closed before it is probed.
            let answers = [(at_ns - SILENCE_NS / 2, closes), (answered_ns, true)];
            for (time_ns, _) in answers.into_iter().filter(|(_, is_sent)| *is_sent) {
                seen.push(Seen {
                    time_ns,
                    side: 1,
                    segment: answer,
                    sending: Sending::First,
                    class: None,
                });
            }
            seen.push(Seen {
                time_ns: at_ns,
                side: 0,
                segment: probe,
                sending,
                class: again.then_some(Class::FlowControl),
            });
        }
    }
}
