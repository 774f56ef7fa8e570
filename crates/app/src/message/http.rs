//! HTTP/1 messages (RFC 9112): start line and header fields, together called the head.

#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;
use core::num::NonZeroU8;
use httparse::Status;

/// The most header fields of a message.
const FIELDS_MAX: usize = 96;

/// A known method.
#[derive(Debug)]
struct KnownMethod {
    name: &'static str,
    /// The first eight bytes of the name and the space after it, as a word.
    word: u64,
    /// The bits of `word` that they use.
    mask: u64,
}

/// Size of a word in bytes.
const WORD: usize = size_of::<u64>();

impl KnownMethod {
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

    /// Whether bytes start with the method and a space.
    #[inline]
    fn is_start_of(&self, bytes: &[u8]) -> bool {
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

/// The known methods that start with a byte: those of IANA's HTTP Method Registry, except `PRI` and
/// `*`, which start no HTTP/1 request, and those of older WebDAV servers, Outlook, caches and the
/// Windows transfer service.
const fn known_methods(first: u8) -> &'static [KnownMethod] {
    match first {
        b'A' => const { &[KnownMethod::new("ACL")] },
        b'B' => {
            const {
                &[
                    KnownMethod::new("BASELINE-CONTROL"),
                    KnownMethod::new("BIND"),
                    KnownMethod::new("BITS_POST"),
                    KnownMethod::new("BPROPFIND"),
                    KnownMethod::new("BPROPPATCH"),
                    KnownMethod::new("BMOVE"),
                    KnownMethod::new("BDELETE"),
                    KnownMethod::new("BCOPY"),
                ]
            }
        }
        b'C' => {
            const {
                &[
                    KnownMethod::new("CONNECT"),
                    KnownMethod::new("COPY"),
                    KnownMethod::new("CHECKOUT"),
                    KnownMethod::new("CHECKIN"),
                    KnownMethod::new("CCM_POST"),
                ]
            }
        }
        b'D' => const { &[KnownMethod::new("DELETE")] },
        b'G' => const { &[KnownMethod::new("GET")] },
        b'H' => const { &[KnownMethod::new("HEAD")] },
        b'L' => {
            const {
                &[
                    KnownMethod::new("LOCK"),
                    KnownMethod::new("LABEL"),
                    KnownMethod::new("LINK"),
                ]
            }
        }
        b'M' => {
            const {
                &[
                    KnownMethod::new("MKCOL"),
                    KnownMethod::new("MOVE"),
                    KnownMethod::new("MERGE"),
                    KnownMethod::new("MKACTIVITY"),
                    KnownMethod::new("MKCALENDAR"),
                    KnownMethod::new("MKREDIRECTREF"),
                    KnownMethod::new("MKWORKSPACE"),
                ]
            }
        }
        b'N' => const { &[KnownMethod::new("NOTIFY")] },
        b'O' => const { &[KnownMethod::new("OPTIONS"), KnownMethod::new("ORDERPATCH")] },
        b'P' => {
            const {
                &[
                    KnownMethod::new("POST"),
                    KnownMethod::new("PUT"),
                    KnownMethod::new("PATCH"),
                    KnownMethod::new("PROPFIND"),
                    KnownMethod::new("PROPPATCH"),
                    KnownMethod::new("POLL"),
                    KnownMethod::new("PURGE"),
                ]
            }
        }
        b'Q' => const { &[KnownMethod::new("QUERY")] },
        b'R' => {
            const {
                &[
                    KnownMethod::new("REPORT"),
                    KnownMethod::new("REBIND"),
                    KnownMethod::new("RPC_IN_DATA"),
                    KnownMethod::new("RPC_OUT_DATA"),
                ]
            }
        }
        b'S' => const { &[KnownMethod::new("SEARCH"), KnownMethod::new("SUBSCRIBE")] },
        b'T' => const { &[KnownMethod::new("TRACE")] },
        b'U' => {
            const {
                &[
                    KnownMethod::new("UNLOCK"),
                    KnownMethod::new("UNSUBSCRIBE"),
                    KnownMethod::new("UNBIND"),
                    KnownMethod::new("UNCHECKOUT"),
                    KnownMethod::new("UNLINK"),
                    KnownMethod::new("UPDATE"),
                    KnownMethod::new("UPDATEREDIRECTREF"),
                ]
            }
        }
        b'V' => const { &[KnownMethod::new("VERSION-CONTROL")] },
        _ => &[],
    }
}

/// The longest unknown method, in bytes.
pub const METHOD_MAX: usize = 32;

/// The longest target after an unknown method, in bytes (RFC 9112 section 3 recommends support for
/// request lines of 8,000).
const TARGET_MAX: usize = 8000;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(NonZeroU8);

impl Method {
    /// Any unknown method. Its first byte would be `_`, which no known method has.
    pub const OTHER: Self = Self(NonZeroU8::MAX);

    /// Parses a known method followed by a space.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let index = known_methods(first)
            .iter()
            .position(|it| it.is_start_of(bytes))?;
        // All first bytes are capital letters, which differ in their lower 5 bits.
        NonZeroU8::new(first << 3 | index as u8).map(Self)
    }

