//! HTTP/1 messages (RFC 9112): start line and header fields, together called the head.

#[cfg(test)]
mod tests;

use core::num::NonZeroU8;
use wire::work;

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

/// Whether bytes start with a request line, with any method. `None` if they may, once more bytes come;
/// the first `seen` of them were judged before.
fn is_request_line(bytes: &[u8], seen: usize) -> Option<bool> {
    if !may_start_with_token(bytes) {
        return Some(false);
    }
    let is_method_end = |byte: &u8| !is_token(*byte);
    let Some(at) = bytes.iter().take(METHOD_MAX + 1).position(is_method_end) else {
        return (bytes.len() > METHOD_MAX).then_some(false);
    };
    let Some(rest) = bytes[at..].strip_prefix(b" ") else {
        return Some(false);
    };
    let is_target_end = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    // Of a target that ended, the version may have been incomplete.
    let from = seen.saturating_sub(at + 1 + VERSION.len()).min(rest.len());
    let Some(end) = rest[from..].iter().position(is_target_end) else {
        work::count(rest.len() - from);
        return (at == 0 || rest.len() > TARGET_MAX).then_some(false);
    };
    work::count(end);
    let end = from + end;
    let version = &rest[end..rest.len().min(end + VERSION.len())];
    if at == 0 || end == 0 || end > TARGET_MAX || !VERSION.starts_with(version) {
        return Some(false);
    }
    (version.len() == VERSION.len()).then_some(true)
}

/// The end of a request line, up to the minor version.
const VERSION: &[u8] = b" HTTP/1.";

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

/// Detects a response, or a request with any method. The first `seen` bytes were given before.
#[inline]
#[must_use]
pub fn detect_by_line(bytes: &[u8], seen: usize) -> Detected {
    match detect(bytes) {
        // `may_start` is a cheap check that most payloads fail.
        Detected::No if may_start(bytes) => detect_unknown_method(bytes, seen),
        detected => detected,
    }
}

fn detect_unknown_method(bytes: &[u8], seen: usize) -> Detected {
    let request = skip_empty_lines(bytes);
    match is_request_line(request, seen.saturating_sub(bytes.len() - request.len())) {
        Some(true) if is_end_of_known_method(request) => Detected::No,
        Some(true) => Detected::Request,
        Some(false) => Detected::No,
        None => Detected::NeedMore,
    }
}

/// Whether a method is a known one without its first letters, which were not captured.
fn is_end_of_known_method(request: &[u8]) -> bool {
    let method = request.split(|byte| *byte == b' ').next();
    let method = method.unwrap_or_default();
    (b'A'..=b'Z')
        .flat_map(known_methods)
        .any(|known| known.name.as_bytes().ends_with(method))
}

/// Head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Name of the method, also if it is unknown.
    pub method_name: &'a str,
    /// Target. It may be any bytes but line ends.
    pub target: &'a [u8],
    /// The fields.
    pub fields: Fields<'a>,
}

impl<'a> Request<'a> {
    /// The host: that of the Host field, or of a target in absolute form if there is none.
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        let field = self.fields.host.filter(|host| !host.is_empty());
        field.or_else(|| authority(self.target))
    }

    /// Reads a request line.
    fn read(line: &'a [u8]) -> Option<Self> {
        let method_end = line.iter().position(|byte| !is_token(*byte))?;
        let (method_name, rest) = line.split_at(method_end);
        let method = match Method::parse(line) {
            Some(method) => method,
            None if (1..=METHOD_MAX).contains(&method_end) => Method::OTHER,
            None => return None,
        };
        // The target of a careless client may have spaces, so the version is looked for at the end.
        let rest = rest.strip_prefix(b" ")?.trim_ascii_end();
        let (target, version) = rest.split_at(rest.iter().rposition(|byte| *byte == b' ')?);
        let minor = version.strip_prefix(VERSION)?;
        let target = target.trim_ascii();
        let is_request =
            !minor.is_empty() && minor.iter().all(u8::is_ascii_digit) && !target.is_empty();
        is_request.then_some(Self {
            method,
            method_name: core::str::from_utf8(method_name).ok()?,
            target,
            fields: Fields::default(),
        })
    }
}

/// Head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// The fields.
    pub fields: Fields<'a>,
}

impl Response<'_> {
    /// Reads a status line.
    fn read(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(RESPONSE)?;
        let minor = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let code = rest[minor..].strip_prefix(b" ")?.trim_ascii_start();
        let (digits, reason) = code.split_first_chunk::<3>()?;
        let is_status = minor > 0
            && digits.iter().all(u8::is_ascii_digit)
            && reason.first().is_none_or(|byte| *byte == b' ');
        let status = |sum, digit: &u8| sum * 10 + u16::from(digit - b'0');
        is_status.then(|| Self {
            status: digits.iter().fold(0, status),
            fields: Fields::default(),
        })
    }
}

/// Whether bytes start like a response: with a version and a status code. It reads a few bytes only.
#[must_use]
pub fn starts_response(bytes: &[u8]) -> Detected {
    let start = &bytes[..bytes.len().min(RESPONSE.len())];
    if !RESPONSE.starts_with(start) {
        return Detected::No;
    }
    let line = &bytes[..bytes.len().min(STATUS_MAX)];
    let text = |byte: &u8| matches!(byte, b'0'..=b'9' | b' ');
    let line = line.split(|byte| b"\r\n".contains(byte)).next();
    let is_open = bytes.len() < STATUS_MAX && bytes[start.len()..].iter().all(text);
    match Response::read(line.unwrap_or_default()) {
        // Another digit may follow.
        Some(_) if !is_open || !bytes.last().is_some_and(u8::is_ascii_digit) => Detected::Response,
        _ if is_open => Detected::NeedMore,
        _ => Detected::No,
    }
}

