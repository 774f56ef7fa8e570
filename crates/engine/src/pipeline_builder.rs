//! Builds the tasks of the pipeline and cooperative models: for each port a dispatcher, its monitors and
//! a ring to each of them.

use crate::dispatcher::{Dispatcher, monitor_queue};
use crate::dns_feed::DnsFeed;
use crate::executor::Executor;
use crate::measurement::MeasurementSet;
use crate::monitor::Monitor;
use crate::options::Options;
use crate::progress::Progress;
use crate::record_channel::RecordSender;
use crate::report::ThreadResult;
use crate::thread::ThreadPlacement;
use port::Port;

/// The settings that the tasks of all ports have in common.
#[derive(Clone, Copy)]
pub(crate) struct PipelineBuilder<'a> {
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Progress,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    /// See [`Dispatcher::drops_when_full`].
    pub(crate) drops_when_full: bool,
}

/// A monitor with its measurements and record channel.
pub(crate) struct MonitorTask<'a> {
    pub(crate) monitor: Monitor<'a>,
    pub(crate) measurements: MeasurementSet,
    pub(crate) records: RecordSender,
}

impl MonitorTask<'_> {
    /// Runs the monitor.
    pub(crate) async fn run(self, placement: ThreadPlacement, executor: Executor) -> ThreadResult {
        self.monitor
            .run(self.measurements, self.records, placement, executor)
            .await
    }
}

impl<'a> PipelineBuilder<'a> {
    /// Builds the dispatcher of port number `receiver` and one monitor for each set of measurements
    /// in `monitor_sets`. `own` are the receiver's measurements.
    pub(crate) fn build(
        &self,
        receiver: usize,
        port: Box<dyn Port>,
        dns_feed: DnsFeed,
        own: MeasurementSet,
        monitor_sets: impl IntoIterator<Item = MeasurementSet>,
        records: &RecordSender,
    ) -> (Dispatcher<'a>, Vec<MonitorTask<'a>>) {
        let &Self {
            options,
            progress,
            live,
            drops_when_full,
        } = self;
        // A receiver's progress index is followed by those of its monitors.
        let first = receiver * (1 + options.monitors);
        let (mut queues, mut monitors) = (Vec::new(), Vec::new());
        for (monitor, measurements) in monitor_sets.into_iter().enumerate() {
            let (queue, messages, recycled) = monitor_queue(options.ring);
            queues.push(queue);
            let progress_index = first + 1 + monitor;
            let monitor = Monitor {
                name: format!("monitor-{receiver}-{monitor}"),
                progress_index,
                messages,
                recycled,
                live,
                progress,
            };
            monitors.push(MonitorTask {
                monitor,
                measurements,
                records: records.for_worker(progress_index),
            });
        }
        let dispatcher = Dispatcher {
            options,
            progress,
            port,
            live,
            drops_when_full,
            progress_index: first,
            dns_feed,
            measurements: own,
            queues,
        };
        (dispatcher, monitors)
    }
}
