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

/// A line of a head. Most are valid.
fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "Host",
            "HOST",
            "user-agent",
            "Content-Type",
            "Content-Length",
            "Transfer-Encoding",
            "transfer_encoding",
            "X",
        ])
        .prop_map(str::to_owned),
        "[A-Za-z0-9-]{1,20}",
        "[ -~\t]{0,4}",
    ];
    let colon = prop::sample::select(vec![":", ": ", ":  ", " :", ":\t", ""]);
    let value = prop_oneof!["[ -~]{0,40}", "[0-9]{1,21}", "[ -~é\t\x01\x7f]{0,10}"];
    let end = prop::sample::select(vec![
        "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", " \r\n",
    ]);
    (name, colon, value, end).prop_map(|(name, colon, value, end)| name + colon + &value + end)
}

proptest! {
    /// Any head, truncated anywhere, is parsed as httparse parses it.
    #[test]
    fn fast_path_matches_httparse(
        first in prop_oneof![
            "(GET|POST|HEAD|BREW|VERSION-CONTROL) [!-~é]{0,12}[ /]?[a-z]{0,40} HTTP/1\\.[01]\r\n",
            "(\r\n)?(GET|PUT)[ -~\t]{0,20} HTTP/1\\.[0-9](\r\n|\n| \r\n)",
            "HTTP/1\\.[01] [0-9]{3}( [ -~é\t]{0,20})?\r\n",
            "HTTP/1\\.[0-9] ?[0-9a]{2,4} ?[A-Z]{0,3}(\r\n|\n|\r)",
        ],
        lines in prop::collection::vec(line(), 0..12),
        last in prop::sample::select(vec!["\r\n", "\r\n", "\n", ""]),
        body in "[a-z\r\n]{0,20}",
    ) {
        let head = first + &lines.concat() + last + &body;
        for cut in 0..=head.len() {
            let bytes = &head.as_bytes()[..cut];
            prop_assert_eq!(parse_request(bytes), any_request(bytes));
            prop_assert_eq!(parse_response(bytes), any_response(bytes));
        }
    }
}

#[test]
fn fast_path_reads_as_many_fields_as_httparse() {
    for fields in [0, 1, FIELDS_MAX - 1, FIELDS_MAX, FIELDS_MAX + 1] {
        let fields = "A: b\r\n".repeat(fields) + "\r\n";
        let request_head = format!("GET / HTTP/1.1\r\n{fields}");
        assert_eq!(
            parse_request(request_head.as_bytes()),
            any_request(request_head.as_bytes())
        );
        let response_head = format!("HTTP/1.1 200 OK\r\n{fields}");
        assert_eq!(
            parse_response(response_head.as_bytes()),
            any_response(response_head.as_bytes())
        );
    }
}
