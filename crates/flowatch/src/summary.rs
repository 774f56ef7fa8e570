//! The final summary as one JSON object, for programs.

use crate::acquisition_summary::SummaryAcquisition;
use crate::collector::{CollectorReport, total_bytes, total_packets};
use crate::measurement_summary::SummaryMeasurement;
use crate::memory_plan::MemoryUse;
use crate::net_summary::SummaryNet;
use crate::plan::Plan;
use crate::run_end::RunEnd;
use engine::{Books, Count, Report};
use flow::hash::HashKind;
use flow::{Collisions, FlowDefinition, MeterOptions, Record};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::{Malformed, NoFlow};

/// Goes up when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 2;

/// The summary of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    schema_version: u32,
    version: &'static str,
    /// Packets that passed the filter, including lost ones.
    packets: u64,
    /// Their bytes on the wire; packets that the kernel dropped add none.
    bytes: u64,
    /// Flow records.
    flows: u64,
    /// Number of times that records of one flow from two queues were merged into one.
    merged: u64,
    /// Records that were not held until another part of their flow could arrive: too many were held.
    merge_cut: u64,
    /// Records of evicted flows.
    evicted: u64,
    hash_collisions: SummaryCollisions,
    names: SummaryNames,
    books: SummaryBooks,
    hashes: SummaryHashes,
    /// Each port's acquisition, if it was separate from processing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acquisition: Vec<SummaryAcquisition>,
    /// The results of measurements beside the flow table, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    measurements: BTreeMap<&'static str, SummaryMeasurement>,
    /// Which packets gaps count: `queue` or `link`.
    gap_scope: &'static str,
    malformed: BTreeMap<&'static str, u64>,
    /// Packets truncated by the snaplen.
    truncated: u64,
    snaplens: SummarySnaplens,
    fragments: u64,
    clock_steps_back: u64,
    clock_steps_forward: u64,
    /// Parts of the input that could not be read.
    unreadable: u64,
    /// Error messages.
    faults: Vec<String>,
    /// Unsupported link types that occurred, as libpcap numbers them.
    unknown_link_types: Vec<u16>,
    /// What ended the run, and at which share of the input.
    ended: RunEnd,
    /// Wall-clock time of the run.
    seconds: f64,
    /// CPU time of the whole process.
    cpu_seconds: f64,
    table_memory_bytes: usize,
    /// The memory that was planned for, and what was used.
    memory: MemoryUse,
    outputs: Vec<SummaryOutput>,
    /// Records lost: each output's `lost`, and those lost before they reached the outputs.
    records_lost: u64,
    per_queue: Vec<SummaryQueue>,
    top_flows: Vec<TopFlow>,
}

/// What colliding hashes did to tables that had room.
#[derive(Debug, Serialize)]
struct SummaryCollisions {
    /// Flows that did not fit their bucket of a nearly empty table.
    overflowed: u64,
    /// Flows that were evicted although the table was not full.
    evicted: u64,
    /// What prevents collisions, if there were any.
    prevention: Option<&'static str>,
}

impl SummaryCollisions {
    fn new(plan: &Plan, report: &Report) -> Self {
        let collisions = report.flows.collisions;
        Self {
            overflowed: collisions.overflowed,
            evicted: collisions.evicted,
            prevention: collision_prevention(collisions, &plan.engine.meter),
        }
    }
}

/// Returns what prevents collisions, if there were any.
pub(crate) fn collision_prevention(
    collisions: Collisions,
    meter: &MeterOptions,
) -> Option<&'static str> {
    if collisions == Collisions::default() {
        return None;
    }
    Some(match (meter.flow, meter.hash) {
        (FlowDefinition::Rss, _) => {
            "--flow 5tuple or bidirectional with --hash keyed (anyone can compute the hashes of --flow rss)"
        }
        (_, HashKind::Keyed) => "another --seed, or none (who chose the keys knew this one)",
        _ => "--hash keyed, the default, whose seed is secret",
    })
}

/// What became of the names in DNS responses and QUIC handshakes.
#[derive(Debug, Serialize)]
struct SummaryNames {
    /// Responses with addresses whose query was not seen.
    unasked: u64,
    /// Names that other names pushed out of the cache.
    evicted: u64,
    /// Names that were not stored: too long, or unasked where asked ones fill the cache.
    left_out: u64,
    /// Responses that did not reach all threads, because too many came at a time.
    dropped: u64,
    /// Initial packets of QUIC that were not decrypted, because there were too many.
    quic_cuts: u64,
}

impl SummaryNames {
    const fn new(report: &Report) -> Self {
        Self {
            unasked: report.flows.names.unasked,
            evicted: report.flows.names.evicted,
            left_out: report.flows.names.left_out,
            dropped: report.flows.answers_dropped,
            quic_cuts: report.flows.names.quic_cuts,
        }
    }
}

#[derive(Debug, Serialize)]
struct SummaryBooks {
    received: u64,
    processed: u64,
    dropped: BTreeMap<&'static str, u64>,
    filtered: u64,
    in_flows: u64,
    no_flow: BTreeMap<&'static str, u64>,
    unattributed: u64,
    counted_only: u64,
    balanced: bool,
    bytes: SummaryBytes,
}

/// Invalid snaplens in capture file headers.
#[derive(Debug, Serialize)]
struct SummarySnaplens {
    /// Headers whose snaplen is impossibly large.
    invalid: u64,
    /// The largest of these.
    invalid_max: u32,
    /// Packets longer than the snaplen in their file header.
    exceeded: u64,
}

