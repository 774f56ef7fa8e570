//! Writes records to one output. A single output is written on the collector's thread; each of
//! several outputs has a thread behind a bounded queue, so that none waits for a slower one.

use crate::signals;
use engine::{CoalescingReceiver, Recycler};
use export::{ExportError, Exporter, NetCounters, Notices};
use flow::RecordBatch;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Capacity of an output thread's queue, in batches.
pub(super) const QUEUE_BATCHES: usize = 64;

/// How often outputs that buffer records are flushed.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// An exporter, with the name that messages use.
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) exporter: Box<dyn Exporter>,
    /// Whether it is standard output, whose reader may close it early, as `head` does.
    pub(crate) is_standard_output: bool,
}

/// Losses and faults of the outputs, shared with the thread that shows progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputStatus {
    lost: Arc<AtomicU64>,
    faults: Arc<Mutex<Vec<String>>>,
    /// Messages of network outputs about their connections.
    notices: Arc<Mutex<Vec<Notices>>>,
    /// Operations on outputs that have started, and that have finished.
    started: Arc<AtomicU64>,
    finished: Arc<AtomicU64>,
}

impl OutputStatus {
    /// Returns the number of records that outputs have lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the number of finished operations if an operation is in progress. While this value
    /// stays the same, the outputs make no progress.
    pub(crate) fn busy_at(&self) -> Option<u64> {
        let done = self.finished.load(Ordering::Relaxed);
        (self.started.load(Ordering::Relaxed) > done).then_some(done)
    }

    /// Takes the messages about connections since the last call. They are no faults: what is lost is
    /// counted.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        let Ok(notices) = self.notices.lock() else {
            return Vec::new();
        };
        notices.iter().flat_map(Notices::take).collect()
    }

    /// Takes the faults since the last call.
    pub(crate) fn take_faults(&self) -> Vec<String> {
        self.faults
            .lock()
            .map(|mut faults| std::mem::take(&mut *faults))
            .unwrap_or_default()
    }
}

/// An output with its losses and faults.
pub(super) struct OutputWriter {
    output: Output,
    status: OutputStatus,
    /// How much of its loss has been added to `status`.
    lost_reported: u64,
    /// Number of the last request to reopen the output that was met.
    reopened: u64,
    pub(super) faults: Vec<String>,
    pub(super) reader_gone: bool,
}

impl OutputWriter {
    pub(super) fn new(output: Output, status: &OutputStatus) -> Self {
        if let (Some(notices), Ok(mut all)) = (output.exporter.notices(), status.notices.lock()) {
            all.push(notices);
        }
        Self {
            output,
            status: status.clone(),
            lost_reported: 0,
            reopened: signals::reopen_requests(),
            faults: Vec::new(),
            reader_gone: false,
        }
    }

    /// Runs `act` on the output. Each distinct fault is recorded once.
    pub(super) fn run(&mut self, act: impl FnOnce(&mut dyn Exporter) -> Result<(), ExportError>) {
        let exporter = self.output.exporter.as_mut();
        self.status.started.fetch_add(1, Ordering::Relaxed);
        let result = act(exporter);
        self.status.finished.fetch_add(1, Ordering::Relaxed);
        // Records lost to a reader that closed standard output do not count as lost.
        let lost = exporter.lost();
        if let Err(error) = result {
            let text = error.to_string();
            if error.is_broken_pipe() && self.output.is_standard_output {
                self.reader_gone = true;
            } else if !self.faults.contains(&text) {
                if let Ok(mut faults) = self.status.faults.lock() {
                    faults.push(text.clone());
                }
                self.faults.push(text);
            }
        }
        if lost > self.lost_reported && !self.reader_gone {
            let more = lost - self.lost_reported;
            self.status.lost.fetch_add(more, Ordering::Relaxed);
            self.lost_reported = lost;
        }
    }

    /// Writes buffered records, and reopens the output if that was requested.
    pub(super) fn flush(&mut self) {
        let requests = signals::reopen_requests();
        if requests != self.reopened {
            self.reopened = requests;
            self.run(|exporter| exporter.reopen());
        } else {
            self.run(|exporter| exporter.flush());
        }
    }

    /// Returns what happened to the output's records.
    pub(super) fn result(&self) -> OutputResult {
        let exporter = self.output.exporter.as_ref();
        OutputResult {
            name: self.output.name.clone(),
            written: exporter.written(),
            lost: exporter.lost(),
            left_out: exporter.left_out(),
            too_slow: 0,
            net: exporter.net_counters(),
        }
    }
}

/// What happened to an output's records.
#[derive(Clone, Debug)]
pub(crate) struct OutputResult {
    /// Name of the output.
    pub(crate) name: String,
    /// Records that were written.
    pub(crate) written: u64,
    /// Records that could not be written.
    pub(crate) lost: u64,
    /// Records that the format cannot express.
    pub(crate) left_out: u64,
    /// Of the lost records, those that found the output's queue full.
    pub(crate) too_slow: u64,
    /// Counters of the connection of a network output.
    pub(crate) net: Option<NetCounters>,
}

/// A writer on a thread of its own.
pub(super) struct OutputThread {
    queue: SyncSender<Arc<RecordBatch>>,
    thread: JoinHandle<Option<OutputWriter>>,
    reader_gone: Arc<AtomicU64>,
    status: OutputStatus,
    /// Whether `write` waits while the queue is full, or drops the batch and counts it.
    wait: bool,
    too_slow: u64,
}

