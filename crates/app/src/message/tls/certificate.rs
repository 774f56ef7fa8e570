//! The Certificate message up to TLS 1.2 (RFC 5246 section 7.4.2).

use crate::message::reader::Reader;
use std::borrow::Cow;
use std::fmt::Write;

/// Subject and issuer of a certificate, written as in RFC 4514 but in the certificate's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// Subject.
    pub subject: String,
    /// Issuer.
    pub issuer: String,
}

/// The names in the first certificate of a Certificate message, which is that of the server. `body` is
/// the body of the message; the first certificate must be complete.
///
/// Nothing after the subject is parsed (RFC 5280 section 4.1).
#[must_use]
pub fn names(body: &[u8]) -> Option<CertificateNames> {
    let mut reader = Reader::new(body);
    reader.u24()?;
    let length = reader.u24()? as usize;
    let certificate = Element::read(&mut Reader::new(reader.take(length)?), tag::SEQUENCE)?;
    let to_be_signed = Element::read(&mut Reader::new(certificate.content), tag::SEQUENCE)?;
    let mut fields = Reader::new(to_be_signed.content);
    if fields.rest().first() == Some(&tag::VERSION) {
        Element::read(&mut fields, tag::VERSION)?;
    }
    Element::read(&mut fields, tag::INTEGER)?;
    Element::read(&mut fields, tag::SEQUENCE)?;
    let issuer = Element::read(&mut fields, tag::SEQUENCE)?;
    Element::read(&mut fields, tag::SEQUENCE)?;
    let subject = Element::read(&mut fields, tag::SEQUENCE)?;
    Some(CertificateNames {
        subject: subject.name()?,
        issuer: issuer.name()?,
    })
}

/// DER tags (X.690), including the bits of class and form.
mod tag {
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(super) const UTF8_STRING: u8 = 0x0c;
    pub(super) const NUMERIC_STRING: u8 = 0x12;
    pub(super) const PRINTABLE_STRING: u8 = 0x13;
    pub(super) const T61_STRING: u8 = 0x14;
    pub(super) const IA5_STRING: u8 = 0x16;
    pub(super) const VISIBLE_STRING: u8 = 0x1a;
    pub(super) const UNIVERSAL_STRING: u8 = 0x1c;
    pub(super) const BMP_STRING: u8 = 0x1e;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
    /// \[0\] in a certificate.
    pub(super) const VERSION: u8 = 0xa0;
}

/// A DER element.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// The element with tag and length.
    encoded: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads the next element, if it has this tag.
    fn read(reader: &mut Reader<'a>, tag: u8) -> Option<Self> {
        Self::read_any(reader).filter(|element| element.tag == tag)
    }

    /// Reads the next element. `None` if its tag has several bytes, or if its length is indefinite or
    /// has more than three bytes.
    fn read_any(reader: &mut Reader<'a>) -> Option<Self> {
        let start = reader.rest();
        let tag = reader.u8()?;
        let length = match reader.u8()? {
            short @ 0..=0x7f => usize::from(short),
            0x81 => usize::from(reader.u8()?),
            0x82 => usize::from(reader.u16()?),
            0x83 => reader.u24()? as usize,
            _ => return None,
        };
        let content = reader.take(length)?;
        let encoded = &start[..start.len() - reader.rest().len()];
        Some(Self {
            tag,
            content,
            encoded,
        })
    }

    /// The text of a Name.
    fn name(&self) -> Option<String> {
        let mut text = String::with_capacity(self.content.len());
        let mut sets = Reader::new(self.content);
        while !sets.is_empty() {
            let mut set = Reader::new(Self::read(&mut sets, tag::SET)?.content);
            let mut separator = ",";
            while !set.is_empty() {
                let attribute = Self::read(&mut set, tag::SEQUENCE)?;
                if !text.is_empty() {
                    text.push_str(separator);
                }
                separator = "+";
                attribute.push_attribute(&mut text)?;
            }
        }
        Some(text)
    }

    /// Appends the type and value of an attribute. The value is in hexadecimal if it is no text or if
    /// the type has no short name (RFC 4514 section 2.4).
    fn push_attribute(&self, text: &mut String) -> Option<()> {
        let mut attribute = Reader::new(self.content);
        let kind = Self::read(&mut attribute, tag::OBJECT_IDENTIFIER)?.content;
        let value = Self::read_any(&mut attribute)?;
        let short = short_name(kind);
        match short {
            Some(name) => text.push_str(name),
            None => push_dotted(text, kind)?,
        }
        text.push('=');
        match value.text().filter(|_| short.is_some()) {
            Some(value) => push_escaped(text, &value),
            None => {
                text.push('#');
                for byte in value.encoded {
                    write!(text, "{byte:02x}").ok()?;
                }
            }
        }
        Some(())
    }

    /// The text of a string. `None` if the element is no valid string.
    fn text(&self) -> Option<Cow<'a, str>> {
        let utf_8 = str::from_utf8(self.content).ok().map(Cow::Borrowed);
        match self.tag {
            tag::UTF8_STRING
            | tag::NUMERIC_STRING
            | tag::PRINTABLE_STRING
            | tag::IA5_STRING
            | tag::VISIBLE_STRING => utf_8,
            // In practice these are UTF-8 or Latin-1.
            tag::T61_STRING => {
                let latin_1 = || self.content.iter().map(|&byte| char::from(byte)).collect();
                Some(utf_8.unwrap_or_else(latin_1))
            }
            tag::BMP_STRING => {
                let (units, []) = self.content.as_chunks() else {
                    return None;
                };
                let units = units.iter().map(|&unit| u16::from_be_bytes(unit));
                char::decode_utf16(units).collect::<Result<_, _>>().ok()
            }
            tag::UNIVERSAL_STRING => {
                let (units, []) = self.content.as_chunks() else {
                    return None;
                };
                let units = units.iter().map(|&unit| u32::from_be_bytes(unit));
                units.map(char::from_u32).collect()
            }
            _ => None,
        }
    }
}

