//! TCP streams: puts segments in order, as long as their flow needs inspection.
//!
//! A segment in order that has a complete message is parsed in place. Others go to a reassembly
//! buffer, which is released as soon as its bytes are parsed.

use super::state::{Reading, TcpState, side_flag};
use crate::message::{http, tls};
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::protocols::tls::TlsState;
use crate::protocols::{Detected, StreamState, dns};
use crate::reassembly::TCP_RANGES_MAX;
use crate::record::Incomplete;
use std::ops::ControlFlow;
use wire::ip_protocol;

/// Number of packets after which a gap is given up.
const GAP_PACKETS_MAX: u8 = 24;

/// The longest gap for which later segments are buffered, in bytes.
const GAP_BYTES_MAX: u32 = 1 << 20;

/// How far, in bytes, a segment can be behind another one of its connection (RFC 7323 section 2.3).
/// If it is further behind, it belongs to another connection on the same ports.
const BEHIND_MAX: u32 = 1 << 30;

impl TcpState {
    /// Reads a segment with payload. `sequence` is the sequence number of its first payload byte.
    pub(super) fn read_segment(&mut self, cx: &mut Context<'_>, sequence: u32) {
        let direction = cx.direction();
        let side = &mut self.sides[direction];
        if side.has(side_flag::DONE) {
            return;
        }
        if !side.has(side_flag::SYNCED) {
            side.set(side_flag::SYNCED);
            side.expected = sequence;
        }
        if side.buffer != 0 {
            self.buffer_segment(cx, sequence);
            return;
        }
        let length = cx.packet.payload_length;
        let ahead = sequence.wrapping_sub(side.expected);
        if ahead.cast_signed() < 0 {
            let behind = ahead.wrapping_neg();
            if behind >= length {
                // If no SYN was seen, the first captured packet may not be the first of the stream.
                let is_earlier = !side.has(side_flag::FROM_SYN)
                    && self.reading == Reading::Unknown
                    && (TlsState::is_first(cx.packet.payload)
                        || StreamState::is_first(cx.packet.payload));
                if is_earlier || behind > BEHIND_MAX {
                    side.expected = sequence;
                    side.skip = 0;
                    self.read_in_order(cx, cx.packet.payload, length);
                }
                return;
            }
            let rest = cx.packet.payload.get(behind as usize..).unwrap_or_default();
            self.read_in_order(cx, rest, length - behind);
        } else if ahead == 0 {
            self.read_in_order(cx, cx.packet.payload, length);
        } else if ahead <= side.skip {
            side.skip -= ahead;
            side.expected = sequence;
            self.read_in_order(cx, cx.packet.payload, length);
        } else if ahead > GAP_BYTES_MAX
            || cx.packet.payload.len() < length as usize
            || self.can_continue_at(cx.packet)
        {
            self.resynchronise(cx, sequence);
        } else {
            // The missing bytes are needed, so this segment waits for them.
            let side = &mut self.sides[direction];
            let skip = std::mem::take(&mut side.skip);
            side.buffer = cx.services.buffers.allocate(
                direction as u8,
                side.expected.wrapping_add(skip),
                TCP_RANGES_MAX,
            );
            if side.buffer == 0 {
                cx.common.incomplete.add(Incomplete::REASSEMBLY);
                self.resynchronise(cx, sequence);
            } else {
                self.buffer_segment(cx, sequence);
            }
        }
    }

    /// Whether reading can continue with this segment, although bytes before it are missing.
    fn can_continue_at(&self, packet: &L4Payload<'_>) -> bool {
        match self.reading {
            Reading::Messages => self.messages.can_continue_at(packet.payload),
            // Most connections have few messages, so the first one may be the missing one.
            Reading::Unknown => {
                dns::has_client(packet.source_port, packet.destination_port)
                    && dns::DnsState::can_continue_at(packet.payload)
            }
            Reading::Tls => false,
        }
    }

