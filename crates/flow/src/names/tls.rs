//! TLS handshakes: what the two hellos and the certificate say, and how long the set-up takes.

use super::record::{Cut, TlsRecord};
use super::state::{Flow, TlsState};
use super::tcp_stream::Verdict;
use super::text_pool::Text;
use super::{Names, Segment};
use wire::app::tls::{
    ClientHello, End, Ja4, NotTls, RECORD_HEADER, RecordHeader, ServerHello, Transport,
    certificate, content, handshake, messages, stream_length,
};

/// Packets with payload after which a handshake is given up.
const PACKETS_MAX: u8 = 200;

impl Names {
    /// Reads the records of a stream from the beginning of one on.
    pub(super) fn read_tls(
        &mut self,
        flow: &mut Flow,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        if flow.packets >= PACKETS_MAX {
            return Verdict::Close;
        }
        let Some(&state) = self.tls.get(flow.tls) else {
            return Verdict::Close;
        };
        let mut joined = std::mem::take(&mut self.joined);
        let mut state = state;
        let from_client = segment.direction & 1 == state.client;
        let verdict = if state.has_client_hello && from_client {
            after_client_hello(&mut state, segment, bytes)
        } else if let Some(Ok(header)) = RecordHeader::read(bytes)
            && header.content != content::HANDSHAKE
        {
            // Of a server: ChangeCipherSpec, or what is encrypted.
            if state.has_server_hello {
                Verdict::Close
            } else {
                Verdict::Used(RECORD_HEADER + header.length)
            }
        } else {
            self.read_handshake(flow, &mut state, segment, bytes, &mut joined)
        };
        self.joined = joined;
        if let Some(place) = self.tls.get_mut(flow.tls) {
            *place = state;
        }
        // Set-up time needs a server's hello; without one nothing more will be known.
        if state.has_setup {
            flow.sides[usize::from(state.client & 1)].closed = true;
        }
        verdict
    }

