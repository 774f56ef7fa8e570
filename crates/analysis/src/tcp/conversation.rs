//! TCP conversations with known truth: a sender, a probe in the middle of the path, a receiver, and
//! faults at known places before and behind the probe. Tests and the laboratory
//! hold the analysis against them.

mod frames;
mod judges;
mod probe;
mod reading;
mod simulation;

pub use frames::{Frames, Timed};
pub use judges::Judges;
pub use reading::{AtProbe, Reading, Truth as TruthAtProbe};

use super::Class;
use simulation::Simulation;
use wire::{Segment, ip_protocol};

/// A millisecond.
pub const MS: i64 = 1_000_000;

/// Bytes of payload of each segment.
pub const PAYLOAD: u32 = 1000;

/// Why the sender sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        Simulation::new(self, random).run()
    }

    /// The identification that a packet shows.
    fn identification(&self, identification: u16) -> u16 {
        if self.identified { identification } else { 0 }
    }
}

/// The headers of a packet of either side.
fn headers(sequence: u32, acknowledgement: u32, tcp_flags: u8) -> Segment {
    Segment {
        sequence,
        acknowledgement,
        tcp_flags,
        window: 60_000,
        transport: ip_protocol::TCP,
        ..Segment::default()
    }
}
