//! The sender: passes frames of a source to a link when they are due.

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

/// What determines when packets are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// As fast as the link accepts frames.
    Link,
    /// A constant rate.
    Rate(Rate),
    /// The timestamps of the source, accelerated by this factor.
    Recorded(f64),
}

/// What happens to late packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLate {
    /// They are sent as fast as the link accepts them, to reach the mean rate.
    CatchUp,
    /// Packets that are later than this are skipped and counted.
    Skip(Duration),
}

/// What happens to frames that the link does not accept immediately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are offered again until the link accepts them.
    #[default]
    Retry,
    /// They are dropped and counted as refused.
    Drop,
}

/// The clock of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendClock {
    /// The real-time clock.
    Wall,
    /// A simulated clock that never waits, for files. It starts at this time, in nanoseconds since the
    /// Unix epoch, and advances to the time at which each frame is due.
    Virtual(i64),
}

/// The options of [`send`].
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// What determines when packets are due.
    pub pacing: Pacing,
    /// The clock.
    pub clock: SendClock,
    /// Ends the run after this many packets.
    pub count: Option<u64>,
    /// Ends the run after this time. Packets that are due earlier are intended.
    pub duration: Option<Duration>,
    /// What happens to late packets.
    pub when_late: WhenLate,
    /// What happens to frames that the link does not accept immediately.
    pub when_full: WhenFull,
    /// Ends the run when the link has been down for this long. Only applies with a count and
    /// [`WhenFull::Retry`], where the run would otherwise not end.
    pub link_down_max: Duration,
    /// The maximum number of frames passed to the link at once, up to [`BURST`].
    pub burst: usize,
}

/// Time between two attempts to send on a link that is down.
const DOWN_PAUSE: Duration = Duration::from_millis(1);

/// The default of [`SendOptions::link_down_max`].
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

/// Observes and stops a sender from another thread.
#[derive(Debug, Default)]
pub struct SendControl {
    /// Set this to end the run.
    pub stop: AtomicBool,
    /// Frames that the link has accepted so far.
    pub sent: AtomicU64,
    /// Notices of the link since the last [`SendControl::take_notices`].
    pub notices: Mutex<Vec<String>>,
}

impl SendControl {
    /// Returns and removes the notices of the link, such as "down" and "up".
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn notify(&self, notice: String) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
    }
}

/// The result of a run: `intended = offered + skipped + unsent` and `offered = sent + refused`.
#[derive(Clone, Default)]
pub struct SendReport {
    /// Packets that were due by count, duration and rate until the end of the run. Equal to `offered` if
    /// none of these determines a number.
    pub intended: u64,
    /// Frames built and passed to the link.
    pub offered: u64,
    /// Frames that the link accepted.
    pub sent: u64,
    /// Bytes of these frames, without frame check sequences.
    pub bytes: u64,
    /// Frames that the link did not accept and that were dropped.
    pub refused: u64,
    /// Packets skipped because they were too late.
    pub skipped: u64,
    /// Intended packets that were not built when the run ended.
    pub unsent: u64,
    /// How often the link was full.
    pub link_full: u64,
    /// Time from the first packet to the end of the run, by `CLOCK_MONOTONIC_RAW`. With a virtual clock,
    /// to the time at which one more packet would be due, or with [`Pacing::Recorded`], to the last
    /// packet.
    pub elapsed_ns: u64,
    /// Lateness of packets in nanoseconds, with [`Pacing::Rate`] and [`Pacing::Recorded`].
    pub lateness: Option<Histogram>,
    /// The worst ten milliseconds, with [`Pacing::Rate`] and if the run lasted that long.
    pub worst_window: Option<WorstWindow>,
    /// Frames that the link accepted, by [`Source::classes`].
    pub by_class: Vec<u64>,
    /// Whether the source ended.
    pub source_ended: bool,
    /// Whether the run ended because the link was down for too long.
    pub link_lost: bool,
}

/// Late packets may still be sent for this long after the end of the duration.
const CATCH_UP_NS: u64 = 20_000_000;

