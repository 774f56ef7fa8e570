//! What the crate promises, held against captures, other programs' answers and arbitrary bytes.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy knows only the test functions"
)]

mod agreement;
mod all_captures;
mod captures;
mod chunks;
mod community_id;
mod flows;
mod malformed;
mod mix;
mod properties;
mod tunnels;
