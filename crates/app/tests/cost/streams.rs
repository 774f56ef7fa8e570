//! Protocols over TCP and the reassembly of their streams: HTTP, TLS, SSH, DNS over TCP.

use crate::{Reader, Run, measured};
use app::{InspectState, Inspector, InspectorLimits, L4Payload};
use std::sync::Arc;
use wire::FlowKey;
use wire::tcp::flag::{ACK, FIN, SYN};

/// The most segments of a run.
const SEGMENTS_MAX: usize = 2000;

/// The most bytes that hostile streams have: about as many as a buffer holds.
const FAR: usize = 15_000;

/// Lengths of segments.
const LENGTHS: [usize; 6] = [1, 5, 18, 100, 536, 1460];

/// Orders of segments.
const ORDERS: [&str; 5] = [
    "in order",
    "the first one last",
    "reversed",
    "every second one late",
    "all twice",
];

/// A segment: its direction, the offset of its first byte, and its payload.
pub(crate) type Segment = (u8, u32, Vec<u8>);

/// A connection to a port.
pub(crate) struct Connection {
    inspector: Inspector,
    state: InspectState,
    key: FlowKey,
    time_ns: i64,
}

impl Connection {
    pub(crate) fn new(port: u16) -> Self {
        let mut key = FlowKey {
            version: 4,
            protocol: 6,
            source_port: 40_000,
            destination_port: port,
            ..FlowKey::default()
        };
        (key.source[0], key.destination[0]) = (10, 192);
        let limits = InspectorLimits::default();
        let mut connection = Self {
            inspector: Inspector::new(16, &limits, Arc::default(), 1).unwrap(),
            state: InspectState::default(),
            key,
            time_ns: 0,
        };
        connection.send(SYN, 0, 0, &[]);
        connection.send(SYN | ACK, 1, 0, &[]);
        connection
    }

    fn packet<'a>(
        &self,
        tcp_flags: u8,
        direction: u8,
        sequence: u32,
        payload: &'a [u8],
    ) -> L4Payload<'a> {
        let ports = match direction {
            0 => [self.key.source_port, self.key.destination_port],
            _ => [self.key.destination_port, self.key.source_port],
        };
        L4Payload {
            time_ns: self.time_ns,
            direction,
            protocol: 6,
            tcp_flags,
            sequence,
            acknowledgement: 0,
            source_port: ports[0],
            destination_port: ports[1],
            payload,
            payload_length: payload.len() as u32,
        }
    }

    /// Sends a segment that is not measured.
    pub(crate) fn send(&mut self, flags: u8, direction: u8, sequence: u32, payload: &[u8]) {
        self.time_ns += 1_000_000;
        let packet = self.packet(flags, direction, sequence, payload);
        self.inspector
            .observe(&mut self.state, &packet, || self.key);
    }

    /// Sends a segment that is measured.
    fn measure(&mut self, direction: u8, offset: u32, payload: &[u8]) {
        self.time_ns += 1_000_000;
        let packet = self.packet(ACK, direction, 1 + offset, payload);
        measured(&mut || {
            self.inspector
                .observe(&mut self.state, &packet, || self.key)
        });
    }

    /// Acknowledges all bytes of the other direction up to an offset, measured.
    fn acknowledge(&mut self, direction: u8, offset: u32) {
        let mut packet = self.packet(ACK, direction, 1, &[]);
        packet.acknowledgement = 1 + offset;
        measured(&mut || {
            self.inspector
                .observe(&mut self.state, &packet, || self.key)
        });
    }

    /// Ends the connection, measured: what is left in buffers is read now.
    fn finish(mut self) {
        measured(&mut || drop(self.inspector.finish(&mut self.state, &self.key)));
    }
}

/// Measures the segments of a connection; returns their number.
pub(crate) fn exchange(port: u16, before: &[Segment], segments: &[Segment]) -> usize {
    let mut connection = Connection::new(port);
    for (direction, offset, bytes) in before {
        connection.send(ACK, *direction, 1 + offset, bytes);
    }
    for (direction, offset, bytes) in segments {
        connection.measure(*direction, *offset, bytes);
    }
    connection.finish();
    segments.len()
}

/// The segments of a stream, each `length` bytes long.
pub(crate) fn cut(direction: u8, stream: &[u8], length: usize) -> Vec<Segment> {
    let chunks = stream.chunks(length).take(SEGMENTS_MAX);
    (0..)
        .step_by(length)
        .zip(chunks)
        .map(|(at, bytes)| (direction, at, bytes.to_vec()))
        .collect()
}

