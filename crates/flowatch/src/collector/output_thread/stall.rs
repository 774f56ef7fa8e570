//! Decides when an output is stuck.

use super::output_state::OutputState;
use crate::signals;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an output of a link may make no progress. Nothing but the end of a run waits for it.
const LIVE_LIMIT: Duration = Duration::from_secs(10);

/// How long an output may make no progress while a file is read, which can wait. Longer than the
/// limit of [`export::net`], which loses less.
const FILE_LIMIT: Duration = Duration::from_secs(15);

/// How long a storage device may take for one request: a full disk cache on a slow disk takes long,
/// and says nothing meanwhile.
const SYNC_LIMIT: Duration = Duration::from_secs(60);

/// How long outputs may take in total after the second signal, with progress or without.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// How long an output may make no progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallLimit {
    limit: Duration,
    /// No limit before the run is interrupted.
    is_unlimited: bool,
}

impl StallLimit {
    /// Returns the limit of an output for which a run `waits`.
    pub(super) const fn new(waits: bool, is_unlimited: bool) -> Self {
        Self {
            limit: if waits { FILE_LIMIT } else { LIVE_LIMIT },
            is_unlimited,
        }
    }
}

/// An output that another thread waits for.
#[derive(Debug)]
pub(super) struct Stall {
    state: Arc<OutputState>,
    limit: StallLimit,
    /// The progress when it was last seen, and since when it has been the same.
    steps: u64,
    since: Instant,
    is_limited: bool,
    /// When the second signal was seen.
    exit: Option<Instant>,
}

impl Stall {
    pub(super) fn new(state: &Arc<OutputState>, limit: StallLimit) -> Self {
        Self {
            steps: state.steps(),
            state: Arc::clone(state),
            limit,
            since: Instant::now(),
            is_limited: false,
            exit: None,
        }
    }

    /// Returns how long the output has made no progress, if that is too long.
    pub(super) fn is_over(&mut self) -> Option<Duration> {
        let is_interrupted = signals::is_interrupted() || signals::is_hung_up();
        let has_limit = !self.limit.is_unlimited || is_interrupted;
        self.is_over_with(has_limit, signals::exit_signal().is_some())
    }

    fn is_over_with(&mut self, has_limit: bool, must_exit: bool) -> Option<Duration> {
        let steps = self.state.steps();
        // A reader that was slow until the interruption gets the whole time from then on.
        if steps != self.steps || has_limit != self.is_limited {
            (self.steps, self.since, self.is_limited) = (steps, Instant::now(), has_limit);
        }
        let time = self.since.elapsed();
        if must_exit {
            let since = self.exit.get_or_insert_with(Instant::now);
            return (since.elapsed() >= EXIT_LIMIT).then_some(time);
        }
        let limit = if self.state.activity.is_syncing() {
            SYNC_LIMIT
        } else {
            self.limit.limit
        };
        (has_limit && time >= limit).then_some(time)
    }
}
