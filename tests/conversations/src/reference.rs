//! A reference implementation of the analysis: reads the frames of conversations that reached a probe,
//! after any faults on their way, and computes the truth about them. It remembers every packet and knows
//! why each was sent, so it never has to guess.

use crate::frames::Frames;
use crate::packet::{PAYLOAD, SendReason};
use analysis::tcp::Class;
use std::collections::{BTreeMap, HashMap, HashSet};
use wire::tcp::flag::SYN;

/// The truth about one conversation at the probe. Everything except `packets` is about the client's
/// data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    /// Packets of the client and of the server.
    pub packets: [u64; 2],
    /// Distinct bytes seen.
    pub unique_bytes: u64,
    /// Segments whose bytes had been seen before, except copies.
    pub retransmitted: u64,
    /// Bytes of these segments.
    pub retransmitted_bytes: u64,
    /// Segments seen for the first time after segments with higher sequence numbers.
    pub out_of_order: u64,
    /// Packets that the network duplicated.
    pub copies: u64,
    /// Bytes that were acknowledged but never seen.
    pub missed_bytes: u64,
    /// Round trips from the probe to the server and back, selected by Karn's algorithm.
    pub rtt_ns: Vec<u64>,
}

/// The truth about a packet at the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferencePacket {
    /// Number of its conversation.
    pub conversation: usize,
    /// 0 if the client sent it, 1 if the server did.
    pub side: usize,
    /// Whether it is a data segment, a keep-alive or a window probe.
    pub is_data: bool,
    /// Its class, if it is out of sequence.
    pub class: Option<Class>,
}

/// Reads frames in the order in which they reach the probe.
#[derive(Debug)]
pub struct ReferenceReader<'a> {
    frames: &'a Frames,
    conversations: BTreeMap<usize, Conversation>,
}

impl<'a> ReferenceReader<'a> {
    /// Creates a reader of these frames.
    #[must_use]
    pub const fn new(frames: &'a Frames) -> Self {
        Self {
            frames,
            conversations: BTreeMap::new(),
        }
    }

    /// Reads a frame. Returns the truth about it.
    pub fn read(&mut self, time_ns: i64, frame: &[u8]) -> ReferencePacket {
        let packet = Packet::read(time_ns, frame);
        let number = packet.conversation;
        let conversation = self.conversations.entry(number).or_default();
        conversation.truth.packets[packet.side] += 1;
        let start = self.frames.starts.get(number).copied().unwrap_or_default();
        let sent = (packet.side == 0)
            .then(|| self.frames.sent.get(&(number, packet.identification)))
            .flatten();
        let class =
            sent.and_then(|&(segment, reason)| conversation.count_data(segment, reason, &packet));
        if packet.side == 1 && packet.tcp_flags & SYN == 0 {
            let below = packet.acknowledgement.wrapping_sub(start) / PAYLOAD;
            conversation.count_acknowledgement(below, time_ns);
        }
        ReferencePacket {
            conversation: number,
            side: packet.side,
            is_data: sent.is_some(),
            class,
        }
    }

    /// Returns the truth about each conversation, by its number.
    #[must_use]
    pub fn finish(self) -> BTreeMap<usize, Truth> {
        let conversations = self.conversations.into_iter();
        conversations
            .map(|(number, conversation)| (number, conversation.finish()))
            .collect()
    }
}

/// A packet read from a frame.
struct Packet {
    time_ns: i64,
    conversation: usize,
    side: usize,
    acknowledgement: u32,
    identification: u16,
    tcp_flags: u8,
    payload: u32,
}

impl Packet {
    fn read(time_ns: i64, frame: &[u8]) -> Self {
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let ports = [word(34), word(36)];
        Self {
            time_ns,
            conversation: Frames::conversation(ports),
            side: usize::from(ports[0] == Frames::SERVER_PORT),
            acknowledgement: u32::from(word(42)) << 16 | u32::from(word(44)),
            identification: word(18),
            tcp_flags: frame[47],
            payload: u32::from(word(16)) - 40,
        }
    }
}

/// State of one conversation.
#[derive(Debug, Default)]
struct Conversation {
    truth: Truth,
    identifications: HashSet<u16>,
    /// For each segment, when it was last seen, and whether its acknowledgement may be for another
    /// transmission.
    seen: HashMap<u32, (i64, bool)>,
    /// One more than the highest segment that was seen or acknowledged.
    highest: u32,
    /// Segments below this one are acknowledged.
    acknowledged: u32,
}

impl Conversation {
    fn count_data(&mut self, segment: u32, reason: SendReason, packet: &Packet) -> Option<Class> {
        let truth = &mut self.truth;
        // Senders do not reuse identifications, so the network duplicated this packet.
        if !self.identifications.insert(packet.identification) {
            truth.copies += 1;
            return Some(Class::Duplicate);
        }
        let was_seen = self.seen.contains_key(&segment);
        if reason == SendReason::KeepAlive || (reason == SendReason::WindowProbe && was_seen) {
            return Some(Class::FlowControl);
        }
        let below = segment < self.highest;
        let is_ambiguous = if was_seen {
            truth.retransmitted += 1;
            truth.retransmitted_bytes += u64::from(packet.payload);
            true
        } else {
            truth.unique_bytes += u64::from(packet.payload);
            truth.out_of_order += u64::from(below);
            below && reason != SendReason::First
        };
        self.seen.insert(segment, (packet.time_ns, is_ambiguous));
        self.highest = self.highest.max(segment + 1);
        if !was_seen && !below {
            return None;
        }
        Some(match (reason, segment < self.acknowledged) {
            (SendReason::Timer, false) => Class::Timeout,
            (SendReason::Timer, true) => Class::UnnecessaryTimeout,
            (SendReason::DuplicateAcks, false) => Class::FastRetransmit,
            (SendReason::DuplicateAcks, true) => Class::UnnecessaryFastRetransmit,
            (SendReason::First, _) => Class::Reordering,
            (SendReason::KeepAlive | SendReason::WindowProbe, _) => Class::FlowControl,
        })
    }

    fn count_acknowledgement(&mut self, below: u32, time_ns: i64) {
        if below <= self.acknowledged {
            return;
        }
        let newly: Vec<(i64, bool)> = (self.acknowledged..below)
            .filter_map(|segment| self.seen.get(&segment).copied())
            .collect();
        if let Some(&(last_ns, _)) = self.seen.get(&(below - 1))
            && newly
                .iter()
                .all(|&(seen_ns, is_ambiguous)| !is_ambiguous && seen_ns <= last_ns)
        {
            self.truth.rtt_ns.push((time_ns - last_ns) as u64);
        }
        self.acknowledged = below;
        self.highest = self.highest.max(below);
    }

    fn finish(mut self) -> Truth {
        let missed = (0..self.acknowledged)
            .filter(|segment| !self.seen.contains_key(segment))
            .count();
        self.truth.missed_bytes = missed as u64 * u64::from(PAYLOAD);
        self.truth
    }
}
