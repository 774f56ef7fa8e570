//! A channel receiver that coalesces wakeups. While items arrive fast, it polls about once per
//! millisecond, so that the sender does not have to wake a sleeping thread for each item. A wakeup
//! costs the packet path several microseconds, and more on a virtual machine. (Network interfaces
//! moderate their interrupts for the same reason.)

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the receiver sleeps when the channel is empty but items arrive fast.
const PAUSE: Duration = Duration::from_millis(1);

/// The longest interval between two items that counts as fast.
const FAST_INTERVAL: Duration = Duration::from_millis(4);

/// A receiver that sleeps instead of blocking while items arrive fast.
#[derive(Debug)]
pub struct CoalescingReceiver<T> {
    receiver: Receiver<T>,
    /// When the last item was received.
    last: Cell<Option<Instant>>,
    /// Whether the last two items were within [`FAST_INTERVAL`].
    fast: Cell<bool>,
}

impl<T> CoalescingReceiver<T> {
    /// Wraps `receiver`.
    #[must_use]
    pub const fn new(receiver: Receiver<T>) -> Self {
        Self {
            receiver,
            last: Cell::new(None),
            fast: Cell::new(false),
        }
    }

    /// Waits for the next item, for at most `timeout` plus 1 ms.
    ///
    /// # Errors
    /// Fails if no item arrives in time or all senders are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let found = match self.receiver.try_recv() {
            // Not blocked in the channel: a sender that puts an item in has no thread to wake up.
            Err(TryRecvError::Empty) if self.fast.get() => {
                thread::sleep(PAUSE);
                self.receiver.try_recv()
            }
            found => found,
        };
        let item = match found {
            Ok(item) => item,
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => self.receiver.recv_timeout(timeout)?,
        };
        let now = Instant::now();
        let last = self.last.replace(Some(now));
        self.fast
            .set(last.is_some_and(|last| now - last <= FAST_INTERVAL));
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn receives_all_items_in_order_and_then_disconnects() {
        let (sender, receiver) = sync_channel(8);
        let receiver = CoalescingReceiver::new(receiver);
        let items = 0..20_000;
        let sent = items.clone();
        let thread = thread::spawn(move || {
            for item in sent {
                // Alternately slower and faster than the receiver.
                if item % 5_000 == 0 {
                    thread::sleep(2 * FAST_INTERVAL);
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
    fn pauses_only_while_items_arrive_fast() {
        let (sender, receiver) = sync_channel(8);
        let receiver = CoalescingReceiver::new(receiver);
        let receive = || receiver.recv_timeout(Duration::ZERO);
        let before = Instant::now();
        sender.send(1).unwrap();
        assert_eq!(receive(), Ok(1));
        assert!(!receiver.fast.get(), "one item has no interval");
        sender.send(2).unwrap();
        assert_eq!(receive(), Ok(2));
        assert!(receiver.fast.get() || before.elapsed() > FAST_INTERVAL);
        receiver.fast.set(true);
        let before = Instant::now();
        assert_eq!(receive(), Err(RecvTimeoutError::Timeout));
        assert!(before.elapsed() >= PAUSE);
        thread::sleep(2 * FAST_INTERVAL);
        sender.send(3).unwrap();
        assert_eq!(receive(), Ok(3));
        assert!(!receiver.fast.get());
    }
}
