//! SYNs: they start the streams of a TCP flow, or a new connection on the same ports.

use super::state::{Reading, TcpState, side_flag};
use crate::parser::Context;
use wire::tcp::flag::ACK;

/// The largest distance, in bytes, between a SYN and the stream position at which the SYN still
/// counts as a late or retransmitted one of the same connection.
const SYN_DISTANCE_MAX: u32 = 1 << 20;

impl TcpState {
    /// Starts the stream of a direction at `start`, the sequence number after its SYN.
    pub(crate) const fn start_stream(&mut self, direction: usize, start: u32) {
        self.sides[direction].start_after_syn(start);
        self.start_digests[direction] = digest(start);
    }

    /// Whether the SYN before `start` starts a new connection on the ports of the flow.
    fn starts_new_connection(&self, direction: usize, start: u32) -> bool {
        let side = &self.sides[direction];
        if !side.has(side_flag::SYNCED) {
            return false;
        }
        let is_near = side.expected.wrapping_sub(start) <= SYN_DISTANCE_MAX;
        let is_same =
            !side.has(side_flag::FROM_SYN) || self.start_digests[direction] == digest(start);
        !is_near || !is_same
    }

    /// Reads a SYN; `start` is the sequence number after it.
    pub(super) fn read_syn(&mut self, cx: &mut Context<'_>, start: u32) {
        let direction = cx.direction();
        if self.starts_new_connection(direction, start) {
            self.end_stream(cx, direction);
            // A SYN without ACK opens the connection, so the other stream has not started yet.
            if cx.packet.tcp_flags & ACK == 0 {
                self.end_stream(cx, 1 - direction);
                start_new_connection(self);
            }
        }
        if !self.sides[direction].has(side_flag::SYNCED) {
            self.start_stream(direction, start);
        }
    }

    /// Ends a stream that has no more segments.
    fn end_stream(&mut self, cx: &mut Context<'_>, direction: usize) {
        self.finish_stream(cx, direction);
        self.sides[direction].reset_position();
    }
}

/// Prepares the flow for a new connection on its ports. Messages of all connections are counted, but
/// the record has one handshake: the first that was answered.
fn start_new_connection(tcp: &mut TcpState) {
    let is_answered = tcp.tls.is_answered();
    for side in &mut tcp.sides {
        side.start_new_connection();
        if is_answered {
            side.set(side_flag::DONE);
        }
    }
    tcp.messages.new_connection();
    tcp.reading = match tcp.messages.is_unknown() {
        true => Reading::Unknown,
        false => Reading::Messages,
    };
}

/// An 8-bit digest of a sequence number that differs also for nearby numbers.
const fn digest(sequence: u32) -> u8 {
    (sequence.wrapping_mul(0x9e37_79b1) >> 24) as u8
}
