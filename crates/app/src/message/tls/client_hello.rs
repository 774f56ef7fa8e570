//! The ClientHello (RFC 8446 section 4.1.2) and its extensions.

use crate::message::reader::Reader;
use crate::message::tls::{Message, is_grease, is_grease_protocol};
use wire::work;

/// Extensions (IANA TLS ExtensionType Values).
pub mod extension {
    /// server_name (RFC 6066).
    pub const SERVER_NAME: u16 = 0;
    /// signature_algorithms (RFC 8446).
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    /// application_layer_protocol_negotiation (RFC 7301).
    pub const ALPN: u16 = 16;
    /// session_ticket (RFC 5077).
    pub const SESSION_TICKET: u16 = 35;
    /// pre_shared_key (RFC 8446).
    pub const PRE_SHARED_KEY: u16 = 41;
    /// supported_versions (RFC 8446).
    pub const SUPPORTED_VERSIONS: u16 = 43;
    /// encrypted_client_hello (RFC 9849).
    pub const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// The most cipher suites, extensions or signature algorithms that are read. No client sends as many.
pub(super) const LIST_MAX: usize = 200;

/// The most names in server_name that are skipped; RFC 6066 defines one type of names.
const NAMES_MAX: usize = 8;

/// The available part of a ClientHello.
#[derive(Clone, Copy, Debug)]
pub struct ClientHello<'a> {
    /// legacy_version.
    pub legacy_version: u16,
    /// legacy_session_id.
    pub session_id: &'a [u8],
    /// cipher_suites, two bytes each.
    cipher_suites: &'a [u8],
    extensions: &'a [u8],
    /// Whether it is complete.
    pub is_complete: bool,
    /// Whether it has more suites or extensions than are read: then it counts as incomplete.
    pub is_too_long: bool,
}

impl<'a> ClientHello<'a> {
    /// Reads the body of a handshake message. If it is truncated within the extensions, the hello is
    /// incomplete; if it is truncated before them, the result is `None`.
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        Self::read_variant(body, false)
    }

    /// The same for DTLS, whose hello has a cookie (RFC 6347 section 4.2.1).
    #[must_use]
    pub fn read_datagram(body: &'a [u8]) -> Option<Self> {
        Self::read_variant(body, true)
    }

    fn read_variant(body: &'a [u8], is_datagram: bool) -> Option<Self> {
        let mut reader = Reader::new(body);
        let legacy_version = reader.u16()?;
        if legacy_version >> 8 != if is_datagram { 0xfe } else { 3 } {
            return None;
        }
        reader.take(32)?;
        let session_id = reader.vector8()?;
        if is_datagram {
            reader.vector8()?;
        }
        let cipher_suites = reader.vector16()?;
        reader.vector8()?;
        // A hello may have no extensions (RFC 5246 section 7.4.1.2).
        let (extensions, is_complete) = match reader.u16() {
            None => (&[][..], reader.is_empty()),
            Some(length) => {
                let extensions = reader.take_up_to(usize::from(length));
                (extensions, extensions.len() == usize::from(length))
            }
        };
        let first = first_extensions(extensions);
        let suites = cipher_suites.len().min(2 * LIST_MAX);
        let is_too_long = first.len() < extensions.len() || suites < cipher_suites.len();
        Some(Self {
            legacy_version,
            session_id,
            cipher_suites: &cipher_suites[..suites],
            extensions: first,
            is_complete: is_complete && !is_too_long,
            is_too_long,
        })
    }

    /// Reads a handshake message, which may be truncated.
    #[must_use]
    pub fn from_message(message: &Message<'a>) -> Option<Self> {
        let mut hello = Self::read(message.body)?;
        hello.is_complete &= message.is_complete;
        Some(hello)
    }

    /// Cipher suites in the client's order, including GREASE.
    pub fn cipher_suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        numbers(self.cipher_suites)
    }

    /// Types and contents of the extensions, in the client's order. The last one may be truncated.
    pub fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.extensions);
        std::iter::from_fn(move || {
            let kind = reader.u16()?;
            let length = reader.u16()?;
            Some((kind, reader.take_up_to(usize::from(length))))
        })
    }

    /// The available content of the first extension of a type.
    #[must_use]
    pub fn extension(&self, kind: u16) -> Option<&'a [u8]> {
        self.extensions()
            .find_map(|(found, content)| (found == kind).then_some(content))
    }

    /// The content of the first extension of a type, unless it is truncated.
    fn complete_extension(&self, kind: u16) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.extensions);
        loop {
            let found = reader.u16()?;
            let length = usize::from(reader.u16()?);
            let content = reader.take_up_to(length);
            if found == kind {
                return (self.is_complete || content.len() == length).then_some(content);
            }
        }
    }

    /// The host name in server_name (RFC 6066 section 3), if it is complete and not empty.
    #[must_use]
    pub fn server_name(&self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.extension(extension::SERVER_NAME)?);
        reader.u16()?;
        for _ in 0..NAMES_MAX {
            let kind = reader.u8()?;
            let name = reader.vector16()?;
            if kind == 0 {
                return (!name.is_empty()).then_some(name);
            }
        }
        None
    }

    /// The protocols that the client offers, in its order, without GREASE. Empty if the list is
    /// truncated.
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        protocols(self.complete_extension(extension::ALPN).unwrap_or_default())
            .filter(|protocol| !is_grease_protocol(protocol))
    }

    /// The versions in supported_versions, in the client's order, without GREASE. Empty if that
    /// extension is missing or truncated.
    pub fn supported_versions(&self) -> impl Iterator<Item = u16> + use<'a> {
        let content = self
            .complete_extension(extension::SUPPORTED_VERSIONS)
            .and_then(|content| content.split_first())
            .map_or(&[][..], |(_, versions)| versions);
        // Their length is a byte (RFC 8446 section 4.2.1).
        let content = &content[..content.len().min(usize::from(u8::MAX))];
        numbers(content).filter(|&version| !is_grease(version))
    }

    /// The signature algorithms, in the client's order.
    pub fn signature_algorithms(&self) -> impl Iterator<Item = u16> + use<'a> {
        let content = self.extension(extension::SIGNATURE_ALGORITHMS);
        numbers(content.and_then(|c| c.get(2..)).unwrap_or_default())
    }

    /// The versions that the client offers, without GREASE: those in supported_versions, or without
    /// that extension legacy_version, which is then the highest version offered (RFC 8446 section
    /// 4.2.1). Empty if the part of the hello that has them is missing.
    pub fn versions(&self) -> impl Iterator<Item = u16> + use<'a> {
        let extended = self.extension(extension::SUPPORTED_VERSIONS).is_some();
        let legacy = (self.is_complete && !extended).then_some(self.legacy_version);
        self.supported_versions().chain(legacy)
    }

    /// Whether the client offers Encrypted Client Hello, or a GREASE of it. `None` if the missing part
    /// of the hello may offer it.
    #[must_use]
    pub fn offers_ech(&self) -> Option<bool> {
        let offers = self.extension(extension::ENCRYPTED_CLIENT_HELLO).is_some();
        (offers || self.is_complete).then_some(offers)
    }

    /// Whether the client offers to resume a session: by a pre-shared key, by a ticket, or by a session
    /// ID. With TLS 1.3 a session ID has no meaning and does not count. `None` if the missing part of
    /// the hello may offer it.
    #[must_use]
    pub fn offers_resumption(&self) -> Option<bool> {
        let ticket = self.extension(extension::SESSION_TICKET);
        let by_session_id = || {
            let mut versions = self.versions().peekable();
            versions.peek().is_some()
                && versions.all(|version| version < 0x0304 || matches!(version, 0xfefd | 0xfeff))
        };
        let offers = self.extension(extension::PRE_SHARED_KEY).is_some()
            || ticket.is_some_and(|ticket| !ticket.is_empty())
            || (!self.session_id.is_empty() && by_session_id());
        (offers || self.is_complete).then_some(offers)
    }
}