    /// The sequence number after the message in the buffer of a direction, if the message says where it
    /// ends.
    fn message_end(&mut self, cx: &mut Context<'_>, direction: usize) -> Option<u32> {
        let handle = self.sides[direction].buffer;
        let stream = cx.services.buffers.get_mut(handle, direction as u8)?;
        if self.reading != Reading::Messages {
            return None;
        }
        let length = self
            .messages
            .message_length(direction, stream.contiguous())?;
        Some(stream.base.wrapping_add(length))
    }

    /// Continues a stream at `sequence`, within a message that ends at `message_end`, if that is known.
    fn continue_at(&mut self, direction: usize, sequence: u32, message_end: Option<u32>) {
        let skip = message_end.map(|end| end.wrapping_sub(sequence).cast_signed());
        let side = &mut self.sides[direction];
        side.expected = sequence;
        side.skip = skip.unwrap_or(0).max(0).cast_unsigned();
        if skip.is_none_or(i32::is_negative) && self.reading == Reading::Messages {
            self.messages.lose_position(direction);
        }
    }

    /// Gives up the missing bytes before this segment and continues with it.
    fn resynchronise(&mut self, cx: &mut Context<'_>, sequence: u32) {
        let direction = cx.direction();
        let message_end = self.message_end(cx, direction);
        self.flush_buffer(cx, direction);
        let side = &mut self.sides[direction];
        if side.has(side_flag::DONE) {
            return;
        }
        let is_dns = dns::has_client(cx.packet.source_port, cx.packet.destination_port);
        if self.reading != Reading::Unknown || is_dns {
            cx.common.incomplete.add(Incomplete::GAP);
        }
        self.continue_at(direction, sequence, message_end);
        self.read_in_order(cx, cx.packet.payload, cx.packet.payload_length);
    }

