//! The meter: turns batches of packets and the passage of time into flow records. It does no I/O and
//! reads no clock.

mod analyser;
pub mod batch;
pub mod clock;
mod dns_tap;
mod ended;
pub mod entry;
pub mod expiry;
pub mod garbage;
pub mod hash;
pub mod meter;
mod radix_sort;
pub mod record;
pub mod statistic;
pub mod table;
pub mod view;

pub use batch::{
    BURST, Batch, CopiedPayloads, FramePayloads, KeyMaker, Packet, Payloads, TableKey,
};
pub use clock::PacketClock;
pub use dns_tap::DnsTap;
pub use ended::EndedFlows;
pub use expiry::Timeouts;
pub use garbage::GarbageSchedule;
pub use meter::{Meter, MeterCounters, MeterOptions, RecordSink};
pub use record::{Column, EndReason, FlowDefinition, Record, RecordBatch, Schema};
pub use table::{Outputs, TableKind};
pub use view::LiveView;
