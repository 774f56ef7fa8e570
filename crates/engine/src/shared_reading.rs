//! The model in which threads share the work on a capture file: each thread measures its own flows, and
//! the one that runs out of packets reads and parses more for all of them. Reading has an owner at any
//! time, so packets reach each thread in the order of the file, and records do not depend on the number of
//! threads. Every packet is parsed once.

use crate::dispatcher::Dispatcher;
use crate::dns_feed::DnsFeed;
use crate::executor::{Backoff, Executor, Stepper};
use crate::measurement::Measurements;
use crate::options::{EngineError, Input, Options};
use crate::pipeline_builder::{MonitorTask, PipelineBuilder};
use crate::progress::Progress;
use crate::record_channel::RecordSender;
use crate::report::{Report, ThreadResult};
use crate::thread::{ThreadPlacement, join, spawn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// Runs `options.monitors` threads for each port, with a set of measurements per thread.
///
/// # Errors
/// Fails if a thread cannot start.
pub(crate) fn run(
    options: &Options,
    input: Input,
    measurements: Measurements,
    records: &RecordSender,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let dns_feeds = DnsFeed::new_all(options, input.ports.len())?;
    let mut monitor_sets = measurements.monitors.into_iter();
    let builder = PipelineBuilder {
        options,
        progress,
        live: input.live,
        drops_when_full: false,
    };
    let mut readers = Vec::new();
    let mut monitors = Vec::new();
    let receivers = dns_feeds.into_iter().zip(measurements.receivers);
    for (number, (port, (dns_feed, own))) in input.ports.into_iter().zip(receivers).enumerate() {
        let sets = monitor_sets.by_ref().take(options.monitors);
        let (dispatcher, tasks) = builder.build(number, port, dns_feed, own, sets, records);
        readers.push(Mutex::new(Reader::new(dispatcher)));
        monitors.extend(tasks.into_iter().map(|task| (number, task)));
    }
    let results: Vec<ThreadResult> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (thread, (number, task)) in monitors.into_iter().enumerate() {
            let name = format!("monitor-{thread}");
            let reader = &readers[number];
            let work = move || share_work(task, reader, ThreadPlacement::apply(options, thread));
            threads.push(spawn(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })?;
    let readers = readers.into_iter().filter_map(|reader| {
        reader
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .result
    });
    Ok(readers.chain(results).collect())
}

/// The task that reads and parses packets, which any thread may continue.
struct Reader<'a> {
    task: Pin<Box<dyn Future<Output = ThreadResult> + Send + 'a>>,
    /// Its result, when it has ended.
    result: Option<ThreadResult>,
}

impl<'a> Reader<'a> {
    fn new(dispatcher: Dispatcher<'a>) -> Self {
        let placement = ThreadPlacement::default();
        let executor = Executor::multi_task(&placement.schedule);
        Self {
            task: Box::pin(dispatcher.run(placement, executor)),
            result: None,
        }
    }

    /// Reads until a thread has no room for more packets, or the input ends. Returns whether anything was
    /// read. The threads' rings decide how far reading is ahead: so far that no thread waits while another
    /// one reads, and not so far that packets have left the cache when they are measured.
    fn read(&mut self, stepper: &Stepper) -> bool {
        let mut has_read = false;
        while self.result.is_none() {
            let (poll, is_ready) = stepper.step(self.task.as_mut());
            if let Poll::Ready(mut result) = poll {
                // Its CPU time is part of that of the threads that read.
                result.queue.cpu = Duration::ZERO;
                self.result = Some(result);
            } else if !is_ready {
                break;
            }
            has_read = true;
        }
        has_read
    }
}

/// Measures the packets of one thread, and reads more whenever it has none, until the input has ended.
fn share_work(
    monitor: MonitorTask<'_>,
    reader: &Mutex<Reader<'_>>,
    placement: ThreadPlacement,
) -> ThreadResult {
    let executor = Executor::multi_task(&placement.schedule);
    let is_deadline = placement.schedule.is_deadline();
    let mut monitor = pin!(monitor.run(placement, executor));
    let mut backoff = Backoff::default();
    let stepper = Stepper::new();
    loop {
        // It yields when it has no packets.
        if let (Poll::Ready(result), _) = stepper.step(monitor.as_mut()) {
            return result;
        }
        let has_read = match reader.try_lock() {
            Ok(mut reader) => reader.read(&stepper),
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(error)) => error.into_inner().read(&stepper),
        };
        if has_read {
            backoff.reset();
        } else {
            backoff.wait(is_deadline);
        }
    }
}
