//! DNS and HTTP messages: which of them a record describes.

use super::*;

/// Method, target and number of requests of a stream in segments of `length` bytes.
fn http_record(request: &str, length: usize) -> Option<(String, String, u32)> {
    let mut conversation = Conversation::new(80);
    conversation.send_syn(0, 0);
    for (at, bytes) in (0..).step_by(length).zip(request.as_bytes().chunks(length)) {
        conversation.send(0, 1 + at, bytes);
    }
    let record = conversation.finish();
    assert_eq!(record.incomplete, Incomplete::default());
    let http = record.http?;
    Some((http.method?.into(), http.target?.into(), http.requests))
}

#[test]
fn records_requests_with_any_method() {
    let known = [
        "ACL",
        "POST",
        "PURGE",
        "QUERY",
        "BITS_POST",
        "UPDATEREDIRECTREF",
    ];
    for method in known.into_iter().chain(["BREW", "get"]) {
        let request = format!("{method} /x HTTP/1.1\r\nHost: h\r\n\r\n");
        let expected = Some((method.to_owned(), "/x".to_owned(), 1));
        assert_eq!(http_record(&request, 1000), expected);
        let twice = Some((method.to_owned(), "/x".to_owned(), 2));
        assert_eq!(http_record(&request.repeat(2), 1000), twice);
        if known.contains(&method) {
            for length in [1, 2, 4, 5, 30] {
                assert_eq!(http_record(&request, length), expected, "{length}");
            }
        }
        // After another protocol, only known methods are detected, by the first bytes of a segment.
        let mut conversation = Conversation::new(80);
        conversation.send(0, 1, b"HELLO a\r\n");
        conversation.send(0, 10, request.as_bytes());
        let is_detected = conversation.finish().http.is_some();
        assert_eq!(is_detected, known.contains(&method), "{method}");
    }
    let far = format!("BREW /{} HTTP/1.1\r\n\r\n", "x".repeat(1000));
    let mut conversation = Conversation::new(80);
    conversation.send(0, 1, far.as_bytes());
    let record = conversation.finish();
    assert!(record.incomplete.contains(Incomplete::TEXT));
    let http = record.http.unwrap();
    assert_eq!(http.method.as_deref(), Some("BREW"));
    assert_eq!(http.target.unwrap().len(), 255);
}

#[test]
fn records_request_line_with_invalid_target() {
    for (target, expected) in [
        (&b"/\xe9t\xe9"[..], "/\u{fffd}t\u{fffd}"),
        (b"/a b.html", "/a b.html"),
        ("/\u{e9}".as_bytes(), "/\u{e9}"),
    ] {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        for length in [1, 4, 8, 17, 1000] {
            let mut conversation = Conversation::new(80);
            conversation.send_syn(0, 0);
            for (at, bytes) in (1..).step_by(length).zip(request.chunks(length)) {
                conversation.send(0, at, bytes);
            }
            conversation.send(1, 1, b"HTTP/1.1 400 Bad\r\n\r\n");
            let record = conversation.finish();
            assert_eq!(
                record.incomplete,
                Incomplete::default(),
                "{expected} {length}"
            );
            let http = record.http.unwrap();
            assert_eq!((http.requests, http.responses), (1, 1));
            assert_eq!(http.method.as_deref(), Some("GET"));
            assert_eq!(http.target.as_deref(), Some(expected), "{length}");
            assert!(http.first_byte_ns.is_some());
        }
    }
}

#[test]
fn reads_requests_after_empty_lines() {
    let request = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nok";
    for lines in ["\r\n", "\r\n\r\n"] {
        let expected = Some(("POST".to_owned(), "/a".to_owned(), 2));
        assert_eq!(
            http_record(&format!("{lines}{request}").repeat(2), 1000),
            expected
        );
        // The empty lines in their own segment.
        let mut conversation = Conversation::new(80);
        conversation.send_syn(0, 0);
        conversation.send(0, 1, lines.as_bytes());
        conversation.send(0, 1 + lines.len() as u32, request.as_bytes());
        let record = conversation.finish();
        assert_eq!(record.http.unwrap().requests, 1);
        assert_eq!(record.incomplete, Incomplete::default());
    }
}

/// A message with a question, and with an address if it is a response of type A.
fn dns_of(response: bool, id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = dns(false, id);
    bytes[2] |= u8::from(response) << 7;
    bytes.truncate(12);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, (kind >> 8) as u8, kind as u8, 0, 1]);
    if response && kind == 1 {
        bytes[7] = 1;
        bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend(SERVER.octets());
    }
    bytes
}

