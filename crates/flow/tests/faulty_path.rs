//! Sends simulated conversations through a port that injects faults, and compares the records of the
//! meter with a simple evaluation of the frames that reached it. The columns must be exactly equal.

use analysis::{AnalysisValue, COLUMNS, Level};
use conversations::{
    Conversation, Faults as FaultsAfterProbe, Frames, MS, Random, ReferenceReader,
    TruthAtProbe as Truth,
};
use flow::batch::{BURST, Batch, Packet};
use flow::clock::PacketClock;
use flow::meter::{Meter, MeterOptions, RecordSink};
use flow::statistic::Selection;
use flow::{FlowDefinition, Record, RecordBatch};
use flow::{Timeouts, batch::TableKey};
use port::{Impaired, Impairment, Impairments, MemoryPort, Port, Received};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Decapsulate, LinkType, dissect};

/// The number of concurrent conversations.
const CONVERSATIONS: usize = 24;

/// Returns the ground truth of each conversation.
fn truths(port: &mut dyn Port, frames: &Frames) -> BTreeMap<usize, Truth> {
    let mut reading = ReferenceReader::new(frames);
    while let Received::Burst(burst) = port.receive().expect("a memory port does not fail") {
        for frame in burst.frames {
            reading.read(frame.time_ns, frame.bytes);
        }
    }
    reading.finish()
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

/// Runs the meter over all frames of `port`.
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
    let mut meter = Meter::new(&options).expect("memory");
    let (mut sink, mut batch) = (Collected::default(), Batch::default());
    let mut clock = PacketClock::default();
    let (mut number, mut clock_ms) = (0, 0);
    while let Received::Burst(burst) = port.receive().expect("a memory port does not fail") {
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
            batch.push_details(wire::PacketInfo::from_headers(frame.bytes, &headers));
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

/// The columns of a record, by name, from the client's side.
struct Columns<'a> {
    record: &'a Record,
    analysis: &'a analysis::Analysis,
}

impl Columns<'_> {
    fn value(&self, name: &str) -> AnalysisValue<'_> {
        // If the SYN was lost, the server is the initiator.
        let side = usize::from(self.record.key.source_port == Frames::SERVER_PORT);
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
            _ => panic!("{name} is not a number"),
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

/// Compares the columns of a record with the truth. Returns whether all columns were compared, which
/// they are if no limit was reached.
fn compare(columns: &Columns<'_>, truth: &Truth, context: &str) -> bool {
    let side = usize::from(columns.record.key.source_port == Frames::SERVER_PORT);
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

/// Runs concurrent conversations with the faults `before_probe`, injected by the port, and
/// `after_probe`. Returns the number of records compared in full, the number of records, and the log
/// of faults.
fn run(
    before_probe: Impairments,
    after_probe: FaultsAfterProbe,
    random: &mut Random,
) -> (usize, usize, Vec<(u64, Impairment)>) {
    let mut frames = Frames::default();
    for _ in 0..CONVERSATIONS {
        let to_probe_ns = (1 + random.below(20) as i64) * MS;
        let to_receiver_ns = (1 + random.below(20) as i64) * MS;
        let conversation = Conversation {
            segments: 200,
            window: 1 + random.below(6) as u32,
            to_probe_ns,
            to_receiver_ns,
            timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
            start: random.below(1 << 32) as u32,
            has_identifications: true,
            keep_alives: 0,
            window_probes: 0,
            faults: after_probe,
        };
        let later_ns = random.below(2000) as i64 * MS;
        frames.add(&conversation, later_ns, random);
    }
    let memory = MemoryPort::new(LinkType::Ethernet, frames.take());
    let truths = truths(&mut Impaired::new(memory.clone(), before_probe), &frames);
    let mut port = Impaired::new(memory, before_probe);
    let log = port.log();
    let records = metered(&mut port);
    assert_eq!(records.records.len(), truths.len(), "flows");
    let mut whole = 0;
    for (record, analysis) in records.records.iter().zip(&records.analyses) {
        let ports = [record.key.source_port, record.key.destination_port];
        let number = Frames::conversation(ports);
        let truth = &truths[&number];
        let context = format!("{before_probe:?} {after_probe:?}, conversation {number}");
        whole += usize::from(compare(&Columns { record, analysis }, truth, &context));
    }
    (whole, truths.len(), log.entries())
}

/// Faults after the probe that make the sender retransmit.
fn repeating() -> FaultsAfterProbe {
    FaultsAfterProbe {
        lost_after: 15,
        acks_lost: 15,
        acks_delayed: 3,
        ..FaultsAfterProbe::default()
    }
}

fn each_fault() -> [Impairments; 5] {
    let none = Impairments::default();
    let (overtaken_by, delay) = (40, Duration::from_millis(30));
    [
        Impairments {
            loss_ppm: 10_000,
            ..none
        },
        Impairments {
            duplicate_ppm: 15_000,
            ..none
        },
        Impairments {
            reorder_ppm: 10_000,
            reorder_distance_max: overtaken_by,
            ..none
        },
        Impairments {
            delay_ppm: 10_000,
            delay_max: delay,
            ..none
        },
        Impairments {
            loss_ppm: 3000,
            duplicate_ppm: 3000,
            reorder_ppm: 3000,
            reorder_distance_max: overtaken_by,
            delay_ppm: 3000,
            delay_max: delay,
            seed: 0,
        },
    ]
}

/// Checks flows, packets, unique bytes, missed bytes, retransmissions, packets out of order, duplicates
/// and RTTs of every record, for each kind of fault and for all together.
#[test]
fn columns_equal_the_truth_after_a_port_with_faults() {
    let mut random = Random::new(0x0bad_cafe_f00d);
    for before_probe in each_fault() {
        for after_probe in [FaultsAfterProbe::default(), repeating()] {
            let (mut whole, mut all) = (0, 0);
            for seed in 0..12 {
                let (compared, records, log) = run(
                    Impairments {
                        seed,
                        ..before_probe
                    },
                    after_probe,
                    &mut random,
                );
                assert!(log.len() > 40, "{before_probe:?}: {} faults", log.len());
                whole += compared;
                all += records;
            }
            assert!(
                whole * 100 >= all * 95,
                "{before_probe:?}: {whole} of {all}"
            );
        }
    }
}
