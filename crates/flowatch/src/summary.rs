//! The summary at the end of a run, for a program: one JSON object.

use crate::acquisition_text::SummaryAcquisition;
use crate::collector::{Collected, bytes, packets};
use crate::plan::Plan;
use engine::{Books, Count, Report};
use flow::{FlowDefinition, Record};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::{Malformed, NoFlow};

/// Changes when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// All of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    schema_version: u32,
    version: &'static str,
    /// Packets that arrived and passed the filter; lost ones are among them.
    packets: u64,
    /// Their bytes on the wire (those that the kernel dropped have none).
    bytes: u64,
    /// Records of flows.
    flows: u64,
    /// Records of one flow from two queues that became one.
    merged: u64,
    /// Records of flows that made room for others.
    evicted: u64,
    books: SummaryBooks,
    hashes: SummaryHashes,
    /// Each port's acquisition, where it was apart from processing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acquisition: Vec<SummaryAcquisition>,
    /// Whose packets gaps count: `queue` or `link`.
    gap_scope: &'static str,
    malformed: BTreeMap<&'static str, u64>,
    /// Packets that the snap length cut.
    truncated: u64,
    snap_lengths: SummarySnapLengths,
    fragments: u64,
    clock_steps_back: u64,
    clock_steps_forward: u64,
    /// Parts of the input that could not be read.
    unreadable: u64,
    /// What went wrong, in words.
    faults: Vec<String>,
    /// Link types met that are not read, as libpcap numbers them.
    unknown_link_types: Vec<u16>,
    /// Wall-clock time of the run.
    seconds: f64,
    /// Processor time of the whole process.
    cpu_seconds: f64,
    table_memory_bytes: usize,
    outputs: Vec<SummaryOutput>,
    /// Records lost on their way: each output's `lost`, and those that never came as far as to the
    /// outputs.
    records_lost: u64,
    per_queue: Vec<SummaryQueue>,
    top_flows: Vec<TopFlow>,
}

#[derive(Debug, Serialize)]
struct SummaryBooks {
    received: u64,
    processed: u64,
    dropped: BTreeMap<&'static str, u64>,
    filtered: u64,
    in_flows: u64,
    no_flow: BTreeMap<&'static str, u64>,
    miscounted: u64,
    counted_only: u64,
    balanced: bool,
    bytes: SummaryBytes,
}

/// What headers of captures say that is not to be believed.
#[derive(Debug, Serialize)]
struct SummarySnapLengths {
    /// Headers whose snap length no packet can have.
    absurd: u64,
    /// The largest of these.
    absurd_max: u32,
    /// Packets longer than the snap length in their header.
    exceeded: u64,
}

/// Packets by who made the hash: their flow's identity (`by_device`, `in_software`), or the table's
/// (`reused`).
#[derive(Debug, Serialize)]
struct SummaryHashes {
    by_device: u64,
    in_software: u64,
    reused: u64,
    refuted: u64,
}

#[derive(Debug, Serialize)]
struct SummaryBytes {
    received: u64,
    processed: u64,
    filtered: u64,
    in_flows: u64,
    no_flow: u64,
    miscounted: u64,
    counted_only: u64,
}

#[derive(Debug, Serialize)]
struct SummaryOutput {
    target: String,
    written: u64,
    lost: u64,
    /// Of those lost, the ones that the output was too slow for.
    too_slow: u64,
    /// Records that the format has no place for.
    left_out: u64,
}