/// The sender sleeps if the next packet is due later than this, and otherwise spins.
const SLEEP_THRESHOLD_NS: u64 = 2_000_000;

/// The maximum time of one sleep, to notice [`SendControl::stop`] in time.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// Frames that were built but not accepted by the link yet, oldest first.
struct Pending {
    flows: [u32; BURST],
    lengths: [u16; BURST],
    count: usize,
}

/// Sends frames of `source` to `sink` until the count or the duration is reached, the source ends, the
/// link is lost, or `control` stops it.
///
/// # Errors
/// If the link or the source fails.
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
    /// When the last packet was due by the timestamps of the source, in ticks after the start.
    last_due: u64,
    /// When the duration ends, in ticks after the start; `u64::MAX` for never.
    deadline: u64,
    /// When catching up ends, too.
    catch_up_end: u64,
    classes: usize,
    /// Whether the link was down at the last check.
    is_down: bool,
}

/// Converts ticks since the start to time.
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
                // Rounded like in the schedule, so that a duration contains the exact number of packets.
                let rate = TickRate::from_per_second(TickRate::get().per_second().round());
                Self {
                    rate,
                    is_virtual: false,
                    start_ns: realtime_ns(),
                    raw_start_ns: monotonic_raw_ns(),
                    // Read after `TickRate::get`, whose first call takes time to calibrate: the
                    // first packet is due now.
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
            catch_up_end: deadline.saturating_add(clock.rate.to_ticks(CATCH_UP_NS)),
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
        let mut elapsed = if self.clock.is_virtual {
            0
        } else {
            self.clock.elapsed()
        };
        while !self.control.stop.load(Ordering::Relaxed) {
            if !self.clock.is_virtual {
                elapsed = self.clock.elapsed();
            }
            let new_frames = match self.due(elapsed) {
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
            self.send_burst(sink, elapsed, new_frames)?;
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

    /// Determines what is due.
    fn due(&mut self, elapsed: u64) -> Due {
        if self.report.source_ended {
            return Due::Finished;
        }
        let mut remaining = u64::MAX;
        if let Some(count) = self.options.count {
            remaining = count.saturating_sub(self.report.offered + self.report.skipped);
            if remaining == 0 {
                return Due::Finished;
            }
        }
        let up_to = |count: u64| Due::Frames(count.min(remaining).min(BURST as u64) as usize);
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
                    return up_to(1);
                }
                // Packets that are due after the end are not intended.
                let mut due = schedule.due(elapsed.min(self.deadline - 1));
                if let WhenLate::Skip(limit) = self.options.when_late {
                    let limit = self.clock.rate.to_ticks(limit.as_nanos() as u64);
                    let late = elapsed.saturating_sub(next);
                    if late > limit {
                        let too_late = schedule.packets_in(late - limit) as u64;
                        let skipped = too_late.min(due).min(remaining);
                        let bytes = (skipped as f64 * self.source.mean_length()) as u64;
                        schedule.advance(skipped, bytes);
                        self.report.skipped += skipped;
                        due -= skipped;
                        remaining -= skipped;
                        if remaining == 0 {
                            return Due::Finished;
                        }
                    }
                }
                if due == 0 {
                    return Due::Wait(schedule.next_ticks());
                }
                Due::Frames(due.min(remaining).min(BURST as u64) as usize)
            }
            (None, Pacing::Recorded(speed)) => match self.source.next_due_ns() {
                None => up_to(1),
                Some(next_ns) => {
                    let next = self.clock.rate.to_ticks((next_ns as f64 / speed) as u64);
                    if next >= self.deadline {
                        Due::Finished
                    } else if self.clock.is_virtual || next <= elapsed {
                        self.last_due = next;
                        up_to(1)
                    } else {
                        Due::Wait(next)
                    }
                }
            },
            (None, _) => {
                if elapsed >= self.deadline {
                    return Due::Finished;
                }
                up_to(BURST as u64)
            }
        }
    }

    /// Waits until a packet is due: sleeps for a long wait, spins for a short one.
    fn wait(&self, elapsed: u64, until: u64) {
        let wait_ns = self.clock.rate.to_ns(until.saturating_sub(elapsed));
        if wait_ns > SLEEP_THRESHOLD_NS {
            let sleep = (wait_ns - SLEEP_THRESHOLD_NS / 2).min(SLEEP_MAX_NS);
            std::thread::sleep(Duration::from_nanos(sleep));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Builds `new_frames` frames and passes them to the link, after the pending frames.
    fn send_burst(
        &mut self,
        sink: &mut (impl Transmit + ?Sized),
        elapsed: u64,
        new_frames: usize,
    ) -> Result<(), PortError> {
        let pending = &mut self.pending;
        let time_ns = match (&self.schedule, self.options.pacing) {
            (Some(schedule), _) if self.clock.is_virtual => {
                self.clock.time_ns(schedule.next_ticks())
            }
            (None, Pacing::Recorded(_)) if self.clock.is_virtual => {
                self.clock.time_ns(self.last_due)
            }
            _ => self.clock.time_ns(elapsed),
        };
        let slots = sink.reserve(pending.count + new_frames, self.source.slot_bytes())?;
        let pending_slots = pending.count.min(slots.len());
        let new = &mut slots[pending_slots..];
        let count = new.len().min(new_frames);
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
        let submitted = pending_slots + filled;
        let accepted = sink.submit(submitted)?.min(submitted);
        if accepted < submitted || (new_frames > 0 && count == 0) {
            self.report.link_full += 1;
        }
        self.record_sent(accepted);
        if self.pending.count > 0 && self.options.when_full == WhenFull::Drop {
            sink.discard();
            self.report.refused += self.pending.count as u64;
            self.pending.count = 0;
        }
        if accepted == 0 || self.is_down {
            self.check_link(sink);
            if self.is_down && accepted == 0 {
                std::thread::sleep(DOWN_PAUSE);
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Collects the notices of a link that accepts no frames, and checks whether it has been down for too
    /// long.
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

    /// Records that the link accepted the first `accepted` pending frames, and removes them.
    fn record_sent(&mut self, accepted: usize) {
        let pending = &mut self.pending;
        let bytes: u64 = pending.lengths[..accepted]
            .iter()
            .map(|&length| u64::from(length))
            .sum();
        self.report.bytes += bytes;
        self.report.sent += accepted as u64;
        if let Some(truth) = &mut self.truth {
            truth.record(&pending.flows[..accepted], &pending.lengths[..accepted]);
        }
        if self.classes > 1 {
            for &flow in &pending.flows[..accepted] {
                if let Some(count) = self.report.by_class.get_mut(self.source.class_of(flow)) {
                    *count += 1;
                }
            }
        }
        if accepted < pending.count {
            pending.flows.copy_within(accepted..pending.count, 0);
            pending.lengths.copy_within(accepted..pending.count, 0);
        }
        pending.count -= accepted;
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
        let handled = report.offered + report.skipped;
        report.intended = handled;
        if let Some(schedule) = self.schedule {
            // Packets that were due when the run ended, but not built.
            let until = elapsed.min(self.deadline.saturating_sub(1));
            if !self.clock.is_virtual && !report.source_ended {
                let remaining = self
                    .options
                    .count
                    .map_or(u64::MAX, |count| count - handled.min(count));
                report.unsent = schedule.due(until).min(remaining);
                report.intended += report.unsent;
            }
            // Without such packets, windows after the last packet do not count.
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
                report.unsent = count - handled.min(count);
                report.intended = handled + report.unsent;
            }
            if !self.clock.is_virtual && matches!(self.options.pacing, Pacing::Recorded(_)) {
                report.lateness = Some(self.lateness.into_histogram());
            }
        }
        self.report
    }
}

/// What a sender has to do now.
enum Due {
    /// Send this many frames.
    Frames(usize),
    /// Wait for the next frame, which is due at this tick.
    Wait(u64),
    /// No more frames are due.
    Finished,
}
