//! The whole command from the outside: captures, flags, signals and real links go in; records,
//! books, messages and exit statuses come out. Each file is named after what it pins.
//!
//! Tests of live capture need root: they make network namespaces.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod analysis;
mod bad_input;
mod captures;
mod command;
#[cfg(feature = "dpdk")]
mod dpdk;
mod engine_flags;
mod every_flow;
mod filters;
mod generate;
mod hostile;
#[cfg(feature = "dpdk")]
mod identity;
mod laboratory;
mod live_veth;
mod manifest;
mod models;
mod namespace;
mod outputs;
mod records;
mod reference;
mod resolved_names;
mod signals_and_pipes;
mod summary;
mod targets;
mod tcp_tshark;
