//! The channel that carries flow records from the workers to the writer, and empty batches back.

use crate::coalescing_receiver::CoalescingReceiver;
use flow::{MeterOptions, RecordBatch, RecordSink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Capacity of the channel, in batches per worker.
const QUEUED_BATCHES: usize = 64;

/// Batches with committed memory at the start of a run, per worker of a link.
const POPULATED_BATCHES: usize = 16;

/// The workers' end of the channel.
#[derive(Clone, Debug)]
pub struct RecordSender {
    filled: SyncSender<(usize, RecordBatch)>,
    /// Index of the worker that owns this clone.
    worker: usize,
    recycled: Arc<std::sync::Mutex<Receiver<RecordBatch>>>,
    /// Whether a full channel blocks the worker (a file can wait) or drops the records (a link cannot).
    blocking: bool,
    lost: Arc<AtomicU64>,
}

/// The writer's end of the channel.
#[derive(Debug)]
pub struct RecordReceiver {
    filled: CoalescingReceiver<(usize, RecordBatch)>,
    recycled: SyncSender<RecordBatch>,
}

/// Creates a channel for `workers` workers. If it is full, a worker waits if `blocking`, and otherwise
/// drops its records and counts them as lost.
#[must_use]
pub fn channel(workers: usize, blocking: bool) -> (RecordSender, RecordReceiver) {
    let (filled_sender, filled_receiver) = sync_channel(QUEUED_BATCHES * workers.max(1));
    let (recycled_sender, recycled_receiver) = sync_channel(QUEUED_BATCHES * workers.max(1));
    let records = RecordSender {
        filled: filled_sender,
        worker: 0,
        recycled: Arc::new(std::sync::Mutex::new(recycled_receiver)),
        blocking,
        lost: Arc::new(AtomicU64::new(0)),
    };
    (
        records,
        RecordReceiver {
            filled: CoalescingReceiver::new(filled_receiver),
            recycled: recycled_sender,
        },
    )
}

/// Returns the memory of the records of `meter` on their way from `workers` workers to their outputs, if as
/// many wait as may: in bytes, without the texts of an analysis. `queued` is the number of batches that wait
/// behind the receiver.
#[must_use]
pub fn memory_bytes(workers: usize, queued: usize, meter: &MeterOptions) -> usize {
    // A worker makes a new batch only when none was recycled, so that all batches are in use then: in the
    // channel, one with each worker, one with the receiver.
    let batches = workers * (QUEUED_BATCHES + 1) + 1 + queued;
    batches * RecordBatch::memory_bytes(&meter.schema())
}

impl RecordSender {
    /// Returns a clone for the worker with this index in [`Progress::queues`](crate::Progress::queues).
    pub(crate) fn for_worker(&self, worker: usize) -> Self {
        Self {
            worker,
            ..self.clone()
        }
    }

    /// Makes this worker wait for the writer from now on: its port has ended, so it has the time.
    pub(crate) fn set_blocking(&mut self) {
        self.blocking = true;
    }

    /// Closes this end of the channel when the process is about to exit. The recycled batches are leaked:
    /// freeing them one by one would only delay the exit.
    pub fn close_at_exit(self) {
        drop(self.filled);
        std::mem::forget(self.recycled);
    }

    /// Returns the number of lost records: the channel was full, or its receiver was gone.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl RecordSink for RecordSender {
    const COMPLETES: bool = true;

    fn take(&mut self, batch: &mut RecordBatch) {
        let empty = self
            .recycled
            .try_lock()
            .ok()
            .and_then(|empty| empty.try_recv().ok());
        let filled = std::mem::replace(batch, empty.unwrap_or_default());
        let filled = (self.worker, filled);
        let failed = if self.blocking {
            self.filled.send(filled).err().map(|error| error.0)
        } else {
            self.filled.try_send(filled).err().map(|error| match error {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            })
        };
        if let Some((_, batch)) = failed {
            self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

impl RecordReceiver {
    /// Provides `workers` workers with batches whose memory is already committed, if the options of their
    /// `meter` say so.
    pub fn populate(&self, workers: usize, meter: &MeterOptions) {
        if meter.populate {
            let schema = meter.schema();
            for _ in 0..POPULATED_BATCHES * workers {
                self.recycle(RecordBatch::populated(&schema));
            }
        }
    }

    /// Waits for the next records. Returns `None` when all workers have finished.
    ///
    /// # Errors
    /// Fails if none arrive within `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<RecordBatch>, RecvTimeoutError> {
        let next = self.recv_timeout_with_worker(timeout)?;
        Ok(next.map(|(_, batch)| batch))
    }

    /// Waits for the next records and the index of their worker. Returns `None` when all workers have
    /// finished.
    ///
    /// # Errors
    /// Fails if none arrive within `timeout`.
    pub fn recv_timeout_with_worker(
        &self,
        timeout: Duration,
    ) -> Result<Option<(usize, RecordBatch)>, RecvTimeoutError> {
        match self.filled.recv_timeout(timeout) {
            Ok((worker, mut batch)) => {
                batch.complete();
                Ok(Some((worker, batch)))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(RecvTimeoutError::Timeout),
        }
    }

    /// Returns a handle with which another thread can recycle batches.
    #[must_use]
    pub fn recycler(&self) -> Recycler {
        Recycler(self.recycled.clone())
    }

    /// Clears a batch and returns it to the workers.
    pub fn recycle(&self, batch: RecordBatch) {
        recycle(&self.recycled, batch);
    }
}

/// Returns batches to the workers.
#[derive(Clone, Debug)]
pub struct Recycler(SyncSender<RecordBatch>);

impl Recycler {
    /// Clears a batch and returns it to the workers.
    pub fn recycle(&self, batch: RecordBatch) {
        recycle(&self.0, batch);
    }
}

fn recycle(recycled: &SyncSender<RecordBatch>, mut batch: RecordBatch) {
    batch.clear();
    // If enough empty batches are waiting, this one is dropped.
    let _ = recycled.try_send(batch);
}
