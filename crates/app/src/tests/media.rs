//! Media sessions: RTP of several sources, DTLS, STUN, TURN channel data and RTCP on the same ports.

use super::dtls::{hello_body, record as dtls_record, server_hello_body};
use super::*;

/// A datagram of a media session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stun,
    OldStun,
    Zrtp,
    Turn,
    /// A record of DTLS without a hello.
    Dtls,
    /// RTCP, and encrypted RTCP, of which only the first header can be read.
    Rtcp,
    SecureRtcp,
}

const KINDS: [Kind; 7] = [
    Kind::Stun,
    Kind::OldStun,
    Kind::Zrtp,
    Kind::Turn,
    Kind::Dtls,
    Kind::Rtcp,
    Kind::SecureRtcp,
];

impl Kind {
    fn datagram(self) -> Vec<u8> {
        let (start, length): (&[u8], usize) = match self {
            Self::Stun => (&[0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42], 28),
            Self::OldStun => (&[1, 1, 0, 8, 1, 2, 3, 4], 28),
            Self::Zrtp => (b"\x10\0\0\x01ZRTP", 60),
            Self::Turn => (&[0x40, 1, 0, 20], 24),
            Self::Dtls => (&[23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 0, 0, 30], 43),
            Self::Rtcp => (&[0x80, 200, 0, 6], 28),
            Self::SecureRtcp => (&[0x80, 200, 0, 6], 50),
        };
        let mut bytes = start.to_vec();
        bytes.resize(length, 0xa5);
        bytes
    }
}

