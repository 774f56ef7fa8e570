//! Pipeline: receiver threads read headers and hand batches of packets to monitor threads, which
//! count them, over single-producer single-consumer rings. On a link, packets that find the ring
//! full are dropped and counted; a file waits.

use crate::options::{EngineError, Input, Options};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::{Pace, alone};
use crate::progress::Progress;
use crate::report::Report;
use crate::thread::{join, start};
use crate::wiring::Wiring;
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
    let ports = input.ports.len();
    let overhearings = Overhearing::of_all(options, ports, true)?;
    let mut meters = meters.into_iter();
    let wiring = Wiring {
        options,
        progress,
        live: input.live,
        drops: input.live,
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let ports = input.ports.into_iter().zip(overhearings);
        for (receiver, (port, overhearing)) in ports.enumerate() {
            let meters = meters.by_ref().take(options.monitors);
            let (sender, monitors) = wiring.halves(receiver, port, overhearing, meters, records);
            for counting in monitors {
                let name = counting.monitor.name.clone();
                threads.push(start(scope, options, name, move || {
                    let seat = options.settle(counting.monitor.place);
                    let pace = Pace::alone(&seat.schedule);
                    alone(counting.run(seat, pace))
                })?);
            }
            let name = format!("receiver-{receiver}");
            threads.push(start(scope, options, name, move || {
                let seat = options.settle(sender.place);
                let pace = Pace::alone(&seat.schedule);
                alone(sender.run(seat, pace))
            })?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}
