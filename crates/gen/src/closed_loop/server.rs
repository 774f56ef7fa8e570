//! The echo server: accepts connections, echoes data, closes.

use super::PAYLOAD_BYTES;
use super::send_queue::SendQueue;
use super::tcp::TcpSegment;
use crate::error::GeneratorError;
use crate::fields::AddressRange;
use crate::frame::MacAddresses;
use hw::random::mix;
use port::frame::Burst;
use port::{PortError, Transmit};
use std::collections::HashMap;
use wire::FlowKey;
use wire::tcp::flag;

/// Idle timeout of connections: longer than clients retransmit.
const IDLE_NS: i64 = 30_000_000_000;

/// Interval between two sweeps of the connections. A server that was not called for longer than this
/// is considered suspended.
const SWEEP_NS: i64 = 1_000_000_000;

/// Maximum number of open connections.
const CONNECTIONS_MAX: usize = 2_000_000;

/// Counters of [`EchoServer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed by both sides.
    pub closed: u64,
    /// Connections that reached the idle timeout.
    pub timed_out: u64,
    /// SYNs ignored because of too many connections.
    pub refused: u64,
    /// Bytes echoed.
    pub echoed_bytes: u64,
    /// Segments received.
    pub received: u64,
    /// Retransmissions among the received segments.
    pub retransmissions: u64,
    /// Segments that belong to no connection. Those with data or FIN are answered with a reset.
    pub unexpected: u64,
    /// Segments sent.
    pub sent: u64,
}

struct Connection {
    /// The next sequence number of the client.
    expected: u32,
    /// The next sequence number of the server.
    next: u32,
    is_closing: bool,
    /// When the last segment was received.
    last_ns: i64,
}

/// A TCP server that echoes data.
pub struct EchoServer {
    addresses: Option<AddressRange>,
    port: u16,
    connections: HashMap<FlowKey, Connection>,
    queue: SendQueue,
    counts: ServerCounts,
    last_sweep_ns: i64,
    /// When the server was last called.
    last_call_ns: i64,
    /// When the server was first called again after it had been suspended.
    resumed_ns: i64,
}

impl EchoServer {
    /// Creates a server that listens on `port` at `addresses`, or at any address if `None`. Answers are
    /// sent from the destination address of the request.
    ///
    /// # Errors
    /// If the RSS key is too short.
    pub fn new(
        addresses: Option<AddressRange>,
        port: u16,
        mac: MacAddresses,
    ) -> Result<Self, GeneratorError> {
        Ok(Self {
            addresses,
            port,
            connections: HashMap::new(),
            queue: SendQueue::new(mac, &wire::toeplitz::MICROSOFT_KEY)?,
            counts: ServerCounts::default(),
            last_sweep_ns: 0,
            last_call_ns: 0,
            resumed_ns: 0,
        })
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        ServerCounts {
            sent: self.queue.sent(),
            ..self.counts
        }
    }

    /// The number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Processes received frames.
    pub fn receive(&mut self, burst: &Burst<'_>, now_ns: i64) {
        for frame in burst.frames {
            if let Some(segment) = TcpSegment::parse(burst.link, frame.bytes) {
                self.handle_segment(&segment, now_ns);
            }
        }
        self.sweep(now_ns);
    }

    /// Removes idle connections. Call it when no frames are received; [`EchoServer::receive`] does the
    /// same.
    pub fn sweep(&mut self, now_ns: i64) {
        // Segments received while the server was suspended may not be processed yet, so all idle timeouts
        // restart.
        if now_ns - self.last_call_ns > SWEEP_NS {
            self.resumed_ns = now_ns;
        }
        self.last_call_ns = now_ns;
        if now_ns - self.last_sweep_ns >= SWEEP_NS {
            self.last_sweep_ns = now_ns;
            let old_count = self.connections.len();
            let resumed_ns = self.resumed_ns;
            self.connections
                .retain(|_, connection| now_ns - connection.last_ns.max(resumed_ns) < IDLE_NS);
            self.counts.timed_out += (old_count - self.connections.len()) as u64;
        }
    }

