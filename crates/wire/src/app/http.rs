//! Heads of HTTP/1 messages (RFC 9112).

#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;
use core::num::NonZeroU8;
use httparse::Status;

/// The most header fields of a message that are read.
const FIELDS_MAX: usize = 96;

/// A method that is known.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// The first bytes of the name and the space behind it, as a word, and the bits of it that they
    /// take.
    word: u64,
    mask: u64,
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

impl Known {
    const fn new(name: &'static str) -> Self {
        let (mut word, mut mask, mut at) = ([0; WORD], [0; WORD], 0);
        while at < WORD && at <= name.len() {
            word[at] = if at < name.len() {
                name.as_bytes()[at]
            } else {
                b' '
            };
            mask[at] = 0xff;
            at += 1;
        }
        Self {
            name,
            word: u64::from_ne_bytes(word),
            mask: u64::from_ne_bytes(mask),
        }
    }

    /// Whether bytes begin with it, a space behind it.
    #[inline]
    fn begins(&self, bytes: &[u8]) -> bool {
        if let Some(first) = bytes.first_chunk() {
            let first = u64::from_ne_bytes(*first);
            if (first ^ self.word) & self.mask != 0 {
                return false;
            }
            if self.name.len() < WORD {
                return true;
            }
        }
        let rest = bytes.strip_prefix(self.name.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&b' '))
    }
}

/// The methods that are known, by their first byte: those of IANA's HTTP Method Registry but `PRI` and
/// `*`, which begin no request of HTTP/1, and those of WebDAV's older servers, of Outlook, of caches and
/// of Windows' transfers.
const fn methods(first: u8) -> &'static [Known] {
    match first {
        b'A' => const { &[Known::new("ACL")] },
        b'B' => {
            const {
                &[
                    Known::new("BASELINE-CONTROL"),
                    Known::new("BIND"),
                    Known::new("BITS_POST"),
                    Known::new("BPROPFIND"),
                    Known::new("BPROPPATCH"),
                    Known::new("BMOVE"),
                    Known::new("BDELETE"),
                    Known::new("BCOPY"),
                ]
            }
        }
        b'C' => {
            const {
                &[
                    Known::new("CONNECT"),
                    Known::new("COPY"),
                    Known::new("CHECKOUT"),
                    Known::new("CHECKIN"),
                    Known::new("CCM_POST"),
                ]
            }
        }
        b'D' => const { &[Known::new("DELETE")] },
        b'G' => const { &[Known::new("GET")] },
        b'H' => const { &[Known::new("HEAD")] },
        b'L' => const { &[Known::new("LOCK"), Known::new("LABEL"), Known::new("LINK")] },
        b'M' => {
            const {
                &[
                    Known::new("MKCOL"),
                    Known::new("MOVE"),
                    Known::new("MERGE"),
                    Known::new("MKACTIVITY"),
                    Known::new("MKCALENDAR"),
                    Known::new("MKREDIRECTREF"),
                    Known::new("MKWORKSPACE"),
                ]
            }
        }
        b'N' => const { &[Known::new("NOTIFY")] },
        b'O' => const { &[Known::new("OPTIONS"), Known::new("ORDERPATCH")] },
        b'P' => {
            const {
                &[
                    Known::new("POST"),
                    Known::new("PUT"),
                    Known::new("PATCH"),
                    Known::new("PROPFIND"),
                    Known::new("PROPPATCH"),
                    Known::new("POLL"),
                    Known::new("PURGE"),
                ]
            }
        }
        b'Q' => const { &[Known::new("QUERY")] },
        b'R' => {
            const {
                &[
                    Known::new("REPORT"),
                    Known::new("REBIND"),
                    Known::new("RPC_IN_DATA"),
                    Known::new("RPC_OUT_DATA"),
                ]
            }
        }
        b'S' => const { &[Known::new("SEARCH"), Known::new("SUBSCRIBE")] },
        b'T' => const { &[Known::new("TRACE")] },
        b'U' => {
            const {
                &[
                    Known::new("UNLOCK"),
                    Known::new("UNSUBSCRIBE"),
                    Known::new("UNBIND"),
                    Known::new("UNCHECKOUT"),
                    Known::new("UNLINK"),
                    Known::new("UPDATE"),
                    Known::new("UPDATEREDIRECTREF"),
                ]
            }
        }
        b'V' => const { &[Known::new("VERSION-CONTROL")] },
        _ => &[],
    }
}

