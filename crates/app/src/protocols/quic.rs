//! QUIC connections: the ClientHello in the client's Initial packets, connection IDs, and round-trip
//! times from the handshake and from the spin bit.

use crate::column::{AppValue, columns, filled, number, seconds};
use crate::handshake::{HandshakeFlags, HelloTexts, handshake_flag};
use crate::hello::{hello_record, record_client_hello};
use crate::message::quic::work::{self, FlowWork};
use crate::message::quic::{
    self, ConnectionId, FrameSpan, Kind, LongPacket, Version, crypto_frames,
};
use crate::message::tls::{self, ClientHello, Transport, handshake};
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::reassembly::RANGES_MAX;
use crate::record::{AppRecord, AppText, Incomplete, QuicRecord};
use crate::services::Services;
use crate::text_pool::string;

/// A QUIC connection.
#[derive(Debug, Default)]
pub(crate) struct QuicState {
    hello: HelloTexts,
    version: u32,
    /// Handle of the reassembly buffer for the client's CRYPTO frames, 0 if there is none.
    buffer: u16,
    /// Flags of [`handshake_flag`].
    flags: HandshakeFlags,
    /// Time of the client's last Initial packet; with [`handshake_flag::RTT`], the RTT of the
    /// handshake.
    time: Nanoseconds,
    spin: Spin,
    /// Destination connection ID of the client's first Initial packet.
    original_id: ConnectionId,
    /// Before the client is identified: the connection ID that the initiator chose for itself.
    client_id: ConnectionId,
    /// Before the client is identified: the connection ID that the responder chose for itself.
    server_id: ConnectionId,
    /// 1 plus the last value of the spin bit (bit 0) and the direction that is followed (bit 1); 0
    /// before the first short header.
    spin_bit: u8,
    /// Work for Initial packets, by direction.
    work: [FlowWork; 2],
    /// CRYPTO frames that were read, in units of [`work::FRAMES_PER_UNIT`], rounded up for each packet.
    frames: u8,
    /// Slot of its keys in the cache.
    key_slot: u8,
}

impl QuicState {
    /// Whether nothing but Version Negotiation was seen.
    const fn is_only_negotiation(&self) -> bool {
        self.version == 0
            && !self
                .flags
                .has(handshake_flag::CLIENT | handshake_flag::EARLY_0 | handshake_flag::EARLY_1)
    }

    /// Whether no more packets are tried, because none of the client was found.
    fn is_given_up(&self, cx: &Context<'_>) -> bool {
        let spent = self.work.map(FlowWork::is_spent);
        !self.flags.has(handshake_flag::CLIENT)
            && spent[cx.direction()]
            && (spent[1 - cx.direction()] || cx.common.packets >= PACKETS_WITHOUT_CLIENT)
    }

    /// Keeps the connection ID in a long header that came before the client was identified. The server
    /// may be captured first.
    fn record_early(&mut self, direction: u8, packet: &LongPacket<'_>) {
        let id = ConnectionId::new(packet.source_id);
        match direction {
            0 => {
                self.flags.set(handshake_flag::EARLY_0);
                self.client_id = id;
            }
            _ => {
                self.flags.set(handshake_flag::EARLY_1);
                self.server_id = id;
            }
        }
    }

    /// Records the client by its first Initial packet that could be decrypted, and what the server sent
    /// before it.
    fn record_client(&mut self, direction: u8, packet: &LongPacket<'_>) {
        let (early, early_id) = match direction {
            0 => (handshake_flag::EARLY_1, self.server_id),
            _ => (handshake_flag::EARLY_0, self.client_id),
        };
        let is_early = self.flags.has(early);
        self.flags
            .put(handshake_flag::EARLY_0 | handshake_flag::EARLY_1, false);
        self.server_id = match is_early {
            true => early_id,
            false => ConnectionId::default(),
        };
        self.flags.put(handshake_flag::SERVER, is_early);
        self.flags.set(handshake_flag::CLIENT);
        self.flags.put(handshake_flag::CLIENT_IS_1, direction == 1);
        self.original_id = ConnectionId::new(packet.destination_id);
        self.client_id = ConnectionId::new(packet.source_id);
    }