/// Appends a value with the escapes of RFC 4514 section 2.4, so that a value cannot look like several
/// attributes.
fn push_escaped(text: &mut String, value: &str) {
    // Most values need no escape and are copied as they are.
    let bytes = value.as_bytes();
    let is_edge = matches!(bytes, [b' ' | b'#', ..] | [.., b' ']);
    let is_escaped = |any, byte: &u8| any | ESCAPED[usize::from(*byte)];
    if !is_edge && !bytes.iter().fold(false, is_escaped) {
        return text.push_str(value);
    }
    let last = value.len().wrapping_sub(1);
    for (at, character) in value.char_indices() {
        match character {
            '\0' => text.push_str("\\00"),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => text.extend(['\\', character]),
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            '#' if at == 0 => text.push_str("\\#"),
            _ => text.push(character),
        }
    }
}

/// For each byte, whether it is escaped at any position.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut at = 0;
    while at < b"\0\"+,;<>\\".len() {
        escaped[b"\0\"+,;<>\\"[at] as usize] = true;
        at += 1;
    }
    escaped
};

/// Appends an object identifier as numbers with dots (X.690 section 8.19). `None` if it is invalid.
fn push_dotted(text: &mut String, object_identifier: &[u8]) -> Option<()> {
    let mut number: u64 = 0;
    let mut is_first = true;
    for &byte in object_identifier {
        if number >> 56 != 0 {
            return None;
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let root = (number / 40).min(2);
            write!(text, "{root}.{}", number - 40 * root).ok()?;
        } else {
            write!(text, ".{number}").ok()?;
        }
        is_first = false;
        number = 0;
    }
    object_identifier
        .last()
        .is_some_and(|&byte| byte & 0x80 == 0)
        .then_some(())
}

