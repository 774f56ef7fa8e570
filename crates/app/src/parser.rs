//! The interface between the inspection of flows and the parsers of protocols.

use crate::base_state::BaseState;
use crate::payload::L4Payload;
use crate::progress::Progress;
use crate::record::AppRecord;
use crate::services::Services;
use crate::text_pool::TextId;

/// Number of datagrams of a UDP flow that are probed for a known protocol.
pub(crate) const UDP_PROBE_PACKETS: u8 = 8;

/// Number of packets with payload of a TCP flow that are probed for a known protocol. It is large
/// because TLS may follow another protocol (STARTTLS).
pub(crate) const TCP_PROBE_PACKETS: u8 = 40;

/// Whether a payload begins a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// There are too few bytes to decide (TCP).
    NeedMore,
    /// It does not, and no other protocol must be tried, because the ports belong to this one.
    NoOther,
}

/// What a parser did with the bytes it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// TCP: it needs the same bytes again, followed by more. It gets the [`Progress`] that it leaves.
    NeedMore,
    /// It consumed this number of bytes, which with TCP may include bytes that are yet to come.
    Consumed(usize),
    /// It needs nothing more of this direction (TCP) or of the flow (UDP).
    Done,
    /// TCP: the bytes begin TLS, which replaces this protocol from here on.
    StartTls,
    /// UDP: the flow is of another protocol. The datagram is probed again.
    Reprobe,
    /// UDP: the flow is of another protocol. The next datagram is probed.
    Forget,
}

/// Everything a parser needs to read a packet.
pub(crate) struct Context<'a> {
    /// Pools, caches and buffers that all flows share.
    pub(crate) services: &'a mut Services,
    /// The part of the flow's state that does not depend on the protocol.
    pub(crate) common: &'a mut BaseState,
    /// The current packet: its time, direction and ports. Its payload is not always the bytes to
    /// read, which may come from a reassembly buffer.
    pub(crate) packet: &'a L4Payload<'a>,
    /// How far the parser is in the message (TCP).
    pub(crate) progress: Progress,
}

impl<'c> Context<'c> {
    pub(crate) fn new(
        services: &'c mut Services,
        common: &'c mut BaseState,
        packet: &'c L4Payload<'c>,
    ) -> Self {
        Self {
            services,
            common,
            packet,
            progress: Progress::at(packet.time_ns),
        }
    }

    /// The progress in a message that starts in the current packet.
    pub(crate) const fn progress_at_packet(&self) -> Progress {
        Progress::at(self.packet.time_ns)
    }

    /// Interns a text for the flow, and records if it was truncated.
    pub(crate) fn intern(&mut self, text: &[u8]) -> TextId {
        self.services.intern(&mut self.common.incomplete, text)
    }

    /// The same context with another packet.
    pub(crate) fn with_packet<'a>(&'a mut self, packet: &'a L4Payload<'a>) -> Context<'a> {
        Context::new(self.services, self.common, packet)
    }

    /// Sets the application class by the first bytes of a payload, if it is not set yet.
    pub(crate) fn classify_by_bytes(&mut self, bytes: &[u8]) {
        if self.common.class().is_none()
            && let Some(class) = self.services.applications.by_bytes(bytes)
        {
            self.common.set_class(class);
        }
    }

    /// Direction of the packet: 0 from the initiator, 1 from the responder.
    pub(crate) fn direction(&self) -> usize {
        usize::from(self.packet.direction & 1)
    }
}

/// A parser of a protocol. It is the state of one flow. The registry in [`crate::protocols`] calls
/// it without dynamic dispatch.
///
/// With TCP, a parser reads a stream in order, direction by direction: it gets the bytes after those
/// that it consumed, and a gap shows only as a jump to a later position. With UDP, it gets each
/// datagram.
pub(crate) trait Parser: Sized {
    /// Whether `bytes`, the payload of `packet` or the next bytes of its stream, begin this protocol.
    /// `is_start` says whether they are the first ones in their direction (TCP).
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], is_start: bool) -> Probe;

    /// Returns the state of a new flow of this protocol.
    fn start(services: &mut Services) -> Self;

    /// Reads the next bytes of a stream, or a datagram.
    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict;

    /// Reads what it can of a message that remains incomplete: the buffer with its first part was
    /// evicted, its end was not captured, or bytes in it are missing. A parser that has a buffer of
    /// its own (UDP) must forget it, because it is gone.
    fn evict(&mut self, _cx: &mut Context<'_>, _bytes: &[u8]) {}

    /// TCP: whether a stream of which no start was seen must start with these bytes, although they
    /// come before the bytes seen so far.
    fn is_first(_bytes: &[u8]) -> bool {
        false
    }

    /// TCP: the same as [`Parser::probe`], if the first `seen` bytes were probed before and more were
    /// needed.
    fn probe_again(packet: &L4Payload<'_>, bytes: &[u8], is_start: bool, _seen: usize) -> Probe {
        Self::probe(packet, bytes, is_start)
    }

    /// TCP: whether the parser looks for a message at the start of each segment of this direction
    /// anyway, so that it need not wait for missing bytes.
    fn can_skip_gap(&self, _direction: usize) -> bool {
        false
    }

    /// TCP: whether a parser that lacks bytes before these can safely continue with them.
    fn can_continue_at(_bytes: &[u8]) -> bool {
        false
    }

    /// TCP: the length of the message that `bytes`, the next ones of a stream, begin with, if it says so
    /// itself. It is how the stream finds the next message if this one does not fit into a buffer.
    fn message_length(&self, _direction: usize, _bytes: &[u8]) -> Option<u32> {
        None
    }

    /// TCP: bytes of a direction are missing, and what follows may be any part of a message.
    fn lose_position(&mut self, _direction: usize) {}

    /// TCP: a new connection starts on the ports of the flow.
    fn new_connection(&mut self) {}

    /// UDP: releases its buffers.
    fn release(&mut self, _services: &mut Services) {}

    /// Whether the flow's next record needs what the parser knows if the active timeout splits the flow:
    /// part of a handshake that is buffered (UDP), or the position in the messages (TCP).
    fn is_partial(&self) -> bool {
        false
    }

    /// Writes its part of a record of a flow that continues, and keeps what [`Parser::is_partial`] is
    /// about.
    fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.finish(cx, record);
    }

    /// Writes its part of the record, and releases its texts and buffers.
    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord);
}