/// The most bytes of a method that is not among them.
pub const METHOD_MAX: usize = 32;

/// The most bytes of a target behind such a method (RFC 9112 section 3 asks for 8,000 of a first line).
const TARGET_MAX: usize = 8000;

/// A method that begins a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(NonZeroU8);

impl Method {
    /// Any that has no number: its first byte would be `_`.
    pub const OTHER: Self = Self(NonZeroU8::MAX);

    /// The method that bytes begin with, a space behind it, if it is known.
    fn of(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let place = methods(first).iter().position(|it| it.begins(bytes))?;
        // All first bytes are capital letters: 5 bits tell them apart.
        NonZeroU8::new(first << 3 | place as u8).map(Self)
    }

    /// Its name; empty of [`OTHER`](Self::OTHER).
    #[must_use]
    pub fn name(self) -> &'static str {
        let methods = methods(b'@' | self.0.get() >> 3);
        let place = usize::from(self.0.get() & 7);
        methods.get(place).map_or("", |it| it.name)
    }
}

/// What begins a response.
const RESPONSE: &[u8] = b"HTTP/1.";

/// Bytes of a version (RFC 9112 section 2.3).
const VERSION_LENGTH: usize = RESPONSE.len() + 1;

/// Whether a byte may be in a token, which a method is (RFC 9110 section 5.6.2).
#[inline(always)]
fn is_token(byte: u8) -> bool {
    TOKENS[usize::from(byte)]
}

/// Of each byte whether it may be in a token.
const TOKENS: [bool; 256] = {
    let mut tokens = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        tokens[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            );
        byte += 1;
    }
    tokens
};

/// What follows the empty lines before a request, of which a server ignores at least one (RFC 9112
/// section 2.2).
fn after_empty_lines(bytes: &[u8]) -> &[u8] {
    let once = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    once.strip_prefix(b"\r\n").unwrap_or(once)
}

/// Whether a message may begin with these bytes, by a look at the first of them.
#[inline]
#[must_use]
pub fn may_begin(bytes: &[u8]) -> bool {
    // Of all tokens those that begin with a letter: so do all methods, and numbers begin lines of many
    // other protocols.
    bytes
        .first()
        .is_some_and(|first| first.is_ascii_alphabetic() || *first == b'\r')
        && has_token(bytes)
}

/// Whether a response, or a request with a method that is known, may begin with these bytes, by a look
/// at the first two of them.
#[inline]
#[must_use]
pub fn may_begin_known(bytes: &[u8]) -> bool {
    match *bytes {
        [first, second, ..] => FIRST_TWO[usize::from(first)] >> (second & 31) & 1 != 0,
        [_] => true,
        [] => false,
    }
}

/// Of each byte that a message may begin with, the bytes that may come next, a bit for each by its lower
/// five bits.
const FIRST_TWO: [u32; 256] = {
    let mut table = [0; 256];
    let mut first = 0;
    while first < 256 {
        let methods = methods(first as u8);
        let mut at = 0;
        while at < methods.len() {
            table[first] |= 1 << (methods[at].name.as_bytes()[1] & 31);
            at += 1;
        }
        first += 1;
    }
    table[RESPONSE[0] as usize] |= 1 << (RESPONSE[1] & 31);
    // Empty lines come before a request.
    table[b'\r' as usize] = 1 << b'\n';
    table
};

/// Whether four bytes may be a method or its beginning: of random ones few are.
#[inline]
fn has_token(bytes: &[u8]) -> bool {
    let bytes = after_empty_lines(bytes);
    let first = &bytes[..bytes.len().min(4)];
    match first.iter().position(|byte| !is_token(*byte)) {
        // Half an empty line.
        Some(0) => bytes == b"\r",
        Some(at) => first[at] == b' ' && first[0].is_ascii_alphabetic(),
        None => first.first().is_none_or(u8::is_ascii_alphabetic),
    }
}

