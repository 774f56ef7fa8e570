//! Handshakes of many flows that come in pieces, and of one that a record's end cuts.

use super::*;

/// A client's bytes, put in order behind its SYN.
fn say(names: &mut Names, flow: &mut Progress, key: &FlowKey, sequence: u32, payload: &[u8]) {
    names.observe(flow, &segment(key, 0, 0, sequence, payload), || *key);
}

#[test]
fn hellos_that_never_end_keep_no_other_from_being_read() {
    let mut names = Names::new(4096, &NamesLimits::default(), Arc::default(), 1).unwrap();
    let web = key(6, 443);
    let hello = client_hello("whole.example", 300);
    // The name of the first is in the half that is there.
    let half = client_hello("half.example", 300);
    let mut stale = [Progress::default(); 1100];
    for (number, flow) in stale.iter_mut().enumerate() {
        let there = if number == 0 { 150 } else { 60 };
        say(&mut names, flow, &web, 1, &half[..there]);
    }
    let mut heard = 0;
    for _ in 0..1000 {
        let mut flow = Progress::default();
        say(&mut names, &mut flow, &web, 1, &hello[..60]);
        say(&mut names, &mut flow, &web, 61, &hello[60..]);
        let record = names.take(&mut flow, &web);
        let whole = record.tls.as_ref().is_some_and(|tls| tls.ja4.is_some());
        heard += usize::from(name_of(&record) == Some("whole.example") && whole);
        assert_eq!(record.cut, Cut::default());
    }
    assert_eq!(heard, 1000);
    let ends = stale.each_mut().map(|flow| names.take(flow, &web));
    let room_made = ends.iter().filter(|it| it.cut == Cut::ASSEMBLY).count();
    assert_eq!(room_made, 1100 - NamesLimits::ASSEMBLIES_LEAST + 1);
    assert_eq!(name_of(&ends[0]), Some("half.example"));
    check_nothing_is_held(&names);
}

#[test]
fn what_has_made_room_goes_on_where_the_next_segment_begins() {
    let limits = NamesLimits {
        assemblies_max: 1,
        ..NamesLimits::default()
    };
    let mut names = Names::new(4, &limits, Arc::default(), 1).unwrap();
    let web = key(6, 443);
    let hello = client_hello("a.example", 300);
    let answer = server_hello(true);
    let [mut one, mut other] = [Progress::default(); 2];
    say(&mut names, &mut one, &web, 1, &hello[..200]);
    // Its own other direction, then another flow.
    let packet = segment(&web, 0, 1, 1, &answer[..20]);
    names.observe(&mut one, &packet, || web);
    say(&mut names, &mut other, &web, 1, &hello[..200]);
    let packet = segment(&web, 0, 1, 1, &answer);
    names.observe(&mut one, &packet, || web);
    say(&mut names, &mut other, &web, 201, &hello[200..]);
    let record = names.take(&mut one, &web);
    assert_eq!(name_of(&record), Some("a.example"));
    assert_eq!(record.tls.unwrap().version, Some(0x0304));
    assert_eq!(record.cut, Cut::ASSEMBLY);
    let record = names.take(&mut other, &web);
    assert_eq!(name_of(&record), Some("a.example"));
    assert_eq!(record.cut, Cut::default());
    check_nothing_is_held(&names);
}

#[test]
fn a_larger_table_has_more_buffers_in_bounded_memory() {
    let limits = NamesLimits::default();
    let buffers = [16, 1 << 14, 1 << 16, usize::MAX].map(|flows| limits.assemblies(flows));
    assert_eq!(buffers, [1024, 4096, 16 << 10, 16 << 10]);
    let none = NamesLimits {
        text_bytes: 1,
        assemblies_max: 0,
        ..limits
    };
    let memory = |limits: &NamesLimits| {
        let names = Names::new(1 << 20, limits, Arc::default(), 1).unwrap();
        names.memory_bytes()
    };
    let limits = NamesLimits {
        text_bytes: 1,
        ..limits
    };
    assert!(memory(&limits) - memory(&none) < 40 << 20);
}

#[test]
fn a_hello_whose_first_record_is_short_is_read() {
    let hello = client_hello("records.example", 0);
    for first in 1..8 {
        let (one, other) = hello[5..].split_at(first);
        let mut talk = Talk::new(443);
        talk.say(0, 1, &[record(22, one), record(22, other)].concat());
        let record = talk.end();
        assert_eq!(name_of(&record), Some("records.example"), "{first}");
        assert_eq!(record.cut, Cut::default());
    }
}

