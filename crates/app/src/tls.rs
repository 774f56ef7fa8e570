//! TLS handshakes: the two hellos, the certificate and the setup time.

use super::L4Payload;
use super::parsers::Parsers;
use super::record::{Incomplete, TlsRecord};
use super::state::{
    Common, HandshakeFlags, HelloTexts, Nanoseconds, QuicState, TcpState, TlsState, handshake_flag,
    side_flag,
};
use super::tcp_stream::Verdict;
use crate::message::tls::{
    ClientHello, End, Ja4, NotTls, RECORD_HEADER_LENGTH, RecordHeader, ServerHello, Transport,
    certificate, content, handshake, join_records, messages, stream_length,
};

/// The version of TLS 1.2 on the wire.
const TLS_1_2: u16 = 0x0303;

/// Number of packets with payload after which a handshake is given up.
const PACKETS_MAX: u8 = 200;

impl Parsers {
    /// Reads the records of a stream. `bytes` start with a record.
    pub(super) fn read_tls(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) -> Verdict {
        if common.packets >= PACKETS_MAX {
            return Verdict::Done;
        }
        let direction = usize::from(segment.direction & 1);
        if tcp.sides[direction].take_new_connection()
            && !tcp.tls.flags.has(handshake_flag::SERVER_HELLO)
            && direction == usize::from(tcp.tls.flags.client())
        {
            self.discard_unanswered_hello(tcp);
        }
        let state = &mut tcp.tls;
        let from_client = segment.direction & 1 == state.flags.client();
        let verdict = if state.flags.has(handshake_flag::CLIENT_HELLO) && from_client {
            read_after_client_hello(state, segment, bytes)
        } else if let Some(Ok(header)) = RecordHeader::read(bytes)
            && header.content != content::HANDSHAKE
        {
            // ChangeCipherSpec or encrypted records of the server.
            if state.flags.has(handshake_flag::SERVER_HELLO) {
                Verdict::Done
            } else {
                Verdict::Consumed(RECORD_HEADER_LENGTH + header.length)
            }
        } else {
            let mut scratch = std::mem::take(&mut self.scratch);
            let verdict =
                self.read_handshake(&mut common.incomplete, state, segment, bytes, &mut scratch);
            self.scratch = scratch;
            verdict
        };
        // The setup time is the last thing that the client's packets can give.
        if state.flags.has(handshake_flag::SETUP) {
            tcp.sides[usize::from(state.flags.client())].set(side_flag::DONE);
        }
        verdict
    }

