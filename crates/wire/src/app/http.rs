//! Heads of HTTP/1 messages (RFC 9112), read by `httparse`.

use core::mem::MaybeUninit;
use core::num::NonZeroU8;
use httparse::Status;

/// The most header fields of a message that are read.
const FIELDS_MAX: usize = 96;

/// The methods that are known, by their first byte: those of IANA's HTTP Method Registry but `PRI` and
/// `*`, which begin no request of HTTP/1, and those of WebDAV's older servers, of Outlook, of caches and
/// of Windows' transfers.
const fn methods(first: u8) -> &'static [&'static str] {
    match first {
        b'A' => &["ACL"],
        b'B' => &[
            "BASELINE-CONTROL",
            "BIND",
            "BITS_POST",
            "BPROPFIND",
            "BPROPPATCH",
            "BMOVE",
            "BDELETE",
            "BCOPY",
        ],
        b'C' => &["CONNECT", "COPY", "CHECKOUT", "CHECKIN", "CCM_POST"],
        b'D' => &["DELETE"],
        b'G' => &["GET"],
        b'H' => &["HEAD"],
        b'L' => &["LOCK", "LABEL", "LINK"],
        b'M' => &[
            "MKCOL",
            "MOVE",
            "MERGE",
            "MKACTIVITY",
            "MKCALENDAR",
            "MKREDIRECTREF",
            "MKWORKSPACE",
        ],
        b'N' => &["NOTIFY"],
        b'O' => &["OPTIONS", "ORDERPATCH"],
        b'P' => &[
            "POST",
            "PUT",
            "PATCH",
            "PROPFIND",
            "PROPPATCH",
            "POLL",
            "PURGE",
        ],
        b'Q' => &["QUERY"],
        b'R' => &["REPORT", "REBIND", "RPC_IN_DATA", "RPC_OUT_DATA"],
        b'S' => &["SEARCH", "SUBSCRIBE"],
        b'T' => &["TRACE"],
        b'U' => &[
            "UNLOCK",
            "UNSUBSCRIBE",
            "UNBIND",
            "UNCHECKOUT",
            "UNLINK",
            "UPDATE",
            "UPDATEREDIRECTREF",
        ],
        b'V' => &["VERSION-CONTROL"],
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
        let is = |method: &&str| {
            let rest = bytes.strip_prefix(method.as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b' '))
        };
        let place = methods(first).iter().position(is)?;
        // All first bytes are capital letters: 5 bits tell them apart.
        NonZeroU8::new(first << 3 | place as u8).map(Self)
    }

    /// Its name; empty of [`OTHER`](Self::OTHER).
    #[must_use]
    pub fn name(self) -> &'static str {
        let methods = methods(b'@' | self.0.get() >> 3);
        let place = usize::from(self.0.get() & 7);
        methods.get(place).copied().unwrap_or_default()
    }
}

/// What begins a response.
const RESPONSE: &[u8] = b"HTTP/1.";

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
#[must_use]
pub fn begins(bytes: &[u8]) -> Begins {
    if bytes.starts_with(RESPONSE) {
        return Begins::Response;
    }
    if bytes.is_empty() {
        return Begins::Perhaps;
    }
    let request = after_empty_lines(bytes);
    let Some(&first) = request.first() else {
        return Begins::No;
    };
    let may_be = |method: &&str| method.as_bytes().starts_with(request);
    if Method::of(request).is_some() {
        Begins::Request
    } else if RESPONSE.starts_with(bytes) || methods(first).iter().any(may_be) {
        Begins::Perhaps
    } else {
        Begins::No
    }
}

