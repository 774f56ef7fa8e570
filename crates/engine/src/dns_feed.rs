//! What DNS responses tell clients, for all tables: the flow that a client opens then may be in
//! another table than the response, and is to have the name all the same. No table takes what responses
//! tell from its own packets then: a response over TCP is put together here, once for all.
//!
//! Where one thread hands a link's or a file's packets to several tables, it tells each of them at
//! the very place in the order of its packets, so that records do not depend on how many tables there
//! are. Receive queues of a link have no common order: what one of them hears reaches the others with
//! their next burst.

use crate::options::{EngineError, Options};
use app::DnsAnswer;
use flow::DnsTap;
use flow::{Batch, Payloads};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What waits for a queue at most: the oldest goes first, as in the tables' memory of names.
const INBOX_ANSWERS_MAX: usize = 1024;

/// What is heard in a burst at most: sixteen responses a packet, where real ones are one or a few. Of a
/// burst that was made to have more, nobody is told the rest.
const BURST_ANSWERS_MAX: usize = 4096;

/// What queues tell each other.
#[derive(Debug)]
pub(crate) struct DnsExchange(Vec<Inbox>);

/// What waits for one queue.
#[derive(Debug, Default)]
struct Inbox {
    answers: Mutex<VecDeque<DnsAnswer>>,
    /// How much that is: a look at it is all that most bursts cost.
    count: AtomicUsize,
}

impl DnsExchange {
    /// Between so many queues.
    pub(crate) fn new(queues: usize) -> Arc<Self> {
        Arc::new(Self((0..queues).map(|_| Inbox::default()).collect()))
    }

    fn publish(&self, own: usize, told: &DnsAnswer) {
        for (number, inbox) in self.0.iter().enumerate() {
            if number != own {
                inbox.push(told.clone());
            }
        }
    }
}

impl Inbox {
    fn push(&self, told: DnsAnswer) {
        let mut waiting = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == INBOX_ANSWERS_MAX {
            waiting.pop_front();
        }
        waiting.push_back(told);
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    fn drain(&self, mut each: impl FnMut(DnsAnswer)) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiting = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).for_each(&mut each);
        self.count.store(0, Ordering::Relaxed);
    }
}

/// What one receiver hears.
#[derive(Default)]
pub(crate) struct DnsFeed {
    /// Where nothing is to be heard, nobody listens.
    tap: Option<DnsTap>,
    /// The other queues, and the number of this one.
    exchange: Option<(Arc<DnsExchange>, usize)>,
    /// Each with the number of packets before it.
    answers: Vec<(usize, DnsAnswer)>,
}

impl DnsFeed {
    /// For each of so many receivers; `exchange`: each tells the others what it hears.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub(crate) fn new_all(
        options: &Options,
        receivers: usize,
        exchange: bool,
    ) -> Result<Vec<Self>, EngineError> {
        if !options.shares_dns(receivers) {
            return Ok((0..receivers).map(|_| Self::default()).collect());
        }
        let exchange = exchange.then(|| DnsExchange::new(receivers));
        let of = |number| {
            let overhearer = DnsTap::new(&options.meter).map_err(|error| {
                let tables = options.tables(receivers);
                EngineError::table_memory(tables, options.meter.flows_max, &error)
            })?;
            Ok(Self {
                tap: Some(overhearer),
                exchange: exchange.as_ref().map(|all| (Arc::clone(all), number)),
                answers: Vec::new(),
            })
        };
        (0..receivers).map(of).collect()
    }

    /// Listens to the packets of `batch` from `first` on, and to the other queues.
    pub(crate) fn learn(&mut self, batch: &Batch, first: usize, payloads: &impl Payloads) {
        let Some(overhearer) = &mut self.tap else {
            return;
        };
        let heard = &mut self.answers;
        heard.clear();
        if let Some((exchange, own)) = &self.exchange
            && let Some(inbox) = exchange.0.get(*own)
        {
            inbox.drain(|told| heard.push((first, told)));
        }
        overhearer.observe(batch, first, payloads, |index, told| {
            if heard.len() == BURST_ANSWERS_MAX {
                return;
            }
            if let Some((exchange, own)) = &self.exchange {
                exchange.publish(*own, &told);
            }
            heard.push((index + 1, told));
        });
    }

    /// Memory that listening takes at most, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let heard = BURST_ANSWERS_MAX * size_of::<(usize, DnsAnswer)>();
        let waiting = self
            .exchange
            .as_ref()
            .map_or(0, |_| INBOX_ANSWERS_MAX * size_of::<DnsAnswer>());
        self.tap
            .as_ref()
            .map_or(0, |it| it.memory_bytes() + heard + waiting)
    }

    /// What was heard, each with the number of the batch's packets before it.
    pub(crate) fn answers(&self) -> &[(usize, DnsAnswer)] {
        &self.answers
    }

    /// The same, taken out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, DnsAnswer)> {
        self.answers.drain(..)
    }
}
