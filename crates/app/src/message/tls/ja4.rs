//! JA4, a fingerprint of a ClientHello that does not depend on the order of its extensions (FoxIO,
//! "JA4: TLS Client Fingerprinting", technical details of version 1).

use super::client_hello::{ClientHello, LIST_MAX, extension};
use super::is_grease;
use sha2::{Digest, Sha256};
use std::fmt;

/// The transport of a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TLS over TCP.
    Tcp,
    /// QUIC.
    Quic,
    /// DTLS.
    Datagram,
}

impl Transport {
    const fn letter(self) -> u8 {
        match self {
            Self::Tcp => b't',
            Self::Quic => b'q',
            Self::Datagram => b'd',
        }
    }
}

/// A JA4 fingerprint: 10 characters that describe the hello, and two hashes of 12 hexadecimal digits
/// each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ja4([u8; Ja4::LENGTH]);

impl Ja4 {
    /// Number of characters.
    pub const LENGTH: usize = 36;

    /// Computes the fingerprint. `None` if the hello is incomplete or too long.
    #[must_use]
    pub fn new(hello: &ClientHello<'_>, transport: Transport) -> Option<Self> {
        Self::with_cache(hello, transport, &mut Ja4Cache::default())
    }

    /// Like [`Ja4::new`], with a cache of hashes.
    #[must_use]
    pub fn with_cache(
        hello: &ClientHello<'_>,
        transport: Transport,
        hashes: &mut Ja4Cache,
    ) -> Option<Self> {
        if !hello.is_complete {
            return None;
        }
        let [mut ciphers, mut extensions, mut algorithms] = std::mem::take(&mut hashes.lists);
        fill(&mut ciphers, hello.cipher_suites());
        fill(&mut extensions, hello.extensions().map(|(kind, _)| kind));
        fill(
            &mut algorithms,
            hello.signature_algorithms().take(LIST_MAX + 1),
        );
        if algorithms.len() > LIST_MAX {
            hashes.lists = [ciphers, extensions, algorithms];
            return None;
        }
        let mut text = [b'_'; Self::LENGTH];
        text[0] = transport.letter();
        // Versions of DTLS count downwards (RFC 6347 section 4.1).
        let version = match transport {
            Transport::Datagram => hello.supported_versions().min(),
            Transport::Tcp | Transport::Quic => hello.supported_versions().max(),
        };
        text[1..3].copy_from_slice(version_text(version.unwrap_or(hello.legacy_version)));
        text[3] = if extensions.contains(&extension::SERVER_NAME) {
            b'd'
        } else {
            b'i'
        };
        text[4..6].copy_from_slice(&two_digits(ciphers.len()));
        text[6..8].copy_from_slice(&two_digits(extensions.len()));
        text[8..10].copy_from_slice(&alpn_text(hello.alpn().next().unwrap_or_default()));
        ciphers.sort_unstable();
        text[11..23].copy_from_slice(&hashes.hash(&ciphers, &[]));
        extensions.retain(|kind| !matches!(*kind, extension::SERVER_NAME | extension::ALPN));
        extensions.sort_unstable();
        text[24..36].copy_from_slice(&hashes.hash(&extensions, &algorithms));
        hashes.lists = [ciphers, extensions, algorithms];
        Some(Self(text))
    }

    /// The fingerprint as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Fills a list with the numbers, without GREASE.
fn fill(list: &mut Vec<u16>, numbers: impl Iterator<Item = u16>) {
    list.clear();
    list.extend(numbers.filter(|&number| !is_grease(number)));
}

const fn version_text(version: u16) -> &'static [u8; 2] {
    match version {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        0xfeff => b"d1",
        0xfefd => b"d2",
        0xfefc => b"d3",
        _ => b"00",
    }
}

fn two_digits(count: usize) -> [u8; 2] {
    let count = count.min(99) as u8;
    [b'0' + count / 10, b'0' + count % 10]
}

