//! Ports through DPDK's virtual devices, without huge pages and without rights.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod devices;
mod frames;
mod memif;
mod refusals;
mod software_nic;
