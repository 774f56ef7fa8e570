//! TCP streams: puts segments in order, as long as their flow needs inspection.
//!
//! A segment in order that has a complete message is parsed in place. Others go to a reassembly
//! buffer, which is released as soon as its bytes are parsed.

use super::state::{Reading, TcpState, side_flag};
use crate::message::{http, proxy, tls};
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::progress::Progress;
use crate::protocols::tls::TlsState;
use crate::protocols::{Detected, StreamState, dns};
use crate::reassembly::TCP_RANGES_MAX;
use crate::record::Incomplete;
use std::ops::ControlFlow;
use wire::ip_protocol;
use wire::work;

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
        let direction = usize::from(packet.direction & 1);
        match self.reading {
            Reading::Messages => {
                self.messages.can_skip_gap(direction)
                    || self.messages.can_continue_at(packet.payload)
            }
            // At the start of a stream, the missing bytes may be an earlier message that is late.
            Reading::Unknown => {
                TlsState::is_first(packet.payload)
                    || self.sides[direction].has(side_flag::PROBED)
                        && StreamState::is_first(packet.payload)
            }
            Reading::Tls => false,
        }
    }

    /// The end of the message in the buffer of a direction as an offset from its base, if the message
    /// says where it ends.
    fn message_end(&mut self, cx: &mut Context<'_>, direction: usize) -> Option<u32> {
        let handle = self.sides[direction].buffer;
        let stream = cx.services.buffers.get_mut(handle, direction as u8)?;
        match self.reading {
            Reading::Messages => self.messages.message_length(direction, stream.contiguous()),
            Reading::Unknown | Reading::Tls => None,
        }
    }

    /// The next bytes of a stream may be any part of a message.
    pub(super) fn lose_position(&mut self, direction: usize) {
        self.sides[direction].skip = 0;
        if self.reading != Reading::Unknown {
            self.messages.lose_position(direction);
        }
    }

    /// Continues a stream, which has no buffer, at `sequence`. Returns false if the bytes before it are
    /// not needed.
    fn jump_to(&mut self, direction: usize, sequence: u32) -> bool {
        let side = &mut self.sides[direction];
        let ahead = sequence.wrapping_sub(side.expected);
        side.expected = sequence;
        if ahead <= side.skip {
            side.skip -= ahead;
            return false;
        }
        self.lose_position(direction);
        true
    }

    /// Gives up the missing bytes before this segment and continues with it.
    fn resynchronise(&mut self, cx: &mut Context<'_>, sequence: u32) {
        let direction = cx.direction();
        self.flush_buffer(cx, direction);
        let side = &self.sides[direction];
        if side.has(side_flag::DONE) {
            return;
        }
        if sequence.wrapping_sub(side.expected).cast_signed() <= 0 {
            return self.read_segment(cx, sequence);
        }
        let is_dns = dns::has_client(cx.packet.source_port, cx.packet.destination_port);
        let is_known = self.reading != Reading::Unknown && !self.messages.can_skip_gap(direction);
        if self.jump_to(direction, sequence) && (is_known || is_dns) {
            cx.common.incomplete.add(Incomplete::GAP);
        }
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
            cx.progress = cx.progress_at_packet();
            match self.parse(cx, rest) {
                Verdict::Consumed(used) => {
                    let used = used.max(1);
                    if used > rest.len() {
                        // The part of the segment that was not captured is skipped already.
                        let beyond = offset.saturating_add(used).saturating_sub(length as usize);
                        self.sides[direction].skip = u32::try_from(beyond).unwrap_or(u32::MAX);
                    }
                    offset = offset.saturating_add(used);
                }
                Verdict::Done | Verdict::StartTls | Verdict::Reprobe | Verdict::Forget => {
                    self.sides[direction].set(side_flag::DONE);
                    return;
                }
                Verdict::NeedMore if bytes.len() < length as usize => {
                    // The rest of the segment was not captured, so nothing can be appended.
                    cx.common.incomplete.add(Incomplete::SNAPLEN);
                    self.read_truncated(cx, rest);
                    self.lose_position(direction);
                    return;
                }
                Verdict::NeedMore => {
                    self.wait_for_more(cx, start.wrapping_add(offset as u32), rest);
                    return;
                }
            }
        }
        if offset < length as usize && bytes.len() < length as usize {
            // The rest of the segment was not captured.
            self.lose_position(direction);
        }
        if bytes.len() < length as usize && self.reading == Reading::Unknown && offset == 0 {
            cx.common.incomplete.add(Incomplete::SNAPLEN);
        }
    }

    /// Buffers the start of a message, which is at `base`.
    fn wait_for_more(&mut self, cx: &mut Context<'_>, base: u32, bytes: &[u8]) {
        let direction = cx.direction();
        let buffers = &mut cx.services.buffers;
        let mut buffer = buffers.allocate(direction as u8, base, TCP_RANGES_MAX);
        if buffers.insert(buffer, direction as u8, 0, bytes).is_ok() {
            if let Some(stream) = buffers.get_mut(buffer, direction as u8) {
                stream.progress = Progress {
                    seen: bytes.len(),
                    ..cx.progress
                };
            }
            self.sides[direction].buffer = buffer;
            self.sides[direction].gap_packets = 0;
            return;
        }
        buffers.release(&mut buffer, direction as u8);
        cx.common.incomplete.add(Incomplete::REASSEMBLY);
        let length = match self.reading {
            Reading::Messages => self.messages.message_length(direction, bytes),
            Reading::Unknown | Reading::Tls => None,
        };
        self.read_truncated(cx, bytes);
        match length.and_then(|length| length.checked_sub(bytes.len() as u32)) {
            Some(rest) => self.sides[direction].skip = rest,
            None => self.lose_position(direction),
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
            && (before == 0 || self.is_behind_message(cx, direction, offset))
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
        let progress = cx.progress_at_packet();
        if let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8)
            && stream.contiguous().len() > before
        {
            if before == 0 {
                stream.progress = progress;
            }
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
        } else if !is_complete {
            cx.common.incomplete.add(Incomplete::SNAPLEN);
            self.flush_buffer(cx, direction);
            self.jump_to(direction, sequence.wrapping_add(cx.packet.payload_length));
        } else if side.gap_packets > GAP_PACKETS_MAX && self.has_gap(cx, direction) {
            self.flush_buffer(cx, direction);
        }
    }

    /// Whether an offset from the base of a buffer is behind the message in it, of which bytes are
    /// missing.
    fn is_behind_message(&mut self, cx: &mut Context<'_>, direction: usize, offset: u32) -> bool {
        self.message_end(cx, direction)
            .is_some_and(|end| offset >= end)
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
            cx.progress = stream.progress;
            let bytes = stream.take_bytes();
            // The buffer advances once after all messages: to move its bytes for each would cost the
            // square of their number.
            let (mut used, mut verdict) = (0_usize, Verdict::NeedMore);
            while let Some(rest) = bytes.get(used..length).filter(|rest| !rest.is_empty()) {
                verdict = self.parse(cx, rest);
                match verdict {
                    Verdict::Consumed(count) => used = used.saturating_add(count.max(1)),
                    _ => break,
                }
                cx.progress = cx.progress_at_packet();
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
            if self.advance(cx, direction, used).is_break() {
                return ControlFlow::Break(());
            }
            if verdict == Verdict::NeedMore {
                if let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) {
                    let seen = stream.contiguous().len();
                    stream.progress = Progress {
                        seen,
                        ..cx.progress
                    };
                }
                return ControlFlow::Continue(());
            }
        }
    }

    /// Removes `length` bytes from the start of a buffer, received or not. Returns `Break` if it has no
    /// others, so that it is released.
    fn advance(&mut self, cx: &mut Context<'_>, direction: usize, length: u32) -> ControlFlow<()> {
        let side = &mut self.sides[direction];
        let progress = cx.progress_at_packet();
        let buffers = &mut cx.services.buffers;
        let Some(stream) = buffers.get_mut(side.buffer, direction as u8) else {
            return ControlFlow::Break(());
        };
        let end = stream.end();
        if length < end {
            if length > 0 {
                stream.advance(length);
                stream.progress = progress;
            }
            return ControlFlow::Continue(());
        }
        side.expected = stream.base.wrapping_add(end);
        side.skip = length - end;
        buffers.release(&mut side.buffer, direction as u8);
        ControlFlow::Break(())
    }

    /// Skips the gaps in the buffer of a direction that its receiver has acknowledged: what is missing
    /// there was received, but not captured.
    #[cold]
    pub(super) fn skip_acknowledged_gaps(
        &mut self,
        cx: &mut Context<'_>,
        direction: usize,
        acknowledged: u32,
    ) {
        self.read_late(cx, direction, |tcp, cx| {
            while let Some((base, end)) = tcp.gap(cx, direction)
                && acknowledged
                    .wrapping_sub(base.wrapping_add(end))
                    .cast_signed()
                    >= 0
            {
                tcp.skip_gap(cx, direction);
            }
        });
    }

    /// Base of the buffer of a direction, and the end of its first gap as an offset from there.
    fn gap(&self, cx: &mut Context<'_>, direction: usize) -> Option<(u32, u32)> {
        let handle = self.sides[direction].buffer;
        let stream = cx.services.buffers.get_mut(handle, direction as u8)?;
        Some((stream.base, stream.gap_end()?))
    }

    /// Gives up the bytes in the first gap of the buffer, and reads what is behind it. The current packet
    /// stands for those in the buffer.
    fn skip_gap(&mut self, cx: &mut Context<'_>, direction: usize) {
        let Some((_, gap_end)) = self.gap(cx, direction) else {
            return;
        };
        cx.common.incomplete.add(Incomplete::GAP);
        let message_end = self.message_end(cx, direction);
        self.read_incomplete(cx, direction);
        let message_end = message_end.filter(|end| *end >= gap_end);
        if message_end.is_none() {
            self.lose_position(direction);
        }
        if self
            .advance(cx, direction, message_end.unwrap_or(gap_end))
            .is_continue()
        {
            let _ = self.read_buffered(cx);
        }
    }

    /// Parses the incomplete message at the start of a buffer.
    fn read_incomplete(&mut self, cx: &mut Context<'_>, direction: usize) {
        let handle = self.sides[direction].buffer;
        let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) else {
            return;
        };
        let length = stream.contiguous().len();
        let bytes = stream.take_bytes();
        if length > 0 {
            self.read_truncated(cx, &bytes[..length]);
        }
        if let Some(stream) = cx.services.buffers.get_mut(handle, direction as u8) {
            stream.put_bytes(bytes);
        }
    }

    /// Parses everything in the buffer of a direction and releases it.
    pub(super) fn flush_buffer(&mut self, cx: &mut Context<'_>, direction: usize) {
        if self.sides[direction].buffer == 0 {
            return;
        }
        self.read_late(cx, direction, |tcp, cx| {
            while tcp.has_gap(cx, direction) {
                tcp.skip_gap(cx, direction);
            }
            let handle = tcp.sides[direction].buffer;
            let stream = cx.services.buffers.get_mut(handle, direction as u8);
            let Some(end) = stream.map(|stream| stream.end()) else {
                return;
            };
            let message_end = tcp.message_end(cx, direction);
            tcp.read_incomplete(cx, direction);
            let message_end = message_end.filter(|message| *message >= end);
            let _ = tcp.advance(cx, direction, message_end.unwrap_or(end));
            if message_end.is_none() {
                tcp.lose_position(direction);
            }
        });
        let side = &mut self.sides[direction];
        cx.services
            .buffers
            .release(&mut side.buffer, direction as u8);
    }

    /// Calls `read` for bytes of a direction that arrived before the current packet, so that the time of
    /// their messages counts as unknown.
    fn read_late(
        &mut self,
        cx: &mut Context<'_>,
        direction: usize,
        read: impl FnOnce(&mut Self, &mut Context<'_>),
    ) {
        let is_other = direction != cx.direction();
        let mut packet = L4Payload {
            source_port: cx.packet.source_port,
            destination_port: cx.packet.destination_port,
            ..L4Payload::empty(direction as u8, ip_protocol::TCP)
        };
        if is_other {
            std::mem::swap(&mut packet.source_port, &mut packet.destination_port);
            cx.services.reverse_dns_packet();
        }
        read(self, &mut cx.with_packet(&packet));
        if is_other {
            cx.services.reverse_dns_packet();
        }
    }

    /// Whether the buffer of a direction has a gap.
    pub(super) fn has_gap(&self, cx: &mut Context<'_>, direction: usize) -> bool {
        let handle = self.sides[direction].buffer;
        let stream = cx.services.buffers.get_mut(handle, direction as u8);
        stream.is_some_and(|stream| !stream.has_only(stream.contiguous().len() as u32))
    }

    /// Passes the next bytes of a stream to the parser of its protocol.
    fn parse(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        work::count(work::CALL);
        let is_tls = self.sides[cx.direction()].has(side_flag::TLS);
        match self.reading {
            Reading::Unknown => self.detect_protocol(cx, bytes),
            // Each side of a proxy's connection changes to TLS on its own.
            Reading::Tls if is_tls || self.messages.is_unknown() => self.parse_tls(cx, bytes),
            Reading::Tls | Reading::Messages => match self.messages.segment(cx, bytes) {
                Verdict::StartTls => {
                    self.reading = Reading::Tls;
                    self.sides[cx.direction()].set(side_flag::TLS);
                    cx.progress.note = 0;
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
    /// (STARTTLS) or after the header of a proxy.
    fn detect_protocol(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let direction = cx.direction();
        let is_start = !self.sides[direction].has(side_flag::PROBED);
        if is_start {
            match proxy::header_length(bytes) {
                Some(Some(length)) => return Verdict::Consumed(length),
                Some(None) => return Verdict::NeedMore,
                None => {}
            }
        }
        match TlsState::probe(cx.packet, bytes, is_start) {
            Probe::Yes => {
                self.reading = Reading::Tls;
                self.skip_earlier_protocol(cx, 1 - direction);
                return self.parse_tls(cx, bytes);
            }
            Probe::NeedMore => return Verdict::NeedMore,
            Probe::No | Probe::NoOther => {}
        }
        let seen = cx.progress.seen;
        match StreamState::probe(cx.packet, bytes, is_start, seen) {
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
        // Bytes that another segment brought may start a message.
        Verdict::Consumed(match seen {
            0 => bytes.len(),
            _ => seen,
        })
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