/// First and last character of the first protocol. If one of them is no letter or digit, first and
/// last of its hexadecimal digits.
fn alpn_text(protocol: &[u8]) -> [u8; 2] {
    let (Some(&first), Some(&last)) = (protocol.first(), protocol.last()) else {
        return *b"00";
    };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        [first, last]
    } else {
        [
            DIGITS[usize::from(first >> 4)],
            DIGITS[usize::from(last & 15)],
        ]
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Number of cached hashes.
const CACHE_ENTRIES: usize = 256;

/// Ways of a set. The oldest hash of a full set is replaced.
const WAYS: usize = 4;

/// The longest lists, in numbers, whose hash is cached.
const NUMBERS_MAX: usize = 128;

/// A cache from lists of numbers to their hash. There are far fewer TLS libraries than connections,
/// and each sends the same lists again and again.
#[derive(Debug, Default)]
pub struct Ja4Cache {
    /// Sets of `WAYS` entries, selected by a digest of the lists. Empty before the first hash.
    entries: Vec<CachedHash>,
    /// A buffer for the text to hash, reused to save allocations.
    text: Vec<u8>,
    /// Buffers for the lists of a hello, reused to save allocations.
    lists: [Vec<u16>; 3],
}

/// Two lists and their hash.
#[derive(Clone, Debug, Default)]
struct CachedHash {
    /// The first list, followed by the second.
    numbers: Box<[u16]>,
    /// Length of the first list.
    first_count: usize,
    hash: [u8; 12],
}

impl Ja4Cache {
    /// Memory of a full cache, in bytes.
    pub const MEMORY_BYTES: usize =
        CACHE_ENTRIES * (size_of::<CachedHash>() + NUMBERS_MAX * size_of::<u16>());

    /// The first 12 hexadecimal digits of the SHA-256 of `numbers`, in hexadecimal and separated by
    /// commas, followed by an underscore and `more` in the same form. Zeros if `numbers` is empty.
    fn hash(&mut self, numbers: &[u16], more: &[u16]) -> [u8; 12] {
        if numbers.is_empty() {
            return [b'0'; 12];
        }
        if self.entries.is_empty() {
            self.entries.resize_with(CACHE_ENTRIES, CachedHash::default);
        }
        let set = &mut self.entries[set_start(numbers, more)..][..WAYS];
        let has_lists =
            |it: &&CachedHash| it.numbers.split_at_checked(it.first_count) == Some((numbers, more));
        if let Some(cached) = set.iter().find(has_lists) {
            return cached.hash;
        }
        self.text.clear();
        push_hexadecimal(&mut self.text, numbers);
        if !more.is_empty() {
            let underscore = self.text.len();
            push_hexadecimal(&mut self.text, more);
            self.text[underscore] = b'_';
        }
        // Each number has a comma before it. The first comma is not part of the text.
        let hash = sha256(&self.text[1..]);
        if numbers.len() + more.len() <= NUMBERS_MAX {
            set.rotate_right(1);
            set[0] = CachedHash {
                numbers: [numbers, more].concat().into(),
                first_count: numbers.len(),
                hash,
            };
        }
        hash
    }
}

/// Appends a comma and four hexadecimal digits for each number.
fn push_hexadecimal(text: &mut Vec<u8>, numbers: &[u16]) {
    for number in numbers {
        let digit = |shift: u32| DIGITS[usize::from(number >> shift & 15)];
        text.extend_from_slice(&[b',', digit(12), digit(8), digit(4), digit(0)]);
    }
}

/// Index of the first entry of the set for two lists.
fn set_start(numbers: &[u16], more: &[u16]) -> usize {
    let digest = numbers.iter().chain(more).fold(0, |digest, &number| {
        (digest ^ u64::from(number))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    });
    (digest >> 32) as usize % (CACHE_ENTRIES / WAYS) * WAYS
}

fn sha256(text: &[u8]) -> [u8; 12] {
    let digest = Sha256::digest(text);
    let mut hexadecimal = [0; 12];
    for (pair, byte) in hexadecimal.chunks_exact_mut(2).zip(digest.iter()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hexadecimal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &str) -> Vec<u16> {
        list.split(',')
            .map(|number| u16::from_str_radix(number, 16).unwrap())
            .collect()
    }

    fn push(bytes: &mut Vec<u8>, numbers: &[u16]) {
        for number in numbers {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// The body of a hello with these cipher suites, extensions and signature algorithms, in this
    /// order, and this list of protocols.
    fn hello(ciphers: &str, extensions: &str, protocols: &[u8], algorithms: &str) -> Vec<u8> {
        let list = |list| {
            let mut bytes = Vec::new();
            push(&mut bytes, &numbers(list));
            [&(bytes.len() as u16).to_be_bytes(), &bytes[..]].concat()
        };
        let mut parts = Vec::new();
        for kind in numbers(extensions) {
            let content: Vec<u8> = match kind {
                0x0000 => b"\0\x06\0\0\x03a.b".to_vec(),
                0x0010 => [&(protocols.len() as u16).to_be_bytes(), protocols].concat(),
                0x002b => vec![6, 0x7a, 0x7a, 3, 4, 3, 3],
                0x000d => list(algorithms),
                _ => Vec::new(),
            };
            push(&mut parts, &[kind, content.len() as u16]);
            parts.extend(content);
        }
        let mut body = vec![3, 3];
        body.extend([0; 33]);
        body.extend(list(ciphers));
        body.extend([1, 0]);
        push(&mut body, &[parts.len() as u16]);
        body.extend(parts);
        body
    }

    /// The example in the technical details of the JA4 specification: Chrome's hello with GREASE.
    #[test]
    fn matches_the_example_of_the_specification() {
        let body = hello(
            "3a3a,1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035",
            "1a1a,001b,0000,0033,0010,4469,0017,002d,000d,0005,0023,0012,002b,ff01,000b,000a,0015,2a2a",
            b"\x02h2\x08http/1.1",
            "0403,0804,0401,0503,0805,0501,0806,0601",
        );
        let hello = ClientHello::read(&body).unwrap();
        assert_eq!(hello.server_name(), Some(&b"a.b"[..]));
        assert_eq!(
            (hello.offers_ech(), hello.offers_resumption()),
            (Some(false), Some(false))
        );
        assert_eq!(
            Ja4::new(&hello, Transport::Tcp).unwrap().as_str(),
            "t13d1516h2_8daaf6152771_e5627efa2ab1"
        );
        assert_eq!(
            Ja4::new(&hello, Transport::Quic).unwrap().as_str(),
            "q13d1516h2_8daaf6152771_e5627efa2ab1"
        );
        let ja4 = Ja4::new(&hello, Transport::Quic).unwrap();
        let mut hashes = Ja4Cache::default();
        for _ in 0..2 {
            let again = Ja4::with_cache(&hello, Transport::Quic, &mut hashes);
            assert_eq!(again, Some(ja4));
        }
        let cut = ClientHello::read(&body[..body.len() - 1]).unwrap();
        assert_eq!(cut.server_name(), Some(&b"a.b"[..]));
        assert_eq!(Ja4::new(&cut, Transport::Tcp), None);
    }

    /// The specification ignores GREASE everywhere: among the signature algorithms, as in FoxIO's
    /// capture sigalg-grease of Chromium (with the result of FoxIO's Python code), and before the
    /// protocols.
    #[test]
    fn ignores_grease_everywhere() {
        let of = |protocols: &[u8], algorithms: &str| {
            let body = hello(
                "4a4a,1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035",
                "baba,fe0d,0010,0017,0033,44cd,ff01,000a,000d,0023,002b,000b,ca34,002d,0000,0005,001b,0012,dada",
                protocols,
                algorithms,
            );
            let hello = ClientHello::read(&body).unwrap();
            let ja4 = Ja4::new(&hello, Transport::Tcp).unwrap();
            ja4.as_str().to_owned()
        };
        let algorithms = "0904,0905,0906,0403,0804,0401,0503,0805,0501,0806,0601";
        let known = "t13d1517h2_8daaf6152771_cb7bf5808d99";
        assert_eq!(of(b"\x02h2\x08http/1.1", algorithms), known);
        let grease = format!("6a6a,{algorithms}");
        assert_eq!(of(b"\x02h2\x08http/1.1", &grease), known);
        assert_eq!(of(b"\x02\xea\xea\x02h2", algorithms), known);
        let alone = of(b"\x02\xea\xea", algorithms);
        assert_eq!(&alone[..10], "t13d151700");
    }

    #[test]
    fn fingerprints_an_empty_hello() {
        let mut body = vec![3, 1];
        body.extend([0; 33]);
        body.extend([0, 0, 1, 0]);
        let hello = ClientHello::read(&body).unwrap();
        assert_eq!(
            Ja4::new(&hello, Transport::Tcp).unwrap().as_str(),
            "t10i000000_000000000000_000000000000"
        );
    }

    #[test]
    fn writes_non_alphanumeric_protocols_in_hexadecimal() {
        assert_eq!(&alpn_text(b"h2"), b"h2");
        assert_eq!(&alpn_text(b"h"), b"hh");
        assert_eq!(&alpn_text(&[0xab]), b"ab");
        assert_eq!(&alpn_text(&[0x30, 0xab]), b"3b");
        assert_eq!(&alpn_text(b""), b"00");
    }
}
