//! DNS messages (RFC 1035), read in one pass without allocation.

use super::reader::Reader;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most bytes of a name as text: each of 255 may need four characters.
pub const NAME_TEXT_MAX: usize = 4 * 255;

/// The most pointers that a name follows (RFC 1035 section 4.1.4): more than any encoder writes.
const POINTERS_MAX: u8 = 32;

/// The operation that updates a zone (RFC 2136).
pub const OPCODE_UPDATE: u8 = 5;

/// The most addresses that are kept of a message: more than fit into 512 bytes, which most servers
/// keep to (RFC 1035 section 4.2.1).
pub const ADDRESSES_MAX: usize = 32;

/// The most records that are looked at in a message.
const RECORDS_MAX: u16 = 512;

/// Types of records (IANA).
pub mod record_type {
    /// A.
    pub const A: u16 = 1;
    /// AAAA.
    pub const AAAA: u16 = 28;
    /// OPT (RFC 6891).
    pub const OPT: u16 = 41;
}

/// A name as text (RFC 4343 section 2.1: what is not printable as `\DDD`), without the last dot;
/// the root is a dot.
#[derive(Clone, Copy)]
pub struct Name {
    text: [u8; NAME_TEXT_MAX],
    length: usize,
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Name {
    const EMPTY: Self = Self {
        text: [0; NAME_TEXT_MAX],
        length: 0,
    };

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The same as bytes, which are ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Appends a label; nothing where some of it is to be escaped.
    #[inline]
    fn push_plain(&mut self, label: &[u8]) -> Option<()> {
        let place = self.text.get_mut(self.length..self.length + label.len())?;
        let mut is_plain = true;
        for (place, &byte) in place.iter_mut().zip(label) {
            *place = byte;
            is_plain &= PLAIN[usize::from(byte)];
        }
        self.length += if is_plain { label.len() } else { 0 };
        is_plain.then_some(())
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let place = self.text.get_mut(self.length..self.length + bytes.len())?;
        place.copy_from_slice(bytes);
        self.length += bytes.len();
        Some(())
    }
}

/// Of each byte whether it is written as it is.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'.' && byte != b'\\';
        byte += 1;
    }
    plain
};

/// The header (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Transaction id.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// Kind of query: 0 is a standard one.
    pub opcode: u8,
    /// The four low bits of the response code.
    pub response_code: u8,
    /// Questions, answers, authority records, additional records.
    pub counts: [u16; 4],
}

impl Header {
    /// Bytes of a header.
    pub const LENGTH: usize = 12;

    /// Reads a header that a DNS message may have; strangers on DNS's ports seldom pass.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let header = Self {
            id: reader.u16()?,
            is_response: message.get(2)? & 0x80 != 0,
            opcode: message.get(2)? >> 3 & 15,
            response_code: message.get(3)? & 15,
            counts: {
                reader.u16()?;
                [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?]
            },
        };
        // Each question takes five bytes at least, each record eleven.
        let [questions, records @ ..] = header.counts.map(usize::from);
        let least = questions * 5 + records.iter().sum::<usize>() * 11;
        let plausible = header.opcode <= 6 && least <= 65_535;
        plausible.then_some(header)
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    name: Name,
    question: Option<u16>,
    /// Response code with the bits of EDNS, if their record could be read.
    pub response_code: u16,
    /// The least time to live of the answers; nothing where there are none, or not all could be read.
    pub ttl_s: Option<u32>,
    addresses: [IpAddr; ADDRESSES_MAX],
    addresses_count: usize,
    /// Whether the answers have more addresses than are kept.
    pub has_more_addresses: bool,
    /// Whether all of it could be read.
    pub whole: bool,
}

