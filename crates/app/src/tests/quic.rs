//! QUIC connections with hand-made Initial packets, which have a server name and TLS 1.3.

use super::*;
use crate::base_state::BaseState;
use crate::parser::{Context, Parser as _};
use crate::progress::Progress;
use crate::protocols::quic::{QuicState, read_crypto};

const WHOLE: &str = "\
    c800000001088394c8f03e51570804aabbccdd008000005b877346b4519f9b7ca366c0a51dc794da2591704242ac\
    f9024549e324ed3cc87452e65e27b63c1659250b2e4527fb13e5e574e9027ed731e3b176adddd08d40476056d924\
    5bd3f9008cbe6ad3abf98c7ed73a018dc93b3dfb701a0b\
    ";
const FIRST_HALF: &str = "\
    c900000001088394c8f03e51570804aabbccdd008000004f244646b42bdb9a7ce224c0f41dc794da2591704242ac\
    f9024549e324ed3cc87452e65e27b63c1659250b2e1727f902f7e575e91468d731e8ba7fa4ddd6fa1fedb2943a51\
    264844641440d7c67c3046\
    ";
const SECOND_HALF: &str = "\
    c400000001088394c8f03e51570804aabbccdd008000002060d56c00a0c862f4b6cecadd9fa63178b5c874d0e178\
    aceb5b016b08a6872b6a\
    ";
const WHOLE_V2: &str = "\
    d36b3343cf084e4557444349443104aabbccdd008000005b4ba23d6ad270730d908a7cc4944f10e4e7d9b6cc0c19\
    9190f9f7467df0cf70a76edf5d7f5d1efdf8a80458c9a9a5c512affd132e7b97b4e788a47e022f8fd3484edb15ad\
    3b9ed047f82cbe3c9938c02611ba662611b6e6130e4678\
    ";

