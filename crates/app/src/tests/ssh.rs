//! SSH: version strings and fingerprints.

use super::*;

/// A packet of the key exchange: KEXINIT with these lists, of which each name is used for both
/// directions but with its suffix.
fn key_exchange(keys: &str) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend([7; 16]);
    let lists = [
        keys, "rsa", "c1,c2", "s1,s2", "m1", "m2", "none", "zlib", "", "",
    ];
    for list in lists {
        payload.extend((list.len() as u32).to_be_bytes());
        payload.extend(list.as_bytes());
    }
    payload.extend([0; 5]);
    let mut packet = (payload.len() as u32 + 1 + 4).to_be_bytes().to_vec();
    packet.push(4);
    packet.extend(payload);
    packet.extend([0; 4]);
    packet
}

/// MD5 of `k,ext-info-c;c1,c2;m1;none` and of `k;s1,s2;m2;zlib`.
const HASSH: &str = "d1822c678eaec9ae616ad2e332376530";
const HASSH_SERVER: &str = "5e3a69d79a579efc67f42813c43c4031";

fn check(record: &AppRecord, client: &str, server: &str) {
    let ssh = record.ssh.as_deref().unwrap();
    assert_eq!(ssh.client_version.as_deref(), Some(client));
    assert_eq!(ssh.server_version.as_deref(), Some(server));
    assert_eq!(ssh.hassh.as_deref(), Some(HASSH));
    assert_eq!(ssh.hassh_server.as_deref(), Some(HASSH_SERVER));
    assert_eq!(record.incomplete, Incomplete::default());
    assert_eq!(&*record.application.as_ref().unwrap().name, "SSH");
}

/// Streams of the two sides, cut into segments of any length, on any port.
#[test]
fn reads_versions_and_fingerprints_of_both_sides() {
    let mut client = b"SSH-2.0-client comment\r\n".to_vec();
    client.extend(key_exchange("k,ext-info-c"));
    client.extend([0; 200]);
    let mut server = b"Authorised use only\r\nSSH-2.0-server\n".to_vec();
    server.extend(key_exchange("k"));
    server.extend([0; 200]);
    for length in [1, 3, 7, 50, 1000] {
        // The initiator is the client, or (in a reverse connection) the server.
        for direction in [0, 1] {
            let mut conversation = Conversation::new(2222);
            for side in [0, 1] {
                conversation.send_syn(side, 0);
            }
            for (side, stream) in [(direction, &client), (1 - direction, &server)] {
                for (at, piece) in (1..).step_by(length).zip(stream.chunks(length)) {
                    conversation.send(side, at, piece);
                }
            }
            if length > 7 {
                assert!(!conversation.state.needs_packet(1, 0), "{length}");
                check(
                    &conversation.finish(),
                    "SSH-2.0-client comment",
                    "SSH-2.0-server",
                );
            } else {
                let _ = conversation.finish();
            }
        }
    }
}

#[test]
fn segments_out_of_order_give_the_same() {
    let mut client = b"SSH-2.0-a\r\n".to_vec();
    client.extend(key_exchange("k,ext-info-c"));
    let mut server = b"SSH-2.0-b\r\n".to_vec();
    server.extend(key_exchange("k"));
    let mut conversation = Conversation::new(22);
    for (side, stream) in [(0, &client), (1, &server)] {
        conversation.send_syn(side, 0);
        conversation.send(side, 31, &stream[30..]);
        conversation.send(side, 1, &stream[..30]);
    }
    check(&conversation.finish(), "SSH-2.0-a", "SSH-2.0-b");
}

/// The first captured packet is the server's, so the flow's initiator is the server.
#[test]
fn port_names_the_client_if_its_algorithms_do_not() {
    let mut conversation = Conversation::new(40_001);
    conversation.key.source_port = 22;
    conversation.send(0, 1, b"SSH-2.0-b\r\n");
    conversation.send(1, 1, b"SSH-2.0-a\r\n");
    let record = conversation.finish();
    let ssh = record.ssh.unwrap();
    assert_eq!(ssh.client_version.as_deref(), Some("SSH-2.0-a"));
    assert_eq!(ssh.hassh, None);
}

#[test]
fn work_on_other_streams_is_bounded() {
    for (first, rest) in [
        (&b"SSH-"[..], &b"no line end "[..]),
        (b"SSH-2.0-x\r\n", b"\0\0\0\x0c\x0a\x02ignored message"),
        (b"SSH-2.0-x\r\n", b"\xff\xff\xff\xff\x0a\x14 too long"),
        (b"SSH-2.0-x\r\n", b"\0\0\0\x03\x0a\x14 padding too long"),
        (b"SSH-1.5-x\r\n", b"version 1"),
    ] {
        let mut conversation = Conversation::new(22);
        for side in [0, 1] {
            conversation.send(side, 1, first);
            let mut at = 1 + first.len() as u32;
            for _ in 0..100 {
                conversation.send(side, at, rest);
                at += rest.len() as u32;
            }
        }
        assert!(!conversation.state.needs_packet(1, 0), "{rest:?}");
        conversation.finish();
    }
}

/// A banner has up to 16 lines, whichever side spoke first.
#[test]
fn lines_before_a_version_are_bounded() {
    for (lines, is_read) in [(16, true), (17, false)] {
        for client_first in [true, false] {
            let mut conversation = Conversation::new(22);
            conversation.connect(0, 0);
            let server = [b"a\r\n".repeat(lines), b"SSH-2.0-server\r\n".to_vec()].concat();
            if client_first {
                conversation.send(0, 1, b"SSH-2.0-client\r\n");
            }
            conversation.send(1, 1, &server);
            let record = conversation.finish();
            let version = record.ssh.and_then(|ssh| ssh.server_version);
            assert_eq!(version.is_some(), is_read, "{lines} {client_first}");
            let is_marked = record.incomplete.contains(Incomplete::WORK);
            assert_eq!(is_marked, !is_read && client_first);
        }
    }
}
