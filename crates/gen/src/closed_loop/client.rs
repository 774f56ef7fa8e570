//! The clients: each connects from a random port, sends data, waits for the echo, closes, and starts
//! again.

use super::PAYLOAD_BYTES;
use super::send_queue::SendQueue;
use super::tcp::TcpSegment;
use crate::error::GeneratorError;
use crate::fields::{AddressRange, PortRange};
use crate::frame::MacAddresses;
use hw::random::Random;
use port::frame::Burst;
use port::{PortError, Transmit};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// The options of [`Clients`].
#[derive(Clone, Debug)]
pub struct ClientsOptions {
    /// Number of clients.
    pub clients: u32,
    /// Addresses of the clients, assigned round robin. Several clients can have the same address.
    pub addresses: AddressRange,
    /// Source ports, selected randomly for each connection.
    pub ports: PortRange,
    /// Address of the server: the first of the range.
    pub server: AddressRange,
    /// Port of the server.
    pub server_port: u16,
    /// Maximum number of connections of all clients together; `None` for no limit.
    pub connections: Option<u64>,
    /// Retransmission timeout.
    pub timeout: Duration,
    /// Maximum number of retransmissions of a segment. After that, the connection fails.
    pub max_retries: u8,
    /// Ethernet addresses.
    pub mac: MacAddresses,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Counters of one client or of all clients.
/// `started = completed + failed + open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Connections started.
    pub started: u64,
    /// Connections that received the complete echo and were closed by both sides.
    pub completed: u64,
    /// Connections that were reset or timed out.
    pub failed: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Bytes echoed correctly.
    pub echoed_bytes: u64,
    /// Bytes echoed incorrectly.
    pub wrong_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientState {
    Idle,
    Connecting,
    Sending,
    Closing,
}

struct Client {
    state: ClientState,
    key: FlowKey,
    /// Initial sequence number.
    initial_sequence: u32,
    /// The next sequence number of the server.
    expected: u32,
    echoed: usize,
    retries: u8,
    /// When the current state last sent a segment. Identifies the only valid timeout of this client.
    last_sent_ns: i64,
    counts: ClientCounts,
}

/// TCP clients on one link.
pub struct Clients {
    options: ClientsOptions,
    clients: Vec<Client>,
    /// Client number by address and port of the client.
    by_endpoint: HashMap<([u8; 16], u16), u32>,
    /// Timeouts and client numbers. They are in the order of time, because all have the same duration.
    timers: VecDeque<(i64, u32)>,
    queue: SendQueue,
    random: Random,
    connections_left: u64,
    /// Clients without a connection.
    idle: VecDeque<u32>,
    received: u64,
}

/// Clients start no new connections if this many segments are queued.
const QUEUE_MAX: usize = 4096;

/// Maximum number of random ports tried to find a free one.
const PORT_ATTEMPTS: u32 = 64;

/// Stream of random numbers.
const CLIENT_STREAM: u64 = 0x636c_6965;

impl Clients {
    /// Creates clients without connections.
    ///
    /// # Errors
    /// If there are no clients, the address families differ, or there are too few addresses and ports.
    pub fn new(options: ClientsOptions) -> Result<Self, GeneratorError> {
        if options.clients == 0 {
            return Err(GeneratorError::new("at least one client is required"));
        }
        if options.addresses.version() != options.server.version() {
            return Err(GeneratorError::new(format!(
                "clients at {} and server at {} have different address families",
                options.addresses, options.server
            )));
        }
        let endpoints = options.addresses.used_count() * u128::from(options.ports.count());
        // If at most half of the endpoints are in use, a random one is free with a chance of 1/2.
        if endpoints < 2 * u128::from(options.clients) {
            return Err(GeneratorError::new(format!(
                "{} clients require at least twice that number of endpoints (address and port): widen --src or --sport",
                options.clients
            )));
        }
        let clients = (0..options.clients)
            .map(|_| Client {
                state: ClientState::Idle,
                key: FlowKey::default(),
                initial_sequence: 0,
                expected: 0,
                echoed: 0,
                retries: 0,
                last_sent_ns: 0,
                counts: ClientCounts::default(),
            })
            .collect();
        Ok(Self {
            clients,
            by_endpoint: HashMap::new(),
            timers: VecDeque::new(),
            queue: SendQueue::new(options.mac, &wire::toeplitz::MICROSOFT_KEY)?,
            random: Random::new(options.seed, CLIENT_STREAM),
            connections_left: options.connections.unwrap_or(u64::MAX),
            idle: (0..options.clients).collect(),
            received: 0,
            options,
        })
    }

