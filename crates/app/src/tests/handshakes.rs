//! Handshakes in several segments: of many flows at a time, with gaps, and split by the active timeout.

use super::*;

/// Sends payload from the client.
fn send(
    inspector: &mut Inspector,
    flow: &mut InspectState,
    key: &FlowKey,
    sequence: u32,
    payload: &[u8],
) {
    inspector.observe(flow, &segment(key, 0, 0, sequence, payload), || *key);
}

#[test]
fn abandoned_hellos_do_not_block_others() {
    let mut inspector =
        Inspector::new(4096, &InspectorLimits::default(), Arc::default(), 1).unwrap();
    let web = key(6, 443);
    let hello = client_hello("whole.example", 300);
    // The first part of the first hello has the name.
    let half = client_hello("half.example", 300);
    let mut stale = [InspectState::default(); 1100];
    for (number, flow) in stale.iter_mut().enumerate() {
        let there = if number == 0 { 150 } else { 60 };
        send(&mut inspector, flow, &web, 1, &half[..there]);
    }
    let mut read_count = 0;
    for _ in 0..1000 {
        let mut flow = InspectState::default();
        send(&mut inspector, &mut flow, &web, 1, &hello[..60]);
        send(&mut inspector, &mut flow, &web, 61, &hello[60..]);
        let record = inspector.finish(&mut flow, &web);
        let whole = record.tls.as_ref().is_some_and(|tls| tls.ja4.is_some());
        read_count += usize::from(name_of(&record) == Some("whole.example") && whole);
        assert_eq!(record.incomplete, Incomplete::default());
    }
    assert_eq!(read_count, 1000);
    let ends = stale.each_mut().map(|flow| inspector.finish(flow, &web));
    let evicted = ends
        .iter()
        .filter(|it| it.incomplete == Incomplete::REASSEMBLY)
        .count();
    assert_eq!(evicted, 1100 - InspectorLimits::BUFFERS_MIN + 1);
    assert_eq!(name_of(&ends[0]), Some("half.example"));
    assert_idle(&inspector);
}

#[test]
fn stream_continues_at_next_segment_after_eviction() {
    let limits = InspectorLimits {
        reassembly_buffers_max: 1,
        ..InspectorLimits::default()
    };
    let mut inspector = Inspector::new(4, &limits, Arc::default(), 1).unwrap();
    let web = key(6, 443);
    let hello = client_hello("a.example", 300);
    let answer = server_hello(true);
    let [mut one, mut other] = [InspectState::default(); 2];
    send(&mut inspector, &mut one, &web, 1, &hello[..200]);
    // The other direction of the flow evicts the buffer, then another flow does.
    let packet = segment(&web, 0, 1, 1, &answer[..20]);
    inspector.observe(&mut one, &packet, || web);
    send(&mut inspector, &mut other, &web, 1, &hello[..200]);
    let packet = segment(&web, 0, 1, 1, &answer);
    inspector.observe(&mut one, &packet, || web);
    send(&mut inspector, &mut other, &web, 201, &hello[200..]);
    let record = inspector.finish(&mut one, &web);
    assert_eq!(name_of(&record), Some("a.example"));
    assert_eq!(record.tls.unwrap().version, Some(0x0304));
    assert_eq!(record.incomplete, Incomplete::REASSEMBLY);
    let record = inspector.finish(&mut other, &web);
    assert_eq!(name_of(&record), Some("a.example"));
    assert_eq!(record.incomplete, Incomplete::default());
    assert_idle(&inspector);
}

