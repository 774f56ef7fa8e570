//! QUIC connections: the ClientHello inside the client's Initial packets, connection ids, and round
//! trips by the handshake and by the spin bit.

use super::record::{Cut, QuicRecord};
use super::state::{ConnectionId, Flow, QuicState, TlsState};
use super::{Names, Segment};
use std::fmt::Write as _;
use wire::app::quic::initial::Sender;
use wire::app::quic::{self, InitialKeys, Kind, LongPacket, Version, crypto_frames};
use wire::app::tls::{self, ClientHello, Transport, handshake};

/// Packets in a datagram that are looked at (RFC 9000 section 12.2).
const COALESCED_MAX: usize = 6;

/// Initial packets that may fail to open before a flow is given up.
const FAILURES_MAX: u8 = 8;

/// The spin bit of a short header (RFC 9000 section 17.3.1).
const SPIN: u8 = 0x20;

impl Names {
    /// Reads a datagram; false where the flow is given up.
    pub(super) fn read_quic(&mut self, flow: &mut Flow, segment: &Segment<'_>) -> bool {
        let Some(&state) = self.quic.get(flow.other) else {
            return false;
        };
        let mut state = state;
        let first = segment.payload.first().copied().unwrap_or(0);
        if first & 0xc0 == 0x40 {
            if state.has_client {
                spin(&mut state, segment, first);
            }
        } else {
            let mut rest = segment.payload;
            for _ in 0..COALESCED_MAX {
                let Some((packet, after)) = quic::long_packet(rest) else {
                    break;
                };
                self.read_long(flow, &mut state, segment, &packet);
                rest = after;
            }
            if segment.payload.len() < segment.payload_length as usize && !state.has_hello {
                flow.cut.add(Cut::SNAP_LENGTH);
            }
        }
        let on = state.failures < FAILURES_MAX || state.has_client;
        if let Some(place) = self.quic.get_mut(flow.other) {
            *place = state;
        }
        on
    }

    fn read_long(
        &mut self,
        flow: &mut Flow,
        state: &mut QuicState,
        segment: &Segment<'_>,
        packet: &LongPacket<'_>,
    ) {
        let direction = segment.direction & 1;
        let from_client = !state.has_client || direction == state.client;
        match packet.kind {
            Kind::Initial if from_client && !state.has_hello => {
                self.read_client_initial(flow, state, segment, packet);
                if state.has_client || state.failures > 0 {
                    return;
                }
                state.version = packet.version;
            }
            Kind::Initial if from_client && !state.has_rtt => state.time_ns = segment.time_ns,
            Kind::Initial | Kind::Handshake if state.has_client && !from_client => {
                state.server_id = ConnectionId::new(packet.source_id);
                if !state.has_rtt {
                    state.time_ns = segment.time_ns.saturating_sub(state.time_ns).max(0);
                    state.has_rtt = true;
                }
            }
            Kind::ZeroRtt if from_client => state.zero_rtt = true,
            Kind::Retry if !from_client => state.retry = true,
            Kind::VersionNegotiation if !from_client => state.negotiation = true,
            _ => {}
        }
        if state.version == 0 {
            state.version = packet.version;
        }
    }

