//! Pipeline: receiver threads read headers and hand batches of packets to monitor threads, which
//! count them, over single-producer single-consumer rings. On a link, packets that find the ring
//! full are dropped and counted; a file waits.

use crate::monitoring::Monitor;
use crate::options::{EngineError, Input, Options};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::{Pace, alone};
use crate::progress::Progress;
use crate::report::Report;
use crate::sending::{Sender, way};
use crate::thread::{join, start};
use flow::Meter;
use std::thread;

/// Runs a receiver for each port, and `options.monitors` monitors behind each, with a meter each.
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
        for (receiver, (port, overhearing)) in ports.enumerate() {
            let first = receiver * (1 + options.monitors);
            let mut ways = Vec::new();
            for (monitor, meter) in meters.by_ref().take(options.monitors).enumerate() {
                let (to_monitor, full, empty) = way(options.ring);
                ways.push(to_monitor);
                let place = first + 1 + monitor;
                let work = Monitor {
                    name: format!("monitor-{receiver}-{monitor}"),
                    place,
                    full,
                    empty,
                    live,
                    progress,
                };
                let records = records.of_worker(place);
                let name = work.name.clone();
                threads.push(start(scope, options, name, move || {
                    let seat = options.settle(place);
                    let pace = Pace::alone(&seat.schedule);
                    alone(work.run(meter, records, seat, pace))
                })?);
            }
            let sender = Sender {
                options,
                progress,
                port,
                live,
                drops: live,
                place: first,
                overhearing,
                ways,
            };
            let name = format!("receiver-{receiver}");
            threads.push(start(scope, options, name, move || {
                let seat = options.settle(first);
                let pace = Pace::alone(&seat.schedule);
                alone(sender.run(seat, pace))
            })?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}
