//! Inspection of hand-made streams and datagrams, in any order and with any limits.

mod connections;
mod dtls;
mod gaps;
mod handshakes;
mod http;
mod media;
mod quic;
mod ssh;

use super::*;
use crate::inspect_state::Stage;
use crate::parser::{TCP_PROBE_PACKETS, UDP_PROBE_PACKETS};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::FlowKey;
use wire::tcp::flag;

mod messages;
mod names;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn inspector() -> Inspector {
    Inspector::new(16, &InspectorLimits::default(), Arc::default(), 1).unwrap()
}

fn key(protocol: u8, destination_port: u16) -> FlowKey {
    let mut key = FlowKey {
        version: 4,
        protocol,
        source_port: 40_000,
        destination_port,
        ..FlowKey::default()
    };
    key.source[..4].copy_from_slice(&CLIENT.octets());
    key.destination[..4].copy_from_slice(&SERVER.octets());
    key
}

/// A packet of the flow with `key`, captured completely.
fn segment<'a>(
    key: &FlowKey,
    time_ns: i64,
    direction: u8,
    sequence: u32,
    payload: &'a [u8],
) -> L4Payload<'a> {
    let (source_port, destination_port) = if direction == 0 {
        (key.source_port, key.destination_port)
    } else {
        (key.destination_port, key.source_port)
    };
    L4Payload {
        time_ns,
        direction,
        protocol: key.protocol,
        tcp_flags: 0,
        sequence,
        acknowledgement: 0,
        source_port,
        destination_port,
        payload,
        payload_length: payload.len() as u32,
    }
}

/// The record of a flow that the active timeout splits.
fn snapshot(inspector: &mut Inspector, state: &mut InspectState, key: &FlowKey) -> AppRecord {
    let mut record = AppRecord::default();
    inspector.snapshot(&mut record, state, key);
    record
}

#[test]
fn record_is_incomplete_after_loss_of_earlier_data() {
    let mut inspector = inspector();
    for (protocol, payload) in [(17, &b"nothing known"[..]), (6, b""), (132, b"")] {
        let key = key(protocol, 9);
        let mut state = InspectState(Stage::Resumed { with_loss: true });
        let mut packet = segment(&key, 0, 0, 1, payload);
        packet.tcp_flags = flag::SYN;
        inspector.observe(&mut state, &packet, || key);
        assert_eq!(
            inspector.finish(&mut state, &key).incomplete,
            Incomplete::TEXT
        );
        assert_idle(&inspector);
    }
}

/// A TCP flow whose segments a test sends, with any sequence numbers.
struct Conversation {
    inspector: Inspector,
    state: InspectState,
    key: FlowKey,
    time_ns: i64,
}

impl Conversation {
    fn new(port: u16) -> Self {
        Self {
            inspector: inspector(),
            state: InspectState::default(),
            key: key(6, port),
            time_ns: 0,
        }
    }

    fn send_syn(&mut self, direction: u8, sequence: u32) {
        self.send_flags(flag::SYN, direction, sequence);
    }

    fn send_flags(&mut self, tcp_flags: u8, direction: u8, sequence: u32) {
        let mut packet = segment(&self.key, self.time_ns, direction, sequence, &[]);
        packet.tcp_flags = tcp_flags;
        self.inspector
            .observe(&mut self.state, &packet, || self.key);
    }

    fn send(&mut self, direction: u8, sequence: u32, payload: &[u8]) {
        self.time_ns += 1_000_000;
        let packet = segment(&self.key, self.time_ns, direction, sequence, payload);
        self.inspector
            .observe(&mut self.state, &packet, || self.key);
    }

    /// Sends a proxy's handshake and a ClientHello. The server's TLS records start at sequence number
    /// 20.
    fn send_hello_through_proxy(&mut self) {
        let connect = b"CONNECT s.example:443 HTTP/1.1\r\nHost: s.example:443\r\n\r\n";
        self.send(0, 1, connect);
        self.send(1, 1, b"HTTP/1.1 200 OK\r\n\r\n");
        self.send(0, 1 + connect.len() as u32, &client_hello("s.example", 0));
    }

