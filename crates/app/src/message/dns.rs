//! DNS messages (RFC 1035), read in one pass without allocation.

use super::reader::Reader;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::work;

/// The most characters of a name as text: each of its 255 bytes may need four.
pub const NAME_TEXT_MAX: usize = 4 * 255;

/// The most compression pointers that are followed in a name (RFC 1035 section 4.1.4). No encoder
/// writes as many.
const POINTERS_MAX: u8 = 32;

/// The opcode of a zone update (RFC 2136).
pub const OPCODE_UPDATE: u8 = 5;

/// The most addresses of a message that are kept. More would not fit into 512 bytes, the limit that
/// most servers observe (RFC 1035 section 4.2.1).
pub const ADDRESSES_MAX: usize = 32;

/// The most records of a message that are read.
const RECORDS_MAX: u16 = 512;

/// The most labels of a message that are read: those of its names in records and further questions.
const LABELS_MAX: u16 = 1024;

/// Record types (IANA).
pub mod record_type {
    /// A.
    pub const A: u16 = 1;
    /// AAAA.
    pub const AAAA: u16 = 28;
    /// OPT (RFC 6891).
    pub const OPT: u16 = 41;
}

/// A name as text, with unprintable bytes as `\DDD` (RFC 4343 section 2.1). It has no final dot,
/// except the root, which is a dot.
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

    /// The text as ASCII bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Appends a label if no byte of it needs an escape. Returns `None` otherwise.
    #[inline]
    fn push_unescaped(&mut self, label: &[u8]) -> Option<()> {
        let slots = self.text.get_mut(self.length..self.length + label.len())?;
        let mut is_unescaped = true;
        for (slot, &byte) in slots.iter_mut().zip(label) {
            *slot = byte;
            is_unescaped &= UNESCAPED[usize::from(byte)];
        }
        self.length += if is_unescaped { label.len() } else { 0 };
        is_unescaped.then_some(())
    }

    /// Appends a byte as `\DDD`.
    #[inline]
    fn push_number(&mut self, byte: u8) -> Option<()> {
        let slots: &mut [u8; 4] = self.text.get_mut(self.length..)?.first_chunk_mut()?;
        *slots = [
            b'\\',
            b'0' + byte / 100,
            b'0' + byte / 10 % 10,
            b'0' + byte % 10,
        ];
        self.length += slots.len();
        Some(())
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let slots = self.text.get_mut(self.length..self.length + bytes.len())?;
        slots.copy_from_slice(bytes);
        self.length += bytes.len();
        Some(())
    }
}

/// For each byte, whether it is written without an escape.
const UNESCAPED: [bool; 256] = {
    let mut unescaped = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        unescaped[byte as usize] = byte != b'.' && byte != b'\\';
        byte += 1;
    }
    unescaped
};

/// The header (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Transaction ID.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// Opcode; 0 is a standard query.
    pub opcode: u8,
    /// The lower four bits of the response code.
    pub response_code: u8,
    /// Numbers of questions, answers, authority records and additional records.
    pub counts: [u16; 4],
}

impl Header {
    /// Length of a header in bytes.
    pub const LENGTH: usize = 12;

    /// Reads a header. `None` if it is not plausible, which rejects most other protocols on the DNS
    /// ports.
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
        // A question has at least five bytes, a record at least eleven.
        let [questions, records @ ..] = header.counts.map(usize::from);
        let least = questions * 5 + records.iter().sum::<usize>() * 11;
        let plausible = header.opcode <= 6 && least <= 65_535;
        plausible.then_some(header)
    }
}

/// A message: its first question and the answers.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The header.
    pub header: Header,
    name: Name,
    question: Option<u16>,
    /// Response code, with the upper bits from EDNS if their record could be read.
    pub response_code: u16,
    /// Smallest TTL of the answers, in seconds. `None` if there are no answers, or if not all could be
    /// read.
    pub ttl_s: Option<u32>,
    addresses: [IpAddr; ADDRESSES_MAX],
    addresses_count: usize,
    /// Whether the answers have more addresses than are kept.
    pub has_more_addresses: bool,
    /// Whether the whole message could be read.
    pub is_complete: bool,
    /// Whether it has more records or labels than are read.
    pub is_too_long: bool,
    /// The number of records that were read.
    pub records: u16,
    /// The number of labels and pointers in the name of the first question.
    pub labels: u16,
}