#[test]
fn what_the_missing_end_of_a_hello_may_tell_is_empty() {
    let hello = client_hello("cut.example", 300);
    let mut talk = Talk::new(443);
    talk.say(0, 1, &hello[..120]);
    let tls = talk.end().tls.unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("cut.example"));
    assert_eq!((tls.ech_offered, tls.resumption_offered), (None, None));
    assert_eq!((tls.versions_offered, tls.ja4), (None, None));
    let mut talk = Talk::new(443);
    talk.say(0, 1, &hello);
    let tls = talk.end().tls.unwrap();
    let offered = (tls.ech_offered, tls.resumption_offered);
    assert_eq!(offered, (Some(false), Some(false)));
    // Without a ClientHello nothing is known of what it offers.
    let mut talk = Talk::new(443);
    talk.say(1, 1, &server_hello(true));
    let tls = talk.end().tls.unwrap();
    assert_eq!((tls.ech_offered, tls.resumption_offered), (None, None));
}

#[test]
fn whether_a_session_is_resumed_takes_the_hellos_that_tell() {
    let client = || (0, client_hello("a.example", 0));
    let server = |tls_1_3| (1, server_hello(tls_1_3));
    let resumed = |hellos: &[(u8, Vec<u8>)]| {
        let mut talk = Talk::new(443);
        for (direction, hello) in hellos {
            talk.say(*direction, 1, hello);
        }
        talk.end().tls.unwrap().resumed
    };
    // Up to TLS 1.2 the session id comes back, whichever of the two was seen first.
    assert_eq!(resumed(&[client(), server(false)]), Some(true));
    assert_eq!(resumed(&[server(false), client()]), Some(true));
    let mut other = server(false);
    other.1[9 + 2 + 32 + 1] ^= 1;
    assert_eq!(resumed(&[client(), other.clone()]), Some(false));
    assert_eq!(resumed(&[other, client()]), Some(false));
    assert_eq!(resumed(&[server(false)]), None);
    // The server alone tells it in TLS 1.3; the client never does.
    assert_eq!(resumed(&[server(true)]), Some(false));
    assert_eq!(resumed(&[server(true), client()]), Some(false));
    assert_eq!(resumed(&[client()]), None);
}

#[test]
fn grease_is_no_protocol_that_is_offered() {
    let mut hello = client_hello("grease.example", 0);
    let at = hello.windows(3).position(|it| it == b"\x02h2").unwrap();
    hello[at + 1..at + 3].copy_from_slice(&[0x0a, 0x0a]);
    let mut talk = Talk::new(443);
    talk.say(0, 1, &hello);
    let tls = talk.end().tls.unwrap();
    assert_eq!(tls.alpn_offered.as_deref(), Some("http/1.1"));
}

/// PostgreSQL's server says that it speaks TLS by one byte, with which a request of HTTP may begin.
#[test]
fn what_waits_as_text_when_tls_begins_is_not_part_of_it() {
    for is_late in [false, true] {
        let mut talk = Talk::new(5432);
        talk.syn(0, 0);
        talk.syn(1, 0);
        talk.say(0, 1, &[0, 0, 0, 8, 4, 210, 22, 47]);
        talk.say(1, 1, b"S");
        let answer = server_hello(true);
        if is_late {
            talk.say(1, 22, &answer[20..]);
        }
        talk.say(0, 9, &client_hello("db.example", 0));
        talk.say(1, 2, if is_late { &answer[..20] } else { &answer });
        let record = talk.end();
        assert_eq!(name_of(&record), Some("db.example"));
        assert_eq!(record.tls.unwrap().version, Some(0x0304), "{is_late}");
        assert_eq!(record.cut, Cut::default());
    }
}

/// The record of a flow that is cut, before it goes on.
fn cut_by_a_timeout(talk: &mut Talk) -> NamesRecord {
    let record = so_far(&mut talk.names, &mut talk.progress, &talk.key);
    assert_eq!(record.cut, Cut::default());
    record
}

#[test]
fn a_hello_that_a_timeout_cuts_is_read_on() {
    let hello = client_hello("goes-on.example", 300);
    for first in [3, 20, 60, 150] {
        let mut talk = Talk::new(443);
        talk.syn(0, 0);
        talk.say(0, 1, &hello[..first]);
        let record = cut_by_a_timeout(&mut talk);
        let known = (first == 150).then_some("goes-on.example");
        assert_eq!(name_of(&record), known);
        let middle = (hello.len() - first) / 2;
        talk.say(0, 1 + first as u32, &hello[first..first + middle]);
        let _ = cut_by_a_timeout(&mut talk);
        talk.say(0, 1 + (first + middle) as u32, &hello[first + middle..]);
        talk.say(1, 1, &server_hello(true));
        let record = talk.end();
        assert_eq!(name_of(&record), Some("goes-on.example"));
        let tls = record.tls.unwrap();
        assert!(tls.ja4.is_some());
        assert_eq!(tls.version, Some(0x0304));
        assert_eq!(record.cut, Cut::default());
    }
}