    fn read_handshake(
        &mut self,
        flow: &mut Flow,
        state: &mut TlsState,
        segment: &Segment<'_>,
        bytes: &[u8],
        joined: &mut Vec<u8>,
    ) -> Verdict {
        let read = handshake(bytes, joined);
        let mut ended = 0;
        for message in messages(read.bytes) {
            match message.kind {
                handshake::CLIENT_HELLO if !state.has_client_hello => {
                    if !message.whole && read.end == End::Open {
                        return Verdict::More;
                    }
                    let Some(hello) = ClientHello::read(message.body) else {
                        return Verdict::Close;
                    };
                    self.note_client_hello(flow, state, &hello, Transport::Tcp);
                    state.client = segment.direction & 1;
                    state.time_ns = segment.time_ns;
                    return match stream_length(bytes, message.length) {
                        Some(length) => Verdict::Used(length),
                        None => Verdict::Close,
                    };
                }
                handshake::SERVER_HELLO if !state.has_server_hello && message.whole => {
                    let Some(hello) = ServerHello::read(message.body) else {
                        return Verdict::Close;
                    };
                    if !state.has_client_hello {
                        state.client = 1 - (segment.direction & 1);
                    }
                    if hello.is_retry {
                        return match stream_length(bytes, message.length) {
                            Some(length) => Verdict::Used(length),
                            None => Verdict::Close,
                        };
                    }
                    self.note_server_hello(flow, state, &hello);
                    if state.version > 0x0303 {
                        return Verdict::Close;
                    }
                }
                handshake::CERTIFICATE if state.has_server_hello => {
                    if let Some(names) = certificate::names(message.body) {
                        state.subject = self.keep(flow, names.subject.as_bytes());
                        state.issuer = self.keep(flow, names.issuer.as_bytes());
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
    pub(super) fn read_cut_hello(&mut self, flow: &mut Flow, segment: &Segment<'_>, bytes: &[u8]) {
        let Some(&state) = self.tls.get(flow.tls) else {
            return;
        };
        if state.has_client_hello {
            return;
        }
        let mut state = state;
        let mut joined = std::mem::take(&mut self.joined);
        let read = handshake(bytes, &mut joined);
        if let Some(message) = messages(read.bytes).next()
            && message.kind == handshake::CLIENT_HELLO
            && let Some(hello) = ClientHello::read(message.body)
        {
            self.note_client_hello(flow, &mut state, &hello, Transport::Tcp);
            state.client = segment.direction & 1;
            state.time_ns = segment.time_ns;
        }
        self.joined = joined;
        if let Some(place) = self.tls.get_mut(flow.tls) {
            *place = state;
        }
    }

    /// Keeps what a ClientHello says.
    pub(super) fn note_client_hello(
        &mut self,
        flow: &mut Flow,
        state: &mut TlsState,
        hello: &ClientHello<'_>,
        transport: Transport,
    ) {
        state.has_client_hello = true;
        if let Some(name) = hello.server_name() {
            state.server_name = self.keep(flow, name);
        }
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        for protocol in hello.alpn() {
            if !list.is_empty() {
                list.push(b',');
            }
            list.extend_from_slice(protocol);
        }
        if !list.is_empty() {
            state.alpn_offered = self.keep(flow, &list);
        }
        self.list = list;
        let mut versions = hello.supported_versions().peekable();
        if versions.peek().is_none() {
            state.versions[0] = hello.legacy_version;
        } else {
            for (place, version) in state.versions.iter_mut().zip(versions) {
                *place = version;
            }
        }
        if let Some(ja4) = Ja4::remembering(hello, transport, &mut self.ja4_hashes) {
            state.ja4 = ja4.pack();
        }
        state.ech_offered = hello.offers_ech();
        state.resumption_offered = hello.offers_resumption();
        state.session = digest(hello.session_id);
    }

    fn note_server_hello(
        &mut self,
        flow: &mut Flow,
        state: &mut TlsState,
        hello: &ServerHello<'_>,
    ) {
        state.has_server_hello = true;
        state.version = hello.version;
        state.cipher = hello.cipher_suite;
        if let Some(protocol) = hello.alpn {
            state.alpn_chosen = self.keep(flow, protocol);
        }
        state.resumed = if hello.version <= 0x0303 {
            state.session != 0 && digest(hello.session_id) == state.session
        } else {
            hello.pre_shared_key
        };
    }

    /// Keeps a text within the flow's share; notes what was cut.
    pub(super) fn keep(&mut self, flow: &mut Flow, text: &[u8]) -> Text {
        let (text, cut) = self.texts.keep(text, &mut flow.blocks);
        if cut {
            flow.cut.add(Cut::TEXT);
        }
        text
    }

    /// The record of a handshake; its texts are given back.
    pub(super) fn tls_record(&mut self, handle: u32, quic: bool) -> Option<Box<TlsRecord>> {
        let state = *self.tls.get(handle)?;
        let known = state.has_client_hello || state.has_server_hello;
        let record = TlsRecord {
            server_name: self.texts.string(state.server_name),
            alpn_offered: self.texts.string(state.alpn_offered),
            alpn_chosen: self.texts.string(state.alpn_chosen),
            versions_offered: versions(&state.versions),
            version: state.has_server_hello.then_some(state.version),
            cipher: state.has_server_hello.then_some(state.cipher),
            ja4: (state.ja4[0] != 0).then(|| {
                let transport = if quic {
                    Transport::Quic
                } else {
                    Transport::Tcp
                };
                Ja4::unpack(&state.ja4, transport).as_str().into()
            }),
            ech_offered: state.ech_offered,
            resumption_offered: state.resumption_offered,
            resumed: state.resumed,
            setup_ns: state.has_setup.then_some(state.time_ns.cast_unsigned()),
            subject: self.texts.string(state.subject),
            issuer: self.texts.string(state.issuer),
        };
        self.release_tls(handle);
        known.then(|| Box::new(record))
    }

    pub(super) fn release_tls(&mut self, handle: u32) {
        if let Some(&state) = self.tls.get(handle) {
            for text in [
                state.server_name,
                state.alpn_offered,
                state.alpn_chosen,
                state.subject,
                state.issuer,
            ] {
                self.texts.release(text);
            }
            self.tls.release(handle);
        }
    }
}

/// Reads the client's records behind its hello, up to the first application data after the
/// server's.
fn after_client_hello(state: &mut TlsState, segment: &Segment<'_>, bytes: &[u8]) -> Verdict {
    match RecordHeader::read(bytes) {
        None => Verdict::More,
        Some(Err(NotTls)) => Verdict::Close,
        Some(Ok(header)) => {
            if header.content == content::APPLICATION_DATA && state.has_server_hello {
                let setup = segment.time_ns.saturating_sub(state.time_ns).max(0);
                state.time_ns = setup;
                state.has_setup = true;
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

fn versions(offered: &[u16]) -> Option<Box<str>> {
    let mut text = String::with_capacity(5 * offered.len());
    for version in offered.iter().take_while(|&&version| version != 0) {
        if !text.is_empty() {
            text.push(',');
        }
        for shift in [12, 8, 4, 0] {
            text.extend(char::from_digit(u32::from(version >> shift & 15), 16));
        }
    }
    (!text.is_empty()).then(|| text.into())
}
