//! How late packets were sent, and the worst ten milliseconds.

use crate::histogram::Histogram;
use crate::schedule::Schedule;
use hw::time::TickRate;

/// How long a window is.
const WINDOW_NS: u64 = 10_000_000;

/// Packets of a burst whose lateness is recorded, evenly spread over it: it falls in a straight line
/// from the first to the last.
const SAMPLES: u64 = 8;

/// The ten milliseconds in which least was sent of what was intended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstWindow {
    /// When it began, nanoseconds after the start.
    pub start_ns: u64,
    /// Packets intended in such a window.
    pub intended: f64,
    /// Packets handed to the link in it.
    pub sent: u64,
}

/// What is recorded while packets are sent.
pub(crate) struct Lateness {
    rate: TickRate,
    histogram: Histogram,
    window_ticks: u64,
    window_end: u64,
    window_sent: u64,
    worst: Option<(u64, u64)>,
}

impl Lateness {
    pub(crate) fn new(rate: TickRate) -> Self {
        let window_ticks = rate.to_ticks(WINDOW_NS).max(1);
        Self {
            rate,
            histogram: Histogram::default(),
            window_ticks,
            window_end: window_ticks,
            window_sent: 0,
            worst: None,
        }
    }

    /// So many packets of the schedule are sent now.
    pub(crate) fn record(&mut self, schedule: &Schedule, elapsed: u64, packets: u64) {
        let mut before = 0;
        let step = packets.div_ceil(SAMPLES).max(1);
        while before < packets {
            let times = step.min(packets - before);
            let late = schedule.lateness(elapsed, before + times / 2);
            self.histogram.record(self.rate.to_ns(late), times);
            before += times;
        }
        self.close_windows(elapsed);
        self.window_sent += packets;
    }

    /// So many packets are sent so many ticks late, without a rate that says how many were to come.
    pub(crate) fn record_constant(&mut self, late: u64, packets: u64) {
        self.histogram.record(self.rate.to_ns(late), packets);
    }

    /// The histogram in nanoseconds.
    pub(crate) fn into_histogram(self) -> Histogram {
        self.histogram
    }

    /// Closes the windows that have passed.
    pub(crate) fn close_windows(&mut self, elapsed: u64) {
        while elapsed >= self.window_end {
            let start = self.window_end - self.window_ticks;
            if self.worst.is_none_or(|(_, sent)| self.window_sent < sent) {
                self.worst = Some((start, self.window_sent));
            }
            self.window_sent = 0;
            // Of a long silence one window is enough.
            let silent = (elapsed - self.window_end) / self.window_ticks;
            if silent > 1 && self.worst.is_some_and(|(_, sent)| sent > 0) {
                self.worst = Some((self.window_end, 0));
            }
            self.window_end += self.window_ticks * silent.max(1);
        }
    }

    /// The histogram in nanoseconds, and the worst whole window.
    pub(crate) fn finish(self, schedule: &Schedule) -> (Histogram, Option<WorstWindow>) {
        let intended = schedule.packets_in(self.window_ticks);
        let worst = self.worst.map(|(start, sent)| WorstWindow {
            start_ns: self.rate.to_ns(start),
            intended,
            sent,
        });
        (self.histogram, worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;

    /// A clock of a tick a nanosecond, and a packet every microsecond.
    fn start() -> (Lateness, Schedule) {
        let rate = TickRate::from_per_second(1e9);
        let schedule = Schedule::new(Rate::Packets(1_000_000_000_000), 1_000_000_000, 60.0);
        (Lateness::new(rate), schedule)
    }

    #[test]
    fn the_window_with_least_is_found() {
        let (mut lateness, mut schedule) = start();
        // 50 ms in time, but in the third window nothing, then all of it at once.
        for tenth in 0..500u64 {
            let now = tenth * 100_000;
            if (20_000_000..30_000_000).contains(&now) {
                continue;
            }
            let due = schedule.due(now);
            lateness.record(&schedule, now, due);
            schedule.advance(due, 0);
        }
        lateness.close_windows(50_000_000);
        let (histogram, worst) = lateness.finish(&schedule);
        let worst = worst.unwrap();
        assert_eq!(worst.start_ns, 20_000_000);
        assert_eq!(worst.sent, 0);
        assert!((worst.intended - 10_000.0).abs() < 0.01);
        // The burst at 30 ms holds 10,000 packets, up to 10 ms late: a fifth of all.
        assert!(histogram.percentile(99.0) > 9_000_000);
        assert!(histogram.percentile(75.0) < 200_000);
        assert_eq!(histogram.count(), 49_901);
    }

    #[test]
    fn in_time_is_not_late() {
        let (mut lateness, mut schedule) = start();
        for packet in 0..20_000u64 {
            lateness.record(&schedule, packet * 1000, 1);
            schedule.advance(1, 60);
        }
        lateness.close_windows(20_000_000);
        let (histogram, worst) = lateness.finish(&schedule);
        assert_eq!(histogram.max(), 0);
        assert_eq!(worst.unwrap().sent, 10_000);
    }
}
