//! The TCP transport.

use crate::net::endpoint::HostPort;
use crate::net::resolve::resolve;
use crate::net::stream::StreamConnection;
use crate::net::transport::{Connection, Framing, Transport};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::Duration;

/// Connects to a TCP server.
#[derive(Debug)]
pub(crate) struct Tcp(pub(crate) HostPort);

impl Transport for Tcp {
    fn framing(&self) -> Framing {
        Framing::Stream
    }

    fn connect(&mut self, timeout: Duration) -> io::Result<Box<dyn Connection>> {
        let mut fault: io::Error = ErrorKind::AddrNotAvailable.into();
        for address in resolve(&self.0)? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(socket) => {
                    // Messages are large: waiting for more (Nagle's algorithm) only delays their ends.
                    socket.set_nodelay(true)?;
                    return Ok(Box::new(StreamConnection::new(socket)));
                }
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }
}