#[test]
fn larger_table_has_more_buffers_in_bounded_memory() {
    let limits = InspectorLimits::default();
    let buffers = [16, 1 << 14, 1 << 16, usize::MAX].map(|flows| limits.reassembly_buffers(flows));
    assert_eq!(buffers, [1024, 4096, 16 << 10, 16 << 10]);
    let none = InspectorLimits {
        text_bytes: 1,
        reassembly_buffers_max: 0,
        ..limits
    };
    let memory = |limits: &InspectorLimits| {
        let inspector = Inspector::new(1 << 20, limits, Arc::default(), 1).unwrap();
        inspector.memory_bytes()
    };
    let limits = InspectorLimits {
        text_bytes: 1,
        ..limits
    };
    assert!(memory(&limits) - memory(&none) < 40 << 20);
}

#[test]
fn reads_hello_with_short_first_record() {
    let hello = client_hello("records.example", 0);
    for first in 1..8 {
        let (one, other) = hello[5..].split_at(first);
        let mut conversation = Conversation::new(443);
        conversation.send(0, 1, &[record(22, one), record(22, other)].concat());
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("records.example"), "{first}");
        assert_eq!(record.incomplete, Incomplete::default());
    }
}

#[test]
fn fields_in_missing_end_of_hello_are_empty() {
    let hello = client_hello("cut.example", 300);
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, &hello[..120]);
    let tls = conversation.finish().tls.unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("cut.example"));
    assert_eq!((tls.ech_offered, tls.resumption_offered), (None, None));
    assert_eq!((tls.versions_offered, tls.ja4), (None, None));
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, &hello);
    let tls = conversation.finish().tls.unwrap();
    let offered = (tls.ech_offered, tls.resumption_offered);
    assert_eq!(offered, (Some(false), Some(false)));
    // Without a ClientHello its offers are unknown.
    let mut conversation = Conversation::new(443);
    conversation.send(1, 1, &server_hello(true));
    let tls = conversation.finish().tls.unwrap();
    assert_eq!((tls.ech_offered, tls.resumption_offered), (None, None));
}

#[test]
fn resumption_needs_the_hellos_that_show_it() {
    let client = || (0, client_hello("a.example", 0));
    let server = |tls_1_3| (1, server_hello(tls_1_3));
    let resumed = |hellos: &[(u8, Vec<u8>)]| {
        let mut conversation = Conversation::new(443);
        for (direction, hello) in hellos {
            conversation.send(*direction, 1, hello);
        }
        conversation.finish().tls.unwrap().resumed
    };
    // Up to TLS 1.2 the server echoes the session ID. The order of the two hellos does not matter.
    assert_eq!(resumed(&[client(), server(false)]), Some(true));
    assert_eq!(resumed(&[server(false), client()]), Some(true));
    let mut other = server(false);
    other.1[9 + 2 + 32 + 1] ^= 1;
    assert_eq!(resumed(&[client(), other.clone()]), Some(false));
    assert_eq!(resumed(&[other, client()]), Some(false));
    assert_eq!(resumed(&[server(false)]), None);
    // In TLS 1.3 the ServerHello alone shows it.
    assert_eq!(resumed(&[server(true)]), Some(false));
    assert_eq!(resumed(&[server(true), client()]), Some(false));
    assert_eq!(resumed(&[client()]), None);
}

#[test]
fn offered_protocols_exclude_grease() {
    let mut hello = client_hello("grease.example", 0);
    let at = hello.windows(3).position(|it| it == b"\x02h2").unwrap();
    hello[at + 1..at + 3].copy_from_slice(&[0x0a, 0x0a]);
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, &hello);
    let tls = conversation.finish().tls.unwrap();
    assert_eq!(tls.alpn_offered.as_deref(), Some("http/1.1"));
}

/// A PostgreSQL server accepts TLS with a byte that may also start an HTTP request.
#[test]
fn buffered_bytes_before_tls_are_skipped() {
    for is_late in [false, true] {
        let mut conversation = Conversation::new(5432);
        conversation.send_syn(0, 0);
        conversation.send_syn(1, 0);
        conversation.send(0, 1, &[0, 0, 0, 8, 4, 210, 22, 47]);
        conversation.send(1, 1, b"S");
        let answer = server_hello(true);
        if is_late {
            conversation.send(1, 22, &answer[20..]);
        }
        conversation.send(0, 9, &client_hello("db.example", 0));
        conversation.send(1, 2, if is_late { &answer[..20] } else { &answer });
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("db.example"));
        assert_eq!(record.tls.unwrap().version, Some(0x0304), "{is_late}");
        assert_eq!(record.incomplete, Incomplete::default());
    }
}

