//! Runs of the engine over frames in memory, and the frames.

use app::NamesRecord;
use engine::{Input, Options, Progress, Report};
use flow::Record;
use port::{MemoryPort, Port};
use std::time::Duration;
use wire::LinkType;

/// A UDP frame between two small hosts; every ninth is ARP, which has no flow.
pub(crate) fn frame(flow: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(if flow.is_multiple_of(9) {
        &[0x08, 0x06]
    } else {
        &[0x08, 0x00]
    });
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, flow, 10, 0, 1, flow / 4]);
    frame[34..40].copy_from_slice(&[0x10, flow, 0, 53, 0, 26]);
    frame
}

/// Frames of these flows at these times.
pub(crate) fn memory(packets: &[(u8, i64)]) -> MemoryPort {
    MemoryPort::new(
        LinkType::Ethernet,
        packets
            .iter()
            .map(|&(flow, time_ns)| (time_ns, 64, frame(flow))),
    )
}

/// What a run gives.
pub(crate) struct Ran {
    pub(crate) records: Vec<Record>,
    /// A row of statistics for each record.
    pub(crate) values: Vec<Vec<f64>>,
    /// The names of each record, where they were looked for.
    pub(crate) names: Vec<Option<NamesRecord>>,
    pub(crate) report: Report,
}

/// Runs over `ports`; the records come sorted by start and key.
#[track_caller]
pub(crate) fn run(
    options: &Options,
    ports: Vec<Box<dyn Port>>,
    same_packets: bool,
    live: bool,
) -> Ran {
    let meters = engine::meters(options, ports.len()).expect("memory");
    let workers = options.workers(ports.len());
    let (records, returned) = engine::channel(workers, true);
    let width = options.meter.schema().statistics.len();
    let collector = std::thread::spawn(move || {
        let mut all: Vec<(Record, Vec<f64>, Option<NamesRecord>)> = Vec::new();
        while let Ok(Some(batch)) = returned.next_within(Duration::from_secs(60)) {
            for (row, record) in batch.records.iter().enumerate() {
                let analysis = batch.analyses.get(row);
                all.push((
                    *record,
                    batch.values[row * width..(row + 1) * width].to_vec(),
                    analysis.and_then(|analysis| analysis.names.clone()),
                ));
            }
        }
        all
    });
    let input = Input {
        ports,
        same_packets,
        live,
    };
    let report =
        engine::run(options, input, meters, &records, &Progress::new(workers)).expect("a run");
    drop(records);
    let mut all = collector.join().expect("a collector");
    all.sort_by_key(|(record, ..)| (record.start_ns, record.key));
    assert!(report.books.balance(), "{:?}", report.books);
    assert_eq!(report.flows.records, all.len() as u64);
    let mut ran = Ran {
        records: Vec::new(),
        values: Vec::new(),
        names: Vec::new(),
        report,
    };
    for (record, values, names) in all {
        ran.records.push(record);
        ran.values.push(values);
        ran.names.push(names);
    }
    ran
}