/// Whether bytes are a request by the whole of their first line, whatever its method.
fn is_request(bytes: &[u8]) -> bool {
    if !has_token(bytes) {
        return false;
    }
    let is_method_end = |byte: &u8| !is_token(*byte);
    let Some(at) = bytes.iter().take(METHOD_MAX + 1).position(is_method_end) else {
        return false;
    };
    let Some(behind) = bytes[at..].strip_prefix(b" ") else {
        return false;
    };
    let is_target_end = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    let target = behind.iter().take(TARGET_MAX + 1).position(is_target_end);
    at > 0 && target.is_some_and(|end| end > 0 && behind[end..].starts_with(b" HTTP/1."))
}

/// What the beginning of bytes can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// A request, by a method that is known, or by the whole of its first line.
    Request,
    /// A response, by its version.
    Response,
    /// Too few bytes to tell, all of them as one of the two has them.
    Perhaps,
    /// Neither, as far as they tell.
    No,
}

/// Tells what bytes begin with, of requests those with a method that is known.
#[inline]
#[must_use]
pub fn begins(bytes: &[u8]) -> Begins {
    match bytes.first() {
        None => Begins::Perhaps,
        Some(b'A'..=b'Z' | b'\r') => begins_by_method(bytes),
        Some(_) => Begins::No,
    }
}

fn begins_by_method(bytes: &[u8]) -> Begins {
    if bytes.starts_with(RESPONSE) {
        return Begins::Response;
    }
    let request = after_empty_lines(bytes);
    let Some(&first) = request.first() else {
        return Begins::No;
    };
    let may_be = |method: &Known| method.name.as_bytes().starts_with(request);
    if Method::of(request).is_some() {
        Begins::Request
    } else if bytes.len() > METHOD_MAX {
        Begins::No
    } else if RESPONSE.starts_with(bytes) || methods(first).iter().any(may_be) {
        Begins::Perhaps
    } else {
        Begins::No
    }
}

/// The same of bytes that may also begin with a method that is not known.
#[inline]
#[must_use]
pub fn begins_by_line(bytes: &[u8]) -> Begins {
    match begins(bytes) {
        // Any method begins with a letter, or empty lines come before it.
        Begins::No if may_begin(bytes) && is_request(after_empty_lines(bytes)) => Begins::Request,
        begins => begins,
    }
}

/// How much body follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// As many bytes as this.
    Length(u64),
    /// It ends by its own chunks, or with the connection: not followed.
    Unknown,
}

/// Head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// The same as it was sent.
    pub method_name: &'a str,
    /// Target; [`request_line`] takes any bytes for one.
    pub target: &'a [u8],
    /// Host field; without one, the host of a target in absolute form.
    pub host: Option<&'a [u8]>,
    /// User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// Body.
    pub body: Body,
    /// Bytes of the head.
    pub length: usize,
}

/// Head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// Content-Type field.
    pub content_type: Option<&'a [u8]>,
    /// Body, as its fields tell (a response to HEAD has none though they tell otherwise).
    pub body: Body,
    /// Bytes of the head.
    pub length: usize,
}

/// A head that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<T> {
    /// It is there.
    Whole(T),
    /// More bytes are needed.
    Partial,
    /// The bytes are no head.
    Bad,
}

/// Reads the head of a request.
#[must_use]
pub fn request(bytes: &[u8]) -> Head<Request<'_>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Head::Partial,
        Err(_) => return Head::Bad,
    };
    let (Some(method_name), Some(target)) = (request.method, request.path) else {
        return Head::Bad;
    };
    let method = match Method::of(after_empty_lines(bytes)) {
        Some(method) => method,
        None if method_name.len() <= METHOD_MAX => Method::OTHER,
        None => return Head::Bad,
    };
    let target = target.as_bytes();
    let fields = request.headers;
    Head::Whole(Request {
        method,
        method_name,
        target,
        host: field(fields, "host").or_else(|| authority(target)),
        user_agent: field(fields, "user-agent"),
        // A request without a length has no body (RFC 9112 section 6.3).
        body: body(fields).unwrap_or(Body::Length(0)),
        length,
    })
}

