//! What the output of a thread is doing, for a thread that waits for it: it shows whether the output is
//! slow or stuck.
//!
//! The record of it belongs to the thread, because a stuck system call can be anywhere below an
//! exporter.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of an output.
#[derive(Debug, Default)]
pub struct Activity {
    steps: AtomicU64,
    is_syncing: AtomicBool,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Activity>>> = const { RefCell::new(None) };
}

impl Activity {
    /// Records here what outputs do on the current thread from now on.
    pub fn observe_this_thread(self: &Arc<Self>) {
        CURRENT.set(Some(Arc::clone(self)));
    }

    /// Number of steps so far, such as bytes that a pipe accepted. While it stays the same, the
    /// output makes no progress.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Whether the output waits for a storage device, which says nothing about its progress.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        self.is_syncing.load(Ordering::Relaxed)
    }
}

/// Records a step of the output on this thread.
pub(crate) fn step() {
    with_current(|activity| {
        activity.steps.fetch_add(1, Ordering::Relaxed);
    });
}

/// Runs `wait`, which waits for a storage device.
pub(crate) fn while_syncing<T>(wait: impl FnOnce() -> T) -> T {
    with_current(|activity| activity.is_syncing.store(true, Ordering::Relaxed));
    let result = wait();
    with_current(|activity| activity.is_syncing.store(false, Ordering::Relaxed));
    step();
    result
}

fn with_current(act: impl FnOnce(&Activity)) {
    CURRENT.with_borrow(|current| {
        if let Some(activity) = current {
            act(activity);
        }
    });
}
