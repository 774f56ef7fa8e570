//! The state of a TCP flow: the position in its streams, and the protocols in them.

use crate::parser::TCP_PROBE_PACKETS;
use crate::protocols::StreamState;
use crate::protocols::tls::TlsState;
use wire::tcp::flag;

/// Flags of a [`Side`].
pub(crate) mod side_flag {
    /// `expected` is known.
    pub(crate) const SYNCED: u8 = 1;
    /// `expected` is known from a SYN.
    pub(crate) const FROM_SYN: u8 = 2;
    /// No more segments need to be read.
    pub(crate) const DONE: u8 = 4;
    /// The first bytes were compared with the table of applications.
    pub(crate) const PROBED: u8 = 8;
    /// A new connection has started on the same ports, and no TLS of it was read yet.
    pub(crate) const NEW_CONNECTION: u8 = 16;
    /// The stream has reached TLS after the protocol of [`TcpState::messages`](super::TcpState).
    pub(crate) const TLS: u8 = 32;
    /// The stream ends, at `expected` if it has a buffer.
    pub(crate) const ENDED: u8 = 64;
}

/// One direction of a TCP stream.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Sequence number of the next byte. With a buffer, the buffer has it.
    pub(crate) expected: u32,
    /// Number of bytes from there on that need no parsing.
    pub(crate) skip: u32,
    /// Handle of the reassembly buffer, 0 if there is none.
    pub(crate) buffer: u16,
    /// Number of packets since a gap opened.
    pub(crate) gap_packets: u8,
    /// Flags of [`side_flag`].
    flags: u8,
}

impl Side {
    #[inline]
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    /// Forgets the position in the stream and the buffer. The stream continues with the next segment
    /// that arrives.
    pub(crate) const fn reset_position(&mut self) {
        self.buffer = 0;
        self.skip = 0;
        self.gap_packets = 0;
        self.flags &= !(side_flag::SYNCED | side_flag::FROM_SYN | side_flag::ENDED);
    }

    /// Notes that the stream ends at `end`. Only a buffer waits for bytes before it.
    pub(crate) const fn end_at(&mut self, end: u32) {
        if self.buffer != 0 {
            self.expected = end;
            self.flags |= side_flag::ENDED;
        }
    }

    /// Marks that a new connection starts.
    pub(crate) const fn start_new_connection(&mut self) {
        self.flags = self.flags & !(side_flag::PROBED | side_flag::DONE | side_flag::TLS)
            | side_flag::NEW_CONNECTION;
    }

    /// Returns whether a new connection has started since the last call.
    pub(crate) const fn take_new_connection(&mut self) -> bool {
        let is_another = self.has(side_flag::NEW_CONNECTION);
        self.flags &= !side_flag::NEW_CONNECTION;
        is_another
    }

    /// Sets the sequence number after a SYN.
    pub(crate) const fn start_after_syn(&mut self, expected: u32) {
        self.expected = expected;
        self.flags |= side_flag::SYNCED | side_flag::FROM_SYN;
    }
}

/// The protocol of the next bytes of a TCP flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Not known yet.
    #[default]
    Unknown,
    /// TLS, from the start or after another protocol.
    Tls,
    /// That of [`TcpState::messages`].
    Messages,
}

/// A TCP flow: its streams, TLS, and the other protocol if it has two (HTTP before TLS, through a
/// proxy).
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct TcpState {
    pub(crate) sides: [Side; 2],
    /// Protocol of the next bytes. It is next to `sides` because each packet reads both.
    pub(crate) reading: Reading,
    /// A digest of the sequence number after the SYN of each side.
    pub(crate) start_digests: [u8; 2],
    pub(crate) tls: TlsState,
    pub(crate) messages: StreamState,
}

/// The header fields of a TCP segment that the fast path needs.
#[derive(Clone, Copy)]
pub(crate) struct L4Header {
    pub(crate) direction: u8,
    pub(crate) tcp_flags: u8,
    pub(crate) sequence: u32,
    pub(crate) payload_length: u32,
}

impl TcpState {
    /// Whether part of a TLS handshake is in a buffer, a ClientHello waits for its ServerHello, or messages
    /// are followed.
    pub(crate) fn is_partial(&self) -> bool {
        let is_waiting = self.reading == Reading::Tls && self.tls.is_unanswered();
        let is_buffered = self.sides.iter().any(|side| side.buffer != 0);
        is_waiting
            || match self.reading {
                Reading::Messages => self.messages.is_partial(),
                Reading::Unknown | Reading::Tls => is_buffered,
            }
    }

    /// Whether part of a message is in a buffer. Packets without payload may then say that missing bytes
    /// are lost, or that the stream ends.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sides.iter().any(|side| side.buffer != 0)
    }

    /// Counts a segment with payload of which nothing needs to be parsed; `packets` came before it.
    /// Returns false if the segment may need parsing. `may_start` returns whether a message may start
    /// with its payload.
    #[inline]
    pub(crate) fn try_skip(
        &mut self,
        packets: &mut u8,
        header: L4Header,
        may_start: impl FnOnce() -> bool,
    ) -> bool {
        if header.tcp_flags & flag::SYN != 0 {
            return false;
        }
        let side = &mut self.sides[usize::from(header.direction & 1)];
        if !side.has(side_flag::DONE) {
            let is_next =
                side.has(side_flag::SYNCED) && side.buffer == 0 && side.expected == header.sequence;
            if !is_next {
                return false;
            }
            if self.reading == Reading::Unknown {
                let last_try = *packets >= TCP_PROBE_PACKETS - 1;
                if last_try || !side.has(side_flag::PROBED) || may_start() {
                    return false;
                }
            } else if side.skip < header.payload_length {
                return false;
            } else {
                side.skip -= header.payload_length;
            }
            side.expected = side.expected.wrapping_add(header.payload_length);
        }
        *packets = packets.saturating_add(1);
        true
    }
}
