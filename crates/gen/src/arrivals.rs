//! The receiver's side of numbered packets: loss, duplicates, order, and how long they took.

use crate::histogram::Histogram;
use crate::probe::Probe;
use crate::l4_packet::L4Packet;
use crate::sequence_check::{SequenceCheck, SequenceCounts};
use port::frame::{Burst, Frame};
use wire::LinkType;

/// Counts what arrives of a generator's numbered packets.
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
    /// Before the first packet. `expected`: how many were sent, where that is known.
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

    /// Packets that came together.
    pub fn record(&mut self, burst: &Burst<'_>) {
        for frame in burst.frames {
            self.record_frame(burst.link, frame);
        }
    }

    fn record_frame(&mut self, link: LinkType, frame: &Frame<'_>) {
        let probe =
            L4Packet::parse(link, frame.bytes).and_then(|segment| Probe::parse(segment.payload));
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
                Ok(took_ns) => self.latency.record(took_ns, 1),
                Err(_) => self.negative_latencies += 1,
            }
        }
    }

    /// Sequence numbers.
    #[must_use]
    pub fn sequence(&self) -> SequenceCounts {
        self.check.counts()
    }

    /// Whether all that were sent have come.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.check.is_complete()
    }

    /// From the time in the payload to the time of arrival, nanoseconds.
    #[must_use]
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Numbered packets, and their bytes on the wire.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Packets without a number.
    #[must_use]
    pub fn unnumbered(&self) -> u64 {
        self.unnumbered
    }

    /// Of these, packets of which a snap length has cut the end: they may have had a number.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Packets that came before they were sent: the two clocks differ.
    #[must_use]
    pub fn negative_latencies(&self) -> u64 {
        self.negative_latencies
    }
}
