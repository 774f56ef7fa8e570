//! The parameters of a conversation.

use crate::random::Random;

/// A millisecond in nanoseconds.
pub const MS: i64 = 1_000_000;

/// Fault rates, in packets per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Segments lost between sender and probe.
    pub lost_before: u64,
    /// Segments lost between probe and receiver.
    pub lost_after: u64,
    /// ACKs lost between probe and sender.
    pub acks_lost: u64,
    /// Segments duplicated before the probe.
    pub duplicated: u64,
    /// Segments overtaken by others before the probe.
    pub reordered: u64,
    /// Segments that are delivered but not seen by the probe.
    pub missed: u64,
    /// ACKs delayed until the sender's timer expires.
    pub acks_delayed: u64,
}

/// Parameters of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    /// Number of data segments.
    pub segments: u32,
    /// Maximum number of segments in flight.
    pub window: u32,
    /// One-way delay between sender and probe.
    pub to_probe_ns: i64,
    /// One-way delay between probe and receiver.
    pub to_receiver_ns: i64,
    /// The sender's initial retransmission timeout.
    pub timeout_ns: i64,
    /// Sequence number of the first byte.
    pub start: u32,
    /// Whether packets have IPv4 identifications.
    pub has_identifications: bool,
    /// Number of keep-alives after the last segment. Every other one has no data.
    pub keep_alives: u32,
    /// Number of probes of a closed window after the keep-alives.
    pub window_probes: u32,
    /// Fault rates.
    pub faults: Faults,
}

impl Faults {
    /// Faults one by one, then together; none of them makes the probe miss a packet.
    #[must_use]
    pub fn examples() -> Vec<Self> {
        let none = Self::default();
        vec![
            none,
            Self {
                lost_after: 20,
                ..none
            },
            Self {
                lost_before: 20,
                ..none
            },
            Self {
                duplicated: 20,
                ..none
            },
            Self {
                reordered: 20,
                ..none
            },
            Self {
                acks_lost: 300,
                ..none
            },
            Self {
                acks_delayed: 10,
                ..none
            },
            Self {
                lost_before: 10,
                lost_after: 10,
                duplicated: 10,
                reordered: 10,
                acks_lost: 20,
                acks_delayed: 3,
                missed: 0,
            },
        ]
    }
}

impl Conversation {
    /// Returns a conversation of 200 segments with random delays, window and sequence numbers.
    #[must_use]
    pub fn random(random: &mut Random, faults: Faults, has_identifications: bool) -> Self {
        let to_probe_ns = (1 + random.below(20) as i64) * MS;
        let to_receiver_ns = (1 + random.below(20) as i64) * MS;
        Self {
            segments: 200,
            window: 1 + random.below(8) as u32,
            to_probe_ns,
            to_receiver_ns,
            timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
            start: random.below(1 << 32) as u32,
            has_identifications,
            keep_alives: 0,
            window_probes: 0,
            faults,
        }
    }

    /// Returns the identification that a packet carries.
    pub(crate) fn identification(&self, identification: u16) -> u16 {
        if self.has_identifications {
            identification
        } else {
            0
        }
    }
}
