//! Packets of a conversation.

use analysis::tcp::Class;
use wire::{PacketInfo, ip_protocol};

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

/// Returns the headers of a packet.
pub(crate) fn headers(sequence: u32, acknowledgement: u32, tcp_flags: u8) -> PacketInfo {
    PacketInfo {
        sequence,
        acknowledgement,
        tcp_flags,
        window: 60_000,
        transport: ip_protocol::TCP,
        ..PacketInfo::default()
    }
}
