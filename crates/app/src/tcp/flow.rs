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
    /// Reads a segment. Returns false if the flow needs no more packets.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>) -> bool {
        let is_syn = cx.packet.tcp_flags & flag::SYN != 0;
        let sequence = cx.packet.sequence.wrapping_add(u32::from(is_syn));
        if is_syn {
            self.read_syn(cx, sequence);
        }
        if cx.packet.payload_length == 0 {
            return true;
        }
        cx.common.packets = cx.common.packets.saturating_add(1);
        self.read_segment(cx, sequence);
        let is_done = self.sides.iter().all(|it| it.has(side_flag::DONE));
        let is_given_up =
            self.reading == Reading::Unknown && cx.common.packets >= TCP_PROBE_PACKETS;
        if is_given_up {
            for direction in 0..2 {
                if self.has_gap(cx, direction) {
                    cx.common.incomplete.add(Incomplete::GAP);
                }
                self.flush_buffer(cx, direction);
            }
        }
        !is_done && !is_given_up
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
    }

    /// Releases the buffers.
    pub(crate) fn release(&mut self, services: &mut Services) {
        for (direction, side) in (0..).zip(&mut self.sides) {
            services.buffers.release(&mut side.buffer, direction);
        }
    }

    /// Writes the record of a flow whose partial TLS handshake continues in its next record.
    pub(crate) fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.tls.snapshot(cx, record);
        if record.tls.is_none() && self.reading == Reading::Tls {
            self.write_partial_hello(cx, record);
        }
        std::mem::take(&mut self.messages).finish(cx, record);
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
            if self.sides[direction].buffer != 0 {
                cx.common.incomplete.add(Incomplete::GAP);
                self.flush_buffer(cx, direction);
            }
        }
        self.tls.finish(cx, record);
        self.messages.finish(cx, record);
    }
}
