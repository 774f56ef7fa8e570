//! Progress lines on standard error.

use crate::units;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Prints a count once per interval. The first line is printed at once; it shows that everything has
/// been opened.
pub(super) struct Ticker {
    interval: Option<Duration>,
    started: Instant,
    last: Option<(Instant, u64)>,
}

impl Ticker {
    /// Creates a ticker; without an interval it prints nothing.
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self {
            interval,
            started: Instant::now(),
            last: None,
        }
    }

    /// Prints the current count of what `name` names, if a line is due.
    pub(super) fn tick(&mut self, name: &str, count: impl FnOnce() -> u64) {
        let Some(interval) = self.interval else {
            return;
        };
        let rate = match self.last {
            Some((at, _)) if at.elapsed() < interval => return,
            last => last,
        };
        let count = count();
        let rate = rate.map_or(0.0, |(at, before)| {
            count.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(1e-9)
        });
        let text = format!(
            "{} {} {name}, {} per second\n",
            units::clock(self.started.elapsed()),
            units::count(count),
            units::compact(rate)
        );
        // Standard error may be closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.last = Some((Instant::now(), count));
    }
}
