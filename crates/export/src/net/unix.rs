//! The transport over stream sockets in the file system.

use crate::net::stream::StreamConnection;
use crate::net::transport::{Connection, Framing, Transport};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Connects to a Unix stream socket.
#[derive(Debug)]
pub(crate) struct Unix(pub(crate) PathBuf);

impl Transport for Unix {
    fn framing(&self) -> Framing {
        Framing::Stream
    }

    fn connect(&mut self, _: Duration) -> io::Result<Box<dyn Connection>> {
        // The system has no timeout here: it waits while the backlog of the listener is full. The
        // queue and the end of the run do not wait for this thread.
        let socket = UnixStream::connect(&self.0)?;
        Ok(Box::new(StreamConnection::new(socket)))
    }
}
