//! Conversations as frames: many at a time, each on ports of its own.

use super::{Conversation, PAYLOAD, Random, Seen, Sending};
use std::collections::HashMap;

/// Bytes of the frames' headers: Ethernet, IPv4 and TCP without options. The payload is cut off.
const HEADERS: usize = 14 + 20 + 20;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 9, 9];

/// A frame with its time and its length on the wire.
pub type Timed = (i64, u32, Vec<u8>);

/// Frames of many conversations.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    frames: Vec<Timed>,
    /// The first sequence number of each conversation.
    pub(super) starts: Vec<u32>,
    /// By conversation and identification, the segment, and why it was sent.
    pub(super) sent: HashMap<(usize, u16), (u32, Sending)>,
}

impl Frames {
    /// The port of every server.
    pub const SERVER_PORT: u16 = 80;
    /// The port of the client of conversation 0: that of the next has the next, and so on.
    const FIRST_PORT: u16 = 1024;
    /// The most conversations.
    pub const MOST: usize = (u16::MAX - Self::FIRST_PORT) as usize;

    /// Adds a conversation, which must be [`identified`](Conversation::identified), `later_ns` after the
    /// beginning.
    ///
    /// # Panics
    /// When there are [as many](Frames::MOST) already.
    pub fn add(&mut self, conversation: &Conversation, later_ns: i64, random: &mut Random) {
        let number = self.starts.len();
        assert!(number < Self::MOST, "a port for each client");
        self.starts.push(conversation.start);
        for packet in conversation.run(random).0 {
            let segment = &packet.segment;
            if packet.side == 0 && segment.identification != 0 {
                let bytes = segment.sequence.wrapping_sub(conversation.start);
                self.sent
                    .entry((number, segment.identification))
                    .or_insert((bytes / PAYLOAD, packet.sending));
            }
            let length = HEADERS as u32 + segment.payload_length;
            self.frames
                .push((packet.time_ns + later_ns, length, frame(number, &packet)));
        }
    }

    /// Takes the frames out, in the order of their times. What they are stays known.
    #[must_use]
    pub fn take(&mut self) -> Vec<Timed> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.sort_by_key(|(time_ns, ..)| *time_ns);
        frames
    }

    /// Segments that their senders have sent again, so that they passed the probe.
    #[must_use]
    pub fn sent_again(&self) -> usize {
        let again = |(_, sending): &&(u32, Sending)| {
            matches!(sending, Sending::Timer | Sending::Duplicates)
        };
        self.sent.values().filter(again).count()
    }

    /// The number of the conversation of a flow with these ports, in either order.
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

/// The frame of a packet of conversation `number`.
fn frame(number: usize, packet: &Seen) -> Vec<u8> {
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
