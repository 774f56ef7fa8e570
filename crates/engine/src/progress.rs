//! What a running engine lets others see, without waiting for them.

use flow::LiveView;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of one queue, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct QueueProgress {
    /// Packets processed.
    pub packets: AtomicU64,
    /// Their bytes on the wire.
    pub bytes: AtomicU64,
    /// Packets lost.
    pub lost: AtomicU64,
    /// Flows in the table.
    pub flows: AtomicU64,
    /// Records handed on.
    pub records: AtomicU64,
    /// Bytes of the input read.
    pub position: AtomicU64,
    /// Bytes of the input, 0 where unknown.
    pub size: AtomicU64,
    view: Mutex<Option<LiveView>>,
}

impl QueueProgress {
    /// Leaves a new view for whoever looks; never waits.
    pub fn show(&self, view: LiveView) {
        if let Ok(mut place) = self.view.try_lock() {
            *place = Some(view);
        }
    }

    /// The latest view.
    #[must_use]
    pub fn view(&self) -> Option<LiveView> {
        self.view.lock().ok().and_then(|view| view.clone())
    }
}

/// Figures of all queues.
#[derive(Debug)]
pub struct Progress {
    /// One for each worker that has a table or reads a port.
    pub queues: Vec<QueueProgress>,
}

impl Progress {
    /// For so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| QueueProgress::default()).collect(),
        }
    }

    /// The sum of a figure over the queues.
    pub fn sum(&self, figure: impl Fn(&QueueProgress) -> &AtomicU64) -> u64 {
        self.queues
            .iter()
            .map(|queue| figure(queue).load(Ordering::Relaxed))
            .sum()
    }

    /// The largest of a figure over the queues.
    pub fn max(&self, figure: impl Fn(&QueueProgress) -> &AtomicU64) -> u64 {
        self.queues
            .iter()
            .map(|queue| figure(queue).load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    }
}
