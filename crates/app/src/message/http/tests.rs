use super::*;
use proptest::prelude::*;

/// A head that must be complete, and its length.
fn complete<T>(head: Head<T>) -> (T, usize) {
    match head {
        Head::Complete(head, length) => (head, length),
        _ => panic!("no complete head"),
    }
}

#[test]
fn reads_heads() {
    let bytes = b"POST /a HTTP/1.1\r\nHOST: b.c\r\nUser-Agent: d\r\nContent-Length: 3\r\n\r\nxyz";
    let (head, length) = complete(parse_request(bytes));
    assert_eq!((head.method.name(), head.target), ("POST", &b"/a"[..]));
    assert_eq!(head.host(), Some(&b"b.c"[..]));
    assert_eq!(head.fields.user_agent, Some(&b"d"[..]));
    assert_eq!(head.fields.length, Length::Bytes(3));
    assert_eq!(&bytes[length..], b"xyz");
    let Head::Partial(head) = parse_request(&bytes[..40]) else {
        panic!("no part of a head");
    };
    assert_eq!(head.host(), Some(&b"b.c"[..]));
    assert_eq!(parse_request(b"GET"), Head::PartialLine);
    assert_eq!(parse_request(b"GET /\r\n\r\n"), Head::Invalid);
    let folded = b"GET / HTTP/1.1\nA: b\n Host: folded\nno field\nHost: h\n\n";
    assert_eq!(complete(parse_request(folded)).0.host(), Some(&b"h"[..]));
    let bytes = b"HTTP/1.9 200\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (head, _) = complete(parse_response(bytes));
    assert_eq!((head.status, head.fields.length), (200, Length::Chunked));
    assert_eq!(head.fields.content_type, Some(&b"text/html"[..]));
}

/// A response is known by its start, and then stays one whatever follows.
#[test]
fn status_line_is_known_by_its_start() {
    for (line, is_response) in [
        ("HTTP/1.1 200 OK", true),
        ("HTTP/1.1 200", true),
        ("HTTP/1.10 404 200", true),
        ("HTTP/1. 200 OK", false),
        ("HTTP/1.1 20 OK", false),
        ("HTTP/1.1 2000 OK", false),
        ("HTTP/1.1 2x0 OK", false),
        ("HTTP/2.1 200 OK", false),
        ("HTTP/1.1", false),
    ] {
        let bytes = format!("{line}\r\n\r\n");
        let is_complete = matches!(parse_response(bytes.as_bytes()), Head::Complete(..));
        assert_eq!(is_complete, is_response, "{line}");
        for cut in 1..=bytes.len() {
            match starts_response(&bytes.as_bytes()[..cut]) {
                Detected::NeedMore => assert!(cut < bytes.len()),
                found => assert_eq!(found == Detected::Response, is_response, "{line} {cut}"),
            }
        }
    }
}

#[test]
fn host_of_a_target_is_behind_its_scheme() {
    let host = |target: &str, fields: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
        let (head, _) = complete(parse_request(bytes.as_bytes()));
        head.host()
            .map(|host| String::from_utf8_lossy(host).into_owned())
    };
    for (target, expected) in [
        ("http://h:1/x", Some("h:1")),
        ("HTTPS://h", Some("h")),
        ("coap+ws://h?q", Some("h")),
        ("http://user:pass@h#f", Some("h")),
        ("http://h/x@y", Some("h")),
        ("/x?http://evil", None),
        ("/http://evil", None),
        ("?://evil", None),
        ("://evil", None),
        ("1a://evil", None),
        ("/a http://evil", None),
        ("*", None),
    ] {
        assert_eq!(host(target, "").as_deref(), expected, "{target}");
        assert_eq!(
            host(target, "Host: g\r\n").as_deref(),
            Some("g"),
            "{target}"
        );
        assert_eq!(host(target, "Host:\r\n").as_deref(), expected, "{target}");
    }
}

