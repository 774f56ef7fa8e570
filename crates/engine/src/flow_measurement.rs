//! The flow table as a measurement.

use crate::measurement::{Measurement, MeasurementSpec, PacketInput, Packets};
use crate::record_channel::RecordSender;
use flow::{FramePayloads, LiveView, Meter, MeterCounters};

/// Counts every flow.
pub const FLOWS: MeasurementSpec = MeasurementSpec {
    name: "flows",
    input: PacketInput::Headers,
    at_receiver: false,
    build: |options| Ok(Box::new(Meter::new(options)?)),
};

/// The books account for the packets of the meter, so it has no report of its own.
impl Measurement for Meter {
    fn process(&mut self, packets: &Packets<'_>, records: &mut RecordSender) {
        match packets.frames {
            Some(frames) => self.process_with(packets.batch, &FramePayloads(frames), records),
            None => Self::process(self, packets.batch, records),
        }
    }

    fn idle(&mut self, clock_ms: Option<u32>, records: &mut RecordSender) {
        if let Some(clock_ms) = clock_ms {
            self.advance_idle(clock_ms, records);
        }
        self.flush(records);
    }

    fn flush_after(&mut self, clock_ms: u32, records: &mut RecordSender) {
        Self::flush_after(self, clock_ms, records);
    }

    fn finish(&mut self, clock_ms: u32, records: &mut RecordSender) {
        Self::finish(self, clock_ms, records);
    }

    fn counters(&self) -> MeterCounters {
        Self::counters(self)
    }

    fn take_view(&mut self) -> Option<LiveView> {
        Self::take_view(self)
    }

    fn memory_bytes(&self) -> usize {
        Self::memory_bytes(self)
    }
}
