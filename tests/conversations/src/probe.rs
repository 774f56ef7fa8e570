//! The simulated probe in the middle of the path: the packets that pass it, and the truth about them.

use crate::conversation::Conversation;
use crate::packet::{ObservedPacket, PAYLOAD, SendReason, headers};
use crate::truth::Truth;
use analysis::tcp::Class;
use std::collections::{HashMap, HashSet};
use wire::PacketInfo;
use wire::tcp::flag::ACK;

/// A data segment at the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DataSegment {
    pub(crate) number: u32,
    pub(crate) identification: u16,
    pub(crate) reason: SendReason,
    pub(crate) is_copy: bool,
    /// Whether it is delivered to the receiver.
    pub(crate) reaches_receiver: bool,
}

/// The last time that a segment passed the probe.
#[derive(Clone, Copy, Debug)]
struct LastPass {
    /// When it passed, copies excluded.
    time_ns: i64,
    /// Whether its acknowledgement may be for another transmission (Karn's algorithm).
    is_ambiguous: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) packets: Vec<ObservedPacket>,
    pub(crate) truth: Truth,
    last_passes: HashMap<u32, LastPass>,
    /// Segments that were delivered without being seen.
    missed: HashSet<u32>,
    /// One more than the highest segment that passed or was acknowledged.
    highest: u32,
    /// Segments below this one are acknowledged.
    acked: u32,
}

impl Probe {
    /// Observes a packet that is not out of sequence.
    pub(crate) fn observe(&mut self, time_ns: i64, side: usize, segment: PacketInfo) {
        self.packets.push(ObservedPacket {
            time_ns,
            side,
            segment,
            reason: SendReason::First,
            class: None,
        });
    }

    /// Lets a segment pass without observing it.
    pub(crate) fn miss(&mut self, number: u32) {
        self.missed.insert(number);
    }

    /// Observes a data segment.
    pub(crate) fn observe_data(&mut self, time_ns: i64, segment: DataSegment, path: &Conversation) {
        let DataSegment {
            number,
            identification,
            reason,
            ..
        } = segment;
        let class = self.classify(time_ns, segment);
        self.highest = self.highest.max(number + 1);
        let sequence = path.start.wrapping_add(number * PAYLOAD);
        let segment = PacketInfo {
            payload_length: PAYLOAD,
            identification: path.identification(identification),
            ..headers(sequence, 100, ACK)
        };
        self.packets.push(ObservedPacket {
            time_ns,
            side: 0,
            segment,
            reason,
            class,
        });
    }

    /// Counts a segment. Returns its class if it is out of sequence.
    fn classify(&mut self, time_ns: i64, segment: DataSegment) -> Option<Class> {
        let DataSegment {
            number,
            reason,
            is_copy,
            ..
        } = segment;
        let retransmit_class = retransmit_class(reason, number < self.acked);
        if self.last_passes.contains_key(&number) {
            if is_copy {
                return Some(Class::Duplicate);
            }
            self.truth.retransmitted += 1;
            self.truth.retransmitted_bytes += u64::from(PAYLOAD);
            self.record_pass(number, time_ns, true);
            return Some(retransmit_class.unwrap_or(Class::Unknown));
        }
        self.truth.unique_bytes += u64::from(PAYLOAD);
        if number >= self.highest {
            self.record_pass(number, time_ns, false);
            return None;
        }
        self.truth.out_of_order += 1;
        self.record_pass(number, time_ns, reason != SendReason::First);
        Some(retransmit_class.unwrap_or(Class::Reordering))
    }

    fn record_pass(&mut self, number: u32, time_ns: i64, is_ambiguous: bool) {
        let pass = LastPass {
            time_ns,
            is_ambiguous,
        };
        self.last_passes.insert(number, pass);
    }

    /// Observes an acknowledgement of all segments below `below`, sent when segment `cause` arrived.
    pub(crate) fn acknowledge(&mut self, time_ns: i64, below: u32, cause: u32) {
        if below <= self.acked {
            return;
        }
        let is_unambiguous = (self.acked..below).all(|number| {
            let pass = self.last_passes.get(&number);
            pass.is_none_or(|pass| !pass.is_ambiguous)
        });
        if let Some(pass) = self.last_passes.get(&cause)
            && is_unambiguous
            && cause + 1 == below
        {
            self.truth.rtt_ns.push((time_ns - pass.time_ns) as u64);
        }
        self.acked = below;
        self.highest = self.highest.max(below);
    }

    /// Returns all packets in the order of their times, and the truth about them.
    pub(crate) fn finish(mut self) -> (Vec<ObservedPacket>, Truth) {
        self.packets.sort_by_key(|packet| packet.time_ns);
        let missed = self.missed.iter();
        let never_seen = missed.filter(|number| !self.last_passes.contains_key(number));
        self.truth.missed_bytes = never_seen.count() as u64 * u64::from(PAYLOAD);
        (self.packets, self.truth)
    }
}

/// Returns the class of a retransmission, `None` if the segment is not retransmitted.
fn retransmit_class(reason: SendReason, is_acknowledged: bool) -> Option<Class> {
    match (reason, is_acknowledged) {
        (SendReason::Timer, false) => Some(Class::Timeout),
        (SendReason::Timer, true) => Some(Class::UnnecessaryTimeout),
        (SendReason::DuplicateAcks, false) => Some(Class::FastRetransmit),
        (SendReason::DuplicateAcks, true) => Some(Class::UnnecessaryFastRetransmit),
        _ => None,
    }
}