impl Message {
    /// Reads a message. `None` if the header or the first question is invalid.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut message = Self::from_header(Header::read(bytes)?);
        message.reread(bytes).then_some(message)
    }

    /// Replaces this message with another one, which saves a copy of more than a kilobyte. Returns
    /// false if the header or the first question is invalid; then the contents have no meaning.
    #[must_use]
    pub fn reread(&mut self, bytes: &[u8]) -> bool {
        self.read_parts(bytes).is_some()
    }

    fn read_parts(&mut self, bytes: &[u8]) -> Option<()> {
        let header = Header::read(bytes)?;
        self.reset(header);
        let mut reader = Reader::new(&bytes[Header::LENGTH..]);
        if header.counts[0] > 0 {
            self.labels = read_name(bytes, &mut reader, &mut self.name)?;
            self.question = Some(reader.u16()?);
            reader.u16()?;
        }
        self.read_records(&mut reader);
        Some(())
    }

    /// Clears the message and sets the header.
    pub const fn reset(&mut self, header: Header) {
        self.header = header;
        self.name.length = 0;
        self.question = None;
        self.response_code = header.response_code as u16;
        self.ttl_s = None;
        self.addresses_count = 0;
        self.has_more_addresses = false;
        self.is_complete = false;
        self.is_too_long = false;
        self.records = 0;
        self.labels = 0;
    }

    /// A message with nothing but a header.
    #[inline]
    #[must_use]
    pub fn from_header(header: Header) -> Self {
        Self {
            header,
            name: Name::EMPTY,
            question: None,
            response_code: u16::from(header.response_code),
            ttl_s: None,
            addresses: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); ADDRESSES_MAX],
            addresses_count: 0,
            has_more_addresses: false,
            is_complete: false,
            is_too_long: false,
            records: 0,
            labels: 0,
        }
    }

    /// Reads the available records.
    fn read_records(&mut self, reader: &mut Reader<'_>) {
        let [questions, records @ ..] = self.header.counts;
        let mut labels = LABELS_MAX;
        if skip_questions(reader, questions, &mut labels).is_none() {
            self.is_too_long = questions > RECORDS_MAX || labels == 0;
            return;
        }
        let [answers, authorities, additional] = records.map(u32::from);
        let records = answers + authorities + additional;
        let mut least = u32::MAX;
        let mut read = 0;
        while read < records.min(u32::from(RECORDS_MAX))
            && let Some((kind, ttl, content)) = read_record(reader, &mut labels)
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
                    self.push_address(address);
                }
            } else if kind == record_type::OPT {
                // Upper bits of the response code (RFC 6891 section 6.1.3).
                self.response_code |= ((ttl >> 24) as u16) << 4;
            }
            read += 1;
        }
        self.records = read as u16;
        self.is_complete = read == records;
        self.is_too_long = !self.is_complete && (read == u32::from(RECORDS_MAX) || labels == 0);
        self.ttl_s = (answers > 0 && read >= answers).then_some(least);
    }

    fn push_address(&mut self, address: IpAddr) {
        match self.addresses.get_mut(self.addresses_count) {
            Some(slot) => {
                *slot = address;
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

    /// Addresses in the answers, up to [`ADDRESSES_MAX`].
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses[..self.addresses_count]
    }
}

/// The most bytes of a question: name, type and class.
pub const QUESTION_MAX: usize = 255 + 4;

/// Copies the first question of a message, its name in lower case, to `question`, and returns the part
/// that was written. `None` if there is none, or if it is truncated, too long or compressed, which no
/// first question is.
pub fn question<'a>(message: &[u8], question: &'a mut [u8; QUESTION_MAX]) -> Option<&'a [u8]> {
    let rest = message.get(Header::LENGTH..)?;
    if message[4..6] == [0, 0] {
        return None;
    }
    let mut length = 0;
    while let label @ 1.. = usize::from(*rest.get(length)?) {
        length += 1 + label;
        if label > 63 || length > 254 {
            return None;
        }
    }
    let all = length + 5;
    let (copy, bytes) = (question.get_mut(..all)?, rest.get(..all)?);
    copy.copy_from_slice(bytes);
    // A length is below 64, and not a letter.
    copy[..length].make_ascii_lowercase();
    Some(copy)
}

/// Skips the questions after the first one. `None` if one is cut off or if there are too many: what follows
/// is not where the records begin.
fn skip_questions(reader: &mut Reader<'_>, questions: u16, labels: &mut u16) -> Option<()> {
    if questions > RECORDS_MAX {
        return None;
    }
    for _ in 1..questions {
        skip_name(reader, labels)?;
        reader.u32()?;
    }
    Some(())
}

