//! The reading end of a queue that is looked at about once a millisecond while much comes: whoever
//! writes does not have to wake a sleeping reader for each item then, which would cost a packet path
//! some microseconds, and more on a virtual machine. (Network interfaces moderate their interrupts
//! for the same reason.)

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a queue in which items come fast is left alone when it was found empty.
const PAUSE: Duration = Duration::from_millis(1);

/// Items come fast where no more than this lies between two of them.
const FAST: Duration = Duration::from_millis(4);

/// A receiver that does not ask to be woken while items come fast.
#[derive(Debug)]
pub struct Moderated<T> {
    receiver: Receiver<T>,
    /// When the last item was taken, and whether it came soon after the one before.
    last: Cell<Option<Instant>>,
    fast: Cell<bool>,
}

impl<T> Moderated<T> {
    /// The same receiver, moderated.
    #[must_use]
    pub const fn new(receiver: Receiver<T>) -> Self {
        Self {
            receiver,
            last: Cell::new(None),
            fast: Cell::new(false),
        }
    }

    /// The next item, waiting for it no longer than `patience` and a pause.
    ///
    /// # Errors
    /// When none came, or none can come any more.
    pub fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let found = match self.receiver.try_recv() {
            // A writer has nobody to wake meanwhile.
            Err(TryRecvError::Empty) if self.fast.get() => {
                thread::sleep(PAUSE);
                self.receiver.try_recv()
            }
            found => found,
        };
        let item = match found {
            Ok(item) => item,
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => self.receiver.recv_timeout(patience)?,
        };
        let now = Instant::now();
        let last = self.last.replace(Some(now));
        self.fast.set(last.is_some_and(|last| now - last <= FAST));
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn all_items_come_in_order_and_then_the_end() {
        let (sender, receiver) = sync_channel(8);
        let receiver = Moderated::new(receiver);
        let items = 0..20_000;
        let sent = items.clone();
        let thread = thread::spawn(move || {
            for item in sent {
                // Slower and faster than the reader, by turns.
                if item % 5_000 == 0 {
                    thread::sleep(2 * FAST);
                }
                sender.send(item).unwrap();
            }
        });
        for item in items {
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(item));
        }
        thread.join().unwrap();
        assert_eq!(
            receiver.recv_timeout(Duration::from_secs(60)),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn a_queue_is_left_alone_only_while_items_come_fast() {
        let (sender, receiver) = sync_channel(8);
        let receiver = Moderated::new(receiver);
        let take = || receiver.recv_timeout(Duration::ZERO);
        let before = Instant::now();
        sender.send(1).unwrap();
        assert_eq!(take(), Ok(1));
        assert!(!receiver.fast.get(), "one item is not yet many");
        sender.send(2).unwrap();
        assert_eq!(take(), Ok(2));
        assert!(receiver.fast.get() || before.elapsed() > FAST);
        receiver.fast.set(true);
        let before = Instant::now();
        assert_eq!(take(), Err(RecvTimeoutError::Timeout));
        assert!(before.elapsed() >= PAUSE);
        thread::sleep(2 * FAST);
        sender.send(3).unwrap();
        assert_eq!(take(), Ok(3));
        assert!(!receiver.fast.get());
    }
}
