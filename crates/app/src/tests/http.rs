//! HTTP/1 conversations: the record does not depend on how the messages are cut into segments.

use super::*;

/// Sends the messages of a conversation with a SYN from each side. A message is the bytes of a side that
/// are sent at one time; it is sent in several segments, or together with the one before it.
#[derive(Clone)]
struct Exchange {
    port: u16,
    messages: Vec<(u8, Vec<u8>)>,
}

impl Exchange {
    fn new(messages: &[(u8, &str)]) -> Self {
        let to_vec = |&(direction, text): &(u8, &str)| (direction, text.as_bytes().to_vec());
        Self {
            port: 8080,
            messages: messages.iter().map(to_vec).collect(),
        }
    }

    fn then(mut self, direction: u8, bytes: Vec<u8>) -> Self {
        self.messages.push((direction, bytes));
        self
    }

    /// The record, if `cut` cuts each message into segments.
    fn record(&self, cut: impl Fn(usize, &[u8]) -> Vec<usize>) -> AppRecord {
        let mut conversation = Conversation::new(self.port);
        conversation.connect(0, 0);
        let mut sequences = [1_u32; 2];
        for (number, (direction, bytes)) in self.messages.iter().enumerate() {
            let mut cuts = cut(number, bytes);
            cuts.push(bytes.len());
            let mut from = 0;
            for to in cuts {
                conversation.time_ns = number as i64 * 1_000_000;
                let sequence = &mut sequences[usize::from(*direction)];
                conversation.send(*direction, *sequence, &bytes[from..to]);
                *sequence += (to - from) as u32;
                from = to;
            }
        }
        conversation.finish()
    }

    fn whole(&self) -> AppRecord {
        self.record(|_, _| Vec::new())
    }

    /// Asserts that the record is the same for all cuts: one anywhere in one message, all messages in
    /// segments of 1 to 7 bytes, and messages of the same side in a row joined.
    fn assert_same_however_cut(&self) -> AppRecord {
        let whole = self.whole();
        assert_eq!(whole.incomplete, Incomplete::default());
        for (number, (_, bytes)) in self.messages.iter().enumerate() {
            for at in 1..bytes.len() {
                let cut = |other, _: &[u8]| {
                    if other == number {
                        vec![at]
                    } else {
                        Vec::new()
                    }
                };
                assert_same(
                    &self.record(cut),
                    &whole,
                    &format!("message {number} at {at}"),
                );
            }
        }
        for length in 1..=7 {
            let cut = |_, bytes: &[u8]| (1..bytes.len()).filter(|at| at % length == 0).collect();
            assert_same(&self.record(cut), &whole, &format!("segments of {length}"));
        }
        let joined = self.joined();
        assert_same(&joined.whole(), &whole, "joined");
        for (number, (_, bytes)) in joined.messages.iter().enumerate() {
            for at in 1..bytes.len() {
                let cut = |other, _: &[u8]| {
                    if other == number {
                        vec![at]
                    } else {
                        Vec::new()
                    }
                };
                assert_same(
                    &joined.record(cut),
                    &whole,
                    &format!("joined {number} at {at}"),
                );
            }
        }
        whole
    }

    /// The same bytes, with the messages of the same side in a row as one.
    fn joined(&self) -> Self {
        let mut messages: Vec<(u8, Vec<u8>)> = Vec::new();
        for (direction, bytes) in &self.messages {
            match messages.last_mut() {
                Some((last, joined)) if last == direction => joined.extend(bytes),
                _ => messages.push((*direction, bytes.clone())),
            }
        }
        Self {
            port: self.port,
            messages,
        }
    }
}

/// Asserts that two records are equal but for their times.
fn assert_same(record: &AppRecord, other: &AppRecord, what: &str) {
    let [mut record, mut other] = [record, other].map(|it| (it.http.clone(), it.tls.clone()));
    for (http, tls) in [&mut record, &mut other] {
        if let Some(http) = http {
            assert_eq!(
                http.first_byte_ns.is_some(),
                http.requests * http.responses > 0,
                "{what}"
            );
            http.first_byte_ns = None;
        }
        if let Some(tls) = tls {
            tls.setup_ns = None;
        }
    }
    assert_eq!(record, other, "{what}");
}

pub(super) fn counts(record: &AppRecord) -> (u32, u32, Option<u16>) {
    let http = record.http.as_deref().expect("no HTTP");
    (http.requests, http.responses, http.status)
}

