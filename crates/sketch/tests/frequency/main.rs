//! Sketches that estimate the weight of keys: their bounds, merges, stored states, and the traps that
//! docs/sketches.md lists.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod bounds;
mod merging;
mod states;
mod streams;
mod traps;
