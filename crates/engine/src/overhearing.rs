//! What DNS responses tell clients, for all tables: the flow that a client opens then may be in
//! another table than the response, and is to have the name all the same.
//!
//! Where one thread hands a link's or a file's packets to several tables, it tells each of them at
//! the very place in the order of its packets, so that records do not depend on how many tables there
//! are. Receive queues of a link have no common order: what one of them hears reaches the others with
//! their next burst.

use flow::names::Told;
use flow::{Batch, Payloads};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What waits for a queue at most: the oldest goes first, as in the tables' memory of names.
const WAITING_MAX: usize = 1024;

/// What queues tell each other.
#[derive(Debug)]
pub(crate) struct Exchange(Vec<Inbox>);

/// What waits for one queue.
#[derive(Debug, Default)]
struct Inbox {
    told: Mutex<VecDeque<Told>>,
    /// How much that is: a look at it is all that most bursts cost.
    waiting: AtomicUsize,
}

impl Exchange {
    /// Between so many queues.
    pub(crate) fn new(queues: usize) -> Arc<Self> {
        Arc::new(Self((0..queues).map(|_| Inbox::default()).collect()))
    }

    fn tell_others(&self, own: usize, told: &Told) {
        for (number, inbox) in self.0.iter().enumerate() {
            if number != own {
                inbox.put(told.clone());
            }
        }
    }
}

impl Inbox {
    fn put(&self, told: Told) {
        let mut waiting = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(told);
        self.waiting.store(waiting.len(), Ordering::Relaxed);
    }

    fn take(&self, mut each: impl FnMut(Told)) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiting = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).for_each(&mut each);
        self.waiting.store(0, Ordering::Relaxed);
    }
}

/// What one receiver hears.
#[derive(Debug, Default)]
pub(crate) struct Overhearing {
    on: bool,
    /// The other queues, and the number of this one.
    exchange: Option<(Arc<Exchange>, usize)>,
    /// Each with the number of packets before it.
    heard: Vec<(usize, Told)>,
}

impl Overhearing {
    /// Nothing is heard unless `on`.
    pub(crate) fn new(on: bool, exchange: Option<&Arc<Exchange>>, number: usize) -> Self {
        Self {
            on,
            exchange: exchange.map(|exchange| (Arc::clone(exchange), number)),
            heard: Vec::new(),
        }
    }

    /// Listens to the packets of `batch` from `first` on, and to the other queues.
    pub(crate) fn listen(&mut self, batch: &Batch, first: usize, payloads: &impl Payloads) {
        if !self.on {
            return;
        }
        self.heard.clear();
        if let Some((exchange, own)) = &self.exchange
            && let Some(inbox) = exchange.0.get(*own)
        {
            inbox.take(|told| self.heard.push((first, told)));
        }
        for index in first..batch.len() {
            if let Some(told) = Told::overhear(batch, index, payloads) {
                if let Some((exchange, own)) = &self.exchange {
                    exchange.tell_others(*own, &told);
                }
                self.heard.push((index + 1, told));
            }
        }
    }

    /// What was heard, each with the number of the batch's packets before it.
    pub(crate) fn heard(&self) -> &[(usize, Told)] {
        &self.heard
    }

    /// The same, taken out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (usize, Told)> {
        self.heard.drain(..)
    }
}
