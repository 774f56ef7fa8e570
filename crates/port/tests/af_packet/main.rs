//! Live capture over real interfaces: virtual cables in namespaces of their own. Needs root.
#![cfg(target_os = "linux")]

mod books;
mod frames;
mod interfaces;
mod network;
mod refusals;
mod sharing;
mod traffic;
