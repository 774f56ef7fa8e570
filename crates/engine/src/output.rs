//! The way of records from workers to the thread that writes them.

use crate::moderated::Moderated;
use flow::{MeterOptions, RecordBatch, RecordSink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Batches of records that may wait for the writer, for each worker.
const WAITING: usize = 64;

/// Batches whose memory is taken in the beginning, for each worker of a link.
const READY: usize = 16;

/// The workers' end.
#[derive(Clone, Debug)]
pub struct Records {
    full: SyncSender<(usize, RecordBatch)>,
    /// Number of the worker whose clone this is.
    worker: usize,
    empty: Arc<std::sync::Mutex<Receiver<RecordBatch>>>,
    /// Whether a worker waits for a slow writer (a file can wait) or goes on without (a link cannot).
    wait: bool,
    lost: Arc<AtomicU64>,
}

/// The writer's end.
#[derive(Debug)]
pub struct Returned {
    full: Moderated<(usize, RecordBatch)>,
    empty: SyncSender<RecordBatch>,
}

/// A way for the records of so many workers. `wait`: a worker waits while the writer is behind;
/// otherwise it counts the records lost, and goes on.
#[must_use]
pub fn channel(workers: usize, wait: bool) -> (Records, Returned) {
    let (full, full_end) = sync_channel(WAITING * workers.max(1));
    let (empty, empty_end) = sync_channel(WAITING * workers.max(1));
    let records = Records {
        full,
        worker: 0,
        empty: Arc::new(std::sync::Mutex::new(empty_end)),
        wait,
        lost: Arc::new(AtomicU64::new(0)),
    };
    (
        records,
        Returned {
            full: Moderated::new(full_end),
            empty,
        },
    )
}

impl Records {
    /// A clone for the worker whose place in the progress has this number.
    pub(crate) fn of_worker(&self, worker: usize) -> Self {
        Self {
            worker,
            ..self.clone()
        }
    }

    /// From now on this worker waits for the writer: its port has ended, and nothing is in a hurry.
    pub(crate) fn wait_from_now_on(&mut self) {
        self.wait = true;
    }

    /// Closes this end for good, in a program that is about to end: what empty batches hold is not given
    /// back piece by piece, since all memory goes at once then.
    pub fn close_at_exit(self) {
        drop(self.full);
        std::mem::forget(self.empty);
    }

    /// Records that found the way full, or nobody at its end.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl RecordSink for Records {
    const COMPLETES: bool = true;

    fn take(&mut self, batch: &mut RecordBatch) {
        let fresh = self
            .empty
            .try_lock()
            .ok()
            .and_then(|empty| empty.try_recv().ok());
        let full = std::mem::replace(batch, fresh.unwrap_or_default());
        let full = (self.worker, full);
        let failed = if self.wait {
            self.full.send(full).err().map(|error| error.0)
        } else {
            self.full.try_send(full).err().map(|error| match error {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            })
        };
        if let Some((_, batch)) = failed {
            self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Returned {
    /// Gives so many workers batches whose memory is taken, for records of such a meter, if it takes
    /// its own in the beginning too.
    pub fn populate(&self, workers: usize, meter: &MeterOptions) {
        if meter.populate {
            let schema = meter.schema();
            for _ in 0..READY * workers {
                self.give_back(RecordBatch::populated(&schema));
            }
        }
    }

    /// The next records, waiting for them; `None` when all workers are done.
    ///
    /// # Errors
    /// When none came within `patience`.
    pub fn next_within(&self, patience: Duration) -> Result<Option<RecordBatch>, RecvTimeoutError> {
        let next = self.next_of_worker_within(patience)?;
        Ok(next.map(|(_, batch)| batch))
    }

    /// The same, with the number of the worker (its place in the progress) whose records they are.
    ///
    /// # Errors
    /// When none came within `patience`.
    pub fn next_of_worker_within(
        &self,
        patience: Duration,
    ) -> Result<Option<(usize, RecordBatch)>, RecvTimeoutError> {
        match self.full.recv_timeout(patience) {
            Ok((worker, mut batch)) => {
                batch.complete();
                Ok(Some((worker, batch)))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
        }
    }

    /// The way back for empty batches, for other threads.
    #[must_use]
    pub fn emptied(&self) -> Emptied {
        Emptied(self.empty.clone())
    }

    /// Gives a batch back to be filled again.
    pub fn give_back(&self, batch: RecordBatch) {
        give_back(&self.empty, batch);
    }
}

/// Where empty batches go.
#[derive(Clone, Debug)]
pub struct Emptied(SyncSender<RecordBatch>);

impl Emptied {
    /// Gives a batch back to be filled again.
    pub fn give_back(&self, batch: RecordBatch) {
        give_back(&self.0, batch);
    }
}

fn give_back(empty: &SyncSender<RecordBatch>, mut batch: RecordBatch) {
    batch.clear();
    // With enough empty ones about, this one is let go.
    let _ = empty.try_send(batch);
}