fn ordered(mut segments: Vec<Segment>, order: usize) -> Vec<Segment> {
    match order {
        0 => {}
        1 if !segments.is_empty() => segments.rotate_left(1),
        2 => segments.reverse(),
        3 => {
            let mut number = 0_usize;
            let late = |_: &Segment| {
                number += 1;
                number.is_multiple_of(2)
            };
            let (late, mut early): (Vec<_>, Vec<_>) = segments.into_iter().partition(late);
            early.extend(late);
            segments = early;
        }
        _ => {
            segments = segments
                .into_iter()
                .flat_map(|it| [it.clone(), it])
                .collect()
        }
    }
    segments
}

/// A hostile stream: its name, the direction, what came before it, and its bytes.
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    pub(crate) direction: u8,
    pub(crate) before: Vec<Segment>,
    pub(crate) bytes: Vec<u8>,
}

/// Runs of a stream in segments of some lengths and in all orders.
pub(crate) fn hostile_runs(port: u16, streams: &[Stream], lengths: &[usize]) -> Vec<Run> {
    let mut runs = Vec::new();
    for stream in streams {
        for &length in lengths {
            for (order, order_name) in ORDERS.iter().enumerate() {
                let name = format!("{} in segments of {length}, {order_name}", stream.name);
                let segments = ordered(cut(stream.direction, &stream.bytes, length), order);
                let before = stream.before.clone();
                runs.push(Run::new(name, move || exchange(port, &before, &segments)));
            }
        }
    }
    runs
}

fn stream(name: &'static str, direction: u8, before: &[u8], bytes: &[&[u8]]) -> Stream {
    let mut bytes = bytes.concat();
    bytes.truncate(FAR + 1000);
    Stream {
        name,
        direction,
        before: match before {
            [] => Vec::new(),
            _ => vec![(1 - direction, 0, before.to_vec())],
        },
        bytes,
    }
}

pub(crate) fn readers() -> Vec<Reader> {
    let (short, long) = LENGTHS.split_at(4);
    let in_segments = |length: usize| {
        let requests = cut(0, &REQUEST.repeat(40), length);
        Run::new(format!("benign HTTP in segments of {length}"), move || {
            exchange(80, &[], &requests)
        })
    };
    let http = http_streams();
    let mut in_requests = hostile_runs(80, &http, short);
    in_requests.extend(gap_runs());
    let mut readers = vec![
        Reader {
            benign: Run::new("benign HTTP, a request a segment", || {
                exchange(80, &[], &cut(0, &REQUEST.repeat(40), REQUEST.len()))
            }),
            hostile: in_requests,
        },
        Reader {
            benign: Run::new("benign TLS handshake", || exchange(443, &[], &benign_tls())),
            hostile: hostile_runs(443, &tls_streams(), &LENGTHS),
        },
        Reader {
            benign: Run::new("benign SSH key exchange", || {
                exchange(22, &[], &benign_ssh())
            }),
            hostile: hostile_runs(22, &ssh_streams(), &LENGTHS),
        },
    ];
    // More bytes in a segment are more work, for benign ones too.
    readers.extend(long.iter().map(|&length| Reader {
        benign: in_segments(length),
        hostile: hostile_runs(80, &http, &[length]),
    }));
    readers
}

const REQUEST: &[u8] = b"GET /index.html?session=0123456789 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";

fn http_streams() -> Vec<Stream> {
    const GET: &[u8] = b"GET / HTTP/1.1\r\n";
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let fields = b"A: b\r\n".repeat(FAR / 6);
    let small = b"X: 0123456789abc\r\n".repeat(FAR / 18);
    let letters = vec![b'a'; FAR];
    vec![
        stream("head without an end", 0, b"", &[GET, &fields]),
        stream("head of small fields", 0, b"", &[GET, &small]),
        stream("response without an end", 1, REQUEST, &[OK, &fields]),
        stream("long field", 0, b"", &[b"GET / HTTP/1.1\r\nA: ", &letters]),
        stream("long target", 0, b"", &[b"GET /", &letters]),
        stream(
            "long target with an unknown method",
            0,
            b"",
            &[b"BREW /", &letters],
        ),
        stream("long method", 0, b"", &[&vec![b'M'; FAR]]),
        stream("long reason", 1, REQUEST, &[b"HTTP/1.1 200 ", &letters]),
        stream("empty lines", 0, b"", &[&b"\r\n".repeat(FAR / 2)]),
        stream(
            "empty lines after a request",
            0,
            b"",
            &[GET, b"\r\n", &b"\r\n".repeat(FAR / 2)],
        ),
        stream(
            "small requests",
            0,
            b"",
            &[&b"GET / HTTP/1.1\r\n\r\n".repeat(FAR / 18)],
        ),
        stream(
            "small responses",
            1,
            REQUEST,
            &[&b"HTTP/1.1 204 A\r\n\r\n".repeat(FAR / 18)],
        ),
        stream(
            "small chunks",
            1,
            REQUEST,
            &[CHUNKED, &b"1\r\na\r\n".repeat(FAR / 6)],
        ),
        stream(
            "long chunk extension",
            1,
            REQUEST,
            &[CHUNKED, b"1;", &letters],
        ),
        stream(
            "trailer without an end",
            1,
            REQUEST,
            &[CHUNKED, b"0\r\n", &fields],
        ),
        stream("long line of a proxy", 0, b"", &[b"PROXY ", &letters]),
        stream(
            "lines that begin like requests",
            0,
            b"",
            &[&b"GET\r\nPOST /\r\n".repeat(FAR / 13)],
        ),
    ]
}

