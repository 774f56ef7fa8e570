//! TLS records and handshake messages (RFC 8446 sections 4 and 5, RFC 5246).

pub mod certificate;
pub mod client_hello;
pub mod ja4;
pub mod server_hello;

pub use client_hello::ClientHello;
pub use ja4::{Ja4, Ja4Hashes, Transport};
pub use server_hello::ServerHello;

use super::reader::Reader;

/// Content types of records.
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

/// Bytes of a record's header.
pub const RECORD_HEADER: usize = 5;

/// The most bytes of a record (RFC 8446 section 5.2, with the slack that TLS 1.2 allows).
pub const RECORD_MAX: usize = (1 << 14) + 2048;

/// Whether a value is reserved so that nobody relies on a list of values (GREASE, RFC 8701).
#[must_use]
pub const fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// Whether a name of a protocol in ALPN is reserved likewise.
fn is_grease_protocol(name: &[u8]) -> bool {
    matches!(*name, [high, low] if is_grease(u16::from_be_bytes([high, low])))
}

/// The header of a record: content type and length of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Content type.
    pub content: u8,
    /// Bytes that follow.
    pub length: usize,
}

impl RecordHeader {
    /// Reads a header; `None` where fewer than five bytes are left, [`NotTls`] in place of one that
    /// no record has.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Result<Self, NotTls>> {
        let mut reader = Reader::new(bytes);
        let content = reader.u8()?;
        let major = reader.u8()?;
        let _minor = reader.u8()?;
        let length = usize::from(reader.u16()?);
        let known = (content::CHANGE_CIPHER_SPEC..=content::HEARTBEAT).contains(&content);
        Some(if known && major == 3 && length <= RECORD_MAX {
            Ok(Self { content, length })
        } else {
            Err(NotTls)
        })
    }
}

/// The bytes are no record of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTls;

/// How the beginning of a stream can be told from TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// With a hello of this handshake type.
    Hello(u8),
    /// With too few bytes to tell, all of them as TLS has them.
    Perhaps,
    /// Not with TLS.
    No,
}

/// Whether a stream that begins with this byte may begin with a hello.
#[inline]
#[must_use]
pub const fn may_begin(first: u8) -> bool {
    first == content::HANDSHAKE
}

/// Whether a stream begins with a ClientHello or ServerHello.
#[must_use]
pub fn begins(stream: &[u8]) -> Begins {
    let fits = |at: usize, test: fn(u8) -> bool| stream.get(at).is_none_or(|&byte| test(byte));
    let plausible = fits(0, may_begin)
        && fits(1, |byte| byte == 3)
        && fits(2, |byte| byte <= 4)
        && fits(3, |byte| usize::from(byte) << 8 <= RECORD_MAX)
        && fits(5, |byte| {
            byte == handshake::CLIENT_HELLO || byte == handshake::SERVER_HELLO
        })
        // The upper byte of the message's length, unless the record ends before it.
        && (fits(6, |byte| byte == 0) || stream.get(3..5) == Some(&[0, 1]));
    match stream.get(5) {
        _ if !plausible => Begins::No,
        Some(&kind) => Begins::Hello(kind),
        None => Begins::Perhaps,
    }
}

/// How the run of handshake records at the beginning of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With the bytes that there are.
    Open,
    /// With a record of another content type, which begins at this offset.
    Other(usize),
    /// With bytes that are no record.
    NotTls,
}

/// The content of the handshake records at the beginning of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Handshake<'a> {
    /// Messages, the last of them perhaps not whole.
    pub bytes: &'a [u8],
    /// Why there are no more.
    pub end: End,
}