    /// Reads the next bytes of the stream. `length` is their number on the wire; fewer may be
    /// captured.
    fn read_in_order(&mut self, cx: &mut Context<'_>, bytes: &[u8], length: u32) {
        let direction = cx.direction();
        let side = &mut self.sides[direction];
        let start = side.expected;
        side.expected = start.wrapping_add(length);
        let skipped = side.skip.min(length);
        side.skip -= skipped;
        let mut offset = skipped as usize;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            match self.parse(cx, rest) {
                Verdict::Consumed(used) => {
                    let used = used.max(1);
                    if used > rest.len() {
                        // The part of the segment that was not captured is skipped already.
                        let beyond = (offset + used).saturating_sub(length as usize);
                        self.sides[direction].skip = u32::try_from(beyond).unwrap_or(u32::MAX);
                    }
                    offset += used;
                }
                Verdict::Done | Verdict::StartTls | Verdict::Reprobe | Verdict::Forget => {
                    self.sides[direction].set(side_flag::DONE);
                    return;
                }
                Verdict::NeedMore if bytes.len() < length as usize => {
                    // The rest of the segment was not captured, so nothing can be appended.
                    cx.common.incomplete.add(Incomplete::SNAPLEN);
                    self.read_truncated(cx, rest);
                    return;
                }
                Verdict::NeedMore => {
                    let base = start.wrapping_add(offset as u32);
                    let buffer =
                        cx.services
                            .buffers
                            .allocate(direction as u8, base, TCP_RANGES_MAX);
                    let inserted = cx.services.buffers.insert(buffer, direction as u8, 0, rest);
                    if inserted.is_ok() {
                        self.sides[direction].buffer = buffer;
                        self.sides[direction].gap_packets = 0;
                    } else {
                        let mut buffer = buffer;
                        cx.services.buffers.release(&mut buffer, direction as u8);
                        cx.common.incomplete.add(Incomplete::REASSEMBLY);
                        let message = match self.reading {
                            Reading::Messages => self.messages.message_length(direction, rest),
                            _ => None,
                        };
                        self.read_truncated(cx, rest);
                        let end = message.map(|length| base.wrapping_add(length));
                        self.continue_at(direction, start.wrapping_add(length), end);
                    }
                    return;
                }
            }
        }
        if bytes.len() < length as usize && self.reading == Reading::Unknown && offset == 0 {
            cx.common.incomplete.add(Incomplete::SNAPLEN);
        }
    }

    /// Adds a segment to the reassembly buffer and parses the messages that it completes.
    fn buffer_segment(&mut self, cx: &mut Context<'_>, sequence: u32) {
        let direction = cx.direction();
        let handle = self.sides[direction].buffer;
        let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) else {
            return;
        };
        let before = stream.contiguous().len();
        let offset = sequence.wrapping_sub(stream.base);
        if offset.cast_signed() > before as i32
            && (before == 0 || self.is_behind_message(cx, direction, sequence))
            && self.can_continue_at(cx.packet)
        {
            return self.resynchronise(cx, sequence);
        }
        let is_complete = cx.packet.payload.len() == cx.packet.payload_length as usize;
        let (offset, bytes) = if offset.cast_signed() < 0 {
            let behind = offset.wrapping_neg() as usize;
            (0, cx.packet.payload.get(behind..).unwrap_or_default())
        } else {
            (offset, cx.packet.payload)
        };
        let inserted = cx
            .services
            .buffers
            .insert(handle, direction as u8, offset, bytes);
        let stream = cx.services.buffers.get_mut(handle, direction as u8);
        let has_grown = stream.is_some_and(|stream| stream.contiguous().len() > before);
        if has_grown {
            self.sides[direction].gap_packets = 0;
            if self.read_buffered(cx).is_break() {
                return;
            }
        }
        let side = &mut self.sides[direction];
        side.gap_packets = side.gap_packets.saturating_add(1);
        if inserted.is_err() {
            cx.common.incomplete.add(Incomplete::REASSEMBLY);
            self.resynchronise(cx, sequence);
        } else if !is_complete || side.gap_packets > GAP_PACKETS_MAX {
            cx.common.incomplete.add(match is_complete {
                true => Incomplete::GAP,
                false => Incomplete::SNAPLEN,
            });
            let message_end = self.message_end(cx, direction);
            self.flush_buffer(cx, direction);
            let next = sequence.wrapping_add(cx.packet.payload_length);
            self.continue_at(direction, next, message_end);
        }
    }

    /// Whether a segment comes after the message in the buffer, of which bytes are missing.
    fn is_behind_message(&mut self, cx: &mut Context<'_>, direction: usize, sequence: u32) -> bool {
        self.message_end(cx, direction)
            .is_some_and(|end| sequence.wrapping_sub(end).cast_signed() >= 0)
    }

    /// Parses the buffered bytes before the first gap. Returns `Break` if the stream does not need
    /// the buffer any more.
    fn read_buffered(&mut self, cx: &mut Context<'_>) -> ControlFlow<()> {
        let direction = cx.direction();
        let handle = self.sides[direction].buffer;
        loop {
            let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            let length = stream.contiguous().len();
            if length == 0 {
                return ControlFlow::Continue(());
            }
            let bytes = stream.take_bytes();
            // The buffer advances once after all messages: to move its bytes for each would cost the
            // square of their number.
            let (mut used, mut verdict) = (0, Verdict::NeedMore);
            while let Some(rest) = bytes.get(used..length).filter(|rest| !rest.is_empty()) {
                verdict = self.parse(cx, rest);
                match verdict {
                    Verdict::Consumed(count) => used += count.max(1),
                    _ => break,
                }
            }
            let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            stream.put_bytes(bytes);
            let side = &mut self.sides[direction];
            if !matches!(verdict, Verdict::Consumed(_) | Verdict::NeedMore) {
                side.set(side_flag::DONE);
                cx.services
                    .buffers
                    .release(&mut side.buffer, direction as u8);
                return ControlFlow::Break(());
            }
            let used = u32::try_from(used).unwrap_or(u32::MAX);
            if used >= length as u32 && stream.has_only(length as u32) {
                side.expected = stream.base.wrapping_add(length as u32);
                side.skip = used - length as u32;
                cx.services
                    .buffers
                    .release(&mut side.buffer, direction as u8);
                return ControlFlow::Break(());
            }
            stream.advance(used);
            if verdict == Verdict::NeedMore {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Parses the incomplete message in a buffer and releases the buffer. The time of the message
    /// counts as unknown, because it did not arrive with the current packet.
    pub(super) fn flush_buffer(&mut self, cx: &mut Context<'_>, direction: usize) {
        let handle = self.sides[direction].buffer;
        if let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) {
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            if length > 0 {
                let packet = L4Payload::empty(direction as u8, ip_protocol::TCP);
                self.read_truncated(&mut cx.with_packet(&packet), &bytes[..length]);
            }
        }
        cx.services
            .buffers
            .release(&mut self.sides[direction].buffer, direction as u8);
    }

    /// Whether the buffer of a direction has a gap.
    pub(super) fn has_gap(&self, cx: &mut Context<'_>, direction: usize) -> bool {
        let handle = self.sides[direction].buffer;
        let stream = cx.services.buffers.get_mut(handle, direction as u8);
        stream.is_some_and(|stream| !stream.has_only(stream.contiguous().len() as u32))
    }

    /// Passes the next bytes of a stream to the parser of its protocol.
    fn parse(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        match self.reading {
            Reading::Unknown => self.detect_protocol(cx, bytes),
            Reading::Tls => self.parse_tls(cx, bytes),
            Reading::Messages => match self.messages.segment(cx, bytes) {
                Verdict::StartTls => {
                    self.reading = Reading::Tls;
                    self.parse_tls(cx, bytes)
                }
                verdict => verdict,
            },
        }
    }

    fn parse_tls(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        if self.sides[cx.direction()].take_new_connection() {
            self.tls.start_new_connection(cx);
        }
        self.tls.segment(cx, bytes)
    }

    /// Detects the protocol of a stream by its first bytes, or by those after another protocol
    /// (STARTTLS).
    fn detect_protocol(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let direction = cx.direction();
        let is_start = !self.sides[direction].has(side_flag::PROBED);
        match TlsState::probe(cx.packet, bytes, is_start) {
            Probe::Yes => {
                self.reading = Reading::Tls;
                self.skip_earlier_protocol(cx, 1 - direction);
                return self.parse_tls(cx, bytes);
            }
            Probe::NeedMore => return Verdict::NeedMore,
            Probe::No | Probe::NoOther => {}
        }
        match StreamState::probe(cx.packet, bytes, is_start) {
            Detected::Protocol(start) => {
                self.messages = start(cx.services);
                self.reading = Reading::Messages;
                return self.parse(cx, bytes);
            }
            Detected::NeedMore => return Verdict::NeedMore,
            Detected::Reserved | Detected::None => {}
        }
        if is_start {
            self.sides[direction].set(side_flag::PROBED);
            cx.classify_by_bytes(bytes);
        }
        Verdict::Consumed(bytes.len())
    }

    /// Skips the bytes in the buffer of the other direction when TLS starts, if they belong to the
    /// protocol before TLS.
    fn skip_earlier_protocol(&mut self, cx: &mut Context<'_>, direction: usize) {
        let side = &mut self.sides[direction];
        let Some(stream) = cx.services.buffers.get_mut(side.buffer, direction as u8) else {
            return;
        };
        if tls::detect(stream.contiguous()) != tls::Detected::No {
            return;
        }
        let length = stream.contiguous().len() as u32;
        if stream.has_only(length) {
            side.expected = stream.base.wrapping_add(length);
            cx.services
                .buffers
                .release(&mut side.buffer, direction as u8);
        } else {
            stream.advance(length);
        }
    }

    /// Parses as much as possible of a message that remains incomplete.
    pub(super) fn read_truncated(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        match self.reading {
            Reading::Unknown => {}
            Reading::Tls => self.tls.evict(cx, bytes),
            Reading::Messages => self.messages.evict(cx, bytes),
        }
    }
}

/// Whether a message of a known protocol may start with this payload, which belongs to a stream of no
/// known protocol. It looks at as few bytes as possible, because reading the payload of each packet
/// would load its cache lines.
#[inline]
pub(crate) fn may_start_message(payload: &[u8], ports: [u16; 2]) -> bool {
    let Some(&first) = payload.first() else {
        return true;
    };
    tls::may_start(first) || http::may_start_known(payload) || dns::has_client(ports[0], ports[1])
}
