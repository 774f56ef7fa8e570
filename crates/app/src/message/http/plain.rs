//! Heads of messages as nearly all are: names of letters, digits and hyphens, values without control
//! characters, lines that end with both CR and LF. They are read in one pass, in which no field is
//! kept that nobody asks for. Of any other head nothing is said: `httparse` reads those, and a head
//! that is read here says there the same.

use super::{FIELDS_MAX, RESPONSE, VERSION_LENGTH};
use hw::text::{control_from, gap_from, name_end_from, utf_8};

/// The fields of a head that are wanted, the first of each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub(super) host: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) content_length: Option<&'a [u8]>,
    pub(super) transfer_encoding: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// The fields whose first begins at `at`, and where the head ends.
    fn read(bytes: &'a [u8], mut at: usize) -> Option<(Self, usize)> {
        let mut fields = Self::default();
        for _ in 0..=FIELDS_MAX {
            let name_end = name_end_from(bytes, at);
            let name = bytes.get(at..name_end)?;
            if name.is_empty() {
                let is_end = bytes[at..].starts_with(b"\r\n");
                return is_end.then_some((fields, at + 2));
            }
            if bytes.get(name_end) != Some(&b':') {
                return None;
            }
            let line_end = control_from(bytes, name_end + 1);
            if !bytes[line_end..].starts_with(b"\r\n") {
                return None;
            }
            if let Some(place) = fields.place(name)
                && place.is_none()
            {
                *place = Some(bytes[name_end + 1..line_end].trim_ascii());
            }
            at = line_end + 2;
        }
        None
    }

    /// Where the value of the field of this name goes, if it is wanted.
    #[inline(always)]
    fn place(&mut self, name: &[u8]) -> Option<&mut Option<&'a [u8]>> {
        match name.len() {
            4 if is(name, b"host") => Some(&mut self.host),
            10 if is(name, b"user-agent") => Some(&mut self.user_agent),
            12 if is(name, b"content-type") => Some(&mut self.content_type),
            14 if is(name, b"content-length") => Some(&mut self.content_length),
            17 if is(name, b"transfer-encoding") => Some(&mut self.transfer_encoding),
            _ => None,
        }
    }
}

/// Whether a name of letters, digits and hyphens, whatever the case of its letters, is this one in
/// lower case: a bit is the case of a letter, and set in what is none.
#[inline(always)]
fn is<const LENGTH: usize>(name: &[u8], lower: &[u8; LENGTH]) -> bool {
    name.first_chunk::<LENGTH>().is_some_and(|name| {
        let pairs = name.iter().zip(lower);
        pairs.fold(0, |other, (byte, lower)| other | (byte | 0x20) ^ lower) == 0
    })
}

/// A head of a request whose method is known to take `method_length` bytes.
pub(super) struct Request<'a> {
    pub(super) target: &'a [u8],
    pub(super) fields: Fields<'a>,
    pub(super) length: usize,
}

/// Reads the head of a request that begins with a method of so many bytes and a space.
pub(super) fn request(bytes: &[u8], method_length: usize) -> Option<Request<'_>> {
    let start = method_length + 1;
    let end = gap_from(bytes, start);
    let target = bytes.get(start..end).filter(|target| !target.is_empty())?;
    let behind = bytes[end..].strip_prefix(b" ")?;
    let (version, behind) = behind.split_first_chunk::<VERSION_LENGTH>()?;
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") || !behind.starts_with(b"\r\n") {
        return None;
    }
    utf_8(target)?;
    let (fields, length) = Fields::read(bytes, end + 1 + VERSION_LENGTH + 2)?;
    Some(Request {
        target,
        fields,
        length,
    })
}

/// A head of a response.
pub(super) struct Response<'a> {
    pub(super) status: u16,
    pub(super) fields: Fields<'a>,
    pub(super) length: usize,
}

/// Reads the head of a response.
pub(super) fn response(bytes: &[u8]) -> Option<Response<'_>> {
    let line: &[u8; VERSION_LENGTH + 5] = bytes.first_chunk()?;
    let [rest @ .., minor, b' ', a, b, c, behind] = line else {
        return None;
    };
    if rest != RESPONSE || !matches!(minor, b'0' | b'1') || !matches!(behind, b' ' | b'\r') {
        return None;
    }
    let digits = [a, b, c].map(|digit| u16::from(digit.wrapping_sub(b'0')));
    if digits.iter().any(|digit| *digit > 9) {
        return None;
    }
    let line_end = control_from(bytes, VERSION_LENGTH + 4);
    if !bytes[line_end..].starts_with(b"\r\n") {
        return None;
    }
    let (fields, length) = Fields::read(bytes, line_end + 2)?;
    Some(Response {
        status: digits[0] * 100 + digits[1] * 10 + digits[2],
        fields,
        length,
    })
}
