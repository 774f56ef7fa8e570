//! Delays between attempts to connect.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Mean of the first delay.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// Longest delay. Short, because a run that reads a file waits for a receiver for some seconds only,
/// and because an attempt costs one packet.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// A connection that lasted this long has worked: the next failure starts with the first delay again.
/// A receiver that accepts connections and closes them at once does not reset the delay.
const STABLE_AFTER: Duration = DELAY_MAX;

/// Exponential back-off with jitter, so that many senders do not return to a restarted receiver at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    delay: Duration,
    random: u64,
}

impl Backoff {
    /// Starts with the first delay and a random seed.
    pub(crate) fn new() -> Self {
        Self::with_seed(RandomState::new().build_hasher().finish())
    }

    fn with_seed(seed: u64) -> Self {
        Self {
            delay: DELAY_MIN,
            // The generator needs a state other than 0.
            random: seed | 1,
        }
    }

    /// Returns the next delay, between half of the current one and all of it, and doubles that.
    pub(crate) fn next_delay(&mut self) -> Duration {
        // xorshift64 (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let fraction = (self.random >> 32) as f64 / f64::from(u32::MAX);
        let delay = self.delay.mul_f64(0.5 + 0.5 * fraction.min(1.0));
        self.delay = (2 * self.delay).min(DELAY_MAX);
        delay
    }

    /// Starts again with the first delay if a connection that has ended after `lasted` was stable.
    /// Returns whether it was.
    pub(crate) fn connection_ended(&mut self, lasted: Duration) -> bool {
        let was_stable = lasted >= STABLE_AFTER;
        if was_stable {
            self.delay = DELAY_MIN;
        }
        was_stable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_within_their_jitter() {
        let mut backoff = Backoff::with_seed(7);
        let mut expected = DELAY_MIN;
        for _ in 0..50 {
            let delay = backoff.next_delay();
            assert!(delay >= expected / 2 && delay <= expected, "{delay:?}");
            expected = (2 * expected).min(DELAY_MAX);
        }
    }

    #[test]
    fn delays_of_two_senders_differ() {
        let delays = |seed| {
            let mut backoff = Backoff::with_seed(seed);
            [(); 8].map(|()| backoff.next_delay())
        };
        assert_ne!(delays(2), delays(4));
        assert_eq!(delays(2), delays(2));
    }

    #[test]
    fn only_a_stable_connection_resets_the_delay() {
        let mut backoff = Backoff::with_seed(7);
        for _ in 0..10 {
            backoff.next_delay();
        }
        assert!(!backoff.connection_ended(STABLE_AFTER / 2));
        assert!(backoff.next_delay() >= DELAY_MAX / 2);
        assert!(backoff.connection_ended(STABLE_AFTER));
        assert!(backoff.next_delay() <= DELAY_MIN);
    }
}