const CLIENT_ID: [u8; 4] = [0xaa, 0xbb, 0xcc, 0xdd];
const ORIGINAL_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// A whole Initial packet of a client.
pub(super) fn whole() -> Vec<u8> {
    bytes(WHOLE)
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    digits
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A Version Negotiation packet with these connection IDs and versions.
fn negotiation(destination_id: &[u8], source_id: &[u8], versions: &[u32]) -> Vec<u8> {
    let mut packet = vec![0x80, 0, 0, 0, 0, destination_id.len() as u8];
    packet.extend(destination_id);
    packet.push(source_id.len() as u8);
    packet.extend(source_id);
    packet.extend(versions.iter().flat_map(|it| it.to_be_bytes()));
    packet
}

/// The record of a flow of these datagrams.
fn record_of(datagrams: &[(u8, Vec<u8>)]) -> AppRecord {
    let mut inspector = inspector();
    let mut flow = InspectState::default();
    let web = key(17, 443);
    for (time, (direction, payload)) in (0..).zip(datagrams) {
        let packet = segment(&web, time * 1000, *direction, 0, payload);
        inspector.observe(&mut flow, &packet, || web);
    }
    let record = inspector.finish(&mut flow, &web);
    assert_idle(&inspector);
    record
}

#[test]
fn records_the_negotiated_version() {
    let negotiation = |id: &[u8]| (1, negotiation(&CLIENT_ID, id, &[0x6b33_43cf, 0x1a2a_3a4a]));
    for first in [WHOLE, FIRST_HALF] {
        let first = (0, bytes(first));
        let record = record_of(&[
            first.clone(),
            negotiation(&ORIGINAL_ID),
            (0, bytes(WHOLE_V2)),
        ]);
        let quic = record.quic.as_deref().unwrap();
        assert_eq!(
            (quic.version, quic.version_negotiation),
            (0x6b33_43cf, Some(true))
        );
        assert_eq!(&*quic.original_destination_id, "8394c8f03e515708");
        assert_eq!(name_of(&record), Some("q.test"));
        assert!(record.tls.unwrap().ja4.is_some());
        assert_eq!(record.incomplete, Incomplete::default());
        // An answer to another client.
        let record = record_of(&[first, negotiation(b"whatever")]);
        assert_eq!(record.quic.unwrap().version_negotiation, None);
    }
}

#[test]
fn version_negotiation_may_answer_an_unknown_version() {
    let mut first = bytes(WHOLE);
    first[1..5].copy_from_slice(&0x1a2a_3a4a_u32.to_be_bytes());
    let negotiation = (1, negotiation(&CLIENT_ID, &ORIGINAL_ID, &[1]));
    let record = record_of(&[(0, first), negotiation, (0, bytes(WHOLE))]);
    let quic = record.quic.as_deref().unwrap();
    assert_eq!((quic.version, quic.version_negotiation), (1, Some(true)));
    assert_eq!(name_of(&record), Some("q.test"));
    let record = record_of(&[(0, bytes(WHOLE))]);
    assert_eq!(record.quic.unwrap().version_negotiation, None);
}

#[test]
fn fields_of_an_unseen_side_are_empty() {
    let handshake = || {
        let mut packet = vec![0xe0, 0, 0, 0, 1, 4];
        packet.extend(CLIENT_ID);
        packet.extend([1, 5, 2, 0, 0]);
        (1, packet)
    };
    let sent = |datagrams: &[(u8, Vec<u8>)]| {
        let record = record_of(datagrams);
        assert_eq!(record.tls.and_then(|tls| tls.resumed), None);
        let quic = record.quic.unwrap();
        [quic.zero_rtt, quic.retry, quic.version_negotiation]
    };
    let client = || (0, bytes(WHOLE));
    assert_eq!(sent(&[client()]), [Some(false), None, None]);
    assert_eq!(sent(&[client(), handshake()]), [Some(false); 3]);
    assert_eq!(sent(&[handshake()]), [None; 3]);
    // The client sends 0-RTT, the server Retry.
    let early = (0, vec![0xd0, 0, 0, 0, 1, 1, 9, 1, 8, 2, 0, 0]);
    assert_eq!(sent(&[early]), [Some(true), None, None]);
    let retry = (1, vec![0xf0, 0, 0, 0, 1, 1, 9, 1, 8, 2, 0, 0]);
    assert_eq!(
        sent(&[client(), retry]),
        [Some(false), Some(true), Some(false)]
    );
}

/// PCMU with sequence number 0 starts like Version Negotiation.
#[test]
fn detects_rtp_that_starts_like_version_negotiation() {
    let stream = |direction: u8, length: usize, first: u32| {
        (0..20).map(move |number| {
            let mut packet = rtp(number, first + u32::from(number) * 160);
            packet.resize(length, 0xd5);
            (direction, packet)
        })
    };
    for first in [0, 5000, 0x0003_0201, 0x00ff_ffff] {
        for length in 172..176 {
            for direction in [0, 1] {
                // A STUN packet comes first.
                let mut datagrams = vec![(0, vec![0, 1, 0, 0])];
                datagrams.extend(stream(direction, length, first));
                let record = record_of(&datagrams);
                let side = record.rtp[usize::from(direction)].as_deref().unwrap();
                assert_eq!(side.codec(), "PCMU");
                assert!(side.packets >= 19, "{first} {length} {direction}");
                assert_eq!(record.quic, None);
            }
        }
    }
}

/// CRYPTO frames of `length` bytes each, in an order given by `seed`.
fn frames(stream: &[u8], length: usize, seed: u64) -> Vec<Vec<u8>> {
    let chunks = (0..).step_by(length).zip(stream.chunks(length));
    let mut frames: Vec<_> = chunks
        .map(|(offset, chunk): (u16, _)| {
            let mut frame = vec![6];
            frame.extend((offset | 0x4000).to_be_bytes());
            frame.extend((chunk.len() as u16 | 0x4000).to_be_bytes());
            frame.extend(chunk);
            frame
        })
        .collect();
    let mut state = seed | 1;
    for index in (1..frames.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        frames.swap(index, (state >> 33) as usize % (index + 1));
    }
    frames
}

#[test]
fn reassembles_many_frames_in_any_order() {
    let hello = client_hello("shuffled.example", 200).split_off(5);
    for (length, packets) in [(1, 1), (3, 1), (7, 1), (3, 2), (7, 5), (7, 1000), (20, 4)] {
        for seed in 0..20 {
            let mut inspector = inspector();
            let mut state = QuicState::default();
            let (mut common, packet) = (BaseState::default(), L4Payload::empty(0, 17));
            let mut cx = Context::new(&mut inspector.services, &mut common, &packet);
            let frames = frames(&hello, length, seed);
            for packet in frames.chunks(frames.len().div_ceil(packets)) {
                read_crypto(&mut cx, &mut state, &packet.concat());
            }
            let mut record = AppRecord::default();
            state.finish(&mut cx, &mut record);
            let missing = cx.common.incomplete;
            assert_eq!(missing, Incomplete::default(), "{length} {packets}");
            let tls = record.tls.unwrap();
            assert_eq!(tls.server_name.as_deref(), Some("shuffled.example"));
            assert!(tls.ja4.is_some());
            assert_idle(&inspector);
        }
    }
}

#[test]
fn timeout_does_not_interrupt_a_hello() {
    let mut inspector = inspector();
    let mut flow = InspectState::default();
    let web = key(17, 443);
    let [first, second] = [FIRST_HALF, SECOND_HALF].map(bytes);
    inspector.observe(&mut flow, &segment(&web, 0, 0, 0, &first), || web);
    let record = snapshot(&mut inspector, &mut flow, &web);
    assert_eq!(record.quic.as_deref().unwrap().version, 1);
    assert!(record.tls.is_some_and(|tls| tls.ja4.is_none()));
    assert_eq!(record.incomplete, Incomplete::default());
    inspector.observe(&mut flow, &segment(&web, 1, 0, 0, &second), || web);
    let record = inspector.finish(&mut flow, &web);
    assert_eq!(name_of(&record), Some("q.test"));
    assert!(record.tls.unwrap().ja4.is_some());
    let quic = record.quic.unwrap();
    assert_eq!(&*quic.original_destination_id, "8394c8f03e515708");
    assert_eq!(record.incomplete, Incomplete::default());
    assert_idle(&inspector);
}

/// A long header of this kind with these connection IDs. Its content cannot be decrypted.
fn long_header(kind: u8, destination_id: &[u8], source_id: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4, 0, 0, 0, 1, destination_id.len() as u8];
    packet.extend(destination_id);
    packet.push(source_id.len() as u8);
    packet.extend(source_id);
    match kind {
        // An empty token, and a length.
        0 => packet.extend([0, 0x40, 60]),
        // Retry: a token with an integrity tag.
        3 => {}
        _ => packet.extend([0x40, 60]),
    }
    packet.extend([0xa7; 60]);
    packet
}

