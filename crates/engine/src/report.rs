//! What a run comes to.

use crate::books::{Books, Count};
use flow::MeterCounters;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// One worker's part.
#[derive(Clone, Debug, Default)]
pub struct QueueReport {
    /// What it read or monitored: a port's name, and the number of the worker.
    pub name: String,
    /// The core that it was kept on.
    pub core: Option<usize>,
    /// Its books; a monitor's are part of its receiver's.
    pub books: Books,
    /// Its flows, where it has a table.
    pub flows: MeterCounters,
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
    /// Each queue.
    pub queues: Vec<QueueReport>,
    /// Wall-clock time from the first receive to the last record.
    pub elapsed: Duration,
    /// Faults of ports, in words.
    pub faults: Vec<String>,
    /// Whether a port could not go on.
    pub failed: bool,
    /// Link types that flowatch does not read, as libpcap numbers them.
    pub unknown_links: Vec<u16>,
}

impl Report {
    /// Puts the flows' sums into the books, where they must make them balance.
    pub(crate) fn close(&mut self) {
        let count = |[packets, bytes]: [u64; 2]| Count { packets, bytes };
        self.books.in_flows = count(self.flows.recorded);
        self.books.miscounted = count(self.flows.miscounted);
        self.unknown_links.sort_unstable();
        self.unknown_links.dedup();
    }

    pub(crate) fn add_flows(&mut self, counters: &MeterCounters) {
        let sum = &mut self.flows;
        for side in 0..2 {
            sum.recorded[side] += counters.recorded[side];
            sum.miscounted[side] += counters.miscounted[side];
        }
        sum.records += counters.records;
        sum.evicted += counters.evicted;
        sum.flows += counters.flows;
    }
}

/// What a thread brings home; a thread that panicked brings its panic here.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
