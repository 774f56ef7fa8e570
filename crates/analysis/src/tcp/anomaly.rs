//! What a segment out of sequence is: the eight classes.
//!
//! A probe between the two hosts sees segments again, or late, for different reasons. Which one it
//! is, is decided as Mellia, Meo, Muscariello and Rossi do ("Passive analysis of TCP anomalies",
//! Computer Networks 52(14), 2008), on what was seen before, the IPv4 identification, the time since
//! the bytes (or what followed the gap) were seen, and duplicate acknowledgements.

use super::sent::Known;

/// Why a segment is out of sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The sender's timer ran out before an acknowledgement came.
    Timeout,
    /// Three duplicate acknowledgements made the sender repeat it.
    FastRetransmit,
    /// The network delivered it after a segment that was sent later.
    Reordering,
    /// The network delivered a packet twice.
    Duplicate,
    /// The sender asks whether the receiver's window is open again, or whether it is alive.
    FlowControl,
    /// By the timer, although it had been acknowledged.
    UnnecessaryTimeout,
    /// By duplicate acknowledgements, although it had been acknowledged.
    UnnecessaryFastRetransmit,
    /// None of these.
    Unknown,
}

/// How many there are.
pub const CLASSES: usize = 8;

impl Class {
    /// All of them, in the order of [`Anomalies::classes`].
    pub const ALL: [Self; CLASSES] = [
        Self::Timeout,
        Self::FastRetransmit,
        Self::Reordering,
        Self::Duplicate,
        Self::FlowControl,
        Self::UnnecessaryTimeout,
        Self::UnnecessaryFastRetransmit,
        Self::Unknown,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "time-out",
            Self::FastRetransmit => "fast retransmit",
            Self::Reordering => "reordering",
            Self::Duplicate => "duplicate",
            Self::FlowControl => "flow control",
            Self::UnnecessaryTimeout => "unnecessary time-out",
            Self::UnnecessaryFastRetransmit => "unnecessary fast retransmit",
            Self::Unknown => "unknown",
        }
    }
}

/// What is counted of the segments of one side that were out of sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Anomalies {
    /// Segments of each [`Class`], in the order of [`Class::ALL`].
    pub classes: [u32; CLASSES],
    /// Segments with bytes that had been seen before, but for copies made by the network and probes.
    pub retransmitted: u32,
    /// Segments below the highest sequence number whose bytes had not been seen.
    pub out_of_order: u32,
    /// Bytes seen before in the segments of `retransmitted`.
    pub retransmitted_bytes: u64,
    /// Bytes seen before in all segments.
    pub repeated_bytes: u64,
    /// Bytes of gaps that were given up, since there was no place for more of them.
    pub given_up_bytes: u64,
}

impl Anomalies {
    /// Counts a segment of `class`.
    pub(super) fn count(&mut self, class: Class) {
        self.classes[class as usize] += 1;
    }
}

/// What the judgement of a segment rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Whether its bytes were seen before; otherwise it fills a gap.
    pub(super) seen: bool,
    /// Whether they had been acknowledged.
    pub(super) acknowledged: bool,
    /// Its IPv4 identification, 0 if it has none.
    pub(super) identification: u16,
    /// What is known of the bytes, or of what followed the gap.
    pub(super) known: Option<Known>,
    /// Round trip of the path as far as it was measured, nanoseconds; 0 if it was not.
    pub(super) rtt_ns: u64,
    /// The sender's retransmission time-out, as it can be guessed.
    pub(super) timeout_ns: u64,
    /// Whether duplicate acknowledgements ask for it.
    pub(super) asked_for: bool,
}

/// Identifications grow by less than this from one packet of a flow to the next, where they count
/// packets.
const COUNTING: u16 = 1 << 12;

impl Evidence {
    /// Whether it was sent before what followed the gap, if identifications count packets here, so
    /// that they tell the order of sending. Where only these two are known, they do if they are near
    /// each other.
    fn sent_before(&self, known: &Known) -> Option<bool> {
        if self.identification == 0 || known.identification == 0 {
            return None;
        }
        let later = self.identification.wrapping_sub(known.identification);
        let counts = if known.before == 0 {
            later.cast_signed().unsigned_abs() < COUNTING
        } else {
            known.identification.wrapping_sub(known.before) < COUNTING
        };
        counts.then_some(later.cast_signed() < 0)
    }

    /// The class.
    pub(super) fn judge(&self) -> Class {
        let Some(known) = self.known else {
            return Class::Unknown;
        };
        let identified = self.identification != 0 && known.identification != 0;
        if self.seen {
            let copy = if identified {
                self.identification == known.identification
            } else {
                !known.at_least && known.age_ns < self.rtt_ns / 2
            };
            if copy && !known.at_least {
                return Class::Duplicate;
            }
        } else if !known.at_least {
            // Sent before what followed the gap, or sent again.
            let soon = known.age_ns < self.rtt_ns && !self.asked_for;
            if self.sent_before(&known).unwrap_or(soon) {
                return Class::Reordering;
            }
        }
        let by_timer = known.age_ns >= self.timeout_ns;
        match (by_timer, self.asked_for, self.acknowledged) {
            (true, _, false) => Class::Timeout,
            (true, _, true) => Class::UnnecessaryTimeout,
            (false, true, false) => Class::FastRetransmit,
            (false, true, true) => Class::UnnecessaryFastRetransmit,
            (false, false, _) => Class::Unknown,
        }
    }
}
