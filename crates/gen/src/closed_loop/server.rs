//! The server: accepts, sends back, closes.

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

/// A connection without a packet for this long is forgotten: longer than clients repeat what they
/// said.
const IDLE_NS: i64 = 30_000_000_000;

/// How often connections are looked at; and the server that is not called for longer than this has
/// been away.
const SWEEP_NS: i64 = 1_000_000_000;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 2_000_000;

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Connections that a SYN began.
    pub accepted: u64,
    /// Those whose last acknowledgement came.
    pub closed: u64,
    /// Those forgotten before, for want of packets.
    pub timed_out: u64,
    /// SYNs turned away, there being too many connections.
    pub refused: u64,
    /// Bytes sent back.
    pub echoed_bytes: u64,
    /// Segments received.
    pub received: u64,
    /// Of these, segments that had been received before.
    pub retransmissions: u64,
    /// Segments of no connection, answered with a reset.
    pub unexpected: u64,
    /// Segments sent.
    pub sent: u64,
}

struct Connection {
    /// What the client sends next.
    expected: u32,
    /// What is sent next.
    next: u32,
    is_closing: bool,
    last_ns: i64,
}

/// Answers whoever connects to its addresses and port.
pub struct EchoServer {
    addresses: Option<AddressRange>,
    port: u16,
    connections: HashMap<FlowKey, Connection>,
    queue: SendQueue,
    counts: ServerCounts,
    last_sweep_ns: i64,
    /// When it was last called.
    last_call_ns: i64,
    /// When it came back after it had been away.
    resumed_ns: i64,
}

impl EchoServer {
    /// Answers at `port` of `addresses`, or of any address. (Whoever the packet was for is the
    /// sender of the answer.)
    ///
    /// # Errors
    /// Too short a key.
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

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        ServerCounts {
            sent: self.queue.sent(),
            ..self.counts
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Frames came.
    pub fn receive(&mut self, burst: &Burst<'_>, now_ns: i64) {
        for frame in burst.frames {
            if let Some(segment) = TcpSegment::parse(burst.link, frame.bytes) {
                self.handle_segment(&segment, now_ns);
            }
        }
        self.sweep(now_ns);
    }

    /// Forgets connections without packets. To be called where no frames came, as
    /// [`EchoServer::receive`] is where some did.
    pub fn sweep(&mut self, now_ns: i64) {
        // What came while it was away may not be read yet: connections have all of their time anew.
        if now_ns - self.last_call_ns > SWEEP_NS {
            self.resumed_ns = now_ns;
        }
        self.last_call_ns = now_ns;
        if now_ns - self.last_sweep_ns >= SWEEP_NS {
            self.last_sweep_ns = now_ns;
            let before = self.connections.len();
            let back_ns = self.resumed_ns;
            self.connections
                .retain(|_, connection| now_ns - connection.last_ns.max(back_ns) < IDLE_NS);
            self.counts.timed_out += (before - self.connections.len()) as u64;
        }
    }

    /// Sends what is to be said.
    ///
    /// # Errors
    /// Those of the link.
    pub fn send(&mut self, sink: &mut dyn Transmit, now_ns: i64) -> Result<(), PortError> {
        self.queue.flush(sink, now_ns)
    }

    fn handle_segment(&mut self, segment: &TcpSegment<'_>, now_ns: i64) {
        let is_ours = segment.key.destination_port == self.port
            && self
                .addresses
                .is_none_or(|range| range.contains(segment.key.destination_address()));
        if !is_ours {
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
            // An acknowledgement alone asks for nothing: it may be the last one, repeated.
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
        let takes_room = segment.end() != segment.sequence;
        if takes_room && !is_new && segment.end() != connection.expected {
            // Before or behind what can be answered.
            self.counts.retransmissions += 1;
            return;
        }
        if takes_room && !is_new {
            self.counts.retransmissions += 1;
        }
        if !payload.is_empty() {
            let length = payload.len() as u32;
            if is_new {
                connection.expected = connection.expected.wrapping_add(length);
                self.counts.echoed_bytes += u64::from(length);
            } else {
                // The answer was lost: it is given again.
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
        // One that repeats has the same number, so that an answer on its way stays right.
        let first =
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
                next: first.wrapping_add(1),
                is_closing: false,
                last_ns: now_ns,
            },
        );
        self.queue.push(&TcpSegment {
            key: segment.key.reversed(),
            sequence: first,
            acknowledgement: expected,
            flags: flag::SYN | flag::ACK,
            payload: &[],
        });
    }
}