/// The same of bytes that may also begin with a method that is not known.
#[must_use]
pub fn begins_by_line(bytes: &[u8]) -> Begins {
    match begins(bytes) {
        Begins::No if is_request(after_empty_lines(bytes)) => Begins::Request,
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
    /// Target.
    pub target: &'a str,
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
    let host = field(request.headers, "host").or_else(|| {
        let (_, rest) = target.split_once("://")?;
        let authority = rest.split('/').next()?;
        Some(authority.as_bytes())
    });
    Head::Whole(Request {
        method,
        method_name,
        target,
        host,
        user_agent: field(request.headers, "user-agent"),
        // A request without a length has no body (RFC 9112 section 6.3).
        body: body(request.headers).unwrap_or(Body::Length(0)),
        length,
    })
}

/// The lines of a head that are there whole, closed as if no more followed, or, where its fields
/// are not as they should be, its first line alone; in `buffer`.
pub fn close_head(bytes: &[u8], first_line: bool, buffer: &mut Vec<u8>) {
    let bytes = after_empty_lines(bytes);
    let is_feed = |byte: &u8| *byte == b'\n';
    let feed = if first_line {
        bytes.iter().position(is_feed)
    } else {
        bytes.iter().rposition(is_feed)
    };
    buffer.clear();
    buffer.extend_from_slice(&bytes[..feed.map_or(0, |at| at + 1)]);
    buffer.extend_from_slice(b"\r\n");
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
    // RFC 9112 section 6.3: these have no body whatever their fields tell.
    let body = if status < 200 || status == 204 || status == 304 {
        Body::Length(0)
    } else {
        body(response.headers).unwrap_or(Body::Unknown)
    };
    Head::Whole(Response {
        status,
        content_type: field(response.headers, "content-type"),
        body,
        length,
    })
}

fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
}