/// It takes both hellos to tell whether a session was resumed up to TLS 1.2.
#[test]
fn a_hello_waits_for_its_answer_beyond_a_timeout() {
    let mut talk = Talk::new(443);
    talk.syn(0, 0);
    talk.say(0, 1, &client_hello("waits.example", 300));
    let record = cut_by_a_timeout(&mut talk);
    assert_eq!(name_of(&record), Some("waits.example"));
    talk.say(1, 1, &server_hello(false));
    let record = talk.end();
    assert_eq!(name_of(&record), Some("waits.example"));
    let tls = record.tls.unwrap();
    // The server gives the session back.
    assert_eq!((tls.version, tls.resumed), (Some(0x0303), Some(true)));
}

/// With the server's half-read flight the client's hello stays, and what went before TLS does not.
#[test]
fn what_is_known_beside_half_a_handshake_stays() {
    let mut talk = Talk::new(8080);
    talk.say_hello_through_a_proxy();
    let answer = server_hello(false);
    talk.say(1, 20, &answer[..30]);
    let record = cut_by_a_timeout(&mut talk);
    assert_eq!(name_of(&record), Some("s.example"));
    assert_eq!(record.http.unwrap().requests, 1);
    talk.say(1, 50, &answer[30..]);
    let record = talk.end();
    assert_eq!(name_of(&record), Some("s.example"));
    assert_eq!(record.http, None);
    assert_eq!(record.tls.unwrap().version, Some(0x0303));
}

#[test]
fn half_a_handshake_that_does_not_go_on_is_let_go() {
    let mut talk = Talk::new(443);
    talk.say(0, 1, &client_hello("a.example", 300)[..150]);
    let _ = cut_by_a_timeout(&mut talk);
    talk.names.go_on(&mut talk.progress, false);
    let again = so_far(&mut talk.names, &mut talk.progress, &talk.key);
    assert_eq!(again.cut, Cut::TEXT);
    talk.names.forget(&mut talk.progress);
    assert_eq!(talk.progress, Progress::default());
    check_nothing_is_held(&talk.names);
}

#[test]
fn a_gap_in_a_hello_that_is_given_up_is_told_and_gives_no_set_up_time() {
    let hello = client_hello("gap.example", 1500);
    let end = 1 + hello.len() as u32;
    // The second half is missing, then the first.
    for (from, to, name) in [(0, 800, Some("gap.example")), (800, hello.len(), None)] {
        let mut talk = Talk::new(443);
        talk.syn(0, 0);
        talk.syn(1, 0);
        talk.say(0, 1 + from as u32, &hello[from..to]);
        talk.say(1, 1, &server_hello(true));
        let data = record(23, &[0; 40]);
        for at in (end..).step_by(data.len()).take(60) {
            talk.say(0, at, &data);
        }
        assert_eq!(talk.names.reader.assemblies.taken(), 0);
        let record = talk.end();
        assert_eq!(record.cut, Cut::GAP);
        assert_eq!(name_of(&record), name);
        let tls = record.tls.unwrap();
        assert_eq!((tls.version, tls.setup_ns), (Some(0x0304), None));
    }
}

#[test]
fn a_gap_in_a_stream_that_nothing_is_known_of_is_told() {
    let mut talk = Talk::new(9);
    talk.syn(0, 0);
    // The first byte is missing, and the other side goes on.
    talk.say(0, 2, b"....");
    for at in (1..).step_by(4).take(usize::from(TCP_TRIES)) {
        talk.say(1, at, b"....");
    }
    assert_eq!(talk.end().cut, Cut::GAP);
}

/// As of a balancer that looks whether its server is there, and later a client of the same ports.
#[test]
fn a_connection_that_begins_far_behind_the_one_before_is_read() {
    for behind in [(1 << 30) + 10_000, 1_294_967_296, 0x7fff_0000] {
        let mut talk = Talk::new(443);
        talk.syn(0, 0);
        talk.syn(1, 0);
        let [client, server] = [1_u32, 1].map(|it| it.wrapping_sub(behind));
        talk.say(0, client, &client_hello("behind.example", 300));
        talk.say(1, server, &server_hello(true));
        let record = talk.end();
        assert_eq!(name_of(&record), Some("behind.example"), "{behind}");
        assert_eq!(record.cut, Cut::default());
        assert_eq!(record.tls.unwrap().version, Some(0x0304));
    }
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let mut talk = Talk::new(80);
    talk.say(0, 1, request);
    talk.say(0, 1_u32.wrapping_sub(1_294_967_296), request);
    // What is sent again is not.
    talk.say(0, 1_u32.wrapping_sub(1_294_967_296), request);
    assert_eq!(talk.end().http.unwrap().requests, 2);
}
