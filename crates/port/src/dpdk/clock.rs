//! The time of a burst: the machine's clock, read by the time-stamp counter.

use hw::time::{TickRate, realtime_ns, ticks};

/// Between two readings of the machine's clock, which time servers steer.
const ANCHOR_NS: u64 = 10_000_000;

/// A step back by less is the error of two readings, and left out.
const JITTER_NS: i64 = 100_000;

/// `CLOCK_REALTIME`, at the price of reading a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    rate: TickRate,
    anchor_ticks: u64,
    anchor_ns: i64,
    /// Ticks after the anchor at which the clock is read anew.
    anchor_lasts: u64,
    last_ns: i64,
}

impl Clock {
    pub(super) fn new() -> Self {
        let rate = TickRate::get();
        Self {
            rate,
            anchor_ticks: ticks(),
            anchor_ns: realtime_ns(),
            anchor_lasts: rate.to_ticks(ANCHOR_NS),
            last_ns: 0,
        }
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn now_ns(&mut self) -> i64 {
        let passed = ticks().wrapping_sub(self.anchor_ticks);
        if passed >= self.anchor_lasts {
            return self.anchor();
        }
        self.last_ns = self.anchor_ns + self.rate.to_ns(passed).cast_signed();
        self.last_ns
    }

    #[cold]
    fn anchor(&mut self) -> i64 {
        self.anchor_ticks = ticks();
        let now = realtime_ns();
        // A clock that was set back is followed; two readings that err are not.
        let behind = (0..JITTER_NS).contains(&(self.last_ns - now));
        self.anchor_ns = if behind { self.last_ns } else { now };
        self.last_ns = self.anchor_ns;
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_machines_and_does_not_go_back() {
        let mut clock = Clock::new();
        let before = realtime_ns();
        let times: Vec<i64> = (0..200_000).map(|_| clock.now_ns()).collect();
        let after = realtime_ns();
        assert!(times.is_sorted());
        // Within the error of an anchor of 10 ms at a rate known to a part in a thousand.
        let near = before - 100_000..after + 100_000;
        assert!(near.contains(&times[0]) && near.contains(&times[times.len() - 1]));
    }
}
