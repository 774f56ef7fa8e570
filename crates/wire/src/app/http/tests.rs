use super::*;
use proptest::prelude::*;

#[test]
fn heads_are_read() {
    let bytes = b"POST /a HTTP/1.1\r\nHOST: b.c\r\nUser-Agent: d\r\nContent-Length: 3\r\n\r\nxyz";
    let Head::Whole(head) = request(bytes) else {
        panic!("no head");
    };
    assert_eq!((head.method.name(), head.target), ("POST", &b"/a"[..]));
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
    assert!(matches!(request(&closed), Head::Whole(head) if head.target == b"/"));
    close_head(b"GET", false, &mut closed);
    assert_eq!(request(&closed), Head::Partial);
    let Head::Whole(head) = request(b"GET http://h:1/x HTTP/1.0\r\n\r\n") else {
        panic!("no head");
    };
    assert_eq!(head.host, Some(&b"h:1"[..]));
    assert_eq!(request(b"GET /\r\n\r\n"), Head::Bad);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
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
        for Known { name: method, .. } in methods(first) {
            let request = format!("{method} / HTTP/1.1\r\n\r\n");
            assert_eq!(begins(method.as_bytes()), Begins::Perhaps);
            assert_eq!(begins(request.as_bytes()), Begins::Request);
            assert!(may_begin_known(method.as_bytes()));
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
        assert_eq!((head.method.name(), head.target), ("", &b"/x"[..]));
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
            assert!(matches!(request(&closed), Head::Whole(head) if head.target == b"/x"));
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

#[test]
fn a_first_line_is_read_whatever_its_target_is() {
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
        let head = request_line(line).unwrap();
        assert_eq!(
            (head.method_name, head.target, head.host),
            (method, target, None)
        );
        let feed = line.iter().rposition(|byte| *byte == b'\n').unwrap();
        assert_eq!(request_line(&line[..feed]), None);
        assert!(is_half_line(&line[..feed]));
    }
    let head = request_line(b"GET http://h:1/\xe9 HTTP/1.1\r\n").unwrap();
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
        assert_eq!(request_line(line.as_bytes()), None, "{line}");
    }
    assert!(!is_half_line(b"GET \0") && !is_half_line(&[b'a'; 9000]));
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
        let _ = (request(bytes), response(bytes), request_line(bytes));
        for cut in 1..=bytes.len() {
            // What is passed over by its first bytes begins nothing.
            prop_assert!(may_begin(&bytes[..cut]) || begins_by_line(bytes) == Begins::No);
            let begun = matches!(begins(bytes), Begins::Request | Begins::Response);
            prop_assert!(may_begin_known(&bytes[..cut]) || !begun);
        }
    }
}

#[test]
fn the_fields_of_a_head_are_limited() {
    for (fields, is_head) in [(0, true), (FIELDS_MAX, true), (FIELDS_MAX + 1, false)] {
        let fields = "A: b\r\n".repeat(fields) + "\r\n";
        let bytes = format!("GET / HTTP/1.1\r\n{fields}");
        let head = request(bytes.as_bytes());
        assert_eq!(matches!(head, Head::Whole(_)), is_head, "{head:?}");
        assert!(is_head || head == Head::Bad);
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}");
        let head = response(bytes.as_bytes());
        assert_eq!(matches!(head, Head::Whole(_)), is_head, "{head:?}");
        assert!(is_head || head == Head::Bad);
    }
}

#[test]
fn the_first_field_of_a_name_counts() {
    let bytes =
        b"GET / HTTP/1.1\r\nhost: \ta b \r\nHost: c\r\nUser-agent:\r\nUSER-AGENT: d\r\n\r\n";
    let Head::Whole(head) = request(bytes) else {
        panic!("no head");
    };
    assert_eq!(head.host, Some(&b"a b"[..]));
    assert_eq!(head.user_agent, Some(&b""[..]));
}