    fn finish(mut self) -> AppRecord {
        let record = self.inspector.finish(&mut self.state, &self.key);
        assert_idle(&self.inspector);
        record
    }
}

fn assert_idle(inspector: &Inspector) {
    assert!(
        inspector.is_idle(),
        "a state, text or buffer was not released"
    );
}

/// A ClientHello in one record: server name, ALPN, versions, and padding up to `length`.
fn client_hello(name: &str, length: usize) -> Vec<u8> {
    let mut extensions = vec![0, 0];
    let part = (name.len() as u16 + 3).to_be_bytes();
    extensions.extend((name.len() as u16 + 5).to_be_bytes());
    extensions.extend(part);
    extensions.push(0);
    extensions.extend((name.len() as u16).to_be_bytes());
    extensions.extend(name.as_bytes());
    extensions.extend(b"\0\x10\0\x0e\0\x0c\x02h2\x08http/1.1");
    extensions.extend([0, 43, 0, 5, 4, 3, 4, 3, 3]);
    let padding = length.saturating_sub(extensions.len());
    extensions.extend([0, 21]);
    extensions.extend((padding as u16).to_be_bytes());
    extensions.resize(extensions.len() + padding, 0);
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(32);
    body.extend([9; 32]);
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    record(22, &message(1, &body))
}

fn server_hello(tls_1_3: bool) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([8; 32]);
    body.push(32);
    body.extend([9; 32]);
    body.extend([0x13, 1, 0]);
    if tls_1_3 {
        body.extend([0, 6, 0, 43, 0, 2, 3, 4]);
    } else {
        body.extend([0, 9, 0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
    }
    record(22, &message(2, &body))
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(&(body.len() as u32).to_be_bytes()[1..]);
    bytes.extend(body);
    bytes
}

fn record(content: u8, fragment: &[u8]) -> Vec<u8> {
    let mut bytes = vec![content, 3, 3];
    bytes.extend((fragment.len() as u16).to_be_bytes());
    bytes.extend(fragment);
    bytes
}

fn name_of(record: &AppRecord) -> Option<&str> {
    record.tls.as_ref()?.server_name.as_deref()
}

#[test]
fn records_handshake_with_setup_time() {
    let mut conversation = Conversation::new(443);
    conversation.send_syn(0, 99);
    conversation.send_syn(1, 499);
    let hello = client_hello("www.youtube.com", 0);
    conversation.send(0, 100, &hello);
    conversation.send(1, 500, &server_hello(true));
    let at = 100 + hello.len() as u32;
    conversation.send(0, at, &record(20, &[1]));
    conversation.send(0, at + 6, &record(23, &[0; 40]));
    assert!(
        !conversation.state.needs_packet(1000, 0),
        "needs another packet"
    );
    let record = conversation.finish();
    let tls = record.tls.as_deref().unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("www.youtube.com"));
    assert_eq!(tls.alpn_offered.as_deref(), Some("h2,http/1.1"));
    assert_eq!(tls.versions_offered.as_deref(), Some("0304,0303"));
    assert_eq!((tls.version, tls.cipher), (Some(0x0304), Some(0x1301)));
    assert_eq!(tls.setup_ns, Some(3_000_000));
    assert_eq!(tls.resumed, Some(false));
    assert!(tls.ja4.as_deref().unwrap().starts_with("t13d0104h2_"));
    let application = record.application.unwrap();
    assert_eq!(&*application.name, "YouTube");
    assert_eq!(application.found_by, FoundBy::Sni);
    assert_eq!(record.incomplete, Incomplete::default());
}

#[test]
fn records_session_resumption() {
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, &client_hello("a.example", 0));
    conversation.send(1, 1, &server_hello(false));
    let record = conversation.finish();
    let tls = record.tls.unwrap();
    assert_eq!(tls.resumed, Some(true));
    assert_eq!(tls.alpn_chosen.as_deref(), Some("h2"));
    assert_eq!(tls.setup_ns, None);
}

#[test]
fn reads_hello_up_to_a_gap() {
    let hello = client_hello("lost.example", 1500);
    let mut conversation = Conversation::new(443);
    conversation.send_syn(0, 0);
    conversation.send(0, 1, &hello[..300]);
    conversation.send(0, 900, &hello[899..]);
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("lost.example"));
    assert_eq!(record.tls.as_ref().unwrap().ja4, None);
    assert!(record.incomplete.contains(Incomplete::GAP));
}

