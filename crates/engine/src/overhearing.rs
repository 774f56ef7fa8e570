//! What DNS responses tell clients, for all tables: the flow that a client opens then may be in
//! another table than the response, and is to have the name all the same. No table takes what responses
//! tell from its own packets then: a response over TCP is put together here, once for all.
//!
//! Where one thread hands a link's or a file's packets to several tables, it tells each of them at
//! the very place in the order of its packets, so that records do not depend on how many tables there
//! are. Receive queues of a link have no common order: what one of them hears reaches the others with
//! their next burst.

use crate::options::{EngineError, Options};
use app::Told;
use flow::Overhearer;
use flow::{Batch, Payloads};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What waits for a queue at most: the oldest goes first, as in the tables' memory of names.
const WAITING_MAX: usize = 1024;

/// What is heard in a burst at most: sixteen responses a packet, where real ones are one or a few. Of a
/// burst that was made to have more, nobody is told the rest.
const HEARD_MAX: usize = 4096;

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
#[derive(Default)]
pub(crate) struct Overhearing {
    /// Where nothing is to be heard, nobody listens.
    overhearer: Option<Overhearer>,
    /// The other queues, and the number of this one.
    exchange: Option<(Arc<Exchange>, usize)>,
    /// Each with the number of packets before it.
    heard: Vec<(usize, Told)>,
}

impl Overhearing {
    /// For each of so many receivers; `exchange`: each tells the others what it hears.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub(crate) fn of_all(
        options: &Options,
        receivers: usize,
        exchange: bool,
    ) -> Result<Vec<Self>, EngineError> {
        if !options.overhears(receivers) {
            return Ok((0..receivers).map(|_| Self::default()).collect());
        }
        let exchange = exchange.then(|| Exchange::new(receivers));
        let of = |number| {
            let overhearer = Overhearer::new(&options.meter).map_err(|error| {
                let tables = options.tables(receivers);
                EngineError::no_room(tables, options.meter.flows_max, &error)
            })?;
            Ok(Self {
                overhearer: Some(overhearer),
                exchange: exchange.as_ref().map(|all| (Arc::clone(all), number)),
                heard: Vec::new(),
            })
        };
        (0..receivers).map(of).collect()
    }

    /// Listens to the packets of `batch` from `first` on, and to the other queues.
    pub(crate) fn listen(&mut self, batch: &Batch, first: usize, payloads: &impl Payloads) {
        let Some(overhearer) = &mut self.overhearer else {
            return;
        };
        let heard = &mut self.heard;
        heard.clear();
        if let Some((exchange, own)) = &self.exchange
            && let Some(inbox) = exchange.0.get(*own)
        {
            inbox.take(|told| heard.push((first, told)));
        }
        overhearer.listen(batch, first, payloads, |index, told| {
            if heard.len() == HEARD_MAX {
                return;
            }
            if let Some((exchange, own)) = &self.exchange {
                exchange.tell_others(*own, &told);
            }
            heard.push((index + 1, told));
        });
    }

    /// Memory that listening takes at most, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let heard = HEARD_MAX * size_of::<(usize, Told)>();
        let waiting = self
            .exchange
            .as_ref()
            .map_or(0, |_| WAITING_MAX * size_of::<Told>());
        self.overhearer
            .as_ref()
            .map_or(0, |it| it.memory_bytes() + heard + waiting)
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
