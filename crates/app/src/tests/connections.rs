//! Several connections of one flow: each is read from its SYN.

use super::*;

/// Sequence number at which the second connection starts, relative to the first: ahead, then behind.
const DISTANCES: [u32; 14] = [
    1,
    64_000,
    1 << 20,
    3 << 20,
    1 << 29,
    (1 << 30) + 1,
    1 << 31,
    0_u32.wrapping_sub(1),
    0_u32.wrapping_sub(64_000),
    0_u32.wrapping_sub((1 << 20) + 1),
    0_u32.wrapping_sub(3 << 20),
    0_u32.wrapping_sub(1 << 29),
    0_u32.wrapping_sub(1 << 30),
    0_u32.wrapping_sub((1 << 30) + 1),
];

impl Conversation {
    /// Sends the SYN of the client and the SYN-ACK of the server.
    pub(super) fn connect(&mut self, client: u32, server: u32) {
        self.send_flags(flag::SYN, 0, client);
        self.send_flags(flag::SYN | flag::ACK, 1, server);
    }
}

/// For example, a load balancer checks its server, and later a client uses the same ports.
#[test]
fn reads_second_connection_at_any_sequence_number() {
    for at in DISTANCES {
        for said in [&b""[..], b"PROXY?"] {
            let mut conversation = Conversation::new(443);
            conversation.connect(0, 0);
            if !said.is_empty() {
                conversation.send(0, 1, said);
                conversation.send(1, 1, said);
            }
            conversation.connect(at, at);
            let first = at.wrapping_add(1);
            conversation.send(0, first, &client_hello("second.example", 300));
            conversation.send(1, first, &server_hello(true));
            let record = conversation.finish();
            assert_eq!(name_of(&record), Some("second.example"), "{at} {said:?}");
            assert_eq!(record.incomplete, Incomplete::default(), "{at} {said:?}");
            assert_eq!(record.tls.unwrap().version, Some(0x0304));
        }
    }
}

#[test]
fn counts_messages_of_all_connections() {
    // A missing body does not extend into the next connection.
    let post = b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\nx";
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    for at in DISTANCES {
        let mut conversation = Conversation::new(80);
        for start in [0, at, at.wrapping_mul(2)] {
            conversation.connect(start, start);
            let first = start.wrapping_add(1);
            conversation.send(0, first, post);
            conversation.send(1, first, answer);
        }
        let record = conversation.finish();
        assert_eq!(record.incomplete, Incomplete::default(), "{at}");
        let http = record.http.unwrap();
        assert_eq!((http.requests, http.responses), (3, 3), "{at}");
    }
}

#[test]
fn retransmitted_or_late_syn_starts_no_connection() {
    let hello = client_hello("a.example", 300);
    let (one, other) = hello.split_at(150);
    for again in [&[0_u8, 1][..], &[1, 0], &[0, 0, 1, 1]] {
        let mut conversation = Conversation::new(443);
        conversation.connect(0, 0);
        conversation.send(0, 1, one);
        for &direction in again {
            conversation.send_flags(
                [flag::SYN, flag::SYN | flag::ACK][usize::from(direction)],
                direction,
                0,
            );
        }
        conversation.send(0, 151, other);
        conversation.send(1, 1, &server_hello(true));
        let record = conversation.finish();
        assert_eq!(name_of(&record), Some("a.example"));
        assert_eq!(record.incomplete, Incomplete::default());
        assert_eq!(record.tls.unwrap().version, Some(0x0304));
    }
    // The SYN arrives after data of its connection.
    let mut conversation = Conversation::new(443);
    conversation.send(0, 1, one);
    conversation.connect(0, 0);
    conversation.send(0, 151, other);
    let record = conversation.finish();
    assert_eq!(
        (name_of(&record), record.incomplete),
        (Some("a.example"), Incomplete::default())
    );
}

/// The record has the handshake of one connection: the first answered one, or the last hello if none
/// was answered.
#[test]
fn does_not_mix_hellos_of_two_connections() {
    let record_of = |first_is_answered, second_hello| {
        let mut conversation = Conversation::new(443);
        conversation.connect(0, 0);
        conversation.send(0, 1, &client_hello("first.example", 300));
        if first_is_answered {
            conversation.send(1, 1, &server_hello(true));
        }
        conversation.time_ns += 60_000_000_000;
        conversation.connect(70_000, 70_000);
        let hello = client_hello("second.example", 200);
        if second_hello {
            conversation.send(0, 70_001, &hello);
            conversation.send(1, 70_001, &server_hello(true));
            conversation.send(0, 70_001 + hello.len() as u32, &record(23, &[0; 40]));
        }
        let record = conversation.finish();
        assert_eq!(record.incomplete, Incomplete::default());
        let name = name_of(&record).map(str::to_owned);
        let tls = record.tls.unwrap();
        (name.unwrap(), tls.version, tls.setup_ns)
    };
    let [first, second] = ["first.example", "second.example"].map(str::to_owned);
    assert_eq!(record_of(true, true), (first.clone(), Some(0x0304), None));
    assert_eq!(record_of(true, false), (first.clone(), Some(0x0304), None));
    assert_eq!(
        record_of(false, true),
        (second, Some(0x0304), Some(2_000_000))
    );
    assert_eq!(record_of(false, false), (first, None, None));
}

#[test]
fn records_gap_for_partial_message_before_new_connection() {
    let mut conversation = Conversation::new(443);
    conversation.connect(0, 0);
    conversation.send(0, 1, &client_hello("first.example", 300)[..150]);
    conversation.connect(9_000, 9_000);
    conversation.send(0, 9_001, &client_hello("second.example", 300));
    let record = conversation.finish();
    assert_eq!(name_of(&record), Some("second.example"));
    assert_eq!(record.incomplete, Incomplete::GAP);
}

/// With TCP Fast Open (RFC 7413), the SYN has data.
#[test]
fn syn_with_data_keeps_an_answered_handshake() {
    const SERVER_HELLO_DONE: [u8; 4] = [14, 0, 0, 0];
    for direction in [0, 1] {
        let mut conversation = Conversation::new(443);
        // The connection started before the capture.
        conversation.send(0, 1, &client_hello("first.example", 300));
        let mut answer = server_hello(false);
        answer.extend(record(22, &SERVER_HELLO_DONE));
        conversation.send(1, 1, &answer);
        let mut packet = segment(
            &conversation.key,
            conversation.time_ns,
            direction,
            48_434,
            &[3, 40, 82, 4],
        );
        packet.tcp_flags = flag::SYN;
        conversation
            .inspector
            .observe(&mut conversation.state, &packet, || conversation.key);
        assert_eq!(
            name_of(&conversation.finish()),
            Some("first.example"),
            "{direction}"
        );
    }
}
