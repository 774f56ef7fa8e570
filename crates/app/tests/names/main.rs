//! The names of flows in real captures, beside what tshark says of them, and on random bytes.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy knows only the test functions"
)]

mod captures;
mod tshark;
