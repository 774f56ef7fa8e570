//! TCP connections on the same ports, with packets that do not belong to their ends: copies of the SYN,
//! and resets outside the window. With an analysis of TCP, every table gives a record per connection.

use analysis::Analyses;
use flow::statistic::{Estimator, Selection};
use flow::{
    BURST, Batch, EndReason, FlowDefinition, Meter, MeterOptions, Packet, Record, RecordBatch,
    RecordSink, TableKey, TableKind, Timeouts,
};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::tcp::flag::{ACK, FIN, RST, SYN};
use wire::{FlowKey, PacketInfo, ip_protocol};

const CLOSE_MS: u32 = 2000;
const WINDOW: u16 = 1000;

/// Bytes of a segment with data.
const DATA: u32 = 100;

const CLIENT: usize = 0;
const SERVER: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Segment {
    wait_ms: u32,
    side: usize,
    tcp_flags: u8,
    sequence: u32,
    acknowledgement: u32,
    length: u32,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fins,
    Reset(usize),
}

/// A packet that does not belong to the end of its connection.
#[derive(Clone, Copy, Debug)]
enum Stray {
    /// A copy of the SYN.
    Syn,
    /// A reset this far ahead of a side's first sequence number.
    Reset { side: usize, ahead: u32, flags: u8 },
}

#[derive(Clone, Debug)]
struct Connection {
    /// Initial sequence numbers.
    starts: [u32; 2],
    /// The senders of data.
    senders: Vec<usize>,
    /// Waits before its packets until its end, used in turn.
    waits_ms: Vec<u32>,
    end: End,
    /// Stray packets, each behind the packet of this number, modulo their number.
    strays: Vec<(usize, Stray)>,
}

fn connection() -> impl Strategy<Value = Connection> {
    let side = || 0usize..2;
    let end = prop_oneof![Just(End::Fins), side().prop_map(End::Reset)];
    let stray = prop_oneof![
        Just(Stray::Syn),
        (side(), 1u32 << 20..=u32::MAX, select(vec![RST, RST | ACK]))
            .prop_map(|(side, ahead, flags)| Stray::Reset { side, ahead, flags }),
    ];
    (
        any::<[u32; 2]>(),
        prop::collection::vec(side(), 0..8),
        prop::collection::vec(
            prop_oneof![4 => 0u32..50, 1 => CLOSE_MS + 1..3 * CLOSE_MS],
            1..20,
        ),
        end,
        prop::collection::vec((any::<usize>(), stray), 0..6),
    )
        .prop_map(|(starts, senders, waits_ms, end, strays)| Connection {
            starts,
            senders,
            waits_ms,
            end,
            strays,
        })
}

impl Connection {
    /// Returns the connection's packets. A closed connection is never silent for the time after which it
    /// ends.
    fn segments(&self) -> Vec<Segment> {
        let mut next = self.starts;
        let mut segments = Vec::new();
        let mut send = |side: usize, tcp_flags: u8, length: u32| {
            segments.push(Segment {
                wait_ms: self.waits_ms[segments.len() % self.waits_ms.len()],
                side,
                tcp_flags,
                sequence: next[side],
                acknowledgement: if tcp_flags & ACK != 0 {
                    next[side ^ 1]
                } else {
                    0
                },
                length,
            });
            next[side] = next[side].wrapping_add(length + u32::from(tcp_flags & (SYN | FIN) != 0));
        };
        send(CLIENT, SYN, 0);
        send(SERVER, SYN | ACK, 0);
        send(CLIENT, ACK, 0);
        for &side in &self.senders {
            send(side, ACK, DATA);
            send(side ^ 1, ACK, 0);
        }
        match self.end {
            End::Fins => {
                send(CLIENT, FIN | ACK, 0);
                send(SERVER, FIN | ACK, 0);
                send(CLIENT, ACK, 0);
            }
            End::Reset(side) => send(side, RST, 0),
        }
        if let Some(last) = segments.last_mut() {
            last.wait_ms %= CLOSE_MS;
        }
        for (position, stray) in &self.strays {
            let behind = position % segments.len();
            segments.insert(behind + 1, self.stray(*stray));
        }
        segments
    }

