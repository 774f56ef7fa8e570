//! DNS: messages of many records, names of many pointers, and streams of many messages.

use crate::streams::{self, Segment, Stream};
use crate::{Reader, Run, measured};
use app::{InspectState, Inspector, InspectorLimits, L4Payload};
use std::sync::Arc;
use wire::FlowKey;

/// Number of datagrams of a run.
const DATAGRAMS: usize = 400;

/// The most bytes of a datagram: of a usual frame, and of a jumbo frame.
const USUAL: usize = 1472;
const JUMBO: usize = 8972;

/// The start of a message: id, flags and counts.
fn header(id: usize, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut bytes = (id as u16).to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(counts.into_iter().flat_map(u16::to_be_bytes));
    bytes
}

const QUESTION: &[u8] = b"\x03www\x07example\x03com\0\0\x01\0\x01";

fn query(id: usize) -> Vec<u8> {
    [&header(id, 0x0100, [1, 0, 0, 0])[..], QUESTION].concat()
}

/// A response with one address.
fn response(id: usize) -> Vec<u8> {
    let mut bytes = [&header(id, 0x8180, [1, 1, 0, 0])[..], QUESTION].concat();
    bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x01");
    bytes.extend((id as u16).to_be_bytes());
    bytes
}

/// A response with as many records as fit.
fn records(id: usize, length: usize, record: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let size = record(0).len();
    let count = (length - 12 - QUESTION.len()) / size;
    let mut bytes = [&header(id, 0x8180, [1, count as u16, 0, 0])[..], QUESTION].concat();
    (0..count).for_each(|number| bytes.extend(record(number)));
    bytes
}

/// A record with the address of a number.
fn address(number: usize) -> Vec<u8> {
    let mut bytes = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x02".to_vec();
    bytes.extend((number as u16).to_be_bytes());
    bytes
}

