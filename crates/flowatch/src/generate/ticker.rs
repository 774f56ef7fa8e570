//! Lines of progress on standard error, where they are asked for.

use crate::units;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Tells a count each interval, from the start on: the first line says that all is open.
pub(super) struct Ticker {
    interval: Option<Duration>,
    started: Instant,
    told: Option<(Instant, u64)>,
}

impl Ticker {
    /// With no interval it is silent.
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self {
            interval,
            started: Instant::now(),
            told: None,
        }
    }

    /// The count as it is now, of things with this name.
    pub(super) fn tick(&mut self, name: &str, count: impl FnOnce() -> u64) {
        let Some(interval) = self.interval else {
            return;
        };
        let rate = match self.told {
            Some((at, _)) if at.elapsed() < interval => return,
            told => told,
        };
        let count = count();
        let rate = rate.map_or(0.0, |(at, before)| {
            count.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(1e-9)
        });
        let text = format!(
            "{} {} {name}, {} a second\n",
            units::clock(self.started.elapsed()),
            units::count(count),
            units::compact(rate)
        );
        // Nobody may be listening.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.told = Some((Instant::now(), count));
    }
}