/// The record of a flow to a resolver with messages a millisecond apart, and whether it has the
/// address.
fn dns_record(messages: &[(u8, Vec<u8>)]) -> (DnsRecord, bool) {
    let mut inspector = inspector();
    let resolver = key(17, 53);
    let mut flow = InspectState::default();
    for (at, (direction, message)) in messages.iter().enumerate() {
        let time = (at as i64 + 1) * 1_000_000;
        let packet = segment(&resolver, time, *direction, 0, message);
        inspector.observe(&mut flow, &packet, || resolver);
    }
    let record = *inspector.finish(&mut flow, &resolver).dns.unwrap();
    assert_idle(&inspector);
    let has_address = record.addresses.as_deref() == Some("192.0.2.1");
    assert_eq!(record.response_code.is_some(), record.answers.is_some());
    assert_eq!(has_address, record.answers == Some(1));
    assert_eq!(has_address, record.ttl_s == Some(60));
    (record, has_address)
}

#[test]
fn response_must_match_the_question() {
    let query = |id, name, kind| (0, dns_of(false, id, name, kind));
    let answer = |id, name, kind| (1, dns_of(true, id, name, kind));
    let question = |record: &DnsRecord| (record.query.clone().unwrap(), record.query_type.unwrap());
    // A stub resolver queries both kinds of addresses, and the second question is answered first.
    let (record, has_address) = dns_record(&[
        query(1, "w.example", 1),
        query(2, "w.example", 28),
        answer(2, "w.example", 28),
        answer(1, "w.example", 1),
    ]);
    assert_eq!(question(&record), ("w.example".into(), 1));
    assert!(has_address);
    assert_eq!(record.latency_ns, Some(3_000_000));
    assert_eq!((record.queries, record.responses), (2, 2));
    // Other responses: another ID, another question with the same ID, the direction of the query.
    let others = [
        answer(9, "w.example", 1),
        answer(1, "v.example", 1),
        answer(1, "w.example", 28),
        (0, dns_of(true, 1, "w.example", 1)),
    ];
    for other in others {
        let (record, has_address) = dns_record(&[query(1, "w.example", 1), other.clone()]);
        assert_eq!((has_address, record.responses), (false, 1));
        assert_eq!((record.response_code, record.latency_ns), (None, None));
        let last = answer(1, "W.exAMPLE", 1);
        let (record, has_address) = dns_record(&[query(1, "w.example", 1), other, last]);
        assert_eq!((has_address, record.responses), (true, 2));
        assert_eq!(record.latency_ns, Some(2_000_000));
    }
    // A FORMERR response does not repeat the question (RFC 1035 section 4.1.1).
    let mut refusal = dns_of(true, 1, "w.example", 28);
    refusal.truncate(12);
    (refusal[3], refusal[5]) = (1, 0);
    let (record, _) = dns_record(&[query(1, "w.example", 1), (1, refusal)]);
    assert_eq!((record.response_code, record.answers), (Some(1), Some(0)));
}

#[test]
fn records_response_until_a_query_is_seen() {
    let responses = [
        (1, dns_of(true, 5, "old.example", 1)),
        (1, dns_of(true, 6, "later.example", 28)),
    ];
    let (record, has_address) = dns_record(&responses);
    assert_eq!(record.query.as_deref(), Some("old.example"));
    assert_eq!((has_address, record.latency_ns), (true, None));
    let [old, _] = responses;
    let query = (0, dns_of(false, 7, "new.example", 28));
    let (record, has_address) = dns_record(&[old.clone(), query.clone()]);
    assert_eq!(record.query.as_deref(), Some("new.example"));
    assert_eq!((has_address, record.response_code), (false, None));
    let answer = (1, dns_of(true, 7, "new.example", 28));
    let (record, _) = dns_record(&[old.clone(), query, answer]);
    assert_eq!(
        (record.answers, record.latency_ns),
        (Some(0), Some(1_000_000))
    );
    assert_eq!((record.queries, record.responses), (1, 2));
    // The query of the response arrives late.
    let late = (0, dns_of(false, 5, "old.example", 1));
    let (record, has_address) = dns_record(&[old, late]);
    assert_eq!((has_address, record.latency_ns), (true, None));
}

/// A response with `count` addresses. The last octet of each is its number.
fn dns_with_addresses(kind: u8, count: u8) -> Vec<u8> {
    let mut bytes = dns_of(false, 3, "many.example", kind.into());
    (bytes[2], bytes[7]) = (0x81, count);
    let address = [0xfd; 16];
    let length = if kind == 1 { 4 } else { 16 };
    for number in 0..count {
        bytes.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, length]);
        bytes.extend(&address[1..usize::from(length)]);
        bytes.push(number);
    }
    bytes
}

