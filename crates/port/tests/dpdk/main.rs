//! Ports through DPDK's virtual devices, without huge pages and without root.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod devices;
mod frames;
mod memif;
mod open_errors;
mod software_nic;