    fn read_handshake(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut TlsState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Verdict {
        let read = join_records(bytes, scratch);
        let mut read_bytes = 0;
        for message in messages(read.bytes) {
            match message.kind {
                handshake::CLIENT_HELLO if !state.flags.has(handshake_flag::CLIENT_HELLO) => {
                    if !message.is_complete && read.end == End::EndOfBytes {
                        return Verdict::NeedMore;
                    }
                    let Some(hello) = ClientHello::from_message(&message) else {
                        return Verdict::Done;
                    };
                    self.start_handshake(incomplete, state, segment, &hello);
                    return match stream_length(bytes, message.length) {
                        Some(length) => Verdict::Consumed(length),
                        None => Verdict::Done,
                    };
                }
                handshake::SERVER_HELLO
                    if !state.flags.has(handshake_flag::SERVER_HELLO) && message.is_complete =>
                {
                    let Some(hello) = ServerHello::read(message.body) else {
                        return Verdict::Done;
                    };
                    if !state.flags.has(handshake_flag::CLIENT_HELLO) {
                        let from_initiator = segment.direction & 1 == 0;
                        state.flags.put(handshake_flag::CLIENT_IS_1, from_initiator);
                    }
                    if hello.is_retry {
                        return match stream_length(bytes, message.length) {
                            Some(length) => Verdict::Consumed(length),
                            None => Verdict::Done,
                        };
                    }
                    self.record_server_hello(incomplete, state, &hello);
                    if state.version > TLS_1_2 {
                        return Verdict::Done;
                    }
                }
                handshake::CERTIFICATE if state.flags.has(handshake_flag::SERVER_HELLO) => {
                    if let Some(names) = certificate::names(message.body) {
                        self.texts.release(state.subject);
                        self.texts.release(state.issuer);
                        state.subject = self.intern(incomplete, names.subject.as_bytes());
                        state.issuer = self.intern(incomplete, names.issuer.as_bytes());
                        return Verdict::Done;
                    } else if message.is_complete {
                        return Verdict::Done;
                    }
                }
                handshake::SERVER_HELLO_DONE => return Verdict::Done,
                _ => {}
            }
            read_bytes += 4 + message.body.len();
        }
        match read.end {
            End::NotTls => Verdict::Done,
            // Complete messages, then a record of another content type.
            End::OtherContent(at) if read_bytes == read.bytes.len() => Verdict::Consumed(at),
            End::OtherContent(_) => Verdict::Done,
            End::EndOfBytes => Verdict::NeedMore,
        }
    }

    /// Reads a ClientHello that remains incomplete.
    pub(super) fn read_truncated_hello(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut TlsState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) {
        if state.flags.has(handshake_flag::CLIENT_HELLO) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = join_records(bytes, &mut scratch);
        if let Some(message) = messages(read.bytes).next()
            && message.kind == handshake::CLIENT_HELLO
            && let Some(hello) = ClientHello::from_message(&message)
        {
            self.start_handshake(incomplete, state, segment, &hello);
        }
        self.scratch = scratch;
    }

    fn start_handshake(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut TlsState,
        segment: &L4Payload<'_>,
        hello: &ClientHello<'_>,
    ) {
        let TlsState { hello: texts, .. } = state;
        self.record_client_hello(incomplete, texts, &mut state.flags, hello, Transport::Tcp);
        let session = digest(hello.session_id);
        if state.flags.has(handshake_flag::SERVER_HELLO) && state.version <= TLS_1_2 {
            state.record_session_echo(session);
        }
        state.session_digest = session;
        let from_responder = segment.direction & 1 == 1;
        state.flags.put(handshake_flag::CLIENT_IS_1, from_responder);
        state.time = Nanoseconds::new(segment.time_ns);
    }

    /// Records the fields of a ClientHello.
    pub(super) fn record_client_hello(
        &mut self,
        incomplete: &mut Incomplete,
        texts: &mut HelloTexts,
        flags: &mut HandshakeFlags,
        hello: &ClientHello<'_>,
        transport: Transport,
    ) {
        flags.set(handshake_flag::CLIENT_HELLO);
        if let Some(name) = hello.server_name() {
            texts.server_name = self.intern(incomplete, name);
        }
        let mut list = std::mem::take(&mut self.list_buffer);
        list.clear();
        for protocol in hello.alpn() {
            if !list.is_empty() {
                list.push(b',');
            }
            list.extend_from_slice(protocol);
        }
        texts.alpn_offered = self.intern(incomplete, &list);
        list.clear();
        for version in hello.versions() {
            push_version(&mut list, version);
        }
        texts.versions_offered = self.intern(incomplete, &list);
        self.list_buffer = list;
        if let Some(ja4) = Ja4::with_cache(hello, transport, &mut self.ja4_cache) {
            texts.ja4 = self.intern(incomplete, ja4.as_str().as_bytes());
        }
        flags.put(handshake_flag::HELLO_CUT, !hello.is_complete);
        flags.put(
            handshake_flag::ECH_OFFERED,
            hello.offers_ech() == Some(true),
        );
        let resumption = hello.offers_resumption() == Some(true);
        flags.put(handshake_flag::RESUMPTION_OFFERED, resumption);
    }

    fn record_server_hello(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut TlsState,
        hello: &ServerHello<'_>,
    ) {
        state.flags.set(handshake_flag::SERVER_HELLO);
        state.version = hello.version;
        state.cipher = hello.cipher_suite;
        if let Some(protocol) = hello.alpn {
            state.alpn_chosen = self.intern(incomplete, protocol);
        }
        let session = digest(hello.session_id);
        if hello.version > TLS_1_2 {
            state
                .flags
                .put(handshake_flag::RESUMED, hello.pre_shared_key);
        } else if state.flags.has(handshake_flag::CLIENT_HELLO) {
            state.record_session_echo(session);
        } else {
            state.session_digest = session;
        }
    }

    /// Returns the record of a handshake over TCP and releases its texts.
    pub(super) fn tls_record(&mut self, state: &TlsState) -> Option<Box<TlsRecord>> {
        let has_server_hello = state.flags.has(handshake_flag::SERVER_HELLO);
        let has_client_hello = state.flags.has(handshake_flag::CLIENT_HELLO);
        if !has_server_hello && !has_client_hello {
            return None;
        }
        // Up to TLS 1.2, both hellos are needed.
        let is_known = has_server_hello && (has_client_hello || state.version > TLS_1_2);
        Some(Box::new(TlsRecord {
            alpn_chosen: self.texts.take(state.alpn_chosen),
            version: has_server_hello.then_some(state.version),
            cipher: has_server_hello.then_some(state.cipher),
            resumed: is_known.then_some(state.flags.has(handshake_flag::RESUMED)),
            setup_ns: state
                .time
                .known_span()
                .filter(|_| state.flags.has(handshake_flag::SETUP)),
            subject: self.texts.take(state.subject),
            issuer: self.texts.take(state.issuer),
            ..self.hello_record(&state.hello, state.flags)
        }))
    }

    /// Returns the record of a ClientHello inside QUIC and releases its texts.
    pub(super) fn quic_hello_record(&mut self, state: &QuicState) -> Option<Box<TlsRecord>> {
        let has_hello = state.flags.has(handshake_flag::CLIENT_HELLO);
        has_hello.then(|| Box::new(self.hello_record(&state.hello, state.flags)))
    }

    fn hello_record(&mut self, texts: &HelloTexts, flags: HandshakeFlags) -> TlsRecord {
        // The missing part of a truncated hello may have the offer.
        let is_complete =
            flags.has(handshake_flag::CLIENT_HELLO) && !flags.has(handshake_flag::HELLO_CUT);
        let offered = |flag| (is_complete || flags.has(flag)).then_some(flags.has(flag));
        TlsRecord {
            server_name: self.texts.take(texts.server_name),
            alpn_offered: self.texts.take(texts.alpn_offered),
            versions_offered: self.texts.take(texts.versions_offered),
            ja4: self.texts.take(texts.ja4),
            ech_offered: offered(handshake_flag::ECH_OFFERED),
            resumption_offered: offered(handshake_flag::RESUMPTION_OFFERED),
            ..TlsRecord::default()
        }
    }
}

impl TlsState {
    /// Sets whether the session was resumed: whether the second hello has the session ID of the
    /// first.
    fn record_session_echo(&mut self, session: u32) {
        let is_same = session != 0 && session == self.session_digest;
        self.flags.put(handshake_flag::RESUMED, is_same);
    }
}

/// Reads the client's records after its hello, up to the first application data after the
/// ServerHello.
fn read_after_client_hello(state: &mut TlsState, segment: &L4Payload<'_>, bytes: &[u8]) -> Verdict {
    match RecordHeader::read(bytes) {
        None => Verdict::NeedMore,
        Some(Err(NotTls)) => Verdict::Done,
        Some(Ok(header)) => {
            if header.content == content::APPLICATION_DATA
                && state.flags.has(handshake_flag::SERVER_HELLO)
            {
                state.time = state.time.until(segment.time_ns);
                state.flags.set(handshake_flag::SETUP);
                return Verdict::Done;
            }
            Verdict::Consumed(RECORD_HEADER_LENGTH + header.length)
        }
    }
}

/// A digest of a session ID (FNV-1a), 0 for an empty one.
fn digest(session_id: &[u8]) -> u32 {
    if session_id.is_empty() {
        return 0;
    }
    let hash = session_id.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// Appends a version in hexadecimal, after a comma if it is not the first.
fn push_version(list: &mut Vec<u8>, version: u16) {
    if !list.is_empty() {
        list.push(b',');
    }
    let digit = |shift: u32| b"0123456789abcdef"[usize::from(version >> shift & 15)];
    list.extend([12, 8, 4, 0].map(digit));
}
