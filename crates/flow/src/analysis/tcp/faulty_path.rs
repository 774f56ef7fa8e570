//! Conversations as frames through a port that injects faults, the whole meter behind it, and a plain
//! reading of what reached it: the columns of the records equal that reading exactly.

use super::conversation::{Conversation, Faults as Behind, MS, PAYLOAD, Random, Seen};
use crate::analysis::{AnalysisValue, COLUMNS, Level};
use crate::batch::{BURST, Batch, Packet};
use crate::clock::PacketClock;
use crate::meter::{Meter, MeterOptions, RecordSink};
use crate::record::{FlowDefinition, Record, RecordBatch};
use crate::statistic::Selection;
use crate::{Timeouts, batch::TableKey};
use port::{Fault, Faults, Faulty, MemoryPort, Port, Received};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use wire::{Decapsulate, LinkType, dissect};

/// Bytes of the frames' headers: Ethernet, IPv4 and TCP without options. The payload is cut off.
const HEADERS: usize = 14 + 20 + 20;
/// Conversations that are under way together.
const CONVERSATIONS: usize = 24;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 9, 9];
const SERVER_PORT: u16 = 80;

/// The frame of a packet of conversation `number`.
fn frame(number: usize, packet: &Seen) -> Vec<u8> {
    let segment = &packet.segment;
    let mut frame = vec![0; HEADERS];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(40 + segment.payload_length as u16).to_be_bytes());
    frame[18..20].copy_from_slice(&segment.identification.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    let client_port = 1024 + number as u16;
    let ends = [(CLIENT, client_port), (SERVER, SERVER_PORT)];
    let (from, to) = (ends[packet.side], ends[packet.side ^ 1]);
    frame[26..30].copy_from_slice(&from.0);
    frame[30..34].copy_from_slice(&to.0);
    frame[34..36].copy_from_slice(&from.1.to_be_bytes());
    frame[36..38].copy_from_slice(&to.1.to_be_bytes());
    frame[38..42].copy_from_slice(&segment.sequence.to_be_bytes());
    frame[42..46].copy_from_slice(&segment.acknowledgement.to_be_bytes());
    frame[46..48].copy_from_slice(&[0x50, segment.tcp_flags]);
    frame[48..50].copy_from_slice(&segment.window.to_be_bytes());
    frame
}

/// A packet as the reference reads it from a frame.
struct Read {
    time_ns: i64,
    number: usize,
    side: usize,
    sequence: u32,
    acknowledgement: u32,
    identification: u16,
    tcp_flags: u8,
    payload: u32,
}

fn read(time_ns: i64, frame: &[u8]) -> Read {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let side = usize::from(word(34) == SERVER_PORT);
    Read {
        time_ns,
        number: usize::from(word(if side == 0 { 34 } else { 36 }) - 1024),
        side,
        sequence: long(38),
        acknowledgement: long(42),
        identification: word(18),
        tcp_flags: frame[47],
        payload: u32::from(word(16)) - 40,
    }
}

/// What is true of one conversation at the probe.
#[derive(Clone, Debug, Default, PartialEq)]
struct Truth {
    packets: [u64; 2],
    unique_bytes: u64,
    retransmitted: u64,
    retransmitted_bytes: u64,
    out_of_order: u64,
    copies: u64,
    missed_bytes: u64,
    rtt_ns: Vec<u64>,
}

/// What the reference knows of one conversation while it reads.
#[derive(Default)]
struct Reference {
    truth: Truth,
    identifications: HashSet<u16>,
    /// Of each segment: when it came last, and whether its acknowledgement may answer more than
    /// one packet.
    came: HashMap<u32, (i64, bool)>,
    /// Behind the highest segment that came or was acknowledged; segments acknowledged.
    highest: u32,
    acknowledged: u32,
}

