//! Tests of the whole engine over ports in memory: all models, hash functions and packet numberings.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod acquisition;
mod dns_feed;
mod faults;
mod gap;
mod measurements;
mod models;
mod packet_level;
mod parser;
mod rss;
mod runs;