/// A name of this many labels, each behind a pointer.
fn pointers(id: usize, count: usize) -> Vec<u8> {
    let mut bytes = header(id, 0x8180, [1, 0, 0, 0]);
    for number in 0..count {
        let next = bytes.len() + 4;
        bytes.extend([
            1,
            b'a' + (number % 26) as u8,
            0xc0 | (next >> 8) as u8,
            next as u8,
        ]);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// A question whose name needs an escape in each byte.
fn escaped(id: usize) -> Vec<u8> {
    let mut bytes = header(id, 0x8180, [1, 0, 0, 0]);
    for _ in 0..3 {
        bytes.push(63);
        bytes.extend([id as u8 | 0x80; 63]);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// As many questions as fit.
fn questions(id: usize, length: usize) -> Vec<u8> {
    let count = (length - 12) / 5;
    let mut bytes = header(id, 0x8180, [count as u16, 0, 0, 0]);
    bytes.extend([0, 0, 1, 0, 1].repeat(count));
    bytes
}

/// Inspects datagrams of a client and a resolver; every `per_flow` ones are another flow.
fn datagrams(per_flow: usize, packet: impl Fn(usize) -> (u8, Vec<u8>)) -> usize {
    let limits = InspectorLimits::default();
    let mut inspector = Inspector::new(1024, &limits, Arc::default(), 1).unwrap();
    let mut key = FlowKey {
        version: 4,
        protocol: 17,
        destination_port: 53,
        ..FlowKey::default()
    };
    (key.source[0], key.destination[0]) = (10, 192);
    let mut state = InspectState::default();
    for number in 0..DATAGRAMS {
        key.source_port = 20_000 + (number / per_flow) as u16;
        let (direction, payload) = packet(number);
        let ports = match direction {
            0 => [key.source_port, 53],
            _ => [53, key.source_port],
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
        measured(&mut || inspector.observe(&mut state, &datagram, || key));
        if number % per_flow == per_flow - 1 {
            measured(&mut || drop(inspector.finish(&mut state, &key)));
        }
    }
    DATAGRAMS
}

/// A message behind its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// A query and its response by turns, of which each is a segment.
fn benign_stream() -> Vec<Segment> {
    let (query, response) = (framed(&query(7)), framed(&response(7)));
    let pair = |at: u32| {
        let query = (0, at * query.len() as u32, query.clone());
        [query, (1, at * response.len() as u32, response.clone())]
    };
    (0..20).flat_map(pair).collect()
}

fn hostile_streams() -> Vec<Stream> {
    let stream = |name, direction, bytes: Vec<u8>| Stream {
        name,
        direction,
        before: Vec::new(),
        bytes,
    };
    let many = |message: &dyn Fn(usize) -> Vec<u8>| {
        let mut bytes = Vec::new();
        for id in 0.. {
            bytes.extend(framed(&message(id)));
            if bytes.len() > 16_000 {
                break;
            }
        }
        bytes
    };
    vec![
        stream(
            "small responses of DNS",
            1,
            many(&|id| header(id, 0x8180, [0; 4])),
        ),
        stream(
            "small queries of DNS",
            0,
            many(&|id| header(id, 0x0100, [0; 4])),
        ),
        stream("queries of DNS", 0, many(&query)),
        stream("responses with an address", 1, many(&response)),
        stream(
            "responses with many addresses",
            1,
            many(&|id| records(id, 550, address)),
        ),
        stream("responses with pointers", 1, many(&|id| pointers(id, 32))),
        stream("responses with an escaped name", 1, many(&escaped)),
        stream(
            "message without an end",
            1,
            framed(&records(1, 60_000, address)),
        ),
        stream(
            "empty messages",
            1,
            [framed(&response(1)), vec![0; 15_000]].concat(),
        ),
        stream(
            "messages too short",
            1,
            [framed(&response(1)), [0, 1, 9].repeat(5000)].concat(),
        ),
    ]
}

pub(crate) fn readers() -> Vec<Reader> {
    let by_datagram = |name: &str, message: fn(usize) -> Vec<u8>| {
        Run::new(name, move || datagrams(50, |number| (1, message(number))))
    };
    vec![
        Reader {
            benign: Run::new("benign DNS", || {
                datagrams(2, |number| match number % 2 {
                    0 => (0, query(number)),
                    _ => (1, response(number - 1)),
                })
            }),
            hostile: vec![
                by_datagram("responses nobody asked for, over UDP", response),
                by_datagram("queries without responses", query),
                by_datagram("addresses in a full frame", |id| {
                    records(id, USUAL, address)
                }),
                by_datagram("other addresses each time", |id| {
                    records(id, USUAL, |number| address(id * 100 + number))
                }),
                by_datagram("small records in a full frame", |id| {
                    records(id, USUAL, |_| b"\0\0\x10\0\x01\0\0\0\x3c\0\0".to_vec())
                }),
                by_datagram("small records in a jumbo frame", |id| {
                    records(id, JUMBO, |_| b"\0\0\x10\0\x01\0\0\0\x3c\0\0".to_vec())
                }),
                by_datagram("names of many labels in a full frame", |id| {
                    records(id, USUAL, |_| {
                        [&b"\x01a".repeat(120)[..], b"\0\0\x10\0\x01\0\0\0\x3c\0\0"].concat()
                    })
                }),
                by_datagram("names of many labels in a jumbo frame", |id| {
                    records(id, JUMBO, |_| {
                        [&b"\x01a".repeat(120)[..], b"\0\0\x10\0\x01\0\0\0\x3c\0\0"].concat()
                    })
                }),
                by_datagram("questions in a full frame", |id| questions(id, USUAL)),
                by_datagram("questions in a jumbo frame", |id| questions(id, JUMBO)),
                by_datagram("pointers", |id| pointers(id, 32)),
                by_datagram("more pointers", |id| pointers(id, 300)),
                by_datagram("escaped name", escaped),
                by_datagram("header of many counts", |id| {
                    header(id, 0x8180, [1, 1000, 1000, 1000])
                }),
            ],
        },
        Reader {
            benign: Run::new("benign DNS over TCP", || {
                streams::exchange(53, &[], &benign_stream())
            }),
            hostile: streams::hostile_runs(53, &hostile_streams(), &[1, 5, 18, 100, 536, 1460]),
        },
    ]
}
