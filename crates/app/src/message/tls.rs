//! TLS records and handshake messages (RFC 8446 sections 4 and 5, RFC 5246).

pub mod certificate;
pub mod client_hello;
pub mod ja4;
pub mod server_hello;

pub use client_hello::ClientHello;
pub use ja4::{Ja4, Ja4Cache, Transport};
pub use server_hello::ServerHello;

use super::reader::Reader;
use wire::work;

/// Content types of TLS records.
pub mod content {
    /// change_cipher_spec.
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    /// handshake.
    pub const HANDSHAKE: u8 = 22;
    /// application_data.
    pub const APPLICATION_DATA: u8 = 23;
    /// heartbeat (RFC 6520).
    pub const HEARTBEAT: u8 = 24;
}

/// Types of handshake messages.
pub mod handshake {
    /// client_hello.
    pub const CLIENT_HELLO: u8 = 1;
    /// server_hello.
    pub const SERVER_HELLO: u8 = 2;
    /// certificate.
    pub const CERTIFICATE: u8 = 11;
    /// server_hello_done.
    pub const SERVER_HELLO_DONE: u8 = 14;
}

/// Length of a record header in bytes.
pub const RECORD_HEADER_LENGTH: usize = 5;

/// The longest record in bytes, without header (RFC 8446 section 5.2, with the expansion that TLS 1.2
/// allows).
pub const RECORD_LENGTH_MAX: usize = (1 << 14) + 2048;

/// Whether a value is GREASE (RFC 8701): reserved, so that peers must tolerate unknown values.
#[must_use]
pub const fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// Whether an ALPN protocol name is GREASE.
fn is_grease_protocol(name: &[u8]) -> bool {
    matches!(*name, [high, low] if is_grease(u16::from_be_bytes([high, low])))
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Content type.
    pub content: u8,
    /// Number of bytes that follow.
    pub length: usize,
}

impl RecordHeader {
    /// Reads a header. `None` if there are fewer than five bytes, [`NotTls`] if they cannot be a
    /// record header.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Result<Self, NotTls>> {
        let mut reader = Reader::new(bytes);
        let content = reader.u8()?;
        let major = reader.u8()?;
        let _minor = reader.u8()?;
        let length = usize::from(reader.u16()?);
        let known = (content::CHANGE_CIPHER_SPEC..=content::HEARTBEAT).contains(&content);
        Some(if known && major == 3 && length <= RECORD_LENGTH_MAX {
            Ok(Self { content, length })
        } else {
            Err(NotTls)
        })
    }
}

/// The bytes are not a TLS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTls;

/// What a stream starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// A hello of this handshake type.
    Hello(u8),
    /// Too few bytes to decide, but so far they match TLS.
    NeedMore,
    /// Not TLS.
    No,
}

/// Whether a stream whose first byte is this may start with a hello.
#[inline]
#[must_use]
pub const fn may_start(first: u8) -> bool {
    first == content::HANDSHAKE
}

/// Detects a ClientHello or ServerHello at the start of a stream.
#[must_use]
pub fn detect(stream: &[u8]) -> Detected {
    let fits = |at: usize, test: fn(u8) -> bool| stream.get(at).is_none_or(|&byte| test(byte));
    let plausible = fits(0, may_start)
        && fits(1, |byte| byte == 3)
        && fits(2, |byte| byte <= 4)
        && fits(3, |byte| usize::from(byte) << 8 <= RECORD_LENGTH_MAX)
        && fits(5, |byte| {
            byte == handshake::CLIENT_HELLO || byte == handshake::SERVER_HELLO
        })
        // The upper byte of the message length, unless the record ends before it.
        && (fits(6, |byte| byte == 0) || stream.get(3..5) == Some(&[0, 1]));
    match stream.get(5) {
        _ if !plausible => Detected::No,
        Some(&kind) => Detected::Hello(kind),
        None => Detected::NeedMore,
    }
}

/// What ends the handshake records at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The available bytes end.
    EndOfBytes,
    /// A record of another content type starts at this offset.
    OtherContent(usize),
    /// The next bytes are not a record.
    NotTls,
}

/// The content of the handshake records at the start of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Handshake<'a> {
    /// The messages. The last one may be incomplete.
    pub bytes: &'a [u8],
    /// What ends the records.
    pub end: End,
}

