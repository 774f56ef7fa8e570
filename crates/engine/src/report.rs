//! What a run comes to.

use crate::acquisition::AcquisitionReport;
use crate::books::{Books, Count};
use crate::receive::Told;
use flow::MeterCounters;
use hw::schedule::Schedule;
use port::{DeviceCounters, Rss};
use std::time::Duration;

/// One thread's part.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// What it read (a port's name), or the monitor that it was.
    pub name: String,
    /// The core that it was kept on.
    pub core: Option<usize>,
    /// The policy that it ran under.
    pub schedule: Schedule,
    /// How often it used its runtime up before its period was over (SCHED_DEADLINE).
    pub overruns: u64,
    /// Its books; a monitor's are part of its receiver's.
    pub books: Books,
    /// Its flows, where it has a table.
    pub flows: MeterCounters,
    /// What the port's device itself says it has delivered, where it says so.
    pub device: Option<DeviceCounters>,
    /// Whether the port's device hashes frames, where that is known.
    pub rss: Option<Rss>,
    /// Processor time of the thread.
    pub cpu: Duration,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The books of all queues together.
    pub books: Books,
    /// Flows and records, all tables together.
    pub flows: MeterCounters,
    /// Memory that the tables may take, in bytes.
    pub memory_bytes: usize,
    /// Each thread.
    pub queues: Vec<QueueReport>,
    /// What acquisition came to, for each port, where it was apart from processing.
    pub acquisition: Vec<AcquisitionReport>,
    /// Wall-clock time from the first receive to the last record.
    pub elapsed: Duration,
    /// Faults of ports, in words.
    pub faults: Vec<String>,
    /// Whether a port could not go on.
    pub failed: bool,
    /// Link types that flowatch does not read, as libpcap numbers them, each once.
    pub unknown_links: Vec<u16>,
}

/// What one thread brings home.
#[derive(Default)]
pub(crate) struct Worked {
    pub(crate) queue: QueueReport,
    pub(crate) memory_bytes: usize,
    pub(crate) told: Told,
    pub(crate) unknown_links: Vec<u16>,
}

impl FromIterator<Worked> for Report {
    fn from_iter<I: IntoIterator<Item = Worked>>(threads: I) -> Self {
        let mut report = Self::default();
        for worked in threads {
            report.books += &worked.queue.books;
            report.add_flows(&worked.queue.flows);
            report.memory_bytes += worked.memory_bytes;
            for fault in worked.told.faults {
                // Queues of one interface go down together.
                if !report.faults.contains(&fault) {
                    report.faults.push(fault);
                }
            }
            report.failed |= worked.told.failed;
            report.unknown_links.extend(worked.unknown_links);
            report.queues.push(worked.queue);
        }
        // In flows is what came out in records: a packet lost inside would unbalance the books.
        let count = |[packets, bytes]: [u64; 2]| Count { packets, bytes };
        report.books.in_flows = count(report.flows.recorded);
        report.books.miscounted = count(report.flows.miscounted);
        report.unknown_links.sort_unstable();
        report.unknown_links.dedup();
        report
    }
}

impl Report {
    fn add_flows(&mut self, counters: &MeterCounters) {
        let sum = &mut self.flows;
        for side in 0..2 {
            sum.recorded[side] += counters.recorded[side];
            sum.miscounted[side] += counters.miscounted[side];
        }
        sum.records += counters.records;
        sum.evicted += counters.evicted;
        sum.was_full |= counters.was_full;
        sum.flows += counters.flows;
    }
}
