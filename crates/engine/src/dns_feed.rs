//! Shares DNS answers between flow tables. A client's flow may be in another table than the DNS
//! response for it, but must have the resolved name. With several tables, each takes the answers from
//! this feed only, not from its own packets; responses over TCP are reassembled here once for all
//! tables.
//!
//! If one thread distributes the packets to the tables, it inserts each answer at the position of its
//! response, so that the records do not depend on the number of tables. The receive queues of a link
//! have no common order; an answer from one queue reaches the others with their next burst.

use crate::options::{EngineError, Options};
use app::{DnsAnswer, QueryTable};
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
pub(crate) struct DnsExchange {
    inboxes: Vec<Inbox>,
    /// The queries that all queues see: a response may come to another queue than its query.
    queries: Arc<QueryTable>,
}

/// The answers that wait for a queue.
#[derive(Debug, Default)]
struct Inbox {
    answers: Mutex<VecDeque<DnsAnswer>>,
    /// Length of `answers`. Most bursts read only this, and take no lock.
    count: AtomicUsize,
}

impl DnsExchange {
    /// Creates an exchange between `queues` queues.
    pub(crate) fn new(queues: usize, queries: Arc<QueryTable>) -> Arc<Self> {
        Arc::new(Self {
            inboxes: (0..queues).map(|_| Inbox::default()).collect(),
            queries,
        })
    }

    /// Passes an answer from queue `own` to all others. Returns the number of answers that were dropped
    /// for it.
    fn publish(&self, own: usize, answer: &DnsAnswer) -> u64 {
        let mut dropped = 0;
        for (number, inbox) in self.inboxes.iter().enumerate() {
            if number != own {
                dropped += u64::from(inbox.push(answer.clone()));
            }
        }
        dropped
    }
}

impl Inbox {
    /// Adds an answer. Returns whether the oldest one was dropped for it.
    fn push(&self, answer: DnsAnswer) -> bool {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = answers.len() == INBOX_ANSWERS_MAX;
        if is_full {
            answers.pop_front();
        }
        answers.push_back(answer);
        self.count.store(answers.len(), Ordering::Relaxed);
        is_full
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
    /// Answers that were dropped, because too many came at a time.
    dropped: u64,
}

impl DnsFeed {
    /// Creates a feed for each receiver, which passes its answers to the others.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub(crate) fn new_all(options: &Options, receivers: usize) -> Result<Vec<Self>, EngineError> {
        if !options.shares_dns(receivers) {
            return Ok((0..receivers).map(|_| Self::default()).collect());
        }
        let exchange = DnsExchange::new(receivers, DnsTap::queries(&options.meter));
        let feed = |number| {
            let mut tap = DnsTap::new(&options.meter).map_err(|error| {
                let tables = options.tables(receivers);
                EngineError::table_memory(tables, options.meter.flows_max, &error)
            })?;
            tap.share_queries(&exchange.queries);
            Ok(Self {
                tap: Some(tap),
                exchange: Some((Arc::clone(&exchange), number)),
                ..Self::default()
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
        let (answers, dropped) = (&mut self.answers, &mut self.dropped);
        answers.clear();
        if let Some((exchange, own)) = &self.exchange
            && let Some(inbox) = exchange.inboxes.get(*own)
        {
            inbox.drain(|answer| answers.push((first, answer)));
        }
        tap.observe(batch, first, payloads, |index, answer| {
            if answers.len() == BURST_ANSWERS_MAX {
                *dropped += 1;
                return;
            }
            if let Some((exchange, own)) = &self.exchange {
                *dropped += exchange.publish(*own, &answer);
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

    /// Answers that did not reach all tables, because too many came at a time.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
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
