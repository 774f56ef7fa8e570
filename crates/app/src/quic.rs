//! QUIC connections: the ClientHello in the client's Initial packets, connection IDs, and round-trip
//! times from the handshake and from the spin bit.

use super::L4Payload;
use super::parsers::Parsers;
use super::reassembly::RANGES_MAX;
use super::record::{AppText, Incomplete, QuicRecord, TlsRecord};
use super::state::{ConnectionId, Nanoseconds, QuicState, handshake_flag};
use super::text_pool::string;
use crate::message::quic::initial::Sender;
use crate::message::quic::{self, InitialKeys, Kind, LongPacket, Version, crypto_frames};
use crate::message::tls::{self, ClientHello, Transport, handshake};

/// The most coalesced packets of a datagram that are read (RFC 9000 section 12.2).
const COALESCED_MAX: usize = 6;

/// Number of Initial packets that may fail to decrypt before the flow is given up.
const FAILURES_MAX: u8 = 8;

/// The most CRYPTO frames that are sorted at a time.
const FRAMES_MAX: usize = 512;

/// A CRYPTO frame: its offset in the stream, and that of its bytes in the payload.
#[derive(Debug)]
pub(super) struct Frame {
    offset: u32,
    payload_offset: usize,
    length: usize,
}

/// The spin bit of a short header (RFC 9000 section 17.3.1).
const SPIN: u8 = 0x20;

impl Parsers {
    /// Reads a datagram. Returns false if the flow is given up.
    pub(super) fn read_quic(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut QuicState,
        datagram: &L4Payload<'_>,
    ) -> bool {
        let first = datagram.payload.first().copied().unwrap_or(0);
        if first & 0xc0 == 0x40 {
            if state.flags.has(handshake_flag::CLIENT) {
                follow_spin(state, datagram, first);
            }
        } else {
            let mut rest = datagram.payload;
            for _ in 0..COALESCED_MAX {
                let Some((packet, after)) = quic::read_long_packet(rest) else {
                    break;
                };
                self.read_long(incomplete, state, datagram, &packet);
                rest = after;
            }
            let is_truncated = datagram.payload.len() < datagram.payload_length as usize;
            if is_truncated && !state.flags.has(handshake_flag::HELLO) {
                incomplete.add(Incomplete::SNAPLEN);
            }
        }
        state.failures < FAILURES_MAX || state.flags.has(handshake_flag::CLIENT)
    }

    fn read_long(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut QuicState,
        datagram: &L4Payload<'_>,
        packet: &LongPacket<'_>,
    ) {
        let has_client = state.flags.has(handshake_flag::CLIENT);
        let direction = datagram.direction & 1;
        let from_client = !has_client || direction == state.flags.client();
        match packet.kind {
            Kind::Initial if from_client && !state.flags.has(handshake_flag::HELLO) => {
                self.read_client_initial(incomplete, state, datagram, packet);
                if state.flags.has(handshake_flag::CLIENT) || state.failures > 0 {
                    return;
                }
                state.version = packet.version;
            }
            Kind::Initial if from_client => {
                // The version may change after Version Negotiation (RFC 9368).
                state.version = packet.version;
                if !state.flags.has(handshake_flag::RTT) {
                    state.time = Nanoseconds::new(datagram.time_ns);
                }
            }
            Kind::Initial | Kind::Handshake if has_client && !from_client => {
                state.server_id = ConnectionId::new(packet.source_id);
                if !state.flags.has(handshake_flag::RTT) {
                    state.time = state.time.until(datagram.time_ns);
                    state.flags.set(handshake_flag::RTT);
                }
            }
            Kind::ZeroRtt if from_client => state.flags.set(handshake_flag::ZERO_RTT),
            Kind::Retry if !from_client => state.flags.set(handshake_flag::RETRY),
            Kind::VersionNegotiation if is_answer_to_client(state, packet, direction) => {
                state.flags.set(handshake_flag::NEGOTIATION);
                // The client starts a new handshake (RFC 9000 section 6.2).
                self.buffers.release(&mut state.buffer, 0);
            }
            _ => {}
        }
        if state.version == 0 {
            state.version = packet.version;
        }
    }

