//! ClientHellos: their fields in the state of a flow and in its record. TLS, QUIC and DTLS have the
//! same ones.

use crate::message::tls::{ClientHello, Ja4, Transport};
use crate::parser::Context;
use crate::record::TlsRecord;
use crate::services::Services;
use crate::text_pool::TextId;

/// Bits of [`handshake_flag`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandshakeFlags(u16);

impl HandshakeFlags {
    #[inline]
    pub(crate) const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    #[inline]
    pub(crate) const fn put(&mut self, flag: u16, value: bool) {
        self.0 = self.0 & !flag | if value { flag } else { 0 };
    }
}

/// Flags of TLS and QUIC.
pub(crate) mod handshake_flag {
    /// The client offers Encrypted Client Hello.
    pub(crate) const ECH_OFFERED: u16 = 1;
    /// The client offers to resume a session.
    pub(crate) const RESUMPTION_OFFERED: u16 = 1 << 1;
    /// The initiator's packets are the server's.
    pub(crate) const CLIENT_IS_1: u16 = 1 << 2;
    /// A ClientHello was read.
    pub(crate) const CLIENT_HELLO: u16 = 1 << 3;
    /// A ServerHello was read (TLS).
    pub(crate) const SERVER_HELLO: u16 = 1 << 4;
    /// The setup time is known (TLS).
    pub(crate) const SETUP: u16 = 1 << 5;
    /// The server resumed a session (TLS).
    pub(crate) const RESUMED: u16 = 1 << 6;
    /// An Initial packet of the client was decrypted (QUIC).
    pub(crate) const CLIENT: u16 = 1 << 7;
    /// The client's first handshake message was read, whatever its type (QUIC).
    pub(crate) const HELLO: u16 = 1 << 8;
    /// The RTT of the handshake is known (QUIC).
    pub(crate) const RTT: u16 = 1 << 9;
    /// 0-RTT packets were seen (QUIC).
    pub(crate) const ZERO_RTT: u16 = 1 << 10;
    /// A Retry packet was seen (QUIC).
    pub(crate) const RETRY: u16 = 1 << 11;
    /// The keys are derived from a connection ID other than the original one (QUIC).
    pub(crate) const RETRIED: u16 = 1 << 12;
    /// A Version Negotiation packet was seen (QUIC).
    pub(crate) const NEGOTIATION: u16 = 1 << 13;
    /// An edge of the spin bit was seen (QUIC).
    pub(crate) const SPIN: u16 = 1 << 14;
    /// The end of the ClientHello is missing.
    pub(crate) const HELLO_CUT: u16 = 1 << 15;
}

impl HandshakeFlags {
    /// Direction of the client's packets.
    #[inline]
    pub(crate) fn client(self) -> u8 {
        u8::from(self.has(handshake_flag::CLIENT_IS_1))
    }
}

/// Texts of a ClientHello.
#[derive(Debug, Default)]
pub(crate) struct HelloTexts {
    pub(crate) server_name: TextId,
    pub(crate) alpn_offered: TextId,
    pub(crate) versions_offered: TextId,
    pub(crate) ja4: TextId,
}

/// Records the fields of a ClientHello.
pub(crate) fn record_client_hello(
    cx: &mut Context<'_>,
    texts: &mut HelloTexts,
    flags: &mut HandshakeFlags,
    hello: &ClientHello<'_>,
    transport: Transport,
) {
    flags.set(handshake_flag::CLIENT_HELLO);
    if let Some(name) = hello.server_name() {
        texts.server_name = cx.intern(name);
    }
    let mut list = std::mem::take(&mut cx.services.list_buffer);
    list.clear();
    for protocol in hello.alpn() {
        if !list.is_empty() {
            list.push(b',');
        }
        list.extend_from_slice(protocol);
    }
    texts.alpn_offered = cx.intern(&list);
    list.clear();
    for version in hello.versions() {
        push_version(&mut list, version);
    }
    texts.versions_offered = cx.intern(&list);
    cx.services.list_buffer = list;
    if let Some(ja4) = Ja4::with_cache(hello, transport, &mut cx.services.ja4_cache) {
        texts.ja4 = cx.intern(ja4.as_str().as_bytes());
    }
    flags.put(handshake_flag::HELLO_CUT, !hello.is_complete);
    flags.put(
        handshake_flag::ECH_OFFERED,
        hello.offers_ech() == Some(true),
    );
    let resumption = hello.offers_resumption() == Some(true);
    flags.put(handshake_flag::RESUMPTION_OFFERED, resumption);
}

/// Returns the fields of a ClientHello for the record, and releases their texts.
pub(crate) fn hello_record(
    services: &mut Services,
    texts: &HelloTexts,
    flags: HandshakeFlags,
) -> TlsRecord {
    // The missing part of a truncated hello may have the offer.
    let is_complete =
        flags.has(handshake_flag::CLIENT_HELLO) && !flags.has(handshake_flag::HELLO_CUT);
    let offered = |flag| (is_complete || flags.has(flag)).then_some(flags.has(flag));
    TlsRecord {
        server_name: services.texts.take(texts.server_name),
        alpn_offered: services.texts.take(texts.alpn_offered),
        versions_offered: services.texts.take(texts.versions_offered),
        ja4: services.texts.take(texts.ja4),
        ech_offered: offered(handshake_flag::ECH_OFFERED),
        resumption_offered: offered(handshake_flag::RESUMPTION_OFFERED),
        ..TlsRecord::default()
    }
}

/// Appends a version in hexadecimal, after a comma if it is not the first.
fn push_version(list: &mut Vec<u8>, version: u16) {
    if !list.is_empty() {
        list.push(b',');
    }
    let digit = |shift: u32| b"0123456789abcdef"[usize::from(version >> shift & 15)];
    list.extend([12, 8, 4, 0].map(digit));
}
