use super::*;
use proptest::prelude::*;

#[test]
fn reads_heads() {
    let bytes = b"POST /a HTTP/1.1\r\nHOST: b.c\r\nUser-Agent: d\r\nContent-Length: 3\r\n\r\nxyz";
    let Head::Complete(head) = parse_request(bytes) else {
        panic!("no head");
    };
    assert_eq!((head.method.name(), head.target), ("POST", &b"/a"[..]));
    assert_eq!(head.host, Some(&b"b.c"[..]));
    assert_eq!(head.user_agent, Some(&b"d"[..]));
    assert_eq!(head.body, Body::Length(3));
    assert_eq!(&bytes[head.length..], b"xyz");
    assert_eq!(parse_request(&bytes[..40]), Head::Partial);
    let mut terminated = Vec::new();
    terminate_head(&bytes[..40], false, &mut terminated);
    assert!(
        matches!(parse_request(&terminated), Head::Complete(head) if head.host == Some(b"b.c"))
    );
    terminate_head(
        b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        true,
        &mut terminated,
    );
    assert!(matches!(parse_request(&terminated), Head::Complete(head) if head.target == b"/"));
    terminate_head(b"GET", false, &mut terminated);
    assert_eq!(parse_request(&terminated), Head::Partial);
    let Head::Complete(head) = parse_request(b"GET http://h:1/x HTTP/1.0\r\n\r\n") else {
        panic!("no head");
    };
    assert_eq!(head.host, Some(&b"h:1"[..]));
    assert_eq!(parse_request(b"GET /\r\n\r\n"), Head::Invalid);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Head::Complete(head) = parse_response(bytes) else {
        panic!("no head");
    };
    assert_eq!((head.status, head.body), (200, Body::Unknown));
    assert_eq!(head.content_type, Some(&b"text/html"[..]));
    let Head::Complete(head) = parse_response(b"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n")
    else {
        panic!("no head");
    };
    assert_eq!(head.body, Body::Length(0));
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
            let Head::Complete(head) = parse_request(request.as_bytes()) else {
                panic!("{method}");
            };
            assert_eq!(head.method.name(), *method);
            assert_eq!(head.method_name, *method);
        }
    }
}

#[test]
fn accepts_any_token_as_method() {
    for method in ["BREW", "x-my.Method", "A"] {
        let bytes = format!("{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(
            detect_by_line(bytes.as_bytes()),
            Detected::Request,
            "{method}"
        );
        assert_eq!(detect(bytes.as_bytes()), Detected::No, "{method}");
        let Head::Complete(head) = parse_request(bytes.as_bytes()) else {
            panic!("{method}");
        };
        assert_eq!((head.method, head.method_name), (Method::OTHER, method));
        assert_eq!((head.method.name(), head.target), ("", &b"/x"[..]));
        // Only a complete request line is enough.
        let version = method.len() + " /x HTTP/1.".len();
        assert_eq!(
            detect_by_line(&bytes.as_bytes()[..version]),
            Detected::Request
        );
        assert_eq!(
            detect_by_line(&bytes.as_bytes()[..version - 1]),
            Detected::No
        );
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
    ] {
        assert_eq!(detect_by_line(line.as_bytes()), expected, "{line}");
        let is_head = matches!(parse_request(line.as_bytes()), Head::Complete(_));
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
            assert_eq!(detect_by_line(bytes.as_bytes()), Detected::Request);
            let Head::Complete(head) = parse_request(bytes.as_bytes()) else {
                panic!("no head");
            };
            assert_eq!((head.method_name, head.length), (method, bytes.len()));
            let mut terminated = Vec::new();
            terminate_head(bytes.as_bytes(), true, &mut terminated);
            assert!(
                matches!(parse_request(&terminated), Head::Complete(head) if head.target == b"/x")
            );
        }
        assert_eq!(detect_by_line(lines.as_bytes()), Detected::No);
        assert_eq!(
            detect_by_line(format!("{lines}GE").as_bytes()),
            Detected::NeedMore
        );
        assert_eq!(
            detect(format!("{lines}HTTP/1.1 200 OK").as_bytes()),
            Detected::No
        );
    }
    assert_eq!(detect_by_line(b"\r\n\r\n\r\nGET / HTTP/1.1"), Detected::No);
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
        (b"brew /\xff HTTP/1.1\r\n", "brew", b"/\xff"),
    ] {
        let head = parse_request_line(line).unwrap();
        assert_eq!(
            (head.method_name, head.target, head.host),
            (method, target, None)
        );
        let feed = line.iter().rposition(|byte| *byte == b'\n').unwrap();
        assert_eq!(parse_request_line(&line[..feed]), None);
        assert!(is_partial_line(&line[..feed]));
    }
    let head = parse_request_line(b"GET http://h:1/\xe9 HTTP/1.1\r\n").unwrap();
    assert_eq!(head.host, Some(&b"h:1"[..]));
    for line in [
        "GET /\r\n",
        "GET HTTP/1.1\r\n",
        "GET  HTTP/1.1\r\n",
        "GET /HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "GET / HTTP/1.x\r\n",
        " / HTTP/1.1\r\n",
        "HTTP/1.1\r\n",
        "\r\n",
    ] {
        assert_eq!(parse_request_line(line.as_bytes()), None, "{line}");
    }
    assert!(!is_partial_line(b"GET \0") && !is_partial_line(&[b'a'; 9000]));
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
        let _ = (parse_request(bytes), parse_response(bytes), parse_request_line(bytes));
        for cut in 1..=bytes.len() {
            // What the first bytes rule out starts no message.
            prop_assert!(may_start(&bytes[..cut]) || detect_by_line(bytes) == Detected::No);
            let is_message = matches!(detect(bytes), Detected::Request | Detected::Response);
            prop_assert!(may_start_known(&bytes[..cut]) || !is_message);
        }
    }
}

#[test]
fn limits_the_number_of_fields() {
    for (fields, is_valid) in [(0, true), (FIELDS_MAX, true), (FIELDS_MAX + 1, false)] {
        let fields = "A: b\r\n".repeat(fields) + "\r\n";
        let bytes = format!("GET / HTTP/1.1\r\n{fields}");
        let head = parse_request(bytes.as_bytes());
        assert_eq!(matches!(head, Head::Complete(_)), is_valid, "{head:?}");
        assert!(is_valid || head == Head::Invalid);
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}");
        let head = parse_response(bytes.as_bytes());
        assert_eq!(matches!(head, Head::Complete(_)), is_valid, "{head:?}");
        assert!(is_valid || head == Head::Invalid);
    }
}

#[test]
fn uses_the_first_field_of_a_name() {
    let bytes =
        b"GET / HTTP/1.1\r\nhost: \ta b \r\nHost: c\r\nUser-agent:\r\nUSER-AGENT: d\r\n\r\n";
    let Head::Complete(head) = parse_request(bytes) else {
        panic!("no head");
    };
    assert_eq!(head.host, Some(&b"a b"[..]));
    assert_eq!(head.user_agent, Some(&b""[..]));
}