    /// Processes received frames.
    pub fn receive(&mut self, burst: &Burst<'_>, now_ns: i64) {
        for frame in burst.frames {
            if let Some(segment) = TcpSegment::parse(burst.link, frame.bytes) {
                let endpoint = (segment.key.destination, segment.key.destination_port);
                if let Some(&number) = self.by_endpoint.get(&endpoint)
                    && self.clients[number as usize].key.reversed() == segment.key
                {
                    self.received += 1;
                    self.handle_segment(number, &segment, now_ns);
                }
            }
        }
    }

    /// Retransmits after timeouts, starts connections unless `draining`, and sends queued segments.
    ///
    /// # Errors
    /// If the link fails.
    pub fn send(
        &mut self,
        sink: &mut dyn Transmit,
        now_ns: i64,
        draining: bool,
    ) -> Result<(), PortError> {
        self.handle_timeouts(now_ns);
        while !draining && self.connections_left > 0 && self.queue.len() < QUEUE_MAX {
            let Some(number) = self.idle.pop_front() else {
                break;
            };
            if !self.connect(number, now_ns) {
                // No free port was found: try again in the next call.
                self.idle.push_back(number);
                break;
            }
            self.connections_left -= 1;
        }
        self.queue.flush(sink, now_ns)
    }

    /// The number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.by_endpoint.len()
    }