/// Gaps that are acknowledged at once or never, each with a segment as far ahead as a buffer reaches.
fn gap_runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for ahead in [1, 1000, 16_000] {
        for is_acknowledged in [true, false] {
            let name = format!("gaps of {ahead}, acknowledged: {is_acknowledged}");
            runs.push(Run::new(name, move || {
                let mut connection = Connection::new(80);
                connection.send(ACK, 0, 1, REQUEST);
                let mut at = REQUEST.len() as u32;
                for _ in 0..500 {
                    at += ahead;
                    connection.measure(0, at, b"GET / HTTP/1.1\r\n\r\nG");
                    at += 19;
                    if is_acknowledged {
                        connection.acknowledge(1, at);
                    }
                }
                connection.finish();
                500
            }));
        }
    }
    // Connections on the same ports one after the other, each with a buffer.
    runs.push(Run::new("a SYN after each segment", || {
        let mut connection = Connection::new(80);
        for number in 0..500_u32 {
            let start = number.wrapping_mul(0x1234_5678);
            connection.send(SYN, 0, start, &[]);
            connection.measure(0, start, b"GET / HTTP/1.1\r\nA: b");
            if number % 3 == 0 {
                connection.send(FIN | ACK, 0, start + 21, &[]);
            }
        }
        connection.finish();
        500
    }));
    runs
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(&(body.len() as u32).to_be_bytes()[1..]);
    bytes.extend(body);
    bytes
}

fn record(content: u8, fragment: &[u8]) -> Vec<u8> {
    let mut bytes = vec![content, 3, 3];
    bytes.extend((fragment.len() as u16).to_be_bytes());
    bytes.extend(fragment);
    bytes
}