impl SummarySnaplens {
    const fn new(books: &Books) -> Self {
        Self {
            invalid: books.snaplens.invalid,
            invalid_max: books.snaplens.invalid_max,
            exceeded: books.snaplens.exceeded,
        }
    }
}

/// Packets by origin of their hash. `by_device` and `in_software` count the hashes that identify a
/// flow (`--flow rss`), `reused` the device hashes used in the flow table.
#[derive(Debug, Serialize)]
struct SummaryHashes {
    by_device: u64,
    in_software: u64,
    reused: u64,
    mismatched: u64,
}

#[derive(Debug, Serialize)]
struct SummaryBytes {
    received: u64,
    processed: u64,
    filtered: u64,
    in_flows: u64,
    no_flow: u64,
    unattributed: u64,
    counted_only: u64,
}

#[derive(Debug, Serialize)]
struct SummaryOutput {
    target: String,
    written: u64,
    lost: u64,
    /// Of the lost records, those that the output was too slow for.
    too_slow: u64,
    /// Of the lost records, those that were waiting for the output when it was given up.
    stuck: u64,
    /// Records that the format cannot express.
    left_out: u64,
    /// The connection of a network output.
    #[serde(skip_serializing_if = "Option::is_none")]
    net: Option<SummaryNet>,
}

#[derive(Debug, Serialize)]
struct SummaryQueue {
    name: String,
    core: Option<usize>,
    /// The scheduling policy.
    schedule: String,
    /// How often a deadline thread ran out of runtime.
    overruns: u64,
    /// Packets and bytes that the device counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u64; 2]>,
    /// Whether the device hashes packets over the fields of the flow key.
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
    /// Summarises a run. `records_lost` are those lost before they reached the outputs.
    pub(crate) fn new(
        plan: &Plan,
        report: &Report,
        collected: &CollectorReport,
        end: &RunEnd,
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
            merge_cut: collected.released_early,
            evicted: report.flows.evicted,
            hash_collisions: SummaryCollisions::new(plan, report),
            names: SummaryNames::new(report),
            books: SummaryBooks::new(report),
            hashes: SummaryHashes {
                by_device: books.hashed_by_device,
                in_software: books.hashed_in_software,
                reused: books.hashes_reused,
                mismatched: books.hashes_mismatched,
            },
            acquisition: report
                .acquisition
                .iter()
                .map(SummaryAcquisition::new)
                .collect(),
            measurements: SummaryMeasurement::all(report),
            gap_scope: match plan.engine.link_packet_counter {
                Some(_) => "link",
                None => "queue",
            },
            malformed: malformed(books).collect(),
            truncated: books.truncated,
            snaplens: SummarySnaplens::new(books),
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
            ended: end.clone(),
            seconds: report.elapsed.as_secs_f64(),
            cpu_seconds,
            table_memory_bytes: report.memory_bytes,
            memory: end.memory.with_use(),
            outputs: collected
                .outputs
                .iter()
                .map(|output| SummaryOutput {
                    target: output.name.clone(),
                    written: output.written,
                    lost: output.lost,
                    too_slow: output.too_slow,
                    stuck: output.stuck,
                    left_out: output.left_out,
                    net: output.net.as_ref().map(SummaryNet::new),
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
                .map(|record| TopFlow::new(record, plan.engine.meter.flow))
                .collect(),
        }
    }
}

impl SummaryBooks {
    fn new(report: &Report) -> Self {
        let books = &report.books;
        Self {
            received: books.received.packets,
            processed: books.processed.packets,
            dropped: dropped(books),
            filtered: books.filtered.packets,
            in_flows: books.in_flows.packets,
            no_flow: no_flow(books)
                .map(|(name, count)| (name, count.packets))
                .collect(),
            unattributed: books.unattributed.packets,
            counted_only: books.counted_only.packets,
            balanced: report.is_balanced(),
            bytes: SummaryBytes {
                received: books.received.bytes,
                processed: books.processed.bytes,
                filtered: books.filtered.bytes,
                in_flows: books.in_flows.bytes,
                no_flow: books.without_flow().bytes,
                unattributed: books.unattributed.bytes,
                counted_only: books.counted_only.bytes,
            },
        }
    }
}

impl TopFlow {
    /// Leaves out the fields that the key does not have.
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
            packets: total_packets(record),
            bytes: total_bytes(record),
        }
    }
}

/// Returns the lost packets by reason, including reasons with none.
fn dropped(books: &Books) -> BTreeMap<&'static str, u64> {
    engine::Loss::ALL
        .into_iter()
        .map(|reason| (reason.name(), books.dropped[reason as usize].packets))
        .collect()
}

/// Returns the packets in no flow by reason, without reasons that have none.
pub(crate) fn no_flow(books: &Books) -> impl Iterator<Item = (&'static str, Count)> {
    NoFlow::ALL
        .iter()
        .map(|&reason| (reason.name(), books.no_flow[reason as usize]))
        .filter(|(_, count)| count.packets > 0)
}

/// Returns the malformed packets by kind, without kinds that have none.
pub(crate) fn malformed(books: &Books) -> impl Iterator<Item = (&'static str, u64)> {
    Malformed::ALL
        .iter()
        .map(|&kind| (kind.name(), books.malformed[kind as usize]))
        .filter(|(_, count)| *count > 0)
}