impl OutputThread {
    /// Starts the thread. The last thread to write a batch returns it to `recycler`.
    ///
    /// # Errors
    /// If the thread cannot start; the output is then finished.
    pub(super) fn start(writer: OutputWriter, recycler: Recycler, wait: bool) -> io::Result<Self> {
        let (queue, batches) = sync_channel::<Arc<RecordBatch>>(QUEUE_BATCHES);
        let batches = CoalescingReceiver::new(batches);
        let writer_gone = Arc::new(AtomicU64::new(0));
        let reader_gone = Arc::clone(&writer_gone);
        let status = writer.status.clone();
        // A thread that cannot start drops its work, which must not take the output along.
        let slot = Arc::new(Mutex::new(Some(writer)));
        let writer = Arc::clone(&slot);
        let work = move || {
            let mut writer = take(&writer)?;
            let mut flushed = Instant::now();
            loop {
                if flushed.elapsed() >= FLUSH_EVERY {
                    flushed = Instant::now();
                    writer.flush();
                }
                match batches.recv_timeout(FLUSH_EVERY) {
                    Ok(batch) => {
                        writer.run(|exporter| exporter.write(&batch));
                        if let Some(batch) = Arc::into_inner(batch) {
                            recycler.recycle(batch);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if writer.reader_gone {
                    writer_gone.store(1, Ordering::Relaxed);
                }
            }
            writer.run(|exporter| exporter.finish());
            Some(writer)
        };
        let thread = hw::threads::spawn("writer", work).inspect_err(|_| {
            if let Some(mut writer) = take(&slot) {
                writer.run(|exporter| exporter.finish());
            }
        })?;
        Ok(Self {
            queue,
            thread,
            reader_gone,
            status,
            wait,
            too_slow: 0,
        })
    }

    /// Queues a batch. If the queue is full and the thread does not wait, the batch is lost and
    /// counted.
    pub(super) fn write(&mut self, batch: &Arc<RecordBatch>) {
        let lost = if self.wait {
            self.queue.send(Arc::clone(batch)).is_err()
        } else {
            // A writer whose thread has ended loses the batch too.
            matches!(
                self.queue.try_send(Arc::clone(batch)),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
            )
        };
        if lost {
            let records = batch.records.len() as u64;
            self.too_slow += records;
            self.status.lost.fetch_add(records, Ordering::Relaxed);
        }
    }

    pub(super) fn reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed) != 0
    }

    /// Waits until all queued batches are written. Returns the writer, and the number of records
    /// that its full queue lost.
    pub(super) fn finish(self) -> Option<(OutputWriter, u64)> {
        drop(self.queue);
        let writer = self.thread.join().ok()??;
        Some((writer, self.too_slow))
    }
}

fn take(slot: &Mutex<Option<OutputWriter>>) -> Option<OutputWriter> {
    slot.lock().ok()?.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{EndReason, Record};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// An output that blocks in `write` until the test releases it.
    struct BlockedExporter {
        may_continue: Receiver<()>,
        began: Sender<()>,
        written: u64,
    }

    impl Exporter for BlockedExporter {
        fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
            self.began.send(()).unwrap();
            // After the test has dropped its sender, `recv` fails and no write blocks.
            let _ = self.may_continue.recv();
            self.written += batch.records.len() as u64;
            Ok(())
        }

        fn flush(&mut self) -> Result<(), ExportError> {
            Ok(())
        }

        fn finish(&mut self) -> Result<(), ExportError> {
            Ok(())
        }

        fn written(&self) -> u64 {
            self.written
        }

        fn lost(&self) -> u64 {
            0
        }
    }

    #[test]
    fn slow_output_counts_batches_lost_to_a_full_queue() {
        let (resume, may_continue) = channel();
        let (began, has_begun) = channel();
        let exporter = Box::new(BlockedExporter {
            may_continue,
            began,
            written: 0,
        });
        let status = OutputStatus::default();
        let output = Output {
            name: "slow".to_owned(),
            exporter,
            is_standard_output: false,
        };
        let (_records, receiver) = engine::channel(1, false);
        let writer = OutputWriter::new(output, &status);
        let mut thread = OutputThread::start(writer, receiver.recycler(), false).unwrap();
        let record = Record {
            key: wire::FlowKey::default(),
            start_ns: 0,
            end_ns: 0,
            packets: [1, 0],
            bytes: [1, 0],
            tcp_flags: [0; 2],
            icmp_type_code: 0,
            end_reason: EndReason::EndOfInput,
        };
        let batch = Arc::new(RecordBatch {
            records: vec![record; 3],
            ..RecordBatch::default()
        });
        thread.write(&batch);
        has_begun.recv().unwrap();
        assert_eq!(status.busy_at(), Some(0));
        // One batch is being written, so the queue holds `QUEUE_BATCHES` more.
        for _ in 0..QUEUE_BATCHES + 10 {
            thread.write(&batch);
        }
        assert_eq!(status.lost(), 30);
        drop(resume);
        let (writer, too_slow) = thread.finish().unwrap();
        assert_eq!(too_slow, 30);
        assert_eq!(status.busy_at(), None);
        assert_eq!(writer.result().written, 3 * (1 + QUEUE_BATCHES as u64));
    }
}