/// Up to this number of bytes, a status line is judged. More spaces or digits are in no valid one.
const STATUS_MAX: usize = 32;

/// The fields of a head that are of interest. Of several of a name, the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Host.
    pub host: Option<&'a [u8]>,
    /// User-Agent.
    pub user_agent: Option<&'a [u8]>,
    /// Content-Type.
    pub content_type: Option<&'a [u8]>,
    /// How the fields give the length of the body.
    pub length: Length,
}

/// How the fields of a head give the length of its body (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// Not at all.
    #[default]
    None,
    /// This number of bytes.
    Bytes(u64),
    /// By its chunks.
    Chunked,
    /// In an invalid way, or by the end of the connection.
    Unknown,
}

impl<'a> Fields<'a> {
    /// Adds a line. Lines that are no field are skipped.
    fn add(&mut self, line: &'a [u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let name = line[..colon].trim_ascii_end();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let value = || line[colon + 1..].trim_ascii();
        match name.len() {
            4 if is("host") => _ = self.host.get_or_insert_with(value),
            10 if is("user-agent") => _ = self.user_agent.get_or_insert_with(value),
            12 if is("content-type") => _ = self.content_type.get_or_insert_with(value),
            14 if is("content-length") => self.add_length(value()),
            17 if is("transfer-encoding") => {
                let last = value().rsplit(|byte| *byte == b',').next();
                let last = last.unwrap_or_default().trim_ascii();
                self.length = match last.eq_ignore_ascii_case(b"chunked") {
                    true => Length::Chunked,
                    false => Length::Unknown,
                };
            }
            _ => {}
        }
    }

    /// Adds a Content-Length. Transfer-Encoding overrides it, and all of them must be equal.
    fn add_length(&mut self, value: &[u8]) {
        for number in value.split(|byte| *byte == b',') {
            let length = decimal(number.trim_ascii()).map_or(Length::Unknown, Length::Bytes);
            self.length = match self.length {
                Length::None => length,
                Length::Bytes(_) if self.length != length => Length::Unknown,
                earlier => earlier,
            };
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digits = Some(digits).filter(|it| it.iter().all(u8::is_ascii_digit))?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// A head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<T> {
    /// It is complete, and this long in bytes.
    Complete(T, usize),
    /// Its end is missing.
    Partial(T),
    /// The end of its first line is missing.
    PartialLine,
    /// The bytes do not start with such a head.
    Invalid,
}

/// Parses the head of a request after empty lines.
#[must_use]
pub fn parse_request(bytes: &[u8]) -> Head<Request<'_>> {
    let start = bytes.len() - skip_empty_lines(bytes).len();
    parse_head(bytes, start, Request::read, |it| &mut it.fields)
}

/// Parses the head of a response.
#[must_use]
pub fn parse_response(bytes: &[u8]) -> Head<Response<'_>> {
    parse_head(bytes, 0, Response::read, |it| &mut it.fields)
}

fn parse_head<'a, T>(
    bytes: &'a [u8],
    start: usize,
    read: impl FnOnce(&'a [u8]) -> Option<T>,
    fields: impl FnOnce(&mut T) -> &mut Fields<'a>,
) -> Head<T> {
    let Some(mut at) = line_end(bytes, start) else {
        return Head::PartialLine;
    };
    let Some(mut head) = read(without_line_end(&bytes[start..at])) else {
        return Head::Invalid;
    };
    let list = fields(&mut head);
    while let Some(end) = line_end(bytes, at) {
        match without_line_end(&bytes[at..end]) {
            [] => return Head::Complete(head, end),
            // The value of the field before continues (RFC 9112 section 5.2).
            [b' ' | b'\t', ..] => {}
            line => list.add(line),
        }
        at = end;
    }
    Head::Partial(head)
}

/// The host of a target in absolute form (RFC 9112 section 3.2.2): one that begins with a scheme.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme = target.iter().take_while(|byte| is_scheme(byte)).count();
    let rest = target[scheme..].strip_prefix(b"://")?;
    target.first().filter(|byte| byte.is_ascii_alphabetic())?;
    let authority = rest.split(|byte| b"/?#".contains(byte)).next()?;
    // Behind the user.
    authority.rsplit(|byte| *byte == b'@').next()
}

/// Position after the first line feed at or after `from`.
#[must_use]
pub fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let at = memchr::memchr(b'\n', rest);
    work::count(at.unwrap_or(rest.len()));
    at.map(|at| from + at + 1)
}

/// A line without its end, which is a line feed, or a carriage return and a line feed.
#[must_use]
pub fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a head ends after the first `seen` bytes, in which it did not.
#[must_use]
pub fn ends_after(bytes: &[u8], seen: usize) -> bool {
    let mut at = seen.saturating_sub(2);
    while let Some(end) = line_end(bytes, at) {
        if matches!(bytes[end..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
        at = end;
    }
    false
}

/// Whether a request line may continue after these bytes: they are text without a line end. The first
/// `seen` of them are.
#[must_use]
pub fn is_partial_line(bytes: &[u8], seen: usize) -> bool {
    let line = skip_empty_lines(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let seen = seen.saturating_sub(METHOD_MAX).min(line.len());
    work::count(line.len() - seen);
    line[seen..]
        .iter()
        .all(|byte| *byte >= b' ' && *byte != 0x7f)
}

/// Size of the chunk that follows a line without its end (RFC 9112 section 7.1).
#[must_use]
pub fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(digits, 16).ok()
}
