//! Who runs where: threads, cores, queues and rings between a port and the meter, and the books
//! that say what became of every packet.

pub mod acquisition;
pub mod books;
mod cooperative;
pub mod intake;
pub mod merge;
mod moderated;
mod monitoring;
pub mod occupancy;
pub mod options;
pub mod output;
mod overhearing;
mod pace;
mod packet_level;
mod pipeline;
pub mod progress;
mod receive;
pub mod report;
mod run_to_completion;
pub mod schedule;
mod sending;
pub mod steer;
mod thread;
mod together;
mod wiring;

pub use acquisition::{Acquisition, AcquisitionReport, When};
pub use books::{Books, Count, Loss};
pub use moderated::Moderated;
pub use options::{EngineError, Input, Level, Model, Options, Stop, check_cores};
pub use output::{Emptied, Records, Returned, channel};
pub use progress::{Progress, QueueProgress};
pub use report::{QueueReport, Report};

use flow::{Meter, MeterOptions};
use std::time::Instant;

// A burst of a port must fit a batch.
const _: () = assert!(port::frame::BURST <= flow::BURST);

/// Makes the meters of a run over `ports` ports: before the ports are opened, since a link waits
/// for no table.
///
/// # Errors
/// When the machine has no room for them.
pub fn meters(options: &Options, ports: usize) -> Result<Vec<Meter>, EngineError> {
    let tables = options.tables(ports);
    let meter = MeterOptions {
        overhears: options.overhears(ports),
        ..options.meter.clone()
    };
    (0..tables)
        .map(|_| {
            Meter::new(&meter)
                .map_err(|error| EngineError::no_room(tables, meter.flows_max, &error))
        })
        .collect()
}

/// Runs `options.model` over `input` until it ends or is stopped; records go to `records`.
///
/// # Errors
/// When a thread cannot start, or not on its core. Faults of ports do not end the run: they are in
/// the report.
pub fn run(
    options: &Options,
    input: Input,
    meters: Vec<Meter>,
    records: &Records,
    progress: &Progress,
) -> Result<Report, EngineError> {
    check_cores(&options.cores)?;
    schedule::check(options, input.ports.len())?;
    let started = Instant::now();
    let model = |options: &Options, input: Input| match options.model {
        _ if options.level == Level::Packet => packet_level::run(options, input, progress),
        Model::RunToCompletion => run_to_completion::run(options, input, meters, records, progress),
        Model::Cooperative => cooperative::run(options, input, meters, records, progress),
        Model::Pipeline => pipeline::run(options, input, meters, records, progress),
    };
    let report = match options.acquisition {
        Some(acquisition) => acquisition::run(options, acquisition, input, model),
        None => model(options, input),
    }?;
    Ok(Report {
        elapsed: started.elapsed(),
        ..report
    })
}
