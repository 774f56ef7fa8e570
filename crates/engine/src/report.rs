//! The report of a run.

use crate::books::{Books, Count};
use crate::measurement::{Findings, FindingsMerger, MeasurementReport};
use crate::occupancy::Occupancy;
use flow::MeterCounters;
use hw::schedule::Schedule;
use port::{DeviceCounters, InputCounters, Rss};
use std::time::Duration;

/// The report of one thread.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// Name of the port or monitor.
    pub name: String,
    /// Core to which the thread was pinned.
    pub core: Option<usize>,
    /// Scheduling policy of the thread.
    pub schedule: Schedule,
    /// How often the thread used up its runtime before the end of a period (SCHED_DEADLINE).
    pub overruns: u64,
    /// Packet accounting. That of a monitor is included in its receiver's.
    pub books: Books,
    /// Flow counters, if the thread has a table.
    pub flows: MeterCounters,
    /// The device's own count of delivered packets, if it has one.
    pub device: Option<DeviceCounters>,
    /// Whether the device hashes frames, if known.
    pub rss: Option<Rss>,
    /// The accounting of each input, if the port joins several.
    pub inputs: Vec<InputCounters>,
    /// CPU time of the thread.
    pub cpu: Duration,
}

/// The results of acquisition, for one port.
#[derive(Clone, Debug, Default)]
pub struct AcquisitionReport {
    /// Name of the port.
    pub name: String,
    /// Rounds that received frames.
    pub rounds: u64,
    /// Periods that started late because the previous round took too long.
    pub late: u64,
    /// Blocks of the buffer.
    pub blocks: usize,
    /// Most blocks in use after a round.
    pub blocks_used_max: usize,
    /// Whether timestamps were interpolated, since the port has none for each frame.
    pub interpolated: bool,
    /// The longest interval that was interpolated, which bounds the error of every timestamp.
    pub time_error_max: Duration,
    /// Sum of these bounds over the frames, for the mean.
    pub time_error_sum_ns: u128,
    /// Frames with interpolated timestamps.
    pub time_error_frames: u64,
    /// Samples of the occupancy of the queue before a round.
    pub occupancy: Occupancy,
    /// Capacity of the queue, in frames.
    pub queue_size: usize,
    /// Whether a request to stop ended acquisition.
    pub stopped: bool,
    /// Whether the port reported its occupancy; otherwise the frames of a round are the sample.
    pub occupancy_from_port: bool,
}

/// The report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Packet accounting over all queues.
    pub books: Books,
    /// Flow and record counters over all tables.
    pub flows: MeterCounters,
    /// The results of the other measurements.
    pub measurements: Vec<MeasurementReport>,
    /// Maximum memory of the tables, in bytes.
    pub memory_bytes: usize,
    /// The report of each thread.
    pub queues: Vec<QueueReport>,
    /// The acquisition report of each port, if acquisition had threads of its own.
    pub acquisition: Vec<AcquisitionReport>,
    /// Wall-clock time from the first receive to the last record.
    pub elapsed: Duration,
    /// Port faults, as messages.
    pub faults: Vec<String>,
    /// Whether a port failed and could not continue.
    pub failed: bool,
    /// Whether a request to stop ended the run, and not the end of the input.
    pub stopped: bool,
    /// Unsupported link types, as libpcap numbers (LINKTYPE), each once.
    pub unknown_links: Vec<u16>,
}

/// The faults that a port reported.
#[derive(Default)]
pub(crate) struct PortFaults {
    pub(crate) messages: Vec<String>,
    /// Whether the port could not continue.
    pub(crate) failed: bool,
    /// Whether the port was stopped before it ended.
    pub(crate) stopped: bool,
}

/// The result of one thread or task.
#[derive(Default)]
pub(crate) struct ThreadResult {
    pub(crate) queue: QueueReport,
    pub(crate) memory_bytes: usize,
    pub(crate) findings: Vec<Box<dyn Findings>>,
    pub(crate) port_faults: PortFaults,
    pub(crate) unknown_links: Vec<u16>,
}

impl FromIterator<ThreadResult> for Report {
    fn from_iter<I: IntoIterator<Item = ThreadResult>>(threads: I) -> Self {
        let mut report = Self::default();
        let mut findings = FindingsMerger::default();
        for result in threads {
            report.books += &result.queue.books;
            report.flows += result.queue.flows;
            findings.add(result.findings);
            report.memory_bytes += result.memory_bytes;
            for fault in result.port_faults.messages {
                // All queues of an interface report the same fault.
                if !report.faults.contains(&fault) {
                    report.faults.push(fault);
                }
            }
            report.failed |= result.port_faults.failed;
            report.stopped |= result.port_faults.stopped;
            report.unknown_links.extend(result.unknown_links);
            report.queues.push(result.queue);
        }
        report.measurements = findings.reports();
        // Packets in flows are those in records, so that a packet lost in the meter unbalances the books.
        let count = |[packets, bytes]: [u64; 2]| Count { packets, bytes };
        report.books.in_flows = count(report.flows.recorded);
        report.books.unattributed = count(report.flows.unattributed);
        report.unknown_links.sort_unstable();
        report.unknown_links.dedup();
        report
    }
}

impl Report {
    /// Returns whether the books balance, and each measurement accounts for all processed packets.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let processed = self.books.processed;
        let mut measurements = self.measurements.iter();
        self.books.is_balanced() && measurements.all(|report| report.is_balanced(processed))
    }
}
