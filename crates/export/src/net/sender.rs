//! The sender thread: connects, sends queued messages, reconnects.

use crate::net::backoff::Backoff;
use crate::net::message::Message;
use crate::net::queue::MessageQueue;
use crate::net::reporter::Reporter;
use crate::net::transport::{Connection, Framing, SendFault, Transport};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for an attempt to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Limit for a message. After it, the receiver counts as one that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the preamble is repeated over datagrams, whose receiver may have missed it.
const PREAMBLE_EVERY: Duration = Duration::from_secs(30);

/// Sends the messages of a queue.
pub(crate) struct Sender {
    pub(crate) queue: Arc<MessageQueue>,
    pub(crate) transport: Box<dyn Transport>,
    /// Sent first on each connection; may be empty.
    pub(crate) preamble: Vec<u8>,
    pub(crate) reporter: Reporter,
    pub(crate) backoff: Backoff,
}

/// A connection with its history.
struct Open {
    connection: Box<dyn Connection>,
    since: Instant,
    preamble_at: Instant,
    /// Records in the previous message, unless they were counted as lost.
    previous_records: u64,
}

impl Sender {
    /// Runs until the queue ends.
    pub(crate) fn run(mut self) {
        while let Some(mut open) = self.connect() {
            let Err(error) = self.send_messages(&mut open) else {
                self.close(&mut open);
                return;
            };
            let was_stable = self.backoff.connection_ended(open.since.elapsed());
            if was_stable {
                self.reporter.forget();
            }
            self.connection_failed(&error);
            drop(open);
            self.queue.set_disconnected();
            // A receiver that closes each connection at once must not be called in a tight loop.
            if !was_stable && !self.back_off() {
                return;
            }
        }
    }

    /// Connects; retries until it succeeds. Returns `None` when there is nothing left to send.
    fn connect(&mut self) -> Option<Open> {
        loop {
            match self.try_connect() {
                Ok(open) => return Some(open),
                Err(error) => self.connection_failed(&error),
            }
            if !self.back_off() {
                return None;
            }
        }
    }

    /// Waits before the next attempt. Returns `false` if there is nothing left to send.
    fn back_off(&mut self) -> bool {
        let delay = self.backoff.next_delay();
        self.queue.wait_to_retry(delay)
    }

    fn try_connect(&mut self) -> io::Result<Open> {
        let mut connection = self.transport.connect(CONNECT_TIMEOUT)?;
        if !self.preamble.is_empty() {
            match connection.send(&self.preamble, SEND_TIMEOUT) {
                Ok(()) => {}
                Err(SendFault::Closed(error) | SendFault::Broken(error)) => return Err(error),
                // The first message on a connection has no previous one.
                Err(SendFault::PreviousLost(error)) => return Err(error),
                Err(SendFault::TooLong) => {
                    let text =
                        "the header is longer than a datagram; use tcp:// or select fewer columns";
                    return Err(io::Error::new(ErrorKind::InvalidInput, text));
                }
            }
        }
        self.queue.set_connected();
        let now = Instant::now();
        Ok(Open {
            connection,
            since: now,
            preamble_at: now,
            previous_records: 0,
        })
    }

    fn connection_failed(&mut self, error: &io::Error) {
        let text = error.to_string();
        self.queue.count_failure(&text);
        self.reporter.failed(&text);
    }

    /// Sends messages until the end of the queue.
    ///
    /// # Errors
    /// The connection has failed.
    fn send_messages(&mut self, open: &mut Open) -> io::Result<()> {
        while let Some(message) = self.queue.next() {
            self.repeat_preamble(open);
            if let Err(error) = self.send(open, message) {
                if error.kind() == ErrorKind::TimedOut {
                    self.queue.stop_waiting();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a message and counts its records, or puts it back into the queue.
    fn send(&mut self, open: &mut Open, message: Message) -> io::Result<()> {
        loop {
            match open.connection.send(&message.bytes, SEND_TIMEOUT) {
                Ok(()) => {
                    self.queue.count_sent(message.records);
                    open.previous_records = message.records;
                    self.reporter.sent();
                    return Ok(());
                }
                Err(SendFault::PreviousLost(error)) => self.previous_lost(open, &error),
                Err(SendFault::TooLong) => {
                    self.queue.count_too_long(message.records);
                    let text = "a record is longer than a datagram and is lost; use tcp://";
                    self.queue.count_failure(text);
                    self.reporter.warn(text);
                    return Ok(());
                }
                Err(SendFault::Closed(error)) => {
                    self.queue.put_back(message);
                    return Err(error);
                }
                Err(SendFault::Broken(error)) => {
                    self.queue.count_broken(message.records);
                    return Err(error);
                }
            }
        }
    }

    /// Counts the previous message as lost.
    fn previous_lost(&mut self, open: &mut Open, error: &io::Error) {
        self.queue.count_refused(open.previous_records);
        open.previous_records = 0;
        let text = error.to_string();
        self.queue.count_failure(&text);
        self.reporter
            .warn(&format!("{text}: the receiver's port is closed"));
    }

    /// Repeats the preamble if it is due. If it fails, so does the message after it.
    fn repeat_preamble(&mut self, open: &mut Open) {
        let is_datagram = matches!(self.transport.framing(), Framing::Datagram { .. });
        if is_datagram && !self.preamble.is_empty() && open.preamble_at.elapsed() >= PREAMBLE_EVERY
        {
            open.preamble_at = Instant::now();
            if let Err(SendFault::PreviousLost(error)) =
                open.connection.send(&self.preamble, SEND_TIMEOUT)
            {
                self.previous_lost(open, &error);
            }
        }
    }

    fn close(&mut self, open: &mut Open) {
        if let Some(error) = open.connection.take_error() {
            self.previous_lost(open, &error);
        }
        open.connection.close();
        self.queue.set_disconnected();
    }
}
