//! Tests of the whole command: captures, flags, signals and real links go in; records, books,
//! messages and exit statuses come out.
//!
//! Tests of live capture need root: they create network namespaces.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[cfg(feature = "dpdk")]
mod accounting;
mod analysis;
mod any_interface;
mod bad_input;
mod capture_lists;
mod captures;
mod cases;
mod command;
#[cfg(feature = "dpdk")]
mod dpdk;
mod engine_flags;
mod filters;
mod flow_reference;
mod generate;
mod hostile;
mod join;
mod lab_command;
mod live_veth;
mod manifest;
mod measurements;
mod memory;
mod models;
mod namespace;
mod outputs;
mod privileges;
mod records;
mod reference;
mod resolved_names;
mod service;
mod shared_files;
mod signals_and_pipes;
mod summary;
mod summary_text;
mod targets;
mod tcp_tshark;
mod thread_limits;
