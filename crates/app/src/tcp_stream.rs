//! TCP streams: puts segments in order, as long as their flow needs inspection.
//!
//! A segment in order that has a complete message is parsed in place. Others go to a reassembly
//! buffer, which is released as soon as its bytes are parsed.

use super::L4Payload;
use super::parsers::Parsers;
use super::reassembly::TCP_RANGES_MAX;
use super::record::Incomplete;
use super::state::{
    Common, DnsState, HttpState, MessageState, Nanoseconds, StreamProtocol, TcpState, side_flag,
};
use crate::message::{http, tls};
use std::ops::ControlFlow;
use wire::ip_protocol;

/// Number of packets after which a gap is given up.
const GAP_PACKETS_MAX: u8 = 24;

/// The longest gap for which later segments are buffered, in bytes.
const GAP_BYTES_MAX: u32 = 1 << 20;

/// How far, in bytes, a segment can be behind another one of its connection (RFC 7323 section 2.3).
/// If it is further behind, it belongs to another connection on the same ports.
const BEHIND_MAX: u32 = 1 << 30;

/// What a parser did with the bytes it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It needs the same bytes again, followed by more.
    NeedMore,
    /// It consumed this number of bytes, which may include bytes that are yet to come.
    Consumed(usize),
    /// It needs nothing more of this direction.
    Done,
}

impl Parsers {
    /// Reads a segment with payload. `sequence` is the sequence number of its first payload byte.
    pub(super) fn read_segment(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let side = &mut tcp.sides[direction];
        if side.has(side_flag::DONE) {
            return;
        }
        if !side.has(side_flag::SYNCED) {
            side.set(side_flag::SYNCED);
            side.expected = sequence;
        }
        if side.buffer != 0 {
            self.buffer_segment(common, tcp, segment, sequence);
            return;
        }
        let length = segment.payload_length;
        let ahead = sequence.wrapping_sub(side.expected);
        if ahead.cast_signed() < 0 {
            let behind = ahead.wrapping_neg();
            if behind >= length {
                // If no SYN was seen, the first captured packet may not be the first of the stream.
                let is_earlier = !side.has(side_flag::FROM_SYN)
                    && tcp.protocol == StreamProtocol::Unknown
                    && starts_handshake_or_request(segment.payload);
                if is_earlier || behind > BEHIND_MAX {
                    side.expected = sequence;
                    side.skip = 0;
                    self.read_in_order(common, tcp, segment, segment.payload, length);
                }
                return;
            }
            let rest = segment.payload.get(behind as usize..).unwrap_or_default();
            self.read_in_order(common, tcp, segment, rest, length - behind);
        } else if ahead == 0 {
            self.read_in_order(common, tcp, segment, segment.payload, length);
        } else if ahead <= side.skip {
            side.skip -= ahead;
            side.expected = sequence;
            self.read_in_order(common, tcp, segment, segment.payload, length);
        } else if ahead > GAP_BYTES_MAX
            || segment.payload.len() < length as usize
            || (tcp.protocol == StreamProtocol::Http && starts_http_message(segment.payload))
        {
            // With HTTP, the start of a message is a safe point to continue from.
            self.resynchronise(common, tcp, segment, sequence);
        } else {
            // The missing bytes are needed, so this segment waits for them.
            let skip = std::mem::take(&mut side.skip);
            side.buffer = self.buffers.allocate(
                direction as u8,
                side.expected.wrapping_add(skip),
                TCP_RANGES_MAX,
            );
            if side.buffer == 0 {
                common.incomplete.add(Incomplete::REASSEMBLY);
                self.resynchronise(common, tcp, segment, sequence);
            } else {
                self.buffer_segment(common, tcp, segment, sequence);
            }
        }
    }

