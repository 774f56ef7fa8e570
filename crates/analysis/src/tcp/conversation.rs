//! Simulated TCP conversations with known truth: a sender, a probe in the middle of the path, a
//! receiver, and faults before and after the probe. Tests and the laboratory compare the analysis with
//! the truth.

mod classifier;
mod frames;
mod probe;
mod reference;
mod simulation;

pub use classifier::Classifier;
pub use frames::{Frames, TimedFrame};
pub use reference::{ReferencePacket, ReferenceReader, Truth as TruthAtProbe};

use super::Class;
use simulation::Simulation;
use wire::{PacketInfo, ip_protocol};

/// A millisecond in nanoseconds.
pub const MS: i64 = 1_000_000;

/// Payload bytes of each segment.
pub const PAYLOAD: u32 = 1000;

/// Why the sender sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendReason {
    /// First transmission, or a packet without data.
    First,
    /// The retransmission timer expired.
    Timer,
    /// Duplicate ACKs arrived.
    DuplicateAcks,
    /// A keep-alive.
    KeepAlive,
    /// A probe of a closed window.
    WindowProbe,
}

/// A packet that the probe observes, and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct ObservedPacket {
    /// When it passes the probe.
    pub time_ns: i64,
    /// 0 if the sender sent it, 1 if the receiver did.
    pub side: usize,
    /// Its headers.
    pub segment: PacketInfo,
    /// Why it was sent.
    pub reason: SendReason,
    /// Its class, if it is out of sequence.
    pub class: Option<Class>,
}

/// The truth about the sender's data.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Distinct bytes that passed the probe.
    pub unique_bytes: u64,
    /// Segments whose bytes had passed the probe before, except copies.
    pub retransmitted: u32,
    /// Bytes of these segments.
    pub retransmitted_bytes: u64,
    /// Segments that passed the probe for the first time after segments with higher sequence numbers.
    pub out_of_order: u32,
    /// Bytes that were delivered but never seen by the probe.
    pub missed_bytes: u64,
    /// Round trips from the probe to the receiver and back, selected by Karn's algorithm.
    pub rtt_ns: Vec<u64>,
}

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

/// A pseudo-random number generator (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Zero would give zeros only.
        Self(if seed == 0 { 1 } else { seed })
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
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

impl Conversation {
    /// Simulates the conversation. Returns the packets that the probe observes, in the order of their
    /// times, and the truth about them.
    #[must_use]
    pub fn run(&self, random: &mut Random) -> (Vec<ObservedPacket>, Truth) {
        Simulation::new(self, random).run()
    }

    /// Returns the identification that a packet carries.
    fn identification(&self, identification: u16) -> u16 {
        if self.has_identifications {
            identification
        } else {
            0
        }
    }
}

/// Returns the headers of a packet.
fn headers(sequence: u32, acknowledgement: u32, tcp_flags: u8) -> PacketInfo {
    PacketInfo {
        sequence,
        acknowledgement,
        tcp_flags,
        window: 60_000,
        transport: ip_protocol::TCP,
        ..PacketInfo::default()
    }
}
