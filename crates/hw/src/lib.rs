//! What flowatch asks of the processor and of the machine.
//!
//! With `port`, the only crate where unsafe code may stand: everything here is offered through a
//! safe interface, dispatched once a burst to what the processor has.

pub mod cache;
pub mod cores;
pub mod crc32c;
pub mod hash;
pub mod lines;
pub mod memory;
pub mod plain_ipv4;
pub mod prefetch;
pub mod random;
pub mod schedule;
pub mod tags;
pub mod time;
pub mod toeplitz;
