//! Live capture on veth pairs, each test in its own network namespace. Needs root.
#![cfg(target_os = "linux")]

mod accounting;
mod fanout;
mod frames;
mod interfaces;
mod network;
mod open_errors;
mod traffic;
