//! Names as evidence: which DNS responses name a flow, and which messages of a DNS stream are read.

use super::*;
use crate::protocols::dns as dns_protocol;

/// Inspects one datagram of the flow between the client and a resolver.
fn datagram(inspector: &mut Inspector, resolver: u8, direction: u8, bytes: &[u8]) {
    let mut key = key(17, 53);
    key.destination[..4].copy_from_slice(&[9, 9, 9, resolver]);
    let mut flow = InspectState::default();
    let packet = segment(&key, 1000, direction, 0, bytes);
    inspector.observe(&mut flow, &packet, || key);
    drop(inspector.finish(&mut flow, &key));
}

/// The name of a flow to the server, its source, and how its class was found.
fn named(inspector: &mut Inspector) -> Option<(String, &'static str, Option<FoundBy>)> {
    let web = key(6, 9000);
    let mut flow = InspectState::default();
    let mut syn = segment(&web, 2000, 0, 0, &[]);
    syn.tcp_flags = flag::SYN;
    inspector.observe(&mut flow, &syn, || web);
    let record = inspector.finish(&mut flow, &web);
    let found_by = record.application.map(|application| application.found_by);
    let resolved = record.resolved?;
    Some((resolved.name.as_str().into(), resolved.source(), found_by))
}

#[test]
fn response_without_its_query_replaces_no_name() {
    let mut forged = dns(true, 8);
    let at = forged.windows(7).position(|it| it == b"netflix").unwrap();
    forged[at..at + 7].copy_from_slice(b"example");
    let dns_found = Some(FoundBy::Dns);
    let asked = Some(("www.netflix.com".into(), "query", dns_found));
    let mut inspector = inspector();
    datagram(&mut inspector, 1, 0, &dns(false, 7));
    datagram(&mut inspector, 1, 1, &dns(true, 7));
    assert_eq!(named(&mut inspector), asked);
    assert_eq!(inspector.name_counters(), NameCounters::default());
    // Another ID, another resolver, another question with the right ID.
    datagram(&mut inspector, 1, 1, &forged);
    datagram(&mut inspector, 2, 1, &forged);
    forged[..2].copy_from_slice(&dns(false, 7)[..2]);
    datagram(&mut inspector, 1, 1, &forged);
    assert_eq!(named(&mut inspector), asked);
    let counters = inspector.name_counters();
    assert_eq!((counters.unasked, counters.left_out), (3, 3));
}

#[test]
fn response_without_its_query_is_marked() {
    let mut inspector = inspector();
    datagram(&mut inspector, 1, 1, &dns(true, 7));
    let name = "www.netflix.com".to_owned();
    let marked = Some((name.clone(), "response", Some(FoundBy::DnsResponse)));
    assert_eq!(named(&mut inspector), marked);
    // The case of letters is not part of the question.
    let mut query = dns(false, 9);
    query[12..28].make_ascii_uppercase();
    datagram(&mut inspector, 1, 0, &query);
    datagram(&mut inspector, 1, 1, &dns(true, 9));
    let asked = Some((name, "query", Some(FoundBy::Dns)));
    assert_eq!(named(&mut inspector), asked);
}

/// A message behind its length.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u16).to_be_bytes();
    [&length[..], message].concat()
}

/// Queries and responses in the record of a connection to port 53, and why it is incomplete.
fn counts(conversation: Conversation) -> (u32, u32, Incomplete) {
    let record = conversation.finish();
    let dns = record.dns.unwrap();
    (dns.queries, dns.responses, record.incomplete)
}

#[test]
fn message_behind_one_that_is_too_long_is_read() {
    let mut long = dns(true, 1);
    long.resize(20_000, 0);
    let stream = [framed(&long), framed(&dns(true, 2))].concat();
    for length in [1400, 4096, 15_000, 20_010] {
        let mut conversation = Conversation::new(53);
        conversation.send_syn(1, 0);
        for (at, bytes) in (0..).step_by(length).zip(stream.chunks(length)) {
            conversation.send(1, 1 + at, bytes);
        }
        let (_, responses, incomplete) = counts(conversation);
        // A segment with the whole message needs no buffer.
        let is_cut = length < 20_002;
        assert_eq!(
            (responses, incomplete.contains(Incomplete::REASSEMBLY)),
            (2, is_cut),
            "{length}"
        );
    }
}

