//! TLS handshakes over TCP: the two hellos, the certificate and the setup time.

use crate::column::{columns, number, seconds, text};
use crate::handshake::{HandshakeFlags, HelloTexts, handshake_flag};
use crate::hello::{hello_record, record_client_hello, session_digest};
use crate::message::tls::{
    self, ClientHello, End, NotTls, RECORD_HEADER_LENGTH, RecordHeader, ServerHello, Transport,
    certificate, content, handshake, join_records, messages, stream_length,
};
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, Incomplete, TlsRecord};
use crate::services::Services;
use crate::text_pool::TextId;
use wire::work;

/// A TLS handshake.
#[derive(Debug, Default)]
pub(crate) struct TlsState {
    hello: HelloTexts,
    alpn_chosen: TextId,
    subject: TextId,
    issuer: TextId,
    /// Digest of the session ID in the first of the two hellos, 0 if it is empty.
    session_digest: u32,
    version: u16,
    cipher: u16,
    /// Flags of [`handshake_flag`].
    flags: HandshakeFlags,
    /// Number of times that the records of a stream were read.
    reads: u8,
    /// Time of the ClientHello; with [`handshake_flag::SETUP`], the setup time.
    time: Nanoseconds,
}

impl TlsState {
    /// Whether the ClientHello waits for its ServerHello.
    pub(crate) const fn is_unanswered(&self) -> bool {
        self.flags.has(handshake_flag::CLIENT_HELLO)
            && !self.flags.has(handshake_flag::SERVER_HELLO)
    }

    /// Whether a ServerHello of any connection of the flow was read.
    pub(crate) const fn is_answered(&self) -> bool {
        self.flags.has(handshake_flag::SERVER_HELLO)
    }

    /// Another connection starts on the ports of the flow, and this is its first TLS packet. If it is
    /// the client's, an unanswered ClientHello of the earlier connection is discarded.
    pub(crate) fn start_new_connection(&mut self, cx: &mut Context<'_>) {
        if !self.is_answered() && cx.packet.direction & 1 == self.flags.client() {
            for text in std::mem::take(self).texts() {
                cx.services.texts.release(*text);
            }
        }
    }

    /// Whether a hello of any connection of the flow was read.
    pub(crate) const fn has_hello(&self) -> bool {
        self.flags.has(handshake_flag::CLIENT_HELLO) || self.flags.has(handshake_flag::SERVER_HELLO)
    }

    fn texts(&mut self) -> [&mut TextId; 7] {
        let HelloTexts {
            server_name,
            alpn_offered,
            versions_offered,
            ja4,
        } = &mut self.hello;
        [
            server_name,
            alpn_offered,
            versions_offered,
            ja4,
            &mut self.alpn_chosen,
            &mut self.subject,
            &mut self.issuer,
        ]
    }
}

/// The version of TLS 1.2 on the wire.
const TLS_1_2: u16 = 0x0303;

/// Number of times that records are read, after which a handshake is given up. It counts neither the
/// packets before it nor those that only bring the next part of a record.
const READS_MAX: u8 = 200;