/// Joins the handshake records at the beginning of `stream`. A single record is not copied;
/// several are, to `joined`.
pub fn handshake<'a>(stream: &'a [u8], joined: &'a mut Vec<u8>) -> Handshake<'a> {
    joined.clear();
    let mut first: &[u8] = &[];
    let mut records = 0;
    let mut reader = Reader::new(stream);
    let end = loop {
        let at = stream.len() - reader.rest().len();
        let header = match RecordHeader::read(reader.rest()) {
            None => break End::Open,
            Some(Err(NotTls)) => break End::NotTls,
            Some(Ok(header)) => header,
        };
        if header.content != content::HANDSHAKE {
            break End::Other(at);
        }
        reader.take(RECORD_HEADER);
        let fragment = reader.take_up_to(header.length);
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

/// Bytes of the stream up to the end of the record in which the first `length` bytes of the joined
/// handshake records end; `None` where they do not.
#[must_use]
pub fn stream_length(stream: &[u8], length: usize) -> Option<usize> {
    let (mut at, mut joined) = (0, 0);
    while joined < length {
        let header = RecordHeader::read(stream.get(at..)?)?.ok()?;
        if header.content != content::HANDSHAKE {
            return None;
        }
        at += RECORD_HEADER + header.length;
        joined += header.length;
    }
    Some(at)
}

/// A handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u8,
    /// Its body, as far as it is there.
    pub body: &'a [u8],
    /// Whether the body is all there.
    pub whole: bool,
    /// Bytes of the whole message with its header.
    pub length: usize,
}

/// The messages in joined handshake records, one after the other; the last may not be whole.
pub fn messages(handshake: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut reader = Reader::new(handshake);
    std::iter::from_fn(move || {
        let kind = reader.u8()?;
        let length = reader.u24()? as usize;
        let body = reader.take_up_to(length);
        Some(Message {
            kind,
            body,
            whole: body.len() == length,
            length: length + 4,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn grease() {
        assert!(is_grease(0x0a0a) && is_grease(0xfafa));
        assert!(!is_grease(0x0a1a) && !is_grease(0x1301) && !is_grease(0x0a0b));
        assert!(is_grease_protocol(&[0x0a, 0x0a]) && is_grease_protocol(&[0xea, 0xea]));
        assert!(!is_grease_protocol(b"h2") && !is_grease_protocol(&[0x0a]));
    }

    #[test]
    fn a_beginning_is_told_as_soon_as_it_can_be() {
        assert_eq!(begins(&[]), Begins::Perhaps);
        assert_eq!(begins(&[22, 3, 1, 0]), Begins::Perhaps);
        assert_eq!(begins(&[22, 3, 1, 2, 0, 1]), Begins::Hello(1));
        assert_eq!(begins(&[22, 3, 1, 2, 0, 11]), Begins::No);
        assert_eq!(begins(&[22, 3, 1, 2, 0, 1, 1]), Begins::No);
        // A record of one byte, and the next one behind it.
        assert_eq!(begins(&[22, 3, 1, 0, 1, 1, 22, 3]), Begins::Hello(1));
        assert_eq!(begins(b"GET "), Begins::No);
    }

    proptest! {
        /// However a flight is cut into records, its messages come out the same.
        #[test]
        fn records_are_joined(
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
            let whole = stream.len();
            stream.extend([20, 3, 3, 0, 1, 1]);
            let mut joined = Vec::new();
            let read = handshake(&stream, &mut joined);
            prop_assert_eq!(read.end, End::Other(whole));
            prop_assert_eq!(stream_length(&stream, flight.len()), Some(whole));
            let found: Vec<_> = messages(read.bytes).map(|m| (m.whole, m.body.to_vec())).collect();
            let expected: Vec<_> = bodies.into_iter().map(|body| (true, body)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut joined = Vec::new();
            let read = handshake(&bytes, &mut joined);
            for message in messages(read.bytes) {
                if let Some(hello) = ClientHello::read(message.body) {
                    let _ = (hello.server_name(), Ja4::new(&hello, Transport::Tcp));
                }
                let _ = ServerHello::read(message.body);
                let _ = certificate::names(message.body);
            }
            let _ = begins(&bytes);
        }
    }
}
