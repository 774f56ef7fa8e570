//! The flags of `watch` about the engine. `plan::engine` checks how most of them combine, `plan::meter`
//! those about the flow table.

use super::value::{Cores, cores, count, garbage};
use clap::{Args, ValueEnum};
use engine::PollMode;
use hw::schedule::{Limits, Schedule};
use std::time::Duration;

/// The flags about the engine: threads, tables, acquisition.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArguments {
    /// Threading model.
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "run-to-completion",
        help_heading = "Engine"
    )]
    pub(crate) model: ModelArgument,

    /// Receiving threads per interface, one per receive queue. With files: threads that share
    /// the work, each with its own flows (run to completion only).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) queues: u16,

    /// Monitoring threads (tasks, if cooperative) per receiver, with `--model pipeline` or
    /// `cooperative`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Engine")]
    pub(crate) monitors: Option<u16>,

    /// Cores to pin the threads to, in order: `2,4-6`.
    #[arg(long, value_name = "LIST", value_parser = cores, help_heading = "Engine")]
    pub(crate) cores: Option<Cores>,

    /// Capacity in packets of the ring in front of each monitor, with `--model pipeline` or
    /// `cooperative` [default: 4096].
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Engine")]
    pub(crate) ring: Option<u64>,

    /// Flow table: `bucket` (exact), or a table from the FloWatcher paper, which identifies a flow
    /// by its hash only: `double-hash`, `linked-list`, `combined`.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bucket",
        help_heading = "Engine"
    )]
    pub(crate) table: String,

    /// Hash function for flow keys: keyed, toeplitz, symmetric-toeplitz, add, xor, crc32c, murmur3 or
    /// spooky [default: keyed; with --flow rss toeplitz, for packets without a device hash].
    /// Toeplitz hashes computed by the device are reused. Only keyed has a secret: under any other,
    /// an outsider can choose keys that evict flows, which the summary counts.
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub(crate) hash: Option<String>,

    /// Scheduling policies of the threads, in order and separated by commas; repeats from the first
    /// if there are more threads: `other`, `fifo` or `fifo=PRIORITY` (1 to 99),
    /// `deadline=RUNTIME/DEADLINE/PERIOD` (`deadline=200us/500us/500us`).
    #[arg(long, value_name = "LIST", value_parser = schedules, help_heading = "Engine")]
    pub(crate) schedule: Option<Schedules>,

    /// Secret of the keyed hash, for runs that must be reproducible [default: random].
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub(crate) seed: Option<u64>,

    /// Expiry sweep: every PERIOD/PARTS, scan FRACTION/PARTS of the table for flows that have ended
    /// [default: the idle timeout or 10s, whichever is less, in 10000 parts].
    #[arg(long, value_name = "PERIOD,PARTS,FRACTION", value_parser = garbage, help_heading = "Engine")]
    pub(crate) garbage: Option<flow::GarbageSchedule>,

    /// Separate acquisition from processing: for each receiving thread, an acquisition thread drains
    /// the receive queue into a buffer of this size (`1GiB`, `256MiB`), from which the receiving
    /// thread reads. Acquisition threads get the first cores and policies.
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Acquisition")]
    pub(crate) buffer: Option<u64>,

    /// When acquisition drains the queue: continuously (`polled`), or once per period
    /// (`periodic=1ms`) [default: polled].
    #[arg(long, value_name = "WHEN", value_parser = poll_mode, requires = "buffer", help_heading = "Acquisition")]
    pub(crate) acquisition: Option<PollMode>,

    /// Sort the buffered packets by flow before processing, up to this many bytes at a time, so that
    /// a flow's entry stays in the cache. One sort spans at most 0.1 s of packets; a flow may end
    /// that much before its idle timeout.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "buffer", help_heading = "Acquisition")]
    pub(crate) sort_buffer: Option<u64>,
}

/// `--model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArgument {
    /// Each thread receives and monitors.
    RunToCompletion,
    /// Receiving threads pass packets to monitoring threads.
    Pipeline,
    /// A receiver and its monitors take turns on one thread.
    Cooperative,
}

fn size(text: &str) -> Result<u64, String> {
    let invalid = || format!("'{text}' is not a size; write 256MiB, 1GiB or a number of bytes");
    let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| invalid())?;
    let unit = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(invalid()),
    };
    match number.checked_mul(unit) {
        Some(0) | None => Err(invalid()),
        Some(bytes) => Ok(bytes),
    }
}

/// The longest period of acquisition: no receive queue holds more than a second of traffic.
const PERIOD_MAX: Duration = Duration::from_secs(1);

fn poll_mode(text: &str) -> Result<PollMode, String> {
    let invalid = || format!("'{text}' is neither polled nor periodic=TIME, such as periodic=1ms");
    match text.split_once('=') {
        None if text == "polled" => Ok(PollMode::Continuous),
        Some(("periodic", period)) => {
            let period = humantime::parse_duration(period).map_err(|_| invalid())?;
            if period.is_zero() || period > PERIOD_MAX {
                return Err("the period must be above 0 and at most 1s".into());
            }
            Ok(PollMode::Periodic(period))
        }
        _ => Err(invalid()),
    }
}

/// A list of scheduling policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedules(pub(crate) Vec<Schedule>);

/// The priority of `fifo` without one: above threads of low real-time priority, below those of the kernel.
const FIFO_PRIORITY: u8 = 50;

fn schedules(text: &str) -> Result<Schedules, String> {
    let one = |text: &str| -> Result<Schedule, String> {
        let invalid = || {
            format!(
                "'{text}' is not a policy; write other, fifo, fifo=50 or deadline=200us/500us/500us (runtime, deadline, period)"
            )
        };
        let (name, value) = text
            .split_once('=')
            .map_or((text, None), |(name, value)| (name, Some(value)));
        let schedule = match (name, value) {
            ("other", None) => Schedule::Other,
            ("fifo", None) => Schedule::Fifo(FIFO_PRIORITY),
            ("fifo", Some(priority)) => Schedule::Fifo(priority.parse().map_err(|_| invalid())?),
            ("deadline", Some(times)) => {
                let times: Vec<Duration> = times
                    .split('/')
                    .map(humantime::parse_duration)
                    .collect::<Result<_, _>>()
                    .map_err(|_| invalid())?;
                let [runtime, deadline, period] = times[..] else {
                    return Err(invalid());
                };
                Schedule::Deadline {
                    runtime,
                    deadline,
                    period,
                }
            }
            _ => return Err(invalid()),
        };
        schedule.check(&Limits::read())?;
        Ok(schedule)
    };
    text.split(',')
        .map(one)
        .collect::<Result<_, _>>()
        .map(Schedules)
}