#[test]
fn records_truncation_by_snaplen() {
    let hello = client_hello("snapped.example", 900);
    let mut conversation = Conversation::new(443);
    let mut packet = segment(&conversation.key, 0, 0, 1, &hello[..300]);
    packet.payload_length = hello.len() as u32;
    conversation
        .inspector
        .observe(&mut conversation.state, &packet, || conversation.key);
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("snapped.example"));
    assert!(record.incomplete.contains(Incomplete::SNAPLEN));
}

#[test]
fn reads_name_from_first_segment_without_a_buffer() {
    let limits = InspectorLimits {
        reassembly_buffers_max: 0,
        ..InspectorLimits::default()
    };
    let mut conversation = Conversation::new(443);
    conversation.inspector = Inspector::new(16, &limits, Arc::default(), 1).unwrap();
    let hello = client_hello("full.example", 1500);
    conversation.send(0, 1, &hello[..600]);
    conversation.send(0, 601, &hello[600..]);
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("full.example"));
    assert!(record.incomplete.contains(Incomplete::REASSEMBLY));
}

#[test]
fn detects_tls_after_another_protocol() {
    let mut conversation = Conversation::new(25);
    conversation.send_syn(0, 0);
    conversation.send_syn(1, 0);
    conversation.send(1, 1, b"220 mail.example ESMTP\r\n");
    conversation.send(0, 1, b"EHLO a\r\n");
    conversation.send(1, 25, b"250 STARTTLS\r\n");
    conversation.send(0, 9, b"STARTTLS\r\n");
    conversation.send(1, 39, b"220 go\r\n");
    conversation.send(0, 19, &client_hello("mail.example", 0));
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("mail.example"));
    let application = record.application.unwrap();
    assert_eq!(&*application.name, "SMTP");
    assert_eq!(application.found_by, FoundBy::Bytes);
}

#[test]
fn counts_requests_and_responses_after_bodies() {
    let mut conversation = Conversation::new(80);
    let first = b"POST /a HTTP/1.1\r\nHost: h.example:80\r\nContent-Length: 10\r\n\r\nGET / HTTP";
    let second = b"GET /b HTTP/1.1\r\nHost: other.example\r\n\r\nGET /c HTTP/1.1\r\n\r\n";
    conversation.send(0, 1, &first[..50]);
    conversation.send(0, 51, &first[50..]);
    conversation.send(
        1,
        1,
        b"HTTP/1.1 404 No\r\nContent-Type: text/plain\r\nContent-Length: 20\r\n\r\n",
    );
    conversation.send(1, 66, b"HTTP/1.1 20");
    conversation.send(1, 77, b"123456789HTTP/1.1 200 OK\r\n\r\n");
    conversation.send(0, 1 + first.len() as u32, second);
    let record = conversation.finish();
    let http = record.http.unwrap();
    assert_eq!((http.requests, http.responses), (3, 2));
    assert_eq!(http.method.as_deref(), Some("POST"));
    assert_eq!(http.target.as_deref(), Some("/a"));
    assert_eq!(http.host.as_deref(), Some("h.example:80"));
    assert_eq!(http.status, Some(404));
    assert_eq!(http.content_type.as_deref(), Some("text/plain"));
    assert_eq!(http.first_byte_ns, Some(1_000_000));
}

#[test]
fn records_both_names_of_a_proxy_tunnel() {
    let mut conversation = Conversation::new(8080);
    conversation.send_hello_through_proxy();
    conversation.send(1, 20, &server_hello(true));
    let record = conversation.finish();
    assert_eq!(
        record.http.as_ref().unwrap().host.as_deref(),
        Some("s.example:443")
    );
    assert_eq!(name_of(&record), Some("s.example"));
    assert_eq!(record.tls.unwrap().version, Some(0x0304));
}