    /// The name; empty for [`OTHER`](Self::OTHER).
    #[must_use]
    pub fn name(self) -> &'static str {
        let methods = known_methods(b'@' | self.0.get() >> 3);
        let index = usize::from(self.0.get() & 7);
        methods.get(index).map_or("", |it| it.name)
    }
}

/// The start of a response.
const RESPONSE: &[u8] = b"HTTP/1.";

/// Length of a version in bytes (RFC 9112 section 2.3).
const VERSION_LENGTH: usize = RESPONSE.len() + 1;

/// Whether a byte may be in a token (RFC 9110 section 5.6.2). A method is a token.
#[inline]
fn is_token(byte: u8) -> bool {
    TOKENS[usize::from(byte)]
}

/// For each byte, whether it may be in a token.
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

/// Skips up to two empty lines before a request. A server ignores at least one (RFC 9112 section
/// 2.2).
fn skip_empty_lines(bytes: &[u8]) -> &[u8] {
    let once = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    once.strip_prefix(b"\r\n").unwrap_or(once)
}

/// Whether a message may start with these bytes, judged by the first of them.
#[inline]
#[must_use]
pub fn may_start(bytes: &[u8]) -> bool {
    // Require a letter: all methods in use start with one, and lines of many other protocols start
    // with a digit.
    bytes
        .first()
        .is_some_and(|first| first.is_ascii_alphabetic() || *first == b'\r')
        && may_start_with_token(bytes)
}

/// Whether a response, or a request with a known method, may start with these bytes, judged by the
/// first two.
#[inline]
#[must_use]
pub fn may_start_known(bytes: &[u8]) -> bool {
    match *bytes {
        [first, second, ..] => FIRST_TWO[usize::from(first)] >> (second & 31) & 1 != 0,
        [_] => true,
        [] => false,
    }
}

/// For each first byte of a message, a bit set of the possible second bytes, by their lower five
/// bits.
const FIRST_TWO: [u32; 256] = {
    let mut table = [0; 256];
    let mut first = 0;
    while first < 256 {
        let methods = known_methods(first as u8);
        let mut at = 0;
        while at < methods.len() {
            table[first] |= 1 << (methods[at].name.as_bytes()[1] & 31);
            at += 1;
        }
        first += 1;
    }
    table[RESPONSE[0] as usize] |= 1 << (RESPONSE[1] & 31);
    // An empty line before a request.
    table[b'\r' as usize] = 1 << b'\n';
    table
};

/// Whether the first four bytes may start a method. Few random bytes do.
#[inline]
fn may_start_with_token(bytes: &[u8]) -> bool {
    let bytes = skip_empty_lines(bytes);
    let first = &bytes[..bytes.len().min(4)];
    match first.iter().position(|byte| !is_token(*byte)) {
        // Half an empty line.
        Some(0) => bytes == b"\r",
        Some(at) => first[at] == b' ' && first[0].is_ascii_alphabetic(),
        None => first.first().is_none_or(u8::is_ascii_alphabetic),
    }
}

/// Whether bytes start with a complete request line, with any method.
fn is_request_line(bytes: &[u8]) -> bool {
    if !may_start_with_token(bytes) {
        return false;
    }
    let is_method_end = |byte: &u8| !is_token(*byte);
    let Some(at) = bytes.iter().take(METHOD_MAX + 1).position(is_method_end) else {
        return false;
    };
    let Some(rest) = bytes[at..].strip_prefix(b" ") else {
        return false;
    };
    let is_target_end = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    let target = rest.iter().take(TARGET_MAX + 1).position(is_target_end);
    at > 0 && target.is_some_and(|end| end > 0 && rest[end..].starts_with(b" HTTP/1."))
}

/// What bytes start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// A request: a known method, or a complete request line.
    Request,
    /// A response: an HTTP version.
    Response,
    /// Too few bytes to decide, but so far they match a request or a response.
    NeedMore,
    /// Neither.
    No,
}

/// Detects a response, or a request with a known method.
#[inline]
#[must_use]
pub fn detect(bytes: &[u8]) -> Detected {
    match bytes.first() {
        None => Detected::NeedMore,
        Some(b'A'..=b'Z' | b'\r') => detect_by_method(bytes),
        Some(_) => Detected::No,
    }
}

fn detect_by_method(bytes: &[u8]) -> Detected {
    if bytes.starts_with(RESPONSE) {
        return Detected::Response;
    }
    let request = skip_empty_lines(bytes);
    let Some(&first) = request.first() else {
        return Detected::No;
    };
    let matches_start = |method: &KnownMethod| method.name.as_bytes().starts_with(request);
    if Method::parse(request).is_some() {
        Detected::Request
    } else if bytes.len() > METHOD_MAX {
        Detected::No
    } else if RESPONSE.starts_with(bytes) || known_methods(first).iter().any(matches_start) {
        Detected::NeedMore
    } else {
        Detected::No
    }
}

