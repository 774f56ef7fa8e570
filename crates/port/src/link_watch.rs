//! What a sender knows of its link: looked at now and then while it takes no frames, or was down.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// A link that flaps is told of once.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    looked: Instant,
    down_since: Option<Instant>,
    /// Whether it has been said that it is down, and that it is up again.
    told: [bool; 2],
    notices: VecDeque<String>,
}

impl LinkWatch {
    /// Of a link that is taken to be up.
    pub(crate) fn new() -> Self {
        Self {
            looked: Instant::now(),
            down_since: None,
            told: [false; 2],
            notices: VecDeque::new(),
        }
    }

    /// Whether the link should be looked at, after it took `taken` frames.
    #[inline]
    pub(crate) fn is_due(&self, taken: usize) -> bool {
        (taken == 0 || self.down_since.is_some()) && self.looked.elapsed() >= LOOK
    }

    /// Notes what a look has shown.
    #[cold]
    pub(crate) fn note(&mut self, name: &str, is_down: bool) {
        let now = Instant::now();
        self.looked = now;
        let (event, told) = match (self.down_since.is_some(), is_down) {
            (false, true) => ("the link went down; sending goes on when it is up again", 0),
            (true, false) => ("the link is up", 1),
            _ => return,
        };
        self.down_since = is_down.then_some(now);
        self.tell(told, || format!("{name}: {event}"));
    }

    /// Notes that the link is not up in the beginning.
    pub(crate) fn begins_down(&mut self, name: &str) {
        self.down_since = Some(Instant::now());
        self.tell(0, || {
            format!("{name}: the link is down, and takes no frames until it is up")
        });
    }

    fn tell(&mut self, what: usize, text: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.told[what], true) {
            self.notices.push_back(text());
        }
    }

    /// Since when it has been down.
    pub(crate) fn down_since(&self) -> Option<Instant> {
        self.down_since
    }

    /// Something that a person should be told.
    pub(crate) fn notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_is_told_of_once() {
        let mut watch = LinkWatch::new();
        for _ in 0..3 {
            watch.note("x", true);
            watch.note("x", true);
            assert!(watch.down_since().is_some());
            watch.note("x", false);
            assert!(watch.down_since().is_none());
        }
        assert!(watch.notice().unwrap().contains("went down"));
        assert_eq!(watch.notice().unwrap(), "x: the link is up");
        assert_eq!(watch.notice(), None);
    }
}