    /// Sends queued segments.
    ///
    /// # Errors
    /// If the link fails.
    pub fn send(&mut self, sink: &mut dyn Transmit, now_ns: i64) -> Result<(), PortError> {
        self.queue.flush(sink, now_ns)
    }

    fn handle_segment(&mut self, segment: &TcpSegment<'_>, now_ns: i64) {
        let is_for_us = segment.key.destination_port == self.port
            && self
                .addresses
                .is_none_or(|range| range.contains(segment.key.destination_address()));
        if !is_for_us {
            return;
        }
        self.counts.received += 1;
        if segment.has(flag::RST) {
            self.connections.remove(&segment.key);
            return;
        }
        if segment.has(flag::SYN) {
            self.accept(segment, now_ns);
            return;
        }
        let Some(connection) = self.connections.get_mut(&segment.key) else {
            self.counts.unexpected += 1;
            // A pure ACK needs no answer: it may be a retransmission of the last one.
            if !segment.payload.is_empty() || segment.has(flag::FIN) {
                self.queue.push(&TcpSegment {
                    key: segment.key.reversed(),
                    sequence: segment.acknowledgement,
                    acknowledgement: 0,
                    flags: flag::RST,
                    payload: &[],
                });
            }
            return;
        };
        connection.last_ns = now_ns;
        let payload = &segment.payload[..segment.payload.len().min(PAYLOAD_BYTES)];
        let is_new = segment.sequence == connection.expected;
        let consumes_numbers = segment.end() != segment.sequence;
        if consumes_numbers && !is_new && segment.end() != connection.expected {
            // Too old or too new to answer.
            self.counts.retransmissions += 1;
            return;
        }
        if consumes_numbers && !is_new {
            self.counts.retransmissions += 1;
        }
        if !payload.is_empty() {
            let length = payload.len() as u32;
            if is_new {
                connection.expected = connection.expected.wrapping_add(length);
                self.counts.echoed_bytes += u64::from(length);
            } else {
                // The answer was lost: send it again.
                connection.next = connection.next.wrapping_sub(length);
            }
            self.queue.push(&TcpSegment {
                key: segment.key.reversed(),
                sequence: connection.next,
                acknowledgement: connection.expected,
                flags: flag::ACK | flag::PSH,
                payload,
            });
            connection.next = connection.next.wrapping_add(length);
        }
        if segment.has(flag::FIN) {
            if is_new {
                connection.expected = connection.expected.wrapping_add(1);
            }
            connection.is_closing = true;
            self.queue.push(&TcpSegment {
                key: segment.key.reversed(),
                sequence: connection.next,
                acknowledgement: connection.expected,
                flags: flag::FIN | flag::ACK,
                payload: &[],
            });
        } else if connection.is_closing
            && segment.acknowledgement == connection.next.wrapping_add(1)
        {
            self.counts.closed += 1;
            self.connections.remove(&segment.key);
        }
    }

    fn accept(&mut self, segment: &TcpSegment<'_>, now_ns: i64) {
        let expected = segment.sequence.wrapping_add(1);
        // A retransmitted SYN gets the same initial sequence number, so that an answer in flight stays valid.
        let initial_sequence =
            mix(u64::from(segment.sequence) ^ u64::from(segment.key.source_port) << 32) as u32;
        let known = self.connections.get(&segment.key);
        if known.is_some_and(|connection| connection.expected == expected) {
            self.counts.retransmissions += 1;
        } else if self.connections.len() >= CONNECTIONS_MAX {
            self.counts.refused += 1;
            return;
        } else {
            self.counts.accepted += 1;
        }
        self.connections.insert(
            segment.key,
            Connection {
                expected,
                next: initial_sequence.wrapping_add(1),
                is_closing: false,
                last_ns: now_ns,
            },
        );
        self.queue.push(&TcpSegment {
            key: segment.key.reversed(),
            sequence: initial_sequence,
            acknowledgement: expected,
            flags: flag::SYN | flag::ACK,
            payload: &[],
        });
    }
}
