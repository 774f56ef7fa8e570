//! TLS handshakes: what the two hellos and the certificate say, and how long the set-up takes.

use super::Segment;
use super::reader::Reader;
use super::record::{Cut, TlsRecord};
use super::state::{Common, Hello, Marks, Nanoseconds, QuicState, TcpState, TlsState, mark, side};
use super::tcp_stream::Verdict;
use crate::message::tls::{
    ClientHello, End, Ja4, NotTls, RECORD_HEADER, RecordHeader, ServerHello, Transport,
    certificate, content, handshake, messages, stream_length,
};

/// The version of TLS 1.2 on the wire.
const TLS_1_2: u16 = 0x0303;

/// Packets with payload after which a handshake is given up.
const PACKETS_MAX: u8 = 200;

impl Reader {
    /// Reads the records of a stream from the beginning of one on.
    pub(super) fn read_tls(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        if common.packets >= PACKETS_MAX {
            return Verdict::Close;
        }
        let direction = usize::from(segment.direction & 1);
        if tcp.sides[direction].take_another()
            && !tcp.tls.marks.has(mark::SERVER_HELLO)
            && direction == usize::from(tcp.tls.marks.client())
        {
            self.forget_unanswered_hello(tcp);
        }
        let state = &mut tcp.tls;
        let from_client = segment.direction & 1 == state.marks.client();
        let verdict = if state.marks.has(mark::CLIENT_HELLO) && from_client {
            after_client_hello(state, segment, bytes)
        } else if let Some(Ok(header)) = RecordHeader::read(bytes)
            && header.content != content::HANDSHAKE
        {
            // Of a server: ChangeCipherSpec, or what is encrypted.
            if state.marks.has(mark::SERVER_HELLO) {
                Verdict::Close
            } else {
                Verdict::Used(RECORD_HEADER + header.length)
            }
        } else {
            let mut joined = std::mem::take(&mut self.joined);
            let verdict = self.read_handshake(&mut common.cut, state, segment, bytes, &mut joined);
            self.joined = joined;
            verdict
        };
        // Set-up time needs a server's hello; without one nothing more will be known.
        if state.marks.has(mark::SETUP) {
            tcp.sides[usize::from(state.marks.client())].set(side::CLOSED);
        }
        verdict
    }

    fn read_handshake(
        &mut self,
        cut: &mut Cut,
        state: &mut TlsState,
        segment: &Segment<'_>,
        bytes: &[u8],
        joined: &mut Vec<u8>,
    ) -> Verdict {
        let read = handshake(bytes, joined);
        let mut ended = 0;
        for message in messages(read.bytes) {
            match message.kind {
                handshake::CLIENT_HELLO if !state.marks.has(mark::CLIENT_HELLO) => {
                    if !message.whole && read.end == End::Open {
                        return Verdict::More;
                    }
                    let Some(hello) = ClientHello::of(&message) else {
                        return Verdict::Close;
                    };
                    self.begin_handshake(cut, state, segment, &hello);
                    return match stream_length(bytes, message.length) {
                        Some(length) => Verdict::Used(length),
                        None => Verdict::Close,
                    };
                }
                handshake::SERVER_HELLO
                    if !state.marks.has(mark::SERVER_HELLO) && message.whole =>
                {
                    let Some(hello) = ServerHello::read(message.body) else {
                        return Verdict::Close;
                    };
                    if !state.marks.has(mark::CLIENT_HELLO) {
                        let from_initiator = segment.direction & 1 == 0;
                        state.marks.put(mark::CLIENT_IS_1, from_initiator);
                    }
                    if hello.is_retry {
                        return match stream_length(bytes, message.length) {
                            Some(length) => Verdict::Used(length),
                            None => Verdict::Close,
                        };
                    }
                    self.note_server_hello(cut, state, &hello);
                    if state.version > TLS_1_2 {
                        return Verdict::Close;
                    }
                }
                handshake::CERTIFICATE if state.marks.has(mark::SERVER_HELLO) => {
                    if let Some(names) = certificate::names(message.body) {
                        self.texts.release(state.subject);
                        self.texts.release(state.issuer);
                        state.subject = self.keep(cut, names.subject.as_bytes());
                        state.issuer = self.keep(cut, names.issuer.as_bytes());
                        return Verdict::Close;
                    } else if message.whole {
                        return Verdict::Close;
                    }
                }
                handshake::SERVER_HELLO_DONE => return Verdict::Close,
                _ => {}
            }
            ended += 4 + message.body.len();
        }
        match read.end {
            End::NotTls => Verdict::Close,
            // Whole messages, then a record of another type.
            End::Other(at) if ended == read.bytes.len() => Verdict::Used(at),
            End::Other(_) => Verdict::Close,
            End::Open => Verdict::More,
        }
    }

