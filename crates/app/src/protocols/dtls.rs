//! DTLS handshakes: the ClientHello, the ServerHello, and the server's certificate up to DTLS 1.2.
//!
//! They fill the columns of TLS, as those inside QUIC do, because a server name or a fingerprint is
//! looked for in one column. The letter of JA4, the version and the transport protocol distinguish
//! them.

pub(crate) mod state;

use crate::column::AppColumn;
use crate::handshake::handshake_flag;
use crate::hello::{hello_record, record_client_hello, session_digest};
use crate::message::Reader;
use crate::message::tls::{ClientHello, ServerHello, Transport, certificate, content, handshake};
use crate::nanoseconds::Nanoseconds;
use crate::parser::Context;
use crate::payload::L4Payload;
use crate::reassembly::TCP_RANGES_MAX;
use crate::record::{AppRecord, Incomplete, TlsRecord};
use crate::services::Services;
use crate::text_pool::TextId;
use state::{DtlsState, Pending};
use wire::work;

/// DTLS has the columns of TLS.
pub(crate) const COLUMNS: &[AppColumn] = &[];

/// Versions on the wire (RFC 4347, RFC 6347, RFC 9147).
const DTLS_1_0: u16 = 0xfeff;
const DTLS_1_2: u16 = 0xfefd;
const DTLS_1_3: u16 = 0xfefc;

/// The most records of a datagram that are read.
const RECORDS_MAX: usize = 16;

/// The most fragments of messages in a datagram that are read. Each may be buffered.
const FRAGMENTS_MAX: usize = 16;

/// Number of fragments for which one counts in addition if it needs a new buffer.
const OTHER_MESSAGE: usize = 3;

/// Number of datagrams after which a handshake is given up.
const DATAGRAMS_MAX: u8 = 200;

/// The longest handshake message that is read, in bytes.
const MESSAGE_MAX: u32 = 1 << 16;

/// HelloVerifyRequest (RFC 6347 section 4.2.1), which requests the ClientHello again, with a cookie.
const HELLO_VERIFY_REQUEST: u8 = 3;

/// A fragment of a handshake message (RFC 6347 section 4.2.2).
struct Fragment<'a> {
    kind: u8,
    length: u32,
    number: u16,
    offset: u32,
    bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Reads a fragment, which the snaplen may have truncated.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let kind = reader.u8()?;
        let length = reader.u24()?;
        let number = reader.u16()?;
        let offset = reader.u24()?;
        let fragment_length = reader.u24()?;
        let end = offset.checked_add(fragment_length)?;
        (end <= length && length < MESSAGE_MAX).then(|| Self {
            kind,
            length,
            number,
            offset,
            bytes: reader.take_up_to(fragment_length as usize),
        })
    }

    fn is_whole(&self) -> bool {
        self.bytes.len() == self.length as usize
    }
}

/// Whether a datagram is DTLS by its first byte (RFC 7983 section 7).
pub(crate) fn has_record_byte(datagram: &[u8]) -> bool {
    matches!(datagram, [20..=63, ..])
}

/// Whether a datagram starts with a hello that is not encrypted.
pub(crate) fn is_hello(datagram: &[u8]) -> bool {
    // Most datagrams are of other protocols.
    if datagram.first() != Some(&content::HANDSHAKE) {
        return false;
    }
    let is_hello = (|| {
        let mut reader = Reader::new(datagram);
        reader.u8()?;
        let version = reader.u16()?;
        let epoch = reader.u16()?;
        reader.take(6)?;
        let length = reader.u16()?;
        let kind = reader.u8()?;
        let is_known = matches!(
            kind,
            handshake::CLIENT_HELLO | handshake::SERVER_HELLO | HELLO_VERIFY_REQUEST
        );
        let is_version = matches!(version, DTLS_1_0 | DTLS_1_2);
        Some(is_version && epoch == 0 && length >= 12 && is_known)
    })();
    is_hello == Some(true)
}

