//! Link state of a sender, checked periodically while the link accepts no frames or is down.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Tracks whether the link is up. A flapping link causes one notice per direction.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    checked: Instant,
    down_since: Option<Instant>,
    /// Whether the user was notified that the link is down, and that it is up.
    notified: [bool; 2],
    notices: VecDeque<String>,
}

impl LinkWatch {
    /// Starts with a link that is assumed to be up.
    pub(crate) fn new() -> Self {
        Self {
            checked: Instant::now(),
            down_since: None,
            notified: [false; 2],
            notices: VecDeque::new(),
        }
    }

    /// Whether the link must be checked now, after it accepted `accepted` frames.
    #[inline]
    pub(crate) fn is_due(&self, accepted: usize) -> bool {
        (accepted == 0 || self.down_since.is_some()) && self.checked.elapsed() >= CHECK_INTERVAL
    }

    /// Records the result of a check.
    #[cold]
    pub(crate) fn update(&mut self, name: &str, is_down: bool) {
        let now = Instant::now();
        self.checked = now;
        let (event, kind) = match (self.down_since.is_some(), is_down) {
            (false, true) => ("the link went down; sending resumes when it is up again", 0),
            (true, false) => ("the link is up", 1),
            _ => return,
        };
        self.down_since = is_down.then_some(now);
        self.notify(kind, || format!("{name}: {event}"));
    }

    /// Records that the link is down at the start.
    pub(crate) fn start_down(&mut self, name: &str) {
        self.down_since = Some(Instant::now());
        self.notify(0, || {
            format!("{name}: the link is down; no frames are sent until it is up")
        });
    }

    fn notify(&mut self, kind: usize, text: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.notified[kind], true) {
            self.notices.push_back(text());
        }
    }

    /// When the link went down, if it is down.
    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.down_since
    }

    /// The next notice for the user.
    pub(crate) fn next_notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flapping_link_is_reported_once() {
        let mut watch = LinkWatch::new();
        for _ in 0..3 {
            watch.update("x", true);
            watch.update("x", true);
            assert!(watch.down_since().is_some());
            watch.update("x", false);
            assert!(watch.down_since().is_none());
        }
        assert!(watch.next_notice().unwrap().contains("went down"));
        assert_eq!(watch.next_notice().unwrap(), "x: the link is up");
        assert_eq!(watch.next_notice(), None);
    }
}
