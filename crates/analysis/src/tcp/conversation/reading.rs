//! A plain reading of the frames of conversations that reached a probe, whatever became of them on the
//! way: what is true of them there. Every packet is remembered, and nothing is guessed.

use super::{Frames, PAYLOAD, Sending};
use crate::tcp::Class;
use std::collections::{BTreeMap, HashMap, HashSet};
use wire::tcp::flag::SYN;

/// What is true of one conversation at the probe: all but the packets of its client's data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    /// Packets of the client, and of the server.
    pub packets: [u64; 2],
    /// Bytes that came, each once.
    pub unique_bytes: u64,
    /// Segments whose bytes had come before, but for copies.
    pub retransmitted: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Segments that came first behind others of higher sequence numbers.
    pub out_of_order: u64,
    /// Packets that came twice.
    pub copies: u64,
    /// Bytes that were acknowledged and never came.
    pub missed_bytes: u64,
    /// Round trips from the probe to the server and back, by Karn's rule.
    pub rtt_ns: Vec<u64>,
}

/// A packet at the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtProbe {
    /// The number of its conversation.
    pub conversation: usize,
    /// 0: the client's.
    pub side: usize,
    /// Whether it has data, or is a keep-alive.
    pub is_data: bool,
    /// Its class, if it is out of sequence.
    pub class: Option<Class>,
}

/// Reads frames in the order in which they reach the probe.
#[derive(Debug)]
pub struct Reading<'a> {
    frames: &'a Frames,
    conversations: BTreeMap<usize, Conversation>,
}

impl<'a> Reading<'a> {
    /// Of these frames.
    #[must_use]
    pub const fn new(frames: &'a Frames) -> Self {
        Self {
            frames,
            conversations: BTreeMap::new(),
        }
    }

    /// Reads a frame of them, and says what it is.
    pub fn read(&mut self, time_ns: i64, frame: &[u8]) -> AtProbe {
        let packet = Packet::read(time_ns, frame);
        let number = packet.conversation;
        let conversation = self.conversations.entry(number).or_default();
        conversation.truth.packets[packet.side] += 1;
        let start = self.frames.starts.get(number).copied().unwrap_or_default();
        let sent = (packet.side == 0)
            .then(|| self.frames.sent.get(&(number, packet.identification)))
            .flatten();
        let class =
            sent.and_then(|&(segment, sending)| conversation.data(segment, sending, &packet));
        if packet.side == 1 && packet.tcp_flags & SYN == 0 {
            let below = packet.acknowledgement.wrapping_sub(start) / PAYLOAD;
            conversation.acknowledgement(below, time_ns);
        }
        AtProbe {
            conversation: number,
            side: packet.side,
            is_data: sent.is_some(),
            class,
        }
    }

    /// What is true of each conversation, by its number.
    #[must_use]
    pub fn end(self) -> BTreeMap<usize, Truth> {
        let ended = self.conversations.into_iter();
        ended
            .map(|(number, conversation)| (number, conversation.end()))
            .collect()
    }
}

/// A packet as it is read from a frame.
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

/// What is known of one conversation while it is read.
#[derive(Debug, Default)]
struct Conversation {
    truth: Truth,
    identifications: HashSet<u16>,
    /// Of each segment: when it came last, and whether its acknowledgement may answer more than
    /// one packet.
    came: HashMap<u32, (i64, bool)>,
    /// Behind the highest segment that came or was acknowledged; segments acknowledged.
    highest: u32,
    acknowledged: u32,
}

impl Conversation {
    fn data(&mut self, segment: u32, sending: Sending, packet: &Packet) -> Option<Class> {
        let truth = &mut self.truth;
        // A sender gives no two packets one identification, so the network made this one.
        if !self.identifications.insert(packet.identification) {
            truth.copies += 1;
            return Some(Class::Duplicate);
        }
        let came = self.came.contains_key(&segment);
        if sending == Sending::KeepAlive || (sending == Sending::WindowProbe && came) {
            return Some(Class::FlowControl);
        }
        let below = segment < self.highest;
        let again = if came {
            truth.retransmitted += 1;
            truth.retransmitted_bytes += u64::from(packet.payload);
            true
        } else {
            truth.unique_bytes += u64::from(packet.payload);
            truth.out_of_order += u64::from(below);
            below && sending != Sending::First
        };
        self.came.insert(segment, (packet.time_ns, again));
        self.highest = self.highest.max(segment + 1);
        if !came && !below {
            return None;
        }
        Some(match (sending, segment < self.acknowledged) {
            (Sending::Timer, false) => Class::Timeout,
            (Sending::Timer, true) => Class::UnnecessaryTimeout,
            (Sending::Duplicates, false) => Class::FastRetransmit,
            (Sending::Duplicates, true) => Class::UnnecessaryFastRetransmit,
            (Sending::First, _) => Class::Reordering,
            (Sending::KeepAlive | Sending::WindowProbe, _) => Class::FlowControl,
        })
    }

    fn acknowledgement(&mut self, below: u32, time_ns: i64) {
        if below <= self.acknowledged {
            return;
        }
        let newly: Vec<(i64, bool)> = (self.acknowledged..below)
            .filter_map(|segment| self.came.get(&segment).copied())
            .collect();
        if let Some(&(last_ns, _)) = self.came.get(&(below - 1))
            && newly
                .iter()
                .all(|&(came_ns, again)| !again && came_ns <= last_ns)
        {
            self.truth.rtt_ns.push((time_ns - last_ns) as u64);
        }
        self.acknowledged = below;
        self.highest = self.highest.max(below);
    }

    fn end(mut self) -> Truth {
        let missed = (0..self.acknowledged)
            .filter(|segment| !self.came.contains_key(segment))
            .count();
        self.truth.missed_bytes = missed as u64 * u64::from(PAYLOAD);
        self.truth
    }
}