impl Reference {
    fn data(&mut self, segment: u32, packet: &Read, sent_first: bool) {
        let truth = &mut self.truth;
        // A sender gives no two packets one identification, so the network made this one.
        if !self.identifications.insert(packet.identification) {
            truth.copies += 1;
            return;
        }
        let below = segment < self.highest;
        let again = if self.came.contains_key(&segment) {
            truth.retransmitted += 1;
            truth.retransmitted_bytes += u64::from(packet.payload);
            true
        } else {
            truth.unique_bytes += u64::from(packet.payload);
            truth.out_of_order += u64::from(below);
            below && !sent_first
        };
        self.came.insert(segment, (packet.time_ns, again));
        self.highest = self.highest.max(segment + 1);
    }

    fn acknowledgement(&mut self, below: u32, time_ns: i64) {
        if below <= self.acknowledged {
            return;
        }
        let newly: Vec<(i64, bool)> = (self.acknowledged..below)
            .filter_map(|segment| self.came.get(&segment).copied())
            .collect();
        if let Some(&(last_ns, _)) = self.came.get(&(below - 1))
            && newly
                .iter()
                .all(|&(came_ns, again)| !again && came_ns <= last_ns)
        {
            self.truth.rtt_ns.push((time_ns - last_ns) as u64);
        }
        self.acknowledged = below;
        self.highest = self.highest.max(below);
    }

    fn end(mut self) -> Truth {
        let missed = (0..self.acknowledged)
            .filter(|segment| !self.came.contains_key(segment))
            .count();
        self.truth.missed_bytes = missed as u64 * u64::from(PAYLOAD);
        self.truth
    }
}

/// The truth of each conversation: `starts` are their first sequence numbers, `first` the
/// identification with which each segment was sent first.
fn truths(
    port: &mut dyn Port,
    starts: &[u32],
    first: &HashMap<(usize, u32), u16>,
) -> HashMap<usize, Truth> {
    let mut references: HashMap<usize, Reference> = HashMap::new();
    while let Received::Burst(burst) = port.receive().unwrap() {
        for frame in burst.frames {
            let packet = read(frame.time_ns, frame.bytes);
            let reference = references.entry(packet.number).or_default();
            reference.truth.packets[packet.side] += 1;
            let start = starts[packet.number];
            if packet.side == 0 && packet.payload > 0 {
                let segment = packet.sequence.wrapping_sub(start) / PAYLOAD;
                let sent_first = first[&(packet.number, segment)] == packet.identification;
                reference.data(segment, &packet, sent_first);
            }
            if packet.side == 1 && packet.tcp_flags & super::SYN == 0 {
                let below = packet.acknowledgement.wrapping_sub(start) / PAYLOAD;
                reference.acknowledgement(below, packet.time_ns);
            }
        }
    }
    references
        .into_iter()
        .map(|(number, reference)| (number, reference.end()))
        .collect()
}

#[derive(Default)]
struct Collected(RecordBatch);

impl RecordSink for Collected {
    fn take(&mut self, batch: &mut RecordBatch) {
        self.0.records.append(&mut batch.records);
        self.0.analyses.append(&mut batch.analyses);
        batch.clear();
    }
}

/// The meter over all of `port`.
fn metered(port: &mut dyn Port) -> RecordBatch {
    let options = MeterOptions {
        flow: FlowDefinition::Bidirectional,
        flows_max: 1 << 10,
        timeouts: Timeouts {
            idle: None,
            active: None,
            tcp_close: None,
        },
        statistics: Selection {
            analysis: Some(Level::Tcp),
            ..Selection::default()
        },
        ..MeterOptions::default()
    };
    let (maker, hash) = (options.key_maker(), options.flow_hash());
    let mut meter = Meter::new(&options).unwrap();
    let (mut sink, mut batch) = (Collected::default(), Batch::default());
    let mut clock = PacketClock::default();
    let (mut number, mut clock_ms) = (0, 0);
    while let Received::Burst(burst) = port.receive().unwrap() {
        assert!(burst.frames.len() <= BURST);
        for frame in burst.frames {
            clock_ms = clock.advance(frame.time_ns);
            let headers = dissect(burst.link, frame.bytes, frame.wire_length, Decapsulate::No);
            assert_eq!(headers.no_flow, None);
            let (TableKey::Compact(key), direction) = maker.from_key(&mut { headers.key }) else {
                panic!("a key of IPv4 is compact");
            };
            batch.push(
                key,
                Packet {
                    time_ns: frame.time_ns,
                    number,
                    clock_ms,
                    length: frame.wire_length,
                    tcp_flags: headers.tcp_flags,
                    direction,
                    ..Packet::default()
                },
            );
            batch.push_segment(wire::Segment::of_headers(frame.bytes, &headers));
            number += 1;
        }
        let (keys, hashes) = batch.keys_and_hashes();
        hash.hash_burst(keys, hashes);
        meter.process(&batch, &mut sink);
        batch.clear();
    }
    meter.finish(clock_ms, &mut sink);
    sink.0
}