/// The record of a flow at its active timeout.
fn split_by_timeout(conversation: &mut Conversation) -> AppRecord {
    let record = snapshot(
        &mut conversation.inspector,
        &mut conversation.state,
        &conversation.key,
    );
    assert_eq!(record.incomplete, Incomplete::default());
    record
}

#[test]
fn timeout_does_not_interrupt_a_hello() {
    let hello = client_hello("timeout.example", 300);
    for first in [3, 20, 60, 150] {
        let mut conversation = Conversation::new(443);
        conversation.send_syn(0, 0);
        conversation.send(0, 1, &hello[..first]);
        let record = split_by_timeout(&mut conversation);
        let known = (first == 150).then_some("timeout.example");
        assert_eq!(name_of(&record), known);
        let middle = (hello.len() - first) / 2;
        conversation.send(0, 1 + first as u32, &hello[first..first + middle]);
        let _ = split_by_timeout(&mut conversation);
        conversation.send(0, 1 + (first + middle) as u32, &hello[first + middle..]);
        conversation.send(1, 1, &server_hello(true));
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("timeout.example"));
        let tls = record.tls.unwrap();
        assert!(tls.ja4.is_some());
        assert_eq!(tls.version, Some(0x0304));
        assert_eq!(record.incomplete, Incomplete::default());
    }
}

/// Up to TLS 1.2, both hellos are needed to see whether a session was resumed.
#[test]
fn hello_waits_for_its_answer_after_a_timeout() {
    let mut conversation = Conversation::new(443);
    conversation.send_syn(0, 0);
    conversation.send(0, 1, &client_hello("waits.example", 300));
    let record = split_by_timeout(&mut conversation);
    assert_eq!(name_of(&record), Some("waits.example"));
    conversation.send(1, 1, &server_hello(false));
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("waits.example"));
    let tls = record.tls.unwrap();
    // The server echoes the session ID.
    assert_eq!((tls.version, tls.resumed), (Some(0x0303), Some(true)));
}

/// The client's hello stays together with the partial flight of the server. The protocol before TLS
/// does not stay.
#[test]
fn timeout_keeps_hello_with_partial_answer() {
    let mut conversation = Conversation::new(8080);
    conversation.send_hello_through_proxy();
    let answer = server_hello(false);
    conversation.send(1, 20, &answer[..30]);
    let record = split_by_timeout(&mut conversation);
    assert_eq!(name_of(&record), Some("s.example"));
    assert_eq!(record.http.unwrap().requests, 1);
    conversation.send(1, 50, &answer[30..]);
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("s.example"));
    assert_eq!(record.http, None);
    assert_eq!(record.tls.unwrap().version, Some(0x0303));
}

#[test]
fn discards_partial_handshake() {
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, &client_hello("a.example", 300)[..150]);
    let _ = split_by_timeout(&mut conversation);
    conversation
        .inspector
        .resume(&mut conversation.state, false);
    let record = snapshot(
        &mut conversation.inspector,
        &mut conversation.state,
        &conversation.key,
    );
    assert_eq!(record.incomplete, Incomplete::TEXT);
    conversation.inspector.discard(&mut conversation.state);
    assert_eq!(conversation.state, InspectState::default());
    assert_idle(&conversation.inspector);
}

