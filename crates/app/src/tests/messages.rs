//! Messages of DNS and HTTP: which of them a record tells.

use super::*;

/// What a request tells that comes in pieces of so many bytes.
fn http_told(request: &str, piece: usize) -> Option<(String, String, u32)> {
    let mut talk = Talk::new(80);
    talk.syn(0, 0);
    for (at, bytes) in (0..).step_by(piece).zip(request.as_bytes().chunks(piece)) {
        talk.say(0, 1 + at, bytes);
    }
    let record = talk.end();
    assert_eq!(record.cut, Cut::default());
    let http = record.http?;
    Some((http.method?.into(), http.target?.into(), http.requests))
}

#[test]
fn a_request_with_any_method_is_told() {
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
        let told = Some((method.to_owned(), "/x".to_owned(), 1));
        assert_eq!(http_told(&request, 1000), told);
        let twice = Some((method.to_owned(), "/x".to_owned(), 2));
        assert_eq!(http_told(&request.repeat(2), 1000), twice);
        if known.contains(&method) {
            for piece in [1, 2, 4, 5, 30] {
                assert_eq!(http_told(&request, piece), told, "{piece}");
            }
        }
        // Behind lines of another protocol the first bytes of a segment are looked at, its lines not.
        let mut talk = Talk::new(80);
        talk.say(0, 1, b"HELLO a\r\n");
        talk.say(0, 10, request.as_bytes());
        let is_seen = talk.end().http.is_some();
        assert_eq!(is_seen, known.contains(&method), "{method}");
    }
    let far = format!("BREW /{} HTTP/1.1\r\n\r\n", "x".repeat(1000));
    let mut talk = Talk::new(80);
    talk.say(0, 1, far.as_bytes());
    let record = talk.end();
    assert!(record.cut.holds(Cut::TEXT));
    let http = record.http.unwrap();
    assert_eq!(http.method.as_deref(), Some("BREW"));
    assert_eq!(http.target.unwrap().len(), 255);
}

#[test]
fn a_request_whose_target_is_none_is_told_by_its_first_line() {
    for (target, told) in [
        (&b"/\xe9t\xe9"[..], "/\u{fffd}t\u{fffd}"),
        (b"/a b.html", "/a b.html"),
        ("/\u{e9}".as_bytes(), "/\u{e9}"),
    ] {
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        for piece in [1, 4, 8, 17, 1000] {
            let mut talk = Talk::new(80);
            talk.syn(0, 0);
            for (at, bytes) in (1..).step_by(piece).zip(request.chunks(piece)) {
                talk.say(0, at, bytes);
            }
            talk.say(1, 1, b"HTTP/1.1 400 Bad\r\n\r\n");
            let record = talk.end();
            assert_eq!(record.cut, Cut::default(), "{told} {piece}");
            let http = record.http.unwrap();
            assert_eq!((http.requests, http.responses), (1, 1));
            assert_eq!(http.method.as_deref(), Some("GET"));
            assert_eq!(http.target.as_deref(), Some(told), "{piece}");
            assert!(http.first_byte_ns.is_some());
        }
    }
}

#[test]
fn empty_lines_before_a_request_hide_nothing() {
    let request = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nok";
    for lines in ["\r\n", "\r\n\r\n"] {
        let told = Some(("POST".to_owned(), "/a".to_owned(), 2));
        assert_eq!(
            http_told(&format!("{lines}{request}").repeat(2), 1000),
            told
        );
        // A line of its own.
        let mut talk = Talk::new(80);
        talk.syn(0, 0);
        talk.say(0, 1, lines.as_bytes());
        talk.say(0, 1 + lines.len() as u32, request.as_bytes());
        let record = talk.end();
        assert_eq!(record.http.unwrap().requests, 1);
        assert_eq!(record.cut, Cut::default());
    }
}

/// A message about one name, with a question, and an address as answer to one of type A.
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