    /// Whether all connections have ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connections_left == 0 && self.by_endpoint.is_empty() && self.queue.len() == 0
    }

    /// The counters of each client.
    pub fn per_client(&self) -> impl Iterator<Item = ClientCounts> {
        self.clients.iter().map(|client| client.counts)
    }

    /// The counters of all clients together.
    #[must_use]
    pub fn counts(&self) -> ClientCounts {
        self.per_client()
            .fold(ClientCounts::default(), |sum, counts| ClientCounts {
                started: sum.started + counts.started,
                completed: sum.completed + counts.completed,
                failed: sum.failed + counts.failed,
                retransmissions: sum.retransmissions + counts.retransmissions,
                echoed_bytes: sum.echoed_bytes + counts.echoed_bytes,
                wrong_bytes: sum.wrong_bytes + counts.wrong_bytes,
            })
    }

    /// The numbers of segments sent and received.
    #[must_use]
    pub fn segments(&self) -> (u64, u64) {
        (self.queue.sent(), self.received)
    }

    /// Starts a connection. Returns false if no free port was found.
    fn connect(&mut self, number: u32, now_ns: i64) -> bool {
        let address = self
            .options
            .addresses
            .address(u128::from(number) % self.options.addresses.used_count());
        let mut port = None;
        for _ in 0..PORT_ATTEMPTS {
            let random_port = self.options.ports.pick(self.random.bits());
            if !self.by_endpoint.contains_key(&(address, random_port)) {
                port = Some(random_port);
                break;
            }
        }
        let Some(port) = port else {
            return false;
        };
        self.by_endpoint.insert((address, port), number);
        let client = &mut self.clients[number as usize];
        client.key = FlowKey {
            version: self.options.server.version(),
            protocol: ip_protocol::TCP,
            source: address,
            destination: self.options.server.address(0),
            source_port: port,
            destination_port: self.options.server_port,
            vlan: [0; 2],
        };
        client.initial_sequence = self.random.bits() as u32;
        client.echoed = 0;
        client.retries = 0;
        client.counts.started += 1;
        self.enter_state(number, ClientState::Connecting, now_ns);
        true
    }

    /// Changes the state and sends its segment.
    fn enter_state(&mut self, number: u32, state: ClientState, now_ns: i64) {
        self.clients[number as usize].state = state;
        self.clients[number as usize].retries = 0;
        self.send_for_state(number, now_ns);
    }

    /// Sends the segment of the current state and starts the timeout.
    fn send_for_state(&mut self, number: u32, now_ns: i64) {
        let client = &mut self.clients[number as usize];
        let payload = payload_of(number, client.initial_sequence);
        let data_at = client.initial_sequence.wrapping_add(1);
        let (sequence, flags, payload): (u32, u8, &[u8]) = match client.state {
            ClientState::Idle => return,
            ClientState::Connecting => (client.initial_sequence, flag::SYN, &[]),
            ClientState::Sending => (data_at, flag::ACK | flag::PSH, &payload),
            ClientState::Closing => (
                data_at.wrapping_add(PAYLOAD_BYTES as u32),
                flag::FIN | flag::ACK,
                &[],
            ),
        };
        let acknowledgement = match client.state {
            ClientState::Connecting => 0,
            _ => client.expected,
        };
        client.last_sent_ns = now_ns;
        let segment = TcpSegment {
            key: client.key,
            sequence,
            acknowledgement,
            flags,
            payload,
        };
        self.queue.push(&segment);
        let timeout_ns = i64::try_from(self.options.timeout.as_nanos()).unwrap_or(i64::MAX);
        self.timers
            .push_back((now_ns.saturating_add(timeout_ns), number));
    }

    /// Sends an ACK without data.
    fn acknowledge(&mut self, number: u32, sequence: u32) {
        let client = &self.clients[number as usize];
        let segment = TcpSegment {
            key: client.key,
            sequence,
            acknowledgement: client.expected,
            flags: flag::ACK,
            payload: &[],
        };
        self.queue.push(&segment);
    }

    /// Processes a segment from the server.
    fn handle_segment(&mut self, number: u32, segment: &TcpSegment<'_>, now_ns: i64) {
        let client = &mut self.clients[number as usize];
        if segment.has(flag::RST) {
            self.finish(number, false);
            return;
        }
        let data_at = client.initial_sequence.wrapping_add(1);
        let data_end = data_at.wrapping_add(PAYLOAD_BYTES as u32);
        match client.state {
            ClientState::Connecting if segment.has(flag::SYN | flag::ACK) => {
                if segment.acknowledgement != data_at {
                    return;
                }
                client.expected = segment.end();
                self.acknowledge(number, data_at);
                self.enter_state(number, ClientState::Sending, now_ns);
            }
            ClientState::Sending
                if segment.sequence == client.expected && !segment.payload.is_empty() =>
            {
                let sent = payload_of(number, client.initial_sequence);
                let missing = sent.len() - client.echoed;
                let payload = &segment.payload[..segment.payload.len().min(missing)];
                let correct = payload
                    .iter()
                    .zip(&sent[client.echoed..])
                    .filter(|(received, sent)| received == sent)
                    .count();
                client.counts.echoed_bytes += correct as u64;
                client.counts.wrong_bytes += (segment.payload.len() - correct) as u64;
                client.echoed += payload.len();
                client.expected = segment.end();
                if client.echoed == PAYLOAD_BYTES {
                    self.enter_state(number, ClientState::Closing, now_ns);
                } else {
                    self.acknowledge(number, data_end);
                }
            }
            ClientState::Closing
                if segment.has(flag::FIN | flag::ACK)
                    && segment.sequence == client.expected
                    && segment.acknowledgement == data_end.wrapping_add(1) =>
            {
                client.expected = segment.end();
                self.acknowledge(number, data_end.wrapping_add(1));
                self.finish(number, true);
            }
            _ => {}
        }
    }

    /// Ends the connection.
    fn finish(&mut self, number: u32, completed: bool) {
        let client = &mut self.clients[number as usize];
        client.state = ClientState::Idle;
        if completed {
            client.counts.completed += 1;
        } else {
            client.counts.failed += 1;
        }
        self.by_endpoint
            .remove(&(client.key.source, client.key.source_port));
        self.idle.push_back(number);
    }

    /// Retransmits, or ends the connection if the retransmissions are exhausted.
    fn handle_timeouts(&mut self, now_ns: i64) {
        let timeout_ns = i64::try_from(self.options.timeout.as_nanos()).unwrap_or(i64::MAX);
        while let Some(&(at, number)) = self.timers.front()
            && at <= now_ns
        {
            self.timers.pop_front();
            let client = &mut self.clients[number as usize];
            // The client has sent another segment since, which has its own timeout.
            if client.state == ClientState::Idle
                || client.last_sent_ns.saturating_add(timeout_ns) != at
            {
                continue;
            }
            if client.retries >= self.options.max_retries {
                self.finish(number, false);
                continue;
            }
            client.retries += 1;
            client.counts.retransmissions += 1;
            self.send_for_state(number, now_ns);
        }
    }
}

/// The payload of a connection, which differs between connections.
fn payload_of(number: u32, first: u32) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    let mut word = number ^ first;
    for chunk in payload.chunks_exact_mut(4) {
        word = word.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    payload
}
