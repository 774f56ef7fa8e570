//! Timestamps of bursts: the system clock, interpolated by the TSC.

use hw::time::{TickRate, realtime_ns, ticks};

/// Time between two readings of the system clock, whose rate NTP adjusts.
const ANCHOR_LIFETIME_NS: u64 = 10_000_000;

/// Smaller backward steps are measurement errors and suppressed.
const JITTER_NS: i64 = 100_000;

/// TSC and clock must be read within this time, or are read again.
const READ_WINDOW_NS: u64 = 5_000;

/// Attempts to read both within that time.
const READ_ATTEMPTS: usize = 4;

/// `CLOCK_REALTIME` at the cost of reading the TSC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    rate: TickRate,
    anchor: Anchor,
    /// Ticks after the anchor at which the clock is read again.
    anchor_ticks: u64,
    last_ns: i64,
}

/// TSC and clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: i64,
}

impl Anchor {
    /// Reads both; tries again if the thread was preempted in between.
    fn read(rate: TickRate) -> Self {
        let window = rate.to_ticks(READ_WINDOW_NS);
        let mut best = (u64::MAX, Self { ticks: 0, ns: 0 });
        for _ in 0..READ_ATTEMPTS {
            let before = ticks();
            let ns = realtime_ns();
            let elapsed = ticks().wrapping_sub(before);
            if elapsed < best.0 {
                let ticks = before.wrapping_add(elapsed / 2);
                best = (elapsed, Self { ticks, ns });
            }
            if elapsed <= window {
                break;
            }
        }
        best.1
    }
}

impl Clock {
    pub(super) fn new() -> Self {
        let rate = TickRate::get();
        Self::from(rate, Anchor::read(rate))
    }

    fn from(rate: TickRate, anchor: Anchor) -> Self {
        Self {
            rate,
            anchor,
            anchor_ticks: rate.to_ticks(ANCHOR_LIFETIME_NS),
            last_ns: anchor.ns,
        }
    }

    /// Current time in nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn now_ns(&mut self) -> i64 {
        let rate = self.rate;
        self.at(ticks(), || Anchor::read(rate))
    }

    #[inline]
    fn at(&mut self, ticks: u64, read: impl FnOnce() -> Anchor) -> i64 {
        let elapsed = ticks.wrapping_sub(self.anchor.ticks);
        if elapsed < self.anchor_ticks {
            let now = self.anchor.ns + self.rate.to_ns(elapsed).cast_signed();
            self.smooth(now)
        } else {
            self.anchor = read();
            self.smooth(self.anchor.ns)
        }
    }

    /// Suppresses small backward steps; follows larger ones, since the clock may have been set back.
    #[inline]
    fn smooth(&mut self, now: i64) -> i64 {
        if !(1..JITTER_NS).contains(&(self.last_ns - now)) {
            self.last_ns = now;
        }
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_ticks_and_jitter_does_not_step_back() {
        let rate = TickRate::from_per_second(2e9);
        let anchor = |ticks, ns| move || Anchor { ticks, ns };
        let never = || -> Anchor { panic!("the anchor is fresh") };
        let mut clock = Clock::from(
            rate,
            Anchor {
                ticks: 100,
                ns: 5000,
            },
        );
        assert_eq!(clock.at(100 + 2_000_000, never), 1_005_000);
        // Ten milliseconds later by the TSC, 50 µs less by the clock.
        let late = 100 + 20_000_000;
        assert_eq!(clock.at(late - 2, never), 10_005_000 - 1);
        let constant = clock.at(late, anchor(late, 9_955_000));
        assert_eq!(constant, 10_005_000 - 1);
        assert_eq!(clock.at(late + 20_000, never), constant);
        assert_eq!(clock.at(late + 200_000, never), 10_055_000);
        // The clock was set back by a second, which is followed.
        let later = late + 20_000_000;
        assert_eq!(
            clock.at(later, anchor(later, -1_000_000_000)),
            -1_000_000_000
        );
    }

    #[test]
    fn clock_matches_the_system_clock() {
        let mut clock = Clock::new();
        let before = realtime_ns();
        let now = clock.now_ns();
        assert!((now - before).abs() < 3_600_000_000_000, "{now} {before}");
    }
}