/// What a flow to a resolver tells whose messages come a millisecond apart: its record, and whether
/// it has the answer with the address.
fn dns_told(messages: &[(u8, Vec<u8>)]) -> (DnsRecord, bool) {
    let mut names = names();
    let resolver = key(17, 53);
    let mut flow = Progress::default();
    for (at, (direction, message)) in messages.iter().enumerate() {
        let time = (at as i64 + 1) * 1_000_000;
        let packet = segment(&resolver, time, *direction, 0, message);
        names.observe(&mut flow, &packet, || resolver);
    }
    let record = *names.take(&mut flow, &resolver).dns.unwrap();
    check_nothing_is_held(&names);
    let has_address = record.addresses.as_deref() == Some("192.0.2.1");
    assert_eq!(record.response_code.is_some(), record.answers.is_some());
    assert_eq!(has_address, record.answers == Some(1));
    assert_eq!(has_address, record.ttl_s == Some(60));
    (record, has_address)
}

#[test]
fn the_answer_is_that_to_the_question() {
    let ask = |id, name, kind| (0, dns_of(false, id, name, kind));
    let answer = |id, name, kind| (1, dns_of(true, id, name, kind));
    let told = |record: &DnsRecord| (record.query.clone().unwrap(), record.query_type.unwrap());
    // As a stub resolver asks for both kinds of addresses: the other question is answered first.
    let (record, has_address) = dns_told(&[
        ask(1, "w.example", 1),
        ask(2, "w.example", 28),
        answer(2, "w.example", 28),
        answer(1, "w.example", 1),
    ]);
    assert_eq!(told(&record), ("w.example".into(), 1));
    assert!(has_address);
    assert_eq!(record.latency_ns, Some(3_000_000));
    assert_eq!((record.queries, record.responses), (2, 2));
    // Another id, another question with the same id, the same way as the query: strangers.
    let strangers = [
        answer(9, "w.example", 1),
        answer(1, "v.example", 1),
        answer(1, "w.example", 28),
        (0, dns_of(true, 1, "w.example", 1)),
    ];
    for stranger in strangers {
        let (record, has_address) = dns_told(&[ask(1, "w.example", 1), stranger.clone()]);
        assert_eq!((has_address, record.responses), (false, 1));
        assert_eq!((record.response_code, record.latency_ns), (None, None));
        let last = answer(1, "W.exAMPLE", 1);
        let (record, has_address) = dns_told(&[ask(1, "w.example", 1), stranger, last]);
        assert_eq!((has_address, record.responses), (true, 2));
        assert_eq!(record.latency_ns, Some(2_000_000));
    }
    // A server that does not understand repeats no question (RFC 1035 section 4.1.1).
    let mut refusal = dns_of(true, 1, "w.example", 28);
    refusal.truncate(12);
    (refusal[3], refusal[5]) = (1, 0);
    let (record, _) = dns_told(&[ask(1, "w.example", 1), (1, refusal)]);
    assert_eq!((record.response_code, record.answers), (Some(1), Some(0)));
}

#[test]
fn a_response_stands_for_itself_until_a_query_is_seen() {
    let responses = [
        (1, dns_of(true, 5, "old.example", 1)),
        (1, dns_of(true, 6, "later.example", 28)),
    ];
    let (record, has_address) = dns_told(&responses);
    assert_eq!(record.query.as_deref(), Some("old.example"));
    assert_eq!((has_address, record.latency_ns), (true, None));
    let [old, _] = responses;
    let query = (0, dns_of(false, 7, "new.example", 28));
    let (record, has_address) = dns_told(&[old.clone(), query.clone()]);
    assert_eq!(record.query.as_deref(), Some("new.example"));
    assert_eq!((has_address, record.response_code), (false, None));
    let answer = (1, dns_of(true, 7, "new.example", 28));
    let (record, _) = dns_told(&[old.clone(), query, answer]);
    assert_eq!(
        (record.answers, record.latency_ns),
        (Some(0), Some(1_000_000))
    );
    assert_eq!((record.queries, record.responses), (1, 2));
    // Its own query, which comes late.
    let late = (0, dns_of(false, 5, "old.example", 1));
    let (record, has_address) = dns_told(&[old, late]);
    assert_eq!((has_address, record.latency_ns), (true, None));
}