    fn read_client_initial(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut QuicState,
        datagram: &L4Payload<'_>,
        packet: &LongPacket<'_>,
    ) {
        let Some(version) = Version::known(packet.version) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.packet_buffer);
        // The keys of all Initial packets of a client come from the destination ID of its first one.
        // After a Retry, or if the first one was not seen, they come from the packet's own.
        let own = packet.destination_id;
        let first_try = if state.flags.has(handshake_flag::CLIENT)
            && !state.flags.has(handshake_flag::RETRIED)
        {
            state.original_id.as_bytes()
        } else {
            own
        };
        let mut payload_offset = None;
        for id in [first_try, own] {
            if !packet.is_complete {
                break;
            }
            let keys = self.initial_keys.client_keys(state.key_slot, version, id);
            payload_offset = keys.open(packet.packet, packet.number_offset, &mut buffer);
            if payload_offset.is_some() || id == own {
                break;
            }
        }
        if let Some(offset) = payload_offset {
            if !state.flags.has(handshake_flag::CLIENT) {
                state.flags.set(handshake_flag::CLIENT);
                let from_responder = datagram.direction & 1 == 1;
                state.flags.put(handshake_flag::CLIENT_IS_1, from_responder);
                state.original_id = ConnectionId::new(own);
                state.client_id = ConnectionId::new(packet.source_id);
            }
            let retried = state.flags.has(handshake_flag::RETRY);
            state.flags.put(handshake_flag::RETRIED, retried);
            state.version = packet.version;
            if !state.flags.has(handshake_flag::RTT) {
                state.time = Nanoseconds::new(datagram.time_ns);
            }
            self.read_crypto(incomplete, state, &buffer[offset..]);
        } else {
            state.failures = state.failures.saturating_add(1);
        }
        self.packet_buffer = buffer;
    }

    /// Reassembles the CRYPTO frames of a packet, and reads the ClientHello if it is complete.
    pub(super) fn read_crypto(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut QuicState,
        payload: &[u8],
    ) {
        if state.buffer == 0 {
            state.buffer = self.buffers.allocate(0, 0, RANGES_MAX);
        }
        let mut frames = std::mem::take(&mut self.frames);
        let mut all = crypto_frames(payload).peekable();
        while all.peek().is_some() {
            // Insert them in stream order. Then frames that are contiguous together never need more
            // than one range of the buffer.
            frames.clear();
            frames.extend(all.by_ref().take(FRAMES_MAX).map(|frame| Frame {
                offset: u32::try_from(frame.offset).unwrap_or(u32::MAX),
                payload_offset: frame.payload_offset,
                length: frame.data.len(),
            }));
            if !frames.is_sorted_by_key(|frame| frame.offset) {
                frames.sort_unstable_by_key(|frame| frame.offset);
            }
            for frame in &frames {
                let data = &payload[frame.payload_offset..frame.payload_offset + frame.length];
                let inserted = self.buffers.insert(state.buffer, 0, frame.offset, data);
                if inserted.is_err() {
                    incomplete.add(Incomplete::REASSEMBLY);
                }
            }
        }
        self.frames = frames;
        let Some(stream) = self.buffers.get_mut(state.buffer, 0) else {
            incomplete.add(Incomplete::REASSEMBLY);
            return;
        };
        let needs_more = match tls::messages(stream.contiguous()).next() {
            None => true,
            Some(message) => !message.is_complete && message.kind == handshake::CLIENT_HELLO,
        };
        if !needs_more {
            self.finish_hello(incomplete, state);
        }
    }

    /// Reads the ClientHello in the buffer, complete or not, and releases the buffer.
    fn finish_hello(&mut self, incomplete: &mut Incomplete, state: &mut QuicState) {
        let Some(stream) = self.buffers.get_mut(state.buffer, 0) else {
            state.flags.set(handshake_flag::HELLO);
            return;
        };
        let length = stream.contiguous().len();
        let bytes = stream.take_bytes();
        self.read_hello(incomplete, state, &bytes[..length]);
        self.buffers.release(&mut state.buffer, 0);
    }

    /// Reads a ClientHello, complete or not. Later CRYPTO frames are ignored.
    pub(super) fn read_hello(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut QuicState,
        bytes: &[u8],
    ) {
        state.flags.set(handshake_flag::HELLO);
        if let Some(message) = tls::messages(bytes).next()
            && message.kind == handshake::CLIENT_HELLO
            && let Some(hello) = ClientHello::from_message(&message)
        {
            let QuicState {
                hello: texts,
                flags,
                ..
            } = state;
            self.record_client_hello(incomplete, texts, flags, &hello, Transport::Quic);
        }
    }

    /// Returns the record of the first part of a ClientHello that is not complete yet.
    pub(super) fn partial_quic_hello_record(
        &mut self,
        incomplete: &mut Incomplete,
        state: &QuicState,
    ) -> Option<Box<TlsRecord>> {
        let stream = self.buffers.get_mut(state.buffer, 0)?;
        let length = stream.contiguous().len();
        let bytes = stream.take_bytes();
        let mut partial = QuicState::default();
        self.read_hello(incomplete, &mut partial, &bytes[..length]);
        if let Some(stream) = self.buffers.get_mut(state.buffer, 0) {
            stream.put_bytes(bytes);
        }
        self.quic_hello_record(&partial)
    }

    /// Reads an incomplete ClientHello when the flow ends.
    pub(super) fn finish_quic(&mut self, incomplete: &mut Incomplete, state: &mut QuicState) {
        if state.buffer != 0 {
            incomplete.add(Incomplete::GAP);
            self.finish_hello(incomplete, state);
        }
    }
}