pub(super) const GET: &str = "GET /a HTTP/1.1\r\nHost: h.example\r\nUser-Agent: ua\r\n\r\n";
pub(super) const OK: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// A body that looks like messages.
pub(super) const LURE: &str = "HTTP/1.1 500 No\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n";

#[test]
fn plain_messages() {
    let exchange = Exchange::new(&[(0, GET), (1, OK), (0, GET), (0, GET), (1, OK), (1, OK)]);
    let record = exchange.assert_same_however_cut();
    assert_eq!(counts(&record), (3, 3, Some(200)));
    let http = record.http.unwrap();
    assert_eq!(http.method.as_deref(), Some("GET"));
    assert_eq!(http.host.as_deref(), Some("h.example"));
    assert_eq!(http.user_agent.as_deref(), Some("ua"));
    assert_eq!(http.content_type.as_deref(), Some("text/plain"));
    // Line feeds alone, another minor version, and an unknown method.
    let exchange = Exchange::new(&[
        (0, "BREW /pot?a=1 HTTP/1.7\nHost: h\n\n"),
        (1, "HTTP/1.7 418\nContent-Length: 0\n\n"),
        (0, "BREW /pot HTTP/1.7\n\n"),
        (1, "HTTP/1.12 200 OK\nContent-Length: 1\n\nx"),
    ]);
    let record = exchange.assert_same_however_cut();
    assert_eq!(counts(&record), (2, 2, Some(418)));
    assert_eq!(record.http.unwrap().method.as_deref(), Some("BREW"));
    // Empty lines before requests.
    let after = format!("\r\n{GET}");
    let exchange = Exchange::new(&[(0, &after), (1, OK), (0, &after), (1, OK)]);
    assert_eq!(
        counts(&exchange.assert_same_however_cut()),
        (2, 2, Some(200))
    );
}