impl Message {
    /// Reads a message: `None` where the header or the first question is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut message = Self::of_header(Header::read(bytes)?);
        message.read_again(bytes).then_some(message)
    }

    /// Reads another message in the place of this one, which is more than a kilobyte; false where the
    /// header or the first question is none, and nothing that is here means anything.
    #[must_use]
    pub fn read_again(&mut self, bytes: &[u8]) -> bool {
        self.read_parts(bytes).is_some()
    }

    fn read_parts(&mut self, bytes: &[u8]) -> Option<()> {
        let header = Header::read(bytes)?;
        self.begin(header);
        let mut reader = Reader::new(&bytes[Header::LENGTH..]);
        if header.counts[0] > 0 {
            read_name(bytes, &mut reader, &mut self.name)?;
            self.question = Some(reader.u16()?);
            reader.u16()?;
        }
        self.records(&mut reader);
        Some(())
    }

    /// Forgets the message that was here, for another with this header.
    pub const fn begin(&mut self, header: Header) {
        self.header = header;
        self.name.length = 0;
        self.question = None;
        self.response_code = header.response_code as u16;
        self.ttl_s = None;
        self.addresses_count = 0;
        self.has_more_addresses = false;
        self.whole = false;
    }

    /// What the header alone tells.
    #[inline(always)]
    #[must_use]
    pub fn of_header(header: Header) -> Self {
        Self {
            header,
            name: Name::EMPTY,
            question: None,
            response_code: u16::from(header.response_code),
            ttl_s: None,
            addresses: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); ADDRESSES_MAX],
            addresses_count: 0,
            has_more_addresses: false,
            whole: false,
        }
    }

    /// Reads the records, as far as they are there.
    fn records(&mut self, reader: &mut Reader<'_>) {
        let [questions, records @ ..] = self.header.counts;
        if skip_questions(reader, questions).is_none() {
            return;
        }
        let [answers, authorities, additional] = records.map(u32::from);
        let records = answers + authorities + additional;
        let mut least = u32::MAX;
        let mut read = 0;
        while read < records.min(u32::from(RECORDS_MAX))
            && let Some((kind, ttl, content)) = record(reader)
        {
            if read < answers {
                least = least.min(ttl);
                let address = match kind {
                    record_type::A => <[u8; 4]>::try_from(content)
                        .ok()
                        .map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
                    record_type::AAAA => <[u8; 16]>::try_from(content)
                        .ok()
                        .map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
                    _ => None,
                };
                if let Some(address) = address {
                    self.keep_address(address);
                }
            } else if kind == record_type::OPT {
                // Upper bits of the response code (RFC 6891 section 6.1.3).
                self.response_code |= ((ttl >> 24) as u16) << 4;
            }
            read += 1;
        }
        self.whole = read == records;
        self.ttl_s = (answers > 0 && read >= answers).then_some(least);
    }

    fn keep_address(&mut self, address: IpAddr) {
        match self.addresses.get_mut(self.addresses_count) {
            Some(place) => {
                *place = address;
                self.addresses_count += 1;
            }
            None => self.has_more_addresses = true,
        }
    }

    /// Name and type of the first question.
    #[must_use]
    pub fn question(&self) -> Option<(&Name, u16)> {
        self.question.map(|kind| (&self.name, kind))
    }

    /// Addresses in the answers, as many as are kept.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses[..self.addresses_count]
    }
}

/// Passes over the questions behind the first one.
fn skip_questions(reader: &mut Reader<'_>, questions: u16) -> Option<()> {
    for _ in 1..questions.min(RECORDS_MAX) {
        skip_name(reader)?;
        reader.u32()?;
    }
    Some(())
}

/// Type, time to live and content of the next record (RFC 1035 section 4.1.3).
#[inline]
fn record<'a>(reader: &mut Reader<'a>) -> Option<(u16, u32, &'a [u8])> {
    skip_name(reader)?;
    let kind = reader.u16()?;
    reader.u16()?;
    Some((kind, reader.u32()?, reader.vector16()?))
}

/// Passes over a name.
fn skip_name(reader: &mut Reader<'_>) -> Option<()> {
    loop {
        match reader.u8()? {
            0 => return Some(()),
            length @ 1..=63 => {
                reader.take(usize::from(length))?;
            }
            192.. => {
                reader.u8()?;
                return Some(());
            }
            _ => return None,
        }
    }
}

