//! The ServerHello (RFC 8446 section 4.1.3, RFC 5246 section 7.4.1.3).

use super::client_hello::{extension, protocols};
use crate::message::reader::Reader;

/// The random value that marks a ServerHello as a HelloRetryRequest (RFC 8446 section 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// A ServerHello: what the server chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// Chosen version.
    pub version: u16,
    /// legacy_session_id_echo.
    pub session_id: &'a [u8],
    /// Chosen cipher suite.
    pub cipher_suite: u16,
    /// Chosen protocol, if it is not encrypted.
    pub alpn: Option<&'a [u8]>,
    /// Whether the server chose a pre-shared key.
    pub pre_shared_key: bool,
    /// Whether it is a HelloRetryRequest, which requests another ClientHello.
    pub is_retry: bool,
}

impl<'a> ServerHello<'a> {
    /// Reads the body of a handshake message.
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let version = reader.u16()?;
        // DTLS has 0xfe, drafts of TLS 1.3 have 0x7f.
        if !matches!(version >> 8, 3 | 0xfe | 0x7f) {
            return None;
        }
        let random = reader.take(32)?;
        let mut hello = Self {
            version,
            // Drafts of TLS 1.3 before 22 have no session ID and compression method.
            session_id: if version >> 8 == 0x7f {
                &[]
            } else {
                reader.vector8()?
            },
            cipher_suite: reader.u16()?,
            alpn: None,
            pre_shared_key: false,
            is_retry: random == RETRY_RANDOM,
        };
        if version >> 8 != 0x7f {
            reader.u8()?;
        }
        let length = reader.u16().unwrap_or(0);
        let mut reader = Reader::new(reader.take_up_to(usize::from(length)));
        while let (Some(kind), Some(content)) = (reader.u16(), reader.vector16()) {
            match kind {
                extension::SUPPORTED_VERSIONS => {
                    hello.version = Reader::new(content).u16().unwrap_or(version);
                }
                extension::ALPN => hello.alpn = protocols(content).next(),
                extension::PRE_SHARED_KEY => hello.pre_shared_key = true,
                _ => {}
            }
        }
        Some(hello)
    }
}
