//! The cooperative model: a receiver and its monitors are tasks of one thread. A task yields after each
//! batch and when the ring between them is full or empty (FloWatcher's single-core model, lthread).
//! Nothing is dropped between them: a receiver that finds the ring full yields to the monitor that
//! drains it.

use crate::dispatcher::Dispatcher;
use crate::dns_feed::DnsFeed;
use crate::executor::{Executor, Task, round_robin};
use crate::measurement::{MeasurementSet, Measurements};
use crate::options::{EngineError, Input, Options};
use crate::pipeline_builder::{MonitorTask, PipelineBuilder};
use crate::progress::Progress;
use crate::record_channel::RecordSender;
use crate::report::{Report, ThreadResult};
use crate::thread::{ThreadPlacement, join, spawn};
use std::thread;

/// Runs one thread for each port, with a receiver task and `options.monitors` monitor tasks, each with a
/// set of measurements.
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
    let ports = input.ports.len();
    let dns_feeds = DnsFeed::new_all(options, ports)?;
    let mut monitor_sets = measurements.monitors.into_iter();
    let builder = PipelineBuilder {
        options,
        progress,
        live: input.live,
        drops_when_full: false,
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let receivers = dns_feeds.into_iter().zip(measurements.receivers);
        let ports = input.ports.into_iter().zip(receivers);
        for (number, (port, (dns_feed, own))) in ports.enumerate() {
            let sets: Vec<MeasurementSet> = monitor_sets.by_ref().take(options.monitors).collect();
            let records = records.clone();
            let name = format!("cooperative-{number}");
            threads.push(spawn(scope, options, name, move || {
                let placement = ThreadPlacement::apply(options, number);
                let (dispatcher, monitors) =
                    builder.build(number, port, dns_feed, own, sets, &records);
                run_tasks(placement, dispatcher, monitors)
            })?);
        }
        Ok(threads.into_iter().flat_map(join).collect())
    })
}

/// Runs the tasks of one thread and returns their results, the receiver's first.
fn run_tasks(
    placement: ThreadPlacement,
    dispatcher: Dispatcher<'_>,
    monitors: Vec<MonitorTask<'_>>,
) -> Vec<ThreadResult> {
    let executor = Executor::multi_task(&placement.schedule);
    let monitors: Vec<Task<'_, ThreadResult>> = monitors
        .into_iter()
        .map(|task| Box::pin(task.run(placement.for_task(), executor)) as Task<'_, ThreadResult>)
        .collect();
    let mut tasks: Vec<Task<'_, ThreadResult>> =
        vec![Box::pin(dispatcher.run(placement, executor))];
    tasks.extend(monitors);
    let mut results = round_robin(tasks);
    // The tasks share the CPU time of the thread; the receiver reports all of it.
    for (task, result) in results.iter_mut().enumerate() {
        result.queue.cpu = match task {
            0 => hw::time::thread_cpu(),
            _ => std::time::Duration::ZERO,
        };
    }
    results
}
