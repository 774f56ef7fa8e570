//! Helpers: frames in memory, and runs of the engine over them.

use app::AppRecord;
use engine::{Input, Model, Options, Progress, Report};
use flow::Record;
use port::{MemoryPort, Port};
use std::time::Duration;
use wire::LinkType;

/// Returns a UDP frame; every ninth is ARP instead, which belongs to no flow.
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

/// Returns a port with one frame for each flow number and timestamp.
pub(crate) fn memory(packets: &[(u8, i64)]) -> MemoryPort {
    MemoryPort::new(
        LinkType::Ethernet,
        packets
            .iter()
            .map(|&(flow, time_ns)| (time_ns, 64, frame(flow))),
    )
}

/// The result of a run.
pub(crate) struct RunResult {
    pub(crate) records: Vec<Record>,
    /// The statistics of each record.
    pub(crate) values: Vec<Vec<f64>>,
    /// The application data of each record, if it was analysed.
    pub(crate) names: Vec<Option<AppRecord>>,
    pub(crate) report: Report,
}

/// The threading models.
pub(crate) const EVERY_MODEL: [Model; 4] = [
    Model::RunToCompletion,
    Model::Pipeline,
    Model::Cooperative,
    Model::SharedReading,
];

/// Runs the engine over `ports` and sorts the records by start and key.
#[track_caller]
pub(crate) fn run(options: &Options, ports: Vec<Box<dyn Port>>, live: bool) -> RunResult {
    let measurements = engine::measurements(options, ports.len()).expect("memory");
    let workers = options.workers(ports.len());
    let (records, receiver) = engine::channel(workers, true);
    let width = options.meter.schema().statistics.len();
    let collector = std::thread::spawn(move || {
        let mut all: Vec<(Record, Vec<f64>, Option<AppRecord>)> = Vec::new();
        while let Ok(Some(batch)) = receiver.recv_timeout(Duration::from_secs(60)) {
            for (row, record) in batch.records.iter().enumerate() {
                let analysis = batch.analyses.get(row);
                all.push((
                    *record,
                    batch.values[row * width..(row + 1) * width].to_vec(),
                    analysis.and_then(|analysis| analysis.app.clone()),
                ));
            }
        }
        all
    });
    let input = Input { ports, live };
    let report = engine::run(
        options,
        input,
        measurements,
        &records,
        &Progress::new(workers),
    )
    .expect("a run");
    drop(records);
    let mut all = collector.join().expect("a collector");
    all.sort_by_key(|(record, ..)| (record.start_ns, record.key));
    assert!(report.is_balanced(), "{report:?}");
    assert_eq!(report.flows.records, all.len() as u64);
    let mut result = RunResult {
        records: Vec::new(),
        values: Vec::new(),
        names: Vec::new(),
        report,
    };
    for (record, values, names) in all {
        result.records.push(record);
        result.values.push(values);
        result.names.push(names);
    }
    result
}
