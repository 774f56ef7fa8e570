//! The Certificate message up to TLS 1.2 (RFC 5246 section 7.4.2).

use crate::app::reader::Reader;
use x509_parser::prelude::{FromDer, X509Name};

/// Subject and issuer of a certificate, as RFC 4514 writes names but in the certificate's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// Whom it is for.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
}

/// The names in the first certificate of a Certificate message's body, which is the server's own.
///
/// Of the certificate no more is read than lies before them (RFC 5280 section 4.1).
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

/// Tags of DER (X.690), with the bits of class and form.
mod tag {
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(super) const UTF8_STRING: u8 = 0x0c;
    pub(super) const PRINTABLE_STRING: u8 = 0x13;
    pub(super) const T61_STRING: u8 = 0x14;
    pub(super) const IA5_STRING: u8 = 0x16;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
    /// \[0\] of a certificate.
    pub(super) const VERSION: u8 = 0xa0;
}

/// An element of DER.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// With tag and length.
    whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The next element, if it has this tag.
    fn read(reader: &mut Reader<'a>, tag: u8) -> Option<Self> {
        Self::any(reader).filter(|element| element.tag == tag)
    }

    /// The next element; none with a tag or a length of many bytes, or of indefinite length.
    fn any(reader: &mut Reader<'a>) -> Option<Self> {
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
        let whole = &start[..start.len() - reader.rest().len()];
        Some(Self {
            tag,
            content,
            whole,
        })
    }

    /// The text of a Name.
    fn name(&self) -> Option<String> {
        self.usual_name().or_else(|| {
            let (_, name) = X509Name::from_der(self.whole).ok()?;
            Some(name.to_string())
        })
    }

    /// The text of a Name that has but usual attributes, one in each set, in types of string that
    /// hold text: nearly every one.
    fn usual_name(&self) -> Option<String> {
        let mut text = String::with_capacity(self.content.len());
        let mut sets = Reader::new(self.content);
        while !sets.is_empty() {
            let mut set = Reader::new(Self::read(&mut sets, tag::SET)?.content);
            let mut attribute = Reader::new(Self::read(&mut set, tag::SEQUENCE)?.content);
            let kind = abbreviation(Self::read(&mut attribute, tag::OBJECT_IDENTIFIER)?.content)?;
            let value = Self::any(&mut attribute)?;
            let is_text = matches!(
                value.tag,
                tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::T61_STRING | tag::IA5_STRING
            );
            if !is_text || !set.is_empty() || !attribute.is_empty() {
                return None;
            }
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(kind);
            text.push('=');
            text.push_str(core::str::from_utf8(value.content).ok()?);
        }
        Some(text)
    }
}

/// What stands for the type of an attribute.
const fn abbreviation(object_identifier: &[u8]) -> Option<&'static str> {
    Some(match object_identifier {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "Email",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    const IDENTIFIERS: [&[u8]; 10] = [
        &[0x55, 4, 3],
        &[0x55, 4, 6],
        &[0x55, 4, 7],
        &[0x55, 4, 8],
        &[0x55, 4, 10],
        &[0x55, 4, 11],
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        // serialNumber, and one that nobody knows.
        &[0x55, 4, 5],
        &[0x2a, 3, 4],
    ];

    proptest! {
        /// Sets of several attributes and odd types of string among them.
        #[test]
        fn names_are_as_x509_parser_writes_them(
            sets in prop::collection::vec(
                prop::collection::vec((0usize..10, prop::sample::select(vec![0x0cu8, 0x13, 0x14, 0x16, 0x1e, 0x03]), "[a-zé .*,]{0,70}"), 1..3),
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
            let whole = element(0x30, &sets);
            let read = Element::any(&mut Reader::new(&whole)).unwrap();
            let (_, theirs) = X509Name::from_der(&whole).unwrap();
            prop_assert_eq!(read.name(), Some(theirs.to_string()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = names(&bytes);
        }
    }
}