    fn read_client_initial(
        &mut self,
        flow: &mut Flow,
        state: &mut QuicState,
        segment: &Segment<'_>,
        packet: &LongPacket<'_>,
    ) {
        let Some(version) = Version::known(packet.version) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.packet_buffer);
        // All Initial packets of a client are under the keys of its first destination id; after a
        // Retry, or with the first packet unseen, under those of the packet's own.
        let own = packet.destination_id;
        let known = state.original;
        let first_try = if state.has_client && !state.retried {
            known.as_bytes()
        } else {
            own
        };
        let mut opened = None;
        for id in [first_try, own] {
            if !packet.whole {
                break;
            }
            let keys = self.initial_keys.of(flow.other, version, id);
            opened = keys.open(packet.packet, packet.number_at, &mut buffer);
            if opened.is_some() || id == own {
                break;
            }
        }
        if let Some(at) = opened {
            if !state.has_client {
                state.has_client = true;
                state.client = segment.direction & 1;
                state.original = ConnectionId::new(own);
                state.client_id = ConnectionId::new(packet.source_id);
            }
            state.retried = state.retry;
            state.version = packet.version;
            if !state.has_rtt {
                state.time_ns = segment.time_ns;
            }
            self.read_crypto(flow, state, &buffer[at..]);
        } else {
            state.failures = state.failures.saturating_add(1);
        }
        self.packet_buffer = buffer;
    }

    /// Puts the CRYPTO frames of a packet together, and reads the ClientHello once it is whole.
    fn read_crypto(&mut self, flow: &mut Flow, state: &mut QuicState, payload: &[u8]) {
        let mut assembly = flow.sides[0].assembly;
        if assembly == 0 {
            assembly = self.assemblies.take(0);
            if assembly == 0 {
                flow.cut.add(Cut::ASSEMBLY);
                return;
            }
            flow.sides[0].assembly = assembly;
        }
        let most = self.assemblies.bytes_max;
        let Some(stream) = self.assemblies.get_mut(assembly) else {
            return;
        };
        for frame in crypto_frames(payload) {
            let inserted = match u32::try_from(frame.offset) {
                Ok(offset) => stream.insert(offset, frame.data, most).is_ok(),
                Err(_) => false,
            };
            if !inserted {
                flow.cut.add(Cut::ASSEMBLY);
            }
        }
        let Some(message) = tls::messages(stream.contiguous()).next() else {
            return;
        };
        if !message.whole && message.kind == handshake::CLIENT_HELLO {
            return;
        }
        let bytes = message.body.to_vec();
        let is_hello = message.kind == handshake::CLIENT_HELLO;
        self.finish_hello(flow, state, is_hello.then_some(&bytes[..]));
    }

    /// Keeps what a ClientHello says, and lets the buffer go.
    fn finish_hello(&mut self, flow: &mut Flow, state: &mut QuicState, body: Option<&[u8]>) {
        state.has_hello = true;
        if let Some(hello) = body.and_then(ClientHello::read) {
            flow.tls = self.tls.take();
            if flow.tls == 0 {
                flow.cut.add(Cut::STATES);
            } else {
                let mut tls = TlsState::default();
                self.note_client_hello(flow, &mut tls, &hello, Transport::Quic);
                if let Some(place) = self.tls.get_mut(flow.tls) {
                    *place = tls;
                }
            }
        }
        self.assemblies.release(&mut flow.sides[0].assembly);
    }

    /// Reads what there is of a ClientHello when the flow ends.
    pub(super) fn finish_quic(&mut self, flow: &mut Flow) {
        let Some(stream) = self.assemblies.get(flow.sides[0].assembly) else {
            return;
        };
        let body = tls::messages(stream.contiguous())
            .next()
            .filter(|message| message.kind == handshake::CLIENT_HELLO)
            .map(|message| message.body.to_vec());
        flow.cut.add(Cut::GAP);
        let mut state = self.quic.get(flow.other).copied().unwrap_or_default();
        self.finish_hello(flow, &mut state, body.as_deref());
    }

    /// The record of the connection.
    pub(super) fn quic_record(&mut self, handle: u32) -> Option<Box<QuicRecord>> {
        let state = *self.quic.get(handle)?;
        self.quic.release(handle);
        if !state.has_client && state.version == 0 {
            return None;
        }
        let rounds = u64::from(state.spin_count);
        Some(Box::new(QuicRecord {
            version: state.version,
            original_destination_id: hexadecimal(&state.original),
            client_id: hexadecimal(&state.client_id),
            server_id: hexadecimal(&state.server_id),
            zero_rtt: state.zero_rtt,
            retry: state.retry,
            version_negotiation: state.negotiation,
            handshake_rtt_ns: state.has_rtt.then_some(state.time_ns.cast_unsigned()),
            spin_count: state.spin_count,
            spin_min_ns: u64::from(state.spin_min_ns),
            spin_mean_ns: state.spin_sum_ns.checked_div(rounds).unwrap_or(0),
        }))
    }
}

/// For how many connections keys are kept.
const KEYS_KEPT: usize = 64;

/// Keys of clients' Initial packets: a ClientHello may take several, and deriving keys is most of
/// what one costs.
#[derive(Debug, Default)]
pub(super) struct KeptKeys {
    /// By the number of the connection's state; empty until the first.
    places: Vec<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    version: &'static Version,
    id: ConnectionId,
    keys: InitialKeys,
}

impl KeptKeys {
    /// The most memory that they take, in bytes.
    pub(super) const MEMORY_BYTES: usize = KEYS_KEPT * size_of::<Option<Kept>>();

    /// The client's keys by a connection id that is no longer than one may be.
    fn of(&mut self, state: u32, version: &'static Version, id: &[u8]) -> &InitialKeys {
        if self.places.is_empty() {
            self.places.resize_with(KEYS_KEPT, || None);
        }
        let place = &mut self.places[state as usize % KEYS_KEPT];
        let is_kept =
            |kept: &mut Kept| core::ptr::eq(kept.version, version) && kept.id.as_bytes() == id;
        if !place.as_mut().is_some_and(is_kept) {
            *place = None;
        }
        let kept = place.get_or_insert_with(|| Kept {
            version,
            id: ConnectionId::new(id),
            keys: InitialKeys::new(version, id, Sender::Client),
        });
        &kept.keys
    }
}

/// Follows the spin bit in one direction: from one edge to the next is a round trip (RFC 9312
/// section 3.8.2). The first edge only begins a round.
fn spin(state: &mut QuicState, segment: &Segment<'_>, first: u8) {
    let direction = (segment.direction & 1) + 1;
    if state.spin_direction == 0 {
        state.spin_direction = direction;
    }
    if state.spin_direction != direction {
        return;
    }
    let value = 1 + u8::from(first & SPIN != 0);
    if state.spin_value != 0 && state.spin_value != value {
        if state.edges > 0 {
            let round = segment.time_ns.saturating_sub(state.edge_ns).max(0);
            let round = u32::try_from(round).unwrap_or(u32::MAX);
            state.spin_min_ns = if state.spin_count == 0 {
                round
            } else {
                state.spin_min_ns.min(round)
            };
            state.spin_sum_ns = state.spin_sum_ns.saturating_add(u64::from(round));
            state.spin_count = state.spin_count.saturating_add(1);
        }
        state.edges = 1;
        state.edge_ns = segment.time_ns;
    }
    state.spin_value = value;
}

fn hexadecimal(id: &ConnectionId) -> Box<str> {
    let mut text = String::with_capacity(40);
    for byte in id.as_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}
