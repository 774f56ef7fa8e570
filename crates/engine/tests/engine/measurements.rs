//! Measurements beside the flow table: every model drives them and merges their results.

use crate::runs;
use engine::{
    Acquisition, Books, Count, EngineError, Findings, Level, Measurement, MeasurementReport,
    MeasurementSpec, Options, PACKETS, PacketInput, Packets, PollMode, RecordSender, TRAFFIC_MIX,
};
use flow::{FlowDefinition, MeterOptions, Packet};
use port::{Frame, Port};
use std::any::Any;
use std::io;

/// A measurement that no part of the engine knows: the largest flow hash, as a sketch would keep it.
#[derive(Clone, Default)]
struct LargestHash {
    hash: u64,
    clock_ms: u32,
    counted: Count,
    finished: bool,
}

const LARGEST_HASH: MeasurementSpec = MeasurementSpec {
    name: "largest hash",
    input: PacketInput::Headers,
    at_receiver: false,
    build: |_| Ok(Box::new(LargestHash::default())),
};

impl Measurement for LargestHash {
    fn process(&mut self, packets: &Packets<'_>, _: &mut RecordSender) {
        assert!(!self.finished);
        for (packet, &hash) in packets.batch.packets().iter().zip(packets.batch.hashes()) {
            self.hash = self.hash.max(hash);
            self.counted.add(packet.length);
        }
    }

    fn count_without_flow(&mut self, frames: &[Frame<'_>], in_flows: &[Packet]) {
        assert!(in_flows.len() < frames.len());
    }

    fn idle(&mut self, clock_ms: Option<u32>, _: &mut RecordSender) {
        self.clock_ms = clock_ms.unwrap_or(self.clock_ms);
    }

    fn finish(&mut self, clock_ms: u32, _: &mut RecordSender) {
        assert!(clock_ms >= self.clock_ms);
        self.finished = true;
    }

    fn report(&mut self, _: Option<&Books>) -> Option<Box<dyn Findings>> {
        assert!(self.finished);
        Some(Box::new(self.clone()))
    }
}

impl Findings for LargestHash {
    fn merge(&mut self, other: Box<dyn Any>) {
        let other = other.downcast::<Self>().unwrap();
        self.hash = self.hash.max(other.hash);
        self.counted += other.counted;
    }

    fn report(&self) -> MeasurementReport {
        MeasurementReport {
            name: "largest_hash",
            title: "Largest hash",
            counted: self.counted,
            skipped: vec![engine::ReportRow {
                name: format!("{:x}", self.hash),
                // Every ninth of the 2520 packets is ARP.
                count: Count {
                    packets: 280,
                    bytes: 280 * 64,
                },
            }],
            tables: Vec::new(),
        }
    }
}

/// Runs every model, alone and with several threads, and returns the reports of each.
fn reports_of_all_models(options: &Options) -> Vec<(String, Vec<MeasurementReport>)> {
    let packets: Vec<(u8, i64)> = (0..2520u32)
        .map(|number| ((number % 252) as u8, i64::from(number) * 1_000_000))
        .collect();
    let whole = runs::memory(&packets);
    let halves: Vec<_> = (0..2)
        .map(|half| {
            let half: Vec<_> = packets.iter().copied().skip(half).step_by(2).collect();
            runs::memory(&half)
        })
        .collect();
    let acquisition = Acquisition {
        buffer_bytes: 1 << 20,
        sort_bytes: 0,
        mode: PollMode::Continuous,
        queue_size: 256,
    };
    let mut all = Vec::new();
    for model in runs::EVERY_MODEL {
        for monitors in [1, 3] {
            for acquisition in [None, Some(acquisition)] {
                let options = Options {
                    model,
                    monitors,
                    acquisition,
                    ..options.clone()
                };
                let mut run = |name: &str, ports: Vec<Box<dyn Port>>| {
                    let report = runs::run(&options, ports, false).report;
                    let name = format!("{model:?} {monitors} {name} {}", acquisition.is_some());
                    assert_eq!(report.books.processed.packets, 2520, "{name}");
                    all.push((name, report.measurements));
                };
                run("one port", vec![Box::new(whole.clone())]);
                let two = halves
                    .iter()
                    .map(|half| Box::new(half.clone()) as Box<dyn Port>);
                run("two ports", two.collect());
            }
        }
    }
    all
}

#[test]
fn every_model_gives_the_same_report_of_every_measurement() {
    for flow in [FlowDefinition::FiveTuple, FlowDefinition::Source] {
        let options = Options {
            extra_measurements: vec![TRAFFIC_MIX, LARGEST_HASH, PACKETS],
            meter: MeterOptions {
                flow,
                flows_max: 1024,
                ..MeterOptions::default()
            },
            ..Options::default()
        };
        let mut all = reports_of_all_models(&options);
        for (_, reports) in &mut all {
            reports.sort_by_key(|report| report.name);
        }
        let (_, first) = all[0].clone();
        assert_eq!(first.len(), 3);
        for (name, reports) in all {
            assert_eq!(reports, first, "{name}");
        }
        let mix = &first[2];
        let rows: Vec<(&str, u64)> = (mix.tables.iter())
            .flat_map(|table| &table.rows)
            .filter(|row| row.count.packets > 0)
            .map(|row| (&*row.name, row.count.packets))
            .collect();
        let protocol = match flow {
            FlowDefinition::FiveTuple => "udp",
            _ => "not_in_flow_key",
        };
        let arp = rows[1].0;
        assert!(arp.starts_with("no_flow_"), "{arp}");
        assert_eq!(rows, [(protocol, 2240), (arp, 280), ("65_127", 2520)]);
    }
}

#[test]
fn packet_level_runs_beside_measurements_that_read_headers() {
    let options = Options {
        level: Level::Packet,
        extra_measurements: vec![TRAFFIC_MIX],
        ..Options::default()
    };
    for (name, reports) in reports_of_all_models(&options) {
        let counted: Vec<u64> = reports
            .iter()
            .map(|report| report.counted.packets)
            .collect();
        assert_eq!(counted, [2520, 2520], "{name}");
    }
}

#[test]
fn a_measurement_that_cannot_start_is_an_error() {
    let failing = MeasurementSpec {
        name: "sketch",
        build: |_| Err(io::Error::other("no memory")),
        ..TRAFFIC_MIX
    };
    let options = Options {
        extra_measurements: vec![failing],
        ..Options::default()
    };
    let Err(error) = engine::measurements(&options, 1) else {
        panic!("started");
    };
    assert!(matches!(
        error,
        EngineError::Measurement { name: "sketch", .. }
    ));
    assert!(error.to_string().contains("no memory"), "{error}");
}
