//! Sending: frames of a source go to a link when they are due.

use crate::histogram::Histogram;
use crate::lateness::{Lateness, WorstWindow};
use crate::rate::Rate;
use crate::schedule::Schedule;
use crate::source::Source;
use crate::truth::Truth;
use hw::time::{TickRate, monotonic_raw_ns, realtime_ns, ticks};
use port::frame::BURST;
use port::{PortError, Transmit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What sets the pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// The link: as fast as it takes frames.
    Link,
    /// A rate.
    Rate(Rate),
    /// The source's own times, so many times as fast.
    Recorded(f64),
}

/// What happens to packets whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLate {
    /// They are sent as fast as the link takes them, so that the mean rate holds.
    CatchUp,
    /// Those that are later than this are never sent, and counted.
    Skip(Duration),
}

/// What happens to frames that the link does not take at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are offered again until it does.
    #[default]
    Retry,
    /// They are given up, and counted as refused.
    Drop,
}

/// Which clock is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendClock {
    /// That on the wall.
    Wall,
    /// None: nobody waits (files). The first frame has this time, nanoseconds since the Unix epoch,
    /// the others follow by their pace.
    Virtual(i64),
}

/// How frames are sent.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// What sets the pace.
    pub pacing: Pacing,
    /// Which clock.
    pub clock: SendClock,
    /// Ends after this many packets.
    pub count: Option<u64>,
    /// Ends after this time: packets that are due earlier are the intended ones.
    pub duration: Option<Duration>,
    /// What happens to late packets.
    pub when_late: WhenLate,
    /// What happens to frames that the link does not take.
    pub when_full: WhenFull,
    /// With a count, and frames that are offered again: ends when the link has been down for so long.
    pub link_down_max: Duration,
    /// The most frames handed to the link at once, up to [`BURST`].
    pub burst: usize,
}

/// Between two attempts on a link that is down.
const DOWN_PAUSE: Duration = Duration::from_millis(1);

/// How long a run that has a count to reach waits for a link that is down.
pub const LINK_DOWN_MAX: Duration = Duration::from_secs(5);

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            pacing: Pacing::Link,
            clock: SendClock::Wall,
            count: None,
            duration: None,
            when_late: WhenLate::CatchUp,
            when_full: WhenFull::Retry,
            link_down_max: LINK_DOWN_MAX,
            burst: BURST,
        }
    }
}

/// For whoever watches a sender, and may end it.
#[derive(Debug, Default)]
pub struct SendControl {
    /// Set to end the run.
    pub stop: AtomicBool,
    /// Frames that the link has taken so far.
    pub sent: AtomicU64,
    /// What the link has told, until [`Control::take_told`].
    pub notices: Mutex<Vec<String>>,
}

impl SendControl {
    /// What the link has told since this was last asked: that it is down, or up again.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn notify(&self, notice: String) {
        let mut told = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(notice);
    }
}

/// What a run came to. `intended = offered + skipped + unsent`; `offered = sent + refused + left`.
#[derive(Clone, Default)]
pub struct SendReport {
    /// Packets that count, time and rate asked for until the end; where nothing asks for any number,
    /// those that were offered.
    pub intended: u64,
    /// Frames that were built and handed to the link.
    pub offered: u64,
    /// Frames that the link took.
    pub sent: u64,
    /// Their bytes, without frame check sequences.
    pub bytes: u64,
    /// Frames that the link did not take and that were given up.
    pub refused: u64,
    /// Packets that were too late to be sent.
    pub skipped: u64,
    /// Packets that were intended and not built when the run ended.
    pub unsent: u64,
    /// How often the link was full.
    pub link_full: u64,
    /// From the first packet to the end, by `CLOCK_MONOTONIC_RAW`; for virtual time, from the first
    /// packet to the time of one more, or of the last where the source's own times set the pace.
    pub elapsed_ns: u64,
    /// How late packets were, nanoseconds; where a rate or the source's own times set the pace.
    pub lateness: Option<Histogram>,
    /// The worst ten milliseconds; where a rate set the pace and the run lasted that long.
    pub worst_window: Option<WorstWindow>,
    /// Frames that the link took, by [`Source::classes`].
    pub by_class: Vec<u64>,
    /// Whether the source came to its end.
    pub source_ended: bool,
    /// Whether the run ended because there was no link.
    pub link_lost: bool,
}

/// After the end of the time, what is late may still catch up for so long.
const LINGER_NS: u64 = 20_000_000;

/// With more time than this until the next packet the sender sleeps for part of it.
const SLEEP_FROM_NS: u64 = 2_000_000;

