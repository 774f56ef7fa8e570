//! TCP streams with missing or late segments: what lies behind a gap is read.

use super::http::{GET, LURE, OK, counts};
use super::*;

/// A head that its sender broke off is not missing from the capture.
#[test]
fn broken_off_head_is_not_incomplete() {
    for at in 1..GET.len() {
        for (flags, is_whole) in [
            (flag::FIN | flag::ACK, true),
            (flag::RST, true),
            (flag::ACK, false),
        ] {
            for missing in [0, 1] {
                for with_data in [true, false] {
                    let mut conversation = Conversation::new(80);
                    conversation.connect(0, 0);
                    let mut packet = segment(&conversation.key, 1, 0, 1, &GET.as_bytes()[..at]);
                    if with_data && missing == 0 {
                        packet.tcp_flags = flags;
                        conversation
                            .inspector
                            .observe(&mut conversation.state, &packet, || conversation.key);
                    } else {
                        conversation
                            .inspector
                            .observe(&mut conversation.state, &packet, || conversation.key);
                        conversation.send_flags(flags, 0, 1 + at as u32 + missing);
                    }
                    let record = conversation.finish();
                    let expected = match is_whole && missing == 0 {
                        true => Incomplete::default(),
                        false => Incomplete::GAP,
                    };
                    assert_eq!(
                        record.incomplete, expected,
                        "{at} {flags} {missing} {with_data}"
                    );
                }
            }
        }
    }
}

impl Conversation {
    /// Acknowledges everything before `acknowledgement`.
    fn acknowledge(&mut self, direction: u8, acknowledgement: u32) {
        self.time_ns += 1_000_000;
        let mut packet = segment(&self.key, self.time_ns, direction, 1, &[]);
        packet.tcp_flags = flag::ACK;
        packet.acknowledgement = acknowledgement;
        if self.state.needs_packet(0, flag::ACK) {
            self.inspector
                .observe(&mut self.state, &packet, || self.key);
        }
    }
}

/// What lies behind a lost segment is read, whether the gap is acknowledged, many segments follow, or
/// the flow ends.
#[test]
fn messages_behind_a_gap_are_read() {
    for lost in 0..5 {
        for is_acknowledged in [true, false] {
            for side in [0, 1] {
                let messages = match side {
                    0 => [GET; 5],
                    _ => [OK; 5],
                };
                let mut conversation = Conversation::new(80);
                conversation.connect(0, 0);
                let mut at = 1;
                for (number, message) in messages.iter().enumerate() {
                    if number != lost {
                        conversation.send(side, at, message.as_bytes());
                    }
                    at += message.len() as u32;
                    if is_acknowledged {
                        conversation.acknowledge(1 - side, at);
                        assert!(!conversation.state.needs_packet(0, flag::ACK), "waits on");
                    }
                }
                let record = conversation.finish();
                let (requests, responses, _) = counts(&record);
                assert_eq!(requests + responses, 4, "{lost} {is_acknowledged} {side}");
                let expected = match lost {
                    // Nothing shows that the last one is missing.
                    4 => Incomplete::default(),
                    _ => Incomplete::GAP,
                };
                assert_eq!(record.incomplete, expected, "{lost} {is_acknowledged}");
            }
        }
    }
}

/// A gap is given up only if its end is acknowledged.
#[test]
fn late_segment_fills_its_gap() {
    let (request, length) = (GET.as_bytes(), GET.len() as u32);
    for acknowledged in [1, 2, length] {
        let mut conversation = Conversation::new(80);
        conversation.connect(0, 0);
        conversation.send(0, 1 + length, request);
        conversation.acknowledge(1, acknowledged);
        conversation.send(0, 1, request);
        let record = conversation.finish();
        assert_eq!(
            (counts(&record).0, record.incomplete),
            (2, Incomplete::default())
        );
    }
}