#[test]
fn length_of_a_body_must_be_certain() {
    let length = |fields: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        complete(parse_response(bytes.as_bytes())).0.fields.length
    };
    for (fields, expected) in [
        ("", Length::None),
        ("Content-Length: 5\r\n", Length::Bytes(5)),
        ("Content-Length : 5 \r\n", Length::Bytes(5)),
        (
            "content-length: 5, 5\r\nContent-Length: 5\r\n",
            Length::Bytes(5),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            Length::Unknown,
        ),
        ("Content-Length: 5, 6\r\n", Length::Unknown),
        ("Content-Length: +5\r\n", Length::Unknown),
        ("Content-Length: -5\r\n", Length::Unknown),
        ("Content-Length: \r\n", Length::Unknown),
        ("Content-Length: 99999999999999999999\r\n", Length::Unknown),
        (
            "Content-Length: 5\r\nTransfer-Encoding: gzip, Chunked\r\n",
            Length::Chunked,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            Length::Chunked,
        ),
        (
            "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n",
            Length::Unknown,
        ),
        ("Transfer-Encoding: chunked, gzip\r\n", Length::Unknown),
    ] {
        assert_eq!(length(fields), expected, "{fields}");
    }
    for (line, size) in [
        (&b"1aF"[..], Some(0x1af)),
        (b"0;name=value", Some(0)),
        (b"5 ", Some(5)),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b"g", None),
        (b"11111111111111111", None),
    ] {
        assert_eq!(chunk_size(line), size);
    }
}

#[test]
fn detects_start_of_message() {
    assert_eq!(detect(b"GET / "), Detected::Request);
    assert_eq!(detect(b"HTTP/1.0 2"), Detected::Response);
    assert_eq!(detect(b"HT"), Detected::NeedMore);
    assert_eq!(detect(b"GETS"), Detected::No);
    assert_eq!(detect(&[0x16, 3]), Detected::No);
    for first in 0..=255 {
        assert!(known_methods(first).len() <= 8, "{first}");
        for KnownMethod { name: method, .. } in known_methods(first) {
            let request = format!("{method} / HTTP/1.1\r\n\r\n");
            assert_eq!(detect(method.as_bytes()), Detected::NeedMore);
            assert_eq!(detect(request.as_bytes()), Detected::Request);
            assert!(may_start_known(method.as_bytes()));
            let (head, _) = complete(parse_request(request.as_bytes()));
            assert_eq!(head.method.name(), *method);
            assert_eq!(head.method_name, *method);
        }
    }
}

#[test]
fn accepts_any_token_as_method() {
    for method in ["BREW", "x-my.Method", "get"] {
        let bytes = format!("{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
        let (head, _) = complete(parse_request(bytes.as_bytes()));
        assert_eq!((head.method, head.method_name), (Method::OTHER, method));
        assert_eq!((head.method.name(), head.target), ("", &b"/x"[..]));
        assert_eq!(detect(bytes.as_bytes()), Detected::No, "{method}");
        // Only a complete request line is enough.
        let version = method.len() + " /x HTTP/1.".len();
        for cut in 1..=bytes.len() {
            let expected = match cut < version {
                true => Detected::NeedMore,
                false => Detected::Request,
            };
            let start = &bytes.as_bytes()[..cut];
            for seen in [0, cut - 1] {
                assert_eq!(
                    detect_by_line(start, seen.min(version - 1)),
                    expected,
                    "{start:?}"
                );
            }
        }
    }
    let long = "M".repeat(METHOD_MAX);
    let far = "a".repeat(TARGET_MAX);
    for (line, expected) in [
        (format!("{long} / HTTP/1.1\r\n\r\n"), Detected::Request),
        (format!("{long}M / HTTP/1.1\r\n\r\n"), Detected::No),
        (format!("BREW {far} HTTP/1.1\r\n\r\n"), Detected::Request),
        (format!("BREW {far}a HTTP/1.1\r\n\r\n"), Detected::No),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), Detected::No),
        ("DESCRIBE rtsp://a/ RTSP/1.0\r\n\r\n".into(), Detected::No),
        ("EHLO a\r\n".into(), Detected::No),
        ("BREW  HTTP/1.1\r\n\r\n".into(), Detected::No),
        (" / HTTP/1.1\r\n\r\n".into(), Detected::No),
        ("1A / HTTP/1.1\r\n\r\n".into(), Detected::No),
        // The first letters of a known method are missing.
        ("ET / HTTP/1.1\r\n\r\n".into(), Detected::No),
        ("T / HTTP/1.1\r\n\r\n".into(), Detected::No),
        ("FIND / HTTP/1.1\r\n\r\n".into(), Detected::No),
    ] {
        assert_eq!(detect_by_line(line.as_bytes(), 0), expected, "{line}");
        let is_head = matches!(parse_request(line.as_bytes()), Head::Complete(..));
        assert!(is_head || expected == Detected::No, "{line}");
    }
    let bytes = format!("{long}M / HTTP/1.1\r\n\r\n");
    assert_eq!(parse_request(bytes.as_bytes()), Head::Invalid);
}