/// How long it sleeps at a time at most, to see a wish to stop.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// Frames that were built and that the link has not taken, oldest first.
struct Pending {
    flows: [u32; BURST],
    lengths: [u16; BURST],
    count: usize,
}

/// Sends frames of `source` to `sink` until count, time, source or `control` end it.
///
/// # Errors
/// Those of the link or of the source.
pub fn send<S: Source + ?Sized>(
    source: &mut S,
    sink: &mut (impl Transmit + ?Sized),
    options: &SendOptions,
    truth: Option<&mut Truth>,
    control: &SendControl,
) -> Result<SendReport, PortError> {
    Sender::new(source, options, truth, control).run(sink)
}

struct Sender<'a, S: ?Sized> {
    source: &'a mut S,
    options: SendOptions,
    truth: Option<&'a mut Truth>,
    control: &'a SendControl,
    clock: Clock,
    schedule: Option<Schedule>,
    lateness: Lateness,
    pending: Pending,
    report: SendReport,
    /// Ticks after the start at which the last packet was due by the source's own times.
    last_due: u64,
    /// Ticks after the start at which the run's time ends, or never.
    deadline: u64,
    /// The same, and the time to catch up.
    catch_up_end: u64,
    classes: usize,
    /// Whether the link was down when it was last asked.
    is_down: bool,
}

/// Elapsed ticks, and what they mean.
struct Clock {
    rate: TickRate,
    is_virtual: bool,
    start: u64,
    start_ns: i64,
    raw_start_ns: u64,
}

impl Clock {
    fn new(time: SendClock) -> Self {
        match time {
            SendClock::Wall => {
                // Whole ticks a second, as the schedule counts them, so that a time ends where it should.
                let rate = TickRate::from_per_second(TickRate::get().per_second().round());
                Self {
                    rate,
                    is_virtual: false,
                    start_ns: realtime_ns(),
                    raw_start_ns: monotonic_raw_ns(),
                    start: ticks(),
                }
            }
            SendClock::Virtual(start_ns) => Self {
                rate: TickRate::from_per_second(1e9),
                is_virtual: true,
                start: 0,
                start_ns,
                raw_start_ns: 0,
            },
        }
    }

    /// Ticks since the start.
    #[inline]
    fn elapsed(&self) -> u64 {
        ticks().wrapping_sub(self.start)
    }

    fn time_ns(&self, elapsed: u64) -> i64 {
        self.start_ns
            .saturating_add(self.rate.to_ns(elapsed).cast_signed())
    }
}

