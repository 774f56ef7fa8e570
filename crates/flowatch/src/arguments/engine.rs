//! The flags of the engine: what is counted at all, on whose time, and behind which buffer.

use clap::{Args, ValueEnum};
use hw::schedule::{Limits, Schedule};
use std::time::Duration;

/// Flags of `watch` that choose how the engine works.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// What is counted: every `flow`, or each `packet` as it is received, with no byte of it touched
    /// and no flow known.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "flow",
        help_heading = "Flows"
    )]
    pub(crate) level: LevelArgument,

    /// Whose packets are counted between two packets of a flow: those of its `queue`, or of the whole
    /// `link`, whose queues then share a counter.
    #[arg(
        long,
        value_name = "SCOPE",
        default_value = "queue",
        help_heading = "Flows"
    )]
    pub(crate) gap: GapArgument,

    /// Scheduling policy of the threads, in their order, from the first again when there are more
    /// threads: `other`, `fifo` or `fifo=PRIORITY` (1 to 99), `deadline=RUNTIME/DEADLINE/PERIOD`
    /// (`deadline=200us/500us/500us`); a comma between two.
    #[arg(long, value_name = "LIST", value_parser = schedules, help_heading = "Engine")]
    pub(crate) schedule: Option<Schedules>,
}

/// A list of scheduling policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedules(pub(crate) Vec<Schedule>);

/// The priority of `fifo` alone: above threads that ask for little, below the kernel's own.
const FIFO: u8 = 50;

fn schedules(text: &str) -> Result<Schedules, String> {
    let one = |text: &str| -> Result<Schedule, String> {
        let wrong = || {
            format!(
                "'{text}' is no policy: other, fifo, fifo=50 or deadline=200us/500us/500us (runtime, deadline, period)"
            )
        };
        let (name, value) = text
            .split_once('=')
            .map_or((text, None), |(name, value)| (name, Some(value)));
        let schedule = match (name, value) {
            ("other", None) => Schedule::Other,
            ("fifo", None) => Schedule::Fifo(FIFO),
            ("fifo", Some(priority)) => Schedule::Fifo(priority.parse().map_err(|_| wrong())?),
            ("deadline", Some(times)) => {
                let times: Vec<Duration> = times
                    .split('/')
                    .map(humantime::parse_duration)
                    .collect::<Result<_, _>>()
                    .map_err(|_| wrong())?;
                let [runtime, deadline, period] = times[..] else {
                    return Err(wrong());
                };
                Schedule::Deadline {
                    runtime,
                    deadline,
                    period,
                }
            }
            _ => return Err(wrong()),
        };
        schedule.check(&Limits::of_this_machine())?;
        Ok(schedule)
    };
    text.split(',')
        .map(one)
        .collect::<Result<_, _>>()
        .map(Schedules)
}

/// `--gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapArgument {
    /// Within the queue.
    Queue,
    /// Over all queues.
    Link,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArgument {
    /// Flows.
    Flow,
    /// Packets.
    Packet,
}