    fn write_hello(&self, cx: &mut Context<'_>, record: &mut AppRecord) {
        if self.flags.has(handshake_flag::CLIENT_HELLO) {
            let hello = hello_record(cx.services, &self.hello, self.flags);
            record.tls = Some(Box::new(hello));
        }
    }
}

/// RTT samples from QUIC's spin bit.
#[derive(Debug, Default)]
struct Spin {
    min_ns: u32,
    count: u32,
    sum: Nanoseconds,
    /// Time of the last edge.
    last_edge: Nanoseconds,
}

impl Spin {
    /// Resets the samples. The next one starts at the last edge.
    fn reset_counts(&mut self) {
        *self = Self {
            last_edge: self.last_edge,
            ..Self::default()
        };
    }
}

/// The most coalesced packets of a datagram that are read (RFC 9000 section 12.2).
const COALESCED_MAX: usize = 6;

/// Number of packets with payload after which a flow is given up if one direction has no packet that
/// can be decrypted, and the other sends none.
const PACKETS_WITHOUT_CLIENT: u8 = 64;

/// The most CRYPTO frames that are sorted at a time.
const FRAMES_MAX: usize = 512;

/// The spin bit of a short header (RFC 9000 section 17.3.1).
const SPIN: u8 = 0x20;

impl Parser for QuicState {
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], _is_start: bool) -> Probe {
        match quic::has_known_version(bytes) || is_version_negotiation(packet) {
            true => Probe::Yes,
            false => Probe::No,
        }
    }

    fn start(services: &mut Services) -> Self {
        Self {
            key_slot: services.initial_keys.allocate_slot(),
            ..Self::default()
        }
    }

    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        if self.is_only_negotiation()
            && !quic::has_known_version(bytes)
            && !is_version_negotiation(cx.packet)
        {
            // The client did not start again after Version Negotiation, so it was something else.
            return Verdict::Reprobe;
        }
        let first = bytes.first().copied().unwrap_or(0);
        if first & 0xc0 == 0x40 {
            if self.flags.has(handshake_flag::CLIENT) {
                follow_spin(self, cx.packet, first);
            }
        } else {
            let mut rest = bytes;
            for _ in 0..COALESCED_MAX {
                let Some((packet, after)) = quic::read_long_packet(rest) else {
                    break;
                };
                read_long(cx, self, &packet);
                rest = after;
            }
            let is_truncated = bytes.len() < cx.packet.payload_length as usize;
            if is_truncated && !self.flags.has(handshake_flag::HELLO) {
                cx.common.incomplete.add(Incomplete::SNAPLEN);
            }
        }
        match self.is_given_up(cx) {
            true => Verdict::Done,
            false => Verdict::Consumed(bytes.len()),
        }
    }

    /// Reads the first part of the ClientHello.
    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        self.buffer = 0;
        read_hello(cx, self, bytes);
    }

    fn release(&mut self, services: &mut Services) {
        services.buffers.release(&mut self.buffer, 0);
    }

    fn is_partial(&self) -> bool {
        self.buffer != 0
    }

    /// Writes the fields of the partial ClientHello. The state does not get them, since the next
    /// record will have those of the complete one.
    fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        if let Some(stream) = cx.services.buffers.get_mut(self.buffer, 0) {
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            let mut partial = Self::default();
            read_hello(cx, &mut partial, &bytes[..length]);
            if let Some(stream) = cx.services.buffers.get_mut(self.buffer, 0) {
                stream.put_bytes(bytes);
            }
            partial.write_hello(cx, record);
        }
        record.quic = quic_record(self);
        self.spin.reset_counts();
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        if self.buffer != 0 {
            cx.common.incomplete.add(Incomplete::GAP);
            finish_hello(cx, self);
        }
        self.write_hello(cx, record);
        record.quic = quic_record(self);
    }
}

