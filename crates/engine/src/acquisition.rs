//! Acquisition separate from processing, as in DPDKStat. A thread for each port does nothing but drain
//! the receive queue to a large buffer, continuously or periodically. Any model can read from the
//! buffer. The two threads have a core each, or share one under SCHED_DEADLINE.

use crate::executor::Backoff;
use crate::options::{Acquisition, EngineError, Input, Options, PollMode};
use crate::report::{AcquisitionReport, QueueReport};
use crate::thread::{ThreadPlacement, join, spawn};
use hw::schedule::yield_cpu;
use port::buffer::{self, BufferWriter};
use port::{Burst, Port, Received};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Frames after which a round ends even if the queue is not empty.
const ROUND_FRAMES_MAX: usize = 1 << 15;

/// Polls of a continuously drained queue between two samples of its occupancy.
const POLLS_PER_SAMPLE: u32 = 64;

/// Rounds between two reads of the port's counters.
const ROUNDS_PER_COUNTERS: u32 = 256;

/// The acquisition thread of one port, with the write end of its buffer.
struct AcquisitionThread<'a> {
    port: Box<dyn Port>,
    writer: BufferWriter,
    acquisition: Acquisition,
    live: bool,
    options: &'a Options,
    number: usize,
}

/// Starts an acquisition thread with a buffer for every port of `input`, and runs `model` on the buffers.
///
/// # Errors
/// Fails if there is not enough memory for the buffers, a thread cannot start or `model` fails.
pub(crate) fn run(
    options: &Options,
    acquisition: Acquisition,
    input: Input,
    model: impl FnOnce(&Options, Input) -> Result<crate::Report, EngineError>,
) -> Result<crate::Report, EngineError> {
    let live = input.live;
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
        threads.push(AcquisitionThread {
            port,
            writer,
            acquisition,
            live,
            options,
            number,
        });
    }
    // The first cores and policies are for the acquisition threads.
    let model_options = options.skip_threads(threads.len());
    thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in threads {
            let name = format!("acquisition-{}", thread.number);
            started.push(spawn(scope, options, name, move || thread.run())?);
        }
        let input = Input {
            ports: readers,
            live,
        };
        let outcome = model(&model_options, input);
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

/// The outcome of one poll of the port, or of one round.
enum PollOutcome {
    /// Frames were received; `true` if more may be waiting.
    Frames(bool),
    Idle,
    End,
}