/// A ClientHello with these extensions and cipher suites, as a message.
fn client_hello(suites: &[u8], extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(32);
    body.extend([9; 32]);
    body.extend((suites.len() as u16).to_be_bytes());
    body.extend(suites);
    body.extend([1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    message(1, &body)
}

/// The usual extensions, and padding.
fn extensions(padding: usize) -> Vec<u8> {
    let mut bytes =
        b"\0\0\0\x12\0\x10\0\0\x0dwww.s.example\0\x10\0\x0e\0\x0c\x02h2\x08http/1.1".to_vec();
    bytes.extend([0, 43, 0, 5, 4, 3, 4, 3, 3, 0, 10, 0, 6, 0, 4, 0, 29, 0, 23]);
    bytes.extend([
        0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1, 0, 11, 0, 2, 1, 0, 0, 23, 0, 0,
    ]);
    bytes.extend([0, 21]);
    bytes.extend((padding as u16).to_be_bytes());
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

fn server_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([8; 32]);
    body.push(32);
    body.extend([9; 32]);
    body.extend([0x13, 1, 0, 0, 9, 0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
    message(2, &body)
}

fn usual_hello() -> Vec<u8> {
    let suites: Vec<u8> = (0..16).flat_map(|at| [0xc0, 0x20 + at]).collect();
    record(22, &client_hello(&suites, &extensions(300)))
}

fn certificate(length: usize) -> Vec<u8> {
    message(11, &vec![0x30; length])
}

/// A handshake as TLS 1.2 has it, in full segments.
fn benign_tls() -> Vec<Segment> {
    let server = [
        record(22, &server_hello()),
        record(22, &certificate(3500)),
        record(22, &message(14, &[])),
    ];
    let client = [
        usual_hello(),
        record(22, &message(16, &[5; 60])),
        record(20, &[1]),
    ];
    let mut segments = cut(0, &client[0], 1460);
    segments.extend(cut(1, &server.concat(), 1460));
    let rest: Vec<u8> = client[1..].concat();
    segments.push((0, client[0].len() as u32, rest));
    segments
}

fn tls_streams() -> Vec<Stream> {
    let hello = usual_hello();
    let hello = hello.as_slice();
    let server = record(22, &server_hello());
    let long_hello = client_hello(&[0x13, 1], &extensions(12_000));
    let suites: Vec<u8> = (0..6000_u16).flat_map(u16::to_be_bytes).collect();
    let many_suites = client_hello(&suites, &extensions(0));
    let many_extensions: Vec<u8> = (100..2900_u16)
        .flat_map(|kind| [(kind >> 8) as u8, kind as u8, 0, 0])
        .collect();
    let many_extensions = client_hello(&[0x13, 1], &many_extensions);
    let tiny: Vec<u8> = long_hello
        .chunks(1)
        .take(2500)
        .flat_map(|it| record(22, it))
        .collect();
    let pieces: Vec<u8> = certificate(12_000)
        .chunks(7)
        .flat_map(|it| record(22, it))
        .collect();
    // A certificate whose list of names is long.
    let names: Vec<u8> = b"\x82\x03a.b".repeat(2000);
    let mut alternative = vec![0x30, 0x82];
    alternative.extend((names.len() as u16).to_be_bytes());
    alternative.extend(&names);
    let named = message(
        11,
        &[
            &[
                0, 0, 0, 0, 0, 0, 0x30, 0x82, 0x2e, 0xf0, 0x30, 0x82, 0x2e, 0xe0, 6, 3, 0x55, 0x1d,
                17, 4, 0x82, 0x2e, 0xe4,
            ][..],
            &alternative,
        ]
        .concat(),
    );
    let small = record(22, &message(99, &[]).repeat(3500));
    vec![
        stream("long hello", 0, b"", &[&record(22, &long_hello)]),
        stream("hello of many suites", 0, b"", &[&record(22, &many_suites)]),
        stream(
            "hello of many extensions",
            0,
            b"",
            &[&record(22, &many_extensions)],
        ),
        stream("hello in tiny records", 0, b"", &[&tiny]),
        stream(
            "tiny records after a hello",
            0,
            b"",
            &[hello, &record(20, &[1]).repeat(2000)],
        ),
        stream(
            "empty records in a hello",
            0,
            b"",
            &[&hello[..60], &record(22, &[]).repeat(2000)],
        ),
        stream("hellos one after the other", 0, b"", &[&hello.repeat(30)]),
        stream("hello retry requests", 1, hello, &[&server.repeat(100)]),
        stream(
            "certificate",
            1,
            hello,
            &[&server, &record(22, &certificate(12_000))],
        ),
        stream(
            "certificate in small records",
            1,
            hello,
            &[&server, &pieces],
        ),
        stream(
            "certificate of many names",
            1,
            hello,
            &[&server, &record(22, &named)],
        ),
        stream("small messages", 1, hello, &[&server, &small]),
        stream(
            "small messages in small records",
            1,
            hello,
            &[&server, &record(22, &message(99, &[])).repeat(1600)],
        ),
        stream(
            "small messages before a hello",
            1,
            hello,
            &[&record(22, &message(2, &[])), &small],
        ),
        stream(
            "commands of mail",
            0,
            b"",
            &[b"EHLO a\r\n", &b"NOOP\r\n".repeat(FAR / 6)],
        ),
    ]
}

/// A packet of SSH with lists of algorithms, each `length` bytes long.
fn key_exchange(length: usize) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend([3; 16]);
    for _ in 0..10 {
        payload.extend((length as u32).to_be_bytes());
        payload.extend(b"aes128-ctr,".iter().cycle().take(length));
    }
    payload.extend([0; 5]);
    let mut packet = (payload.len() as u32 + 1 + 4).to_be_bytes().to_vec();
    packet.push(4);
    packet.extend(payload);
    packet.extend([0; 4]);
    packet
}

fn benign_ssh() -> Vec<Segment> {
    let version = b"SSH-2.0-OpenSSH_9.6\r\n".to_vec();
    let after = version.len() as u32;
    vec![
        (0, 0, version.clone()),
        (1, 0, version),
        (0, after, key_exchange(90)),
        (1, after, key_exchange(90)),
    ]
}

fn ssh_streams() -> Vec<Stream> {
    const VERSION: &[u8] = b"SSH-2.0-x\r\n";
    vec![
        stream(
            "version without an end",
            0,
            b"",
            &[b"SSH-2.0-", &vec![b'a'; FAR]],
        ),
        stream(
            "lines before a version",
            1,
            VERSION,
            &[&b"\n".repeat(400), VERSION],
        ),
        stream(
            "empty lines of SSH",
            1,
            VERSION,
            &[b"SSH-\n", &b"\n".repeat(FAR)],
        ),
        stream("long lists", 0, b"", &[VERSION, &key_exchange(1500)]),
        stream(
            "small packets",
            0,
            b"",
            &[VERSION, &[0, 0, 0, 2, 0, 2].repeat(FAR / 6)],
        ),
        stream(
            "packet without an end",
            0,
            b"",
            &[VERSION, &[0, 0, 0x80, 0, 0, 20], &vec![0; FAR]],
        ),
        stream("versions", 0, b"", &[&VERSION.repeat(FAR / 11)]),
    ]
}
