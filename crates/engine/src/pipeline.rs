//! The pipeline model: receiver threads parse headers and send batches of packets to monitor threads
//! over single-producer single-consumer rings; monitors meter them. If a ring is full, packets of a link
//! are dropped and counted, and a file waits.

use crate::dns_feed::DnsFeed;
use crate::executor::{Executor, block_on};
use crate::options::{EngineError, Input, Options};
use crate::pipeline_builder::PipelineBuilder;
use crate::progress::Progress;
use crate::record_channel::RecordSender;
use crate::report::Report;
use crate::thread::{join, spawn};
use flow::Meter;
use std::thread;

/// Runs a receiver thread for each port and `options.monitors` monitor threads for each receiver, with
/// one meter per monitor.
///
/// # Errors
/// Fails if a thread cannot start.
pub(crate) fn run(
    options: &Options,
    input: Input,
    meters: Vec<Meter>,
    records: &RecordSender,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let ports = input.ports.len();
    let dns_feeds = DnsFeed::new_all(options, ports, true)?;
    let mut meters = meters.into_iter();
    let builder = PipelineBuilder {
        options,
        progress,
        live: input.live,
        drops_when_full: input.live,
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let ports = input.ports.into_iter().zip(dns_feeds);
        for (receiver, (port, dns_feed)) in ports.enumerate() {
            let meters = meters.by_ref().take(options.monitors);
            let (dispatcher, monitors) = builder.build(receiver, port, dns_feed, meters, records);
            for task in monitors {
                let name = task.monitor.name.clone();
                threads.push(spawn(scope, options, name, move || {
                    let placement = options.apply_placement(task.monitor.progress_index);
                    let executor = Executor::single_task(&placement.schedule);
                    block_on(task.run(placement, executor))
                })?);
            }
            let name = format!("receiver-{receiver}");
            threads.push(spawn(scope, options, name, move || {
                let placement = options.apply_placement(dispatcher.progress_index);
                let executor = Executor::single_task(&placement.schedule);
                block_on(dispatcher.run(placement, executor))
            })?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}