/// Whether a datagram is a Version Negotiation packet: from the responder, or with the fixed bit, which
/// servers should set (RFC 9000 section 17.2.1) and which distinguishes it from RTP.
fn is_version_negotiation(datagram: &L4Payload<'_>) -> bool {
    (datagram.direction == 1 || has_fixed_bit(datagram.payload))
        && quic::is_version_negotiation(datagram.payload)
}

fn has_fixed_bit(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & 0x40 != 0)
}

fn read_long(cx: &mut Context<'_>, state: &mut QuicState, packet: &LongPacket<'_>) {
    let has_client = state.flags.has(handshake_flag::CLIENT);
    let direction = cx.packet.direction & 1;
    let from_client = !has_client || direction == state.flags.client();
    match packet.kind {
        Kind::Initial if from_client && !state.flags.has(handshake_flag::HELLO) => {
            read_client_initial(cx, state, packet);
            if !state.flags.has(handshake_flag::CLIENT) {
                state.record_early(direction, packet);
            }
            return;
        }
        Kind::Initial if from_client => {
            // The version may change after Version Negotiation (RFC 9368).
            state.version = packet.version;
            if !state.flags.has(handshake_flag::RTT) {
                state.time = Nanoseconds::new(cx.packet.time_ns);
            }
        }
        Kind::Initial | Kind::Handshake if has_client && !from_client => {
            state.server_id = ConnectionId::new(packet.source_id);
            // If the server was captured before the client, its first answer has no time to compare.
            if !state.flags.has(handshake_flag::SERVER) {
                state.flags.set(handshake_flag::SERVER);
                state.time = state.time.until(cx.packet.time_ns);
                state.flags.set(handshake_flag::RTT);
            }
        }
        Kind::Handshake if !has_client => state.record_early(direction, packet),
        Kind::ZeroRtt if from_client => state.flags.set(handshake_flag::ZERO_RTT),
        Kind::Retry if !has_client || !from_client => state.flags.set(handshake_flag::RETRY),
        Kind::VersionNegotiation if is_answer_to_client(state, packet, direction) => {
            state.flags.set(handshake_flag::NEGOTIATION);
            // The client starts a new handshake (RFC 9000 section 6.2).
            cx.services.buffers.release(&mut state.buffer, 0);
        }
        _ => {}
    }
    if state.version == 0 {
        state.version = packet.version;
    }
}

fn read_client_initial(cx: &mut Context<'_>, state: &mut QuicState, packet: &LongPacket<'_>) {
    let mut buffer = std::mem::take(&mut cx.services.packet_buffer);
    if let Some(offset) = open_client_initial(cx, state, packet, &mut buffer) {
        if !state.flags.has(handshake_flag::CLIENT) {
            state.record_client(cx.packet.direction & 1, packet);
        }
        let retried = state.flags.has(handshake_flag::RETRY);
        state.flags.put(handshake_flag::RETRIED, retried);
        state.version = packet.version;
        if !state.flags.has(handshake_flag::RTT) {
            state.time = Nanoseconds::new(cx.packet.time_ns);
        }
        read_crypto(cx, state, &buffer[offset..]);
    }
    cx.services.packet_buffer = buffer;
}

/// Decrypts an Initial packet of the client to `buffer`, and returns the offset of its payload.
fn open_client_initial(
    cx: &mut Context<'_>,
    state: &mut QuicState,
    packet: &LongPacket<'_>,
    buffer: &mut Vec<u8>,
) -> Option<usize> {
    let version = Version::known(packet.version)?;
    let direction = cx.direction();
    if !state.work[direction].may_try() || !cx.services.initial_work.is_left(cx.packet.time_ns) {
        cx.services.initial_work.cuts += 1;
        cx.common.incomplete.add(Incomplete::WORK);
        return None;
    }
    let mut units = work::OPEN;
    let mut payload_offset = None;
    // The keys of all Initial packets of a client come from the destination ID of its first one.
    // After a Retry, or if the first one was not seen, they come from the packet's own.
    let own = packet.destination_id;
    let is_retried = state.flags.has(handshake_flag::RETRIED);
    let first_try = match state.flags.has(handshake_flag::CLIENT) && !is_retried {
        true => state.original_id.as_bytes(),
        false => own,
    };
    for id in [first_try, own] {
        if !packet.is_complete {
            break;
        }
        let cache = &mut cx.services.initial_keys;
        let (keys, is_new) = cache.client_keys(state.key_slot, version, id);
        units += if is_new { work::DERIVE } else { 0 };
        payload_offset = keys.open(packet.packet, packet.number_offset, buffer);
        if payload_offset.is_some() && is_new {
            cache.store(state.key_slot, id);
        }
        if payload_offset.is_some() || id == own {
            break;
        }
        units += work::OPEN;
    }
    cx.services.initial_work.spend(units);
    // Of packets that can be decrypted, only the number is limited: other connections may have pushed
    // their keys out of the cache.
    let units = match payload_offset.is_some() || !packet.is_complete {
        true => work::OPEN,
        false => units,
    };
    state.work[direction].spend(units);
    payload_offset
}