/// The short name of an attribute type: those of RFC 4514 section 3, and other common ones.
/// docs/names.md lists them.
const fn short_name(object_identifier: &[u8]) -> Option<&'static str> {
    Some(match object_identifier {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 4] => "surname",
        [0x55, 4, 5] => "serialNumber",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "STREET",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x55, 4, 12] => "title",
        [0x55, 4, 13] => "description",
        [0x55, 4, 15] => "businessCategory",
        [0x55, 4, 17] => "postalCode",
        [0x55, 4, 42] => "givenName",
        [0x55, 4, 46] => "dnQualifier",
        [0x55, 4, 97] => "organizationIdentifier",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "Email",
        [0x2b, 6, 1, 4, 1, 0x82, 0x37, 60, 2, 1, 1] => "jurisdictionL",
        [0x2b, 6, 1, 4, 1, 0x82, 0x37, 60, 2, 1, 2] => "jurisdictionST",
        [0x2b, 6, 1, 4, 1, 0x82, 0x37, 60, 2, 1, 3] => "jurisdictionC",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use x509_parser::prelude::{FromDer, X509Name};

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        match content.len() {
            length @ 0..128 => bytes.push(length as u8),
            length @ 128..256 => bytes.extend([0x81, length as u8]),
            length => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        bytes.extend(content);
        bytes
    }

    fn attribute(object_identifier: &[u8], kind: u8, value: &[u8]) -> Vec<u8> {
        let content = [element(6, object_identifier), element(kind, value)].concat();
        element(0x30, &content)
    }

    const IDENTIFIERS: [&[u8]; 9] = [
        &[0x55, 4, 3],
        &[0x55, 4, 6],
        &[0x55, 4, 7],
        &[0x55, 4, 8],
        &[0x55, 4, 10],
        &[0x55, 4, 11],
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        &[0x55, 4, 5],
    ];

    /// The text of a name with these attributes, each in a set of its own.
    fn text(attributes: &[Vec<u8>]) -> Option<String> {
        let sets: Vec<u8> = attributes.iter().flat_map(|it| element(0x31, it)).collect();
        let name = element(0x30, &sets);
        Element::read_any(&mut Reader::new(&name)).unwrap().name()
    }

    /// The examples of RFC 4514 section 4, and others.
    #[test]
    fn escapes_values_that_look_like_attributes() {
        let one = |identifier: &[u8], kind, value: &[u8]| {
            text(&[attribute(identifier, kind, value)]).unwrap()
        };
        let (common, organization): (&[u8], &[u8]) = (&[0x55, 4, 3], &[0x55, 4, 10]);
        for (value, expected) in [
            ("x, CN=bank.com", r"O=x\, CN=bank.com"),
            ("Acme, \"Inc\" + <x>;#", r#"O=Acme\, \"Inc\" \+ \<x\>\;#"#),
            (" lead trail ", r"O=\ lead trail\ "),
            ("#1", r"O=\#1"),
            (" ", r"O=\ "),
            ("back\\slash\0", r"O=back\\slash\00"),
            ("", "O="),
            ("ümlaut", "O=ümlaut"),
        ] {
            assert_eq!(one(organization, 0x0c, value.as_bytes()), expected);
        }
        assert_eq!(one(common, 0x1e, b"\0L\x01\x0d"), "CN=L\u{10d}");
        assert_eq!(one(common, 0x1c, b"\0\0\0L\0\0\x01\x0d"), "CN=L\u{10d}");
        assert_eq!(one(common, 0x14, b"\xfcm"), "CN=üm");
        assert_eq!(one(common, 0x0c, b"\xfcm"), "CN=#0c02fc6d");
        assert_eq!(one(common, 0x1e, b"abc"), "CN=#1e03616263");
        let unknown = &[0x2b, 6, 1, 4, 1, 0x8b, 0x3a, 0];
        assert_eq!(one(unknown, 4, b"Hi"), "1.3.6.1.4.1.1466.0=#04024869");
        assert_eq!(one(&[0x88, 0x37], 0x13, b"a"), "2.999=#130161");
        assert_eq!(text(&[attribute(&[0x55, 0x84], 0x13, b"a")]), None);
        assert_eq!(text(&[attribute(&[0xff; 12], 0x13, b"a")]), None);
        let both = [
            attribute(common, 0x13, b"a"),
            attribute(organization, 0x13, b"b"),
        ];
        assert_eq!(text(&both).as_deref(), Some("CN=a,O=b"));
        assert_eq!(text(&[both.concat()]).as_deref(), Some("CN=a+O=b"));
    }

    proptest! {
        /// For values without escapes, and ignoring the spaces that x509-parser writes around
        /// separators.
        #[test]
        fn writes_names_like_x509_parser(
            sets in prop::collection::vec(
                prop::collection::vec((0usize..9, prop::sample::select(vec![0x0cu8, 0x13, 0x14, 0x16]), "[a-zé.*=]{0,70}"), 1..3),
                0..6,
            )
        ) {
            let sets: Vec<u8> = sets
                .iter()
                .flat_map(|set| {
                    let attributes: Vec<u8> = set
                        .iter()
                        .flat_map(|(which, kind, value)| attribute(IDENTIFIERS[*which], *kind, value.as_bytes()))
                        .collect();
                    element(0x31, &attributes)
                })
                .collect();
            let encoded = element(0x30, &sets);
            let read = Element::read_any(&mut Reader::new(&encoded)).unwrap();
            let (_, theirs) = X509Name::from_der(&encoded).unwrap();
            let theirs = theirs.to_string().replace(", ", ",").replace(" + ", "+");
            prop_assert_eq!(read.name(), Some(theirs));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = names(&bytes);
        }
    }
}