impl<'a, S: Source + ?Sized> Sender<'a, S> {
    fn new(
        source: &'a mut S,
        options: &SendOptions,
        truth: Option<&'a mut Truth>,
        control: &'a SendControl,
    ) -> Self {
        let clock = Clock::new(options.clock);
        let schedule = match options.pacing {
            Pacing::Rate(rate) => Some(Schedule::new(
                rate,
                clock.rate.per_second().round() as u64,
                source.mean_length(),
            )),
            _ => None,
        };
        let per_second = clock.rate.per_second() as u128;
        let ticks_of = |time: Duration| {
            let ticks = (time.as_nanos() * per_second).div_ceil(1_000_000_000);
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        let deadline = options.duration.map_or(u64::MAX, ticks_of);
        let classes = source.classes().len();
        Self {
            lateness: Lateness::new(clock.rate),
            catch_up_end: deadline.saturating_add(clock.rate.to_ticks(LINGER_NS)),
            deadline,
            clock,
            schedule,
            source,
            options: SendOptions {
                burst: options.burst.clamp(1, BURST),
                ..*options
            },
            truth,
            control,
            pending: Pending {
                flows: [0; BURST],
                lengths: [0; BURST],
                count: 0,
            },
            report: SendReport {
                by_class: vec![0; classes],
                ..SendReport::default()
            },
            last_due: 0,
            classes,
            is_down: false,
        }
    }

    fn run(mut self, sink: &mut (impl Transmit + ?Sized)) -> Result<SendReport, PortError> {
        // The wait for the calibration is over: the first packet is due now.
        let mut elapsed = if self.clock.is_virtual {
            0
        } else {
            self.clock.elapsed()
        };
        while !self.control.stop.load(Ordering::Relaxed) {
            if !self.clock.is_virtual {
                elapsed = self.clock.elapsed();
            }
            let fresh = match self.due(elapsed) {
                Due::Frames(count) => {
                    count.min(self.options.burst - self.pending.count.min(self.options.burst))
                }
                Due::Wait(_) if self.pending.count > 0 => 0,
                Due::Wait(until) => {
                    self.lateness.close_windows(elapsed);
                    self.wait(elapsed, until);
                    continue;
                }
                Due::Finished if self.pending.count > 0 && elapsed < self.catch_up_end => 0,
                Due::Finished => break,
            };
            self.send_burst(sink, elapsed, fresh)?;
            if self.report.link_lost {
                break;
            }
        }
        self.report.refused += self.pending.count as u64;
        if !self.clock.is_virtual {
            self.report.elapsed_ns = monotonic_raw_ns() - self.clock.raw_start_ns;
        }
        sink.discard();
        sink.flush()?;
        Ok(self.finish(elapsed))
    }

    /// What is due.
    fn due(&mut self, elapsed: u64) -> Due {
        if self.report.source_ended {
            return Due::Finished;
        }
        let mut left = u64::MAX;
        if let Some(count) = self.options.count {
            left = count.saturating_sub(self.report.offered + self.report.skipped);
            if left == 0 {
                return Due::Finished;
            }
        }
        let most = |count: u64| Due::Frames(count.min(left).min(BURST as u64) as usize);
        if elapsed >= self.catch_up_end {
            return Due::Finished;
        }
        match (&mut self.schedule, self.options.pacing) {
            (Some(schedule), _) => {
                let next = schedule.next_ticks();
                if next >= self.deadline {
                    return Due::Finished;
                }
                if self.clock.is_virtual {
                    return most(1);
                }
                // What is due after the end is not intended.
                let mut due = schedule.due(elapsed.min(self.deadline - 1));
                if let WhenLate::Skip(limit) = self.options.when_late {
                    let limit = self.clock.rate.to_ticks(limit.as_nanos() as u64);
                    let behind = elapsed.saturating_sub(next);
                    if behind > limit {
                        let late = schedule.packets_in(behind - limit) as u64;
                        let skipped = late.min(due).min(left);
                        let bytes = (skipped as f64 * self.source.mean_length()) as u64;
                        schedule.advance(skipped, bytes);
                        self.report.skipped += skipped;
                        due -= skipped;
                        left -= skipped;
                        if left == 0 {
                            return Due::Finished;
                        }
                    }
                }
                if due == 0 {
                    return Due::Wait(schedule.next_ticks());
                }
                Due::Frames(due.min(left).min(BURST as u64) as usize)
            }
            (None, Pacing::Recorded(speed)) => match self.source.next_due_ns() {
                None => most(1),
                Some(next_ns) => {
                    let next = self.clock.rate.to_ticks((next_ns as f64 / speed) as u64);
                    if next >= self.deadline {
                        Due::Finished
                    } else if self.clock.is_virtual || next <= elapsed {
                        self.last_due = next;
                        most(1)
                    } else {
                        Due::Wait(next)
                    }
                }
            },
            (None, _) => {
                if elapsed >= self.deadline {
                    return Due::Finished;
                }
                most(BURST as u64)
            }
        }
    }

    /// Waits for a packet that is due later: awake when it is near.
    fn wait(&self, elapsed: u64, until: u64) {
        let wait_ns = self.clock.rate.to_ns(until.saturating_sub(elapsed));
        if wait_ns > SLEEP_FROM_NS {
            let sleep = (wait_ns - SLEEP_FROM_NS / 2).min(SLEEP_MAX_NS);
            std::thread::sleep(Duration::from_nanos(sleep));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Builds `fresh` frames and hands them to the link behind those that it did not take before.
    fn send_burst(
        &mut self,
        sink: &mut (impl Transmit + ?Sized),
        elapsed: u64,
        fresh: usize,
    ) -> Result<(), PortError> {
        let pending = &mut self.pending;
        let time_ns = match (&self.schedule, self.options.pacing) {
            (Some(schedule), _) if self.clock.is_virtual => {
                self.clock.time_ns(schedule.next_ticks())
            }
            (None, Pacing::Recorded(_)) if self.clock.is_virtual => self.clock.time_ns(self.last_due),
            _ => self.clock.time_ns(elapsed),
        };
        let slots = sink.reserve(pending.count + fresh, self.source.slot_bytes())?;
        let old = pending.count.min(slots.len());
        let new = &mut slots[old..];
        let count = new.len().min(fresh);
        let new = &mut new[..count];
        let mut filled = 0;
        if count > 0 {
            for slot in new.iter_mut() {
                slot.time_ns = time_ns;
            }
            let flows = &mut pending.flows[pending.count..pending.count + count];
            let result = self.source.fill(new, flows)?;
            filled = result.frames.min(count);
            for (slot, length) in new[..filled]
                .iter()
                .zip(&mut pending.lengths[pending.count..])
            {
                *length = slot.length as u16;
            }
            self.report.source_ended = result.frames < count;
            if let Some(schedule) = &mut self.schedule {
                if !self.clock.is_virtual {
                    self.lateness.record(schedule, elapsed, filled as u64);
                }
                schedule.advance(filled as u64, result.bytes);
            } else if !self.clock.is_virtual && matches!(self.options.pacing, Pacing::Recorded(_)) {
                let late = elapsed.saturating_sub(self.last_due);
                self.lateness.record_constant(late, filled as u64);
            }
            pending.count += filled;
            self.report.offered += filled as u64;
        }
        let submitted = old + filled;
        let taken = sink.submit(submitted)?.min(submitted);
        if taken < submitted || (fresh > 0 && count == 0) {
            self.report.link_full += 1;
        }
        self.record_sent(taken);
        if self.pending.count > 0 && self.options.when_full == WhenFull::Drop {
            sink.discard();
            self.report.refused += self.pending.count as u64;
            self.pending.count = 0;
        }
        if taken == 0 || self.is_down {
            self.check_link(sink);
            if self.is_down && taken == 0 {
                std::thread::sleep(DOWN_PAUSE);
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Hears what a link says that takes nothing, and whether it is down for too long.
    #[cold]
    fn check_link(&mut self, sink: &mut (impl Transmit + ?Sized)) {
        while let Some(notice) = sink.next_notice() {
            self.control.notify(notice);
        }
        let down = sink.down_since();
        self.is_down = down.is_some();
        self.report.link_lost = self.options.count.is_some()
            && self.options.when_full == WhenFull::Retry
            && down.is_some_and(|since| since.elapsed() >= self.options.link_down_max);
    }

    /// The link took the first `taken` of what was pending.
    fn record_sent(&mut self, taken: usize) {
        let pending = &mut self.pending;
        let bytes: u64 = pending.lengths[..taken]
            .iter()
            .map(|&length| u64::from(length))
            .sum();
        self.report.bytes += bytes;
        self.report.sent += taken as u64;
        if let Some(truth) = &mut self.truth {
            truth.record(&pending.flows[..taken], &pending.lengths[..taken]);
        }
        if self.classes > 1 {
            for &flow in &pending.flows[..taken] {
                if let Some(count) = self.report.by_class.get_mut(self.source.class_of(flow)) {
                    *count += 1;
                }
            }
        }
        if taken < pending.count {
            pending.flows.copy_within(taken..pending.count, 0);
            pending.lengths.copy_within(taken..pending.count, 0);
        }
        pending.count -= taken;
        self.control.sent.store(self.report.sent, Ordering::Relaxed);
    }

    fn finish(mut self, elapsed: u64) -> SendReport {
        let report = &mut self.report;
        if let [only] = &mut report.by_class[..] {
            *only = report.sent;
        }
        if self.clock.is_virtual {
            let next = self.schedule.as_ref();
            let next = next.map_or(self.last_due, Schedule::next_ticks);
            report.elapsed_ns = self.clock.rate.to_ns(next);
        }
        let turned = report.offered + report.skipped;
        report.intended = turned;
        if let Some(schedule) = self.schedule {
            // What the schedule had due when the run ended, and nobody built.
            let until = elapsed.min(self.deadline.saturating_sub(1));
            if !self.clock.is_virtual && !report.source_ended {
                let left = self
                    .options
                    .count
                    .map_or(u64::MAX, |count| count - turned.min(count));
                report.unsent = schedule.due(until).min(left);
                report.intended += report.unsent;
            }
            // Windows after the last packet was due are no part of the run.
            if report.unsent > 0 {
                self.lateness.close_windows(elapsed);
            }
            if !self.clock.is_virtual {
                let (histogram, worst) = self.lateness.finish(&schedule);
                report.lateness = Some(histogram);
                report.worst_window = worst;
            }
        } else {
            if let Some(count) = self.options.count
                && !report.source_ended
            {
                report.unsent = count - turned.min(count);
                report.intended = turned + report.unsent;
            }
            if !self.clock.is_virtual && matches!(self.options.pacing, Pacing::Recorded(_)) {
                report.lateness = Some(self.lateness.into_histogram());
            }
        }
        self.report
    }
}

/// What is due.
enum Due {
    /// So many frames.
    Frames(usize),
    /// The next one at this tick.
    Wait(u64),
    /// None, and none later.
    Finished,
}