#[derive(Debug, Serialize)]
struct SummaryQueue {
    name: String,
    core: Option<usize>,
    /// The scheduling policy.
    schedule: String,
    /// How often a deadline thread ran out of runtime.
    overruns: u64,
    /// Packets and bytes by the device's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u64; 2]>,
    /// Whether the device was set up to hash packets over the fields of the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    rss: Option<&'static str>,
    received: u64,
    processed: u64,
    dropped: BTreeMap<&'static str, u64>,
    in_flows: u64,
    records: u64,
    cpu_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TopFlow {
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_hash: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_transport_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_transport_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_identifier: Option<u8>,
    packets: u64,
    bytes: u64,
}

impl Summary {
    /// Sums a run up. `records_lost` are those that never came as far as to the outputs.
    pub(crate) fn new(
        plan: &Plan,
        report: &Report,
        collected: &Collected,
        records_lost: u64,
        cpu_seconds: f64,
    ) -> Self {
        let books = &report.books;
        Self {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            packets: books.received.packets,
            bytes: books.received.bytes,
            flows: report.flows.records - collected.merged,
            merged: collected.merged,
            evicted: report.flows.evicted,
            books: SummaryBooks::new(books),
            hashes: SummaryHashes {
                by_device: books.hashed_by_device,
                in_software: books.hashed_in_software,
                reused: books.hashes_reused,
                refuted: books.hashes_refuted,
            },
            acquisition: report
                .acquisition
                .iter()
                .map(SummaryAcquisition::new)
                .collect(),
            gap_scope: if plan.link_gaps { "link" } else { "queue" },
            malformed: malformed(books).collect(),
            truncated: books.truncated,
            snap_lengths: SummarySnapLengths {
                absurd: books.snap_lengths.absurd,
                absurd_max: books.snap_lengths.absurd_max,
                exceeded: books.snap_lengths.exceeded,
            },
            fragments: books.fragments,
            clock_steps_back: books.clock_steps_back,
            clock_steps_forward: books.clock_steps_forward,
            unreadable: books.faults,
            faults: report
                .faults
                .iter()
                .chain(&collected.faults)
                .cloned()
                .collect(),
            unknown_link_types: report.unknown_links.clone(),
            seconds: report.elapsed.as_secs_f64(),
            cpu_seconds,
            table_memory_bytes: report.memory_bytes,
            outputs: collected
                .outputs
                .iter()
                .map(|output| SummaryOutput {
                    target: output.name.clone(),
                    written: output.written,
                    lost: output.lost,
                    too_slow: output.too_slow,
                    left_out: output.left_out,
                })
                .collect(),
            records_lost: records_lost
                + collected
                    .outputs
                    .iter()
                    .map(|output| output.lost)
                    .sum::<u64>(),
            per_queue: report
                .queues
                .iter()
                .map(|queue| SummaryQueue {
                    name: queue.name.clone(),
                    core: queue.core,
                    schedule: queue.schedule.to_string(),
                    overruns: queue.overruns,
                    device: queue.device.map(|device| [device.frames, device.bytes]),
                    rss: queue.rss.map(port::Rss::name),
                    received: queue.books.received.packets,
                    processed: queue.books.processed.packets,
                    dropped: dropped(&queue.books),
                    in_flows: queue.flows.recorded[0],
                    records: queue.flows.records,
                    cpu_seconds: queue.cpu.as_secs_f64(),
                })
                .collect(),
            top_flows: collected
                .top
                .iter()
                .map(|record| TopFlow::new(record, plan.meter.flow))
                .collect(),
        }
    }
}

impl SummaryBooks {
    fn new(books: &Books) -> Self {
        Self {
            received: books.received.packets,
            processed: books.processed.packets,
            dropped: dropped(books),
            filtered: books.filtered.packets,
            in_flows: books.in_flows.packets,
            no_flow: no_flow(books)
                .map(|(name, count)| (name, count.packets))
                .collect(),
            miscounted: books.miscounted.packets,
            counted_only: books.counted_only.packets,
            balanced: books.balance(),
            bytes: SummaryBytes {
                received: books.received.bytes,
                processed: books.processed.bytes,
                filtered: books.filtered.bytes,
                in_flows: books.in_flows.bytes,
                no_flow: books.without_flow().bytes,
                miscounted: books.miscounted.bytes,
                counted_only: books.counted_only.bytes,
            },
        }
    }
}

impl TopFlow {
    /// What the key does not have is absent.
    fn new(record: &Record, flow: FlowDefinition) -> Self {
        let key = &record.key;
        let [source, destination] = flow.addresses();
        let ports = flow.has_ports();
        Self {
            flow_hash: key.hash(),
            source: source.then(|| key.source_address().to_string()),
            destination: destination.then(|| key.destination_address().to_string()),
            source_transport_port: ports.then_some(key.source_port),
            destination_transport_port: ports.then_some(key.destination_port),
            protocol_identifier: ports.then_some(key.protocol),
            packets: packets(record),
            bytes: bytes(record),
        }
    }
}

/// Lost packets by reason, every reason told.
fn dropped(books: &Books) -> BTreeMap<&'static str, u64> {
    engine::Loss::ALL
        .into_iter()
        .map(|reason| (reason.name(), books.dropped[reason as usize].packets))
        .collect()
}

/// Packets in no flow by reason, where there are any.
pub(crate) fn no_flow(books: &Books) -> impl Iterator<Item = (&'static str, Count)> {
    NoFlow::ALL
        .iter()
        .map(|&reason| (reason.name(), books.no_flow[reason as usize]))
        .filter(|(_, count)| count.packets > 0)
}

/// Malformed packets by kind, where there are any.
pub(crate) fn malformed(books: &Books) -> impl Iterator<Item = (&'static str, u64)> {
    Malformed::ALL
        .iter()
        .map(|&kind| (kind.name(), books.malformed[kind as usize]))
        .filter(|(_, count)| *count > 0)
}