/// The extensions up to [`LIST_MAX`].
fn first_extensions(extensions: &[u8]) -> &[u8] {
    // Most hellos are too short for so many.
    if extensions.len() <= 4 * LIST_MAX {
        return extensions;
    }
    let mut reader = Reader::new(extensions);
    for _ in 0..LIST_MAX {
        work::count(work::CALL);
        if reader.u16().is_none() {
            break;
        }
        let length = reader.u16().unwrap_or_default();
        reader.take_up_to(usize::from(length));
    }
    &extensions[..extensions.len() - reader.rest().len()]
}

/// The protocol names in a ProtocolNameList (RFC 7301 section 3.1).
pub(super) fn protocols(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(extension.get(2..).unwrap_or_default());
    std::iter::from_fn(move || reader.vector8())
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with a session ID and these extensions.
    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([0; 32]);
        body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        body
    }

    fn versions(hello: &ClientHello<'_>) -> Vec<u16> {
        hello.versions().collect()
    }

    #[test]
    fn missing_part_of_truncated_hello_is_unknown() {
        // ALPN, versions, ECH and a pre-shared key.
        let extensions =
            b"\0\x10\0\x05\0\x03\x02h2\0\x2b\0\x05\x04\x03\x04\x03\x03\xfe\x0d\0\0\0\x29\0\0";
        let body = hello(extensions);
        let before = body.len() - extensions.len();
        for cut in before..body.len() {
            let hello = ClientHello::read(&body[..cut]).unwrap();
            let available = cut - before;
            assert_eq!(
                hello.alpn().count(),
                usize::from(available >= 9),
                "{available}"
            );
            let expected: &[u16] = if available >= 18 {
                &[0x0304, 0x0303]
            } else {
                &[]
            };
            assert_eq!(versions(&hello), expected, "{available}");
            assert_eq!(hello.offers_ech(), (available >= 22).then_some(true));
            assert_eq!(hello.offers_resumption(), None);
        }
        let complete = ClientHello::read(&body).unwrap();
        assert_eq!(complete.offers_resumption(), Some(true));
        // Truncated where a hello without extensions would end.
        let message = Message {
            kind: 1,
            body: &body[..before - 2],
            is_complete: false,
            length: body.len() + 4,
        };
        let cut = ClientHello::from_message(&message).unwrap();
        assert_eq!(
            (cut.is_complete, versions(&cut), cut.offers_ech()),
            (false, vec![], None)
        );
    }

    #[test]
    fn legacy_version_is_offered_without_supported_versions() {
        let body = hello(&[]);
        let old = ClientHello::read(&body).unwrap();
        assert_eq!(versions(&old), [0x0303]);
        assert_eq!(old.offers_ech(), Some(false));
        assert_eq!(old.offers_resumption(), Some(true), "by its session ID");
        let body = hello(b"\0\x2b\0\x03\x02\x03\x04");
        let new = ClientHello::read(&body).unwrap();
        assert_eq!(versions(&new), [0x0304]);
        assert_eq!(new.offers_resumption(), Some(false));
    }
}
