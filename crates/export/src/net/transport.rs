//! What a transport provides: connections that send messages.

use std::io;
use std::time::Duration;

/// How a transport delimits messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A byte stream: messages follow each other.
    Stream,
    /// Each message is a datagram.
    Datagram {
        /// Bytes that a message should not exceed, so that no network fragments it.
        preferred_bytes: usize,
    },
}

/// A way to reach a receiver.
pub(crate) trait Transport: Send {
    /// Returns how messages are delimited.
    fn framing(&self) -> Framing;

    /// Connects. Called on the sender's thread; resolving a name may exceed `timeout`, which bounds
    /// each attempt to connect to one address.
    ///
    /// # Errors
    /// The name does not resolve, or no address accepts a connection in time.
    fn connect(&mut self, timeout: Duration) -> io::Result<Box<dyn Connection>>;
}

/// An open connection.
pub(crate) trait Connection {
    /// Sends a whole message within `timeout`.
    ///
    /// # Errors
    /// See [`SendFault`].
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), SendFault>;

    /// Takes an error that the network has reported about an earlier message.
    fn take_error(&mut self) -> Option<io::Error> {
        None
    }

    /// Closes the connection after the last message.
    fn close(&mut self) {}
}

/// Why a message was not sent.
#[derive(Debug)]
pub(crate) enum SendFault {
    /// The connection is unusable, and none of the message was sent: send it on the next connection.
    Closed(io::Error),
    /// The connection is unusable, and the message was sent in part: a receiver may have all of its
    /// records, some of them or none.
    Broken(io::Error),
    /// The network reports that the previous message did not arrive. This message was not sent; the
    /// connection can send it.
    PreviousLost(io::Error),
    /// The message is longer than the transport allows. The connection is usable.
    TooLong,
}
