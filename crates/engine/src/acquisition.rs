//! Acquisition apart from processing (DPDKStat): a thread for each port does nothing but empty its
//! queue into a large buffer, all the time or once a period; any model runs behind the buffer. The two
//! have a core each, or share one under SCHED_DEADLINE.

use crate::occupancy::Occupancy;
use crate::options::{EngineError, Input, Options, Seat};
use crate::pace::Patience;
use crate::report::QueueReport;
use crate::thread::{join, start};
use hw::schedule::yield_job;
use port::buffer::{self, BufferWriter};
use port::{Burst, Port, Received};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// When queues are emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// All the time.
    #[default]
    Polled,
    /// Once a period, until they are empty.
    Periodic(Duration),
}

/// How frames are acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// Memory of each port's buffer, in bytes.
    pub buffer_bytes: usize,
    /// Bytes within which the buffer is sorted by flow; 0: not at all.
    pub sort_bytes: usize,
    /// When queues are emptied.
    pub when: When,
    /// Frames that a receive queue holds, whose overflow the report gives the probability of, where the
    /// port does not tell.
    pub queue: usize,
}

/// Frames after which a round is handed over though the queue is not empty.
const ROUND: usize = 1 << 15;

/// A queue that is polled is asked how full it is once in so many times.
const POLLS_PER_SAMPLE: u32 = 64;

/// Rounds between two looks at the port's counters.
const ROUNDS_PER_COUNTERS: u32 = 256;

/// What acquisition came to, for one port.
#[derive(Clone, Debug, Default)]
pub struct AcquisitionReport {
    /// The port's name.
    pub name: String,
    /// Rounds that found frames.
    pub rounds: u64,
    /// Periods that began late, the round before having lasted too long.
    pub late: u64,
    /// Blocks of the buffer, and the most that were in use after a round.
    pub blocks: usize,
    /// See `blocks`.
    pub blocks_used_most: usize,
    /// Whether times were interpolated, the port not having taken each frame's.
    pub interpolated: bool,
    /// The longest time over which they were: no frame's is wrong by more.
    pub time_error_max: Duration,
    /// Sum of the same over the frames, for a mean.
    pub time_error_sum_ns: u128,
    /// Frames whose times were interpolated.
    pub time_error_frames: u64,
    /// How full the queue was: before each round, as far as it was asked.
    pub occupancy: Occupancy,
    /// Frames that the queue holds.
    pub queue: usize,
    /// Whether the port told how full its queue was; else a round's frames stand for it.
    pub told_by_port: bool,
}

/// A port's end of its buffer.
struct Acquiring<'a> {
    port: Box<dyn Port>,
    writer: BufferWriter,
    acquisition: Acquisition,
    live: bool,
    /// Whether others read the same packets: who reads the buffer says when to stop.
    shared: bool,
    options: &'a Options,
    number: usize,
}

/// Puts a buffer and a thread before every port of `input`, and runs `model` on what comes out of them.
///
/// # Errors
/// When there is no memory for the buffers, a thread cannot start, or those of the model.
pub(crate) fn run(
    options: &Options,
    acquisition: Acquisition,
    input: Input,
    model: impl FnOnce(&Options, Input) -> Result<crate::Report, EngineError>,
) -> Result<crate::Report, EngineError> {
    let (live, same_packets) = (input.live, input.same_packets);
    let mut threads = Vec::new();
    let mut readers: Vec<Box<dyn Port>> = Vec::new();
    for (number, port) in input.ports.into_iter().enumerate() {
        let buffer_options = buffer::Options {
            bytes: acquisition.buffer_bytes,
            sort_bytes: acquisition.sort_bytes,
            populate: live,
        };
        let (writer, reader) = buffer::buffer(&buffer_options, port.name(), port.rss_key())
            .map_err(|error| EngineError::Buffer(error.to_string()))?;
        readers.push(Box::new(reader));
        threads.push(Acquiring {
            port,
            writer,
            acquisition,
            live,
            shared: same_packets,
            options,
            number,
        });
    }
    // The first cores and policies are those of acquisition.
    let behind = options.behind(threads.len());
    thread::scope(|scope| {
        let mut started = Vec::new();
        for acquiring in threads {
            let name = format!("acquisition-{}", acquiring.number);
            started.push(start(scope, options, name, move || acquiring.run())?);
        }
        let input = Input {
            ports: readers,
            same_packets,
            live,
        };
        let outcome = model(&behind, input);
        if outcome.is_err() {
            options.stop.request();
        }
        let mut acquired = Vec::new();
        let mut queues = Vec::new();
        for thread in started {
            let (report, queue, fault) = join(thread);
            acquired.push(report);
            queues.push((queue, fault));
        }
        let mut report = outcome?;
        report.acquisition = acquired;
        for (queue, fault) in queues {
            report.queues.push(queue);
            report.faults.extend(fault);
        }
        Ok(report)
    })
}

/// What one poll of the port gave.
enum Polled {
    /// Frames; whether there may be more at once.
    Frames(bool),
    Nothing,
    End,
}

