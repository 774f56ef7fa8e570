//! SYNs: where streams of TCP begin, and where another connection on the same ports does.

use super::Segment;
use super::reader::Reader;
use super::record::Cut;
use super::state::{Common, Messages, Protocol, TcpState, mark, side};
use wire::tcp::flag::ACK;

/// The most bytes behind its SYN that a stream can be where the SYN comes again, or late.
const AGAIN_MAX: u32 = 1 << 20;

impl TcpState {
    /// Notes the sequence number behind a SYN.
    pub(super) const fn begin(&mut self, direction: usize, start: u32) {
        self.sides[direction].begin(start);
        self.starts[direction] = digest(start);
    }

    /// Whether a SYN in front of `start` is of another connection than what was seen before.
    fn is_of_another(&self, direction: usize, start: u32) -> bool {
        let side = &self.sides[direction];
        if !side.is(side::KNOWN) {
            return false;
        }
        let is_near = side.expected.wrapping_sub(start) <= AGAIN_MAX;
        let is_same = !side.is(side::FROM_SYN) || self.starts[direction] == digest(start);
        !is_near || !is_same
    }
}

impl Reader {
    /// Takes in a SYN in front of `start`.
    pub(super) fn open_stream(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        start: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        if tcp.is_of_another(direction, start) {
            self.end_stream(common, tcp, direction);
            // It opens a connection, of whose other side nothing is known yet.
            if segment.tcp_flags & ACK == 0 {
                self.end_stream(common, tcp, 1 - direction);
                leave_connection(tcp);
            }
        }
        if !tcp.sides[direction].is(side::KNOWN) {
            tcp.begin(direction, start);
        }
    }

    /// Ends a stream that will not go on.
    fn end_stream(&mut self, common: &mut Common, tcp: &mut TcpState, direction: usize) {
        if tcp.sides[direction].assembly != 0 {
            common.cut.add(Cut::GAP);
            self.drop_assembly(common, tcp, direction);
        }
        tcp.sides[direction].forget_place();
    }

    /// Forgets a ClientHello of a connection before, which was not answered, where another comes.
    pub(super) fn forget_unanswered_hello(&mut self, tcp: &mut TcpState) {
        for text in std::mem::take(&mut tcp.tls).texts() {
            self.texts.release(*text);
        }
    }
}

/// What was known of a connection when another begins on its ports: messages go on to be counted, the
/// first handshake that was answered is told.
fn leave_connection(tcp: &mut TcpState) {
    let is_answered = tcp.tls.marks.has(mark::SERVER_HELLO);
    for side in &mut tcp.sides {
        side.leave_connection();
        if is_answered {
            side.set(side::CLOSED);
        }
    }
    tcp.protocol = match &mut tcp.messages {
        Messages::None => Protocol::Unknown,
        Messages::Http(http) => {
            http.bodiless = false;
            Protocol::Http
        }
        Messages::Dns(_) => Protocol::Dns,
    };
}

/// Eight bits of a sequence number, which differ between two that are not far apart too.
const fn digest(sequence: u32) -> u8 {
    (sequence.wrapping_mul(0x9e37_79b1) >> 24) as u8
}