    /// Gives up the missing bytes before this segment and continues with it.
    fn resynchronise(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        self.flush_buffer(common, tcp, direction);
        let side = &mut tcp.sides[direction];
        if side.has(side_flag::DONE) {
            return;
        }
        if tcp.protocol != StreamProtocol::Unknown {
            common.incomplete.add(Incomplete::GAP);
        }
        side.expected = sequence;
        side.skip = 0;
        self.read_in_order(
            common,
            tcp,
            segment,
            segment.payload,
            segment.payload_length,
        );
    }

    /// Reads the next bytes of the stream. `length` is their number on the wire; fewer may be
    /// captured.
    fn read_in_order(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
        length: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let side = &mut tcp.sides[direction];
        let start = side.expected;
        side.expected = start.wrapping_add(length);
        let skipped = side.skip.min(length);
        side.skip -= skipped;
        let mut offset = skipped as usize;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            match self.parse(common, tcp, segment, rest) {
                Verdict::Consumed(used) => {
                    let used = used.max(1);
                    if used > rest.len() {
                        // The part of the segment that was not captured is skipped already.
                        let beyond = (offset + used).saturating_sub(length as usize);
                        tcp.sides[direction].skip = u32::try_from(beyond).unwrap_or(u32::MAX);
                    }
                    offset += used;
                }
                Verdict::Done => {
                    tcp.sides[direction].set(side_flag::DONE);
                    return;
                }
                Verdict::NeedMore if bytes.len() < length as usize => {
                    // The rest of the segment was not captured, so nothing can be appended.
                    common.incomplete.add(Incomplete::SNAPLEN);
                    self.read_truncated(common, tcp, segment, rest);
                    return;
                }
                Verdict::NeedMore => {
                    let base = start.wrapping_add(offset as u32);
                    let buffer = self.buffers.allocate(direction as u8, base, TCP_RANGES_MAX);
                    let inserted = self.buffers.insert(buffer, direction as u8, 0, rest);
                    if inserted.is_ok() {
                        tcp.sides[direction].buffer = buffer;
                        tcp.sides[direction].gap_packets = 0;
                    } else {
                        let mut buffer = buffer;
                        self.buffers.release(&mut buffer, direction as u8);
                        common.incomplete.add(Incomplete::REASSEMBLY);
                        self.read_truncated(common, tcp, segment, rest);
                    }
                    return;
                }
            }
        }
        if bytes.len() < length as usize && tcp.protocol == StreamProtocol::Unknown && offset == 0 {
            common.incomplete.add(Incomplete::SNAPLEN);
        }
    }

    /// Adds a segment to the reassembly buffer and parses the messages that it completes.
    fn buffer_segment(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let handle = tcp.sides[direction].buffer;
        let Some(stream) = self.buffers.get_mut(handle, direction as u8) else {
            return;
        };
        let before = stream.contiguous().len();
        let offset = sequence.wrapping_sub(stream.base);
        let is_complete = segment.payload.len() == segment.payload_length as usize;
        let (offset, bytes) = if offset.cast_signed() < 0 {
            let behind = offset.wrapping_neg() as usize;
            (0, segment.payload.get(behind..).unwrap_or_default())
        } else {
            (offset, segment.payload)
        };
        let inserted = self.buffers.insert(handle, direction as u8, offset, bytes);
        let stream = self.buffers.get_mut(handle, direction as u8);
        let has_grown = stream.is_some_and(|stream| stream.contiguous().len() > before);
        if has_grown {
            tcp.sides[direction].gap_packets = 0;
            if self.read_buffered(common, tcp, segment).is_break() {
                return;
            }
        }
        let side = &mut tcp.sides[direction];
        side.gap_packets = side.gap_packets.saturating_add(1);
        if inserted.is_err() {
            common.incomplete.add(Incomplete::REASSEMBLY);
            self.resynchronise(common, tcp, segment, sequence);
        } else if !is_complete || side.gap_packets > GAP_PACKETS_MAX {
            common.incomplete.add(match is_complete {
                true => Incomplete::GAP,
                false => Incomplete::SNAPLEN,
            });
            self.flush_buffer(common, tcp, direction);
            tcp.sides[direction].expected = sequence.wrapping_add(segment.payload_length);
        }
    }

    /// Parses the buffered bytes before the first gap. Returns `Break` if the stream does not need
    /// the buffer any more.
    fn read_buffered(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
    ) -> ControlFlow<()> {
        let direction = usize::from(segment.direction & 1);
        let handle = tcp.sides[direction].buffer;
        loop {
            let Some(stream) = self.buffers.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            let length = stream.contiguous().len();
            if length == 0 {
                return ControlFlow::Continue(());
            }
            let bytes = stream.take_bytes();
            let verdict = self.parse(common, tcp, segment, &bytes[..length]);
            let Some(stream) = self.buffers.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            stream.put_bytes(bytes);
            let side = &mut tcp.sides[direction];
            match verdict {
                Verdict::NeedMore => return ControlFlow::Continue(()),
                Verdict::Done => {
                    side.set(side_flag::DONE);
                    self.buffers.release(&mut side.buffer, direction as u8);
                    return ControlFlow::Break(());
                }
                Verdict::Consumed(used) => {
                    let used = u32::try_from(used.max(1)).unwrap_or(u32::MAX);
                    let length = length as u32;
                    if used >= length && stream.has_only(length) {
                        side.expected = stream.base.wrapping_add(length);
                        side.skip = used - length;
                        self.buffers.release(&mut side.buffer, direction as u8);
                        return ControlFlow::Break(());
                    }
                    stream.advance(used);
                }
            }
        }
    }

    /// Parses the incomplete message in a buffer and releases the buffer. The time of the message
    /// counts as unknown, because it did not arrive with the current packet.
    pub(super) fn flush_buffer(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        direction: usize,
    ) {
        let handle = tcp.sides[direction].buffer;
        if let Some(stream) = self.buffers.get_mut(handle, direction as u8) {
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            if length > 0 {
                let segment = empty_segment(direction as u8);
                self.read_truncated(common, tcp, &segment, &bytes[..length]);
            }
        }
        self.buffers
            .release(&mut tcp.sides[direction].buffer, direction as u8);
    }

    /// Whether the buffer of a direction has a gap.
    pub(super) fn has_gap(&mut self, tcp: &TcpState, direction: usize) -> bool {
        let handle = tcp.sides[direction].buffer;
        let stream = self.buffers.get_mut(handle, direction as u8);
        stream.is_some_and(|stream| !stream.has_only(stream.contiguous().len() as u32))
    }

    /// Passes the next bytes of a stream to the parser of its protocol.
    fn parse(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) -> Verdict {
        match tcp.protocol {
            StreamProtocol::Unknown => self.detect_protocol(common, tcp, segment, bytes),
            StreamProtocol::Tls => self.read_tls(common, tcp, segment, bytes),
            StreamProtocol::Http => self.read_http(common, tcp, segment, bytes),
            StreamProtocol::Dns => match &mut tcp.messages {
                MessageState::Dns(dns) => {
                    self.read_dns_stream(&mut common.incomplete, dns, segment, bytes)
                }
                _ => Verdict::Done,
            },
        }
    }

    /// Detects the protocol of a stream by its first bytes, or by those after another protocol
    /// (STARTTLS).
    fn detect_protocol(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let direction = usize::from(segment.direction & 1);
        match tls::detect(bytes) {
            tls::Detected::Hello(_) => {
                tcp.protocol = StreamProtocol::Tls;
                self.skip_earlier_protocol(tcp, 1 - direction);
                return self.read_tls(common, tcp, segment, bytes);
            }
            tls::Detected::NeedMore => return Verdict::NeedMore,
            tls::Detected::No => {}
        }
        // A request with an unknown method is detected by its first line, but only at the start of a
        // stream.
        let is_start = !tcp.sides[direction].has(side_flag::PROBED);
        let detected = match is_start {
            true => http::detect_by_line(bytes),
            false => http::detect(bytes),
        };
        match detected {
            http::Detected::Request | http::Detected::Response => {
                tcp.messages = MessageState::Http(HttpState::default());
                tcp.protocol = StreamProtocol::Http;
                return self.read_http(common, tcp, segment, bytes);
            }
            http::Detected::NeedMore if is_start => return Verdict::NeedMore,
            http::Detected::NeedMore | http::Detected::No => {}
        }
        if has_dns_port([segment.source_port, segment.destination_port]) {
            match super::dns::detect_stream(bytes) {
                Some(true) => {
                    tcp.messages = MessageState::Dns(DnsState::default());
                    tcp.protocol = StreamProtocol::Dns;
                    return self.parse(common, tcp, segment, bytes);
                }
                None => return Verdict::NeedMore,
                Some(false) => {}
            }
        }
        if is_start {
            tcp.sides[direction].set(side_flag::PROBED);
            if common.class == 0
                && let Some(class) = self.applications.by_bytes(bytes)
            {
                common.class = class + 1;
            }
        }
        Verdict::Consumed(bytes.len())
    }

    /// Skips the bytes in the buffer of the other direction when TLS starts, if they belong to the
    /// protocol before TLS.
    fn skip_earlier_protocol(&mut self, tcp: &mut TcpState, direction: usize) {
        let side = &mut tcp.sides[direction];
        let Some(stream) = self.buffers.get_mut(side.buffer, direction as u8) else {
            return;
        };
        if tls::detect(stream.contiguous()) != tls::Detected::No {
            return;
        }
        let length = stream.contiguous().len() as u32;
        if stream.has_only(length) {
            side.expected = stream.base.wrapping_add(length);
            self.buffers.release(&mut side.buffer, direction as u8);
        } else {
            stream.advance(length);
        }
    }

    /// Parses as much as possible of a message that remains incomplete.
    pub(super) fn read_truncated(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) {
        let incomplete = &mut common.incomplete;
        match (tcp.protocol, &mut tcp.messages) {
            (StreamProtocol::Tls, _) => {
                self.read_truncated_hello(incomplete, &mut tcp.tls, segment, bytes);
            }
            (StreamProtocol::Http, MessageState::Http(http)) => {
                self.read_truncated_head(incomplete, http, segment, bytes);
            }
            _ => {}
        }
    }
}

