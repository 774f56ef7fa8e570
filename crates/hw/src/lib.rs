//! Access to the hardware and the kernel: vector instructions, prefetching, huge pages, cores,
//! scheduler policies and clocks.
//!
//! Only this crate and `port` may contain unsafe code. Every item here has a safe interface, which
//! detects the instructions that the CPU supports, once per burst.

pub mod buckets;
pub mod cache;
pub mod cores;
pub mod crc32c;
pub mod hash;
pub mod headers;
pub mod lines;
pub mod memory;
pub mod pool;
pub mod prefetch;
pub mod random;
pub mod schedule;
pub mod tags;
pub mod time;
pub mod toeplitz;