#[test]
fn messages_behind_a_lost_segment_are_read() {
    for lost in 0..5 {
        let mut conversation = Conversation::new(53);
        conversation.send_syn(0, 0);
        let mut at = 1;
        for number in 0..5 {
            let query = framed(&dns(false, number));
            if number != lost {
                conversation.send(0, at, &query);
            }
            at += query.len() as u32;
        }
        let (queries, _, incomplete) = counts(conversation);
        // The last one is not missed: no later segment shows that it is missing.
        let has_gap = lost < 4;
        assert_eq!(
            (queries, incomplete.contains(Incomplete::GAP)),
            (4, has_gap),
            "{lost}"
        );
    }
}

/// Nor is a late one: the messages of a stream in any order of its segments.
#[test]
fn messages_in_late_segments_are_read() {
    for side in [0, 1] {
        let messages: Vec<_> = (0..4).map(|id| framed(&dns(side == 1, id))).collect();
        let stream = messages.concat();
        for length in [messages[0].len(), 2 * messages[0].len(), 50] {
            let count = stream.len().div_ceil(length);
            for first in 0..count {
                for second in 0..count {
                    let mut order: Vec<_> = (0..count).collect();
                    order.swap(first, second);
                    let mut conversation = Conversation::new(53);
                    conversation.connect(0, 0);
                    for number in order {
                        let from = number * length;
                        let bytes = &stream[from..stream.len().min(from + length)];
                        conversation.send(side, 1 + from as u32, bytes);
                    }
                    let (queries, responses, incomplete) = counts(conversation);
                    assert_eq!(queries + responses, 4, "{side} {length} {first} {second}");
                    assert_eq!(incomplete, Incomplete::default());
                }
            }
        }
    }
}

/// What costs more than a packet may cost is counted and not read.
#[test]
fn work_of_a_packet_is_bounded() {
    let response = |id| {
        let mut bytes = dns(true, id);
        bytes[7] = 30;
        let record = bytes[33..].to_vec();
        (1..30).for_each(|_| bytes.extend(&record));
        framed(&bytes)
    };
    let stream = (0..4).flat_map(response).collect::<Vec<_>>();
    let mut conversation = Conversation::new(53);
    conversation.connect(0, 0);
    conversation.send(1, 1, &stream);
    let (_, responses, incomplete) = counts(conversation);
    assert_eq!((responses, incomplete), (4, Incomplete::WORK));
    // One at a time, they are read.
    let mut conversation = Conversation::new(53);
    conversation.connect(0, 0);
    for id in 0..4 {
        let bytes = response(id);
        conversation.send(1, 1 + u32::from(id) * bytes.len() as u32, &bytes);
    }
    let (_, responses, incomplete) = counts(conversation);
    assert_eq!((responses, incomplete), (4, Incomplete::default()));
}

/// Records and labels beyond what is read are marked, over UDP and over TCP.
#[test]
fn long_message_is_marked() {
    let many = |count: u16, record: &[u8], at: usize| {
        let mut bytes = dns(true, 1);
        bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
        let more = if at == 4 { count - 1 } else { count };
        bytes.truncate(33);
        (0..more).for_each(|_| bytes.extend(record));
        bytes
    };
    let record = [0, 0, 16, 0, 1, 0, 0, 0, 60, 0, 0];
    let named = [&b"\x01a".repeat(100)[..], &record].concat();
    let question = [0, 0, 1, 0, 1];
    for (bytes, is_cut) in [
        (many(512, &record, 6), false),
        (many(513, &record, 6), true),
        (many(10, &named, 6), false),
        (many(11, &named, 6), true),
        (many(512, &question, 4), false),
        (many(513, &question, 4), true),
    ] {
        let mut inspector = inspector();
        let key = key(17, 53);
        let mut flow = InspectState::default();
        inspector.observe(&mut flow, &segment(&key, 1000, 1, 0, &bytes), || key);
        let over_udp = inspector.finish(&mut flow, &key);
        let mut conversation = Conversation::new(53);
        conversation.connect(0, 0);
        for (at, part) in (0..).step_by(1460).zip(framed(&bytes).chunks(1460)) {
            conversation.send(1, 1 + at, part);
        }
        for record in [over_udp, conversation.finish()] {
            let is_marked = record.incomplete.contains(Incomplete::WORK);
            assert_eq!((record.dns.unwrap().responses, is_marked), (1, is_cut));
        }
    }
}