/// The value of a column of the client's side.
struct Columns<'a> {
    record: &'a Record,
    analysis: &'a crate::analysis::Analysis,
}

impl Columns<'_> {
    fn value(&self, name: &str) -> AnalysisValue<'_> {
        // A SYN that was lost makes the server the initiator.
        let side = usize::from(self.record.key.source_port == SERVER_PORT);
        let reverse;
        let name = if side == 0 {
            name
        } else {
            reverse = format!("reverse{}{}", name[..1].to_uppercase(), &name[1..]);
            &reverse
        };
        let column = COLUMNS.iter().find(|column| column.name == name);
        column.expect("a column of this name").value(self.analysis)
    }

    fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            AnalysisValue::Number(number) => number,
            _ => panic!("{name} is no number"),
        }
    }

    fn seconds(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            AnalysisValue::Real(seconds) => Some(seconds).filter(|it| !it.is_nan()),
            AnalysisValue::Seconds(nanoseconds) => nanoseconds.map(|ns| ns as f64 / 1e9),
            _ => None,
        }
    }
}

/// Compares the columns of a record with the truth; whether a limit cut nothing of it, so that
/// everything had to be equal.
fn compare(columns: &Columns<'_>, truth: &Truth, context: &str) -> bool {
    let side = usize::from(columns.record.key.source_port == SERVER_PORT);
    let mut packets = columns.record.packets;
    packets.rotate_left(side);
    assert_eq!(packets, truth.packets, "{context}");
    let limits = match COLUMNS.iter().find(|column| column.name == "tcpLimits") {
        Some(column) => column.value(columns.analysis),
        None => panic!("no column tcpLimits"),
    };
    if !matches!(limits, AnalysisValue::Number(0)) {
        return false;
    }
    let judged = Truth {
        packets,
        unique_bytes: columns.number("tcpUniqueBytes"),
        retransmitted: columns.number("tcpRetransmittedPackets"),
        retransmitted_bytes: columns.number("tcpRetransmittedBytes"),
        out_of_order: columns.number("tcpOutOfOrderPackets"),
        copies: columns.number("tcpDuplicatePackets"),
        missed_bytes: columns.number("tcpMissedBytes"),
        rtt_ns: truth.rtt_ns.clone(),
    };
    assert_eq!(&judged, truth, "{context}");
    let rtt_ns = &truth.rtt_ns;
    assert_eq!(
        columns.number("tcpRttSamples"),
        rtt_ns.len() as u64,
        "{context}"
    );
    let seconds = |ns: Option<&u64>| ns.map(|&ns| ns as f64 / 1e9);
    assert_eq!(
        columns.seconds("tcpRttMinimumSeconds"),
        seconds(rtt_ns.iter().min())
    );
    assert_eq!(
        columns.seconds("tcpRttMaximumSeconds"),
        seconds(rtt_ns.iter().max())
    );
    let mean = rtt_ns.iter().sum::<u64>() as f64 / rtt_ns.len() as f64;
    if let Some(judged) = columns.seconds("tcpRttMeanSeconds") {
        assert!((judged * 1e9 - mean).abs() <= 1e-6 * mean, "{context}");
    }
    true
}

