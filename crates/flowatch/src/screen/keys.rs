//! Reads keys on a separate thread: crossterm may loop forever reading from a terminal that has gone,
//! and the run must still end in order.

use super::stream::stream;
use ratatui::crossterm::event::{self, Event};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryIter, channel};
use std::time::Duration;
use std::{io, thread};

/// Time between polls for keys: too short to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(30);

/// The keys pressed while the screen is open.
pub(super) struct Keys {
    events: Receiver<Event>,
    stopped: Arc<AtomicBool>,
}

impl Keys {
    /// Starts reading the keys of the terminal that the stream `on` is connected to.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(on: u8) -> io::Result<Self> {
        let (sender, events) = channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        hw::threads::spawn("keys", move || {
            while !stop.load(Ordering::Relaxed) && stream() == Some(on) {
                while event::poll(Duration::ZERO).is_ok_and(|pressed| pressed) {
                    let Ok(event) = event::read() else {
                        return;
                    };
                    if sender.send(event).is_err() {
                        return;
                    }
                }
                thread::sleep(POLL_INTERVAL);
            }
        })?;
        Ok(Self { events, stopped })
    }

    /// Returns the events since the last call.
    pub(super) fn take(&self) -> TryIter<'_, Event> {
        self.events.try_iter()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