/// Returns the record of a connection.
pub(super) fn record(state: &QuicState) -> Option<Box<QuicRecord>> {
    let flags = state.flags;
    let has_client = flags.has(handshake_flag::CLIENT);
    if !has_client && state.version == 0 {
        return None;
    }
    let has_server = has_client
        && flags.has(handshake_flag::RTT | handshake_flag::RETRY | handshake_flag::NEGOTIATION);
    let sent = |flag, is_known: bool| (is_known || flags.has(flag)).then_some(flags.has(flag));
    let spin = &state.spin;
    Some(Box::new(QuicRecord {
        version: state.version,
        original_destination_id: hexadecimal(&state.original_id),
        client_id: hexadecimal(&state.client_id),
        server_id: hexadecimal(&state.server_id),
        zero_rtt: sent(handshake_flag::ZERO_RTT, has_client),
        retry: sent(handshake_flag::RETRY, has_server),
        version_negotiation: sent(handshake_flag::NEGOTIATION, has_server),
        handshake_rtt_ns: flags.has(handshake_flag::RTT).then_some(state.time.span()),
        spin_count: spin.count,
        spin_min_ns: u64::from(spin.min_ns),
        spin_mean_ns: spin
            .sum
            .span()
            .checked_div(u64::from(spin.count))
            .unwrap_or(0),
    }))
}

/// Number of connections whose keys are cached.
const KEY_SLOTS: usize = 64;

/// A cache of the keys of clients' Initial packets. A ClientHello may span several packets, and
/// deriving the keys is most of the cost of one.
#[derive(Debug, Default)]
pub(super) struct KeyCache {
    /// Empty until the first connection.
    slots: Vec<Option<CachedKeys>>,
    next: u8,
}

#[derive(Debug)]
struct CachedKeys {
    version: &'static Version,
    id: ConnectionId,
    keys: InitialKeys,
}

impl KeyCache {
    /// Memory of a full cache, in bytes.
    pub(super) const MEMORY_BYTES: usize = KEY_SLOTS * size_of::<Option<CachedKeys>>();

    /// Allocates a slot for a new connection. It replaces the oldest connection.
    pub(super) fn allocate_slot(&mut self) -> u8 {
        self.next = (self.next + 1) % KEY_SLOTS as u8;
        self.next
    }

    /// Returns the client's keys for a connection ID of valid length, and caches them in a slot.
    fn client_keys(&mut self, slot: u8, version: &'static Version, id: &[u8]) -> &InitialKeys {
        if self.slots.is_empty() {
            self.slots.resize_with(KEY_SLOTS, || None);
        }
        let slot = &mut self.slots[usize::from(slot) % KEY_SLOTS];
        let is_cached = |cached: &mut CachedKeys| {
            core::ptr::eq(cached.version, version) && cached.id.as_bytes() == id
        };
        if !slot.as_mut().is_some_and(is_cached) {
            *slot = None;
        }
        let cached = slot.get_or_insert_with(|| CachedKeys {
            version,
            id: ConnectionId::new(id),
            keys: InitialKeys::new(version, id, Sender::Client),
        });
        &cached.keys
    }
}

/// Whether Version Negotiation comes from the server and has the connection IDs of the client's first
/// packet (RFC 9000 section 17.2.1). If that packet had an unknown version, it was not read, and only
/// the direction can be checked.
fn is_answer_to_client(state: &QuicState, packet: &LongPacket<'_>, direction: u8) -> bool {
    if state.flags.has(handshake_flag::CLIENT) {
        direction != state.flags.client()
            && packet.destination_id == state.client_id.as_bytes()
            && packet.source_id == state.original_id.as_bytes()
    } else {
        direction == 1
    }
}

/// Follows the spin bit in the direction of the first short header. The time from one edge to the next
/// is a round-trip time (RFC 9312 section 3.8.2). The first edge gives no sample.
fn follow_spin(state: &mut QuicState, datagram: &L4Payload<'_>, first: u8) {
    let direction = datagram.direction & 1;
    let value = u8::from(first & SPIN != 0);
    let previous = state.spin_bit.checked_sub(1);
    if previous.is_some_and(|previous| previous >> 1 != direction) {
        return;
    }
    if previous.is_some_and(|previous| previous & 1 != value) {
        let spin = &mut state.spin;
        if state.flags.has(handshake_flag::SPIN) {
            let rtt = spin.last_edge.until(datagram.time_ns).span();
            let rtt = u32::try_from(rtt).unwrap_or(u32::MAX);
            spin.min_ns = if spin.count == 0 {
                rtt
            } else {
                spin.min_ns.min(rtt)
            };
            spin.sum = Nanoseconds::new(spin.sum.get().saturating_add(i64::from(rtt)));
            spin.count = spin.count.saturating_add(1);
        }
        state.flags.set(handshake_flag::SPIN);
        spin.last_edge = Nanoseconds::new(datagram.time_ns);
    }
    state.spin_bit = 1 + (direction << 1 | value);
}

fn hexadecimal(id: &ConnectionId) -> AppText {
    let mut text = [0; 2 * quic::CONNECTION_ID_MAX];
    let bytes = id.as_bytes();
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
        digits.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
    string(&text[..2 * bytes.len()])
}
