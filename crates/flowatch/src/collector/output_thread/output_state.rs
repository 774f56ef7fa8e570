//! What the threads that wait for an output see of it.

use export::NetCounters;
use export::activity::Activity;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known about an output even while its thread is stuck in a system call.
#[derive(Debug)]
pub(super) struct OutputState {
    pub(super) name: String,
    /// Progress within an operation.
    pub(super) activity: Arc<Activity>,
    /// Finished operations.
    pub(super) finished: AtomicU64,
    /// Whether an operation is running.
    pub(super) is_busy: AtomicBool,
    /// The counters of the exporter after its last operation.
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) left_out: AtomicU64,
    pub(super) net: Mutex<Option<NetCounters>>,
    pub(super) faults: Mutex<Vec<String>>,
    pub(super) reader_gone: AtomicBool,
    /// Nobody waits for the output any more: what it still does is not counted.
    pub(super) is_given_up: AtomicBool,
}

impl OutputState {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            activity: Arc::default(),
            finished: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            net: Mutex::default(),
            faults: Mutex::default(),
            reader_gone: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// The progress so far. While it stays the same and the output is busy, it is stuck.
    pub(super) fn steps(&self) -> u64 {
        self.activity.steps() + self.finished.load(Ordering::Relaxed)
    }

    /// Says what the output waits for.
    pub(super) fn waits_for(&self) -> String {
        if self.activity.is_syncing() {
            format!("{} waits for its storage device", self.name)
        } else {
            format!("{} waits for its reader", self.name)
        }
    }
}

/// Locks a mutex; every critical section leaves what it protects valid.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
