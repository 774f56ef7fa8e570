//! Several connections of one flow: each is read from its SYN on.

use super::*;

/// How far ahead of the first connection the second one begins; then how far behind.
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

impl Talk {
    /// The SYN of the client, and the server's answer.
    pub(super) fn connect(&mut self, client: u32, server: u32) {
        self.flag(flag::SYN, 0, client);
        self.flag(flag::SYN | flag::ACK, 1, server);
    }
}

/// As of a balancer that looks whether its server is there, and later a client of the same ports.
#[test]
fn a_second_connection_is_read_wherever_it_begins() {
    for at in DISTANCES {
        for said in [&b""[..], b"PROXY?"] {
            let mut talk = Talk::new(443);
            talk.connect(0, 0);
            if !said.is_empty() {
                talk.say(0, 1, said);
                talk.say(1, 1, said);
            }
            talk.connect(at, at);
            let first = at.wrapping_add(1);
            talk.say(0, first, &client_hello("second.example", 300));
            talk.say(1, first, &server_hello(true));
            let record = talk.end();
            assert_eq!(name_of(&record), Some("second.example"), "{at} {said:?}");
            assert_eq!(record.cut, Cut::default(), "{at} {said:?}");
            assert_eq!(record.tls.unwrap().version, Some(0x0304));
        }
    }
}

#[test]
fn messages_of_all_connections_count() {
    // A body that did not come has no part of the next connection.
    let post = b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\nx";
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    for at in DISTANCES {
        let mut talk = Talk::new(80);
        for start in [0, at, at.wrapping_mul(2)] {
            talk.connect(start, start);
            let first = start.wrapping_add(1);
            talk.say(0, first, post);
            talk.say(1, first, answer);
        }
        let record = talk.end();
        assert_eq!(record.cut, Cut::default(), "{at}");
        let http = record.http.unwrap();
        assert_eq!((http.requests, http.responses), (3, 3), "{at}");
    }
}

#[test]
fn a_syn_that_comes_again_or_late_begins_nothing() {
    let hello = client_hello("a.example", 300);
    let (one, other) = hello.split_at(150);
    for again in [&[0_u8, 1][..], &[1, 0], &[0, 0, 1, 1]] {
        let mut talk = Talk::new(443);
        talk.connect(0, 0);
        talk.say(0, 1, one);
        for &direction in again {
            talk.flag(
                [flag::SYN, flag::SYN | flag::ACK][usize::from(direction)],
                direction,
                0,
            );
        }
        talk.say(0, 151, other);
        talk.say(1, 1, &server_hello(true));
        let record = talk.end();
        assert_eq!(name_of(&record), Some("a.example"));
        assert_eq!(record.cut, Cut::default());
        assert_eq!(record.tls.unwrap().version, Some(0x0304));
    }
    // Overtaken by what it begins.
    let mut talk = Talk::new(443);
    talk.say(0, 1, one);
    talk.connect(0, 0);
    talk.say(0, 151, other);
    let record = talk.end();
    assert_eq!(
        (name_of(&record), record.cut),
        (Some("a.example"), Cut::default())
    );
}

/// What is told of a handshake is of one connection: the first that was answered, else the last hello.
#[test]
fn hellos_of_two_connections_are_not_mixed() {
    let told = |first_is_answered, second_hello| {
        let mut talk = Talk::new(443);
        talk.connect(0, 0);
        talk.say(0, 1, &client_hello("first.example", 300));
        if first_is_answered {
            talk.say(1, 1, &server_hello(true));
        }
        talk.time_ns += 60_000_000_000;
        talk.connect(70_000, 70_000);
        let hello = client_hello("second.example", 200);
        if second_hello {
            talk.say(0, 70_001, &hello);
            talk.say(1, 70_001, &server_hello(true));
            talk.say(0, 70_001 + hello.len() as u32, &record(23, &[0; 40]));
        }
        let told = talk.end();
        assert_eq!(told.cut, Cut::default());
        let name = name_of(&told).map(str::to_owned);
        let tls = told.tls.unwrap();
        (name.unwrap(), tls.version, tls.setup_ns)
    };
    let [first, second] = ["first.example", "second.example"].map(str::to_owned);
    assert_eq!(told(true, true), (first.clone(), Some(0x0304), None));
    assert_eq!(told(true, false), (first.clone(), Some(0x0304), None));
    assert_eq!(told(false, true), (second, Some(0x0304), Some(2_000_000)));
    assert_eq!(told(false, false), (first, None, None));
}

#[test]
fn half_a_message_before_another_connection_is_marked() {
    let mut talk = Talk::new(443);
    talk.connect(0, 0);
    talk.say(0, 1, &client_hello("first.example", 300)[..150]);
    talk.connect(9_000, 9_000);
    talk.say(0, 9_001, &client_hello("second.example", 300));
    let record = talk.end();
    assert_eq!(name_of(&record), Some("second.example"));
    assert_eq!(record.cut, Cut::GAP);
}

/// TCP Fast Open (RFC 7413): the first data come with the SYN.
#[test]
fn a_syn_with_data_behind_an_answered_handshake_keeps_what_it_told() {
    const SERVER_HELLO_DONE: [u8; 4] = [14, 0, 0, 0];
    for direction in [0, 1] {
        let mut talk = Talk::new(443);
        // Begun before the capture.
        talk.say(0, 1, &client_hello("first.example", 300));
        let mut answer = server_hello(false);
        answer.extend(record(22, &SERVER_HELLO_DONE));
        talk.say(1, 1, &answer);
        let mut packet = segment(&talk.key, talk.time_ns, direction, 48_434, &[3, 40, 82, 4]);
        packet.tcp_flags = flag::SYN;
        talk.names.observe(&mut talk.progress, &packet, || talk.key);
        assert_eq!(name_of(&talk.end()), Some("first.example"), "{direction}");
    }
}
