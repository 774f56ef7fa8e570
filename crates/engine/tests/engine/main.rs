//! The engine as a whole, over ports in memory: every model, every way of hashing and of numbering.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod acquisition;
mod faults;
mod gap;
mod intake;
mod models;
mod overhearing;
mod packet_level;
mod rss;
mod runs;
