//! Runs the packet path: the threads, cores, queues and rings between ports and meters, and the packet
//! accounting (the [`Books`]) that covers every packet.

pub mod acquisition;
pub mod books;
mod coalescing_receiver;
mod cooperative;
mod dispatcher;
mod dns_feed;
mod executor;
mod flow_measurement;
mod measurement;
pub mod merge;
mod monitor;
pub mod occupancy;
pub mod options;
mod packet_count;
pub mod parser;
mod pipeline;
mod pipeline_builder;
pub mod progress;
mod receiver;
pub mod record_channel;
pub mod report;
mod run_to_completion;
pub mod schedule;
mod shared_reading;
mod steer;
mod thread;
mod traffic_mix;

pub use books::{Books, Count, Loss};
pub use coalescing_receiver::CoalescingReceiver;
pub use flow_measurement::FLOWS;
pub use measurement::{
    Findings, Measurement, MeasurementReport, MeasurementSet, MeasurementSpec, Measurements,
    PacketInput, Packets, ReportRow, ReportTable,
};
pub use options::{
    Acquisition, EngineError, Input, Level, Model, Options, PollMode, Stop, check_cores,
};
pub use packet_count::PACKETS;
pub use progress::{Progress, QueueProgress};
pub use record_channel::{RecordReceiver, RecordSender, Recycler, channel};
pub use report::{AcquisitionReport, QueueReport, Report};
pub use traffic_mix::TRAFFIC_MIX;

use flow::MeterOptions;
use std::time::Instant;

// A burst of a port must fit in a batch.
const _: () = assert!(port::frame::BURST <= flow::BURST);

/// Creates the measurements for a run over `ports` ports. Call this before opening the ports: allocating
/// the tables takes time, in which packets of an open link would be lost.
///
/// # Errors
/// Fails if there is not enough memory for the tables, or if another measurement cannot start.
pub fn measurements(options: &Options, ports: usize) -> Result<Measurements, EngineError> {
    let tables = options.tables(ports);
    let meter = MeterOptions {
        dns_from_batches: options.shares_dns(ports),
        ..options.meter.clone()
    };
    let build_set = |at_receiver: bool| {
        let built = options
            .measurements()
            .filter(|spec| !at_receiver || spec.at_receiver)
            .map(|spec| {
                (spec.build)(&meter).map_err(|error| {
                    if spec.name == FLOWS.name {
                        EngineError::table_memory(tables, meter.flows_max, &error)
                    } else {
                        EngineError::measurement(spec.name, &error)
                    }
                })
            });
        built.collect::<Result<MeasurementSet, _>>()
    };
    let (receivers, monitors) = match options.effective_model() {
        Model::RunToCompletion => (0, ports),
        Model::Pipeline | Model::Cooperative | Model::SharedReading => {
            (ports, ports * options.monitors)
        }
    };
    Ok(Measurements {
        monitors: (0..monitors)
            .map(|_| build_set(false))
            .collect::<Result<_, _>>()?,
        receivers: (0..receivers)
            .map(|_| build_set(true))
            .collect::<Result<_, _>>()?,
    })
}

/// Runs `options.model` over `input` until the input ends or the run is stopped. Flow records go to
/// `records`.
///
/// # Errors
/// Fails if a thread cannot start, a core is not available or the kernel rejects a scheduling policy.
/// Port faults do not fail the run; the report lists them.
pub fn run(
    options: &Options,
    input: Input,
    measurements: Measurements,
    records: &RecordSender,
    progress: &Progress,
) -> Result<Report, EngineError> {
    check_cores(&options.cores)?;
    schedule::check(options, input.ports.len())?;
    let started = Instant::now();
    let model = |options: &Options, input: Input| match options.effective_model() {
        Model::RunToCompletion => {
            run_to_completion::run(options, input, measurements, records, progress)
        }
        Model::Cooperative => cooperative::run(options, input, measurements, records, progress),
        Model::Pipeline => pipeline::run(options, input, measurements, records, progress),
        Model::SharedReading => {
            shared_reading::run(options, input, measurements, records, progress)
        }
    };
    let mut report = match options.acquisition {
        Some(acquisition) => acquisition::run(options, acquisition, input, model),
        None => model(options, input),
    }?;
    if options.level == Level::Packet && options.packet_input() == PacketInput::Headers {
        // Headers were read for another measurement, but no table counted the flows.
        let books = &mut report.books;
        let without_flow = books.without_flow();
        books.counted_only = Count {
            packets: books.processed.packets - without_flow.packets,
            bytes: books.processed.bytes - without_flow.bytes,
        };
    }
    Ok(Report {
        elapsed: started.elapsed(),
        ..report
    })
}
