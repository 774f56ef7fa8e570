//! The receiver's side of numbered packets: loss, duplicates, order, and how long they took.

use crate::histogram::Histogram;
use crate::probe::Probe;
use crate::segment::Segment;
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
    other: u64,
    cut: u64,
    before_sent: u64,
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
            other: 0,
            cut: 0,
            before_sent: 0,
        }
    }

    /// Packets that came together.
    pub fn add(&mut self, burst: &Burst<'_>) {
        for frame in burst.frames {
            self.add_one(burst.link, frame);
        }
    }

    fn add_one(&mut self, link: LinkType, frame: &Frame<'_>) {
        let probe =
            Segment::read(link, frame.bytes).and_then(|segment| Probe::read(segment.payload));
        let Some(probe) = probe else {
            self.other += 1;
            self.cut += u64::from(frame.bytes.len() < frame.wire_length as usize);
            return;
        };
        self.packets += 1;
        self.bytes += u64::from(frame.wire_length);
        self.check.record(probe.sequence);
        if probe.time_ns != 0 {
            match u64::try_from(frame.time_ns.saturating_sub(probe.time_ns)) {
                Ok(took_ns) => self.latency.record(took_ns, 1),
                Err(_) => self.before_sent += 1,
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
    pub fn other(&self) -> u64 {
        self.other
    }

    /// Of these, packets of which a snap length has cut the end: they may have had a number.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Packets that came before they were sent: the two clocks differ.
    #[must_use]
    pub fn before_sent(&self) -> u64 {
        self.before_sent
    }
}
