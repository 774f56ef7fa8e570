//! The queue between an exporter and its sender thread, and the accounting of both.
//!
//! Invariant: records pushed = records sent + records lost + records queued + records in flight.

use crate::activity;
use crate::net::counters::NetCounters;
use crate::net::message::Message;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Bounds of a queue and of its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Messages in the queue.
    pub(crate) messages: usize,
    /// Bytes in the queue. A longer message enters an empty queue.
    pub(crate) bytes: usize,
    /// How long the exporter waits while no message is sent. After that, it waits no more.
    pub(crate) stall: Duration,
    /// How long the end of the run waits in total if the exporter does not wait.
    pub(crate) drain: Duration,
}

impl Limits {
    /// The limits of all outputs.
    pub(crate) const DEFAULT: Self = Self {
        messages: 16 * 1024,
        bytes: 16 << 20,
        stall: Duration::from_secs(10),
        drain: Duration::from_secs(3),
    };
}

/// A bounded queue of messages. One thread pushes, another one sends.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    limits: Limits,
    state: Mutex<State>,
    /// Notified when a message is pushed, and at the end.
    pushed: Condvar,
    /// Notified when a message has left, and when the sender ends.
    left: Condvar,
}

#[derive(Debug)]
struct State {
    messages: VecDeque<Message>,
    /// Bytes in `messages`.
    bytes: usize,
    /// Records in the message that is being sent, if there is one.
    in_flight: Option<u64>,
    counters: NetCounters,
    /// Whether `push` waits while the queue is full.
    waits: bool,
    /// When the last message was sent, or when the first one was pushed after that.
    progress_at: Instant,
    phase: Phase,
    /// Whether the sender has a connection, which it closes at the end.
    is_connected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more messages come.
    Draining,
    /// What was left is lost; the sender ends without counting anything.
    Closed,
}

impl State {
    fn has_room(&self, limits: &Limits, message: &Message) -> bool {
        self.messages.is_empty()
            || self.messages.len() < limits.messages
                && self.bytes + message.bytes.len() <= limits.bytes
    }

    fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.in_flight.is_none()
    }

    /// Ends the flight of a message. Returns whether its records are still to be counted.
    fn land(&mut self) -> bool {
        self.in_flight.take().is_some()
    }
}

