//! Writes records to an output, on a thread behind a bounded queue: no output waits for a slower one,
//! and a stuck one is given up after a time limit, with its records counted as lost.

mod output_state;
mod stall;

use crate::signals;
use engine::{CoalescingReceiver, Recycler};
use export::{ExportError, Exporter, NetCounters, Notices};
use flow::RecordBatch;
use output_state::{OutputState, lock};
use stall::{Stall, StallLimit};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Capacity of an output thread's queue, in batches.
pub(super) const QUEUE_BATCHES: usize = 64;

/// How often outputs that buffer records are flushed.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// How often a thread that waits for an output looks at it.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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
    /// The outputs, to find those that make no progress.
    watched: Arc<Mutex<Vec<WatchedOutput>>>,
}

#[derive(Debug)]
struct WatchedOutput {
    state: Arc<OutputState>,
    /// Its progress when it was last seen, and since when it has been the same.
    steps: u64,
    since: Instant,
    /// Whether the stall has been reported.
    is_reported: bool,
}

impl OutputStatus {
    /// Returns the number of records that outputs have lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the outputs that have made no progress for `time`, each once, and what they wait for.
    pub(crate) fn take_stalled(&self, time: Duration) -> Vec<String> {
        let mut watched = lock(&self.watched);
        let stalled = watched.iter_mut().filter_map(|output| {
            let steps = output.state.steps();
            if steps != output.steps || !output.state.is_busy.load(Ordering::Relaxed) {
                (output.steps, output.since) = (steps, Instant::now());
            }
            if output.is_reported || output.since.elapsed() < time {
                return None;
            }
            output.is_reported = true;
            Some(output.state.waits_for())
        });
        stalled.collect()
    }

    /// Takes the messages about connections since the last call. They are no faults: what is lost is
    /// counted.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        lock(&self.notices).iter().flat_map(Notices::take).collect()
    }

    /// Records a fault of an output, unless it has been recorded.
    fn add_fault(&self, state: &OutputState, text: String) {
        let mut faults = lock(&state.faults);
        if !faults.contains(&text) {
            lock(&self.faults).push(text.clone());
            faults.push(text);
        }
    }

    /// Takes the faults since the last call.
    pub(crate) fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.faults))
    }
}

/// An output on its thread.
pub(super) struct OutputWriter {
    output: Output,
    status: OutputStatus,
    state: Arc<OutputState>,
    /// How much of its loss has been added to `status`.
    lost_reported: u64,
    /// Number of the last request to reopen the output that was met.
    reopened: u64,
}

impl OutputWriter {
    pub(super) fn new(output: Output, status: &OutputStatus) -> Self {
        if let Some(notices) = output.exporter.notices() {
            lock(&status.notices).push(notices);
        }
        let state = Arc::new(OutputState::new(output.name.clone()));
        lock(&status.watched).push(WatchedOutput {
            state: Arc::clone(&state),
            steps: 0,
            since: Instant::now(),
            is_reported: false,
        });
        Self {
            output,
            status: status.clone(),
            state,
            lost_reported: 0,
            reopened: signals::reopen_requests(),
        }
    }

