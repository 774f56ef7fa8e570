//! Inspection of real captures, compared with the output of tshark.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, but clippy knows only the test functions"
)]

mod captures;
mod dtls;
mod ssh;
mod tshark;
