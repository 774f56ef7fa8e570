//! The time of a burst: the machine's clock, read by the time-stamp counter.

use hw::time::{TickRate, realtime_ns, ticks};

/// Between two readings of the machine's clock, which time servers steer.
const ANCHOR_NS: u64 = 10_000_000;

/// A step back by less is the error of two readings, and left out.
const JITTER_NS: i64 = 100_000;

/// Counter and clock are read together within so many nanoseconds, or read again.
const TOGETHER_NS: u64 = 5_000;

/// How often that is tried.
const READINGS: usize = 4;

/// `CLOCK_REALTIME`, at the price of reading a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    rate: TickRate,
    anchor: Anchor,
    /// Ticks after the anchor at which the clock is read anew.
    anchor_lasts: u64,
    last_ns: i64,
}

/// Counter and clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: i64,
}

impl Anchor {
    /// Reads both; a thread that is halted in between tries again.
    fn read(rate: TickRate) -> Self {
        let together = rate.to_ticks(TOGETHER_NS);
        let mut best = (u64::MAX, Self { ticks: 0, ns: 0 });
        for _ in 0..READINGS {
            let before = ticks();
            let ns = realtime_ns();
            let took = ticks().wrapping_sub(before);
            if took < best.0 {
                let ticks = before.wrapping_add(took / 2);
                best = (took, Self { ticks, ns });
            }
            if took <= together {
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
            anchor_lasts: rate.to_ticks(ANCHOR_NS),
            last_ns: anchor.ns,
        }
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn now_ns(&mut self) -> i64 {
        let rate = self.rate;
        self.at(ticks(), || Anchor::read(rate))
    }

    #[inline]
    fn at(&mut self, ticks: u64, read: impl FnOnce() -> Anchor) -> i64 {
        let passed = ticks.wrapping_sub(self.anchor.ticks);
        if passed < self.anchor_lasts {
            let now = self.anchor.ns + self.rate.to_ns(passed).cast_signed();
            self.follow(now)
        } else {
            self.anchor = read();
            self.follow(self.anchor.ns)
        }
    }

    /// A clock that was set back is followed; two readings that err are not.
    #[inline]
    fn follow(&mut self, now: i64) -> i64 {
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
    fn time_goes_by_ticks_and_errors_of_reading_do_not_turn_it_back() {
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
        // Ten milliseconds later by the counter, by the clock 50 µs less.
        let late = 100 + 20_000_000;
        assert_eq!(clock.at(late - 2, never), 10_005_000 - 1);
        let held = clock.at(late, anchor(late, 9_955_000));
        assert_eq!(held, 10_005_000 - 1);
        assert_eq!(clock.at(late + 20_000, never), held);
        assert_eq!(clock.at(late + 200_000, never), 10_055_000);
        // Set back by a second, it is followed.
        let later = late + 20_000_000;
        assert_eq!(
            clock.at(later, anchor(later, -1_000_000_000)),
            -1_000_000_000
        );
    }

    #[test]
    fn it_is_the_machines_clock() {
        let mut clock = Clock::new();
        let before = realtime_ns();
        let now = clock.now_ns();
        assert!((now - before).abs() < 3_600_000_000_000, "{now} {before}");
    }
}
