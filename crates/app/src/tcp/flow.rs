//! A TCP flow as a whole: its segments, its record, and its buffers.

use super::state::{Reading, TcpState, side_flag};
use crate::parser::{Context, Parser, TCP_PROBE_PACKETS};
use crate::payload::L4Payload;
use crate::protocols::tls::TlsState;
use crate::reassembly::Evicted;
use crate::record::{AppRecord, Incomplete};
use crate::services::Services;
use wire::ip_protocol;
use wire::tcp::flag;

impl TcpState {
    /// Reads a packet. Returns false if the flow needs no more packets.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>) -> bool {
        let (packet, direction) = (cx.packet, cx.direction());
        let is_syn = packet.tcp_flags & flag::SYN != 0;
        let sequence = packet.sequence.wrapping_add(u32::from(is_syn));
        if packet.tcp_flags & flag::ACK != 0 && self.sides[1 - direction].buffer != 0 {
            self.skip_acknowledged_gaps(cx, 1 - direction, packet.acknowledgement);
        }
        if is_syn {
            self.read_syn(cx, sequence);
        }
        if packet.payload_length > 0 {
            cx.common.packets = cx.common.packets.saturating_add(1);
            self.read_segment(cx, sequence);
        }
        if packet.tcp_flags & (flag::FIN | flag::RST) != 0 {
            self.read_end(cx, sequence.wrapping_add(packet.payload_length));
        }
        if self.is_unknown_for_long(cx) {
            for direction in 0..2 {
                self.flush_buffer(cx, direction);
            }
            // What was behind a gap may have been a known protocol.
            if self.reading == Reading::Unknown {
                return false;
            }
        }
        !self.sides.iter().all(|it| it.has(side_flag::DONE))
    }

    /// Whether the protocol is given up as unknown. Bytes that may start a known one are waited for.
    fn is_unknown_for_long(&self, cx: &mut Context<'_>) -> bool {
        let direction = cx.direction();
        let side = &self.sides[direction];
        self.reading == Reading::Unknown
            && cx.common.packets >= TCP_PROBE_PACKETS
            && side.has(side_flag::PROBED)
            && (side.buffer == 0 || self.has_gap(cx, direction))
    }

    /// Reads the end of a stream: a FIN, or a reset, which ends both streams. `end` is the sequence
    /// number after its last byte.
    fn read_end(&mut self, cx: &mut Context<'_>, end: u32) {
        let direction = cx.direction();
        self.sides[direction].end_at(end);
        if cx.packet.tcp_flags & flag::RST != 0 {
            let other = 1 - direction;
            let handle = self.sides[other].buffer;
            let stream = cx.services.buffers.get_mut(handle, other as u8);
            if let Some(end) = stream.map(|stream| stream.base.wrapping_add(stream.end())) {
                self.sides[other].end_at(end);
            }
        }
    }

    /// Reads what is left of a stream. An incomplete message is marked, unless its sender broke it off.
    pub(super) fn finish_stream(&mut self, cx: &mut Context<'_>, direction: usize) {
        let side = &self.sides[direction];
        let (is_ended, expected) = (side.has(side_flag::ENDED), side.expected);
        let stream = cx.services.buffers.get_mut(side.buffer, direction as u8);
        if let Some(stream) = stream {
            let end = stream.base.wrapping_add(stream.end());
            if !(is_ended && end == expected) {
                cx.common.incomplete.add(Incomplete::GAP);
            }
        }
        self.flush_buffer(cx, direction);
    }

    /// Whether the state holds something for the record, or a stream position that is still needed.
    pub(crate) fn is_worth_keeping(&self, needs_more: bool) -> bool {
        self.reading != Reading::Unknown
            || self.tls.has_hello()
            || (needs_more && self.sides.iter().any(|it| it.has(side_flag::SYNCED)))
    }

    /// Reads the contents of a buffer that was evicted.
    pub(crate) fn evict(&mut self, cx: &mut Context<'_>, evicted: &Evicted) {
        if let Some(side) = self.sides.get_mut(usize::from(evicted.owner.direction)) {
            side.reset_position();
        }
        self.read_truncated(cx, &evicted.bytes);
        self.lose_position(usize::from(evicted.owner.direction & 1));
    }

    /// Releases the buffers.
    pub(crate) fn release(&mut self, services: &mut Services) {
        for (direction, side) in (0..).zip(&mut self.sides) {
            services.buffers.release(&mut side.buffer, direction);
        }
    }

    /// Writes the record of a flow whose partial TLS handshake or messages continue in its next record.
    pub(crate) fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.tls.snapshot(cx, record);
        if record.tls.is_none() && self.reading == Reading::Tls {
            self.write_partial_hello(cx, record);
        }
        self.messages.snapshot(cx, record);
    }

    /// Writes the fields in the first part of a ClientHello that is not complete yet. The state does
    /// not get them, since the next record will have those of the complete one.
    fn write_partial_hello(&self, cx: &mut Context<'_>, record: &mut AppRecord) {
        let mut hello = TlsState::default();
        for (direction, side) in (0..).zip(&self.sides) {
            let Some(stream) = cx.services.buffers.get_mut(side.buffer, direction) else {
                continue;
            };
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            let packet = L4Payload::empty(direction, ip_protocol::TCP);
            hello.evict(&mut cx.with_packet(&packet), &bytes[..length]);
            if let Some(stream) = cx.services.buffers.get_mut(side.buffer, direction) {
                stream.put_bytes(bytes);
            }
        }
        hello.finish(cx, record);
    }

    /// Writes the record, and releases all texts and buffers.
    pub(crate) fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        for direction in 0..2 {
            self.finish_stream(cx, direction);
        }
        self.tls.finish(cx, record);
        self.messages.finish(cx, record);
    }
}