/// RFC 9112 section 6.3.
#[test]
fn responses_without_a_body_whatever_their_fields_say() {
    let head = GET.replace("GET", "HEAD");
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    for (request, response) in [
        (head.as_str(), long),
        (
            &head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (&head, "HTTP/1.1 200 OK\r\n\r\n"),
        (GET, "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"),
        (
            GET,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        ),
        (
            GET,
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
    ] {
        let pipelined = [
            (0, GET),
            (0, request),
            (0, GET),
            (1, OK),
            (1, response),
            (1, OK),
        ];
        let record = Exchange::new(&pipelined).assert_same_however_cut();
        assert_eq!(counts(&record), (3, 3, Some(200)), "{request} {response}");
        let in_turn = [(0, request), (1, response), (0, GET), (1, OK)];
        let record = Exchange::new(&in_turn).assert_same_however_cut();
        assert_eq!(
            (counts(&record).0, counts(&record).1),
            (2, 2),
            "{request} {response}"
        );
    }
    // The request is not in the capture, but the next response shows that there is no body.
    let record = Exchange::new(&[(1, long), (1, OK)]).joined().whole();
    assert_eq!(counts(&record), (0, 2, Some(200)));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    for interim in ["100 Continue", "102 Processing", "103 Early Hints"] {
        let interim = format!("HTTP/1.1 {interim}\r\nLink: </a>\r\n\r\n");
        let head =
            "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        let exchange = [
            (0, head),
            (1, &interim),
            (1, &interim),
            (0, "abc"),
            (1, OK),
            (0, GET),
            (1, OK),
        ];
        let record = Exchange::new(&exchange).assert_same_however_cut();
        assert_eq!(counts(&record), (2, 4, Some(200)), "{interim}");
        assert_eq!(
            record.http.unwrap().content_type.as_deref(),
            Some("text/plain")
        );
        let head = GET.replace("GET", "HEAD");
        let exchange = [
            (0, head.as_str()),
            (1, &interim),
            (1, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
            (0, GET),
            (1, OK),
        ];
        let record = Exchange::new(&exchange).assert_same_however_cut();
        assert_eq!(counts(&record), (2, 3, Some(200)), "{interim}");
    }
    let record = Exchange::new(&[(0, GET), (1, "HTTP/1.1 100 Continue\r\n\r\n")]).whole();
    assert_eq!(counts(&record), (1, 1, Some(100)));
}

#[test]
fn bodies_are_no_messages() {
    let chunked = |trailer: &str| {
        let first = &LURE[..7];
        let size = LURE.len();
        format!("7;a=b\r\n{first}\r\n{size:X}\r\n{LURE}\r\n0\r\n{trailer}\r\n")
    };
    for trailer in ["", "Expires: 1\r\nHTTP/1.1 200 OK\r\n"] {
        let body = chunked(trailer);
        let request =
            format!("POST /up HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{body}");
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n";
        let response = format!("{head}{body}");
        let exchange = [
            (0, request.as_str()),
            (0, GET),
            (1, &response),
            (1, OK),
            (0, GET),
            (1, OK),
        ];
        let record = Exchange::new(&exchange).assert_same_however_cut();
        assert_eq!(counts(&record), (3, 3, Some(200)), "{trailer}");
    }
    let size = LURE.len();
    let request = format!("PUT / HTTP/1.1\r\nContent-Length: {size}\r\n\r\n{LURE}");
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}, {size}\r\n\r\n{LURE}");
    let exchange = [(0, request.as_str()), (1, &response), (0, GET), (1, OK)];
    assert_eq!(
        counts(&Exchange::new(&exchange).assert_same_however_cut()),
        (2, 2, Some(200))
    );
    // Up to the end of the connection, also if the coding or a chunk is not understood.
    for head in [
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    ] {
        let record =
            Exchange::new(&[(0, GET), (1, head), (1, LURE), (1, LURE)]).assert_same_however_cut();
        assert_eq!(counts(&record), (1, 1, Some(200)), "{head}");
    }
}

/// A body of more than 4 GiB, of which a few segments are captured.
#[test]
fn long_bodies_are_skipped() {
    for (gigabytes, responses) in [(1_u64, 2), (4, 2), (5, 2), (300, 1)] {
        let mut conversation = Conversation::new(80);
        conversation.connect(0, 0);
        conversation.send(0, 1, GET.as_bytes());
        let length = gigabytes << 30;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        conversation.send(1, 1, head.as_bytes());
        let start = 1 + head.len() as u64;
        let step = 1 << 27;
        for at in (0..length.min(6 << 30)).step_by(step) {
            let mut packet = segment(
                &conversation.key,
                0,
                1,
                (start + at) as u32,
                LURE.as_bytes(),
            );
            // As if the segments were huge and truncated.
            packet.payload_length = step as u32;
            conversation
                .inspector
                .observe(&mut conversation.state, &packet, || conversation.key);
        }
        conversation.send(1, (start + length.min(6 << 30)) as u32, OK.as_bytes());
        let record = conversation.finish();
        assert_eq!(counts(&record).1, responses, "{gigabytes}");
    }
}

#[test]
fn each_side_has_its_role() {
    // A server sends no requests, a client no responses.
    let body = "HTTP/1.1 200 OK\r\n\r\n";
    for exchange in [
        Exchange::new(&[(0, GET), (1, OK), (1, GET), (1, GET)]),
        Exchange::new(&[(0, GET), (1, GET), (1, OK)]),
        Exchange::new(&[(0, GET), (1, OK), (0, body)]),
        Exchange::new(&[(0, GET), (1, OK), (0, "junk"), (0, body)]),
        Exchange::new(&[(0, GET), (1, OK), (1, "junk"), (1, GET)]),
    ] {
        assert_eq!(counts(&exchange.whole()), (1, 1, Some(200)));
    }
}

#[test]
fn tunnels() {
    let connect = "CONNECT s.example:443 HTTP/1.1\r\nHost: s.example:443\r\n\r\n";
    let accepted = "HTTP/1.1 200 Connection established\r\n\r\n";
    let refused = "HTTP/1.1 407 Who\r\nContent-Length: 2\r\n\r\nno";
    let tls = |exchange: &[(u8, &str)]| {
        Exchange::new(exchange)
            .then(0, client_hello("s.example", 0))
            .then(1, server_hello(true))
            .then(0, record(20, &[1]))
            .then(0, record(23, &[0; 40]))
    };
    for (exchange, expected) in [
        (&[(0, connect), (1, accepted)][..], (1, 1, Some(200))),
        // A proxy must not send a body, whatever the fields say.
        (
            &[
                (0, connect),
                (1, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"),
            ],
            (1, 1, Some(200)),
        ),
        (
            &[(0, GET), (1, OK), (0, connect), (1, accepted)],
            (2, 2, Some(200)),
        ),
        (
            &[(0, connect), (1, refused), (0, connect), (1, accepted)],
            (2, 2, Some(407)),
        ),
        (
            &[
                (0, "OPTIONS * HTTP/1.1\r\nUpgrade: TLS/1.0\r\n\r\n"),
                (1, "HTTP/1.1 101 Switch\r\n\r\n"),
            ],
            (1, 1, Some(101)),
        ),
    ] {
        let record = tls(exchange).assert_same_however_cut();
        assert_eq!(counts(&record), expected);
        assert_eq!(name_of(&record), Some("s.example"));
        let tls = record.tls.unwrap();
        assert_eq!(tls.version, Some(0x0304));
        assert!(tls.ja4.is_some() && tls.setup_ns.is_some());
    }
    // The client does not wait for the answer.
    let record = Exchange::new(&[(0, connect)])
        .then(0, client_hello("s.example", 0))
        .then(1, accepted.as_bytes().to_vec())
        .then(1, server_hello(true))
        .assert_same_however_cut();
    assert_eq!(
        (counts(&record), name_of(&record)),
        ((1, 1, Some(200)), Some("s.example"))
    );
    assert_eq!(record.tls.unwrap().version, Some(0x0304));
    // Another protocol in the tunnel, or after an upgrade.
    for (request, response) in [(connect, accepted), (GET, "HTTP/1.1 101 Switching\r\n\r\n")] {
        let exchange = [
            (0, request),
            (1, response),
            (0, "\x01junk"),
            (1, "\x01junk"),
            (0, GET),
            (1, OK),
            (1, GET),
        ];
        let record = Exchange::new(&exchange).whole();
        assert_eq!((counts(&record).0, counts(&record).1), (1, 1), "{request}");
    }
}

/// Any number of segments may come before the tunnel.
#[test]
fn tunnel_after_a_long_download() {
    for segments in [10, 100, 300] {
        let length = segments * 100;
        let mut conversation = Conversation::new(3128);
        conversation.connect(0, 0);
        conversation.send(0, 1, GET.as_bytes());
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        conversation.send(1, 1, head.as_bytes());
        let mut at = 1 + head.len() as u32;
        for _ in 0..segments {
            conversation.send(1, at, &[b'x'; 100]);
            at += 100;
        }
        let connect = b"CONNECT s.example:443 HTTP/1.1\r\n\r\n";
        let mut client = 1 + GET.len() as u32;
        conversation.send(0, client, connect);
        client += connect.len() as u32;
        conversation.send(1, at, b"HTTP/1.1 200 OK\r\n\r\n");
        conversation.send(0, client, &client_hello("s.example", 0));
        conversation.send(1, at + 19, &server_hello(true));
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("s.example"), "{segments}");
        assert_eq!(record.tls.unwrap().version, Some(0x0304));
    }
}

#[test]
fn header_of_a_proxy_before_the_stream() {
    let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 80\r\n".to_vec();
    let binary = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..],
        &[192, 0, 2, 1, 192, 0, 2, 2, 1, 2, 3, 4],
    ]
    .concat();
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    for header in [line, binary, local] {
        for method in ["GET", "BREW"] {
            let request = GET.replace("GET", method);
            let record = Exchange::new(&[])
                .then(0, header.clone())
                .then(0, request.into_bytes())
                .then(1, OK.as_bytes().to_vec())
                .assert_same_however_cut();
            assert_eq!(counts(&record), (1, 1, Some(200)));
            let http = record.http.unwrap();
            assert_eq!(
                (http.method.as_deref(), http.host.as_deref()),
                (Some(method), Some("h.example"))
            );
        }
        let record = Exchange::new(&[])
            .then(0, header.clone())
            .then(0, client_hello("s.example", 0))
            .then(1, server_hello(true))
            .assert_same_however_cut();
        assert_eq!(name_of(&record), Some("s.example"));
        assert!(record.tls.unwrap().ja4.is_some());
    }
}

