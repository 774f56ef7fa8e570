//! Conversations as frames. Each of several concurrent conversations has its own client port.

use crate::conversation::Conversation;
use crate::packet::{ObservedPacket, PAYLOAD, SendReason};
use crate::random::Random;
use std::collections::HashMap;

/// Bytes of a frame's headers: Ethernet, IPv4 and TCP without options. The payload is cut off.
const HEADERS: usize = 14 + 20 + 20;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 9, 9];

/// Time in nanoseconds, length on the wire, and captured bytes of a frame.
pub type TimedFrame = (i64, u32, Vec<u8>);

/// The frames of many conversations.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    frames: Vec<TimedFrame>,
    /// The first sequence number of each conversation.
    pub(crate) starts: Vec<u32>,
    /// Number of the segment and reason for sending it, by conversation and IPv4 identification.
    pub(crate) sent: HashMap<(usize, u16), (u32, SendReason)>,
}

impl Frames {
    /// Port of all servers.
    pub const SERVER_PORT: u16 = 80;
    /// Client port of conversation 0. Conversation N has this plus N.
    const FIRST_PORT: u16 = 1024;
    /// Maximum number of conversations.
    pub const MAX: usize = (u16::MAX - Self::FIRST_PORT) as usize;

    /// Adds a conversation that starts after `delay_ns`. Its packets must
    /// [have identifications](Conversation::has_identifications).
    ///
    /// # Panics
    /// If there are [`Frames::MAX`] conversations already.
    pub fn add(&mut self, conversation: &Conversation, delay_ns: i64, random: &mut Random) {
        let number = self.starts.len();
        assert!(number < Self::MAX, "each conversation needs a client port");
        self.starts.push(conversation.start);
        for packet in conversation.run(random).0 {
            let segment = &packet.segment;
            if packet.side == 0 && segment.identification != 0 {
                let bytes = segment.sequence.wrapping_sub(conversation.start);
                self.sent
                    .entry((number, segment.identification))
                    .or_insert((bytes / PAYLOAD, packet.reason));
            }
            let length = HEADERS as u32 + segment.payload_length;
            self.frames
                .push((packet.time_ns + delay_ns, length, frame(number, &packet)));
        }
    }

    /// Removes and returns the frames, in the order of their times. A
    /// [`ReferenceReader`](super::ReferenceReader) can still identify them.
    #[must_use]
    pub fn take(&mut self) -> Vec<TimedFrame> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.sort_by_key(|(time_ns, ..)| *time_ns);
        frames
    }

    /// Returns the number of retransmitted segments that passed the probe.
    #[must_use]
    pub fn retransmissions(&self) -> usize {
        let is_retransmission = |(_, reason): &&(u32, SendReason)| {
            matches!(reason, SendReason::Timer | SendReason::DuplicateAcks)
        };
        self.sent.values().filter(is_retransmission).count()
    }

    /// Returns the number of the conversation with these ports, in either order.
    #[must_use]
    pub const fn conversation(ports: [u16; 2]) -> usize {
        let client = if ports[0] == Self::SERVER_PORT {
            ports[1]
        } else {
            ports[0]
        };
        client.wrapping_sub(Self::FIRST_PORT) as usize
    }
}

/// Returns the frame of a packet of conversation `number`.
fn frame(number: usize, packet: &ObservedPacket) -> Vec<u8> {
    let segment = &packet.segment;
    let mut frame = vec![0; HEADERS];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(40 + segment.payload_length as u16).to_be_bytes());
    frame[18..20].copy_from_slice(&segment.identification.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    let client_port = Frames::FIRST_PORT + number as u16;
    let ends = [(CLIENT, client_port), (SERVER, Frames::SERVER_PORT)];
    let (from, to) = (ends[packet.side], ends[packet.side ^ 1]);
    frame[26..30].copy_from_slice(&from.0);
    frame[30..34].copy_from_slice(&to.0);
    frame[34..36].copy_from_slice(&from.1.to_be_bytes());
    frame[36..38].copy_from_slice(&to.1.to_be_bytes());
    frame[38..42].copy_from_slice(&segment.sequence.to_be_bytes());
    frame[42..46].copy_from_slice(&segment.acknowledgement.to_be_bytes());
    frame[46..48].copy_from_slice(&[0x50, segment.tcp_flags]);
    frame[48..50].copy_from_slice(&segment.window.to_be_bytes());
    frame
}