fn body(fields: &[httparse::Header<'_>]) -> Option<Body> {
    if field(fields, "transfer-encoding").is_some() {
        return Some(Body::Unknown);
    }
    let length = core::str::from_utf8(field(fields, "content-length")?).ok()?;
    Some(length.trim().parse().map_or(Body::Unknown, Body::Length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heads_are_read() {
        let bytes =
            b"POST /a HTTP/1.1\r\nHOST: b.c\r\nUser-Agent: d\r\nContent-Length: 3\r\n\r\nxyz";
        let Head::Whole(head) = request(bytes) else {
            panic!("no head");
        };
        assert_eq!((head.method.name(), head.target), ("POST", "/a"));
        assert_eq!(head.host, Some(&b"b.c"[..]));
        assert_eq!(head.user_agent, Some(&b"d"[..]));
        assert_eq!(head.body, Body::Length(3));
        assert_eq!(&bytes[head.length..], b"xyz");
        assert_eq!(request(&bytes[..40]), Head::Partial);
        let mut closed = Vec::new();
        close_head(&bytes[..40], false, &mut closed);
        assert!(matches!(request(&closed), Head::Whole(head) if head.host == Some(b"b.c")));
        close_head(
            b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            true,
            &mut closed,
        );
        assert!(matches!(request(&closed), Head::Whole(head) if head.target == "/"));
        close_head(b"GET", false, &mut closed);
        assert_eq!(request(&closed), Head::Partial);
        let Head::Whole(head) = request(b"GET http://h:1/x HTTP/1.0\r\n\r\n") else {
            panic!("no head");
        };
        assert_eq!(head.host, Some(&b"h:1"[..]));
        assert_eq!(request(b"GET /\r\n\r\n"), Head::Bad);
        let bytes =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
        let Head::Whole(head) = response(bytes) else {
            panic!("no head");
        };
        assert_eq!((head.status, head.body), (200, Body::Unknown));
        assert_eq!(head.content_type, Some(&b"text/html"[..]));
        let Head::Whole(head) = response(b"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n") else {
            panic!("no head");
        };
        assert_eq!(head.body, Body::Length(0));
    }

    #[test]
    fn a_beginning_is_told() {
        assert_eq!(begins(b"GET / "), Begins::Request);
        assert_eq!(begins(b"HTTP/1.0 2"), Begins::Response);
        assert_eq!(begins(b"HT"), Begins::Perhaps);
        assert_eq!(begins(b"GETS"), Begins::No);
        assert_eq!(begins(&[0x16, 3]), Begins::No);
        for first in 0..=255 {
            assert!(methods(first).len() <= 8, "{first}");
            for method in methods(first) {
                let request = format!("{method} / HTTP/1.1\r\n\r\n");
                assert_eq!(begins(method.as_bytes()), Begins::Perhaps);
                assert_eq!(begins(request.as_bytes()), Begins::Request);
                let Head::Whole(head) = super::request(request.as_bytes()) else {
                    panic!("{method}");
                };
                assert_eq!(head.method.name(), *method);
                assert_eq!(head.method_name, *method);
            }
        }
    }

    #[test]
    fn a_method_is_any_token() {
        for method in ["BREW", "x-my.Method", "A"] {
            let bytes = format!("{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(
                begins_by_line(bytes.as_bytes()),
                Begins::Request,
                "{method}"
            );
            assert_eq!(begins(bytes.as_bytes()), Begins::No, "{method}");
            let Head::Whole(head) = request(bytes.as_bytes()) else {
                panic!("{method}");
            };
            assert_eq!((head.method, head.method_name), (Method::OTHER, method));
            assert_eq!((head.method.name(), head.target), ("", "/x"));
            // By the whole of the first line alone.
            let version = method.len() + " /x HTTP/1.".len();
            assert_eq!(
                begins_by_line(&bytes.as_bytes()[..version]),
                Begins::Request
            );
            assert_eq!(begins_by_line(&bytes.as_bytes()[..version - 1]), Begins::No);
        }
        let long = "M".repeat(METHOD_MAX);
        let far = "a".repeat(TARGET_MAX);
        for (line, begun) in [
            (format!("{long} / HTTP/1.1\r\n\r\n"), Begins::Request),
            (format!("{long}M / HTTP/1.1\r\n\r\n"), Begins::No),
            (format!("BREW {far} HTTP/1.1\r\n\r\n"), Begins::Request),
            (format!("BREW {far}a HTTP/1.1\r\n\r\n"), Begins::No),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), Begins::No),
            ("DESCRIBE rtsp://a/ RTSP/1.0\r\n\r\n".into(), Begins::No),
            ("EHLO a\r\n".into(), Begins::No),
            ("BREW  HTTP/1.1\r\n\r\n".into(), Begins::No),
            (" / HTTP/1.1\r\n\r\n".into(), Begins::No),
            ("1A / HTTP/1.1\r\n\r\n".into(), Begins::No),
        ] {
            assert_eq!(begins_by_line(line.as_bytes()), begun, "{line}");
            let is_head = matches!(request(line.as_bytes()), Head::Whole(_));
            assert!(is_head || begun == Begins::No, "{line}");
        }
        let bytes = format!("{long}M / HTTP/1.1\r\n\r\n");
        assert_eq!(request(bytes.as_bytes()), Head::Bad);
    }

    #[test]
    fn empty_lines_before_a_request_are_ignored() {
        for lines in ["\r\n", "\r\n\r\n"] {
            for method in ["GET", "BREW"] {
                let bytes = format!("{lines}{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
                assert_eq!(begins_by_line(bytes.as_bytes()), Begins::Request);
                let Head::Whole(head) = request(bytes.as_bytes()) else {
                    panic!("no head");
                };
                assert_eq!((head.method_name, head.length), (method, bytes.len()));
                let mut closed = Vec::new();
                close_head(bytes.as_bytes(), true, &mut closed);
                assert!(matches!(request(&closed), Head::Whole(head) if head.target == "/x"));
            }
            assert_eq!(begins_by_line(lines.as_bytes()), Begins::No);
            assert_eq!(
                begins_by_line(format!("{lines}GE").as_bytes()),
                Begins::Perhaps
            );
            assert_eq!(
                begins(format!("{lines}HTTP/1.1 200 OK").as_bytes()),
                Begins::No
            );
        }
        assert_eq!(begins_by_line(b"\r\n\r\n\r\nGET / HTTP/1.1"), Begins::No);
    }

    /// Of payload that is no text, so little is looked at further.
    #[test]
    fn random_bytes_seldom_look_like_a_method() {
        let mut state = 1_u64;
        let looked_at = (0..100_000)
            .filter(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                may_begin(&state.to_be_bytes())
            })
            .count();
        assert!(looked_at < 1000, "{looked_at}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in "(\r\n){0,3}[GETPOSHTTP/1. \r\n:a0]{0,80}") {
            let bytes = bytes.as_bytes();
            let _ = (request(bytes), response(bytes));
            for cut in 1..=bytes.len() {
                // What is passed over by its first bytes begins nothing.
                prop_assert!(may_begin(&bytes[..cut]) || begins_by_line(bytes) == Begins::No);
            }
        }
    }
}
