//! Packet level as a measurement: counts packets and bytes as they are received. Alone, it reads no byte
//! of a frame, and the port does not even build a list of frames. (FloWatcher's "software" counting. The
//! report also has the device's own count.)

use crate::books::{Books, Count};
use crate::measurement::{
    Findings, Measurement, MeasurementReport, MeasurementSpec, PacketInput, Packets,
};
use crate::record_channel::RecordSender;
use flow::Packet;
use port::{BurstCount, Frame};
use std::any::Any;

/// Counts packets and bytes.
pub const PACKETS: MeasurementSpec = MeasurementSpec {
    name: "packets",
    input: PacketInput::Frames,
    at_receiver: true,
    build: |_| Ok(Box::new(PacketCount::default())),
};

/// The packets and bytes of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct PacketCount(Count);

impl Measurement for PacketCount {
    fn process(&mut self, packets: &Packets<'_>, _: &mut RecordSender) {
        self.0 += count_packets(packets.batch.packets());
    }

    fn count_without_flow(&mut self, frames: &[Frame<'_>], in_flows: &[Packet]) {
        let in_flows = count_packets(in_flows);
        let lengths = frames.iter().map(|frame| u64::from(frame.wire_length));
        self.0.packets += frames.len() as u64 - in_flows.packets;
        self.0.bytes += lengths.sum::<u64>() - in_flows.bytes;
    }

    fn count_frames(&mut self, BurstCount { frames, bytes }: BurstCount) {
        self.0 += Count {
            packets: frames,
            bytes,
        };
    }

    fn report(&mut self, _: Option<&Books>) -> Option<Box<dyn Findings>> {
        Some(Box::new(*self))
    }
}

impl Findings for PacketCount {
    fn merge(&mut self, other: Box<dyn Any>) {
        if let Ok(other) = other.downcast::<Self>() {
            self.0 += other.0;
        }
    }

    fn report(&self) -> MeasurementReport {
        MeasurementReport {
            name: "packets",
            title: "Packets",
            counted: self.0,
            ..MeasurementReport::default()
        }
    }
}

fn count_packets(packets: &[Packet]) -> Count {
    let lengths = packets.iter().map(|packet| u64::from(packet.length));
    Count {
        packets: packets.len() as u64,
        bytes: lengths.sum(),
    }
}