#[test]
fn hello_behind_a_gap_is_read() {
    let hello = client_hello("s.example", 300);
    for said in [&b"EHLO a\r\n"[..], b"CONNECT s:443 HTTP/1.1\r\n\r\n"] {
        for is_acknowledged in [true, false] {
            for half in [hello.len(), 100] {
                let mut conversation = Conversation::new(25);
                conversation.connect(0, 0);
                conversation.send(0, 1, said);
                conversation.send(1, 1, b"HTTP/1.1 200 OK\r\n\r\n");
                let mut at = 11 + said.len() as u32;
                for bytes in hello.chunks(half) {
                    conversation.send(0, at, bytes);
                    at += bytes.len() as u32;
                    if is_acknowledged {
                        conversation.acknowledge(1, at);
                    }
                }
                conversation.send(1, 20, &server_hello(true));
                let record = conversation.finish();
                assert_eq!(name_of(&record), Some("s.example"));
                let tls = record.tls.unwrap();
                assert_eq!((tls.ja4.is_some(), tls.version), (true, Some(0x0304)));
            }
        }
    }
}

/// After a gap in a body, messages at the start of segments are counted, and the kinds of requests are
/// known again.
#[test]
fn kinds_of_requests_are_known_after_a_gap() {
    let mut conversation = Conversation::new(80);
    conversation.connect(0, 0);
    let head = GET.replace("GET", "HEAD");
    let mut client = 1;
    let mut server = 1;
    for lost in [true, false, false] {
        conversation.send(0, client, head.as_bytes());
        client += head.len() as u32;
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        if !lost {
            conversation.send(1, server, response.as_bytes());
        }
        server += response.len() as u32;
        conversation.acknowledge(0, server);
    }
    assert_eq!(counts(&conversation.finish()), (3, 2, Some(200)));
}

proptest! {
    /// Segments in any order, twice or not, give the same record, if none is missing.
    #[test]
    fn segments_of_messages_in_any_order(
        cuts in prop::collection::vec(1usize..400, 1..6),
        swaps in prop::collection::vec((0usize..7, 0usize..7), 0..4),
        repeat: bool,
    ) {
        let size = LURE.len();
        let chunked = format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{LURE}\r\n0\r\n\r\n");
        let stream = [&chunked, GET, GET, &GET.replace("GET", "HEAD")].concat();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % stream.len()).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces: Vec<_> = cuts.windows(2).map(|cut| (cut[0], cut[1])).collect();
        for (one, other) in swaps {
            let count = pieces.len();
            pieces.swap(one % count, other % count);
        }
        let mut conversation = Conversation::new(80);
        conversation.connect(0, 0);
        for (from, to) in pieces {
            for _ in 0..=usize::from(repeat) {
                conversation.send(0, 1 + from as u32, &stream.as_bytes()[from..to]);
            }
        }
        let record = conversation.finish();
        prop_assert_eq!(record.incomplete, Incomplete::default());
        prop_assert_eq!(counts(&record).0, 4);
        prop_assert_eq!(record.http.unwrap().method, Some("POST".into()));
    }

    /// Whatever is lost, no message is counted that was not sent.
    #[test]
    fn losses_add_no_messages(
        cuts in prop::collection::vec(1usize..600, 1..12),
        lost in any::<u16>(),
        acknowledged: bool,
    ) {
        let stream = [GET, GET, GET, GET, &GET.replace("GET", "HEAD"), GET].concat();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % stream.len()).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut conversation = Conversation::new(80);
        conversation.connect(0, 0);
        for (number, cut) in cuts.windows(2).enumerate() {
            if lost >> number & 1 == 0 {
                conversation.send(0, 1 + cut[0] as u32, &stream.as_bytes()[cut[0]..cut[1]]);
            }
            if acknowledged {
                conversation.acknowledge(1, 1 + cut[1] as u32);
            }
        }
        if let Some(http) = conversation.finish().http {
            prop_assert!(http.requests <= 6);
            prop_assert!(["GET", "HEAD"].contains(&&*http.method.unwrap()));
        }
    }
}
