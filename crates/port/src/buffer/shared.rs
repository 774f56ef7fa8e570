//! State that the two ends of a capture buffer share.

use crate::frame::{Counters, PortError};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// State that both ends share besides the frames; not accessed per packet.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The counters of the source port, with the buffer's overflow.
    pub(super) counters: Mutex<Counters>,
    pub(super) faults: Mutex<VecDeque<String>>,
    /// Why the source port could not continue.
    pub(super) error: Mutex<Option<PortError>>,
    /// The writer has ended.
    pub(super) ended: AtomicBool,
    /// The reader has stopped.
    pub(super) stop: AtomicBool,
}

impl Shared {
    pub(super) fn pop_fault(&self) -> Option<String> {
        let faults = self.faults.lock();
        faults.unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
