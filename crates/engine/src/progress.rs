//! What a running engine lets others see, without waiting for them.

use crate::books::Books;
use flow::{LiveView, Meter};
use port::Counters;
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
    /// Shows the books of a receiver, and what its port counted.
    pub(crate) fn show_port(&self, books: &Books, counters: &Counters) {
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

    /// Shows the flows of a table.
    pub(crate) fn show_meter(&self, meter: &mut Meter) {
        let counters = meter.counters();
        self.flows.store(counters.flows, Ordering::Relaxed);
        self.records.store(counters.records, Ordering::Relaxed);
        if let Some(view) = meter.take_view() {
            self.show(view);
        }
    }

    /// Leaves a new view for whoever looks; never waits.
    fn show(&self, view: LiveView) {
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
    /// Everything said so far, and how much of it was taken.
    told: Mutex<(Vec<String>, usize)>,
}

impl Progress {
    /// For so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| QueueProgress::default()).collect(),
            told: Mutex::default(),
        }
    }

    /// The sum of a figure over the queues.
    pub fn sum(&self, figure: impl Fn(&QueueProgress) -> &AtomicU64) -> u64 {
        self.queues
            .iter()
            .map(|queue| figure(queue).load(Ordering::Relaxed))
            .sum()
    }

    /// Has something said while the run goes on, once: queues of one interface go down together.
    pub(crate) fn tell(&self, message: &str) {
        if let Ok(mut told) = self.told.lock()
            && !told.0.iter().any(|before| before == message)
        {
            told.0.push(message.to_owned());
        }
    }

    /// What is to be said since the last time.
    #[must_use]
    pub fn take_told(&self) -> Vec<String> {
        let Ok(mut told) = self.told.lock() else {
            return Vec::new();
        };
        let (all, taken) = &mut *told;
        let from = std::mem::replace(taken, all.len());
        all[from..].to_vec()
    }
}
