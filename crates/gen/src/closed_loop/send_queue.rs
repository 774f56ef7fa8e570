//! Segments that wait to be sent.

use super::PAYLOAD_BYTES;
use super::tcp::{self, TcpSegment};
use crate::error::GeneratorError;
use crate::frame::MacAddresses;
use port::frame::BURST;
use port::{PortError, Transmit};
use std::collections::VecDeque;
use wire::toeplitz::Input;
use wire::{FlowKey, Toeplitz};

/// A segment without its payload, which lies apart.
#[derive(Clone, Copy)]
struct QueuedSegment {
    key: FlowKey,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    length: u16,
}

/// A queue of segments, in the order in which they are to be sent.
pub(super) struct SendQueue {
    mac: MacAddresses,
    rss: Toeplitz,
    segments: VecDeque<QueuedSegment>,
    payloads: VecDeque<u8>,
    /// Frames that were written and not taken by the link.
    written: usize,
    sent: u64,
}

impl SendQueue {
    pub(super) fn new(mac: MacAddresses, rss_key: &[u8]) -> Result<Self, GeneratorError> {
        Ok(Self {
            mac,
            rss: Toeplitz::new(rss_key).map_err(|error| GeneratorError::new(error.to_string()))?,
            segments: VecDeque::new(),
            payloads: VecDeque::new(),
            written: 0,
            sent: 0,
        })
    }

    /// Segments that wait.
    pub(super) fn len(&self) -> usize {
        self.segments.len() + self.written
    }

    /// Segments that the link took.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Puts one at the end.
    pub(super) fn push(&mut self, segment: &TcpSegment<'_>) {
        self.segments.push_back(QueuedSegment {
            key: segment.key,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            flags: segment.flags,
            length: segment.payload.len() as u16,
        });
        self.payloads.extend(segment.payload);
    }

    /// Sends as many as the link takes.
    pub(super) fn flush(&mut self, sink: &mut dyn Transmit, now_ns: i64) -> Result<(), PortError> {
        while self.len() > 0 {
            let count = self.len().min(BURST);
            let slots = sink.reserve(count, tcp::slot_bytes(PAYLOAD_BYTES))?;
            let old = self.written.min(slots.len());
            let mut filled = 0;
            for slot in &mut slots[old..] {
                let Some(waiting) = self.segments.pop_front() else {
                    break;
                };
                let mut payload = [0; PAYLOAD_BYTES];
                let payload = &mut payload[..usize::from(waiting.length)];
                for (to, from) in payload
                    .iter_mut()
                    .zip(self.payloads.drain(..usize::from(waiting.length)))
                {
                    *to = from;
                }
                let segment = TcpSegment {
                    key: waiting.key,
                    sequence: waiting.sequence,
                    acknowledgement: waiting.acknowledgement,
                    flags: waiting.flags,
                    payload,
                };
                slot.length = tcp::write(slot.bytes, &segment, &self.mac);
                slot.time_ns = now_ns;
                slot.rss_hash = self.rss.hash_key(&segment.key, Input::AddressesAndPorts);
                filled += 1;
            }
            let submitted = old + filled;
            let taken = sink.submit(submitted)?.min(submitted);
            self.written = submitted - taken;
            self.sent += taken as u64;
            if taken < submitted || submitted == 0 {
                break;
            }
        }
        Ok(())
    }
}
