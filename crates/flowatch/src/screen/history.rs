//! Rates computed from counters: current, peak, and per second for the last minutes.

use super::state::ScreenState;
use std::collections::VecDeque;
use std::time::Duration;

/// Seconds to keep.
const SECONDS: usize = 900;

/// The window of current rates.
const CURRENT_WINDOW: Duration = Duration::from_secs(1);

/// The shortest window whose rates count for the peak.
const PEAK_WINDOW: Duration = Duration::from_millis(900);

/// Counters at a point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    packets: u64,
    bytes: u64,
    lost: u64,
}

/// Packets, bits and lost packets, each per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) packets: f64,
    pub(super) bits: f64,
    pub(super) lost: f64,
}

impl Rates {
    fn between(earlier: &Sample, later: &Sample) -> Self {
        let seconds = later.at.saturating_sub(earlier.at).as_secs_f64();
        if seconds <= 0.0 {
            return Self::default();
        }
        let rate = |earlier: u64, later: u64| later.saturating_sub(earlier) as f64 / seconds;
        Self {
            packets: rate(earlier.packets, later.packets),
            bits: rate(earlier.bytes, later.bytes) * 8.0,
            lost: rate(earlier.lost, later.lost),
        }
    }

    fn highest(self, other: Self) -> Self {
        Self {
            packets: self.packets.max(other.packets),
            bits: self.bits.max(other.bits),
            lost: self.lost.max(other.lost),
        }
    }
}

/// The rates so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The samples of the last second, and one earlier sample.
    recent: VecDeque<Sample>,
    /// The sample at the start of the current second.
    second_start: Sample,
    /// The highest rates in the current second, if there were any over a long enough window.
    second: Option<Rates>,
    seconds: VecDeque<Rates>,
    /// Number of seconds ever added to `seconds`.
    count: u64,
    peak: Rates,
}

impl History {
    /// Adds a sample of the counters.
    pub(super) fn update(&mut self, state: &ScreenState) {
        let sample = Sample {
            at: state.elapsed,
            packets: state.packets,
            bytes: state.bytes,
            lost: state.lost,
        };
        if self.recent.is_empty() {
            self.recent.push_back(Sample::default());
        }
        if self.recent.back().is_some_and(|last| sample.at <= last.at) {
            return;
        }
        self.recent.push_back(sample);
        while self
            .recent
            .get(1)
            .is_some_and(|second| sample.at - second.at >= CURRENT_WINDOW)
        {
            self.recent.pop_front();
        }
        if self.window() >= PEAK_WINDOW {
            let now = self.now();
            self.peak = self.peak.highest(now);
            self.second = Some(self.second.map_or(now, |second| second.highest(now)));
        }
        let passed = sample.at.as_secs() - self.second_start.at.as_secs();
        if passed > 0 {
            self.end_seconds(passed, &sample);
        }
    }

    /// Adds the elapsed seconds to the history. A second's rates are the highest within it, so that
    /// the top of the chart is the peak; its loss rate is the mean.
    fn end_seconds(&mut self, passed: u64, sample: &Sample) {
        // If there was no sample for several seconds, each of them gets the mean.
        let mean = Rates::between(&self.second_start, sample);
        let first = Rates {
            lost: mean.lost,
            ..self.second.take().unwrap_or(mean)
        };
        self.seconds.push_back(first);
        for _ in 1..passed.min(SECONDS as u64) {
            self.seconds.push_back(mean);
        }
        self.count += passed;
        while self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
        self.second_start = *sample;
    }

    fn window(&self) -> Duration {
        match (self.recent.front(), self.recent.back()) {
            (Some(first), Some(last)) => last.at.saturating_sub(first.at),
            _ => Duration::ZERO,
        }
    }

    /// Returns the rates of the last second.
    pub(super) fn now(&self) -> Rates {
        match (self.recent.front(), self.recent.back()) {
            (Some(first), Some(last)) => Rates::between(first, last),
            _ => Rates::default(),
        }
    }

    /// Returns the mean rates since the start.
    pub(super) fn mean(&self) -> Rates {
        self.recent.back().map_or_else(Rates::default, |last| {
            Rates::between(&Sample::default(), last)
        })
    }

    /// Returns the highest rates in any second, each figure independently.
    pub(super) fn peak(&self) -> Rates {
        self.peak
    }

    /// Returns the highest rates in each of the last `columns` groups of `group` seconds, oldest
    /// first. Group boundaries are fixed in time, so that the chart scrolls without flicker.
    pub(super) fn columns(&self, columns: usize, group: usize) -> Vec<Rates> {
        let group = group.max(1) as u64;
        let first = self.count - self.seconds.len() as u64;
        let mut groups: Vec<Rates> = Vec::new();
        let mut current = None;
        for (second, rates) in (first..).zip(&self.seconds) {
            match groups.last_mut() {
                Some(last) if current == Some(second / group) => *last = last.highest(*rates),
                _ => groups.push(*rates),
            }
            current = Some(second / group);
        }
        groups.split_off(groups.len().saturating_sub(columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64, packets: u64) -> ScreenState {
        ScreenState {
            elapsed: Duration::from_millis(millis),
            packets,
            bytes: packets * 100,
            ..ScreenState::default()
        }
    }

    #[test]
    fn rates_are_differences_over_measured_time() {
        let mut history = History::default();
        for tick in 1..=40 {
            history.update(&at(tick * 125, tick * 125));
        }
        assert!((history.now().packets - 1000.0).abs() < 1e-6);
        assert!((history.now().bits - 800_000.0).abs() < 1e-3);
        assert!((history.mean().packets - 1000.0).abs() < 1e-6);
        // A burst within one second, then nothing.
        history.update(&at(5500, 10_000));
        history.update(&at(8000, 10_000));
        assert_eq!(history.now().packets, 0.0);
        assert!((history.mean().packets - 1250.0).abs() < 1e-6);
        assert!(history.peak().packets > 4900.0, "{:?}", history.peak());
        assert_eq!(history.columns(100, 1).len(), 8);
        let top = history
            .columns(100, 1)
            .iter()
            .map(|rates| rates.packets)
            .fold(0.0, f64::max);
        assert_eq!(top, history.peak().packets);
    }

    #[test]
    fn group_boundaries_are_fixed_in_time() {
        let mut history = History::default();
        let mut packets = 0;
        for second in 1..=10u64 {
            packets += second;
            history.update(&at(second * 1000, packets));
        }
        let highest = |columns, group| -> Vec<f64> {
            history
                .columns(columns, group)
                .iter()
                .map(|rates| rates.packets.round())
                .collect()
        };
        assert_eq!(highest(3, 1), [8.0, 9.0, 10.0]);
        assert_eq!(highest(10, 4), [4.0, 8.0, 10.0]);
        assert_eq!(highest(0, 1), [0.0; 0]);
    }

    #[test]
    fn tolerates_stopped_clocks_and_falling_counters() {
        let mut history = History::default();
        history.update(&at(0, 5));
        history.update(&at(0, 5));
        assert_eq!(history.now(), Rates::default());
        history.update(&at(1000, 50));
        history.update(&at(2000, 10));
        assert_eq!(history.now().packets, 0.0);
        history.update(&at(u64::MAX / 2, 10));
        assert_eq!(history.columns(usize::MAX, 1).len(), SECONDS);
    }
}
