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
    /// Number of the last request for the books that was answered, plus 1; 0 for a worker without books.
    books_answered: AtomicU64,
    books: Mutex<Books>,
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

    /// Says that this worker has books to publish.
    pub(crate) fn announce_books(&self) {
        self.books_answered.store(1, Ordering::Relaxed);
    }

    /// Returns the number of the last request for the books that was answered.
    pub(crate) fn answered_books(&self) -> u64 {
        self.books_answered
            .load(Ordering::Relaxed)
            .saturating_sub(1)
    }

    /// Answers a request for the books, unless a reader holds the lock: the packet path must not wait.
    pub(crate) fn answer_books(&self, request: u64, books: Books) {
        if let Ok(mut slot) = self.books.try_lock() {
            *slot = books;
            let answered = request.saturating_add(1);
            self.books_answered.store(answered, Ordering::Release);
        }
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
    /// Number of requests for the books.
    books_requests: AtomicU64,
}

impl Progress {
    /// Creates zeroed counters for `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| QueueProgress::default()).collect(),
            warnings: Mutex::default(),
            books_requests: AtomicU64::new(0),
        }
    }

    /// Requests the books so far from all workers that have any, and returns the number of the request.
    /// They answer at their next update, [`Progress::books`] returns the answers.
    pub fn request_books(&self) -> u64 {
        self.books_requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn books_request(&self) -> u64 {
        self.books_requests.load(Ordering::Relaxed)
    }

    /// Returns the sum of the books that were published last, and the number of workers that have not
    /// answered `request` yet. `in_flows` is not in it: it is known only when all records are made.
    #[must_use]
    pub fn books(&self, request: u64) -> (Books, usize) {
        let (mut sum, mut missing) = (Books::default(), 0);
        for queue in &self.queues {
            let answered = queue.books_answered.load(Ordering::Acquire);
            missing += usize::from(answered != 0 && answered <= request);
            if let Ok(books) = queue.books.lock() {
                sum += &*books;
            }
        }
        (sum, missing)
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