/// The host of a target in absolute form (RFC 9112 section 3.2.2).
fn authority(target: &[u8]) -> Option<&[u8]> {
    let at = target.windows(3).position(|it| it == b"://")?;
    target[at + 3..].split(|byte| *byte == b'/').next()
}

/// Reads the first line of a request alone, whose target may be what no target is (RFC 9112 section 3):
/// bytes that are not UTF-8, spaces.
#[must_use]
pub fn request_line(bytes: &[u8]) -> Option<Request<'_>> {
    let bytes = after_empty_lines(bytes);
    let feed = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..feed].trim_ascii_end();
    let (before, version) = line.split_at_checked(line.len().checked_sub(VERSION_LENGTH)?)?;
    let is_version = version.starts_with(RESPONSE) && version[RESPONSE.len()].is_ascii_digit();
    let method_end = before.iter().position(|byte| !is_token(*byte))?;
    let (method_name, target) = before.split_at(method_end);
    let (target, method_name) = (
        target.strip_prefix(b" ")?,
        core::str::from_utf8(method_name).ok()?,
    );
    let target = target.strip_suffix(b" ")?.trim_ascii();
    let method = match Method::of(bytes) {
        Some(method) => method,
        None if (1..=METHOD_MAX).contains(&method_name.len()) => Method::OTHER,
        None => return None,
    };
    (is_version && !target.is_empty()).then_some(Request {
        method,
        method_name,
        target,
        host: authority(target),
        user_agent: None,
        body: Body::Unknown,
        length: feed + 1,
    })
}

/// Whether the first line of a request may be going on behind these bytes, all of them text.
#[must_use]
pub fn is_half_line(bytes: &[u8]) -> bool {
    let line = after_empty_lines(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.len() <= METHOD_MAX + TARGET_MAX + VERSION_LENGTH
        && line.iter().all(|byte| *byte >= b' ' && *byte != 0x7f)
}

/// The lines of a head that are there whole, closed as if no more followed, or, where its fields
/// are not as they should be, its first line alone; in `buffer`.
pub fn close_head(bytes: &[u8], first_line: bool, buffer: &mut Vec<u8>) {
    let bytes = after_empty_lines(bytes);
    let feed = if first_line {
        bytes.iter().position(|byte| *byte == b'\n')
    } else {
        last_feed(bytes)
    };
    buffer.clear();
    buffer.extend_from_slice(&bytes[..feed.map_or(0, |at| at + 1)]);
    buffer.extend_from_slice(b"\r\n");
}

/// The last line feed, which may be far from the end: what follows a head may be a body.
fn last_feed(bytes: &[u8]) -> Option<usize> {
    let (rest, blocks) = bytes.as_rchunks::<32>();
    let has_feed = |block: &[u8; 32]| block.iter().fold(false, |any, byte| any | (*byte == b'\n'));
    let block = blocks.iter().rposition(has_feed);
    let end = rest.len() + block.map_or(0, |at| (at + 1) * 32);
    bytes[..end].iter().rposition(|byte| *byte == b'\n')
}

/// Reads the head of a response.
#[must_use]
pub fn response(bytes: &[u8]) -> Head<Response<'_>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Head::Partial,
        Err(_) => return Head::Bad,
    };
    let Some(status) = response.code else {
        return Head::Bad;
    };
    let fields = response.headers;
    Head::Whole(Response {
        status,
        content_type: field(fields, "content-type"),
        // RFC 9112 section 6.3: these have no body whatever their fields say.
        body: if status < 200 || status == 204 || status == 304 {
            Body::Length(0)
        } else {
            body(fields).unwrap_or(Body::Unknown)
        },
        length,
    })
}

/// The value of the first field of this name, whatever the case of its letters.
fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let field = fields
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name));
    field.map(|field| field.value)
}

/// The body that a message's fields announce (RFC 9112 section 6.3).
fn body(fields: &[httparse::Header<'_>]) -> Option<Body> {
    if field(fields, "transfer-encoding").is_some() {
        return Some(Body::Unknown);
    }
    let length = str::from_utf8(field(fields, "content-length")?).ok()?;
    Some(length.trim().parse().map_or(Body::Unknown, Body::Length))
}