/// Reads type, TTL and data of the next record (RFC 1035 section 4.1.3).
#[inline]
fn read_record<'a>(reader: &mut Reader<'a>, labels: &mut u16) -> Option<(u16, u32, &'a [u8])> {
    skip_name(reader, labels)?;
    let kind = reader.u16()?;
    reader.u16()?;
    Some((kind, reader.u32()?, reader.vector16()?))
}

/// Skips a name, and decreases `labels` by the number of its labels. `None` if that is not enough.
fn skip_name(reader: &mut Reader<'_>, labels: &mut u16) -> Option<()> {
    loop {
        work::count(work::CALL);
        match reader.u8()? {
            0 => return Some(()),
            length @ 1..=63 => {
                *labels = labels.checked_sub(1)?;
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

/// Reads the name at the position of `reader` in `message` and follows its pointers. It writes to
/// `name`, which must be empty, because a `Name` is a kilobyte. Returns the number of labels and pointers.
fn read_name<'a>(message: &'a [u8], reader: &mut Reader<'a>, name: &mut Name) -> Option<u16> {
    let mut position = *reader;
    let (mut pointers, mut bytes) = (0, 0);
    let mut labels = 0;
    loop {
        work::count(work::CALL);
        labels += 1;
        let length = position.u8()?;
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
                let label = position.take(usize::from(length))?;
                if name.push_unescaped(label).is_some() {
                    continue;
                }
                for &byte in label {
                    match byte {
                        b'.' | b'\\' => name.push(&[b'\\', byte])?,
                        b'!'..=b'~' => name.push(&[byte])?,
                        _ => name.push_number(byte)?,
                    }
                }
            }
            192.. => {
                let low = position.u8()?;
                if pointers == 0 {
                    *reader = position;
                }
                pointers += 1;
                if pointers > POINTERS_MAX {
                    return None;
                }
                let at = usize::from(length & 0x3f) << 8 | usize::from(low);
                position = Reader::new(message.get(at..)?);
            }
            _ => return None,
        }
    }
    if pointers == 0 {
        *reader = position;
    }
    if name.length == 0 {
        name.push(b".")?;
    }
    Some(labels)
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
    fn reads_response() {
        let message = Message::read(&response()).unwrap();
        assert!(message.is_complete && message.header.is_response);
        let (name, kind) = message.question().unwrap();
        assert_eq!((name.as_str(), kind), ("www.example.com", 1));
        assert_eq!(message.response_code, 0x10 | 3);
        assert_eq!(message.ttl_s, Some(60));
        assert_eq!(message.addresses(), ["1.2.3.4".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn reads_the_available_part_of_a_truncated_message() {
        let bytes = response();
        // The EDNS record has eleven bytes. Cut its last byte, all of it, and the last byte of the
        // second answer.
        let edns = bytes.len() - 11;
        for (length, ttl_s) in [
            (bytes.len() - 1, Some(60)),
            (edns, Some(60)),
            (edns - 1, None),
        ] {
            let message = Message::read(&bytes[..length]).unwrap();
            assert!(!message.is_complete && message.question().is_some());
            assert_eq!((message.response_code, message.ttl_s), (3, ttl_s));
        }
        // EDNS is complete, but the record after it is missing.
        let mut more = bytes;
        more[11] = 2;
        let message = Message::read(&more).unwrap();
        assert_eq!((message.is_complete, message.response_code), (false, 0x13));
        let header = Header::read(&more).unwrap();
        assert_eq!(Message::from_header(header).response_code, 3);
    }

    #[test]
    fn reports_more_addresses_than_are_kept() {
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
    fn rejects_pointer_loop() {
        let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend([0xc0, 12, 0, 1, 0, 1]);
        assert!(Message::read(&bytes).is_none());
    }

    #[test]
    fn escapes_unprintable_bytes() {
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
        fn arbitrary_bytes_never_panic(
            cut in 0usize..80,
            changes in prop::collection::vec((0usize..80, any::<u8>()), 0..8),
        ) {
            let mut bytes = response();
            for (at, byte) in changes {
                if let Some(target) = bytes.get_mut(at) {
                    *target = byte;
                }
            }
            bytes.truncate(cut);
            let _ = Message::read(&bytes);
        }
    }
}
