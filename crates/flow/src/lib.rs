//! The meter: packets in batches and time go in, flow records come out. No I/O, no clock.

mod analyser;
pub mod batch;
pub mod clock;
mod ended;
pub mod entry;
pub mod expiry;
pub mod garbage;
pub mod hash;
pub mod meter;
mod order;
mod overhearer;
pub mod record;
pub mod statistic;
pub mod table;
pub mod view;

pub use batch::{BURST, Batch, InFrames, Kept, KeyMaker, Packet, Payloads, TableKey};
pub use clock::PacketClock;
pub use ended::EndedFlows;
pub use expiry::Timeouts;
pub use garbage::GarbageSchedule;
pub use meter::{Meter, MeterCounters, MeterOptions, RecordSink};
pub use overhearer::Overhearer;
pub use record::{Column, EndReason, FlowDefinition, Record, RecordBatch, Schema};
pub use table::{TableKind, Wanted};
pub use view::LiveView;
