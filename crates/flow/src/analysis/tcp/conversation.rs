//! TCP conversations with known truth: a sender, a probe in the middle of the path, a receiver, and
//! faults at known places before and behind the probe.

use crate::analysis::tcp::Class;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use wire::Segment;
use wire::tcp::flag::{ACK, SYN};

pub(super) const MS: i64 = 1_000_000;
pub(super) const PAYLOAD: u32 = 1000;

/// A packet at the probe, and what is true of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) time_ns: i64,
    /// 0: the sender's.
    pub(super) side: usize,
    pub(super) segment: Segment,
    /// The class of a segment out of sequence.
    pub(super) class: Option<Class>,
}

/// What is true of the sender's data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) unique_bytes: u64,
    pub(super) retransmitted: u32,
    pub(super) retransmitted_bytes: u64,
    pub(super) out_of_order: u32,
    pub(super) missed_bytes: u64,
    pub(super) rtt_ns: Vec<u64>,
}

/// Faults, each for one packet in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost_before: u64,
    pub(super) lost_behind: u64,
    pub(super) acknowledgement_lost: u64,
    pub(super) copied: u64,
    pub(super) overtaken: u64,
    /// Not seen by the probe, though delivered.
    pub(super) missed: u64,
    /// Acknowledgements held back until the sender's timer runs out.
    pub(super) held: u64,
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
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The path and the sender.
pub(super) struct Conversation {
    pub(super) segments: u32,
    pub(super) window: u32,
    pub(super) to_probe_ns: i64,
    pub(super) to_receiver_ns: i64,
    pub(super) timeout_ns: i64,
    pub(super) start: u32,
    pub(super) identified: bool,
    pub(super) faults: Faults,
}

impl Conversation {
    pub(super) fn run(&self, random: &mut Random) -> (Vec<Seen>, Truth) {
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
        seen.sort_by_key(|packet| packet.time_ns);
        truth.missed_bytes = unseen
            .iter()
            .filter(|number| !at_probe.contains_key(number))
            .count() as u64
            * u64::from(PAYLOAD);
        (seen, truth)
    }
}
