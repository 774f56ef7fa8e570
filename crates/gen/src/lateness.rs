//! Measures how late packets were sent, and the worst ten milliseconds.

use crate::histogram::Histogram;
use crate::schedule::Schedule;
use hw::time::TickRate;

/// Duration of a window.
const WINDOW_NS: u64 = 10_000_000;

/// The number of samples per burst, evenly spread: within a burst, lateness falls linearly from the
/// first packet to the last.
const SAMPLES: u64 = 8;

/// The ten milliseconds in which the fewest packets were sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstWindow {
    /// Start of the window, in nanoseconds after the start of the run.
    pub start_ns: u64,
    /// Packets that the rate requires per window.
    pub intended: f64,
    /// Packets passed to the link in this window.
    pub sent: u64,
}

/// Records the lateness of packets, and the packets sent per window.
pub(crate) struct Lateness {
    rate: TickRate,
    histogram: Histogram,
    window_ticks: u64,
    window_end: u64,
    window_sent: u64,
    /// Start in ticks and packets sent of the worst complete window.
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

    /// Records that `packets` packets of the schedule are sent now, `elapsed` ticks after the start.
    pub(crate) fn record(&mut self, schedule: &Schedule, elapsed: u64, packets: u64) {
        let mut recorded = 0;
        let step = packets.div_ceil(SAMPLES).max(1);
        while recorded < packets {
            let times = step.min(packets - recorded);
            let late = schedule.lateness(elapsed, recorded + times / 2);
            self.histogram.record(self.rate.to_ns(late), times);
            recorded += times;
        }
        self.close_windows(elapsed);
        self.window_sent += packets;
    }

    /// Records `packets` packets that are `late` ticks late. Without a schedule there are no windows,
    /// because the intended number of packets is unknown.
    pub(crate) fn record_constant(&mut self, late: u64, packets: u64) {
        self.histogram.record(self.rate.to_ns(late), packets);
    }

    /// Returns the histogram, in nanoseconds.
    pub(crate) fn into_histogram(self) -> Histogram {
        self.histogram
    }

    /// Closes the windows that ended before `elapsed`.
    pub(crate) fn close_windows(&mut self, elapsed: u64) {
        while elapsed >= self.window_end {
            let start = self.window_end - self.window_ticks;
            if self.worst.is_none_or(|(_, sent)| self.window_sent < sent) {
                self.worst = Some((start, self.window_sent));
            }
            self.window_sent = 0;
            // Of several windows without packets, only the first is recorded.
            let empty_windows = (elapsed - self.window_end) / self.window_ticks;
            if empty_windows > 1 && self.worst.is_some_and(|(_, sent)| sent > 0) {
                self.worst = Some((self.window_end, 0));
            }
            self.window_end += self.window_ticks * empty_windows.max(1);
        }
    }

    /// Returns the histogram, in nanoseconds, and the worst complete window.
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

    /// A clock with a tick per nanosecond, and a schedule with a packet per microsecond.
    fn start() -> (Lateness, Schedule) {
        let rate = TickRate::from_per_second(1e9);
        let schedule = Schedule::new(Rate::Packets(1_000_000_000_000), 1_000_000_000, 60.0);
        (Lateness::new(rate), schedule)
    }

    #[test]
    fn finds_the_window_with_the_fewest_packets() {
        let (mut lateness, mut schedule) = start();
        // 50 ms on time, except that the packets of the third window are all sent at its end.
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
    fn packets_on_time_have_no_lateness() {
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