/// Detects a response, or a request with any method.
#[inline]
#[must_use]
pub fn detect_by_line(bytes: &[u8]) -> Detected {
    match detect(bytes) {
        // `may_start` is a cheap check that most payloads fail.
        Detected::No if may_start(bytes) && is_request_line(skip_empty_lines(bytes)) => {
            Detected::Request
        }
        begins => begins,
    }
}

/// Length of the body after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This number of bytes.
    Length(u64),
    /// Given by its chunks or by the end of the connection, which are not followed.
    Unknown,
}

/// Head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Name of the method, also if it is unknown.
    pub method_name: &'a str,
    /// Target. From [`parse_request_line`], it may be any bytes.
    pub target: &'a [u8],
    /// Host field, or the host of a target in absolute form if there is no such field.
    pub host: Option<&'a [u8]>,
    /// User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// Body.
    pub body: Body,
    /// Length of the head in bytes.
    pub length: usize,
}

/// Head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// Content-Type field.
    pub content_type: Option<&'a [u8]>,
    /// Body, according to the fields. (A response to HEAD has none, whatever they say.)
    pub body: Body,
    /// Length of the head in bytes.
    pub length: usize,
}

/// The result of parsing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<T> {
    /// The head is complete.
    Complete(T),
    /// More bytes are needed.
    Partial,
    /// The bytes are not a valid head.
    Invalid,
}

/// Parses the head of a request.
#[must_use]
pub fn parse_request(bytes: &[u8]) -> Head<Request<'_>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Head::Partial,
        Err(_) => return Head::Invalid,
    };
    let (Some(method_name), Some(target)) = (request.method, request.path) else {
        return Head::Invalid;
    };
    let method = match Method::parse(skip_empty_lines(bytes)) {
        Some(method) => method,
        None if method_name.len() <= METHOD_MAX => Method::OTHER,
        None => return Head::Invalid,
    };
    let target = target.as_bytes();
    let fields = request.headers;
    Head::Complete(Request {
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

/// Parses a request line alone. Unlike a valid target (RFC 9112 section 3), the target may have spaces
/// and invalid UTF-8.
#[must_use]
pub fn parse_request_line(bytes: &[u8]) -> Option<Request<'_>> {
    let bytes = skip_empty_lines(bytes);
    let line_end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..line_end].trim_ascii_end();
    let (before, version) = line.split_at_checked(line.len().checked_sub(VERSION_LENGTH)?)?;
    let is_version = version.starts_with(RESPONSE) && version[RESPONSE.len()].is_ascii_digit();
    let method_end = before.iter().position(|byte| !is_token(*byte))?;
    let (method_name, target) = before.split_at(method_end);
    let (target, method_name) = (
        target.strip_prefix(b" ")?,
        core::str::from_utf8(method_name).ok()?,
    );
    let target = target.strip_suffix(b" ")?.trim_ascii();
    let method = match Method::parse(bytes) {
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
        length: line_end + 1,
    })
}

/// Whether a request line may continue after these bytes: they are text without a line end.
#[must_use]
pub fn is_partial_line(bytes: &[u8]) -> bool {
    let line = skip_empty_lines(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.len() <= METHOD_MAX + TARGET_MAX + VERSION_LENGTH
        && line.iter().all(|byte| *byte >= b' ' && *byte != 0x7f)
}

/// Copies the complete lines of a head to `buffer` and terminates them with an empty line, so that
/// the head can be parsed. With `first_line`, copies the start line only, for heads with invalid
/// fields.
pub fn terminate_head(bytes: &[u8], first_line: bool, buffer: &mut Vec<u8>) {
    let bytes = skip_empty_lines(bytes);
    let line_end = if first_line {
        bytes.iter().position(|byte| *byte == b'\n')
    } else {
        last_line_feed(bytes)
    };
    buffer.clear();
    buffer.extend_from_slice(&bytes[..line_end.map_or(0, |at| at + 1)]);
    buffer.extend_from_slice(b"\r\n");
}

/// Position of the last line feed. It may be far from the end, because a body may follow the head.
fn last_line_feed(bytes: &[u8]) -> Option<usize> {
    let (rest, blocks) = bytes.as_rchunks::<32>();
    let has_line_feed =
        |block: &[u8; 32]| block.iter().fold(false, |any, byte| any | (*byte == b'\n'));
    let block = blocks.iter().rposition(has_line_feed);
    let end = rest.len() + block.map_or(0, |at| (at + 1) * 32);
    bytes[..end].iter().rposition(|byte| *byte == b'\n')
}

/// Parses the head of a response.
#[must_use]
pub fn parse_response(bytes: &[u8]) -> Head<Response<'_>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Head::Partial,
        Err(_) => return Head::Invalid,
    };
    let Some(status) = response.code else {
        return Head::Invalid;
    };
    let fields = response.headers;
    Head::Complete(Response {
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

/// The value of the first field called `name`, in any case.
fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let field = fields
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name));
    field.map(|field| field.value)
}

fn body(fields: &[httparse::Header<'_>]) -> Option<Body> {
    if field(fields, "transfer-encoding").is_some() {
        return Some(Body::Unknown);
    }
    let length = str::from_utf8(field(fields, "content-length")?).ok()?;
    Some(length.trim().parse().map_or(Body::Unknown, Body::Length))
}