const SERVER_ID: [u8; 5] = [0x51; 5];

/// The server's packets.
fn server_packets() -> Vec<Vec<u8>> {
    let initial = long_header(0, &CLIENT_ID, &SERVER_ID);
    let handshake = long_header(2, &CLIENT_ID, &SERVER_ID);
    vec![
        initial.clone(),
        [initial, handshake.clone()].concat(),
        handshake,
    ]
}

/// What a record says that does not depend on the order of packets.
fn ids_of(record: &AppRecord) -> (String, [String; 3], [Option<bool>; 3]) {
    let quic = record.quic.as_deref().unwrap();
    let ids = [
        &quic.original_destination_id,
        &quic.client_id,
        &quic.server_id,
    ];
    let sent = [quic.zero_rtt, quic.retry, quic.version_negotiation];
    let name = name_of(record).unwrap_or_default().to_owned();
    (name, ids.map(|id| id.to_string()), sent)
}

#[test]
fn server_may_be_captured_first() {
    for server in server_packets() {
        for client in [0, 1] {
            let datagrams = [(1 - client, server.clone()), (client, bytes(WHOLE))];
            let record = record_of(&datagrams);
            let (name, ids, sent) = ids_of(&record);
            assert_eq!(name, "q.test");
            assert_eq!(ids, ["8394c8f03e515708", "aabbccdd", "5151515151"]);
            assert_eq!(sent, [Some(false); 3]);
            // Its first answer came before the client's packet, so later ones give no round trip.
            let later = [&datagrams[..], &[(1 - client, server.clone())]].concat();
            let record = record_of(&later);
            assert_eq!(record.quic.unwrap().handshake_rtt_ns, None);
        }
    }
    // With a connection ID of length 0.
    let server = long_header(2, &CLIENT_ID, &[]);
    let (_, ids, sent) = ids_of(&record_of(&[(0, server), (1, bytes(WHOLE))]));
    assert_eq!((&*ids[2], sent), ("", [Some(false); 3]));
}

