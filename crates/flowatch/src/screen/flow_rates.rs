//! What each of the largest flows sends at present: the difference between two views.

use super::state::both;
use flow::{LiveView, Record};
use std::collections::HashMap;
use std::time::Duration;
use wire::FlowKey;

/// A flow as it was last seen to grow.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bytes: u64,
    at: Duration,
    bits_per_second: f64,
}

/// Rates of the flows that are shown.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowRates {
    seen: HashMap<FlowKey, Seen>,
    /// Views are this far apart.
    round: Duration,
}

impl FlowRates {
    /// With views that are `round` apart.
    pub(super) fn new(round: Duration) -> Self {
        Self {
            seen: HashMap::new(),
            round,
        }
    }

    /// Takes the view of a moment; the same one again does no harm.
    pub(super) fn update(&mut self, now: Duration, view: &LiveView) {
        let before = std::mem::take(&mut self.seen);
        // What has not grown for a round and a half was seen once more since, and stands still.
        let patience = self.round.saturating_mul(3) / 2 + Duration::from_millis(500);
        for record in &view.top {
            let bytes = both(record.bytes);
            let seen = match before.get(&record.key) {
                Some(&seen) if bytes == seen.bytes => {
                    let still = now.saturating_sub(seen.at) > patience;
                    Seen {
                        bits_per_second: if still { 0.0 } else { seen.bits_per_second },
                        ..seen
                    }
                }
                Some(seen) if bytes > seen.bytes && now > seen.at => {
                    let seconds = (now - seen.at).as_secs_f64();
                    let bits_per_second = (bytes - seen.bytes) as f64 * 8.0 / seconds;
                    Seen {
                        bytes,
                        at: now,
                        bits_per_second,
                    }
                }
                // Not seen before, or another flow with the same key.
                _ => Seen {
                    bytes,
                    at: now,
                    bits_per_second: mean(record),
                },
            };
            self.seen.insert(record.key, seen);
        }
    }

    /// Bits per second of a flow: between its last two views, or over its life where there is but
    /// one; NaN where that took no time.
    pub(super) fn bits_per_second(&self, record: &Record) -> f64 {
        self.seen
            .get(&record.key)
            .map_or_else(|| mean(record), |seen| seen.bits_per_second)
    }
}

/// How long a flow has lasted.
pub(super) fn lasted(record: &Record) -> Duration {
    let nanoseconds = record.end_ns.saturating_sub(record.start_ns);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

fn mean(record: &Record) -> f64 {
    let seconds = lasted(record).as_secs_f64();
    if seconds > 0.0 {
        both(record.bytes) as f64 * 8.0 / seconds
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::{record, view};

    #[test]
    fn a_flow_has_its_mean_first_then_the_difference_then_nothing() {
        let second = Duration::from_secs(1);
        let mut rates = FlowRates::new(5 * second);
        let first = record("192.0.2.1", "192.0.2.2", 1_000_000, 4.0);
        rates.update(10 * second, &view(vec![first]));
        assert!((rates.bits_per_second(&first) - 2e6).abs() < 1.0);
        let later = record("192.0.2.1", "192.0.2.2", 6_000_000, 9.0);
        rates.update(15 * second, &view(vec![later]));
        assert!((rates.bits_per_second(&later) - 8e6).abs() < 1.0);
        rates.update(20 * second, &view(vec![later]));
        assert!((rates.bits_per_second(&later) - 8e6).abs() < 1.0);
        rates.update(25 * second, &view(vec![later]));
        assert_eq!(rates.bits_per_second(&later), 0.0);
        // The same key anew.
        rates.update(30 * second, &view(vec![first]));
        assert!((rates.bits_per_second(&first) - 2e6).abs() < 1.0);
    }

    #[test]
    fn a_flow_of_one_packet_has_no_rate() {
        let mut rates = FlowRates::new(Duration::from_secs(5));
        let one = record("192.0.2.1", "192.0.2.2", 100, 0.0);
        assert!(rates.bits_per_second(&one).is_nan());
        rates.update(Duration::ZERO, &view(vec![one]));
        assert!(rates.bits_per_second(&one).is_nan());
    }
}