#[test]
fn hello_in_any_segments() {
    for length in [0, 600] {
        let mut answer = server_hello(false);
        answer.extend(record(22, &message(14, &[])));
        let hello = client_hello("s.example", length);
        let pieces: Vec<u8> = hello[5..].chunks(3).flat_map(|it| record(22, it)).collect();
        for hello in [hello, pieces] {
            let record = Exchange::new(&[])
                .then(0, hello)
                .then(1, answer.clone())
                .assert_same_however_cut();
            assert_eq!(name_of(&record), Some("s.example"));
            let tls = record.tls.unwrap();
            assert!(tls.ja4.is_some());
            assert_eq!((tls.version, tls.resumed), (Some(0x0303), Some(true)));
        }
    }
}

/// The first letters of a method are never lost, if the connection was captured from its start or not.
#[test]
fn method_is_whole_or_not_there() {
    let request = GET.as_bytes();
    for start in 0..request.len() {
        for (port, earlier) in [(80, &b""[..]), (80, b"junk\r\n"), (9, b"\x00\x01")] {
            for cut in 1..20 {
                let mut conversation = Conversation::new(port);
                conversation.send(0, 1, earlier);
                let mut at = 1 + earlier.len() as u32;
                for bytes in request[start..].chunks(cut) {
                    conversation.send(0, at, bytes);
                    at += bytes.len() as u32;
                }
                conversation.send(0, at, request);
                let record = conversation.finish();
                let method = record.http.as_ref().and_then(|http| http.method.as_deref());
                if let Some(method) = method {
                    assert_eq!(method, "GET", "{start} {cut}");
                }
                if start == 0 {
                    assert_eq!(counts(&record).0, 2, "{cut} {earlier:?}");
                }
            }
        }
    }
}