/// A response with so many addresses, the last octet of each its number.
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
fn all_addresses_of_a_response_are_told_and_remembered() {
    let mut names = names();
    let resolver = key(17, 53);
    let mut tell = |kind, count| {
        let mut asked = Progress::default();
        let response = dns_with_addresses(kind, count);
        let packet = segment(&resolver, 0, 1, 0, &response);
        names.observe(&mut asked, &packet, || resolver);
        let record = names.take(&mut asked, &resolver);
        let addresses = record.dns.unwrap().addresses.unwrap();
        let last = addresses.split(',').next_back().unwrap().to_owned();
        (addresses.split(',').count(), last, record.cut)
    };
    let last = "253.253.253.15".to_owned();
    assert_eq!(tell(1, 16), (16, last, Cut::default()));
    // As many whole ones as fit.
    let fd = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd";
    assert_eq!(tell(28, 8), (8, format!("{fd}07"), Cut::default()));
    assert_eq!(tell(28, 9), (8, format!("{fd}07"), Cut::TEXT));
    assert_eq!(tell(1, 33).2, Cut::TEXT);
    let mut web = key(6, 443);
    web.destination[..4].copy_from_slice(&[253, 253, 253, 31]);
    let mut opened = Progress::default();
    names.observe(&mut opened, &segment(&web, 1, 0, 0, &[]), || web);
    let resolved = names.take(&mut opened, &web).resolved;
    assert_eq!(resolved.map(|it| it.name), Some("many.example".into()));
}

/// What a flow to a resolver tells of a query and the answer to it, of which so many bytes of each
/// were captured.
fn dns_cut_told(query: &[u8], response: &[u8], there: usize) -> NamesRecord {
    let mut names = names();
    let resolver = key(17, 53);
    let mut flow = Progress::default();
    for (direction, message) in (0..).zip([query, response]) {
        let time = 1_000_000 * i64::from(direction);
        let captured = &message[..message.len().min(there)];
        let mut packet = segment(&resolver, time, direction, 0, captured);
        packet.payload_length = message.len() as u32;
        names.observe(&mut flow, &packet, || resolver);
    }
    let record = names.take(&mut flow, &resolver);
    check_nothing_is_held(&names);
    record
}

#[test]
fn of_a_dns_response_that_the_snap_length_cut_what_is_there_is_told() {
    let query = dns_of(false, 3, "many.example", 1);
    let mut response = dns_with_addresses(1, 3);
    let plain = response.len();
    // EDNS, whose record has the upper bits of BADVERS.
    response[11] = 1;
    response.extend([0, 0, 41, 16, 0, 1, 0, 0, 0, 0, 0]);
    let whole = dns_cut_told(&query, &response, usize::MAX);
    assert_eq!(whole.cut, Cut::default());
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
        // Part of the question.
        (20, None, None),
        (12, None, None),
    ] {
        let record = dns_cut_told(&query, &response, there);
        assert_eq!(record.cut, Cut::SNAP_LENGTH, "{there}");
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
    let record = dns_cut_told(&query, &response, 20);
    assert_eq!(record.dns.unwrap().response_code, Some(3));
    let record = dns_cut_told(&query, &response, 11);
    assert_eq!((record.dns, record.cut), (None, Cut::SNAP_LENGTH));
}

/// As over UDP; in one segment, and in two of which the second is cut.
#[test]
fn a_dns_response_over_tcp_that_the_snap_length_cut_counts() {
    let query = dns_of(false, 3, "many.example", 1);
    let response = dns_with_addresses(1, 3);
    let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let [asked, answered] = [framed(&query), framed(&response)];
    for (there, first, addresses) in [
        (response.len() - 1, 0, Some("253.253.253.0,253.253.253.1")),
        (response.len() - 1, 2, Some("253.253.253.0,253.253.253.1")),
        (response.len() - 1, 30, Some("253.253.253.0,253.253.253.1")),
        (query.len(), 0, None),
        (12, 0, None),
        (12, 2, None),
    ] {
        let mut talk = Talk::new(53);
        talk.connect(0, 0);
        talk.say(0, 1, &asked);
        // Twice the same, and then another that is whole: the place in the stream is known.
        for at in [0, answered.len()] {
            let start = 1 + at as u32;
            talk.say(1, start, &answered[..first]);
            let captured = &answered[first..2 + there];
            let mut packet = segment(&talk.key, 9_000_000, 1, start + first as u32, captured);
            packet.payload_length = (answered.len() - first) as u32;
            talk.names.observe(&mut talk.progress, &packet, || talk.key);
        }
        talk.say(1, 1 + 2 * answered.len() as u32, &answered);
        let record = talk.end();
        assert_eq!(record.cut, Cut::SNAP_LENGTH, "{there} {first}");
        let dns = record.dns.unwrap();
        assert_eq!((dns.queries, dns.responses), (1, 3), "{there} {first}");
        assert_eq!(dns.addresses.as_deref(), addresses);
        assert_eq!((dns.answers, dns.ttl_s), (Some(3), None));
    }
}

