//! Application-layer inspection: reads the payloads of flows and produces an [`AppRecord`] for each.
//!
//! The flow's entry holds only an [`InspectState`], two words. While a flow can still yield
//! something, it also has a state in the bounded pool of the [`Inspector`], which is updated in
//! place. As soon as everything is known, or the flow is given up, a packet costs one look at the
//! [`InspectState`]. Texts (names, user agents and so on) are interned in a pool that all flows
//! share.
//!
//! Each protocol is a file in `protocols`, with its state, its part of the record and its columns. It
//! implements the trait `Parser`, and `protocols/mod.rs` lists it.

mod application;
mod base_state;
mod column;
mod dns_answer;
mod flow_state;
mod handshake;
mod hello;
mod inspect_state;
mod inspector;
mod limits;
pub mod message;
mod name_cache;
mod nanoseconds;
mod parser;
mod payload;
mod progress;
mod protocols;
mod query_table;
mod reassembly;
mod record;
mod services;
mod tcp;
#[cfg(test)]
mod tests;
mod text_pool;
mod udp;

pub use application::{Applications, ApplicationsError};
pub use column::{AppColumn, AppType, AppValue};
pub use dns_answer::DnsAnswer;
pub use inspect_state::InspectState;
pub use inspector::{Inspector, may_start_message};
pub use limits::InspectorLimits;
pub use name_cache::NameCounters;
pub use payload::L4Payload;
pub use protocols::{COLUMNS, dns};
pub use query_table::QueryTable;
pub use record::*;
