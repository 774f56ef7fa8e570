//! Cooperative: a receiver and its monitors as tasks of one thread, which give way to each other at
//! the boundary of a batch, where the ring between them is full and where it is empty (FloWatcher's
//! model on one core, lthread). Nothing is dropped between them: a receiver that finds the ring full
//! gives the core to whoever empties it.

use crate::monitoring::Monitor;
use crate::options::{EngineError, Input, Options};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::{Pace, Task, by_turns};
use crate::progress::Progress;
use crate::report::{Report, Worked};
use crate::sending::{Sender, way};
use crate::thread::{join, start};
use flow::Meter;
use port::Port;
use std::thread;

/// Runs a thread for each port: a receiver and `options.monitors` monitors by turns, with a meter each.
///
/// # Errors
/// When a thread cannot start.
pub(crate) fn run(
    options: &Options,
    input: Input,
    meters: Vec<Meter>,
    records: &Records,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let live = input.live;
    let ports = input.ports.len();
    let overhearings = Overhearing::of_all(options, ports, true)?;
    let mut meters = meters.into_iter();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let ports = input.ports.into_iter().zip(overhearings);
        for (number, (port, overhearing)) in ports.enumerate() {
            let meters: Vec<Meter> = meters.by_ref().take(options.monitors).collect();
            let work = Work {
                number,
                overhearing,
                live,
                options,
                progress,
            };
            let records = records.clone();
            let name = format!("cooperative-{number}");
            let work = move || work.run(port, meters, &records);
            threads.push(start(scope, options, name, work)?);
        }
        Ok(threads.into_iter().flat_map(join).collect())
    })
}

/// One thread's work.
struct Work<'a> {
    number: usize,
    overhearing: Overhearing,
    live: bool,
    options: &'a Options,
    progress: &'a Progress,
}

impl Work<'_> {
    fn run(self, port: Box<dyn Port>, meters: Vec<Meter>, records: &Records) -> Vec<Worked> {
        let Self {
            number,
            overhearing,
            live,
            options,
            progress,
        } = self;
        let seat = options.settle(number);
        let pace = Pace::shared(&seat.schedule);
        let first = number * (1 + options.monitors);
        let mut ways = Vec::new();
        let mut monitors: Vec<Task<'_, Worked>> = Vec::new();
        for (monitor, meter) in meters.into_iter().enumerate() {
            let (to_monitor, full, empty) = way(options.ring);
            ways.push(to_monitor);
            let work = Monitor {
                name: format!("monitor-{number}-{monitor}"),
                place: first + 1 + monitor,
                full,
                empty,
                live,
                progress,
            };
            let records = records.of_worker(first + 1 + monitor);
            monitors.push(Box::pin(work.run(meter, records, seat.task(), pace)));
        }
        let sender = Sender {
            options,
            progress,
            port,
            live,
            drops: false,
            place: first,
            overhearing,
            ways,
        };
        let mut tasks: Vec<Task<'_, Worked>> = vec![Box::pin(sender.run(seat, pace))];
        tasks.extend(monitors);
        let mut worked = by_turns(tasks);
        // The thread's time is all its tasks': it stands with the receiver.
        for (task, worked) in worked.iter_mut().enumerate() {
            worked.queue.cpu = match task {
                0 => hw::time::thread_cpu(),
                _ => std::time::Duration::ZERO,
            };
        }
        worked
    }
}