    /// Reads of a ClientHello that will not become whole what there is.
    pub(super) fn read_cut_hello(
        &mut self,
        cut: &mut Cut,
        state: &mut TlsState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) {
        if state.marks.has(mark::CLIENT_HELLO) {
            return;
        }
        let mut joined = std::mem::take(&mut self.joined);
        let read = handshake(bytes, &mut joined);
        if let Some(message) = messages(read.bytes).next()
            && message.kind == handshake::CLIENT_HELLO
            && let Some(hello) = ClientHello::of(&message)
        {
            self.begin_handshake(cut, state, segment, &hello);
        }
        self.joined = joined;
    }

    fn begin_handshake(
        &mut self,
        cut: &mut Cut,
        state: &mut TlsState,
        segment: &Segment<'_>,
        hello: &ClientHello<'_>,
    ) {
        let TlsState { hello: texts, .. } = state;
        self.note_client_hello(cut, texts, &mut state.marks, hello, Transport::Tcp);
        let session = digest(hello.session_id);
        if state.marks.has(mark::SERVER_HELLO) && state.version <= TLS_1_2 {
            state.note_echo(session);
        }
        state.session = session;
        let from_responder = segment.direction & 1 == 1;
        state.marks.put(mark::CLIENT_IS_1, from_responder);
        state.time = Nanoseconds::new(segment.time_ns);
    }

    /// Keeps what a ClientHello says.
    pub(super) fn note_client_hello(
        &mut self,
        cut: &mut Cut,
        texts: &mut Hello,
        marks: &mut Marks,
        hello: &ClientHello<'_>,
        transport: Transport,
    ) {
        marks.set(mark::CLIENT_HELLO);
        if let Some(name) = hello.server_name() {
            texts.server_name = self.keep(cut, name);
        }
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        for protocol in hello.alpn() {
            if !list.is_empty() {
                list.push(b',');
            }
            list.extend_from_slice(protocol);
        }
        texts.alpn_offered = self.keep(cut, &list);
        list.clear();
        for version in hello.versions() {
            push_version(&mut list, version);
        }
        texts.versions_offered = self.keep(cut, &list);
        self.list = list;
        if let Some(ja4) = Ja4::remembering(hello, transport, &mut self.ja4_hashes) {
            texts.ja4 = self.keep(cut, ja4.as_str().as_bytes());
        }
        marks.put(mark::HELLO_CUT, !hello.whole);
        marks.put(mark::ECH_OFFERED, hello.offers_ech() == Some(true));
        let resumption = hello.offers_resumption() == Some(true);
        marks.put(mark::RESUMPTION_OFFERED, resumption);
    }

    fn note_server_hello(&mut self, cut: &mut Cut, state: &mut TlsState, hello: &ServerHello<'_>) {
        state.marks.set(mark::SERVER_HELLO);
        state.version = hello.version;
        state.cipher = hello.cipher_suite;
        if let Some(protocol) = hello.alpn {
            state.alpn_chosen = self.keep(cut, protocol);
        }
        let session = digest(hello.session_id);
        if hello.version > TLS_1_2 {
            state.marks.put(mark::RESUMED, hello.pre_shared_key);
        } else if state.marks.has(mark::CLIENT_HELLO) {
            state.note_echo(session);
        } else {
            state.session = session;
        }
    }

