//! DTLS: hellos in whole datagrams and in fragments.

use super::*;

/// A ClientHello's body with a cookie.
pub(super) fn hello_body(cookie: &[u8]) -> Vec<u8> {
    let tls = client_hello("d.example", 300);
    // Without the headers of the record and the message, the version and the random value.
    let rest = &tls[9 + 34..];
    let (session, rest) = rest.split_at(1 + usize::from(rest[0]));
    let mut body = vec![0xfe, 0xfd];
    body.extend([7; 32]);
    body.extend(session);
    body.push(cookie.len() as u8);
    body.extend(cookie);
    body.extend(rest);
    body
}

/// The record of a fragment.
pub(super) fn record(kind: u8, number: u16, body: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
    let u24 = |value: usize| (value as u32).to_be_bytes()[1..].to_vec();
    let piece = &body[range.clone()];
    let mut bytes = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend((piece.len() as u16 + 12).to_be_bytes());
    bytes.push(kind);
    bytes.extend(u24(body.len()));
    bytes.extend(number.to_be_bytes());
    bytes.extend(u24(range.start));
    bytes.extend(u24(piece.len()));
    bytes.extend(piece);
    bytes
}

fn record_of(datagrams: &[(u8, Vec<u8>)]) -> AppRecord {
    let mut inspector = inspector();
    let mut state = InspectState::default();
    let key = key(17, 4433);
    for (time, (direction, datagram)) in (0..).zip(datagrams) {
        let packet = segment(&key, time, *direction, 0, datagram);
        inspector.observe(&mut state, &packet, || key);
    }
    let record = inspector.finish(&mut state, &key);
    assert_idle(&inspector);
    record
}

pub(super) fn server_hello_body() -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend([9; 32]);
    body.extend([0, 0xc0, 0x2b, 0]);
    body
}

#[test]
fn reads_hellos_after_a_cookie_exchange() {
    let (first, second) = (hello_body(b""), hello_body(b"cookie"));
    let verify = [0xfe, 0xff, 6, b'c', b'o', b'o', b'k', b'i', b'e'];
    let server = server_hello_body();
    let record = record_of(&[
        (0, record(1, 0, &first, 0..first.len())),
        (1, record(3, 0, &verify, 0..verify.len())),
        (0, record(1, 1, &second, 0..second.len())),
        (1, record(2, 1, &server, 0..server.len())),
        (0, vec![23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
    ]);
    let tls = record.tls.unwrap();
    assert_eq!(tls.server_name.as_deref(), Some("d.example"));
    assert_eq!((tls.version, tls.cipher), (Some(0xfefd), Some(0xc02b)));
    assert!(tls.ja4.unwrap().starts_with('d'));
    assert_eq!(tls.setup_ns, Some(4));
    assert_eq!(record.incomplete, Incomplete::default());
}

/// Fragments in any order, in one datagram or several, give the same fingerprint.
#[test]
fn reassembles_fragments_in_any_order() {
    let body = hello_body(b"");
    let whole = record_of(&[(0, record(1, 0, &body, 0..body.len()))])
        .tls
        .unwrap();
    for length in [60, 100, 200] {
        let starts: Vec<_> = (0..body.len()).step_by(length).collect();
        let piece = |start: usize| record(1, 0, &body, start..(start + length).min(body.len()));
        let pieces: Vec<_> = starts.iter().map(|&start| piece(start)).collect();
        let forward: Vec<_> = pieces.iter().map(|piece| (0, piece.clone())).collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        let together = vec![(0, pieces.concat())];
        for datagrams in [forward, backward, together] {
            let record = record_of(&datagrams);
            assert_eq!(record.tls.as_deref(), Some(&*whole), "{length}");
            assert_eq!(record.incomplete, Incomplete::default(), "{length}");
        }
        // The last one is missing.
        let part: Vec<_> = pieces[..pieces.len() - 1]
            .iter()
            .map(|it| (0, it.clone()))
            .collect();
        let record = record_of(&part);
        assert!(record.incomplete.contains(Incomplete::GAP), "{length}");
    }
}

/// Bytes of a hello that are changed or missing are no panic, and release everything.
#[test]
fn damaged_hellos_release_everything() {
    let body = hello_body(b"x");
    let bytes = record(1, 0, &body, 0..body.len() / 2);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        let _ = record_of(&[(0, bytes.clone()), (1, damaged), (0, bytes[..at].to_vec())]);
    }
}

/// The session is resumed if the server echoes the session ID of the client, whichever hello comes
/// first.
#[test]
fn says_whether_the_session_was_resumed() {
    let client = hello_body(b"");
    let session_length = usize::from(client[34]);
    let session = &client[35..35 + session_length];
    let server = |session: &[u8]| {
        let mut body = vec![0xfe, 0xfd];
        body.extend([9; 32]);
        body.push(session.len() as u8);
        body.extend(session);
        body.extend([0xc0, 0x2b, 0]);
        body
    };
    let resumed = |hellos: &[(u8, Vec<u8>)]| {
        let records: Vec<_> = hellos
            .iter()
            .map(|(kind, body)| (kind - 1, record(*kind, 0, body, 0..body.len())))
            .collect();
        record_of(&records).tls.unwrap().resumed
    };
    let mut with_session = client[..34].to_vec();
    with_session.push(4);
    with_session.extend(b"sess");
    with_session.extend(&client[35 + session_length..]);
    assert_eq!(session_length, session.len());
    for (answer, expected) in [(&b"sess"[..], true), (b"else", false), (b"", false)] {
        let hellos = [(1, with_session.clone()), (2, server(answer))];
        assert_eq!(resumed(&hellos), Some(expected), "{answer:?}");
        let [client, server] = hellos;
        assert_eq!(resumed(&[server, client]), Some(expected), "{answer:?}");
    }
    assert_eq!(resumed(&[(2, server(b"sess"))]), None);
    assert_eq!(resumed(&[(1, with_session)]), None);
}