/// Conversations with `behind` the probe, all of them mixed, and `before` it injected by the port.
/// How many records were compared whole, how many there are, and the log.
fn run(before: Faults, behind: Behind, random: &mut Random) -> (usize, usize, Vec<(u64, Fault)>) {
    let mut frames = Vec::new();
    let (mut starts, mut first) = (Vec::new(), HashMap::new());
    for number in 0..CONVERSATIONS {
        let to_probe_ns = (1 + random.below(20) as i64) * MS;
        let to_receiver_ns = (1 + random.below(20) as i64) * MS;
        let conversation = Conversation {
            segments: 200,
            window: 1 + random.below(6) as u32,
            to_probe_ns,
            to_receiver_ns,
            timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
            start: random.below(1 << 32) as u32,
            identified: true,
            faults: behind,
        };
        starts.push(conversation.start);
        let (seen, _) = conversation.run(random);
        let later_ns = random.below(2000) as i64 * MS;
        for packet in seen {
            if packet.side == 0 && packet.segment.payload_length > 0 {
                let bytes = packet.segment.sequence.wrapping_sub(conversation.start);
                first
                    .entry((number, bytes / PAYLOAD))
                    .or_insert(packet.segment.identification);
            }
            let length = HEADERS as u32 + packet.segment.payload_length;
            frames.push((packet.time_ns + later_ns, length, frame(number, &packet)));
        }
    }
    frames.sort_by_key(|(time_ns, ..)| *time_ns);
    let memory = MemoryPort::new(LinkType::Ethernet, frames);
    let truths = truths(&mut Faulty::new(memory.clone(), before), &starts, &first);
    let mut port = Faulty::new(memory, before);
    let log = port.log();
    let records = metered(&mut port);
    assert_eq!(records.records.len(), truths.len(), "flows");
    let mut whole = 0;
    for (record, analysis) in records.records.iter().zip(&records.analyses) {
        let port = record.key.source_port.max(record.key.destination_port);
        let truth = &truths[&usize::from(port - 1024)];
        let context = format!("{before:?} {behind:?}, client's port {port}");
        whole += usize::from(compare(&Columns { record, analysis }, truth, &context));
    }
    (whole, truths.len(), log.faults())
}

/// What the sender does again, since something behind the probe was lost.
fn repeating() -> Behind {
    Behind {
        lost_behind: 15,
        acknowledgement_lost: 15,
        held: 3,
        ..Behind::default()
    }
}

fn each_fault() -> [Faults; 5] {
    let none = Faults::default();
    let (overtaken_by, delay) = (40, Duration::from_millis(30));
    [
        Faults {
            lost: 10_000,
            ..none
        },
        Faults {
            copied: 15_000,
            ..none
        },
        Faults {
            overtaken: 10_000,
            overtaken_by,
            ..none
        },
        Faults {
            delayed: 10_000,
            delay,
            ..none
        },
        Faults {
            lost: 3000,
            copied: 3000,
            overtaken: 3000,
            overtaken_by,
            delayed: 3000,
            delay,
            seed: 0,
        },
    ]
}

/// Flows, packets, unique bytes, bytes missed, retransmissions, packets out of order, copies and
/// round trips of every record, for each kind of fault and all together.
#[test]
fn columns_equal_the_truth_behind_a_port_with_faults() {
    let mut random = Random(0x0bad_cafe_f00d);
    for before in each_fault() {
        for behind in [Behind::default(), repeating()] {
            let (mut whole, mut all) = (0, 0);
            for seed in 0..12 {
                let (compared, records, log) = run(Faults { seed, ..before }, behind, &mut random);
                assert!(log.len() > 40, "{before:?}: {} faults", log.len());
                whole += compared;
                all += records;
            }
            assert!(whole * 100 >= all * 95, "{before:?}: {whole} of {all}");
        }
    }
}
