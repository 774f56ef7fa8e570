//! Protocols over UDP: QUIC, DTLS, RTP and STUN.

use crate::{Reader, Run, measured};
use app::{InspectState, Inspector, InspectorLimits, L4Payload};
use std::sync::Arc;
use wire::FlowKey;

/// Number of packets whose cost is measured.
const PACKETS: usize = 600;

/// A packet: number of its flow, direction and payload.
type Packet = (u16, u8, Vec<u8>);

/// A scenario: its name, and its packet of a number.
type Scenario = (&'static str, fn(usize) -> Packet);

/// Of each protocol: a benign scenario, and hostile ones.
const PROTOCOLS: &[(Scenario, &[Scenario])] = &[
    (
        ("benign QUIC", benign_quic),
        &[
            ("forged Initial behind a valid one", forged_behind_valid),
            ("forged Initial of the server", forged_by_both),
            ("forged Initial without a valid one", forged_alone),
            ("six forged Initials in a datagram", forged_coalesced),
            ("valid Initial without end", valid_without_end),
        ],
    ),
    (
        ("benign DTLS", benign_dtls),
        &[
            ("fragments of many messages", dtls_fragments),
            ("hello that never ends", dtls_never_ending),
            ("certificate without names", dtls_certificates),
            ("records of unknown types", dtls_records),
        ],
    ),
    (
        ("benign RTP", benign_rtp),
        &[
            ("RTP of a new source each time", rtp_sources),
            ("RTP of sixteen sources", rtp_sixteen_sources),
            ("RTP far off", rtp_far_off),
            ("compound RTCP", rtcp_compound),
            ("RTP of nobody", rtp_unconfirmed),
        ],
    ),
    (
        ("benign STUN", benign_stun),
        &[
            ("STUN and unknown payload", stun_and_unknown),
            ("TURN channel data", turn_channel_data),
            ("DTLS without a hello", dtls_without_hello),
        ],
    ),
];

/// The client's first Initial packet, with the first half of a ClientHello, whose flow lacks the second
/// half.
const FIRST_HALF: &str = "\
    c900000001088394c8f03e51570804aabbccdd008000004f244646b42bdb9a7ce224c0f41dc794da2591704242ac\
    f9024549e324ed3cc87452e65e27b63c1659250b2e1727f902f7e575e91468d731e8ba7fa4ddd6fa1fedb2943a51\
    264844641440d7c67c3046\
    ";

/// The same with a whole ClientHello.
const WHOLE: &str = "\
    c800000001088394c8f03e51570804aabbccdd008000005b877346b4519f9b7ca366c0a51dc794da2591704242ac\
    f9024549e324ed3cc87452e65e27b63c1659250b2e4527fb13e5e574e9027ed731e3b176adddd08d40476056d924\
    5bd3f9008cbe6ad3abf98c7ed73a018dc93b3dfb701a0b\
    ";

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    digits
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Some bytes that depend on a number.
fn noise(number: usize, length: usize) -> impl Iterator<Item = u8> {
    (0..length).map(move |at| (number * 151 + at * 29 + ((number * at) >> 3)) as u8)
}

/// A long header of QUIC v1 with content of `length` bytes.
fn long_header(first: u8, number: usize, length: u16) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 1, 8];
    packet.extend(
        (number as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes(),
    );
    packet.push(0);
    if first & 0x30 == 0 {
        packet.push(0);
    }
    packet.extend((length | 0x4000).to_be_bytes());
    packet.extend(noise(number, usize::from(length)));
    packet
}

/// Connections of one Initial packet, an answer and 50 short headers.
fn benign_quic(number: usize) -> Packet {
    let flow = (number / 52) as u16;
    match number % 52 {
        0 => (flow, 0, bytes(WHOLE)),
        1 => (
            flow,
            1,
            [long_header(0xc0, 1, 100), long_header(0xe0, 1, 900)].concat(),
        ),
        at => (
            flow,
            at as u8 & 1,
            noise(number, 1200).map(|byte| byte & 0x3f | 0x40).collect(),
        ),
    }
}