/// A first fragment has no more bytes than were captured of it.
#[test]
fn a_dns_response_in_fragments_is_not_cut_by_the_snap_length() {
    let mut names = names();
    let resolver = key(17, 53);
    let response = dns_with_addresses(1, 3);
    let packet = segment(&resolver, 0, 1, 0, &response[..response.len() - 8]);
    let mut flow = Progress::default();
    names.observe(&mut flow, &packet, || resolver);
    let record = names.take(&mut flow, &resolver);
    assert_eq!(record.cut, Cut::default());
    let dns = record.dns.unwrap();
    assert_eq!((dns.response_code, dns.ttl_s), (Some(0), None));
    assert_eq!((dns.answers, dns.responses), (Some(3), 1));
}

#[test]
fn a_gap_in_a_request_that_is_given_up_is_told_and_gives_no_time() {
    let request = b"POST /up HTTP/1.1\r\nHost: h.example\r\nCookie: a";
    // The end of the head is missing, then all of it.
    for (there, requests) in [(request.len(), 1), (0, 0)] {
        let mut talk = Talk::new(80);
        talk.syn(0, 0);
        if there > 0 {
            talk.say(0, 1, &request[..there]);
        }
        for at in (500..).step_by(8).take(30) {
            talk.say(0, at, b"bodypart");
        }
        talk.say(1, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let record = talk.end();
        assert_eq!(record.cut, Cut::GAP);
        let http = record.http.unwrap();
        assert_eq!((http.requests, http.responses), (requests, 1));
        assert_eq!(http.host.is_some(), there > 0);
        assert_eq!(http.first_byte_ns, None);
    }
}

#[test]
fn a_request_that_has_made_room_gives_no_time() {
    let limits = NamesLimits {
        assemblies_max: 1,
        ..NamesLimits::default()
    };
    let mut names = Names::new(4, &limits, Arc::default(), 1).unwrap();
    let web = key(6, 80);
    let [mut one, mut other] = [Progress::default(); 2];
    let half = b"GET / HTTP/1.1\r\nHost: h.example\r\n";
    names.observe(&mut one, &segment(&web, 1, 0, 1, half), || web);
    names.observe(&mut other, &segment(&web, 1000, 0, 1, half), || web);
    let packet = segment(&web, 2000, 1, 1, b"HTTP/1.1 200 OK\r\n\r\n");
    names.observe(&mut one, &packet, || web);
    let record = names.take(&mut one, &web);
    assert_eq!(record.cut, Cut::ASSEMBLY);
    let http = record.http.unwrap();
    assert_eq!(http.host.as_deref(), Some("h.example"));
    assert_eq!((http.responses, http.first_byte_ns), (1, None));
    let _ = names.take(&mut other, &web);
    check_nothing_is_held(&names);
}

#[test]
fn a_response_before_any_request_has_no_time_nor_has_the_next() {
    let early = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    // Whole, and with its end behind the request.
    for there in [early.len(), 20] {
        let mut talk = Talk::new(80);
        talk.say(1, 1, &early[..there]);
        talk.say(0, 1, b"GET / HTTP/1.1\r\n\r\n");
        if there < early.len() {
            talk.say(1, 1 + there as u32, &early[there..]);
        }
        talk.say(1, 1 + early.len() as u32, b"HTTP/1.1 404 No\r\n\r\n");
        let http = talk.end().http.unwrap();
        assert_eq!((http.requests, http.responses), (1, 2));
        assert_eq!((http.status, http.first_byte_ns), (Some(200), None));
    }
}