    fn stray(&self, stray: Stray) -> Segment {
        let [client, server] = self.starts;
        match stray {
            Stray::Syn => Segment {
                wait_ms: 1,
                side: CLIENT,
                tcp_flags: SYN,
                sequence: client,
                acknowledgement: 0,
                length: 0,
            },
            Stray::Reset { side, ahead, flags } => Segment {
                wait_ms: 1,
                side,
                tcp_flags: flags,
                sequence: [client, server][side].wrapping_add(ahead),
                acknowledgement: [server, client][side].wrapping_add(ahead),
                length: 0,
            },
        }
    }
}

fn key(side: usize) -> FlowKey {
    let mut key = FlowKey {
        version: 4,
        protocol: ip_protocol::TCP,
        source_port: 50_000,
        destination_port: 80,
        ..FlowKey::default()
    };
    key.source[0] = 10;
    key.destination[0] = 9;
    if side == CLIENT { key } else { key.reversed() }
}

#[derive(Default)]
struct Collect(Vec<Record>, Analyses);

impl RecordSink for Collect {
    fn take(&mut self, batch: &mut RecordBatch) {
        self.0.append(&mut batch.records);
        self.1.append(&mut batch.analyses);
    }
}

fn options(table: TableKind, statistics: &str, active_ms: Option<u64>) -> MeterOptions {
    MeterOptions {
        flow: FlowDefinition::Bidirectional,
        table,
        flows_max: 100,
        timeouts: Timeouts {
            active: active_ms.map(Duration::from_millis),
            tcp_close: Some(Duration::from_millis(CLOSE_MS.into())),
            ..Timeouts::default()
        },
        statistics: Selection::parse(statistics, Estimator::default()).expect("a good list"),
        ..MeterOptions::default()
    }
}

/// Returns the records and analyses of these packets, in the order in which flows ended.
fn metered(options: &MeterOptions, segments: &[Segment], batch_size: usize) -> Collect {
    let (maker, hash) = (options.key_maker(), options.flow_hash());
    let mut meter = Meter::new(options).expect("memory");
    let mut sink = Collect::default();
    let (mut batch, mut clock_ms) = (Batch::default(), 1u32);
    for (number, segment) in segments.iter().enumerate() {
        clock_ms += segment.wait_ms;
        let mut whole = key(segment.side);
        let (TableKey::Compact(key), direction) = maker.from_key(&mut whole) else {
            panic!("an IPv4 key is compact");
        };
        let packet = Packet {
            time_ns: i64::from(clock_ms) * 1_000_000,
            number: number as u64,
            clock_ms,
            length: 60 + segment.length,
            tcp_flags: segment.tcp_flags,
            direction,
            ..Packet::default()
        };
        batch.push(key, packet);
        if options.statistics.analysis.is_some() {
            batch.push_details(PacketInfo {
                sequence: segment.sequence,
                acknowledgement: segment.acknowledgement,
                payload_length: segment.length,
                source_port: whole.source_port,
                destination_port: whole.destination_port,
                window: WINDOW,
                transport: ip_protocol::TCP,
                tcp_flags: segment.tcp_flags,
                ..PacketInfo::default()
            });
        }
        if batch.len() == batch_size || number + 1 == segments.len() {
            let (keys, hashes) = batch.keys_and_hashes();
            hash.hash_burst(keys, hashes);
            meter.process(&batch, &mut sink);
            batch.clear();
        }
    }
    meter.finish(clock_ms, &mut sink);
    sink
}

/// What a record says of its connection: packets of each side, and how it ended.
type Summary = (FlowKey, [u64; 2], EndReason);