impl AcquisitionThread<'_> {
    fn run(mut self) -> (AcquisitionReport, QueueReport, Option<String>) {
        let placement = ThreadPlacement::apply(self.options, self.number);
        let report = self.acquire(&placement);
        self.writer.publish_counters(&self.port.counters());
        let queue = QueueReport {
            name: format!("acquisition-{}", self.number),
            ..placement.report()
        };
        (report, queue, placement.fault)
    }

    fn acquire(&mut self, placement: &ThreadPlacement) -> AcquisitionReport {
        let mut report = AcquisitionReport {
            name: self.port.name().to_owned(),
            interpolated: self.live && self.port.has_burst_timestamps(),
            ..AcquisitionReport::default()
        };
        let mut last_ns = now_ns();
        let mut due = Instant::now();
        let (mut rounds, mut stopping) = (0u32, false);
        loop {
            if !stopping && (self.options.stop.is_requested() || self.writer.is_stopped()) {
                stopping = true;
                self.port.stop();
                if !self.live {
                    break;
                }
            }
            if self.writer.is_reader_gone() {
                break;
            }
            rounds = rounds.wrapping_add(1);
            let sampled = self.sample(rounds, &mut report);
            let (outcome, until_ns) = self.run_round(&mut report);
            let frames = self.writer.batch_frames();
            if frames > 0 {
                report.rounds += 1;
                if report.interpolated {
                    interpolate_times(&mut self.writer, &mut report, last_ns, until_ns);
                }
                self.writer.end_batch(false);
            } else if matches!(outcome, PollOutcome::Idle) {
                // The reader may have no other data: do not hold a partly filled block back.
                self.writer.end_batch(false);
            }
            if !sampled && self.acquisition.mode != PollMode::Continuous {
                report.occupancy.add(frames);
            }
            last_ns = until_ns;
            if rounds.is_multiple_of(ROUNDS_PER_COUNTERS) || frames == 0 {
                self.writer.publish_counters(&self.port.counters());
                self.options.stop.check_deadline();
            }
            match outcome {
                PollOutcome::End => break,
                PollOutcome::Frames(true) => {}
                PollOutcome::Frames(false) | PollOutcome::Idle => {
                    self.wait_for_next_round(placement, &mut due, &mut report);
                }
            }
        }
        (report.blocks, report.blocks_used_max) = self.writer.usage();
        report.queue_size = self
            .port
            .queue_size()
            .unwrap_or(self.acquisition.queue_size);
        report
    }

    /// Samples the occupancy of the queue, if it is time to. Returns `false` if the port does not report
    /// it.
    fn sample(&mut self, rounds: u32, report: &mut AcquisitionReport) -> bool {
        if self.acquisition.mode == PollMode::Continuous && !rounds.is_multiple_of(POLLS_PER_SAMPLE)
        {
            return true;
        }
        let Some(frames) = self.port.occupancy() else {
            return false;
        };
        report.occupancy_from_port = true;
        report.occupancy.add(frames);
        true
    }

    /// Polls once, or until the queue is empty. Also returns the time after the last poll, or 0 if
    /// timestamps are not interpolated.
    fn run_round(&mut self, report: &mut AcquisitionReport) -> (PollOutcome, i64) {
        let outcome = loop {
            let outcome = self.poll();
            let PollOutcome::Frames(more) = outcome else {
                break outcome;
            };
            if self.acquisition.mode == PollMode::Continuous
                || self.writer.batch_frames() >= ROUND_FRAMES_MAX
            {
                break PollOutcome::Frames(true);
            }
            let empty = match self.port.occupancy() {
                Some(left) => left == 0,
                None => !more,
            };
            if empty {
                break PollOutcome::Frames(false);
            }
        };
        let until_ns = if report.interpolated { now_ns() } else { 0 };
        (outcome, until_ns)
    }

    fn poll(&mut self) -> PollOutcome {
        match self.port.receive() {
            Ok(Received::Burst(burst)) => {
                let more = burst.frames.len() == port::frame::BURST;
                copy_burst(&mut self.writer, &burst, self.live);
                PollOutcome::Frames(more)
            }
            Ok(Received::Idle) => PollOutcome::Idle,
            Ok(Received::Fault(message)) => {
                self.writer.report_fault(message);
                PollOutcome::Frames(true)
            }
            Ok(Received::End) => PollOutcome::End,
            Err(error) => {
                self.writer.report_error(error);
                PollOutcome::End
            }
        }
    }

    /// Waits until the next round.
    fn wait_for_next_round(
        &self,
        placement: &ThreadPlacement,
        due: &mut Instant,
        report: &mut AcquisitionReport,
    ) {
        let period = match self.acquisition.mode {
            // Under SCHED_DEADLINE, the kernel starts the next period.
            _ if placement.schedule.is_deadline() => return yield_cpu(),
            PollMode::Continuous => return,
            PollMode::Periodic(period) => period,
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

/// Copies a burst to the buffer. If the buffer is full, frames of a link are lost, and a file waits.
fn copy_burst(writer: &mut BufferWriter, burst: &Burst<'_>, live: bool) {
    let mut backoff = Backoff::default();
    let mut copied = writer.copy(burst, 0);
    while copied < burst.frames.len() {
        if live || writer.is_reader_gone() {
            writer.count_overflow(burst, copied);
            return;
        }
        writer.end_batch(true);
        backoff.wait(false);
        copied = writer.copy(burst, copied);
    }
}

/// Interpolates the timestamps of the frames of a round.
fn interpolate_times(
    writer: &mut BufferWriter,
    report: &mut AcquisitionReport,
    after_ns: i64,
    until_ns: i64,
) {
    // If the clock was set back, the interval is empty.
    let after_ns = after_ns.min(until_ns);
    let frames = writer.interpolate_times(after_ns, until_ns);
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
