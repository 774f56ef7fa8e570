//! The pipeline model: receiver threads parse headers and send batches of packets to monitor threads
//! over single-producer single-consumer rings; monitors measure them. If a ring is full, packets of a link
//! are dropped and counted, and a file waits.

use crate::dns_feed::DnsFeed;
use crate::executor::{Executor, block_on};
use crate::measurement::Measurements;
use crate::options::{EngineError, Input, Options};
use crate::pipeline_builder::PipelineBuilder;
use crate::progress::Progress;
use crate::record_channel::RecordSender;
use crate::report::Report;
use crate::thread::{ThreadPlacement, join, spawn};
use std::thread;

/// Runs a receiver thread for each port and `options.monitors` monitor threads for each receiver, with
/// a set of measurements per monitor.
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
        drops_when_full: input.live,
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let receivers = dns_feeds.into_iter().zip(measurements.receivers);
        let ports = input.ports.into_iter().zip(receivers);
        for (receiver, (port, (dns_feed, own))) in ports.enumerate() {
            let sets = monitor_sets.by_ref().take(options.monitors);
            let (dispatcher, monitors) =
                builder.build(receiver, port, dns_feed, own, sets, records);
            for task in monitors {
                let name = task.monitor.name.clone();
                threads.push(spawn(scope, options, name, move || {
                    let placement = ThreadPlacement::apply(options, task.monitor.progress_index);
                    let executor = Executor::single_task(&placement.schedule);
                    block_on(task.run(placement, executor))
                })?);
            }
            let name = format!("receiver-{receiver}");
            threads.push(spawn(scope, options, name, move || {
                let placement = ThreadPlacement::apply(options, dispatcher.progress_index);
                let executor = Executor::single_task(&placement.schedule);
                block_on(dispatcher.run(placement, executor))
            })?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}