    /// The record of a handshake over TCP; its texts are given back.
    pub(super) fn tls_record(&mut self, state: &TlsState) -> Option<Box<TlsRecord>> {
        let has_server_hello = state.marks.has(mark::SERVER_HELLO);
        let has_client_hello = state.marks.has(mark::CLIENT_HELLO);
        if !has_server_hello && !has_client_hello {
            return None;
        }
        // Up to TLS 1.2 it takes both hellos to tell.
        let is_known = has_server_hello && (has_client_hello || state.version > TLS_1_2);
        Some(Box::new(TlsRecord {
            alpn_chosen: self.texts.take(state.alpn_chosen),
            version: has_server_hello.then_some(state.version),
            cipher: has_server_hello.then_some(state.cipher),
            resumed: is_known.then_some(state.marks.has(mark::RESUMED)),
            setup_ns: state
                .time
                .known_span()
                .filter(|_| state.marks.has(mark::SETUP)),
            subject: self.texts.take(state.subject),
            issuer: self.texts.take(state.issuer),
            ..self.hello_record(&state.hello, state.marks)
        }))
    }

    /// The record of a ClientHello inside QUIC; its texts are given back.
    pub(super) fn quic_hello_record(&mut self, state: &QuicState) -> Option<Box<TlsRecord>> {
        let known = state.marks.has(mark::CLIENT_HELLO);
        known.then(|| Box::new(self.hello_record(&state.hello, state.marks)))
    }

    fn hello_record(&mut self, texts: &Hello, marks: Marks) -> TlsRecord {
        // What was not seen to be offered may have been offered in what was not seen.
        let whole = marks.has(mark::CLIENT_HELLO) && !marks.has(mark::HELLO_CUT);
        let offered = |mark| (whole || marks.has(mark)).then_some(marks.has(mark));
        TlsRecord {
            server_name: self.texts.take(texts.server_name),
            alpn_offered: self.texts.take(texts.alpn_offered),
            versions_offered: self.texts.take(texts.versions_offered),
            ja4: self.texts.take(texts.ja4),
            ech_offered: offered(mark::ECH_OFFERED),
            resumption_offered: offered(mark::RESUMPTION_OFFERED),
            ..TlsRecord::default()
        }
    }
}

impl TlsState {
    /// Notes whether the second of two hellos has the session id of the first.
    fn note_echo(&mut self, session: u32) {
        let is_same = session != 0 && session == self.session;
        self.marks.put(mark::RESUMED, is_same);
    }
}

/// Reads the client's records behind its hello, up to the first application data after the
/// server's.
fn after_client_hello(state: &mut TlsState, segment: &Segment<'_>, bytes: &[u8]) -> Verdict {
    match RecordHeader::read(bytes) {
        None => Verdict::More,
        Some(Err(NotTls)) => Verdict::Close,
        Some(Ok(header)) => {
            if header.content == content::APPLICATION_DATA && state.marks.has(mark::SERVER_HELLO) {
                state.time = state.time.until(segment.time_ns);
                state.marks.set(mark::SETUP);
                return Verdict::Close;
            }
            Verdict::Used(RECORD_HEADER + header.length)
        }
    }
}

/// A digest of a session id (FNV-1a), 0 for an empty one.
fn digest(session_id: &[u8]) -> u32 {
    if session_id.is_empty() {
        return 0;
    }
    let hash = session_id.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// Appends a version in hexadecimal, with a comma before all but the first.
fn push_version(list: &mut Vec<u8>, version: u16) {
    if !list.is_empty() {
        list.push(b',');
    }
    let digit = |shift: u32| b"0123456789abcdef"[usize::from(version >> shift & 15)];
    list.extend([12, 8, 4, 0].map(digit));
}
