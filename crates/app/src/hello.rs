//! ClientHellos: their fields in the state of a flow and in its record. TLS, QUIC and DTLS have the
//! same ones.

use crate::handshake::{HandshakeFlags, HelloTexts, handshake_flag};
use crate::message::tls::{ClientHello, Ja4, Transport};
use crate::parser::Context;
use crate::record::{Incomplete, TlsRecord};
use crate::services::Services;
use crate::text_pool::TEXT_MAX;

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
        // What follows would be cut, which `intern` marks.
        if list.len() > TEXT_MAX {
            break;
        }
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
    } else if hello.is_complete || hello.is_too_long {
        cx.common.incomplete.add(Incomplete::WORK);
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

/// A digest of a session ID (FNV-1a), 0 for an empty one.
pub(crate) fn session_digest(session_id: &[u8]) -> u32 {
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