#[test]
fn records_gap_in_hello_without_setup_time() {
    let hello = client_hello("gap.example", 1500);
    let end = 1 + hello.len() as u32;
    // First the second half is missing, then the first half.
    for (from, to, name) in [(0, 800, Some("gap.example")), (800, hello.len(), None)] {
        let mut conversation = Conversation::new(443);
        conversation.send_syn(0, 0);
        conversation.send_syn(1, 0);
        conversation.send(0, 1 + from as u32, &hello[from..to]);
        conversation.send(1, 1, &server_hello(true));
        let data = record(23, &[0; 40]);
        for at in (end..).step_by(data.len()).take(60) {
            conversation.send(0, at, &data);
        }
        assert_eq!(conversation.inspector.services.buffers.allocated(), 0);
        let record = conversation.finish();
        assert_eq!(record.incomplete, Incomplete::GAP);
        assert_eq!(name_of(&record), name);
        let tls = record.tls.unwrap();
        assert_eq!((tls.version, tls.setup_ns), (Some(0x0304), None));
    }
}

#[test]
fn records_gap_in_stream_of_unknown_protocol() {
    let mut conversation = Conversation::new(9);
    conversation.send_syn(0, 0);
    // The first byte of one side is missing, and the other side continues.
    conversation.send(0, 2, b"....");
    for at in (1..).step_by(4).take(usize::from(TCP_PROBE_PACKETS)) {
        conversation.send(1, at, b"....");
    }
    assert_eq!(conversation.finish().incomplete, Incomplete::GAP);
}

/// For example, a load balancer checks its server, and later a client uses the same ports.
#[test]
fn reads_connection_far_behind_the_previous_one() {
    for behind in [(1 << 30) + 10_000, 1_294_967_296, 0x7fff_0000] {
        let mut conversation = Conversation::new(443);
        conversation.send_syn(0, 0);
        conversation.send_syn(1, 0);
        let [client, server] = [1_u32, 1].map(|it| it.wrapping_sub(behind));
        conversation.send(0, client, &client_hello("behind.example", 300));
        conversation.send(1, server, &server_hello(true));
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("behind.example"), "{behind}");
        assert_eq!(record.incomplete, Incomplete::default());
        assert_eq!(record.tls.unwrap().version, Some(0x0304));
    }
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let mut conversation = Conversation::new(80);
    conversation.send(0, 1, request);
    conversation.send(0, 1_u32.wrapping_sub(1_294_967_296), request);
    // A retransmission is not read twice.
    conversation.send(0, 1_u32.wrapping_sub(1_294_967_296), request);
    assert_eq!(conversation.finish().http.unwrap().requests, 2);
}

/// A hello of more suites or extensions than clients send has its name, no JA4, and a mark.
#[test]
fn long_lists_of_a_hello_are_marked() {
    let usual = client_hello("s.example", 0);
    // Suites are behind version, random and session; extensions behind suites and compression.
    let suites_at = 5 + 4 + 2 + 32 + 33;
    let with = |suites: usize, extensions: usize| {
        let mut body = usual[9..suites_at].to_vec();
        body.extend((2 * suites as u16).to_be_bytes());
        body.extend([0x13, 1].repeat(suites));
        body.extend([1, 0]);
        let mut list = usual[suites_at + 8..].to_vec();
        list.extend([0x7a, 0x7b, 0, 0].repeat(extensions));
        body.extend((list.len() as u16).to_be_bytes());
        body.extend(list);
        record(22, &message(1, &body))
    };
    for (suites, extensions, is_read) in [
        (1, 0, true),
        (200, 196, true),
        (201, 0, false),
        (1, 200, false),
    ] {
        let mut conversation = Conversation::new(443);
        conversation.connect(0, 0);
        conversation.send(0, 1, &with(suites, extensions));
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("s.example"));
        let has_ja4 = record.tls.unwrap().ja4.is_some();
        let is_marked = record.incomplete.contains(Incomplete::WORK);
        assert_eq!(
            (has_ja4, is_marked),
            (is_read, !is_read),
            "{suites} {extensions}"
        );
    }
}
