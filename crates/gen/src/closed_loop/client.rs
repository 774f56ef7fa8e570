//! The clients: each connects from a random port, sends, waits for what it sent, closes, and begins
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

/// What clients do.
#[derive(Clone, Debug)]
pub struct ClientsOptions {
    /// How many.
    pub clients: u32,
    /// Their addresses, in turn; several clients may have one.
    pub addresses: AddressRange,
    /// Ports that they connect from, drawn anew for each connection.
    pub ports: PortRange,
    /// The address that they connect to: the first of the range.
    pub server: AddressRange,
    /// The port that they connect to.
    pub server_port: u16,
    /// After this many connections, all clients together, no more are begun.
    pub connections: Option<u64>,
    /// Without an answer for this long, what was said last is said again.
    pub timeout: Duration,
    /// After so many repetitions a connection has failed.
    pub max_retries: u8,
    /// Ethernet addresses.
    pub mac: MacAddresses,
    /// What is drawn follows from it.
    pub seed: u64,
}

/// What a client (or all together) has counted.
/// `started = completed + failed + open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Connections begun.
    pub started: u64,
    /// Connections that got everything back and were closed by both sides.
    pub completed: u64,
    /// Connections given up: reset, or never answered.
    pub failed: u64,
    /// Times that something was said again.
    pub retransmissions: u64,
    /// Bytes that came back as they were sent.
    pub echoed_bytes: u64,
    /// Bytes that came back changed.
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
    /// The first sequence number.
    initial_sequence: u32,
    /// What the server sends next.
    expected: u32,
    echoed: usize,
    retries: u8,
    /// When the present state began or was last repeated: time-outs of an older one are void.
    last_sent_ns: i64,
    counts: ClientCounts,
}

/// TCP clients over one link.
pub struct Clients {
    options: ClientsOptions,
    clients: Vec<Client>,
    /// By address and port of the client.
    by_endpoint: HashMap<([u8; 16], u16), u32>,
    /// Time-outs in the order of their times, since all have one length.
    timers: VecDeque<(i64, u32)>,
    queue: SendQueue,
    random: Random,
    connections_left: u64,
    /// Clients that have no connection, to begin when there is room.
    idle: VecDeque<u32>,
    received: u64,
}

/// Segments that wait in the outbox before clients begin new connections.
const OUTBOX_MAX: usize = 4096;

/// Ports that are drawn before a client has to wait for a free one.
const DRAWS: u32 = 64;

const CLIENT_USE: u64 = 0x636c_6965;

impl Clients {
    /// Clients without connections.
    ///
    /// # Errors
    /// No clients, two families, or more clients than there are addresses and ports.
    pub fn new(options: ClientsOptions) -> Result<Self, GeneratorError> {
        if options.clients == 0 {
            return Err(GeneratorError::new("at least one client"));
        }
        if options.addresses.version() != options.server.version() {
            return Err(GeneratorError::new(format!(
                "clients at {} and server at {}: two families",
                options.addresses, options.server
            )));
        }
        let ends = options.addresses.used_count() * u128::from(options.ports.count());
        // With half of them taken a free one is found soon.
        if ends < 2 * u128::from(options.clients) {
            return Err(GeneratorError::new(format!(
                "{} clients need twice as many addresses and ports; widen --src or --sport",
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
            random: Random::new(options.seed, CLIENT_USE),
            connections_left: options.connections.unwrap_or(u64::MAX),
            idle: (0..options.clients).collect(),
            received: 0,
            options,
        })
    }

    /// Frames came.
    pub fn receive(&mut self, burst: &Burst<'_>, now_ns: i64) {
        for frame in burst.frames {
            if let Some(segment) = TcpSegment::parse(burst.link, frame.bytes) {
                let end = (segment.key.destination, segment.key.destination_port);
                if let Some(&number) = self.by_endpoint.get(&end)
                    && self.clients[number as usize].key.reversed() == segment.key
                {
                    self.received += 1;
                    self.handle_segment(number, &segment, now_ns);
                }
            }
        }
    }

    /// Begins connections, says again what was lost, sends what is to be said. Until `draining` new
    /// connections follow the old ones.
    ///
    /// # Errors
    /// Those of the link.
    pub fn send(
        &mut self,
        sink: &mut dyn Transmit,
        now_ns: i64,
        draining: bool,
    ) -> Result<(), PortError> {
        self.handle_timeouts(now_ns);
        while !draining && self.connections_left > 0 && self.queue.len() < OUTBOX_MAX {
            let Some(number) = self.idle.pop_front() else {
                break;
            };
            if !self.connect(number, now_ns) {
                // No free port was found: next time.
                self.idle.push_back(number);
                break;
            }
            self.connections_left -= 1;
        }
        self.queue.flush(sink, now_ns)
    }

    /// Connections that are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.by_endpoint.len()
    }

    /// Whether all connections that were to be made are over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connections_left == 0 && self.by_endpoint.is_empty() && self.queue.len() == 0
    }

    /// What each client has counted.
    pub fn per_client(&self) -> impl Iterator<Item = ClientCounts> {
        self.clients.iter().map(|client| client.counts)
    }

    /// All clients together.
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

    /// Segments sent and received.
    #[must_use]
    pub fn segments(&self) -> (u64, u64) {
        (self.queue.sent(), self.received)
    }

    fn connect(&mut self, number: u32, now_ns: i64) -> bool {
        let address = self
            .options
            .addresses
            .address(u128::from(number) % self.options.addresses.used_count());
        let mut port = None;
        for _ in 0..DRAWS {
            let drawn = self.options.ports.pick(self.random.bits());
            if !self.by_endpoint.contains_key(&(address, drawn)) {
                port = Some(drawn);
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

    /// A new state: what is to be said in it is said.
    fn enter_state(&mut self, number: u32, state: ClientState, now_ns: i64) {
        self.clients[number as usize].state = state;
        self.clients[number as usize].retries = 0;
        self.send_for_state(number, now_ns);
    }

    /// Says what the state asks for, and waits for an answer.
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
                let room = sent.len() - client.echoed;
                let payload = &segment.payload[..segment.payload.len().min(room)];
                let right = payload
                    .iter()
                    .zip(&sent[client.echoed..])
                    .filter(|(came, sent)| came == sent)
                    .count();
                client.counts.echoed_bytes += right as u64;
                client.counts.wrong_bytes += (segment.payload.len() - right) as u64;
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

    /// The connection is over.
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

    fn handle_timeouts(&mut self, now_ns: i64) {
        let timeout_ns = i64::try_from(self.options.timeout.as_nanos()).unwrap_or(i64::MAX);
        while let Some(&(at, number)) = self.timers.front()
            && at <= now_ns
        {
            self.timers.pop_front();
            let client = &mut self.clients[number as usize];
            // The state has changed since, and has a timer of its own.
            if client.state == ClientState::Idle || client.last_sent_ns.saturating_add(timeout_ns) != at {
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

/// What a client sends: other bytes for each connection.
fn payload_of(number: u32, first: u32) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    let mut word = number ^ first;
    for chunk in payload.chunks_exact_mut(4) {
        word = word.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    payload
}