/// Reassembles the CRYPTO frames of a packet, and reads the ClientHello if it is complete.
pub(crate) fn read_crypto(cx: &mut Context<'_>, state: &mut QuicState, payload: &[u8]) {
    if state.buffer == 0 {
        state.buffer = cx.services.buffers.allocate(0, 0, RANGES_MAX);
    }
    let mut frames = std::mem::take(&mut cx.services.frames);
    let mut all = crypto_frames(payload).peekable();
    while all.peek().is_some() {
        let left = usize::from(u8::MAX - state.frames) * work::FRAMES_PER_UNIT;
        if left == 0 {
            cx.services.initial_work.cuts += 1;
            cx.common.incomplete.add(Incomplete::WORK);
            break;
        }
        // Insert them in stream order. Then frames that are contiguous together never need more
        // than one range of the buffer.
        frames.clear();
        frames.extend(
            all.by_ref()
                .take(FRAMES_MAX.min(left))
                .map(|frame| FrameSpan {
                    offset: u32::try_from(frame.offset).unwrap_or(u32::MAX),
                    payload_offset: frame.payload_offset,
                    length: frame.data.len(),
                }),
        );
        let units = frames.len().div_ceil(work::FRAMES_PER_UNIT) as u8;
        state.frames += units;
        cx.services.initial_work.spend(units);
        if !frames.is_sorted_by_key(|frame| frame.offset) {
            frames.sort_unstable_by_key(|frame| frame.offset);
        }
        for frame in &frames {
            let data = &payload[frame.payload_offset..frame.payload_offset + frame.length];
            let inserted = cx
                .services
                .buffers
                .insert(state.buffer, 0, frame.offset, data);
            if inserted.is_err() {
                cx.common.incomplete.add(Incomplete::REASSEMBLY);
            }
        }
    }
    cx.services.frames = frames;
    let Some(stream) = cx.services.buffers.get_mut(state.buffer, 0) else {
        cx.common.incomplete.add(Incomplete::REASSEMBLY);
        return;
    };
    let needs_more = match tls::messages(stream.contiguous()).next() {
        None => true,
        Some(message) => !message.is_complete && message.kind == handshake::CLIENT_HELLO,
    };
    if !needs_more {
        finish_hello(cx, state);
    }
}

/// Reads the ClientHello in the buffer, complete or not, and releases the buffer.
fn finish_hello(cx: &mut Context<'_>, state: &mut QuicState) {
    let Some(stream) = cx.services.buffers.get_mut(state.buffer, 0) else {
        state.flags.set(handshake_flag::HELLO);
        return;
    };
    let length = stream.contiguous().len();
    let bytes = stream.take_bytes();
    read_hello(cx, state, &bytes[..length]);
    cx.services.buffers.release(&mut state.buffer, 0);
}

/// Reads a ClientHello, complete or not. Later CRYPTO frames are ignored.
fn read_hello(cx: &mut Context<'_>, state: &mut QuicState, bytes: &[u8]) {
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
        record_client_hello(cx, texts, flags, &hello, Transport::Quic);
    }
}