    /// Runs `act` on the output. Each distinct fault is recorded once.
    fn run(&mut self, act: impl FnOnce(&mut dyn Exporter) -> Result<(), ExportError>) {
        let exporter = self.output.exporter.as_mut();
        let state = &self.state;
        state.is_busy.store(true, Ordering::Relaxed);
        let result = act(exporter);
        state.is_busy.store(false, Ordering::Relaxed);
        if state.is_given_up.load(Ordering::Relaxed) {
            return;
        }
        state.written.store(exporter.written(), Ordering::Relaxed);
        state.left_out.store(exporter.left_out(), Ordering::Relaxed);
        let lost = exporter.lost();
        state.lost.store(lost, Ordering::Relaxed);
        state.finished.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            if error.is_broken_pipe() && self.output.is_standard_output {
                state.reader_gone.store(true, Ordering::Relaxed);
            } else {
                self.status.add_fault(state, error.to_string());
            }
        }
        // Records lost to a reader that closed standard output do not count as lost.
        if lost > self.lost_reported && !state.reader_gone.load(Ordering::Relaxed) {
            let more = lost - self.lost_reported;
            self.status.lost.fetch_add(more, Ordering::Relaxed);
            self.lost_reported = lost;
        }
    }

    /// Writes buffered records, and reopens the output if that was requested.
    fn flush(&mut self) {
        let requests = signals::reopen_requests();
        if requests != self.reopened {
            self.reopened = requests;
            self.run(|exporter| exporter.reopen());
        } else {
            self.run(|exporter| exporter.flush());
        }
    }

    /// Completes the output.
    pub(super) fn finish(mut self) {
        self.run(|exporter| exporter.finish());
        *lock(&self.state.net) = self.output.exporter.net_counters();
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
    /// Of the lost records, those that were waiting for the output when it was given up.
    pub(crate) stuck: u64,
    /// Counters of the connection of a network output.
    pub(crate) net: Option<NetCounters>,
}

/// An output that has ended.
pub(super) struct FinishedOutput {
    pub(super) result: OutputResult,
    pub(super) faults: Vec<String>,
    pub(super) reader_gone: bool,
}

/// A writer on its thread.
pub(super) struct OutputThread {
    queue: SyncSender<Arc<RecordBatch>>,
    thread: JoinHandle<()>,
    state: Arc<OutputState>,
    status: OutputStatus,
    /// Whether `write` waits while the queue is full, or drops the batch and counts it.
    waits: bool,
    limit: StallLimit,
    /// Records that entered the queue.
    taken: u64,
    too_slow: u64,
}

impl OutputThread {
    /// Starts the thread. The last thread to write a batch returns it to `recycler`. With `waits`,
    /// [`write`](Self::write) waits for the output, if it `is_unlimited` until the run is interrupted.
    ///
    /// # Errors
    /// If the thread cannot start; the output is then finished.
    pub(super) fn start(
        writer: OutputWriter,
        recycler: Recycler,
        waits: bool,
        is_unlimited: bool,
    ) -> io::Result<Self> {
        let (queue, batches) = sync_channel::<Arc<RecordBatch>>(QUEUE_BATCHES);
        let batches = CoalescingReceiver::new(batches);
        let status = writer.status.clone();
        let state = Arc::clone(&writer.state);
        // A thread that cannot start drops its work, which must not take the output along.
        let slot = Arc::new(Mutex::new(Some(writer)));
        let writer = Arc::clone(&slot);
        let work = move || {
            let Some(mut writer) = lock(&writer).take() else {
                return;
            };
            writer.state.activity.observe_this_thread();
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
                if writer.state.is_given_up.load(Ordering::Relaxed) {
                    return;
                }
            }
            writer.finish();
        };
        let thread = hw::threads::spawn("writer", work).inspect_err(|_| {
            if let Some(writer) = lock(&slot).take() {
                writer.finish();
            }
        })?;
        Ok(Self {
            queue,
            thread,
            state,
            status,
            waits,
            limit: StallLimit::new(waits, is_unlimited),
            taken: 0,
            too_slow: 0,
        })
    }

    /// Queues a batch. If the queue is full, and the thread does not wait or the output makes no
    /// progress, the batch is lost and counted.
    pub(super) fn write(&mut self, batch: &Arc<RecordBatch>) {
        let records = batch.records.len() as u64;
        let mut next = Arc::clone(batch);
        let mut stall: Option<Stall> = None;
        loop {
            next = match self.queue.try_send(next) {
                Ok(()) => {
                    self.taken += records;
                    return;
                }
                Err(TrySendError::Full(batch)) if self.waits => batch,
                // A writer whose thread has ended loses the batch too.
                Err(_) => break,
            };
            let stall = stall.get_or_insert_with(|| Stall::new(&self.state, self.limit));
            if let Some(time) = stall.is_over() {
                // Each new batch would wait as long.
                self.waits = false;
                let text = format!(
                    "{} for {} s: from now on its records are lost where it has no room for them",
                    self.state.waits_for(),
                    time.as_secs()
                );
                self.status.add_fault(&self.state, text);
            } else {
                thread::sleep(POLL_INTERVAL);
            }
        }
        self.too_slow += records;
        self.status.lost.fetch_add(records, Ordering::Relaxed);
    }

    pub(super) fn reader_gone(&self) -> bool {
        self.state.reader_gone.load(Ordering::Relaxed)
    }

    /// Ends the queue. The thread then writes what is in it.
    fn end(self) -> EndingOutput {
        EndingOutput {
            stall: Stall::new(&self.state, self.limit),
            thread: self.thread,
            state: self.state,
            status: self.status,
            taken: self.taken,
            too_slow: self.too_slow,
        }
    }
}

