//! Live counters of a running engine, which other threads can read without slowing it down.

use crate::books::Books;
use crate::measurement::MeasurementSet;
use flow::LiveView;
use port::Counters;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The live counters of one worker, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct QueueProgress {
    /// Packets processed.
    pub packets: AtomicU64,
    /// Bytes of these packets on the wire.
    pub bytes: AtomicU64,
    /// Packets lost.
    pub lost: AtomicU64,
    /// Flows in the table now.
    pub flows: AtomicU64,
    /// Flow records created.
    pub records: AtomicU64,
    /// Position in the input, in bytes.
    pub position: AtomicU64,
    /// Size of the input in bytes, 0 if unknown.
    pub size: AtomicU64,
    view: Mutex<Option<LiveView>>,
}

impl QueueProgress {
    /// Publishes the counters of a receiver and of its port.
    pub(crate) fn update_port(&self, books: &Books, counters: &Counters) {
        self.packets
            .store(books.processed.packets, Ordering::Relaxed);
        self.bytes.store(books.processed.bytes, Ordering::Relaxed);
        self.lost.store(
            books.lost() + counters.dropped + counters.overflow,
            Ordering::Relaxed,
        );
        self.position.store(counters.position, Ordering::Relaxed);
        self.size.store(counters.size, Ordering::Relaxed);
    }

    /// Publishes the flow counters of a thread's measurements, and their new live view if they have one.
    pub(crate) fn update_measurements(&self, measurements: &mut MeasurementSet) {
        let counters = measurements.counters();
        self.flows.store(counters.flows, Ordering::Relaxed);
        self.records.store(counters.records, Ordering::Relaxed);
        if let Some(view) = measurements.take_view() {
            self.set_view(view);
        }
    }

    /// Replaces the view, unless a reader holds the lock: the packet path must not wait.
    fn set_view(&self, view: LiveView) {
        if let Ok(mut slot) = self.view.try_lock() {
            *slot = Some(view);
        }
    }

    /// Returns the latest view of the flow table.
    #[must_use]
    pub fn view(&self) -> Option<LiveView> {
        self.view.lock().ok().and_then(|view| view.clone())
    }
}

/// The live counters and warnings of a run.
#[derive(Debug)]
pub struct Progress {
    /// One for each worker that has a flow table or reads a port.
    pub queues: Vec<QueueProgress>,
    /// All warnings so far, and how many of them were taken.
    warnings: Mutex<(Vec<String>, usize)>,
}

impl Progress {
    /// Creates zeroed counters for `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| QueueProgress::default()).collect(),
            warnings: Mutex::default(),
        }
    }

    /// Returns the sum of a counter over all workers.
    pub fn sum(&self, counter: impl Fn(&QueueProgress) -> &AtomicU64) -> u64 {
        self.queues
            .iter()
            .map(|queue| counter(queue).load(Ordering::Relaxed))
            .sum()
    }

    /// Adds a warning to print during the run, unless it is a duplicate: all queues of an interface
    /// report the same fault when the interface goes down.
    pub(crate) fn warn(&self, message: &str) {
        if let Ok(mut warnings) = self.warnings.lock()
            && !warnings.0.iter().any(|before| before == message)
        {
            warnings.0.push(message.to_owned());
        }
    }

    /// Returns the warnings added since the last call.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<String> {
        let Ok(mut warnings) = self.warnings.lock() else {
            return Vec::new();
        };
        let (all, taken) = &mut *warnings;
        let from = std::mem::replace(taken, all.len());
        all[from..].to_vec()
    }
}
