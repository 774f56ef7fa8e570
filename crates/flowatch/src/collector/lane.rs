//! The way of records to one output: in the collector's own thread where there is one output, in a
//! thread and behind a bounded queue of its own where there are several, so that none waits for a
//! slower one.

use super::Output;
use engine::{Emptied, Moderated};
use export::{ExportError, Exporter};
use flow::RecordBatch;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Batches that may wait for an output.
const WAITING: usize = 64;

/// How long a record waits in an output that gathers them.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// What outputs lost and said so far, for whoever shows it while the run lasts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    lost: Arc<AtomicU64>,
    told: Arc<Mutex<Vec<String>>>,
    /// How often outputs were given something to do, and how often they had done it.
    begun: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

impl Watched {
    /// Records that outputs have lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// How often outputs have done what they were given to do, where one is at it.
    pub(crate) fn at_work(&self) -> Option<u64> {
        let done = self.done.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed) > done).then_some(done)
    }

    /// The faults since the last time that somebody asked.
    pub(crate) fn take_told(&self) -> Vec<String> {
        self.told
            .lock()
            .map(|mut told| std::mem::take(&mut *told))
            .unwrap_or_default()
    }
}

/// An output and what became of it.
pub(super) struct Writer {
    output: Output,
    watched: Watched,
    /// What of its losses was told.
    lost_told: u64,
    pub(super) faults: Vec<String>,
    pub(super) reader_gone: bool,
}

impl Writer {
    pub(super) fn new(output: Output, watched: &Watched) -> Self {
        Self {
            output,
            watched: watched.clone(),
            lost_told: 0,
            faults: Vec::new(),
            reader_gone: false,
        }
    }

    /// Does something to the output; each fault is remembered in words, once.
    pub(super) fn act(&mut self, act: impl FnOnce(&mut dyn Exporter) -> Result<(), ExportError>) {
        let exporter = self.output.exporter.as_mut();
        self.watched.begun.fetch_add(1, Ordering::Relaxed);
        let result = act(exporter);
        self.watched.done.fetch_add(1, Ordering::Relaxed);
        // What a broken pipe took was not wanted.
        let lost = exporter.lost();
        if let Err(error) = result {
            let text = error.to_string();
            if error.is_broken_pipe() && self.output.is_standard {
                self.reader_gone = true;
            } else if !self.faults.contains(&text) {
                if let Ok(mut told) = self.watched.told.lock() {
                    told.push(text.clone());
                }
                self.faults.push(text);
            }
        }
        if lost > self.lost_told && !self.reader_gone {
            let more = lost - self.lost_told;
            self.watched.lost.fetch_add(more, Ordering::Relaxed);
            self.lost_told = lost;
        }
    }

    /// What became of the records that it was given.
    pub(super) fn written(&self) -> Written {
        let exporter = self.output.exporter.as_ref();
        Written {
            name: self.output.name.clone(),
            written: exporter.written(),
            lost: exporter.lost(),
            left_out: exporter.left_out(),
            too_slow: 0,
        }
    }
}

/// What became of an output's records.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The output.
    pub(crate) name: String,
    /// Records that a reader gets.
    pub(crate) written: u64,
    /// Records that could not be written.
    pub(crate) lost: u64,
    /// Records that the format has no place for.
    pub(crate) left_out: u64,
    /// Of those lost, the ones that found its queue full.
    pub(crate) too_slow: u64,
}

/// A writer in a thread of its own.
pub(super) struct Lane {
    queue: SyncSender<Arc<RecordBatch>>,
    thread: JoinHandle<Writer>,
    reader_gone: Arc<AtomicU64>,
    watched: Watched,
    /// Whether it waits for a slow output, or counts and goes on.
    wait: bool,
    too_slow: u64,
}

impl Lane {
    /// Starts the thread. The last one to have written a batch gives it back to `emptied`.
    pub(super) fn start(mut writer: Writer, emptied: Emptied, wait: bool) -> io::Result<Self> {
        let (queue, batches) = sync_channel::<Arc<RecordBatch>>(WAITING);
        let batches = Moderated::new(batches);
        let gone = Arc::new(AtomicU64::new(0));
        let reader_gone = Arc::clone(&gone);
        let watched = writer.watched.clone();
        let work = move || {
            let mut flushed = Instant::now();
            loop {
                if flushed.elapsed() >= FLUSH_EVERY {
                    flushed = Instant::now();
                    writer.act(|exporter| exporter.flush());
                }
                match batches.recv_timeout(FLUSH_EVERY) {
                    Ok(batch) => {
                        writer.act(|exporter| exporter.write(&batch));
                        if let Some(batch) = Arc::into_inner(batch) {
                            emptied.give_back(batch);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if writer.reader_gone {
                    gone.store(1, Ordering::Relaxed);
                }
            }
            writer.act(|exporter| exporter.finish());
            writer
        };
        Ok(Self {
            queue,
            thread: Builder::new().name("writer".into()).spawn(work)?,
            reader_gone,
            watched,
            wait,
            too_slow: 0,
        })
    }

    /// Hands a batch over; on a link, one that finds the queue full is lost and counted.
    pub(super) fn write(&mut self, batch: &Arc<RecordBatch>) {
        let lost = if self.wait {
            self.queue.send(Arc::clone(batch)).is_err()
        } else {
            // One whose thread has ended loses them too.
            matches!(
                self.queue.try_send(Arc::clone(batch)),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
            )
        };
        if lost {
            let records = batch.records.len() as u64;
            self.too_slow += records;
            self.watched.lost.fetch_add(records, Ordering::Relaxed);
        }
    }

    pub(super) fn reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed) != 0
    }

    /// Waits until all that was handed over is written: the writer, and what it was too slow for.
    pub(super) fn finish(self) -> Option<(Writer, u64)> {
        drop(self.queue);
        let writer = self.thread.join().ok()?;
        Some((writer, self.too_slow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{EndReason, Record};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// An output that takes a batch when a test lets it.
    struct Slow {
        may_go_on: Receiver<()>,
        began: Sender<()>,
        written: u64,
    }

    impl Exporter for Slow {
        fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
            self.began.send(()).unwrap();
            // An error is the end of the test's wish to hold it up.
            let _ = self.may_go_on.recv();
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
    fn a_slow_output_loses_what_its_queue_cannot_hold_and_counts_it() {
        let (go_on, may_go_on) = channel();
        let (began, has_begun) = channel();
        let exporter = Box::new(Slow {
            may_go_on,
            began,
            written: 0,
        });
        let watched = Watched::default();
        let output = Output {
            name: "slow".to_owned(),
            exporter,
            is_standard: false,
        };
        let (_records, returned) = engine::channel(1, false);
        let writer = Writer::new(output, &watched);
        let mut lane = Lane::start(writer, returned.emptied(), false).unwrap();
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
        lane.write(&batch);
        has_begun.recv().unwrap();
        assert_eq!(watched.at_work(), Some(0));
        // One is being written: the queue holds so many more.
        for _ in 0..WAITING + 10 {
            lane.write(&batch);
        }
        assert_eq!(watched.lost(), 30);
        drop(go_on);
        let (writer, too_slow) = lane.finish().unwrap();
        assert_eq!(too_slow, 30);
        assert_eq!(watched.at_work(), None);
        assert_eq!(writer.written().written, 3 * (1 + WAITING as u64));
    }
}
