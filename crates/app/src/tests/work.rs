//! The work of a packet has a bound, whatever state the packets before it have left.

use super::*;
use crate::work;

/// The most work of a hostile packet, as a multiple of a benign one.
const FACTOR_MAX: usize = 10;

/// Mean work of the segments of a stream of one side, after `before` from the other one.
fn mean_work(port: u16, before: &[u8], direction: u8, segments: &[(u32, &[u8])]) -> usize {
    let mut conversation = Conversation::new(port);
    conversation.connect(0, 0);
    if !before.is_empty() {
        conversation.send(1 - direction, 1, before);
    }
    work::take();
    for (offset, bytes) in segments {
        conversation.send(direction, 1 + offset, bytes);
    }
    let work = work::take();
    conversation.finish();
    work / segments.len()
}

/// The segments of a stream, each `length` bytes long.
fn segments(stream: &[u8], length: usize) -> Vec<(u32, &[u8])> {
    (0..).step_by(length).zip(stream.chunks(length)).collect()
}

const REQUEST: &[u8] = b"GET /index.html?session=0123456789 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";

#[test]
fn hostile_streams_cost_no_more_than_benign_ones() {
    // A benign segment is a whole request, or of the same length as the hostile one.
    let request = mean_work(80, b"", 0, &segments(REQUEST, 1460));
    assert!(request > 100, "{request}: nothing was counted");
    let requests = REQUEST.repeat(40);
    let benign = [1, 2, 5, 18, 100, 536, 1460].map(|length| {
        let same = mean_work(80, b"", 0, &segments(&requests, length));
        (length, same.max(request))
    });
    let far = 15_000;
    let fields = b"A: b\r\n".repeat(far / 6);
    let small = b"X: 0123456789abc\r\n".repeat(far / 18);
    let head = |line: &[u8], rest: &[u8]| [line, rest].concat();
    let get = b"GET / HTTP/1.1\r\n";
    let ok = b"HTTP/1.1 200 OK\r\n";
    let chunks = head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        &b"1\r\na\r\n".repeat(far / 6),
    );
    let extension = head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        &vec![b'e'; far],
    );
    let trailer = head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        &fields,
    );
    let hello = client_hello("s.example", 12_000);
    let tiny_hello: Vec<u8> = hello[5..]
        .chunks(1)
        .take(2500)
        .flat_map(|it| record(22, it))
        .collect();
    let tiny_records = head(
        &client_hello("s.example", 0),
        &record(20, &[1]).repeat(2000),
    );
    let empty_records = head(
        &client_hello("s.example", 0)[..60],
        &record(22, &[]).repeat(2000),
    );
    let messages = record(22, &message(99, &[]).repeat(3500));
    let tiny_messages = record(22, &message(99, &[])).repeat(1600);
    let certificate = head(
        &server_hello(false),
        &record(22, &message(11, &vec![0x30; 12_000])),
    );
    let pieces: Vec<u8> = message(11, &vec![0x30; 12_000])
        .chunks(7)
        .flat_map(|it| record(22, it))
        .collect();
    let certificate_pieces = head(&server_hello(false), &pieces);
    let streams: [(&str, u16, u8, Vec<u8>); 22] = [
        ("head without an end", 80, 0, head(get, &fields)),
        ("head of small fields", 80, 0, head(get, &small)),
        ("response without an end", 80, 1, head(ok, &fields)),
        (
            "long field",
            80,
            0,
            head(b"GET / HTTP/1.1\r\nA: ", &vec![b'a'; far]),
        ),
        ("long target", 80, 0, head(b"GET /", &vec![b'a'; far])),
        (
            "long target with an unknown method",
            80,
            0,
            head(b"BREW /", &vec![b'a'; far]),
        ),
        ("long method", 80, 0, vec![b'M'; far]),
        (
            "long reason",
            80,
            1,
            head(b"HTTP/1.1 200 ", &vec![b'a'; far]),
        ),
        ("empty lines", 80, 0, b"\r\n".repeat(far / 2)),
        (
            "empty lines after a request",
            80,
            0,
            head(b"GET / HTTP/1.1\r\n\r\n", &b"\r\n".repeat(far / 2)),
        ),
        (
            "small requests",
            80,
            0,
            b"GET / HTTP/1.1\r\n\r\n".repeat(far / 18),
        ),
        (
            "small responses",
            80,
            1,
            b"HTTP/1.1 204 A\r\n\r\n".repeat(far / 18),
        ),
        ("small chunks", 80, 1, chunks),
        ("long chunk extension", 80, 1, extension),
        ("trailer without an end", 80, 1, trailer),
        (
            "long line of a proxy",
            80,
            0,
            head(b"PROXY ", &vec![b'a'; far]),
        ),
        ("long hello", 443, 0, hello.clone()),
        ("hello in tiny records", 443, 0, tiny_hello),
        ("tiny records after a hello", 443, 0, tiny_records),
        ("empty records in a hello", 443, 0, empty_records),
        ("certificate", 443, 1, certificate),
        ("certificate in small records", 443, 1, certificate_pieces),
    ];
    let server = [
        (
            "small messages",
            443,
            1,
            head(&server_hello(false), &messages),
        ),
        (
            "small messages in small records",
            443,
            1,
            head(&server_hello(false), &tiny_messages),
        ),
        (
            "small messages before a hello",
            443,
            1,
            head(&record(22, &message(2, &[])), &messages),
        ),
    ];
    let first = client_hello("s.example", 0);
    for (what, port, direction, stream) in streams.into_iter().chain(server) {
        let before: &[u8] = match (direction, port) {
            (0, _) => b"",
            (_, 443) => &first,
            _ => REQUEST,
        };
        for (length, benign) in benign {
            let bound = benign * FACTOR_MAX;
            let work = mean_work(port, before, direction, &segments(&stream, length));
            assert!(
                work <= bound,
                "{what} in segments of {length}: {work}, benign {benign}"
            );
            // The first byte comes last.
            let mut order = segments(&stream[..stream.len().min(length * 8)], length);
            order.rotate_left(1);
            let work = mean_work(port, before, direction, &order);
            assert!(
                work <= bound,
                "{what} late in segments of {length}: {work}, benign {benign}"
            );
            order.reverse();
            let work = mean_work(port, before, direction, &order);
            assert!(
                work <= bound,
                "{what} reversed in segments of {length}: {work}, benign {benign}"
            );
        }
    }
}

/// Gaps that are acknowledged at once, each with a segment as far ahead as a buffer reaches.
#[test]
fn gaps_cost_no_more_than_benign_segments() {
    let benign = mean_work(80, b"", 0, &segments(REQUEST, 1460));
    for ahead in [1, 1000, 16_000] {
        for is_acknowledged in [true, false] {
            let mut conversation = Conversation::new(80);
            conversation.connect(0, 0);
            conversation.send(0, 1, REQUEST);
            work::take();
            let mut at = 1 + REQUEST.len() as u32;
            let count = 500;
            for _ in 0..count {
                at += ahead;
                conversation.send(0, at, b"GET / HTTP/1.1\r\n\r\nG");
                at += 19;
                let mut packet = segment(&conversation.key, 1, 1, 1, b"x");
                packet.tcp_flags = flag::ACK;
                packet.acknowledgement = at;
                if is_acknowledged {
                    conversation
                        .inspector
                        .observe(&mut conversation.state, &packet, || conversation.key);
                }
            }
            let work = work::take() / count;
            conversation.finish();
            assert!(
                work <= benign * FACTOR_MAX,
                "{ahead}: {work}, benign {benign}"
            );
        }
    }
}
