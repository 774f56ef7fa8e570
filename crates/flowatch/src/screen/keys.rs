//! Keys, taken on a thread of their own: of a terminal that has gone, crossterm may read without end,
//! and the run has to end in order all the same.

use super::stream;
use ratatui::crossterm::event::{self, Event};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryIter, channel};
use std::time::Duration;
use std::{io, thread};

/// Time between two looks at the keys: nobody notices it.
const LOOK: Duration = Duration::from_millis(30);

/// What is pressed while the screen is open.
pub(super) struct Keys {
    events: Receiver<Event>,
    over: Arc<AtomicBool>,
}

impl Keys {
    /// Those of the terminal that `on` shows on.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn of(on: u8) -> io::Result<Self> {
        let (sender, events) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        thread::Builder::new().name("keys".into()).spawn(move || {
            while !ends.load(Ordering::Relaxed) && stream() == Some(on) {
                while event::poll(Duration::ZERO).is_ok_and(|pressed| pressed) {
                    let Ok(event) = event::read() else {
                        return;
                    };
                    if sender.send(event).is_err() {
                        return;
                    }
                }
                thread::sleep(LOOK);
            }
        })?;
        Ok(Self { events, over })
    }

    /// What came since the last time.
    pub(super) fn take(&self) -> TryIter<'_, Event> {
        self.events.try_iter()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
