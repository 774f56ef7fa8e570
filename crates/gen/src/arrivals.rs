//! Receives numbered packets: loss, duplicates, reordering and latency.

use crate::histogram::Histogram;
use crate::l4_packet::L4Packet;
use crate::probe::Probe;
use crate::sequence_check::{SequenceCheck, SequenceCounts};
use port::frame::{Burst, Frame};
use wire::LinkType;

/// Counters of the numbered packets that a receiver gets from a generator.
#[derive(Clone)]
pub struct Arrivals {
    check: SequenceCheck,
    latency: Histogram,
    packets: u64,
    bytes: u64,
    unnumbered: u64,
    truncated: u64,
    negative_latencies: u64,
}

impl Arrivals {
    /// Creates counters. `expected` is the number of packets sent, if known.
    #[must_use]
    pub fn new(expected: Option<u64>) -> Self {
        Self {
            check: SequenceCheck::new(expected),
            latency: Histogram::default(),
            packets: 0,
            bytes: 0,
            unnumbered: 0,
            truncated: 0,
            negative_latencies: 0,
        }
    }

    /// Records a received burst.
    pub fn record(&mut self, burst: &Burst<'_>) {
        for frame in burst.frames {
            self.record_frame(burst.link, frame);
        }
    }

    fn record_frame(&mut self, link: LinkType, frame: &Frame<'_>) {
        let probe =
            L4Packet::parse(link, frame.bytes).and_then(|packet| Probe::parse(packet.payload));
        let Some(probe) = probe else {
            self.unnumbered += 1;
            self.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
            return;
        };
        self.packets += 1;
        self.bytes += u64::from(frame.wire_length);
        self.check.record(probe.sequence);
        if probe.time_ns != 0 {
            match u64::try_from(frame.time_ns.saturating_sub(probe.time_ns)) {
                Ok(latency_ns) => self.latency.record(latency_ns, 1),
                Err(_) => self.negative_latencies += 1,
            }
        }
    }

    /// Counters of the sequence numbers.
    #[must_use]
    pub fn sequence(&self) -> SequenceCounts {
        self.check.counts()
    }

    /// Whether all expected packets have arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.check.is_complete()
    }

    /// Latency in nanoseconds: the timestamp of arrival minus the timestamp in the payload.
    #[must_use]
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Numbered packets and their bytes on the wire.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Packets without a sequence number.
    #[must_use]
    pub fn unnumbered(&self) -> u64 {
        self.unnumbered
    }

    /// Packets without a sequence number that were truncated by the snaplen: they may have had one.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Packets that arrived before they were sent, because the two clocks differ.
    #[must_use]
    pub fn negative_latencies(&self) -> u64 {
        self.negative_latencies
    }
}
