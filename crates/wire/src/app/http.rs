//! Heads of HTTP/1 messages (RFC 9112), read by `httparse`.

use core::mem::MaybeUninit;
use core::num::NonZeroU8;
use httparse::Status;

/// The most header fields of a message that are read.
const FIELDS_MAX: usize = 96;

/// The methods that begin a request (IANA, and those of WebDAV's older servers and of Outlook), by
/// their first byte.
const fn methods(first: u8) -> &'static [&'static str] {
    match first {
        b'B' => &["BPROPFIND", "BPROPPATCH", "BMOVE", "BDELETE", "BCOPY"],
        b'C' => &["CONNECT", "COPY", "CHECKOUT"],
        b'D' => &["DELETE"],
        b'G' => &["GET"],
        b'H' => &["HEAD"],
        b'L' => &["LOCK"],
        b'M' => &["MKCOL", "MOVE", "MERGE", "MKACTIVITY", "MKCALENDAR"],
        b'N' => &["NOTIFY"],
        b'O' => &["OPTIONS"],
        b'P' => &["POST", "PUT", "PATCH", "PROPFIND", "PROPPATCH", "POLL"],
        b'R' => &["REPORT", "RPC_IN_DATA", "RPC_OUT_DATA"],
        b'S' => &["SEARCH", "SUBSCRIBE"],
        b'T' => &["TRACE"],
        b'U' => &["UNLOCK", "UNSUBSCRIBE"],
        _ => &[],
    }
}

/// A method that begins a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(NonZeroU8);

impl Method {
    /// The method that bytes begin with, a space behind it.
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

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let methods = methods(b'@' | self.0.get() >> 3);
        let place = usize::from(self.0.get() & 7);
        methods.get(place).copied().unwrap_or_default()
    }
}

/// What begins a response.
const RESPONSE: &[u8] = b"HTTP/1.";

/// Whether a message may begin with this byte.
#[inline]
#[must_use]
pub const fn may_begin(first: u8) -> bool {
    // A method begins as a response does.
    !methods(first).is_empty()
}

/// What the beginning of bytes can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// A request, by its method.
    Request,
    /// A response, by its version.
    Response,
    /// Too few bytes to tell, all of them as one of the two has them.
    Perhaps,
    /// Neither.
    No,
}

/// Tells what bytes begin with.
#[must_use]
pub fn begins(bytes: &[u8]) -> Begins {
    if bytes.starts_with(RESPONSE) {
        return Begins::Response;
    }
    let Some(first) = bytes.first() else {
        return Begins::Perhaps;
    };
    let may_be = |method: &&str| method.as_bytes().starts_with(bytes);
    if Method::of(bytes).is_some() {
        Begins::Request
    } else if RESPONSE.starts_with(bytes) || methods(*first).iter().any(may_be) {
        Begins::Perhaps
    } else {
        Begins::No
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

/// Reads the head of a request that begins with its method.
#[must_use]
pub fn request(bytes: &[u8]) -> Head<Request<'_>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Head::Partial,
        Err(_) => return Head::Bad,
    };
    let (Some(method), Some(target)) = (Method::of(bytes), request.path) else {
        return Head::Bad;
    };
    let host = field(request.headers, "host").or_else(|| {
        let (_, rest) = target.split_once("://")?;
        let authority = rest.split('/').next()?;
        Some(authority.as_bytes())
    });
    Head::Whole(Request {
        method,
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
            assert_eq!(may_begin(first), begins(&[first]) != Begins::No, "{first}");
            for method in methods(first) {
                let request = format!("{method} / HTTP/1.1\r\n\r\n");
                assert_eq!(begins(method.as_bytes()), Begins::Perhaps);
                assert_eq!(begins(request.as_bytes()), Begins::Request);
                let Head::Whole(head) = super::request(request.as_bytes()) else {
                    panic!("{method}");
                };
                assert_eq!(head.method.name(), *method);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in "[GETPOSHTTP/1. \r\n:a0]{0,80}") {
            let _ = (begins(bytes.as_bytes()), request(bytes.as_bytes()), response(bytes.as_bytes()));
        }
    }
}
