//! When a packet has waited long enough for those of other inputs.

use std::time::{Duration, Instant};

/// After this time, the smallest delay is learnt anew, in case that a clock was set.
const RELEARN: Duration = Duration::from_secs(1);

/// Converts the time at which an input was found empty to the time of the last packets that it can
/// have had before.
///
/// The timestamps of packets may come from another clock than the machine's. The difference between
/// the two is learnt from bursts: a packet arrived before it was read, so that the smallest difference
/// seen comes from the packet that was read soonest.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// Start of the machine's times, and the time at which `smallest_ns` was learnt anew.
    start: Option<(Instant, Instant)>,
    /// Smallest difference of the current period and of the one before, in nanoseconds.
    smallest_ns: [i64; 2],
}

impl Delay {
    /// Learns from a burst: when it was read, and the time of its last packet.
    pub(super) fn learn(&mut self, received: Instant, last_ns: i64) {
        let (start, since) = *self.start.get_or_insert((received, received));
        let difference_ns = nanoseconds(start, received).saturating_sub(last_ns);
        let [current, previous] = self.smallest_ns;
        self.smallest_ns = if received == start {
            [difference_ns; 2]
        } else if received.saturating_duration_since(since) >= RELEARN {
            self.start = Some((start, received));
            [difference_ns, current]
        } else {
            [current.min(difference_ns), previous]
        };
    }

    /// Returns the latest time of packets, in a burst read at `received`, that cannot be preceded by
    /// packets of an input that has been empty since `idle_since`, if each packet is delivered within
    /// `window`.
    pub(super) fn due_until(
        &self,
        received: Instant,
        idle_since: Instant,
        window: Duration,
    ) -> i64 {
        let Some((start, _)) = self.start else {
            return i64::MIN;
        };
        if received + window <= idle_since {
            return i64::MAX;
        }
        let window_ns = i64::try_from(window.as_nanos()).unwrap_or(i64::MAX);
        let smallest_ns = self.smallest_ns[0].min(self.smallest_ns[1]);
        nanoseconds(start, idle_since)
            .saturating_sub(window_ns)
            .saturating_sub(smallest_ns)
    }
}

/// Nanoseconds from `start` to `time`, which may be before it.
fn nanoseconds(start: Instant, time: Instant) -> i64 {
    let forward = time.saturating_duration_since(start).as_nanos();
    let back = start.saturating_duration_since(time).as_nanos();
    i64::try_from(forward).unwrap_or(i64::MAX) - i64::try_from(back).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const WINDOW: Duration = Duration::from_millis(30);

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn packets_wait_for_the_window_from_their_arrival() {
        let start = Instant::now();
        let mut delay = Delay::default();
        assert_eq!(delay.due_until(start, after(start, 100), WINDOW), i64::MIN);
        // The clock of packets begins at 5000 ms; the first burst was read 2 ms after its last packet.
        delay.learn(start, 4998 * MS);
        delay.learn(after(start, 10), 5005 * MS);
        let received = after(start, 10);
        assert_eq!(
            delay.due_until(received, after(start, 32), WINDOW),
            5000 * MS
        );
        assert_eq!(
            delay.due_until(received, after(start, 40), WINDOW),
            i64::MAX
        );
    }

    /// After a step of a clock, packets are at most early or late by it for two seconds.
    #[test]
    fn steps_of_a_clock_are_forgotten() {
        let start = Instant::now();
        for step in [-3_600_000 * MS, 3_600_000 * MS] {
            let mut delay = Delay::default();
            let mut until = 0;
            for ms in (0..5000).step_by(10) {
                let step = if ms < 1000 { 0 } else { step };
                delay.learn(after(start, ms), ms.cast_signed() * MS + step);
                until = delay.due_until(after(start, ms), after(start, ms + 10), WINDOW) - step;
            }
            assert_eq!(until, (4990 + 10 - 30) * MS);
        }
    }
}
