//! TCP flows: from segments to the bytes that parsers read.

mod connection;
mod flow;
mod state;
mod stream;

pub(crate) use state::{L4Header, TcpState};
pub(crate) use stream::may_start_message;