impl Acquiring<'_> {
    fn run(mut self) -> (AcquisitionReport, QueueReport, Option<String>) {
        let seat = self.options.settle(self.number);
        let report = self.acquire(&seat);
        self.writer.show(&self.port.counters());
        let queue = QueueReport {
            name: format!("acquisition-{}", self.number),
            ..seat.report()
        };
        (report, queue, seat.fault)
    }

    fn acquire(&mut self, seat: &Seat) -> AcquisitionReport {
        let mut report = AcquisitionReport {
            name: self.port.name().to_owned(),
            interpolated: self.live && self.port.stamps_bursts(),
            ..AcquisitionReport::default()
        };
        let mut last_ns = now_ns();
        let mut due = Instant::now();
        let (mut rounds, mut stopping) = (0u32, false);
        loop {
            let asked = self.options.stop.is_requested() && !self.shared;
            if !stopping && (asked || self.writer.is_stopped()) {
                stopping = true;
                self.port.stop();
                if !self.live {
                    break;
                }
            }
            if self.writer.is_abandoned() {
                break;
            }
            rounds = rounds.wrapping_add(1);
            let sampled = self.sample(rounds, &mut report);
            let (outcome, until_ns) = self.round(&mut report);
            let frames = self.writer.batch_frames();
            if frames > 0 {
                report.rounds += 1;
                if report.interpolated {
                    stamp(&mut self.writer, &mut report, last_ns, until_ns);
                }
                self.writer.hand_over(false);
            } else if matches!(outcome, Polled::Nothing) {
                // Whoever reads may have nothing else.
                self.writer.hand_over(false);
            }
            if !sampled && self.acquisition.when != When::Polled {
                report.occupancy.add(frames);
            }
            last_ns = until_ns;
            if rounds.is_multiple_of(ROUNDS_PER_COUNTERS) || frames == 0 {
                self.writer.show(&self.port.counters());
                self.options.stop.look_at_clock();
            }
            match outcome {
                Polled::End => break,
                Polled::Frames(true) => {}
                Polled::Frames(false) | Polled::Nothing => self.rest(seat, &mut due, &mut report),
            }
        }
        (report.blocks, report.blocks_used_most) = self.writer.usage();
        report.queue = self.port.queue_size().unwrap_or(self.acquisition.queue);
        report
    }

    /// Asks the port how full its queue is; whether it knows.
    fn sample(&mut self, rounds: u32, report: &mut AcquisitionReport) -> bool {
        if self.acquisition.when == When::Polled && !rounds.is_multiple_of(POLLS_PER_SAMPLE) {
            return true;
        }
        let Some(frames) = self.port.occupancy() else {
            return false;
        };
        report.told_by_port = true;
        report.occupancy.add(frames);
        true
    }

    /// A poll, or polls until the queue is empty; and when the last frames were had.
    fn round(&mut self, report: &mut AcquisitionReport) -> (Polled, i64) {
        let outcome = loop {
            let outcome = self.poll();
            let Polled::Frames(more) = outcome else {
                break outcome;
            };
            if self.acquisition.when == When::Polled || self.writer.batch_frames() >= ROUND {
                break Polled::Frames(true);
            }
            let empty = match self.port.occupancy() {
                Some(left) => left == 0,
                None => !more,
            };
            if empty {
                break Polled::Frames(false);
            }
        };
        let until_ns = if report.interpolated { now_ns() } else { 0 };
        (outcome, until_ns)
    }

    fn poll(&mut self) -> Polled {
        match self.port.receive() {
            Ok(Received::Burst(burst)) => {
                let more = burst.frames.len() == port::frame::BURST;
                copy(&mut self.writer, &burst, self.live);
                Polled::Frames(more)
            }
            Ok(Received::Idle) => Polled::Nothing,
            Ok(Received::Fault(message)) => {
                self.writer.tell(message);
                Polled::Frames(true)
            }
            Ok(Received::End) => Polled::End,
            Err(error) => {
                self.writer.fail(error);
                Polled::End
            }
        }
    }

    /// Until the next round.
    fn rest(&self, seat: &Seat, due: &mut Instant, report: &mut AcquisitionReport) {
        let period = match self.acquisition.when {
            // Under SCHED_DEADLINE the kernel begins the next period.
            _ if seat.schedule.is_deadline() => return yield_job(),
            When::Polled => return,
            When::Periodic(period) => period,
        };
        *due += period;
        let now = Instant::now();
        if *due > now {
            thread::sleep(*due - now);
        } else {
            report.late += 1;
            *due = now;
        }
    }
}

/// Copies a burst. Where there is no room, a link's frames are lost, and a file waits.
fn copy(writer: &mut BufferWriter, burst: &Burst<'_>, live: bool) {
    let mut patience = Patience::default();
    let mut copied = writer.copy(burst, 0);
    while copied < burst.frames.len() {
        if live || writer.is_abandoned() {
            writer.overflow(burst, copied);
            return;
        }
        writer.hand_over(true);
        patience.wait(false);
        copied = writer.copy(burst, copied);
    }
}

/// Gives the frames of a round their times.
fn stamp(writer: &mut BufferWriter, report: &mut AcquisitionReport, after_ns: i64, until_ns: i64) {
    // A clock that was set back leaves nothing to spread over.
    let after_ns = after_ns.min(until_ns);
    let frames = writer.interpolate(after_ns, until_ns);
    let span = Duration::from_nanos((until_ns - after_ns).cast_unsigned());
    report.time_error_max = report.time_error_max.max(span);
    report.time_error_sum_ns += span.as_nanos() * frames as u128;
    report.time_error_frames += frames as u64;
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
