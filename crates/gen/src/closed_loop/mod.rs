//! A closed loop: TCP clients that connect, send 512 bytes, get them back, and close, again and again;
//! and the server that sends them back.
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
//! A minimal TCP: no options, one segment of data, the client's time-out repeats what was lost on the
//! way there or back. Nothing here reads a clock: whoever turns it says what time it is.

mod client;
mod send_queue;
mod server;
mod tcp;

pub use client::{ClientCounts, Clients, ClientsOptions};
pub use server::{EchoServer, ServerCounts};

/// Bytes that a client sends, as the paper's do.
pub const PAYLOAD_BYTES: usize = 512;
