//! A queue of segments to send.

use super::PAYLOAD_BYTES;
use super::tcp::{self, TcpSegment};
use crate::error::GeneratorError;
use crate::frame::MacAddresses;
use port::frame::BURST;
use port::{PortError, Transmit};
use std::collections::VecDeque;
use wire::toeplitz::Input;
use wire::{FlowKey, Toeplitz};

/// A queued segment without its payload, which is in [`SendQueue::payloads`].
#[derive(Clone, Copy)]
struct QueuedSegment {
    key: FlowKey,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    length: u16,
}

/// A first-in-first-out queue of segments.
pub(super) struct SendQueue {
    mac: MacAddresses,
    rss: Toeplitz,
    segments: VecDeque<QueuedSegment>,
    payloads: VecDeque<u8>,
    /// Frames that are written into slots but not accepted by the link yet.
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

    /// The number of queued segments.
    pub(super) fn len(&self) -> usize {
        self.segments.len() + self.written
    }

    /// The number of segments that the link accepted.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Appends a segment.
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

    /// Sends as many segments as the link accepts.
    pub(super) fn flush(&mut self, sink: &mut dyn Transmit, now_ns: i64) -> Result<(), PortError> {
        while self.len() > 0 {
            let count = self.len().min(BURST);
            let slots = sink.reserve(count, tcp::slot_bytes(PAYLOAD_BYTES))?;
            let pending_slots = self.written.min(slots.len());
            let mut filled = 0;
            for slot in &mut slots[pending_slots..] {
                let Some(queued) = self.segments.pop_front() else {
                    break;
                };
                let mut payload = [0; PAYLOAD_BYTES];
                let payload = &mut payload[..usize::from(queued.length)];
                for (to, from) in payload
                    .iter_mut()
                    .zip(self.payloads.drain(..usize::from(queued.length)))
                {
                    *to = from;
                }
                let segment = TcpSegment {
                    key: queued.key,
                    sequence: queued.sequence,
                    acknowledgement: queued.acknowledgement,
                    flags: queued.flags,
                    payload,
                };
                slot.length = tcp::write(slot.bytes, &segment, &self.mac);
                slot.time_ns = now_ns;
                slot.rss_hash = self.rss.hash_key(&segment.key, Input::AddressesAndPorts);
                filled += 1;
            }
            let submitted = pending_slots + filled;
            let accepted = sink.submit(submitted)?.min(submitted);
            self.written = submitted - accepted;
            self.sent += accepted as u64;
            if accepted < submitted || submitted == 0 {
                break;
            }
        }
        Ok(())
    }
}
