//! The meter: turns batches of packets and the passage of time into flow records. It does no I/O and
//! reads no clock.

mod analyser;
pub mod batch;
pub mod clock;
mod definition;
mod dns_tap;
mod end_reason;
mod ended;
pub mod entry;
pub mod expiry;
pub mod garbage;
pub mod hash;
pub mod meter;
mod radix_sort;
pub mod record;
mod record_batch;
pub mod statistic;
pub mod table;
pub mod view;

pub use batch::{
    BURST, Batch, CopiedPayloads, FramePayloads, KeyMaker, Packet, Payloads, TableKey,
};
pub use clock::PacketClock;
pub use definition::FlowDefinition;
pub use dns_tap::DnsTap;
pub use end_reason::EndReason;
pub use ended::EndedFlows;
pub use expiry::Timeouts;
pub use garbage::GarbageSchedule;
pub use meter::{Meter, MeterCounters, MeterOptions, RecordSink};
pub use record::{Column, Record, Schema};
pub use record_batch::RecordBatch;
pub use table::{Collisions, Outputs, TableKind};
pub use view::LiveView;