impl Parser for TlsState {
    fn probe(_: &L4Payload<'_>, bytes: &[u8], _is_start: bool) -> Probe {
        match tls::detect(bytes) {
            tls::Detected::Hello(_) => Probe::Yes,
            tls::Detected::NeedMore => Probe::NeedMore,
            tls::Detected::No => Probe::No,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    /// Reads the records of a stream. `bytes` start with a record.
    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        if bytes.len() < usize::from(cx.progress.note) {
            return Verdict::NeedMore;
        }
        self.reads = self.reads.saturating_add(1);
        if self.reads > READS_MAX {
            if !self.has_hello() {
                cx.common.incomplete.add(Incomplete::REASSEMBLY);
            }
            return Verdict::Done;
        }
        let from_client = cx.packet.direction & 1 == self.flags.client();
        if self.flags.has(handshake_flag::CLIENT_HELLO) && from_client {
            read_after_client_hello(self, cx, bytes)
        } else if let Some(Ok(header)) = RecordHeader::read(bytes)
            && header.content != content::HANDSHAKE
        {
            // ChangeCipherSpec or encrypted records of the server.
            if self.flags.has(handshake_flag::SERVER_HELLO) {
                Verdict::Done
            } else {
                Verdict::Consumed(RECORD_HEADER_LENGTH + header.length)
            }
        } else {
            let mut scratch = std::mem::take(&mut cx.services.scratch);
            let verdict = read_handshake(cx, self, bytes, &mut scratch, false);
            cx.services.scratch = scratch;
            verdict
        }
    }

    /// Reads a ClientHello or a certificate that remains incomplete.
    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let from_client = cx.packet.direction & 1 == self.flags.client();
        if self.flags.has(handshake_flag::CLIENT_HELLO) && from_client {
            return;
        }
        let mut scratch = std::mem::take(&mut cx.services.scratch);
        read_handshake(cx, self, bytes, &mut scratch, true);
        cx.services.scratch = scratch;
    }

    fn is_first(bytes: &[u8]) -> bool {
        matches!(tls::detect(bytes), tls::Detected::Hello(_))
    }

    /// Unlike [`Parser::finish`], it keeps the handshake for the next record.
    fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        // The record takes the texts out of the pool, but the flow needs them again.
        let mut kept = Self::default();
        for (text, retained) in self.texts().into_iter().zip(kept.texts()) {
            *retained = cx.services.texts.retain(*text);
        }
        self.finish(cx, record);
        for (text, retained) in self.texts().into_iter().zip(kept.texts()) {
            *text = *retained;
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        if !self.has_hello() {
            return;
        }
        let has_server_hello = self.flags.has(handshake_flag::SERVER_HELLO);
        let has_client_hello = self.flags.has(handshake_flag::CLIENT_HELLO);
        // Up to TLS 1.2, both hellos are needed.
        let is_known = has_server_hello && (has_client_hello || self.version > TLS_1_2);
        let texts = &mut cx.services.texts;
        record.tls = Some(Box::new(TlsRecord {
            alpn_chosen: texts.take(self.alpn_chosen),
            version: has_server_hello.then_some(self.version),
            cipher: has_server_hello.then_some(self.cipher),
            resumed: is_known.then_some(self.flags.has(handshake_flag::RESUMED)),
            setup_ns: self
                .time
                .known_span()
                .filter(|_| self.flags.has(handshake_flag::SETUP)),
            subject: texts.take(self.subject),
            issuer: texts.take(self.issuer),
            ..hello_record(cx.services, &self.hello, self.flags)
        }));
    }
}

