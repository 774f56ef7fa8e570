//! Cooperative: a receiver and its monitors as tasks of one thread, which give way to each other at
//! the boundary of a batch, where the ring between them is full and where it is empty (FloWatcher's
//! model on one core, lthread). Nothing is dropped between them: a receiver that finds the ring full
//! gives the core to whoever empties it.

use crate::options::{EngineError, Input, Options, Seat};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::{Pace, Task, by_turns};
use crate::progress::Progress;
use crate::report::{Report, Worked};
use crate::sending::Sender;
use crate::thread::{join, start};
use crate::wiring::{Counting, Wiring};
use flow::Meter;
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
    let ports = input.ports.len();
    let overhearings = Overhearing::of_all(options, ports, true)?;
    let mut meters = meters.into_iter();
    let wiring = Wiring {
        options,
        progress,
        live: input.live,
        drops: false,
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let ports = input.ports.into_iter().zip(overhearings);
        for (number, (port, overhearing)) in ports.enumerate() {
            let meters: Vec<Meter> = meters.by_ref().take(options.monitors).collect();
            let records = records.clone();
            let name = format!("cooperative-{number}");
            threads.push(start(scope, options, name, move || {
                let seat = options.settle(number);
                let (sender, monitors) = wiring.halves(number, port, overhearing, meters, &records);
                by_turns_of(seat, sender, monitors)
            })?);
        }
        Ok(threads.into_iter().flat_map(join).collect())
    })
}

/// One thread's work.
fn by_turns_of(seat: Seat, sender: Sender<'_>, monitors: Vec<Counting<'_>>) -> Vec<Worked> {
    let pace = Pace::shared(&seat.schedule);
    let monitors: Vec<Task<'_, Worked>> = monitors
        .into_iter()
        .map(|counting| Box::pin(counting.run(seat.task(), pace)) as Task<'_, Worked>)
        .collect();
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