/// The active timeout splits a flow anywhere, but a body is no message in the next record either.
#[test]
fn timeout_keeps_the_position_in_the_messages() {
    let size = LURE.len();
    let head = GET.replace("GET", "HEAD");
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{LURE}\r\n0\r\n\r\n"
    );
    let messages = [
        (0, GET),
        (1, chunked.as_str()),
        (0, &head),
        (1, long),
        (0, GET),
        (1, OK),
    ];
    for (split, (direction, bytes)) in messages.iter().enumerate() {
        for at in 0..bytes.len() {
            let mut conversation = Conversation::new(80);
            conversation.connect(0, 0);
            let mut sequences = [1_u32; 2];
            let (mut total, mut reasons) = ((0, 0), Incomplete::default());
            let mut add = |record: AppRecord| {
                let http = record.http.as_deref();
                let counts = http.map_or((0, 0), |http| (http.requests, http.responses));
                total = (total.0 + counts.0, total.1 + counts.1);
                reasons.add(record.incomplete);
            };
            for (number, (side, message)) in messages.iter().enumerate() {
                let sequence = &mut sequences[usize::from(*side)];
                let cut = if number == split { at } else { 0 };
                for (part, bytes) in [&message.as_bytes()[..cut], &message.as_bytes()[cut..]]
                    .iter()
                    .enumerate()
                {
                    if number == split && part == 1 {
                        add(snapshot(
                            &mut conversation.inspector,
                            &mut conversation.state,
                            &conversation.key,
                        ));
                        conversation.inspector.resume(&mut conversation.state, true);
                    }
                    conversation.send(*side, *sequence, bytes);
                    *sequence += bytes.len() as u32;
                }
            }
            add(conversation.finish());
            // With no message yet, only the protocol is lost.
            let is_known = split > 0 || at > 3;
            assert!(
                !is_known || total == (3, 3),
                "{direction} {split} {at}: {total:?}"
            );
            assert_eq!(reasons, Incomplete::default(), "{split} {at}");
        }
    }
}

/// Of a head that does not fit into a buffer, the fields that do are read, and the rest is skipped.
#[test]
fn long_head_is_read_as_far_as_a_buffer_reaches() {
    for (fields, length) in [(500, 1460), (3000, 1460), (3000, 100), (30_000, 1460)] {
        let fields = "GET: / HTTP/1.1\r\n".repeat(fields);
        let stream = format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n{GET}{GET}");
        let mut conversation = Conversation::new(80);
        conversation.connect(0, 0);
        for (at, bytes) in (1..).step_by(length).zip(stream.as_bytes().chunks(length)) {
            conversation.send(0, at, bytes);
        }
        let record = conversation.finish();
        let is_long = stream.len() > 16_000;
        assert_eq!(record.incomplete.contains(Incomplete::REASSEMBLY), is_long);
        let http = record.http.unwrap();
        assert_eq!((http.requests, http.host.as_deref()), (3, Some("h")));
    }
}