/// Reads the handshake records at the start of `bytes`. If they are the last ones, an incomplete
/// ClientHello is read as well.
fn read_handshake(
    cx: &mut Context<'_>,
    state: &mut TlsState,
    bytes: &[u8],
    scratch: &mut Vec<u8>,
    are_last: bool,
) -> Verdict {
    let read = join_records(bytes, scratch);
    let mut read_bytes = 0;
    let mut missing = 0;
    for (number, message) in messages(read.bytes).enumerate() {
        work::count(HANDSHAKE_HEADER_LENGTH);
        if number == MESSAGES_MAX {
            cx.common.incomplete.add(Incomplete::WORK);
            return Verdict::Done;
        }
        missing = message.length - HANDSHAKE_HEADER_LENGTH - message.body.len();
        match message.kind {
            handshake::CLIENT_HELLO if !state.flags.has(handshake_flag::CLIENT_HELLO) => {
                if !message.is_complete && read.end == End::EndOfBytes && !are_last {
                    cx.progress.note = note(bytes.len() + missing);
                    return Verdict::NeedMore;
                }
                let Some(hello) = ClientHello::from_message(&message) else {
                    return Verdict::Done;
                };
                start_handshake(cx, state, &hello);
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
                    let from_initiator = cx.packet.direction & 1 == 0;
                    state.flags.put(handshake_flag::CLIENT_IS_1, from_initiator);
                }
                if hello.is_retry {
                    return match stream_length(bytes, message.length) {
                        Some(length) => Verdict::Consumed(length),
                        None => Verdict::Done,
                    };
                }
                record_server_hello(cx, state, &hello);
                if state.version > TLS_1_2 {
                    return Verdict::Done;
                }
            }
            handshake::CERTIFICATE if state.flags.has(handshake_flag::SERVER_HELLO) => {
                if let Some(names) = certificate::names(message.body) {
                    cx.services.texts.release(state.subject);
                    cx.services.texts.release(state.issuer);
                    state.subject = cx.intern(names.subject.as_bytes());
                    state.issuer = cx.intern(names.issuer.as_bytes());
                    return Verdict::Done;
                } else if message.is_complete {
                    return Verdict::Done;
                }
            }
            handshake::SERVER_HELLO_DONE => return Verdict::Done,
            _ => {}
        }
        read_bytes += HANDSHAKE_HEADER_LENGTH + message.body.len();
    }
    match read.end {
        End::NotTls => Verdict::Done,
        // Complete messages, then a record of another content type.
        End::OtherContent(at) if read_bytes == read.bytes.len() => Verdict::Consumed(at),
        End::OtherContent(_) => Verdict::Done,
        End::EndOfBytes => {
            // A certificate has its names at its start, so it is not waited for in full. But to read all
            // messages again for each byte would cost the square of their length.
            let more = (bytes.len() / 4).max(1);
            let more = match missing {
                0 => more,
                _ => more.min(missing),
            };
            cx.progress.note = note(bytes.len() + more);
            Verdict::NeedMore
        }
    }
}

/// The most messages of a flight that are read; real ones have less than ten.
const MESSAGES_MAX: usize = 32;

/// Length of the header of a handshake message in bytes.
const HANDSHAKE_HEADER_LENGTH: usize = 4;

