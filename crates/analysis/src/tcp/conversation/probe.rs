//! The probe in the middle of the path: what passes it, and what is true of that.

use super::{Conversation, PAYLOAD, Seen, Sending, Truth, headers};
use crate::tcp::Class;
use std::collections::{HashMap, HashSet};
use wire::Segment;
use wire::tcp::flag::ACK;

/// A segment of data on its way past the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Passing {
    pub(super) number: u32,
    pub(super) identification: u16,
    pub(super) sending: Sending,
    pub(super) is_copy: bool,
    /// Whether it goes on to the receiver.
    pub(super) goes_on: bool,
}

/// What the probe knows of a segment that has passed it.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// When it did last, but for copies.
    time_ns: i64,
    /// Whether an acknowledgement may be of another time that it was sent (Karn's rule).
    is_repeated: bool,
}

#[derive(Debug, Default)]
pub(super) struct Probe {
    pub(super) seen: Vec<Seen>,
    pub(super) truth: Truth,
    passed: HashMap<u32, Passed>,
    /// Delivered, and not seen when they were.
    missed: HashSet<u32>,
    /// All segments that passed or were acknowledged are below this number.
    highest: u32,
    /// All segments below this number have been acknowledged.
    acked: u32,
}

impl Probe {
    /// Sees a packet that is not out of sequence.
    pub(super) fn see(&mut self, time_ns: i64, side: usize, segment: Segment) {
        self.seen.push(Seen {
            time_ns,
            side,
            segment,
            sending: Sending::First,
            class: None,
        });
    }

    /// Does not see a segment.
    pub(super) fn miss(&mut self, number: u32) {
        self.missed.insert(number);
    }

    /// Sees a segment of data.
    pub(super) fn take(&mut self, time_ns: i64, segment: Passing, path: &Conversation) {
        let Passing {
            number,
            identification,
            sending,
            ..
        } = segment;
        let class = self.class(time_ns, segment);
        self.highest = self.highest.max(number + 1);
        let sequence = path.start.wrapping_add(number * PAYLOAD);
        let segment = Segment {
            payload_length: PAYLOAD,
            identification: path.identification(identification),
            ..headers(sequence, 100, ACK)
        };
        self.seen.push(Seen {
            time_ns,
            side: 0,
            segment,
            sending,
            class,
        });
    }

    /// Counts a segment; its class, if it is out of sequence.
    fn class(&mut self, time_ns: i64, segment: Passing) -> Option<Class> {
        let Passing {
            number,
            sending,
            is_copy,
            ..
        } = segment;
        let sent_again = class_when_sent_again(sending, number < self.acked);
        if self.passed.contains_key(&number) {
            if is_copy {
                return Some(Class::Duplicate);
            }
            self.truth.retransmitted += 1;
            self.truth.retransmitted_bytes += u64::from(PAYLOAD);
            self.pass(number, time_ns, true);
            return Some(sent_again.unwrap_or(Class::Unknown));
        }
        self.truth.unique_bytes += u64::from(PAYLOAD);
        if number >= self.highest {
            self.pass(number, time_ns, false);
            return None;
        }
        self.truth.out_of_order += 1;
        self.pass(number, time_ns, sending != Sending::First);
        Some(sent_again.unwrap_or(Class::Reordering))
    }

    fn pass(&mut self, number: u32, time_ns: i64, is_repeated: bool) {
        let passed = Passed {
            time_ns,
            is_repeated,
        };
        self.passed.insert(number, passed);
    }

    /// Sees all segments below a number acknowledged, when the segment `cause` arrived.
    pub(super) fn acknowledge(&mut self, time_ns: i64, below: u32, cause: u32) {
        if below <= self.acked {
            return;
        }
        let is_clear = (self.acked..below).all(|number| {
            let passed = self.passed.get(&number);
            passed.is_none_or(|passed| !passed.is_repeated)
        });
        if let Some(passed) = self.passed.get(&cause)
            && is_clear
            && cause + 1 == below
        {
            self.truth.rtt_ns.push((time_ns - passed.time_ns) as u64);
        }
        self.acked = below;
        self.highest = self.highest.max(below);
    }

    /// All packets in the order of their times, and what is true of them.
    pub(super) fn finish(mut self) -> (Vec<Seen>, Truth) {
        self.seen.sort_by_key(|packet| packet.time_ns);
        let missed = self.missed.iter();
        let never_seen = missed.filter(|number| !self.passed.contains_key(number));
        self.truth.missed_bytes = never_seen.count() as u64 * u64::from(PAYLOAD);
        (self.seen, self.truth)
    }
}

/// The class of a segment that was sent again, and was or was not acknowledged by then.
fn class_when_sent_again(sending: Sending, is_acknowledged: bool) -> Option<Class> {
    match (sending, is_acknowledged) {
        (Sending::Timer, false) => Some(Class::Timeout),
        (Sending::Timer, true) => Some(Class::UnnecessaryTimeout),
        (Sending::Duplicates, false) => Some(Class::FastRetransmit),
        (Sending::Duplicates, true) => Some(Class::UnnecessaryFastRetransmit),
        _ => None,
    }
}
