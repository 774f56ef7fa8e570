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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn pair() -> (StreamConnection<UnixStream>, UnixStream) {
        let (socket, peer) = UnixStream::pair().unwrap();
        (StreamConnection::new(socket), peer)
    }

    #[test]
    fn peer_that_has_closed_is_noticed_before_a_message_is_sent() {
        let (mut connection, mut peer) = pair();
        connection.send(b"first", TIMEOUT).unwrap();
        // Unread input does not hide the end of the stream.
        peer.write_all(b"hello").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let result = connection.send(b"second", TIMEOUT);
        assert!(matches!(result, Err(SendFault::Closed(_))), "{result:?}");
        drop(connection);
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"first");
    }

    #[test]
    fn peer_that_does_not_read_breaks_the_connection_in_the_middle_of_a_message() {
        let (mut connection, _peer) = pair();
        let message = vec![b'x'; 16 << 20];
        let timeout = Duration::from_millis(50);
        let result = connection.send(&message, timeout);
        let Err(SendFault::Broken(error)) = result else {
            panic!("{result:?}");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let result = connection.send(b"next", timeout);
        assert!(matches!(result, Err(SendFault::Closed(_))), "{result:?}");
    }

    #[test]
    fn slow_peer_receives_a_message_longer_than_the_buffers() {
        let (mut connection, mut peer) = pair();
        let reading = thread::spawn(move || {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).unwrap();
            received.len()
        });
        let message = vec![b'x'; 4 << 20];
        connection.send(&message, TIMEOUT).unwrap();
        connection.close();
        drop(connection);
        assert_eq!(reading.join().unwrap(), message.len());
    }
}