/// Joins the handshake records at the start of `stream`. Several records are copied to `joined`; a
/// single one is not copied.
pub fn join_records<'a>(stream: &'a [u8], joined: &'a mut Vec<u8>) -> Handshake<'a> {
    joined.clear();
    let mut first: &[u8] = &[];
    let mut records = 0;
    let mut reader = Reader::new(stream);
    let end = loop {
        let at = stream.len() - reader.rest().len();
        let header = match RecordHeader::read(reader.rest()) {
            None => break End::EndOfBytes,
            Some(Err(NotTls)) => break End::NotTls,
            Some(Ok(header)) => header,
        };
        if header.content != content::HANDSHAKE {
            break End::OtherContent(at);
        }
        // RFC 8446 section 5.1. Any number of them would bring no message.
        if header.length == 0 {
            break End::NotTls;
        }
        reader.take(RECORD_HEADER_LENGTH);
        let fragment = reader.take_up_to(header.length);
        work::count(RECORD_HEADER_LENGTH);
        if records > 0 {
            work::count(fragment.len());
        }
        match records {
            0 => first = fragment,
            1 => {
                joined.extend_from_slice(first);
                joined.extend_from_slice(fragment);
            }
            _ => joined.extend_from_slice(fragment),
        }
        records += 1;
    };
    let bytes = if records > 1 { joined } else { first };
    Handshake { bytes, end }
}

/// Number of stream bytes up to the end of the record that has byte `length` of the joined handshake
/// records. `None` if they have fewer bytes.
#[must_use]
pub fn stream_length(stream: &[u8], length: usize) -> Option<usize> {
    let (mut at, mut joined) = (0, 0);
    while joined < length {
        let header = RecordHeader::read(stream.get(at..)?)?.ok()?;
        if header.content != content::HANDSHAKE {
            return None;
        }
        at += RECORD_HEADER_LENGTH + header.length;
        joined += header.length;
    }
    Some(at)
}

/// A handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u8,
    /// The available part of its body.
    pub body: &'a [u8],
    /// Whether the body is complete.
    pub is_complete: bool,
    /// Length of the complete message with its header, in bytes.
    pub length: usize,
}

/// The messages in joined handshake records. The last one may be incomplete.
pub fn messages(handshake: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut reader = Reader::new(handshake);
    std::iter::from_fn(move || {
        let kind = reader.u8()?;
        let length = reader.u24()? as usize;
        let body = reader.take_up_to(length);
        Some(Message {
            kind,
            body,
            is_complete: body.len() == length,
            length: length + 4,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recognises_grease() {
        assert!(is_grease(0x0a0a) && is_grease(0xfafa));
        assert!(!is_grease(0x0a1a) && !is_grease(0x1301) && !is_grease(0x0a0b));
        assert!(is_grease_protocol(&[0x0a, 0x0a]) && is_grease_protocol(&[0xea, 0xea]));
        assert!(!is_grease_protocol(b"h2") && !is_grease_protocol(&[0x0a]));
    }

    #[test]
    fn detects_hello_as_early_as_possible() {
        assert_eq!(detect(&[]), Detected::NeedMore);
        assert_eq!(detect(&[22, 3, 1, 0]), Detected::NeedMore);
        assert_eq!(detect(&[22, 3, 1, 2, 0, 1]), Detected::Hello(1));
        assert_eq!(detect(&[22, 3, 1, 2, 0, 11]), Detected::No);
        assert_eq!(detect(&[22, 3, 1, 2, 0, 1, 1]), Detected::No);
        // A record of one byte, followed by the next one.
        assert_eq!(detect(&[22, 3, 1, 0, 1, 1, 22, 3]), Detected::Hello(1));
        assert_eq!(detect(b"GET "), Detected::No);
    }

    proptest! {
        /// The messages are the same however a flight is split into records.
        #[test]
        fn joins_records(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
            cuts in prop::collection::vec(1usize..200, 1..40),
        ) {
            let mut flight = Vec::new();
            for (kind, body) in bodies.iter().enumerate() {
                flight.push(kind as u8);
                flight.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
                flight.extend_from_slice(body);
            }
            let (mut stream, mut rest) = (Vec::new(), &flight[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                stream.extend([22, 3, 3, (piece.len() >> 8) as u8, piece.len() as u8]);
                stream.extend_from_slice(piece);
                rest = after;
            }
            let length = stream.len();
            stream.extend([20, 3, 3, 0, 1, 1]);
            let mut joined = Vec::new();
            let read = join_records(&stream, &mut joined);
            prop_assert_eq!(read.end, End::OtherContent(length));
            prop_assert_eq!(stream_length(&stream, flight.len()), Some(length));
            let found: Vec<_> = messages(read.bytes).map(|m| (m.is_complete, m.body.to_vec())).collect();
            let expected: Vec<_> = bodies.into_iter().map(|body| (true, body)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut joined = Vec::new();
            let read = join_records(&bytes, &mut joined);
            for message in messages(read.bytes) {
                if let Some(hello) = ClientHello::read(message.body) {
                    let _ = (hello.server_name(), Ja4::new(&hello, Transport::Tcp));
                }
                let _ = ServerHello::read(message.body);
                let _ = certificate::names(message.body);
            }
            let _ = detect(&bytes);
        }
    }
}