#[test]
fn records_and_caches_all_addresses_of_a_response() {
    let mut inspector = inspector();
    let resolver = key(17, 53);
    let mut record_of = |kind, count| {
        let mut flow = InspectState::default();
        let response = dns_with_addresses(kind, count);
        let packet = segment(&resolver, 0, 1, 0, &response);
        inspector.observe(&mut flow, &packet, || resolver);
        let record = inspector.finish(&mut flow, &resolver);
        let addresses = record.dns.unwrap().addresses.unwrap();
        let last = addresses.split(',').next_back().unwrap().to_owned();
        (addresses.split(',').count(), last, record.incomplete)
    };
    let last = "253.253.253.15".to_owned();
    assert_eq!(record_of(1, 16), (16, last, Incomplete::default()));
    // As many complete addresses as fit.
    let fd = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd";
    assert_eq!(
        record_of(28, 8),
        (8, format!("{fd}07"), Incomplete::default())
    );
    assert_eq!(record_of(28, 9), (8, format!("{fd}07"), Incomplete::TEXT));
    assert_eq!(record_of(1, 33).2, Incomplete::TEXT);
    let mut web = key(6, 443);
    web.destination[..4].copy_from_slice(&[253, 253, 253, 31]);
    let mut flow = InspectState::default();
    inspector.observe(&mut flow, &segment(&web, 1, 0, 0, &[]), || web);
    let resolved = inspector.finish(&mut flow, &web).resolved;
    assert_eq!(resolved.map(|it| it.name), Some("many.example".into()));
}

/// The record of a query and its response, of which only `captured` bytes each were captured.
fn truncated_dns_record(query: &[u8], response: &[u8], there: usize) -> AppRecord {
    let mut inspector = inspector();
    let resolver = key(17, 53);
    let mut flow = InspectState::default();
    for (direction, message) in (0..).zip([query, response]) {
        let time = 1_000_000 * i64::from(direction);
        let captured = &message[..message.len().min(there)];
        let mut packet = segment(&resolver, time, direction, 0, captured);
        packet.payload_length = message.len() as u32;
        inspector.observe(&mut flow, &packet, || resolver);
    }
    let record = inspector.finish(&mut flow, &resolver);
    assert_idle(&inspector);
    record
}

#[test]
fn records_captured_part_of_dns_response() {
    let query = dns_of(false, 3, "many.example", 1);
    let mut response = dns_with_addresses(1, 3);
    let plain = response.len();
    // The EDNS record has the upper bits of BADVERS.
    response[11] = 1;
    response.extend([0, 0, 41, 16, 0, 1, 0, 0, 0, 0, 0]);
    let whole = truncated_dns_record(&query, &response, usize::MAX);
    assert_eq!(whole.incomplete, Incomplete::default());
    let whole = whole.dns.unwrap();
    assert_eq!((whole.response_code, whole.ttl_s), (Some(16), Some(60)));
    for (there, addresses, ttl_s) in [
        (
            plain + 10,
            Some("253.253.253.0,253.253.253.1,253.253.253.2"),
            Some(60),
        ),
        (plain - 1, Some("253.253.253.0,253.253.253.1"), None),
        (query.len(), None, None),
        // Only part of the question.
        (20, None, None),
        (12, None, None),
    ] {
        let record = truncated_dns_record(&query, &response, there);
        assert_eq!(record.incomplete, Incomplete::SNAPLEN, "{there}");
        let dns = record.dns.unwrap();
        assert_eq!((dns.queries, dns.responses), (1, 1), "{there}");
        assert_eq!(dns.query.is_some(), there > 20);
        assert_eq!(dns.addresses.as_deref(), addresses);
        assert_eq!((dns.response_code, dns.ttl_s), (Some(0), ttl_s), "{there}");
        assert_eq!((dns.answers, dns.latency_ns), (Some(3), Some(1_000_000)));
    }
    // The header has the lower bits of the code.
    response.truncate(plain);
    (response[3], response[11]) = (3, 0);
    let record = truncated_dns_record(&query, &response, 20);
    assert_eq!(record.dns.unwrap().response_code, Some(3));
    let record = truncated_dns_record(&query, &response, 11);
    assert_eq!((record.dns, record.incomplete), (None, Incomplete::SNAPLEN));
}