fn forged_behind_valid(number: usize) -> Packet {
    match number {
        0 => (0, 0, bytes(FIRST_HALF)),
        _ => (0, 0, long_header(0xc0, number, 300)),
    }
}

fn forged_by_both(number: usize) -> Packet {
    let (_, _, payload) = forged_behind_valid(number);
    (0, number as u8 & 1, payload)
}

fn forged_alone(number: usize) -> Packet {
    (0, number as u8 & 1, long_header(0xc0, number, 1100))
}

fn forged_coalesced(number: usize) -> Packet {
    match number {
        0 => (0, 0, bytes(FIRST_HALF)),
        _ => (
            0,
            0,
            (0..6)
                .flat_map(|at| long_header(0xc0, 6 * number + at, 150))
                .collect(),
        ),
    }
}

fn valid_without_end(_: usize) -> Packet {
    (0, 0, bytes(FIRST_HALF))
}

/// A record of DTLS.
fn dtls_record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0];
    record.extend((content.len() as u16).to_be_bytes());
    record.extend(content);
    record
}

/// A fragment of a handshake message.
fn fragment(kind: u8, length: u32, number: u16, offset: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(&length.to_be_bytes()[1..]);
    bytes.extend(number.to_be_bytes());
    bytes.extend(&offset.to_be_bytes()[1..]);
    bytes.extend(&(content.len() as u32).to_be_bytes()[1..]);
    bytes.extend(content);
    bytes
}

fn dtls_hello() -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend([7; 32]);
    body.extend([0, 0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0, 0, 20]);
    body.extend([0, 0, 0, 14, 0, 12, 0, 0, 9]);
    body.extend(b"d.example");
    body.extend([0, 23, 0, 0][..2].iter());
    body
}

/// Handshakes of eight datagrams.
fn benign_dtls(number: usize) -> Packet {
    let flow = (number / 8) as u16;
    let hello = dtls_hello();
    let mut server = vec![0xfe, 0xfd];
    server.extend([9; 32]);
    server.extend([0, 0xc0, 0x2b, 0]);
    let message =
        |kind, body: &[u8]| dtls_record(22, &fragment(kind, body.len() as u32, 0, 0, body));
    match number % 8 {
        0 => (flow, 0, message(1, &hello)),
        1 => (flow, 1, message(2, &server)),
        2 => (
            flow,
            1,
            dtls_record(22, &fragment(11, 900, 1, 0, &[1; 450])),
        ),
        3 => (
            flow,
            1,
            dtls_record(22, &fragment(11, 900, 1, 450, &[1; 450])),
        ),
        4 => (flow, 1, message(14, &[])),
        5 => (flow, 0, message(16, &[5; 60])),
        6 => (flow, 0, dtls_record(20, &[1])),
        _ => (flow, 1, dtls_record(20, &[1])),
    }
}

/// As many fragments as fit into a datagram, each of another message than the one before.
fn dtls_fragments(number: usize) -> Packet {
    let flow = (number / 190) as u16;
    let fragments = (0..80).flat_map(|at| fragment(1, 60_000, at, 0, &[1]));
    (flow, 0, dtls_record(22, &fragments.collect::<Vec<_>>()))
}

fn dtls_never_ending(number: usize) -> Packet {
    let flow = (number / 190) as u16;
    let at = (number % 190 * 80) as u32;
    let fragments = (0..80).flat_map(|byte| fragment(1, 16_000, 0, at + byte, &[1]));
    (flow, 0, dtls_record(22, &fragments.collect::<Vec<_>>()))
}

fn dtls_certificates(number: usize) -> Packet {
    let flow = (number / 190) as u16;
    if number.is_multiple_of(190) {
        let (_, _, server) = benign_dtls(1);
        return (flow, 1, server);
    }
    let body = [0, 4, 0, 0, 3, 0xfd, 0x30, 0x82, 3, 0xf9]
        .into_iter()
        .chain([0x30; 1014]);
    let body: Vec<u8> = body.collect();
    (
        flow,
        1,
        dtls_record(22, &fragment(11, body.len() as u32, 0, 0, &body)),
    )
}