/// A segment without payload at an unknown time.
pub(super) fn empty_segment(direction: u8) -> L4Payload<'static> {
    L4Payload {
        time_ns: Nanoseconds::UNKNOWN,
        direction,
        protocol: ip_protocol::TCP,
        tcp_flags: 0,
        sequence: 0,
        source_port: 0,
        destination_port: 0,
        payload: &[],
        payload_length: 0,
    }
}

/// Whether a message of a known protocol may start with this payload, which belongs to a stream of no
/// known protocol. It looks at as few bytes as possible, because reading the payload of each packet
/// would load its cache lines.
#[inline]
pub(super) fn may_start_message(payload: &[u8], ports: [u16; 2]) -> bool {
    let Some(&first) = payload.first() else {
        return true;
    };
    tls::may_start(first) || http::may_start_known(payload) || has_dns_port(ports)
}

/// Whether one of two ports is the DNS port.
const fn has_dns_port([source, destination]: [u16; 2]) -> bool {
    source == super::dns::PORT || destination == super::dns::PORT
}

/// Whether bytes start an HTTP message.
fn starts_http_message(bytes: &[u8]) -> bool {
    matches!(
        http::detect_by_line(bytes),
        http::Detected::Request | http::Detected::Response
    )
}

/// Whether bytes start a TLS handshake or an HTTP request.
fn starts_handshake_or_request(bytes: &[u8]) -> bool {
    matches!(tls::detect(bytes), tls::Detected::Hello(_))
        || matches!(http::detect_by_line(bytes), http::Detected::Request)
}