/// A Retry and Version Negotiation that were captured before the client are kept.
#[test]
fn answers_before_the_client_are_kept() {
    for client in [0, 1] {
        let retry = (1 - client, long_header(3, &CLIENT_ID, &SERVER_ID));
        let (_, _, sent) = ids_of(&record_of(&[retry, (client, bytes(WHOLE))]));
        assert_eq!(sent, [Some(false), Some(true), Some(false)]);
        let mut packet = negotiation(&CLIENT_ID, &ORIGINAL_ID, &[1]);
        packet[0] |= 0x40;
        let (_, _, sent) = ids_of(&record_of(&[(1 - client, packet), (client, bytes(WHOLE))]));
        assert_eq!(sent, [Some(false), Some(false), Some(true)]);
    }
}

/// Forged packets behind a valid one cost little, and do not hide the end of a hello that comes early.
#[test]
fn work_for_forged_packets_is_bounded() {
    let mut inspector = inspector();
    let mut flow = InspectState::default();
    let web = key(17, 443);
    let send = |inspector: &mut Inspector, flow: &mut InspectState, payload: &[u8]| {
        inspector.observe(flow, &segment(&web, 0, 0, 0, payload), || web);
    };
    send(&mut inspector, &mut flow, &bytes(FIRST_HALF));
    let valid = inspector.services.initial_work.done;
    for number in 0..3_u64 {
        send(
            &mut inspector,
            &mut flow,
            &long_header(0, &number.to_be_bytes(), &CLIENT_ID),
        );
    }
    let mut other = flow;
    send(&mut inspector, &mut other, &bytes(SECOND_HALF));
    let record = inspector.finish(&mut other, &web);
    assert_eq!(name_of(&record), Some("q.test"));
    assert_eq!(record.incomplete, Incomplete::default());

    let mut flow = InspectState::default();
    send(&mut inspector, &mut flow, &bytes(FIRST_HALF));
    let before = inspector.services.initial_work.done;
    for number in 0..1000_u64 {
        send(
            &mut inspector,
            &mut flow,
            &long_header(0, &number.to_be_bytes(), &CLIENT_ID),
        );
    }
    // Less than ten times what one valid packet costs, for a hundred packets.
    let done = inspector.services.initial_work.done - before;
    assert!(done < 100 * valid, "{done} for {valid}");
    assert!(inspector.services.initial_work.cuts > 900);
    let record = inspector.finish(&mut flow, &web);
    assert!(record.incomplete.contains(Incomplete::WORK));
    assert_idle(&inspector);
}

/// One client cannot make the reassembly sort and insert frames without end.
#[test]
fn number_of_crypto_frames_is_bounded() {
    let mut inspector = inspector();
    let mut state = QuicState::default();
    let mut common = BaseState::default();
    let mut cx = Context {
        services: &mut inspector.services,
        common: &mut common,
        packet: &L4Payload::empty(0, 17),
        progress: Progress::NONE,
    };
    // Frames of one byte, of a message that never ends.
    let frame = [6, 0x40, 4, 1, 7];
    for _ in 0..100 {
        read_crypto(&mut cx, &mut state, &frame.repeat(240));
    }
    assert!(cx.services.initial_work.done < 600);
    assert!(cx.services.initial_work.cuts > 0);
    assert!(cx.common.incomplete.contains(Incomplete::WORK));
    state.finish(&mut cx, &mut AppRecord::default());
    assert_idle(&inspector);
}

proptest! {
    /// The record of a connection does not depend on the order of its packets, but for the round trip.
    #[test]
    fn any_order_of_packets_gives_the_same_record(
        order in Just((0..7_usize).collect::<Vec<_>>()).prop_shuffle(),
        client in 0..2_u8,
        twice in any::<[bool; 7]>(),
    ) {
        let mut packets = vec![
            (client, bytes(FIRST_HALF)),
            (client, bytes(SECOND_HALF)),
            (client, long_header(1, &ORIGINAL_ID, &CLIENT_ID)),
            (client, long_header(2, &SERVER_ID, &CLIENT_ID)),
        ];
        packets.extend(server_packets().into_iter().map(|it| (1 - client, it)));
        let datagrams: Vec<_> = order
            .iter()
            .flat_map(|&at| vec![packets[at].clone(); 1 + usize::from(twice[at])])
            .collect();
        let record = record_of(&datagrams);
        let (name, ids, sent) = ids_of(&record);
        prop_assert_eq!(name, "q.test");
        prop_assert_eq!(ids, ["8394c8f03e515708", "aabbccdd", "5151515151"]);
        prop_assert_eq!(sent, [Some(true), Some(false), Some(false)]);
        prop_assert_eq!(record.incomplete, Incomplete::default());
        prop_assert!(record.tls.unwrap().ja4.is_some());
    }
}