#[test]
fn messages_of_a_packet_are_bounded() {
    let query = framed(&dns(false, 1));
    let many = query.repeat(1000);
    let mut conversation = Conversation::new(53);
    conversation.send_syn(0, 0);
    conversation.send(0, 1, &many);
    conversation.send(0, 1 + many.len() as u32, &query);
    let expected = u32::from(dns_protocol::STREAM_MESSAGES_MAX) + 1;
    let (queries, _, incomplete) = counts(conversation);
    assert_eq!(
        (queries, incomplete.contains(Incomplete::REASSEMBLY)),
        (expected, true)
    );
}

/// What is left in a buffer is read when its flow ends or another flow needs the buffer: at a time that
/// depends on the table, and with the addresses of another packet.
#[test]
fn response_that_is_read_after_its_packets_names_no_flow() {
    let mut resolver = key(6, 53);
    resolver.destination[..4].copy_from_slice(&[9, 9, 9, 9]);
    let response = framed(&dns(true, 7));
    // A longer one, of which bytes are missing, and a whole one behind it.
    let mut long = dns(true, 6);
    long.resize(600, 0);
    let long = framed(&long);
    let behind = 1 + long.len() as u32;
    for is_acknowledged in [false, true] {
        let mut inspector = inspector();
        let mut flow = InspectState::default();
        let mut observe = |inspector: &mut Inspector, packet: L4Payload<'_>| {
            inspector.observe(&mut flow, &packet, || resolver);
        };
        let mut syn = segment(&resolver, 0, 1, 0, &[]);
        syn.tcp_flags = flag::SYN;
        observe(&mut inspector, syn);
        observe(&mut inspector, segment(&resolver, 500, 1, 1, &long[..30]));
        observe(
            &mut inspector,
            segment(&resolver, 600, 1, behind - 40, &long[560..590]),
        );
        if is_acknowledged {
            observe(
                &mut inspector,
                segment(&resolver, 700, 1, behind, &response),
            );
            let mut packet = segment(&resolver, 1000, 0, 1, &[]);
            (packet.tcp_flags, packet.acknowledgement) = (flag::ACK, behind + 1000);
            observe(&mut inspector, packet);
            let name = named(&mut inspector).map(|(name, ..)| name);
            assert_eq!(name.as_deref(), Some("www.netflix.com"));
            // It is as old as the acknowledgement.
            let web = key(6, 9000);
            let mut flow = InspectState::default();
            let mut syn = segment(&web, 2000, 0, 0, &[]);
            syn.tcp_flags = flag::SYN;
            inspector.observe(&mut flow, &syn, || web);
            let record = inspector.finish(&mut flow, &web);
            assert!(record.resolved.unwrap().age_ns <= 2000);
        }
        let before = named(&mut inspector);
        drop(inspector.finish(&mut flow, &resolver));
        assert_eq!(named(&mut inspector), before);
        assert_eq!(before.is_some(), is_acknowledged);
    }
    // Many unfinished responses to a client, of which the first lose their buffers to the last.
    let mut inspector = Inspector::new(
        4096,
        &InspectorLimits {
            reassembly_buffers_max: 4,
            ..InspectorLimits::default()
        },
        Arc::default(),
        1,
    )
    .unwrap();
    let mut flows = Vec::new();
    let cut = &long[..long.len() - 1];
    for client in 0..50_u8 {
        let mut key = resolver;
        key.source[..4].copy_from_slice(&[10, 8, 8, client]);
        let mut flow = InspectState::default();
        let mut syn = segment(&key, 0, 1, 0, &[]);
        syn.tcp_flags = flag::SYN;
        inspector.observe(&mut flow, &syn, || key);
        inspector.observe(&mut flow, &segment(&key, 1, 1, 1, cut), || key);
        flows.push((key, flow));
    }
    for (key, mut flow) in flows {
        drop(inspector.finish(&mut flow, &key));
    }
    assert!(!inspector.services.has_resolved_names());
}