impl MessageQueue {
    /// Creates a queue. `waits` says whether pushes wait for room.
    pub(crate) fn new(limits: Limits, waits: bool) -> Self {
        Self {
            limits,
            state: Mutex::new(State {
                messages: VecDeque::new(),
                bytes: 0,
                in_flight: None,
                counters: NetCounters::default(),
                waits,
                progress_at: Instant::now(),
                phase: Phase::Open,
                is_connected: false,
            }),
            pushed: Condvar::new(),
            left: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters so far.
    pub(crate) fn counters(&self) -> NetCounters {
        self.lock().counters.clone()
    }

    /// Returns the number of records sent and of records lost so far.
    pub(crate) fn sent_and_lost(&self) -> (u64, u64) {
        let state = self.lock();
        (state.counters.records, state.counters.lost.total())
    }

    /// Queues a message. If the queue is full, waits for room as long as messages leave it, or counts
    /// the records as lost.
    pub(crate) fn push(&self, message: Message) {
        let mut state = self.lock();
        while !state.has_room(&self.limits, &message) {
            let stall = self
                .limits
                .stall
                .saturating_sub(state.progress_at.elapsed());
            state.waits &= !stall.is_zero();
            if !state.waits {
                state.counters.lost.queue_full += message.records;
                return;
            }
            let waited = self.left.wait_timeout(state, stall);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_idle() {
            state.progress_at = Instant::now();
        }
        state.bytes += message.bytes.len();
        state.messages.push_back(message);
        drop(state);
        self.pushed.notify_one();
    }

    /// Ends the queue after the last message: waits until all messages are sent, within the limits.
    /// What is left then is lost.
    pub(crate) fn drain(&self) {
        let started = Instant::now();
        let mut state = self.lock();
        state.phase = Phase::Draining;
        self.pushed.notify_one();
        let mut progress_at = state.progress_at;
        while !state.is_idle() || state.is_connected {
            if state.progress_at != progress_at {
                progress_at = state.progress_at;
                activity::step();
            }
            let left = match state.waits {
                true => self
                    .limits
                    .stall
                    .saturating_sub(state.progress_at.elapsed()),
                false => self.limits.drain.saturating_sub(started.elapsed()),
            };
            if left.is_zero() {
                break;
            }
            let waited = self.left.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.close();
    }

    /// Ends the queue: what is left is lost.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        let unsent: u64 = state
            .messages
            .drain(..)
            .map(|message| message.records)
            .sum();
        state.bytes = 0;
        state.counters.lost.unsent += unsent;
        state.counters.lost.broken += state.in_flight.take().unwrap_or(0);
        drop(state);
        self.pushed.notify_one();
    }

    /// Takes the next message, to be sent. Waits for one, and returns `None` when no more come.
    pub(crate) fn next(&self) -> Option<Message> {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.bytes -= message.bytes.len();
                state.in_flight = Some(message.records);
                return Some(message);
            }
            if state.phase != Phase::Open {
                return None;
            }
            let waited = self.pushed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for `delay`. Returns `false` earlier if no messages are left and no more come.
    pub(crate) fn wait_to_retry(&self, delay: Duration) -> bool {
        let until = Instant::now() + delay;
        let mut state = self.lock();
        loop {
            if state.phase == Phase::Closed || state.phase == Phase::Draining && state.is_idle() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.pushed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts the message in flight as sent.
    pub(crate) fn count_sent(&self, records: u64) {
        let mut state = self.lock();
        if state.land() {
            state.counters.messages += 1;
            state.counters.records += records;
            state.progress_at = Instant::now();
        }
        drop(state);
        self.left.notify_one();
    }

    /// Puts the message in flight back, to be sent next.
    pub(crate) fn put_back(&self, message: Message) {
        let mut state = self.lock();
        if state.land() {
            state.bytes += message.bytes.len();
            state.messages.push_front(message);
        }
    }

    /// Counts the message in flight as lost in a broken connection.
    pub(crate) fn count_broken(&self, records: u64) {
        let mut state = self.lock();
        if state.land() {
            state.counters.lost.broken += records;
        }
        drop(state);
        self.left.notify_one();
    }

    /// Counts the message in flight as too long. That is progress: the next one may be shorter.
    pub(crate) fn count_too_long(&self, records: u64) {
        let mut state = self.lock();
        if state.land() {
            state.counters.lost.too_long += records;
            state.progress_at = Instant::now();
        }
        drop(state);
        self.left.notify_one();
    }

    /// Counts a message that was counted as sent as lost.
    pub(crate) fn count_refused(&self, records: u64) {
        let mut state = self.lock();
        if state.phase != Phase::Closed {
            state.counters.records -= records;
            state.counters.lost.broken += records;
        }
    }

    /// Counts a failure.
    pub(crate) fn count_failure(&self, error: &str) {
        let counters = &mut self.lock().counters;
        counters.failures += 1;
        counters.last_error = Some((SystemTime::now(), error.to_owned()));
    }

    /// Counts a new connection.
    pub(crate) fn set_connected(&self) {
        let mut state = self.lock();
        state.counters.connects += 1;
        state.is_connected = true;
    }

    /// Notes that the connection is closed.
    pub(crate) fn set_disconnected(&self) {
        self.lock().is_connected = false;
        self.left.notify_one();
    }

    /// Stops waiting for a receiver that does not read. Each new connection to it would take some
    /// messages into the system's buffers and look like progress.
    pub(crate) fn stop_waiting(&self) {
        self.lock().waits = false;
        self.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LIMITS: Limits = Limits {
        messages: 3,
        bytes: 100,
        stall: Duration::from_millis(50),
        drain: Duration::from_millis(20),
    };

    fn message(bytes: usize, records: u64) -> Message {
        Message {
            bytes: vec![b'x'; bytes],
            records,
        }
    }

    #[test]
    fn full_queue_loses_messages_by_count_and_by_bytes() {
        let queue = MessageQueue::new(LIMITS, false);
        for records in [1, 2, 4, 8] {
            queue.push(message(10, records));
        }
        assert_eq!(queue.counters().lost.queue_full, 8);
        let queue = MessageQueue::new(LIMITS, false);
        for records in [1, 2, 4] {
            queue.push(message(50, records));
        }
        assert_eq!(queue.counters().lost.queue_full, 4);
    }

    #[test]
    fn message_longer_than_the_queue_enters_it_when_it_is_empty() {
        let queue = MessageQueue::new(LIMITS, false);
        queue.push(message(1000, 1));
        queue.push(message(1, 2));
        assert_eq!(queue.counters().lost.queue_full, 2);
        assert_eq!(queue.next().unwrap().bytes.len(), 1000);
        queue.push(message(1, 4));
        assert_eq!(queue.counters().lost.queue_full, 2);
    }

    #[test]
    fn push_waits_until_the_queue_makes_no_progress_and_then_never_again() {
        let queue = MessageQueue::new(LIMITS, true);
        for _ in 0..3 {
            queue.push(message(1, 1));
        }
        let started = Instant::now();
        queue.push(message(1, 1));
        let waited = started.elapsed();
        assert!(waited >= LIMITS.stall / 2, "{waited:?}");
        queue.push(message(1, 1));
        assert_eq!(queue.counters().lost.queue_full, 2);
        assert!(!queue.lock().waits);
    }

    #[test]
    fn push_continues_when_a_message_leaves() {
        let limits = Limits {
            stall: Duration::from_secs(60),
            ..LIMITS
        };
        let queue = MessageQueue::new(limits, true);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    let message = queue.next().unwrap();
                    queue.count_sent(message.records);
                }
            });
            for _ in 0..100 {
                queue.push(message(1, 2));
            }
        });
        assert_eq!(queue.sent_and_lost(), (200, 0));
        queue.drain();
        assert_eq!(queue.counters().messages, 100);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn every_record_is_counted_once_however_its_message_ends() {
        let queue = MessageQueue::new(LIMITS, false);
        let next = |records| {
            queue.push(message(1, records));
            queue.next().unwrap()
        };
        let sent = next(1);
        queue.count_sent(sent.records);
        let refused = next(2);
        queue.count_sent(refused.records);
        queue.count_refused(refused.records);
        let broken = next(4);
        queue.count_broken(broken.records);
        let long = next(8);
        queue.count_too_long(long.records);
        let returned = next(16);
        queue.put_back(returned.clone());
        assert_eq!(queue.next(), Some(returned));
        queue.push(message(1, 32));
        queue.drain();
        // The sender was still busy: what it reports later has been counted.
        queue.count_sent(16);
        queue.count_broken(16);
        let counters = queue.counters();
        assert_eq!((counters.records, counters.messages), (1, 2));
        let lost = counters.lost;
        assert_eq!(
            (lost.broken, lost.too_long, lost.unsent),
            (2 + 4 + 16, 8, 32)
        );
        assert_eq!(counters.records + lost.total(), 63);
    }

    #[test]
    fn drain_ends_in_time() {
        for waits in [false, true] {
            let queue = MessageQueue::new(LIMITS, waits);
            queue.push(message(1, 5));
            let started = Instant::now();
            queue.drain();
            let waited = started.elapsed();
            assert!(waited >= LIMITS.drain / 2 && waited < Duration::from_secs(30));
            assert_eq!(queue.counters().lost.unsent, 5);
            assert!(!queue.wait_to_retry(Duration::from_secs(60)));
        }
    }
}