/// The same over TCP, in one segment and in two of which the second is truncated.
#[test]
fn records_captured_part_of_dns_response_over_tcp() {
    let query = dns_of(false, 3, "many.example", 1);
    let response = dns_with_addresses(1, 3);
    let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let [framed_query, framed_response] = [framed(&query), framed(&response)];
    for (there, first, addresses) in [
        (response.len() - 1, 0, Some("253.253.253.0,253.253.253.1")),
        (response.len() - 1, 2, Some("253.253.253.0,253.253.253.1")),
        (response.len() - 1, 30, Some("253.253.253.0,253.253.253.1")),
        (query.len(), 0, None),
        (12, 0, None),
        (12, 2, None),
    ] {
        let mut conversation = Conversation::new(53);
        conversation.connect(0, 0);
        conversation.send(0, 1, &framed_query);
        // Twice the same, then a complete one: the position in the stream is not lost.
        for at in [0, framed_response.len()] {
            let start = 1 + at as u32;
            conversation.send(1, start, &framed_response[..first]);
            let captured = &framed_response[first..2 + there];
            let mut packet = segment(
                &conversation.key,
                9_000_000,
                1,
                start + first as u32,
                captured,
            );
            packet.payload_length = (framed_response.len() - first) as u32;
            conversation
                .inspector
                .observe(&mut conversation.state, &packet, || conversation.key);
        }
        conversation.send(1, 1 + 2 * framed_response.len() as u32, &framed_response);
        let record = conversation.finish();
        assert_eq!(record.incomplete, Incomplete::SNAPLEN, "{there} {first}");
        let dns = record.dns.unwrap();
        assert_eq!((dns.queries, dns.responses), (1, 3), "{there} {first}");
        assert_eq!(dns.addresses.as_deref(), addresses);
        assert_eq!((dns.answers, dns.ttl_s), (Some(3), None));
    }
}

/// The first fragment of a datagram is captured completely.
#[test]
fn fragmented_dns_response_is_not_marked_as_truncated() {
    let mut inspector = inspector();
    let resolver = key(17, 53);
    let response = dns_with_addresses(1, 3);
    let packet = segment(&resolver, 0, 1, 0, &response[..response.len() - 8]);
    let mut flow = InspectState::default();
    inspector.observe(&mut flow, &packet, || resolver);
    let record = inspector.finish(&mut flow, &resolver);
    assert_eq!(record.incomplete, Incomplete::default());
    let dns = record.dns.unwrap();
    assert_eq!((dns.response_code, dns.ttl_s), (Some(0), None));
    assert_eq!((dns.answers, dns.responses), (Some(3), 1));
}

#[test]
fn records_gap_in_request_without_response_time() {
    let request = b"POST /up HTTP/1.1\r\nHost: h.example\r\nCookie: a";
    // First the end of the head is missing, then all of it.
    for (there, requests) in [(request.len(), 1), (0, 0)] {
        let mut conversation = Conversation::new(80);
        conversation.send_syn(0, 0);
        if there > 0 {
            conversation.send(0, 1, &request[..there]);
        }
        for at in (500..).step_by(8).take(30) {
            conversation.send(0, at, b"bodypart");
        }
        conversation.send(1, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let record = conversation.finish();
        assert_eq!(record.incomplete, Incomplete::GAP);
        let http = record.http.unwrap();
        assert_eq!((http.requests, http.responses), (requests, 1));
        assert_eq!(http.host.is_some(), there > 0);
        assert_eq!(http.first_byte_ns, None);
    }
}

#[test]
fn evicted_request_has_no_response_time() {
    let limits = InspectorLimits {
        reassembly_buffers_max: 1,
        ..InspectorLimits::default()
    };
    let mut inspector = Inspector::new(4, &limits, Arc::default(), 1).unwrap();
    let web = key(6, 80);
    let [mut one, mut other] = [InspectState::default(); 2];
    let half = b"GET / HTTP/1.1\r\nHost: h.example\r\n";
    inspector.observe(&mut one, &segment(&web, 1, 0, 1, half), || web);
    inspector.observe(&mut other, &segment(&web, 1000, 0, 1, half), || web);
    let packet = segment(&web, 2000, 1, 1, b"HTTP/1.1 200 OK\r\n\r\n");
    inspector.observe(&mut one, &packet, || web);
    let record = inspector.finish(&mut one, &web);
    assert_eq!(record.incomplete, Incomplete::REASSEMBLY);
    let http = record.http.unwrap();
    assert_eq!(http.host.as_deref(), Some("h.example"));
    assert_eq!((http.responses, http.first_byte_ns), (1, None));
    let _ = inspector.finish(&mut other, &web);
    assert_idle(&inspector);
}

#[test]
fn response_before_any_request_has_no_response_time() {
    let early = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    // Complete, and with its end after the request.
    for there in [early.len(), 20] {
        let mut conversation = Conversation::new(80);
        conversation.send(1, 1, &early[..there]);
        conversation.send(0, 1, b"GET / HTTP/1.1\r\n\r\n");
        if there < early.len() {
            conversation.send(1, 1 + there as u32, &early[there..]);
        }
        conversation.send(1, 1 + early.len() as u32, b"HTTP/1.1 404 No\r\n\r\n");
        let http = conversation.finish().http.unwrap();
        assert_eq!((http.requests, http.responses), (1, 2));
        assert_eq!((http.status, http.first_byte_ns), (Some(200), None));
    }
}
