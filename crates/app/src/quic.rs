//! QUIC connections: the ClientHello inside the client's Initial packets, connection ids, and round
//! trips by the handshake and by the spin bit.

use super::Segment;
use super::assembly::PIECES_MAX;
use super::reader::Reader;
use super::record::{Cut, NameText, QuicRecord, TlsRecord};
use super::state::{ConnectionId, Nanoseconds, QuicState, mark};
use super::text_pool::string;
use crate::message::quic::initial::Sender;
use crate::message::quic::{self, InitialKeys, Kind, LongPacket, Version, crypto_frames};
use crate::message::tls::{self, ClientHello, Transport, handshake};

/// Packets in a datagram that are looked at (RFC 9000 section 12.2).
const COALESCED_MAX: usize = 6;

/// Initial packets that may fail to open before a flow is given up.
const FAILURES_MAX: u8 = 8;

/// CRYPTO frames that are put in order at a time.
const FRAMES_MAX: usize = 512;

/// A CRYPTO frame: its place in the stream, and that of its bytes in the payload.
#[derive(Debug)]
pub(super) struct Frame {
    offset: u32,
    at: usize,
    length: usize,
}

/// The spin bit of a short header (RFC 9000 section 17.3.1).
const SPIN: u8 = 0x20;

impl Reader {
    /// Reads a datagram; false where the flow is given up.
    pub(super) fn read_quic(
        &mut self,
        cut: &mut Cut,
        state: &mut QuicState,
        segment: &Segment<'_>,
    ) -> bool {
        let first = segment.payload.first().copied().unwrap_or(0);
        if first & 0xc0 == 0x40 {
            if state.marks.has(mark::CLIENT) {
                follow_spin(state, segment, first);
            }
        } else {
            let mut rest = segment.payload;
            for _ in 0..COALESCED_MAX {
                let Some((packet, after)) = quic::long_packet(rest) else {
                    break;
                };
                self.read_long(cut, state, segment, &packet);
                rest = after;
            }
            let is_cut = segment.payload.len() < segment.payload_length as usize;
            if is_cut && !state.marks.has(mark::HELLO) {
                cut.add(Cut::SNAP_LENGTH);
            }
        }
        state.failures < FAILURES_MAX || state.marks.has(mark::CLIENT)
    }

    fn read_long(
        &mut self,
        cut: &mut Cut,
        state: &mut QuicState,
        segment: &Segment<'_>,
        packet: &LongPacket<'_>,
    ) {
        let has_client = state.marks.has(mark::CLIENT);
        let direction = segment.direction & 1;
        let from_client = !has_client || direction == state.marks.client();
        match packet.kind {
            Kind::Initial if from_client && !state.marks.has(mark::HELLO) => {
                self.read_client_initial(cut, state, segment, packet);
                if state.marks.has(mark::CLIENT) || state.failures > 0 {
                    return;
                }
                state.version = packet.version;
            }
            Kind::Initial if from_client => {
                // Another one than before after Version Negotiation (RFC 9368).
                state.version = packet.version;
                if !state.marks.has(mark::RTT) {
                    state.time = Nanoseconds::new(segment.time_ns);
                }
            }
            Kind::Initial | Kind::Handshake if has_client && !from_client => {
                state.server_id = ConnectionId::new(packet.source_id);
                if !state.marks.has(mark::RTT) {
                    state.time = state.time.until(segment.time_ns);
                    state.marks.set(mark::RTT);
                }
            }
            Kind::ZeroRtt if from_client => state.marks.set(mark::ZERO_RTT),
            Kind::Retry if !from_client => state.marks.set(mark::RETRY),
            Kind::VersionNegotiation if answers_client(state, packet, direction) => {
                state.marks.set(mark::NEGOTIATION);
                // The client begins anew (RFC 9000 section 6.2).
                self.assemblies.release(&mut state.assembly, 0);
            }
            _ => {}
        }
        if state.version == 0 {
            state.version = packet.version;
        }
    }