impl DtlsState {
    /// Reads a datagram.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        self.datagrams = self.datagrams.saturating_add(1);
        let is_given_up = self.datagrams >= DATAGRAMS_MAX;
        if is_given_up || self.read_records(cx, bytes) {
            if is_given_up && self.is_partial() {
                cx.common.incomplete.add(Incomplete::WORK);
            }
            self.is_done = true;
            self.release(cx.services);
        }
    }

    /// Reads the records of a datagram. Returns true if the handshake has ended.
    fn read_records(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> bool {
        let from_client = cx.packet.direction & 1 == self.flags.client();
        let mut reader = Reader::new(bytes);
        let mut fragments_left = FRAGMENTS_MAX;
        for _ in 0..RECORDS_MAX {
            work::count(work::CALL);
            let Some(kind) = reader.u8() else {
                break;
            };
            // In DTLS 1.3, encrypted records have a short header (RFC 9147 section 4).
            let is_data = kind == content::APPLICATION_DATA || kind >> 5 == 1;
            if is_data && from_client && self.flags.has(handshake_flag::SERVER_HELLO) {
                self.time = self.time.until(cx.packet.time_ns);
                self.flags.set(handshake_flag::SETUP);
                return true;
            }
            let (Some(version), Some(epoch)) = (reader.u16(), reader.u16()) else {
                break;
            };
            let (Some(_), Some(length)) = (reader.take(6), reader.u16()) else {
                break;
            };
            if version >> 8 != 0xfe {
                break;
            }
            let record = reader.take_up_to(usize::from(length));
            if kind == content::HANDSHAKE && epoch == 0 {
                self.read_fragments(cx, record, &mut fragments_left);
            }
        }
        if bytes.len() < cx.packet.payload_length as usize
            && !self.flags.has(handshake_flag::CLIENT_HELLO)
        {
            cx.common.incomplete.add(Incomplete::SNAPLEN);
        }
        false
    }

    /// Whether a hello was read, or part of one is buffered.
    pub(crate) fn is_started(&self) -> bool {
        self.datagrams > 0
    }

    /// Reads the first part of a message whose buffer was evicted.
    pub(crate) fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let pending = std::mem::take(&mut self.pending[cx.direction()]);
        self.read_message(cx, pending.kind, bytes, false);
    }

    /// Releases the buffers.
    pub(crate) fn release(&mut self, services: &mut Services) {
        for (direction, pending) in (0..).zip(&mut self.pending) {
            services.buffers.release(&mut pending.buffer, direction);
        }
    }

    /// Whether the flow's next record must be able to complete the handshake.
    pub(crate) fn is_partial(&self) -> bool {
        if !self.is_started() || self.is_done {
            return false;
        }
        let is_answered = self.flags.has(handshake_flag::SERVER_HELLO);
        !is_answered || self.pending.iter().any(|pending| pending.buffer != 0)
    }

    /// Writes the record, and keeps the handshake for the next record.
    pub(crate) fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        // The record takes the texts out of the pool, but the flow needs them again.
        let mut kept = Self::default();
        for (text, retained) in self.texts().into_iter().zip(kept.texts()) {
            *retained = cx.services.texts.retain(*text);
        }
        self.write(cx, record);
        for (text, retained) in self.texts().into_iter().zip(kept.texts()) {
            *text = *retained;
        }
    }

    /// Writes the record, and releases all texts and buffers.
    pub(crate) fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        for direction in 0..2 {
            if self.pending[direction].buffer != 0 {
                cx.common.incomplete.add(Incomplete::GAP);
                let packet = L4Payload::empty(direction as u8, cx.packet.protocol);
                self.read_pending(&mut cx.with_packet(&packet), false);
            }
        }
        self.write(cx, record);
    }

    fn texts(&mut self) -> [&mut TextId; 7] {
        [
            &mut self.hello.server_name,
            &mut self.hello.alpn_offered,
            &mut self.hello.versions_offered,
            &mut self.hello.ja4,
            &mut self.alpn_chosen,
            &mut self.subject,
            &mut self.issuer,
        ]
    }

    /// Reads the handshake messages in a record: whole ones, and fragments of long ones.
    fn read_fragments(&mut self, cx: &mut Context<'_>, record: &[u8], left: &mut usize) {
        let mut reader = Reader::new(record);
        while let Some(fragment) = Fragment::read(&mut reader) {
            work::count(work::CALL);
            if *left == 0 {
                cx.common.incomplete.add(Incomplete::WORK);
                return;
            }
            *left -= 1;
            if !self.needs(fragment.kind) {
                continue;
            }
            if fragment.is_whole() {
                self.read_message(cx, fragment.kind, fragment.bytes, true);
            } else {
                let is_other = self.buffer_fragment(cx, &fragment);
                *left = left.saturating_sub(if is_other { OTHER_MESSAGE } else { 0 });
            }
        }
    }

    /// Whether a message of this type can add something.
    fn needs(&self, kind: u8) -> bool {
        match kind {
            handshake::CLIENT_HELLO => !self.flags.has(handshake_flag::CLIENT_HELLO),
            handshake::SERVER_HELLO => !self.flags.has(handshake_flag::SERVER_HELLO),
            handshake::CERTIFICATE => !self.has_certificate,
            _ => false,
        }
    }

    /// Adds a fragment to the message that its direction has in a buffer, and reads the message if it
    /// is complete. Returns whether it needed a new buffer.
    fn buffer_fragment(&mut self, cx: &mut Context<'_>, fragment: &Fragment<'_>) -> bool {
        let direction = cx.direction();
        let pending = &mut self.pending[direction];
        let buffers = &mut cx.services.buffers;
        let is_same = pending.number == fragment.number
            && pending.kind == fragment.kind
            && pending.length == fragment.length;
        if pending.buffer != 0 && !is_same {
            // Another message, such as the ClientHello with the cookie.
            buffers.release(&mut pending.buffer, direction as u8);
        }
        let is_new = pending.buffer == 0;
        if is_new {
            *pending = Pending {
                buffer: buffers.allocate(direction as u8, 0, TCP_RANGES_MAX),
                number: fragment.number,
                length: fragment.length,
                kind: fragment.kind,
            };
        }
        let handle = pending.buffer;
        let inserted = buffers.insert(handle, direction as u8, fragment.offset, fragment.bytes);
        if inserted.is_err() {
            cx.common.incomplete.add(Incomplete::REASSEMBLY);
            self.read_pending(cx, false);
            return is_new;
        }
        let stream = buffers.get_mut(handle, direction as u8);
        let length = fragment.length as usize;
        if stream.is_some_and(|stream| stream.contiguous().len() >= length) {
            self.read_pending(cx, true);
        }
        is_new
    }

    /// Reads the message in the buffer of a direction, and releases the buffer.
    fn read_pending(&mut self, cx: &mut Context<'_>, is_complete: bool) {
        let direction = cx.direction();
        let mut pending = std::mem::take(&mut self.pending[direction]);
        let buffers = &mut cx.services.buffers;
        if let Some(stream) = buffers.get_mut(pending.buffer, direction as u8) {
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            self.read_message(cx, pending.kind, &bytes[..length], is_complete);
        }
        let buffers = &mut cx.services.buffers;
        buffers.release(&mut pending.buffer, direction as u8);
    }

    /// Reads the body of a handshake message.
    fn read_message(&mut self, cx: &mut Context<'_>, kind: u8, body: &[u8], is_complete: bool) {
        match kind {
            handshake::CLIENT_HELLO if self.needs(kind) => {
                let Some(mut hello) = ClientHello::read_datagram(body) else {
                    return;
                };
                hello.is_complete &= is_complete;
                let Self {
                    hello: texts,
                    flags,
                    ..
                } = self;
                record_client_hello(cx, texts, flags, &hello, Transport::Datagram);
                let from_responder = cx.packet.direction & 1 == 1;
                flags.put(handshake_flag::CLIENT_IS_1, from_responder);
                self.record_session(hello.session_id);
                self.time = Nanoseconds::new(cx.packet.time_ns);
            }
            handshake::SERVER_HELLO if is_complete && self.needs(kind) => {
                let Some(hello) = ServerHello::read(body).filter(|hello| !hello.is_retry) else {
                    return;
                };
                if !self.flags.has(handshake_flag::CLIENT_HELLO) {
                    let from_initiator = cx.packet.direction & 1 == 0;
                    self.flags.put(handshake_flag::CLIENT_IS_1, from_initiator);
                    self.time = Nanoseconds::new(Nanoseconds::UNKNOWN);
                }
                self.flags.set(handshake_flag::SERVER_HELLO);
                self.version = hello.version;
                self.cipher = hello.cipher_suite;
                if let Some(protocol) = hello.alpn {
                    self.alpn_chosen = cx.intern(protocol);
                }
                match hello.version {
                    DTLS_1_3 => {
                        let resumed = hello.pre_shared_key;
                        self.flags.put(handshake_flag::RESUMED, resumed);
                    }
                    _ => self.record_session(hello.session_id),
                }
            }
            handshake::CERTIFICATE
                if self.flags.has(handshake_flag::SERVER_HELLO)
                    && cx.packet.direction & 1 != self.flags.client()
                    && self.needs(kind) =>
            {
                self.has_certificate = is_complete;
                if let Some(names) = certificate::names(body) {
                    self.subject = cx.intern(names.subject.as_bytes());
                    self.issuer = cx.intern(names.issuer.as_bytes());
                }
            }
            _ => {}
        }
    }

    /// Compares the session IDs of the two hellos, whichever comes first. If the server echoes that of
    /// the client, it resumes the session (RFC 5246 section 7.4.1.3).
    fn record_session(&mut self, session_id: &[u8]) {
        let digest = session_digest(session_id);
        let is_second = self.flags.has(handshake_flag::CLIENT_HELLO)
            && self.flags.has(handshake_flag::SERVER_HELLO);
        if !is_second {
            self.session_digest = digest;
        } else if self.version != DTLS_1_3 {
            let is_same = digest != 0 && digest == self.session_digest;
            self.flags.put(handshake_flag::RESUMED, is_same);
        }
    }

    fn write(&self, cx: &mut Context<'_>, record: &mut AppRecord) {
        let has_server_hello = self.flags.has(handshake_flag::SERVER_HELLO);
        if !has_server_hello && !self.flags.has(handshake_flag::CLIENT_HELLO) {
            return;
        }
        let has_client_hello = self.flags.has(handshake_flag::CLIENT_HELLO);
        // Up to DTLS 1.2, both hellos are needed.
        let is_known = has_server_hello && (has_client_hello || self.version == DTLS_1_3);
        let is_resumed = self.flags.has(handshake_flag::RESUMED);
        let texts = &mut cx.services.texts;
        record.tls = Some(Box::new(TlsRecord {
            alpn_chosen: texts.take(self.alpn_chosen),
            version: has_server_hello.then_some(self.version),
            cipher: has_server_hello.then_some(self.cipher),
            resumed: is_known.then_some(is_resumed),
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
