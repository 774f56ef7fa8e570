//! Closed-loop traffic: TCP clients that repeatedly connect, send 512 bytes, receive them back and
//! close; and an echo server.
//!
//! ```text
//! client                         server
//!   SYN           ───────────►
//!                 ◄───────────   SYN, ACK
//!   ACK           ───────────►
//!   512 bytes     ───────────►
//!                 ◄───────────   512 bytes, ACK
//!   FIN, ACK      ───────────►
//!                 ◄───────────   FIN, ACK
//!   ACK           ───────────►
//! ```
//! The TCP implementation is minimal: no options and one data segment. Only the client has a
//! retransmission timeout, which covers losses in both directions. No code here reads a clock: the
//! caller passes the time.

mod client;
mod send_queue;
mod server;
mod tcp;

pub use client::{ClientCounts, Clients, ClientsOptions};
pub use server::{EchoServer, ServerCounts};

/// Bytes that a client sends per connection: 512, as in FloWatcher-DPDK.
pub const PAYLOAD_BYTES: usize = 512;