/// Returns the record of a connection.
fn quic_record(state: &QuicState) -> Option<Box<QuicRecord>> {
    let flags = state.flags;
    let has_client = flags.has(handshake_flag::CLIENT);
    if !has_client && state.version == 0 {
        return None;
    }
    let has_server = has_client
        && flags.has(handshake_flag::SERVER | handshake_flag::RETRY | handshake_flag::NEGOTIATION);
    let sent = |flag, is_known: bool| (is_known || flags.has(flag)).then_some(flags.has(flag));
    // Before that, they are those of the directions.
    let known = |id| match has_client {
        true => hexadecimal(id),
        false => AppText::default(),
    };
    let spin = &state.spin;
    Some(Box::new(QuicRecord {
        version: state.version,
        original_destination_id: hexadecimal(&state.original_id),
        client_id: known(&state.client_id),
        server_id: known(&state.server_id),
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

/// Whether Version Negotiation comes from the server and has the connection IDs of the client's first
/// packet (RFC 9000 section 17.2.1). If that packet had an unknown version, it was not read, and only
/// the direction can be checked.
fn is_answer_to_client(state: &QuicState, packet: &LongPacket<'_>, direction: u8) -> bool {
    if state.flags.has(handshake_flag::CLIENT) {
        direction != state.flags.client()
            && packet.destination_id == state.client_id.as_bytes()
            && packet.source_id == state.original_id.as_bytes()
    } else {
        direction == 1 || has_fixed_bit(packet.packet)
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

fn spin(record: &AppRecord) -> Option<&QuicRecord> {
    record.quic.as_deref().filter(|quic| quic.spin_count > 0)
}

columns! {
    pub(crate) COLUMNS
    Quic {
        "quicVersion" Number "" [] "" "Version in the client's Initial packets (RFC 9000 section 17.2); after Version Negotiation, that of the last one. 1 is RFC 9000, 1798521807 is RFC 9369."
            = |r| number(r.quic.as_ref().map(|q| q.version));
        "quicOriginalDestinationId" Hexadecimal "" [] "" "Destination connection ID of the client's first Initial packet (RFC 9000 section 7.2), in hexadecimal."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.original_destination_id));
        "quicClientId" Hexadecimal "" [] "" "Connection ID that the client chose for itself in its first Initial packet, in hexadecimal. Empty if it has length 0."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.client_id));
        "quicServerId" Hexadecimal "" [] "" "Connection ID that the server chose for itself in its last long header of the handshake, in hexadecimal. Empty if it has length 0."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.server_id));
        "quicZeroRtt" Number "" [] "" "1 if the client sent 0-RTT packets (RFC 9000 section 17.2.3); else 0. Empty if no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.zero_rtt));
        "quicRetry" Number "" [] "" "1 if the server sent a Retry packet (RFC 9000 section 17.2.5); else 0. Empty if no packet of the server with a long header was seen, or if no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.retry));
        "quicVersionNegotiation" Number "" [] "" "1 if the server sent Version Negotiation (RFC 9000 section 17.2.1); else 0. Empty in the same cases as quicRetry."
            = |r| number(r.quic.as_ref().and_then(|q| q.version_negotiation));
        "quicHandshakeRttSeconds" Real "seconds" [] "" "Time from the client's last Initial packet before the server's answer to the server's first Initial or Handshake packet, as seen at the capture point. Empty if the server was captured before the client."
            = |r| seconds(r.quic.as_ref().and_then(|q| q.handshake_rtt_ns));
        "quicSpinRttCount" Number "" [] "" "Number of RTT samples from the spin bit (RFC 9000 section 17.4)."
            = |r| number(spin(r).map(|q| q.spin_count));
        "quicSpinRttMinimumSeconds" Real "seconds" [] "" "Minimum of these samples. A sample is the time from one edge of the bit to the next, at most 4.294967295 s."
            = |r| seconds(spin(r).map(|q| q.spin_min_ns));
        "quicSpinRttMeanSeconds" Real "seconds" [] "" "Mean of these samples."
            = |r| seconds(spin(r).map(|q| q.spin_mean_ns));
    }
}