/// A request with a host and a target.
fn request(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

#[test]
fn flows_share_texts_and_full_pool_is_recorded() {
    let limits = InspectorLimits {
        // Room for the target and two hosts.
        text_bytes: 3 * 68,
        ..InspectorLimits::default()
    };
    let mut inspector = Inspector::new(100, &limits, Arc::default(), 1).unwrap();
    let mut flows = [InspectState::default(); 81];
    let web = key(6, 80);
    let open_and_request = |inspector: &mut Inspector, flow: &mut InspectState, host: &str| {
        let bytes = request(host);
        inspector.observe(flow, &segment(&web, 0, 0, 1, &bytes), || web);
    };
    let host_and_truncation = |inspector: &mut Inspector, flow: &mut InspectState| {
        let record = inspector.finish(flow, &web);
        let host = record.http.and_then(|http| http.host);
        (
            host.map(String::from),
            record.incomplete.contains(Incomplete::TEXT),
        )
    };
    for slot in 0..40 {
        open_and_request(&mut inspector, &mut flows[slot], "a.example");
        open_and_request(&mut inspector, &mut flows[40 + slot], "b.example");
    }
    open_and_request(&mut inspector, &mut flows[80], "c.example");
    assert_eq!(
        host_and_truncation(&mut inspector, &mut flows[80]),
        (None, true)
    );
    open_and_request(&mut inspector, &mut flows[80], "a.example");
    assert_eq!(
        host_and_truncation(&mut inspector, &mut flows[80]),
        (Some("a.example".into()), false)
    );
    for flow in &mut flows[..40] {
        assert_eq!(
            host_and_truncation(&mut inspector, flow),
            (Some("a.example".into()), false)
        );
    }
    open_and_request(&mut inspector, &mut flows[80], "c.example");
    assert_eq!(
        host_and_truncation(&mut inspector, &mut flows[80]),
        (Some("c.example".into()), false)
    );
    for flow in &mut flows[40..80] {
        assert_eq!(
            host_and_truncation(&mut inspector, flow),
            (Some("b.example".into()), false)
        );
    }
    assert_idle(&inspector);
}

/// A flow of an unknown protocol is probed for a while, but gets no state.
#[test]
fn unknown_datagrams_need_no_state() {
    let mut inspector = Inspector::new(1, &InspectorLimits::default(), Arc::default(), 1).unwrap();
    let (resolver, unknown_key) = (key(17, 53), key(17, 4242));
    let (mut dns_flow, mut unknown) = (InspectState::default(), InspectState::default());
    let query = dns(false, 7);
    inspector.observe(&mut dns_flow, &segment(&resolver, 0, 0, 0, &query), || {
        resolver
    });
    assert_eq!(inspector.flows.available(), 0);
    inspector.observe(&mut unknown, &segment(&unknown_key, 0, 0, 0, &[]), || {
        unknown_key
    });
    for _ in 0..UDP_PROBE_PACKETS {
        assert!(unknown.needs_packet(1, 0));
        let packet = segment(&unknown_key, 0, 0, 0, &[0x17; 40]);
        inspector.observe(&mut unknown, &packet, || unknown_key);
    }
    assert!(!unknown.needs_packet(1, 0));
    assert!(
        !inspector
            .finish(&mut unknown, &unknown_key)
            .incomplete
            .contains(Incomplete::STATES)
    );
    // A flow of a known protocol finds no free state.
    let mut stateless = InspectState::default();
    inspector.observe(&mut stateless, &segment(&resolver, 0, 0, 0, &query), || {
        resolver
    });
    assert!(
        inspector
            .finish(&mut stateless, &resolver)
            .incomplete
            .contains(Incomplete::STATES)
    );
    assert_eq!(
        inspector
            .finish(&mut dns_flow, &resolver)
            .dns
            .unwrap()
            .queries,
        1
    );
    assert_idle(&inspector);
}

fn dns(response: bool, id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([
        if response { 0x81 } else { 1 },
        0x80,
        0,
        1,
        0,
        u8::from(response),
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(b"\x03www\x07netflix\x03com\0\0\x01\0\x01");
    if response {
        bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend(SERVER.octets());
    }
    bytes
}

#[test]
fn flow_has_the_name_its_initiator_resolved() {
    let mut inspector = inspector();
    let mut resolver = key(17, 53);
    resolver.destination[..4].copy_from_slice(&[9, 9, 9, 9]);
    let (query, response) = (dns(false, 7), dns(true, 7));
    let mut dns_flow = InspectState::default();
    let packet = segment(&resolver, 0, 0, 0, &query);
    inspector.observe(&mut dns_flow, &packet, || resolver);
    let packet = segment(&resolver, 2_000, 1, 0, &response);
    inspector.observe(&mut dns_flow, &packet, || resolver);
    let web = key(6, 443);
    let mut syn = segment(&web, 5_000_000, 0, 0, &[]);
    syn.tcp_flags = flag::SYN;
    // With and without a prefetch.
    for mut flow in [InspectState::default(), inspector.prefetch_new_flow(|| web)] {
        inspector.observe(&mut flow, &syn, || web);
        let record = inspector.finish(&mut flow, &web);
        let resolved = record.resolved.unwrap();
        assert_eq!(&*resolved.name, "www.netflix.com");
        assert_eq!(resolved.age_ns, 4_998_000);
        let application = record.application.unwrap();
        assert_eq!(
            (&*application.name, application.found_by),
            ("Netflix", FoundBy::Dns)
        );
    }
    let mut unknown = web;
    unknown.source[..4].copy_from_slice(&[9, 9, 9, 8]);
    let mut flow = inspector.prefetch_new_flow(|| unknown);
    inspector.observe(&mut flow, &syn, || unknown);
    assert_eq!(inspector.finish(&mut flow, &unknown).resolved, None);
    let record = inspector.finish(&mut dns_flow, &resolver);
    let dns = record.dns.unwrap();
    assert_eq!(dns.query.as_deref(), Some("www.netflix.com"));
    assert_eq!((dns.query_type, dns.response_code), (Some(1), Some(0)));
    assert_eq!((dns.answers, dns.ttl_s), (Some(1), Some(60)));
    assert_eq!(dns.addresses.as_deref(), Some("192.0.2.1"));
    assert_eq!(dns.latency_ns, Some(2_000));
    assert_eq!((dns.queries, dns.responses), (1, 1));
    assert_idle(&inspector);
}

#[test]
fn reads_dns_over_tcp_in_segments() {
    let mut conversation = Conversation::new(53);
    for (direction, message) in [(0, dns(false, 3)), (1, dns(true, 3))] {
        let mut stream = (message.len() as u16).to_be_bytes().to_vec();
        stream.extend(message);
        conversation.send(direction, 1, &stream[..1]);
        conversation.send(direction, 2, &stream[1..20]);
        conversation.send(direction, 21, &stream[20..]);
    }
    let record = conversation.finish();
    let dns = record.dns.unwrap();
    assert_eq!(dns.query.as_deref(), Some("www.netflix.com"));
    assert_eq!((dns.queries, dns.responses), (1, 1));
}

fn rtp(sequence: u16, timestamp: u32) -> Vec<u8> {
    let mut bytes = vec![0x80, 0];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes.resize(172, 0xd5);
    bytes
}

/// A packet every 20 ms, one lost, two out of order. Every second packet is 1 ms late, so that the
/// jitter approaches 1 ms.
#[test]
fn measures_rtp_once_identified() {
    let mut inspector = inspector();
    let call = key(17, 30_000);
    let mut order: Vec<u16> = (0..400)
        .map(|index| 65_400_u16.wrapping_add(index))
        .collect();
    order.remove(200);
    order.swap(300, 301);
    let mut flow = InspectState::default();
    for (index, &sequence) in order.iter().enumerate() {
        let tick = u32::from(sequence.wrapping_sub(65_400));
        let time = i64::from(tick) * 20_000_000 + if index % 2 == 0 { 1_000_000 } else { 0 };
        let packet = rtp(sequence, tick * 160);
        let packet = segment(&call, time, 0, 0, &packet);
        inspector.observe(&mut flow, &packet, || call);
    }
    let report = segment(&call, 0, 0, 0, &[0x80, 201, 0, 1, 1, 2, 3, 4]);
    inspector.observe(&mut flow, &report, || call);
    let record = inspector.finish(&mut flow, &call);
    let side = record.rtp[0].as_deref().unwrap();
    assert_eq!((side.ssrc, side.codec()), (0x0102_0304, "PCMU"));
    assert_eq!((side.packets, side.lost, side.out_of_order), (399, 1, 1));
    assert_eq!(side.rtcp_packets, 1);
    let jitter = side.jitter_ns.unwrap() / 1e6;
    assert!((0.9..=1.1).contains(&jitter), "{jitter} ms");
    assert_eq!(&*record.application.unwrap().name, "RTP");
    assert!(record.rtp[1].is_none());
    assert_idle(&inspector);
}

proptest! {
    /// A hello gives the same result whatever its segments and their order.
    #[test]
    fn segments_in_any_order_give_the_name(
        length in 200usize..6000,
        mut cuts in prop::collection::vec(1usize..6000, 0..6),
        order in any::<u64>(),
        first in any::<u32>(),
        repeat: bool,
    ) {
        let hello = client_hello("split.example.org", length);
        cuts.push(0);
        cuts.push(hello.len());
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(hello.len()));
        cuts.sort_unstable();
        let mut pieces: Vec<_> = cuts.windows(2).map(|cut| (cut[0], cut[1])).collect();
        pieces.retain(|(from, to)| from < to);
        let mut state = order | 1;
        for index in (1..pieces.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(index, (state >> 33) as usize % (index + 1));
        }
        let mut conversation = Conversation::new(443);
        conversation.send_syn(0, first);
        conversation.send_syn(1, 7);
        let start = first.wrapping_add(1);
        for &(from, to) in &pieces {
            conversation.send(0, start.wrapping_add(from as u32), &hello[from..to]);
            if repeat {
                conversation.send(0, start.wrapping_add(from as u32), &hello[from..to]);
            }
        }
        conversation.send(1, 8, &server_hello(true));
        let record = conversation.finish();
        prop_assert_eq!(name_of(&record), Some("split.example.org"));
        prop_assert_eq!(record.tls.as_ref().unwrap().version, Some(0x0304));
        prop_assert!(record.tls.unwrap().ja4.is_some());
        prop_assert_eq!(record.incomplete, Incomplete::default());
    }

    /// No sequence of packets panics or leaks a state, text or buffer.
    #[test]
    fn any_packets_leave_nothing_allocated(
        segments in prop::collection::vec(
            (0u32..4, any::<bool>(), 0u8..8, 0u32..3000, 0usize..1500, any::<bool>()), 1..80),
        tiny: bool,
    ) {
        let limits = if tiny {
            InspectorLimits {
                reassembly_buffers_max: 1,
                reassembly_bytes: 600,
                text_bytes: 3 * 68,
                resolved_names_max: 1,
                dns_queries_max: 8,
            }
        } else {
            InspectorLimits::default()
        };
        let mut inspector = Inspector::new(4, &limits, Arc::default(), 1).unwrap();
        let mut flows = [InspectState::default(); 4];
        let hello = client_hello("any.example", 900);
        let request = b"CONNECT a HTTP/1.1\r\nContent-Length: 90\r\n\r\n\
            HTTP/1.1 200 A\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            .repeat(20);
        let answers = dns(true, 1).repeat(10);
        let quic = [0xc0, 0, 0, 0, 1, 8].repeat(300);
        let streams: [&[u8]; 4] = [&hello, &request, &answers, &quic];
        for (slot, direction, what, at, length, tcp) in segments {
            let stream = streams[usize::from(what) / 2];
            let from = (at as usize).min(stream.len());
            let to = (from + length).min(stream.len());
            let flow = key(if tcp { 6 } else { 17 }, [443, 53, 80, 30_000][slot as usize]);
            let mut packet = segment(&flow, 0, u8::from(direction), at, &stream[from..to]);
            packet.payload_length += u32::from(what & 1) * 7;
            packet.tcp_flags = match (at, at % 16) {
                (0, _) => flag::SYN,
                (_, 0) => flag::FIN | flag::ACK,
                (_, 1) => flag::RST,
                _ => flag::ACK,
            };
            packet.acknowledgement = at.wrapping_mul(2);
            inspector.observe(&mut flows[slot as usize], &packet, || flow);
        }
        for flow in &mut flows {
            let _ = inspector.finish(flow, &key(6, 443));
        }
        assert_idle(&inspector);
    }
}
