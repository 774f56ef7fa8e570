//! The meter's clock: monotonic milliseconds, driven by packet timestamps.

/// Nanoseconds in a tick.
const TICK_NS: i64 = 1_000_000;

/// The maximum lag of a timestamp that counts as jitter between queues or interfaces. A larger lag
/// means that a clock was set back (or that an older file follows), and time continues from there.
pub const JITTER_MAX_NS: i64 = 10_000 * TICK_NS;

/// A timestamp that falls behind by more than this at once is counted as a step back of the clock.
///
/// Smaller lags come from the order in which queues and interfaces are read: of 1700 captures, twenty
/// are out of order by up to a millisecond, six by up to a second, and none by one to ten seconds.
/// Time continues from the earlier timestamp only beyond [`JITTER_MAX_NS`]. With a lower limit, two
/// sources a few seconds apart would advance the clock each time that packets alternate between them.
const STEP_BACK_MIN_NS: i64 = 1_000 * TICK_NS;

/// Converts packet timestamps to the monotonic milliseconds by which flows time out.
///
/// The result depends on the timestamps alone, so a capture gives the same records with any number of
/// threads. A step back does not move the clock. A step forward counts as at most
/// [`PacketClock::STEP_MS_MAX`], which is longer than any timeout, so it expires every idle flow. The
/// steps of one burst add up to less than half of the clock's range, so differences of two readings do
/// not wrap as long as the table is advanced after every burst.
#[derive(Clone, Debug)]
pub struct PacketClock {
    now_ms: u32,
    /// Start of the current millisecond, in the time of the packets.
    tick_start_ns: i64,
    started: bool,
    /// Lag of the last timestamps.
    lag_ns: i64,
    steps_back: u64,
    steps_forward: u64,
}

impl Default for PacketClock {
    fn default() -> Self {
        Self {
            now_ms: 1,
            tick_start_ns: i64::MIN,
            started: false,
            lag_ns: 0,
            steps_back: 0,
            steps_forward: 0,
        }
    }
}

impl PacketClock {
    /// The maximum for one step forward: about two and a quarter hours, longer than any timeout.
    pub const STEP_MS_MAX: u32 = 8_000_000;

    /// Advances the clock to a packet with the timestamp `time_ns` (nanoseconds since the Unix epoch)
    /// and returns the clock in milliseconds.
    #[inline]
    pub fn advance(&mut self, time_ns: i64) -> u32 {
        if !self.tick().contains(time_ns) {
            self.step(time_ns);
        }
        self.now_ms
    }

    /// Returns the current millisecond.
    #[inline]
    #[must_use]
    pub const fn tick(&self) -> Tick {
        Tick {
            clock_ms: self.now_ms,
            start_ns: self.tick_start_ns,
        }
    }

    /// Returns the current time in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u32 {
        self.now_ms
    }

    /// Returns how often timestamps went back by more than a second.
    #[must_use]
    pub fn steps_back(&self) -> u64 {
        self.steps_back
    }

    /// Returns how often timestamps jumped forward by more than [`PacketClock::STEP_MS_MAX`].
    #[must_use]
    pub fn steps_forward(&self) -> u64 {
        self.steps_forward
    }

    #[inline(never)]
    fn step(&mut self, time_ns: i64) {
        let tick_start_ns = time_ns.saturating_sub(time_ns.rem_euclid(TICK_NS));
        if !self.started {
            self.started = true;
            self.tick_start_ns = tick_start_ns;
            return;
        }
        let ahead = i128::from(tick_start_ns) - i128::from(self.tick_start_ns);
        if ahead > 0 {
            let ticks = u32::try_from(ahead / i128::from(TICK_NS)).unwrap_or(u32::MAX);
            self.now_ms = self.now_ms.wrapping_add(ticks.min(Self::STEP_MS_MAX));
            self.steps_forward += u64::from(ticks > Self::STEP_MS_MAX);
            self.tick_start_ns = tick_start_ns;
            self.lag_ns = 0;
        } else if ahead < -i128::from(JITTER_MAX_NS) {
            self.tick_start_ns = tick_start_ns;
            self.lag_ns = 0;
            self.steps_back += 1;
        } else {
            let lag_ns = -ahead as i64;
            self.steps_back += u64::from(lag_ns > self.lag_ns + STEP_BACK_MIN_NS);
            self.lag_ns = lag_ns;
        }
    }
}

/// A millisecond of the [`PacketClock`].
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    clock_ms: u32,
    start_ns: i64,
}

impl Tick {
    /// Returns the clock's reading in this millisecond.
    #[must_use]
    pub const fn clock_ms(self) -> u32 {
        self.clock_ms
    }

    /// Returns whether the timestamp `time_ns` falls into this millisecond.
    #[inline]
    #[must_use]
    pub const fn contains(self, time_ns: i64) -> bool {
        let ahead = time_ns.wrapping_sub(self.start_ns);
        ahead.cast_unsigned() < TICK_NS.cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn counts_the_milliseconds_between_timestamps() {
        let mut clock = PacketClock::default();
        let start = clock.advance(1_700_000_000 * SECOND + 999_999);
        assert_eq!(clock.advance(1_700_000_000 * SECOND + 1_000_000) - start, 1);
        assert_eq!(clock.advance(1_700_000_001 * SECOND) - start, 1000);
    }

    #[test]
    fn jitter_does_not_move_the_clock_and_time_continues_after_a_step_back() {
        let mut clock = PacketClock::default();
        let start = clock.advance(1000 * SECOND);
        assert_eq!(clock.advance(995 * SECOND), start);
        assert_eq!(clock.advance(1001 * SECOND), start + 1000);
        assert_eq!(clock.advance(10 * SECOND), start + 1000);
        assert_eq!(clock.advance(12 * SECOND), start + 3000);
        assert_eq!(clock.steps_back(), 2);
    }

    #[test]
    fn a_step_back_by_seconds_is_counted_once_and_queue_lag_is_not_counted() {
        let mut clock = PacketClock::default();
        let at = |ms: i64| 1000 * SECOND + ms * TICK_NS;
        let now = clock.advance(at(10_000));
        // From 6.5 s until the timestamps catch up.
        for ms in (6500..10_000).chain([10_000]) {
            assert_eq!(clock.advance(at(ms)), now);
        }
        assert_eq!(clock.steps_back(), 1);
        for ms in 0..1000 {
            clock.advance(at(11_000 + ms));
            clock.advance(at(10_001 + ms));
        }
        assert_eq!(clock.steps_back(), 1);
        // Repeated steps back, each further than the last.
        let now = clock.now_ms();
        for ms in [9700, 9600, 3000, 3500] {
            assert_eq!(clock.advance(at(ms)), now);
        }
        assert_eq!(clock.steps_back(), 3);
    }

    #[test]
    fn a_jump_of_years_counts_as_more_than_any_timeout() {
        let mut clock = PacketClock::default();
        let start = clock.advance(0);
        assert_eq!(
            clock.advance(i64::MAX).wrapping_sub(start),
            PacketClock::STEP_MS_MAX
        );
        assert_eq!((clock.steps_forward(), clock.steps_back()), (1, 0));
    }

    proptest! {
        #[test]
        fn never_goes_back(times in prop::collection::vec(any::<i64>(), 1..50)) {
            let mut clock = PacketClock::default();
            let mut before = clock.now_ms();
            for time in times {
                let now = clock.advance(time);
                prop_assert!(now.wrapping_sub(before) <= PacketClock::STEP_MS_MAX);
                before = now;
            }
        }
    }
}
