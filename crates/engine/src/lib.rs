//! Who runs where: threads, cores, queues and rings between a port and the meter, and the books
//! that say what became of every packet.

pub mod books;
pub mod intake;
pub mod output;
pub mod pipeline;
pub mod progress;
pub mod report;
pub mod run_to_completion;
pub mod steer;
pub mod worker;

pub use books::{Books, Count, Drop};
pub use output::{Records, Returned, channel};
pub use progress::{Progress, QueueProgress};
pub use report::{QueueReport, Report};
pub use worker::{EngineError, Input, Model, Options, Stop};

/// Runs `options.model` over `input` until it ends or is stopped; records go to `records`.
///
/// # Errors
/// When a thread cannot be put on its core. Faults of ports do not end the run: they are in the
/// report.
pub fn run(
    options: &Options,
    input: Input,
    records: &Records,
    progress: &Progress,
) -> Result<Report, EngineError> {
    match options.model {
        Model::RunToCompletion => run_to_completion::run(options, input, records, progress),
        Model::Pipeline => pipeline::run(options, input, records, progress),
    }
}
