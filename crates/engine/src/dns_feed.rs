//! Shares DNS answers between flow tables. A client's flow may be in another table than the DNS
//! response for it, but must have the resolved name. With several tables, each takes the answers from
//! this feed only, not from its own packets; responses over TCP are reassembled here once for all
//! tables.
//!
//! If one thread distributes the packets to the tables, it inserts each answer at the position of its
//! response, so that the records do not depend on the number of tables. The receive queues of a link
//! have no common order; an answer from one queue reaches the others with their next burst.

use crate::options::{EngineError, Options};
use app::DnsAnswer;
use flow::DnsTap;
use flow::{Batch, Payloads};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The most answers that wait for a queue. The oldest is dropped, as in the tables' caches of names.
const INBOX_ANSWERS_MAX: usize = 1024;

/// The most answers of a burst: sixteen a packet. Real traffic has one or a few a packet; the rest of
/// a burst that was crafted to have more is dropped.
const BURST_ANSWERS_MAX: usize = 4096;

/// Passes answers between queues.
#[derive(Debug)]
pub(crate) struct DnsExchange(Vec<Inbox>);

/// The answers that wait for a queue.
#[derive(Debug, Default)]
struct Inbox {
    answers: Mutex<VecDeque<DnsAnswer>>,
    /// Length of `answers`. Most bursts read only this, and take no lock.
    count: AtomicUsize,
}

impl DnsExchange {
    /// Creates an exchange between `queues` queues.
    pub(crate) fn new(queues: usize) -> Arc<Self> {
        Arc::new(Self((0..queues).map(|_| Inbox::default()).collect()))
    }

    /// Passes an answer from queue `own` to all others.
    fn publish(&self, own: usize, answer: &DnsAnswer) {
        for (number, inbox) in self.0.iter().enumerate() {
            if number != own {
                inbox.push(answer.clone());
            }
        }
    }
}

impl Inbox {
    fn push(&self, answer: DnsAnswer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() == INBOX_ANSWERS_MAX {
            answers.pop_front();
        }
        answers.push_back(answer);
        self.count.store(answers.len(), Ordering::Relaxed);
    }

    fn drain(&self, mut each: impl FnMut(DnsAnswer)) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.drain(..).for_each(&mut each);
        self.count.store(0, Ordering::Relaxed);
    }
}

/// The DNS answers for the tables of one receiver.
#[derive(Default)]
pub(crate) struct DnsFeed {
    /// `None` if no answers are shared.
    tap: Option<DnsTap>,
    /// The exchange with the other queues, and the number of this queue.
    exchange: Option<(Arc<DnsExchange>, usize)>,
    /// The answers of the current burst, each with the number of packets before it.
    answers: Vec<(usize, DnsAnswer)>,
}

impl DnsFeed {
    /// Creates a feed for each receiver. With `exchange`, each receiver passes its answers to the
    /// others.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub(crate) fn new_all(
        options: &Options,
        receivers: usize,
        exchange: bool,
    ) -> Result<Vec<Self>, EngineError> {
        if !options.shares_dns(receivers) {
            return Ok((0..receivers).map(|_| Self::default()).collect());
        }
        let exchange = exchange.then(|| DnsExchange::new(receivers));
        let feed = |number| {
            let tap = DnsTap::new(&options.meter).map_err(|error| {
                let tables = options.tables(receivers);
                EngineError::table_memory(tables, options.meter.flows_max, &error)
            })?;
            Ok(Self {
                tap: Some(tap),
                exchange: exchange.as_ref().map(|all| (Arc::clone(all), number)),
                answers: Vec::new(),
            })
        };
        (0..receivers).map(feed).collect()
    }

    /// Collects the answers in the packets of `batch` from index `first` on, and those of the other
    /// queues.
    pub(crate) fn learn(&mut self, batch: &Batch, first: usize, payloads: &impl Payloads) {
        let Some(tap) = &mut self.tap else {
            return;
        };
        let answers = &mut self.answers;
        answers.clear();
        if let Some((exchange, own)) = &self.exchange
            && let Some(inbox) = exchange.0.get(*own)
        {
            inbox.drain(|answer| answers.push((first, answer)));
        }
        tap.observe(batch, first, payloads, |index, answer| {
            if answers.len() == BURST_ANSWERS_MAX {
                return;
            }
            if let Some((exchange, own)) = &self.exchange {
                exchange.publish(*own, &answer);
            }
            answers.push((index + 1, answer));
        });
    }

    /// Memory with all buffers full, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let answers = BURST_ANSWERS_MAX * size_of::<(usize, DnsAnswer)>();
        let inbox = self
            .exchange
            .as_ref()
            .map_or(0, |_| INBOX_ANSWERS_MAX * size_of::<DnsAnswer>());
        self.tap
            .as_ref()
            .map_or(0, |tap| tap.memory_bytes() + answers + inbox)
    }

    /// The answers of the burst, each with the number of the batch's packets before it.
    pub(crate) fn answers(&self) -> &[(usize, DnsAnswer)] {
        &self.answers
    }

    /// Removes and returns the answers of the burst.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, DnsAnswer)> {
        self.answers.drain(..)
    }
}
