//! The meter: packets in batches and time go in, flow records come out. No I/O, no clock.

pub mod record;

pub use record::{Column, EndReason, FlowDefinition, Record, RecordBatch, Schema};