/// An output whose thread writes its last records.
struct EndingOutput {
    thread: JoinHandle<()>,
    stall: Stall,
    state: Arc<OutputState>,
    status: OutputStatus,
    taken: u64,
    too_slow: u64,
}

/// Waits until all outputs have ended, or make no progress any more. The thread of a stuck one stays
/// behind: nothing can end a system call.
pub(super) fn finish(threads: Vec<OutputThread>) -> Vec<FinishedOutput> {
    let mut ending: Vec<EndingOutput> = threads.into_iter().map(OutputThread::end).collect();
    while ending
        .iter_mut()
        .any(|output| !output.thread.is_finished() && output.stall.is_over().is_none())
    {
        thread::sleep(POLL_INTERVAL);
    }
    ending.into_iter().map(EndingOutput::result).collect()
}

impl EndingOutput {
    fn result(mut self) -> FinishedOutput {
        let state = self.state;
        let has_ended = self.thread.is_finished();
        state.is_given_up.store(true, Ordering::Relaxed);
        let has_panicked = has_ended && self.thread.join().is_err();
        let written = state.written.load(Ordering::Relaxed);
        let lost = state.lost.load(Ordering::Relaxed);
        let left_out = state.left_out.load(Ordering::Relaxed);
        let stuck = self.taken.saturating_sub(written + lost + left_out);
        if !has_ended {
            let time = self.stall.is_over().unwrap_or_default();
            let text = format!(
                "{} for {} s and is given up: {stuck} records are lost, and what it wrote may be incomplete",
                state.waits_for(),
                time.as_secs()
            );
            self.status.add_fault(&state, text);
        } else if has_panicked {
            let text = format!("{}: its thread panicked: please report this", state.name);
            self.status.add_fault(&state, text);
        }
        self.status.lost.fetch_add(stuck, Ordering::Relaxed);
        FinishedOutput {
            result: OutputResult {
                name: state.name.clone(),
                written,
                lost: lost + self.too_slow + stuck,
                left_out,
                too_slow: self.too_slow,
                stuck,
                net: lock(&state.net).take(),
            },
            faults: std::mem::take(&mut *lock(&state.faults)),
            reader_gone: state.reader_gone.load(Ordering::Relaxed),
        }
    }
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
        let mut thread = OutputThread::start(writer, receiver.recycler(), false, false).unwrap();
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
        assert!(thread.state.is_busy.load(Ordering::Relaxed));
        // One batch is being written, so the queue holds `QUEUE_BATCHES` more.
        for _ in 0..QUEUE_BATCHES + 10 {
            thread.write(&batch);
        }
        assert_eq!(status.lost(), 30);
        drop(resume);
        let finished = finish(vec![thread]).pop().unwrap().result;
        assert_eq!(
            (finished.too_slow, finished.lost, finished.stuck),
            (30, 30, 0)
        );
        assert_eq!(finished.written, 3 * (1 + QUEUE_BATCHES as u64));
    }
}
