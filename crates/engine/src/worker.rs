//! What all programming models share: their options, their input, and the parts of a thread's work.

use crate::books::{Books, Count, Drop};
use crate::progress::{Progress, QueueProgress};
use flow::{Meter, MeterOptions};
use port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Decapsulate;

/// Which threads do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each thread receives, reads headers and counts.
    #[default]
    RunToCompletion,
    /// Receiver threads read headers, monitor threads count; a ring joins them.
    Pipeline,
}

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programming model.
    pub model: Model,
    /// What is metered.
    pub meter: MeterOptions,
    /// How far to look into tunnels.
    pub decapsulate: Decapsulate,
    /// Cores for the threads in their order; empty to leave them to the scheduler.
    pub cores: Vec<usize>,
    /// Pipeline: monitors behind each receiver.
    pub monitors: usize,
    /// Pipeline: packets that the ring before a monitor holds.
    pub ring: usize,
    /// Ends the run when set.
    pub stop: Stop,
}

/// What is read.
pub struct Input {
    /// One for each receiving thread.
    pub ports: Vec<Box<dyn Port>>,
    /// Whether every port reads the same packets, so that each thread must keep to its share.
    pub same_packets: bool,
    /// Whether packets come from a link, which waits for nobody.
    pub live: bool,
}

/// Asks a run to end. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A thread cannot run on the core that it was given.
    #[error("core {core}: {reason}; this process may use {allowed}")]
    Core {
        /// The core.
        core: usize,
        /// The system's words.
        reason: String,
        /// The cores that it may use.
        allowed: String,
    },
    /// The system refuses a thread.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}

impl Options {
    /// The core of the thread with this number.
    pub(crate) fn core(&self, thread: usize) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.cores[thread % self.cores.len()])
    }
}

/// Checks that every given core can be used, before any thread starts.
pub(crate) fn check_cores(cores: &[usize]) -> Result<(), EngineError> {
    let allowed = hw::cores::allowed();
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(()),
        Some(&core) => Err(EngineError::Core {
            core,
            reason: "not available".into(),
            allowed: allowed
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
        }),
    }
}

/// Keeps the calling thread on its core. The core was checked; should it have gone since, the
/// thread runs anywhere.
pub(crate) fn settle(core: Option<usize>) {
    if let Some(core) = core {
        let _ = hw::cores::pin(core);
    }
}

/// Enters what a port counted itself.
pub(crate) fn enter_port(books: &mut Books, port: &mut dyn Port) {
    let counters = port.counters();
    let lost = Count {
        packets: counters.dropped,
        bytes: 0,
    };
    books.received += lost;
    books.dropped[Drop::Kernel as usize] += lost;
    books.filtered += Count {
        packets: counters.filtered,
        bytes: counters.filtered_bytes,
    };
    books.faults += counters.faults;
}

/// Shows the books of a receiver.
pub(crate) fn publish_port(progress: &QueueProgress, books: &Books, port: &mut dyn Port) {
    let counters = port.counters();
    progress
        .packets
        .store(books.processed.packets, Ordering::Relaxed);
    progress
        .bytes
        .store(books.processed.bytes, Ordering::Relaxed);
    progress
        .lost
        .store(books.lost() + counters.dropped, Ordering::Relaxed);
    progress
        .position
        .store(counters.position, Ordering::Relaxed);
    progress.size.store(counters.size, Ordering::Relaxed);
}

/// Shows the flows of a table.
pub(crate) fn publish_meter(progress: &QueueProgress, meter: &mut Meter) {
    let counters = meter.counters();
    progress.flows.store(counters.flows, Ordering::Relaxed);
    progress.records.store(counters.records, Ordering::Relaxed);
    if let Some(view) = meter.take_view() {
        progress.show(view);
    }
}

/// The place of a worker in the progress.
pub(crate) fn place(progress: &Progress, worker: usize) -> Option<&QueueProgress> {
    progress.queues.get(worker)
}
