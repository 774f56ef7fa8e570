//! The flags of the engine: what is counted at all, on whose time, and behind which buffer.

use clap::{Args, ValueEnum};
use engine::When;
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

    /// Acquisition apart from processing: for each receiving thread another one empties the queue
    /// into a buffer of this size (`1GiB`, `256MiB`), and the model runs behind it. The acquiring
    /// threads have the first cores and policies.
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Acquisition")]
    pub(crate) buffer: Option<u64>,

    /// When the queue is emptied: all the time (`polled`), or once a period, until it is empty
    /// (`periodic=1ms`).
    #[arg(long, value_name = "WHEN", value_parser = when, requires = "buffer", help_heading = "Acquisition")]
    pub(crate) acquisition: Option<When>,

    /// Sort the buffer by flow within so many bytes, or what there is of them, before it is
    /// processed: the state of a flow is touched while it is in the cache. Packets of more than
    /// 0.1 s are not sorted together; flows may end so much before their idle time-out.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "buffer", help_heading = "Acquisition")]
    pub(crate) sort_buffer: Option<u64>,
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write 256MiB, 1GiB or a number of bytes");
    let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    match number.checked_mul(unit) {
        Some(0) | None => Err(wrong()),
        Some(bytes) => Ok(bytes),
    }
}

/// A period of acquisition may not be longer: no receive queue lasts so long.
const PERIOD_MAX: Duration = Duration::from_secs(1);

fn when(text: &str) -> Result<When, String> {
    let wrong = || format!("'{text}' is neither polled nor periodic=1ms");
    match text.split_once('=') {
        None if text == "polled" => Ok(When::Polled),
        Some(("periodic", period)) => {
            let period = humantime::parse_duration(period).map_err(|_| wrong())?;
            if period.is_zero() || period > PERIOD_MAX {
                return Err("a period above 0 and at most 1s".into());
            }
            Ok(When::Periodic(period))
        }
        _ => Err(wrong()),
    }
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
