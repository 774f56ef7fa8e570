//! The current rate of each of the largest flows: the difference between two views.

use super::state::sum_directions;
use flow::{LiveView, Record};
use std::collections::HashMap;
use std::time::Duration;
use wire::FlowKey;

/// A flow when it last grew.
#[derive(Clone, Copy, Debug)]
struct Observation {
    bytes: u64,
    at: Duration,
    bits_per_second: f64,
}

/// Rates of the listed flows.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowRates {
    seen: HashMap<FlowKey, Observation>,
    /// Time between views.
    round: Duration,
}

impl FlowRates {
    /// Creates it for views that are `round` apart.
    pub(super) fn new(round: Duration) -> Self {
        Self {
            seen: HashMap::new(),
            round,
        }
    }

    /// Updates the rates from a view. The same view may be passed again.
    pub(super) fn update(&mut self, now: Duration, view: &LiveView) {
        let before = std::mem::take(&mut self.seen);
        // A flow that has not grown for one and a half rounds has been viewed since: its rate is 0.
        let stall_after = self.round.saturating_mul(3) / 2 + Duration::from_millis(500);
        for record in &view.top {
            let bytes = sum_directions(record.bytes);
            let seen = match before.get(&record.key) {
                Some(&seen) if bytes == seen.bytes => {
                    let still = now.saturating_sub(seen.at) > stall_after;
                    Observation {
                        bits_per_second: if still { 0.0 } else { seen.bits_per_second },
                        ..seen
                    }
                }
                Some(seen) if bytes > seen.bytes && now > seen.at => {
                    let seconds = (now - seen.at).as_secs_f64();
                    let bits_per_second = (bytes - seen.bytes) as f64 * 8.0 / seconds;
                    Observation {
                        bytes,
                        at: now,
                        bits_per_second,
                    }
                }
                // A new flow, or another flow with the same key.
                _ => Observation {
                    bytes,
                    at: now,
                    bits_per_second: mean_rate(record),
                },
            };
            self.seen.insert(record.key, seen);
        }
    }

    /// Returns the bits per second of a flow: between its last two views, or over its lifetime if
    /// there is only one; NaN if that is zero.
    pub(super) fn bits_per_second(&self, record: &Record) -> f64 {
        self.seen
            .get(&record.key)
            .map_or_else(|| mean_rate(record), |seen| seen.bits_per_second)
    }
}

/// Returns how long a flow has lasted.
pub(super) fn duration(record: &Record) -> Duration {
    let nanoseconds = record.end_ns.saturating_sub(record.start_ns);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

fn mean_rate(record: &Record) -> f64 {
    let seconds = duration(record).as_secs_f64();
    if seconds > 0.0 {
        sum_directions(record.bytes) as f64 * 8.0 / seconds
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::{record, view};

    #[test]
    fn rate_is_first_the_mean_then_the_difference_then_zero() {
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
        // Another flow with the same key.
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
