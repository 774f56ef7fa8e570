//! The whole command from the outside: captures, flags, signals and real links go in; records,
//! books, messages and exit statuses come out. Each file is named after what it pins.
//!
//! Captures that are not shipped are found in the directory that FLOWATCH_TRAFFIC names, else
//! beside the repository. Tests of live capture need root: they make network namespaces.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod analysis;
mod bad_input;
mod captures;
mod command;
#[cfg(feature = "dpdk")]
mod dpdk;
mod engine_flags;
mod filters;
mod generate;
mod hostile;
#[cfg(feature = "dpdk")]
mod identity;
mod laboratory;
mod live_veth;
mod manifest;
mod mix_reference;
mod models;
mod namespace;
mod outputs;
mod records;
mod reference;
mod signals_and_pipes;
mod summary;
mod tcp_tshark;