fn dtls_records(number: usize) -> Packet {
    let flow = (number / 190) as u16;
    match number % 190 {
        0 => (flow, 0, dtls_record(22, &fragment(1, 300, 0, 0, &[1; 100]))),
        _ => (
            flow,
            0,
            (0..80).flat_map(|_| dtls_record(21, &[2])).collect(),
        ),
    }
}

fn rtp(ssrc: usize, sequence: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 96];
    packet.extend((sequence as u16).to_be_bytes());
    packet.extend((sequence as u32 * 160).to_be_bytes());
    packet.extend((ssrc as u32).to_be_bytes());
    packet.extend([0xd5; 160]);
    packet
}

fn benign_rtp(number: usize) -> Packet {
    (0, 0, rtp(7, number))
}

/// A source that is identified, then others.
fn rtp_sources(number: usize) -> Packet {
    (0, 0, rtp(if number < 8 { 7 } else { number }, number))
}

fn rtp_sixteen_sources(number: usize) -> Packet {
    (0, 0, rtp(number % 16, number / 16))
}

fn rtp_far_off(number: usize) -> Packet {
    (
        0,
        0,
        rtp(7, if number < 8 { number } else { number * 20_000 }),
    )
}

fn rtcp_compound(number: usize) -> Packet {
    match number {
        0..8 => (0, 0, rtp(7, number)),
        _ => (0, 0, [0x80, 201, 0, 1, 1, 2, 3, 4].repeat(150)),
    }
}

fn rtp_unconfirmed(number: usize) -> Packet {
    ((number / 50) as u16, 0, rtp(number, number * 20_000))
}

fn stun(number: usize) -> Vec<u8> {
    let mut packet = vec![0, 1, 0, 80, 0x21, 0x12, 0xa4, 0x42];
    packet.extend(noise(number, 92));
    packet
}

fn benign_stun(number: usize) -> Packet {
    (0, number as u8 & 1, stun(number))
}

/// Unknown payload between STUN, in many flows.
fn stun_and_unknown(number: usize) -> Packet {
    let payload = match number % 2 {
        0 => stun(number),
        _ => noise(number, 1200).map(|byte| byte | 0xc0).collect(),
    };
    ((number / 16) as u16, 0, payload)
}

fn turn_channel_data(number: usize) -> Packet {
    let mut packet = vec![0x40, 1, 0, 200];
    packet.extend(noise(number, 200));
    (0, 0, packet)
}

fn dtls_without_hello(number: usize) -> Packet {
    let content: Vec<u8> = noise(number, 1200).collect();
    (0, 0, dtls_record(23, &content))
}

/// Inspects the packets of a scenario. The records are not written, since that is work of the flow.
fn inspect(packet: fn(usize) -> Packet, packets: usize) {
    let mut inspector =
        Inspector::new(1024, &InspectorLimits::default(), Arc::default(), 1).unwrap();
    let mut states = vec![InspectState::default(); packets];
    for number in 0..packets {
        let (flow, direction, payload) = packet(number);
        let mut key = FlowKey {
            version: 4,
            protocol: 17,
            source_port: 40_000,
            destination_port: 50_000,
            ..FlowKey::default()
        };
        key.source[..2].copy_from_slice(&flow.to_be_bytes());
        let ports = match direction {
            0 => [key.source_port, key.destination_port],
            _ => [key.destination_port, key.source_port],
        };
        let datagram = L4Payload {
            time_ns: number as i64 * 1000,
            direction,
            protocol: 17,
            tcp_flags: 0,
            sequence: 0,
            acknowledgement: 0,
            source_port: ports[0],
            destination_port: ports[1],
            payload: &payload,
            payload_length: payload.len() as u32,
        };
        let state = &mut states[usize::from(flow)];
        measured(&mut || inspector.observe(state, &datagram, || key));
    }
}

/// The readers of datagrams.
pub(crate) fn readers() -> Vec<Reader> {
    let run = |&(name, packet): &Scenario| {
        Run::new(name, move || {
            inspect(packet, PACKETS);
            PACKETS
        })
    };
    let reader = |(benign, hostile): &(Scenario, &[Scenario])| Reader {
        benign: run(benign),
        hostile: hostile.iter().map(run).collect(),
    };
    PROTOCOLS.iter().map(reader).collect()
}