/// A packet of RTP with dynamic payload type.
fn packet(ssrc: u32, sequence: u16) -> Vec<u8> {
    let mut bytes = vec![0x80, 96];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend((u32::from(sequence) * 90).to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([0xd5; 20]);
    bytes
}

/// The record of these datagrams, and whether the table is idle after it.
fn record_of(datagrams: &[(u8, Vec<u8>)]) -> AppRecord {
    let mut inspector = inspector();
    let mut state = InspectState::default();
    let key = key(17, 5004);
    for (time, (direction, datagram)) in (0..).zip(datagrams) {
        let packet = segment(&key, time * 1_000_000, *direction, 0, datagram);
        inspector.observe(&mut state, &packet, || key);
    }
    let record = inspector.finish(&mut state, &key);
    assert_idle(&inspector);
    record
}

/// SSRC, packets, lost packets and number of sources of a direction.
fn counts(record: &AppRecord, direction: usize) -> Option<(u32, u32, u32, u32)> {
    let rtp = record.rtp[direction].as_deref()?;
    Some((rtp.ssrc, rtp.packets, rtp.lost, rtp.sources))
}

fn handshake() -> Vec<(u8, Vec<u8>)> {
    let (client, server) = (hello_body(b""), server_hello_body());
    vec![
        (0, dtls_record(1, 0, &client, 0..client.len())),
        (1, dtls_record(2, 0, &server, 0..server.len())),
        (0, vec![20, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 1]),
    ]
}

#[test]
fn finds_rtp_and_dtls_behind_any_number_of_others() {
    for kind in KINDS {
        for number in [1, 7, 8, 9, 50, 300] {
            let others = (0..number).map(|at| (at as u8 & 1, kind.datagram()));
            // Encrypted RTCP is too weak a sign to probe for ever.
            if kind == Kind::SecureRtcp && number >= 8 {
                continue;
            }
            let mut datagrams: Vec<_> = others.collect();
            datagrams.extend((0..20).map(|at| (0, packet(9, at))));
            let record = record_of(&datagrams);
            assert_eq!(counts(&record, 0), Some((9, 20, 0, 1)), "{number} {kind:?}");
            datagrams.truncate(number);
            datagrams.extend(handshake());
            let record = record_of(&datagrams);
            assert_eq!(name_of(&record), Some("d.example"), "{number} {kind:?}");
        }
    }
}

#[test]
fn flow_has_the_columns_of_dtls_and_of_rtp() {
    let rtp = || (0..30).map(|at| (0, packet(9, at)));
    let other = || (0..30).map(|at| (1, packet(10, at)));
    let orders: [Vec<_>; 4] = [
        handshake()
            .into_iter()
            .chain(rtp())
            .chain(other())
            .collect(),
        rtp().chain(handshake()).chain(other()).collect(),
        rtp()
            .take(1)
            .chain(handshake())
            .chain(rtp().skip(1))
            .chain(other())
            .collect(),
        rtp()
            .zip(other())
            .flat_map(|(one, other)| [one, other])
            .chain(handshake())
            .collect(),
    ];
    for (order, datagrams) in orders.iter().enumerate() {
        let record = record_of(datagrams);
        assert_eq!(counts(&record, 0), Some((9, 30, 0, 1)), "{order}");
        assert_eq!(counts(&record, 1), Some((10, 30, 0, 1)), "{order}");
        assert_eq!(name_of(&record), Some("d.example"), "{order}");
        assert_eq!(record.tls.unwrap().version, Some(0xfefd), "{order}");
        assert_eq!(record.incomplete, Incomplete::default(), "{order}");
    }
}

/// A hello in fragments, between packets of RTP, and an active timeout in the middle.
#[test]
fn timeout_keeps_a_handshake_between_rtp() {
    let mut inspector = inspector();
    let mut state = InspectState::default();
    let key = key(17, 5004);
    let body = hello_body(b"");
    let halves = [0..100, 100..body.len()].map(|range| dtls_record(1, 0, &body, range));
    let mut time = 0;
    let mut send = |inspector: &mut Inspector, state: &mut InspectState, payload: &[u8]| {
        time += 1;
        inspector.observe(state, &segment(&key, time, 0, 0, payload), || key);
    };
    for at in 0..10 {
        send(&mut inspector, &mut state, &packet(9, at));
    }
    send(&mut inspector, &mut state, &halves[0]);
    let record = snapshot(&mut inspector, &mut state, &key);
    assert_eq!(counts(&record, 0), Some((9, 10, 0, 1)));
    assert_eq!(name_of(&record), None);
    for at in 10..20 {
        send(&mut inspector, &mut state, &packet(9, at));
    }
    send(&mut inspector, &mut state, &halves[1]);
    let record = inspector.finish(&mut state, &key);
    assert_eq!(counts(&record, 0), Some((9, 10, 0, 1)));
    assert_eq!(name_of(&record), Some("d.example"));
    assert_eq!(record.incomplete, Incomplete::default());
    assert_idle(&inspector);
}

#[test]
fn source_that_replaces_another_is_no_loss() {
    let change = |one: u16, other: u16| {
        let first = (0..one).map(|at| (0, packet(1, at)));
        let second = (0..other).map(|at| (0, packet(2, 30_000 + at)));
        record_of(&first.chain(second).collect::<Vec<_>>())
    };
    assert_eq!(counts(&change(50, 20), 0), Some((1, 50, 0, 2)));
    assert_eq!(counts(&change(20, 50), 0), Some((2, 50, 0, 2)));
    assert_eq!(counts(&change(30, 30), 0), Some((1, 30, 0, 2)));
    assert_eq!(counts(&change(50, 3), 0), Some((1, 50, 0, 1)));
}

#[test]
fn further_sources_are_marked_when_there_is_no_room() {
    let datagrams: Vec<_> = (0..20)
        .flat_map(|source| (0..10).map(move |at| (0, packet(source, at))))
        .collect();
    let record = record_of(&datagrams);
    assert_eq!(counts(&record, 0), Some((0, 10, 0, 7)));
    assert!(record.incomplete.contains(Incomplete::WORK));
}

/// Padding, an extension, contributing sources, and a sequence that wraps around.
#[test]
fn counts_packets_with_any_header() {
    let datagrams: Vec<_> = (0..100_u16)
        .map(|at| {
            let mut bytes = packet(7, at.wrapping_sub(50));
            let (flags, more): (u8, &[u8]) = match at % 4 {
                0 => (0, &[]),
                1 => (0x20, &[0, 0, 3]),
                2 => (0x10, &[0xbe, 0xde, 0, 1, 0x10, 0xff, 0, 0]),
                _ => (2, &[1; 8]),
            };
            bytes[0] |= flags;
            bytes.extend(more);
            if flags == 0x10 {
                bytes.splice(12..12, more.iter().copied());
            }
            (0, bytes)
        })
        .collect();
    assert_eq!(counts(&record_of(&datagrams), 0), Some((7, 100, 0, 1)));
    // Each twice.
    let twice: Vec<_> = datagrams
        .iter()
        .flat_map(|it| [it.clone(), it.clone()])
        .collect();
    assert_eq!(counts(&record_of(&twice), 0), Some((7, 200, 0, 1)));
}

/// A long header of QUIC behind a packet that looks like RTP is still read.
#[test]
fn reads_quic_behind_a_packet_that_looks_like_rtp() {
    let datagrams = [(1, packet(1, 1)), (0, quic::whole())];
    let record = record_of(&datagrams);
    assert_eq!(name_of(&record), Some("q.test"));
}

proptest! {
    /// Several sources in both directions, interleaved in any way, with any other datagrams of a media
    /// session between them: each is counted alone.
    #[test]
    fn interleaved_sources_are_counted_alone(
        order in prop::collection::vec(0_usize..5, 150..300),
        firsts in prop::array::uniform5(any::<u16>()),
        others in prop::collection::vec((0_usize..300, 0_usize..6), 0..60),
    ) {
        let mut next = firsts;
        let mut sent = [0; 5];
        let mut datagrams: Vec<_> = order
            .iter()
            .map(|&source| {
                let datagram = packet(100 + source as u32, next[source]);
                next[source] = next[source].wrapping_add(1);
                sent[source] += 1;
                // Three sources of the initiator, two of the responder.
                (u8::from(source > 2), datagram)
            })
            .collect();
        for (at, kind) in others {
            datagrams.insert(at.min(datagrams.len()), (at as u8 & 1, KINDS[kind].datagram()));
        }
        let record = record_of(&datagrams);
        for (direction, sources) in [(0, 0..3), (1, 3..5)] {
            let (ssrc, packets, lost, _) = counts(&record, direction).unwrap();
            let most = *sent[sources].iter().max().unwrap();
            prop_assert_eq!((packets, lost), (most, 0));
            prop_assert_eq!(packets, sent[ssrc as usize - 100]);
        }
    }
}