#[test]
fn ignores_empty_lines_before_a_request() {
    for lines in ["\r\n", "\r\n\r\n"] {
        for method in ["GET", "BREW"] {
            let bytes = format!("{lines}{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(detect_by_line(bytes.as_bytes(), 0), Detected::Request);
            let (head, length) = complete(parse_request(bytes.as_bytes()));
            assert_eq!((head.method_name, length), (method, bytes.len()));
        }
        assert_eq!(
            detect_by_line(format!("{lines}GE").as_bytes(), 0),
            Detected::NeedMore
        );
        assert_eq!(
            detect(format!("{lines}HTTP/1.1 200 OK").as_bytes()),
            Detected::No
        );
    }
    assert_eq!(
        detect_by_line(b"\r\n\r\n\r\nGET / HTTP/1.1", 0),
        Detected::No
    );
}

#[test]
fn reads_request_line_with_any_target() {
    for (line, method, target) in [
        (
            &b"GET /\xe9t\xe9 HTTP/1.1\r\n"[..],
            "GET",
            &b"/\xe9t\xe9"[..],
        ),
        (b"\r\nGET  /a b.html HTTP/1.0\n", "GET", b"/a b.html"),
        (b"POST / HTTP/1.1 HTTP/1.1 \r\nA: b", "POST", b"/ HTTP/1.1"),
        (b"brew /\xff HTTP/1.12\r\n", "brew", b"/\xff"),
    ] {
        let Head::Partial(head) = parse_request(line) else {
            panic!("no request line");
        };
        assert_eq!((head.method_name, head.target), (method, target));
        let feed = line.iter().rposition(|byte| *byte == b'\n').unwrap();
        assert_eq!(parse_request(&line[..feed]), Head::PartialLine);
        assert!(is_partial_line(&line[..feed], 0));
    }
    for line in [
        "GET /\r\n",
        "GET HTTP/1.1\r\n",
        "GET  HTTP/1.1\r\n",
        "GET /HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "GET / HTTP/1.x\r\n",
        "GET / HTTP/1.\r\n",
        " / HTTP/1.1\r\n",
        "HTTP/1.1\r\n",
    ] {
        assert_eq!(parse_request(line.as_bytes()), Head::Invalid, "{line}");
    }
    assert!(!is_partial_line(b"GET \0", 0));
}

/// For most binary payloads the first check is enough.
#[test]
fn random_bytes_rarely_look_like_a_method() {
    let mut state = 1_u64;
    let candidates = (0..100_000)
        .filter(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            may_start(&state.to_be_bytes())
        })
        .count();
    assert!(candidates < 1000, "{candidates}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in "(\r\n){0,3}[GETPOSHTTP/1. \r\n:a0]{0,80}") {
        let bytes = bytes.as_bytes();
        let _ = (parse_request(bytes), parse_response(bytes), starts_response(bytes));
        let _ = (chunk_size(bytes), is_partial_line(bytes, bytes.len() / 2));
        let has_end = ends_after(bytes, 0);
        for cut in 1..=bytes.len() {
            // What the first bytes rule out starts no message.
            let is_request = detect_by_line(bytes, 0) == Detected::Request;
            prop_assert!(may_start(&bytes[..cut]) || !is_request);
            let is_message = matches!(detect(bytes), Detected::Request | Detected::Response);
            prop_assert!(may_start_known(&bytes[..cut]) || !is_message);
            // The end of a head is found however the search is cut.
            let is_found = ends_after(&bytes[..cut], 0) || ends_after(bytes, cut);
            prop_assert_eq!(is_found, has_end);
        }
    }
}

#[test]
fn reads_any_number_of_fields() {
    for fields in [0, 1, 97, 3000] {
        let fields = "A: b\r\n".repeat(fields) + "Host: h\r\nContent-Length: 7\r\n\r\n";
        let bytes = format!("GET / HTTP/1.1\r\n{fields}");
        let (head, length) = complete(parse_request(bytes.as_bytes()));
        assert_eq!((head.host(), length), (Some(&b"h"[..]), bytes.len()));
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}");
        let (head, _) = complete(parse_response(bytes.as_bytes()));
        assert_eq!(head.fields.length, Length::Bytes(7));
    }
}

#[test]
fn uses_the_first_field_of_a_name() {
    let bytes =
        b"GET / HTTP/1.1\r\nhost: \ta b \r\nHost: c\r\nUser-agent:\r\nUSER-AGENT: d\r\n\r\n";
    let (head, _) = complete(parse_request(bytes));
    assert_eq!(head.host(), Some(&b"a b"[..]));
    assert_eq!(head.fields.user_agent, Some(&b""[..]));
}