    fn read_client_initial(
        &mut self,
        cut: &mut Cut,
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
        let first_try = if state.marks.has(mark::CLIENT) && !state.marks.has(mark::RETRIED) {
            state.original.as_bytes()
        } else {
            own
        };
        let mut opened = None;
        for id in [first_try, own] {
            if !packet.whole {
                break;
            }
            let keys = self.initial_keys.of(state.keys, version, id);
            opened = keys.open(packet.packet, packet.number_at, &mut buffer);
            if opened.is_some() || id == own {
                break;
            }
        }
        if let Some(at) = opened {
            if !state.marks.has(mark::CLIENT) {
                state.marks.set(mark::CLIENT);
                let from_responder = segment.direction & 1 == 1;
                state.marks.put(mark::CLIENT_IS_1, from_responder);
                state.original = ConnectionId::new(own);
                state.client_id = ConnectionId::new(packet.source_id);
            }
            let retried = state.marks.has(mark::RETRY);
            state.marks.put(mark::RETRIED, retried);
            state.version = packet.version;
            if !state.marks.has(mark::RTT) {
                state.time = Nanoseconds::new(segment.time_ns);
            }
            self.read_crypto(cut, state, &buffer[at..]);
        } else {
            state.failures = state.failures.saturating_add(1);
        }
        self.packet_buffer = buffer;
    }

    /// Puts the CRYPTO frames of a packet together, and reads the ClientHello once it is whole.
    pub(super) fn read_crypto(&mut self, cut: &mut Cut, state: &mut QuicState, payload: &[u8]) {
        if state.assembly == 0 {
            state.assembly = self.assemblies.take(0, 0, PIECES_MAX);
        }
        let mut frames = std::mem::take(&mut self.frames);
        let mut all = crypto_frames(payload).peekable();
        while all.peek().is_some() {
            // In the order of the stream, so that what is whole together leaves no gaps meanwhile.
            frames.clear();
            frames.extend(all.by_ref().take(FRAMES_MAX).map(|frame| Frame {
                offset: u32::try_from(frame.offset).unwrap_or(u32::MAX),
                at: frame.at,
                length: frame.data.len(),
            }));
            if !frames.is_sorted_by_key(|frame| frame.offset) {
                frames.sort_unstable_by_key(|frame| frame.offset);
            }
            for frame in &frames {
                let data = &payload[frame.at..frame.at + frame.length];
                let inserted = self
                    .assemblies
                    .insert(state.assembly, 0, frame.offset, data);
                if inserted.is_err() {
                    cut.add(Cut::ASSEMBLY);
                }
            }
        }
        self.frames = frames;
        let Some(stream) = self.assemblies.get_mut(state.assembly, 0) else {
            cut.add(Cut::ASSEMBLY);
            return;
        };
        let more = match tls::messages(stream.contiguous()).next() {
            None => true,
            Some(message) => !message.whole && message.kind == handshake::CLIENT_HELLO,
        };
        if !more {
            self.finish_hello(cut, state);
        }
    }

    /// Keeps what there is of a ClientHello, and lets the buffer go.
    fn finish_hello(&mut self, cut: &mut Cut, state: &mut QuicState) {
        let Some(stream) = self.assemblies.get_mut(state.assembly, 0) else {
            state.marks.set(mark::HELLO);
            return;
        };
        let there = stream.contiguous().len();
        let bytes = stream.lend();
        self.read_hello(cut, state, &bytes[..there]);
        self.assemblies.release(&mut state.assembly, 0);
    }

    /// Keeps what there is of a ClientHello: no more of it is waited for.
    pub(super) fn read_hello(&mut self, cut: &mut Cut, state: &mut QuicState, bytes: &[u8]) {
        state.marks.set(mark::HELLO);
        if let Some(message) = tls::messages(bytes).next()
            && message.kind == handshake::CLIENT_HELLO
            && let Some(hello) = ClientHello::of(&message)
        {
            let QuicState {
                hello: texts,
                marks,
                ..
            } = state;
            self.note_client_hello(cut, texts, marks, &hello, Transport::Quic);
        }
    }

    /// What the beginning of a ClientHello says whose end is yet to come.
    pub(super) fn half_quic_hello_record(
        &mut self,
        cut: &mut Cut,
        state: &QuicState,
    ) -> Option<Box<TlsRecord>> {
        let stream = self.assemblies.get_mut(state.assembly, 0)?;
        let there = stream.contiguous().len();
        let bytes = stream.lend();
        let mut half = QuicState::default();
        self.read_hello(cut, &mut half, &bytes[..there]);
        if let Some(stream) = self.assemblies.get_mut(state.assembly, 0) {
            stream.take_back(bytes);
        }
        self.quic_hello_record(&half)
    }

