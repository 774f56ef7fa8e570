//! Connections over stream sockets.

use crate::net::transport::{Connection, SendFault};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes from the peer that are read at once, to be discarded.
const DISCARD_BYTES: usize = 4096;

/// Reads per message, so that a peer that never stops sending does not delay records.
const DISCARDS_MAX: usize = 16;

/// The operations that TCP and Unix streams share.
pub(crate) trait StreamSocket: Read + Write {
    /// See [`TcpStream::set_nonblocking`].
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;

    /// See [`TcpStream::set_write_timeout`].
    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()>;

    /// Ends the direction to the peer.
    fn shutdown_write(&self) -> io::Result<()>;
}

impl StreamSocket for TcpStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.set_nonblocking(nonblocking)
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(timeout))
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl StreamSocket for UnixStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.set_nonblocking(nonblocking)
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(timeout))
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A connection over a stream socket.
#[derive(Debug)]
pub(crate) struct StreamConnection<S> {
    socket: S,
}

impl<S: StreamSocket> StreamConnection<S> {
    pub(crate) const fn new(socket: S) -> Self {
        Self { socket }
    }

    /// Discards what the peer has sent.
    ///
    /// # Errors
    /// The peer has closed the connection, or it is broken.
    fn discard_input(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        let result = self.discard_available();
        self.socket.set_nonblocking(false)?;
        result
    }

    fn discard_available(&mut self) -> io::Result<()> {
        let mut bytes = [0; DISCARD_BYTES];
        for _ in 0..DISCARDS_MAX {
            match self.socket.read(&mut bytes) {
                Ok(0) => {
                    let text = "the receiver has closed the connection";
                    return Err(io::Error::new(ErrorKind::ConnectionAborted, text));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes `message`, and adds the bytes that the system accepts to `accepted`.
    fn write(&mut self, message: &[u8], timeout: Duration, accepted: &mut usize) -> io::Result<()> {
        let timed_out = || {
            let text = format!(
                "the receiver has accepted nothing for {} s",
                timeout.as_secs()
            );
            io::Error::new(ErrorKind::TimedOut, text)
        };
        let deadline = Instant::now() + timeout;
        while let Some(rest) = message.get(*accepted..).filter(|rest| !rest.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out());
            }
            self.socket.set_write_timeout(left)?;
            match self.socket.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => *accepted += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Where the deadline has not passed, the loop continues.
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl<S: StreamSocket> Connection for StreamConnection<S> {
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), SendFault> {
        // The system accepts one more write after the peer has closed, and then discards it: a message
        // would be lost without an error. So look for the end of the peer's stream first.
        self.discard_input().map_err(SendFault::Closed)?;
        let mut accepted = 0;
        match self.write(message, timeout, &mut accepted) {
            Ok(()) => Ok(()),
            Err(error) if accepted == 0 => Err(SendFault::Closed(error)),
            Err(error) => Err(SendFault::Broken(error)),
        }
    }

    fn close(&mut self) {
        // Unread input would make the system reset the connection, and the peer could lose what it has
        // not read yet. A connection that is broken already has nothing to save.
        let _ = self.socket.shutdown_write();
        let _ = self.discard_input();
    }
}