/// Appends the name at the reader's place in `message`, its pointers followed, to an empty one, where
/// it stays: a name is a kilobyte.
fn read_name<'a>(message: &'a [u8], reader: &mut Reader<'a>, name: &mut Name) -> Option<()> {
    let mut walk = *reader;
    let (mut pointers, mut bytes) = (0, 0);
    loop {
        let length = walk.u8()?;
        match length {
            0 => break,
            1..=63 => {
                bytes += usize::from(length) + 1;
                if bytes > 254 {
                    return None;
                }
                if name.length > 0 {
                    name.push(b".")?;
                }
                let label = walk.take(usize::from(length))?;
                if name.push_plain(label).is_some() {
                    continue;
                }
                for &byte in label {
                    match byte {
                        b'.' | b'\\' => name.push(&[b'\\', byte])?,
                        b'!'..=b'~' => name.push(&[byte])?,
                        _ => name.push(&[
                            b'\\',
                            b'0' + byte / 100,
                            b'0' + byte / 10 % 10,
                            b'0' + byte % 10,
                        ])?,
                    }
                }
            }
            192.. => {
                let low = walk.u8()?;
                if pointers == 0 {
                    *reader = walk;
                }
                pointers += 1;
                if pointers > POINTERS_MAX {
                    return None;
                }
                let at = usize::from(length & 0x3f) << 8 | usize::from(low);
                walk = Reader::new(message.get(at..)?);
            }
            _ => return None,
        }
    }
    if pointers == 0 {
        *reader = walk;
    }
    if name.length == 0 {
        name.push(b".")?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A response: a CNAME, then an address, with EDNS.
    fn response() -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 0x81, 0x83, 0, 1, 0, 2, 0, 0, 0, 1];
        bytes.extend(b"\x03www\x07example\x03com\0\0\x01\0\x01");
        bytes.extend(b"\xc0\x0c\0\x05\0\x01\0\0\x01\0\0\x04\x01a\xc0\x10");
        bytes.extend(b"\x01a\xc0\x10\0\x01\0\x01\0\0\0\x3c\0\x04\x01\x02\x03\x04");
        bytes.extend(b"\0\0\x29\x10\0\x01\0\0\0\0\0");
        bytes
    }

    #[test]
    fn a_response_is_read() {
        let message = Message::read(&response()).unwrap();
        assert!(message.whole && message.header.is_response);
        let (name, kind) = message.question().unwrap();
        assert_eq!((name.as_str(), kind), ("www.example.com", 1));
        assert_eq!(message.response_code, 0x10 | 3);
        assert_eq!(message.ttl_s, Some(60));
        assert_eq!(message.addresses(), ["1.2.3.4".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn of_a_message_without_its_end_what_is_there_is_told() {
        let bytes = response();
        // Without the last byte: EDNS, whose record is eleven bytes, then of the second answer.
        let edns = bytes.len() - 11;
        for (there, ttl_s) in [
            (bytes.len() - 1, Some(60)),
            (edns, Some(60)),
            (edns - 1, None),
        ] {
            let message = Message::read(&bytes[..there]).unwrap();
            assert!(!message.whole && message.question().is_some());
            assert_eq!((message.response_code, message.ttl_s), (3, ttl_s));
        }
        // EDNS came, and the record behind it did not.
        let mut more = bytes;
        more[11] = 2;
        let message = Message::read(&more).unwrap();
        assert_eq!((message.whole, message.response_code), (false, 0x13));
        let header = Header::read(&more).unwrap();
        assert_eq!(Message::of_header(header).response_code, 3);
    }

    #[test]
    fn more_addresses_than_are_kept_are_told() {
        for answers in [31u8, 32, 33] {
            let mut bytes = vec![0, 1, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0];
            bytes.extend(b"\x01a\0\0\x01\0\x01");
            for last in 0..answers {
                bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0");
                bytes.push(last);
            }
            let message = Message::read(&bytes).unwrap();
            let kept = message.addresses();
            assert_eq!(kept.len(), usize::from(answers).min(ADDRESSES_MAX));
            let last = Ipv4Addr::new(10, 0, 0, kept.len() as u8 - 1);
            assert_eq!(kept.last(), Some(&IpAddr::V4(last)));
            assert_eq!(
                message.has_more_addresses,
                kept.len() < usize::from(answers)
            );
        }
    }

    #[test]
    fn pointers_in_a_circle_end() {
        let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend([0xc0, 12, 0, 1, 0, 1]);
        assert!(Message::read(&bytes).is_none());
    }

    #[test]
    fn what_does_not_print_is_escaped() {
        let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(b"\x04a.\\\x01\0\0\x01\0\x01");
        let message = Message::read(&bytes).unwrap();
        let (name, _) = message.question().unwrap();
        assert_eq!(name.as_str(), "a\\.\\\\\\001");
        let mut root = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        root.extend(b"\0\0\x02\0\x01");
        let message = Message::read(&root).unwrap();
        let (name, _) = message.question().unwrap();
        assert_eq!(name.as_str(), ".");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            cut in 0usize..80,
            changes in prop::collection::vec((0usize..80, any::<u8>()), 0..8),
        ) {
            let mut bytes = response();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            let _ = Message::read(&bytes);
        }
    }
}