    /// Reads what there is of a ClientHello when the flow ends.
    pub(super) fn finish_quic(&mut self, cut: &mut Cut, state: &mut QuicState) {
        if state.assembly != 0 {
            cut.add(Cut::GAP);
            self.finish_hello(cut, state);
        }
    }
}

/// The record of a connection.
pub(super) fn record(state: &QuicState) -> Option<Box<QuicRecord>> {
    let marks = state.marks;
    let has_client = marks.has(mark::CLIENT);
    if !has_client && state.version == 0 {
        return None;
    }
    let has_server = has_client && marks.has(mark::RTT | mark::RETRY | mark::NEGOTIATION);
    let sent = |mark, seen: bool| (seen || marks.has(mark)).then_some(marks.has(mark));
    let spin = &state.spin;
    Some(Box::new(QuicRecord {
        version: state.version,
        original_destination_id: hexadecimal(&state.original),
        client_id: hexadecimal(&state.client_id),
        server_id: hexadecimal(&state.server_id),
        zero_rtt: sent(mark::ZERO_RTT, has_client),
        retry: sent(mark::RETRY, has_server),
        version_negotiation: sent(mark::NEGOTIATION, has_server),
        handshake_rtt_ns: marks.has(mark::RTT).then_some(state.time.span()),
        spin_count: spin.count,
        spin_min_ns: u64::from(spin.min_ns),
        spin_mean_ns: spin
            .sum
            .span()
            .checked_div(u64::from(spin.count))
            .unwrap_or(0),
    }))
}

/// For how many connections keys are kept.
const KEYS_KEPT: usize = 64;

/// Keys of clients' Initial packets: a ClientHello may take several, and deriving keys is most of
/// what one costs.
#[derive(Debug, Default)]
pub(super) struct KeptKeys {
    /// Empty until the first connection.
    places: Vec<Option<Kept>>,
    next: u8,
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

    /// A place for another connection's keys: that of the one which began longest ago.
    pub(super) fn place(&mut self) -> u8 {
        self.next = (self.next + 1) % KEYS_KEPT as u8;
        self.next
    }

    /// The client's keys by a connection id that is no longer than one may be, kept in a place.
    fn of(&mut self, place: u8, version: &'static Version, id: &[u8]) -> &InitialKeys {
        if self.places.is_empty() {
            self.places.resize_with(KEYS_KEPT, || None);
        }
        let place = &mut self.places[usize::from(place) % KEYS_KEPT];
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

/// Whether Version Negotiation comes from the server, with the connection ids that the client's first
/// packet has (RFC 9000 section 17.2.1). That packet may be of a version that nobody knows, and not
/// have been read.
fn answers_client(state: &QuicState, packet: &LongPacket<'_>, direction: u8) -> bool {
    if state.marks.has(mark::CLIENT) {
        direction != state.marks.client()
            && packet.destination_id == state.client_id.as_bytes()
            && packet.source_id == state.original.as_bytes()
    } else {
        direction == 1
    }
}

/// Follows the spin bit in the direction whose short header came first: from one edge to the next
/// is a round trip (RFC 9312 section 3.8.2). The first edge only begins a round.
fn follow_spin(state: &mut QuicState, segment: &Segment<'_>, first: u8) {
    let direction = segment.direction & 1;
    let value = u8::from(first & SPIN != 0);
    let before = state.spin_bit.checked_sub(1);
    if before.is_some_and(|before| before >> 1 != direction) {
        return;
    }
    if before.is_some_and(|before| before & 1 != value) {
        let spin = &mut state.spin;
        if state.marks.has(mark::SPIN) {
            let round = spin.edge.until(segment.time_ns).span();
            let round = u32::try_from(round).unwrap_or(u32::MAX);
            spin.min_ns = if spin.count == 0 {
                round
            } else {
                spin.min_ns.min(round)
            };
            spin.sum = Nanoseconds::new(spin.sum.get().saturating_add(i64::from(round)));
            spin.count = spin.count.saturating_add(1);
        }
        state.marks.set(mark::SPIN);
        spin.edge = Nanoseconds::new(segment.time_ns);
    }
    state.spin_bit = 1 + (direction << 1 | value);
}

fn hexadecimal(id: &ConnectionId) -> NameText {
    let mut text = [0; 2 * quic::CONNECTION_ID_MAX];
    let bytes = id.as_bytes();
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
        digits.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
    string(&text[..2 * bytes.len()])
}