/// The note that fewer than this number of bytes need not be read again.
fn note(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

fn start_handshake(cx: &mut Context<'_>, state: &mut TlsState, hello: &ClientHello<'_>) {
    let TlsState { hello: texts, .. } = state;
    record_client_hello(cx, texts, &mut state.flags, hello, Transport::Tcp);
    let session = session_digest(hello.session_id);
    if state.flags.has(handshake_flag::SERVER_HELLO) && state.version <= TLS_1_2 {
        state.record_session_echo(session);
    }
    state.session_digest = session;
    let from_responder = cx.packet.direction & 1 == 1;
    state.flags.put(handshake_flag::CLIENT_IS_1, from_responder);
    state.time = Nanoseconds::new(cx.packet.time_ns);
}

fn record_server_hello(cx: &mut Context<'_>, state: &mut TlsState, hello: &ServerHello<'_>) {
    state.flags.set(handshake_flag::SERVER_HELLO);
    state.version = hello.version;
    state.cipher = hello.cipher_suite;
    if let Some(protocol) = hello.alpn {
        state.alpn_chosen = cx.intern(protocol);
    }
    let session = session_digest(hello.session_id);
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
fn read_after_client_hello(state: &mut TlsState, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
    match RecordHeader::read(bytes) {
        None => {
            cx.progress.note = note(RECORD_HEADER_LENGTH);
            Verdict::NeedMore
        }
        Some(Err(NotTls)) => Verdict::Done,
        Some(Ok(header)) => {
            if header.content == content::APPLICATION_DATA
                && state.flags.has(handshake_flag::SERVER_HELLO)
            {
                state.time = state.time.until(cx.packet.time_ns);
                state.flags.set(handshake_flag::SETUP);
                return Verdict::Done;
            }
            Verdict::Consumed(RECORD_HEADER_LENGTH + header.length)
        }
    }
}

columns! {
    pub(crate) COLUMNS
    Tls {
        "tlsServerName" Text "" [] "c_tls_SNI" "Server name in the ClientHello (RFC 6066 section 3), of TLS over TCP, inside QUIC, or of DTLS. The flow's own client says it."
            = |r| text(r.tls.as_ref().map(|t| &t.server_name));
        "tlsAlpnOffered" Text "" [] "c_npnalpn" "Protocols that the client offers (RFC 7301), separated by commas, without GREASE (RFC 8701)."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_offered));
        "tlsAlpnChosen" Text "" [] "s_npnalpn" "Protocol that the server chose (RFC 7301 section 3.1), if it is not encrypted (up to TLS 1.2)."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_chosen));
        "tlsVersionsOffered" Text "" [] "" "Versions in the client's supported_versions extension (RFC 8446 section 4.2.1), in the client's order, in hexadecimal as on the wire, separated by commas, without GREASE (RFC 8701). Without that extension, legacy_version alone, which is then the highest version offered. Empty if the part of the ClientHello that has them was not seen."
            = |r| text(r.tls.as_ref().map(|t| &t.versions_offered));
        "tlsVersion" Number "" [] "" "Version that the server chose in its ServerHello (RFC 8446 sections 4.1.3 and 4.2.1), as on the wire: 769 TLS 1.0, 770 TLS 1.1, 771 TLS 1.2, 772 TLS 1.3, 65279 DTLS 1.0, 65277 DTLS 1.2, 65276 DTLS 1.3."
            = |r| number(r.tls.as_ref().and_then(|t| t.version));
        "tlsCipherSuite" Number "" [] "" "Cipher suite that the server chose in its ServerHello (RFC 8446 section 4.1.3; IANA TLS Cipher Suites)."
            = |r| number(r.tls.as_ref().and_then(|t| t.cipher));
        "tlsJa4" Text "" [] "" "JA4 fingerprint of the ClientHello, as FoxIO defines it: three parts of 10, 12 and 12 characters, starting with t for TCP, q for QUIC or d for DTLS. Empty if the end of the ClientHello is missing."
            = |r| text(r.tls.as_ref().map(|t| &t.ja4));
        "tlsEchOffered" Number "" [] "" "1 if the client offers Encrypted Client Hello (RFC 9849) or a GREASE of it, which looks the same; else 0. Empty if the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.ech_offered));
        "tlsResumptionOffered" Number "" [] "" "1 if the client offers to resume a session: by session ID (RFC 5246 section 7.4.1.2, if it does not offer TLS 1.3), ticket (RFC 5077) or pre-shared key (RFC 8446 section 4.2.11); else 0. Empty if the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumption_offered));
        "tlsResumed" Number "" [] "" "1 if the server resumed the session: it echoes the session ID (up to TLS 1.2) or chooses a pre-shared key (TLS 1.3); else 0. Empty if no ServerHello was seen, or one up to TLS 1.2 without its ClientHello."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumed));
        "tlsSetupSeconds" Real "seconds" [] "" "Time from the packet that completes the ClientHello to the client's first record of application data (in TLS 1.3, its Finished) after the ServerHello."
            = |r| seconds(r.tls.as_ref().and_then(|t| t.setup_ns));
        "tlsCertificateSubject" Text "" [] "s_tls_SCN" "Subject of the server's certificate (RFC 5280 section 4.1.2.6), written as in RFC 4514 but in the certificate's order, if it is not encrypted (up to TLS 1.2). Tstat has the common name only."
            = |r| text(r.tls.as_ref().map(|t| &t.subject));
        "tlsCertificateIssuer" Text "" [] "" "Issuer of the server's certificate (RFC 5280 section 4.1.2.4), written in the same way. The flow's own server says both."
            = |r| text(r.tls.as_ref().map(|t| &t.issuer));
    }
}
