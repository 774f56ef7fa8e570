//! The exporter's end of a connection: queues messages for the sender thread.

use crate::activity;
use crate::error::ExportError;
use crate::net::backoff::Backoff;
use crate::net::counters::NetCounters;
use crate::net::message::Message;
use crate::net::notices::Notices;
use crate::net::queue::{Limits, MessageQueue};
use crate::net::reporter::Reporter;
use crate::net::sender::Sender;
use crate::net::transport::Transport;
use std::sync::Arc;

/// A connection that is kept up, with its queue.
#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    queue: Arc<MessageQueue>,
    notices: Notices,
}

impl Link {
    /// Starts the sender thread, which connects at once. `waits` says whether a full queue makes
    /// [`Link::send`] wait, or lose records.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn open(
        name: String,
        transport: Box<dyn Transport>,
        preamble: Vec<u8>,
        waits: bool,
    ) -> Result<Self, ExportError> {
        let queue = Arc::new(MessageQueue::new(Limits::DEFAULT, waits));
        let notices = Notices::default();
        let sender = Sender {
            queue: Arc::clone(&queue),
            transport,
            preamble,
            reporter: Reporter::new(name.clone(), notices.clone()),
            backoff: Backoff::new(),
        };
        // The thread is not joined: at the end of a run it may still wait for a name server.
        hw::threads::spawn("sender", move || sender.run()).map_err(|error| {
            ExportError::Thread {
                target: name.clone(),
                reason: error.to_string(),
            }
        })?;
        Ok(Self {
            name,
            queue,
            notices,
        })
    }

    /// Queues a message.
    pub(crate) fn send(&self, message: Message) {
        self.queue.push(message);
        activity::step();
    }

    /// Waits until all messages are sent, within a time limit; what is left then is lost.
    pub(crate) fn finish(&self) {
        self.queue.drain();
    }

    /// Name of the receiver.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters so far.
    pub(crate) fn counters(&self) -> NetCounters {
        self.queue.counters()
    }

    /// Returns the number of records sent and of records lost so far.
    pub(crate) fn sent_and_lost(&self) -> (u64, u64) {
        self.queue.sent_and_lost()
    }

    /// Returns the messages for the user.
    pub(crate) fn notices(&self) -> Notices {
        self.notices.clone()
    }
}

impl Drop for Link {
    /// Ends the thread of an output that was not finished.
    fn drop(&mut self) {
        self.queue.close();
    }
}
