//! Ports through DPDK (feature `dpdk`): NICs bound to a DPDK driver, and DPDK's virtual devices.
//!
//! DPDK's API consists largely of inline C functions. `shim.c` wraps those needed in plain functions,
//! with one call per burst; all else is Rust.
//!
//! ```text
//! device ─► receive queue ─► rte_eth_rx_burst ─► shim: address, length, hash ─► burst of frames
//!   └► missed, no buffer, errors: the device's own counters, read periodically
//! ```

mod clock;
mod device;
mod device_arguments;
mod eal;
mod error_hint;
mod name;
mod options;
mod output_capture;
mod pool;
mod queue_ring;
mod receive;
mod ring_guard;
mod send;
mod shim;
pub mod software_nic;
mod statistics;
mod thread;

pub use eal::{Eal, take_log, version};
pub use name::DeviceName;
pub use options::{BATCH_MAX, Options, Pools, RssFields, RssOptions, SendOptions};
pub use receive::DpdkPort;
pub use send::DpdkSender;
pub use software_nic::software_nic;