fn summaries(collected: &Collect) -> Vec<Summary> {
    let of = |record: &Record| (record.key, record.packets, record.end_reason);
    collected.0.iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_connection_has_a_record_whatever_packets_stray(
        connections in prop::collection::vec(connection(), 1..4),
        pause_ms in prop_oneof![0u32..CLOSE_MS, CLOSE_MS + 1..2 * CLOSE_MS],
        batch_size in 1usize..=BURST,
    ) {
        let (mut all, mut expected) = (Vec::new(), Vec::new());
        for (number, mut connection) in connections.into_iter().enumerate() {
            // Different ones, also if they are shrunk.
            connection.starts[CLIENT] ^= (number as u32) << 30;
            let mut segments = connection.segments();
            segments[0].wait_ms = pause_ms;
            let packets = [CLIENT, SERVER].map(|side| {
                segments.iter().filter(|segment| segment.side == side).count() as u64
            });
            let reason = match connection.end {
                End::Fins => EndReason::TcpFin,
                End::Reset(_) => EndReason::TcpReset,
            };
            expected.push((key(CLIENT), packets, reason));
            all.extend(segments);
        }
        for table in TableKind::ALL {
            for batch_size in [batch_size, 1, BURST] {
                let collected = metered(&options(table, "tcp", None), &all, batch_size);
                prop_assert_eq!(&summaries(&collected), &expected, "{:?}", table);
            }
        }
    }

    /// The active timeout cuts a connection into records of one flow.
    #[test]
    fn a_connection_is_one_flow_across_its_active_timeout(
        connection in connection(), active_ms in 10u64..5000, batch_size in 1usize..=BURST,
    ) {
        let segments = connection.segments();
        for table in TableKind::ALL {
            let options = options(table, "tcp", Some(active_ms));
            let collected = metered(&options, &segments, batch_size);
            let ids: BTreeSet<u64> = collected.1.iter().map(|analysis| analysis.flow_id).collect();
            prop_assert_eq!(ids.len(), 1, "{:?}", table);
            let packets: u64 = collected.0.iter().flat_map(|record| record.packets).sum();
            prop_assert_eq!(packets, segments.len() as u64);
            prop_assert!(collected.0.iter().all(|record| record.key == key(CLIENT)));
        }
    }
}

/// The active timeout cuts a closed connection, before a SYN of its own or one of a new connection.
#[test]
fn a_new_connection_is_a_new_flow_also_behind_an_active_timeout() {
    for end in [End::Fins, End::Reset(CLIENT), End::Reset(SERVER)] {
        let connection = |start| Connection {
            starts: [start, 9],
            senders: vec![CLIENT],
            waits_ms: vec![100],
            end,
            strays: Vec::new(),
        };
        let first = connection(5).segments();
        for (start, flows) in [(5, 1), (77_777, 2)] {
            let mut all = first.clone();
            let second = connection(start).segments();
            all.extend(&second[..1]);
            let ends_ms: u32 = first.iter().map(|segment| segment.wait_ms).sum();
            // Behind the last packet of the first connection.
            let options = options(TableKind::Bucket, "tcp", Some(u64::from(ends_ms) - 50));
            let collected = metered(&options, &all, BURST);
            let reasons: Vec<_> = collected.0.iter().map(|it| it.end_reason).collect();
            assert_eq!(reasons[0], EndReason::ActiveTimeout, "{end:?}");
            let ids: BTreeSet<u64> = collected
                .1
                .iter()
                .map(|analysis| analysis.flow_id)
                .collect();
            assert_eq!((ids.len(), reasons.len()), (flows, 2), "{end:?}");
        }
    }
}

/// Without an analysis of TCP, sequence numbers are not read.
#[test]
fn without_an_analysis_the_flags_alone_close_a_connection() {
    let reset = Stray::Reset {
        side: SERVER,
        ahead: 1 << 24,
        flags: RST,
    };
    use EndReason::{EndOfInput, TcpFin, TcpReset};
    // Behind the handshake, before a long silence; behind both FINs.
    let strays = [
        (2, reset, [TcpReset, TcpFin]),
        (6, Stray::Syn, [TcpFin, EndOfInput]),
    ];
    for (behind, stray, expected) in strays {
        let connection = Connection {
            starts: [5, 9],
            senders: vec![CLIENT],
            waits_ms: vec![0, 0, 0, CLOSE_MS + 1, 0, 0, 0, 0],
            end: End::Fins,
            strays: vec![(behind, stray)],
        };
        for (statistics, expected) in [("count", &expected[..]), ("tcp", &[TcpFin])] {
            let options = options(TableKind::Bucket, statistics, None);
            let collected = metered(&options, &connection.segments(), BURST);
            let reasons: Vec<_> = collected.0.iter().map(|record| record.end_reason).collect();
            assert_eq!(reasons, expected, "{statistics} {stray:?}");
        }
    }
}
