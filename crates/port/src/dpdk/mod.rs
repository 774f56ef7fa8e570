//! Ports through DPDK (feature `dpdk`): cards that the kernel has let go of, and DPDK's virtual
//! devices.
//!
//! DPDK is C, most of it inline: `shim.c` puts what is needed behind a few plain functions, one call
//! a burst, and everything else happens here.
//!
//! ```text
//! device ─► receive queue ─► rte_eth_rx_burst ─► shim: where, how long, hash ─► frames of a burst
//!   └► missed, no buffer, damaged: the device's own counters, read now and then
//! ```

mod captured;
mod clock;
mod device;
mod device_arguments;
mod eal;
mod error_hint;
mod name;
mod options;
mod pool;
mod receive;
mod send;
mod shim;
pub mod software_nic;
mod statistics;
mod staying;
mod thread;

pub use eal::{Eal, take_log, version};
pub use name::DeviceName;
pub use options::{BATCH_MAX, Options, Pools, RssFields, RssOptions, SendOptions};
pub use receive::DpdkPort;
pub use send::DpdkSender;
pub use software_nic::software_nic;
