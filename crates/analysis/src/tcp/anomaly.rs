//! The eight classes of segments out of sequence.
//!
//! A probe between the two hosts sees segments twice, or late, for different reasons. The reason is
//! inferred as by Mellia, Meo, Muscariello and Rossi ("Passive analysis of TCP anomalies", Computer
//! Networks 52(14), 2008): from the bytes seen before, the IPv4 identification, the time since the bytes
//! (or those after the hole) were seen, and duplicate ACKs.

use super::sent::SentInfo;

/// Why a segment is out of sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Retransmitted when the sender's retransmission timer expired.
    Timeout,
    /// Retransmitted after three duplicate ACKs.
    FastRetransmit,
    /// Delivered after a segment that was sent later.
    Reordering,
    /// Duplicated by the network.
    Duplicate,
    /// A probe of a closed window, or a keep-alive.
    FlowControl,
    /// Retransmitted when the timer expired, although it had been acknowledged.
    UnnecessaryTimeout,
    /// Retransmitted after duplicate ACKs, although it had been acknowledged.
    UnnecessaryFastRetransmit,
    /// None of these.
    Unknown,
}

/// Number of classes.
pub const CLASSES: usize = 8;

impl Class {
    /// All classes, in the order of [`Anomalies::classes`].
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

    /// Returns the class's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FastRetransmit => "fast retransmit",
            Self::Reordering => "reordering",
            Self::Duplicate => "duplicate",
            Self::FlowControl => "flow control",
            Self::UnnecessaryTimeout => "unnecessary timeout",
            Self::UnnecessaryFastRetransmit => "unnecessary fast retransmit",
            Self::Unknown => "unknown",
        }
    }
}

/// Counters of one side's segments out of sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Anomalies {
    /// Segments of each [`Class`], in the order of [`Class::ALL`].
    pub classes: [u32; CLASSES],
    /// Segments with bytes seen before, except duplicates and flow control.
    pub retransmitted: u32,
    /// Segments below the highest sequence number without bytes seen before.
    pub out_of_order: u32,
    /// Bytes seen before in the segments of `retransmitted`.
    pub retransmitted_bytes: u64,
    /// Bytes seen before in all segments.
    pub repeated_bytes: u64,
    /// Bytes of holes that were given up because there was no room for more.
    pub given_up_bytes: u64,
}

impl Anomalies {
    /// Counts a segment of `class`.
    pub(super) fn count(&mut self, class: Class) {
        self.classes[class as usize] += 1;
    }
}

/// What the class of a segment is inferred from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Whether its bytes were seen before. Otherwise it fills a hole.
    pub(super) was_seen: bool,
    /// Whether its bytes had been acknowledged.
    pub(super) was_acknowledged: bool,
    /// Its IPv4 identification, 0 if it has none.
    pub(super) identification: u16,
    /// The earlier segment with its bytes, or the one after the hole.
    pub(super) sent_info: Option<SentInfo>,
    /// Round-trip time of the path in nanoseconds, 0 if unknown.
    pub(super) rtt_ns: u64,
    /// Estimate of the sender's retransmission timeout.
    pub(super) rto_ns: u64,
    /// Whether duplicate ACKs have requested it.
    pub(super) has_duplicate_acks: bool,
}

/// If a host numbers its packets sequentially, the identifications of two consecutive packets of a flow
/// differ by less than this.
const IDENTIFICATION_STEP_MAX: u16 = 1 << 12;

impl Evidence {
    /// Returns whether the segment was sent before the one after the hole. `None` if the identifications
    /// do not seem to be sequential and so do not show the order of sending. If only these two
    /// identifications are known, they count as sequential if they are close to each other.
    fn was_sent_before(&self, sent_info: &SentInfo) -> Option<bool> {
        if self.identification == 0 || sent_info.identification == 0 {
            return None;
        }
        let step = self.identification.wrapping_sub(sent_info.identification);
        let are_sequential = if sent_info.previous_identification == 0 {
            step.cast_signed().unsigned_abs() < IDENTIFICATION_STEP_MAX
        } else {
            sent_info
                .identification
                .wrapping_sub(sent_info.previous_identification)
                < IDENTIFICATION_STEP_MAX
        };
        are_sequential.then_some(step.cast_signed() < 0)
    }

    /// Returns the class of the segment.
    pub(super) fn classify(&self) -> Class {
        let Some(sent_info) = self.sent_info else {
            return Class::Unknown;
        };
        let has_identifications = self.identification != 0 && sent_info.identification != 0;
        if self.was_seen {
            let is_copy = if has_identifications {
                self.identification == sent_info.identification
            } else {
                !sent_info.is_lower_bound && sent_info.age_ns < self.rtt_ns / 2
            };
            if is_copy && !sent_info.is_lower_bound {
                return Class::Duplicate;
            }
        } else if !sent_info.is_lower_bound {
            // Reordered, or retransmitted. A retransmission takes at least a round trip.
            let is_soon = sent_info.age_ns < self.rtt_ns && !self.has_duplicate_acks;
            if self.was_sent_before(&sent_info).unwrap_or(is_soon) {
                return Class::Reordering;
            }
        }
        let is_timeout = sent_info.age_ns >= self.rto_ns;
        match (is_timeout, self.has_duplicate_acks, self.was_acknowledged) {
            (true, _, false) => Class::Timeout,
            (true, _, true) => Class::UnnecessaryTimeout,
            (false, true, false) => Class::FastRetransmit,
            (false, true, true) => Class::UnnecessaryFastRetransmit,
            (false, false, _) => Class::Unknown,
        }
    }
}
