//! What a network output has done.

use std::time::SystemTime;

/// Counters of a network output. Records sent are those of messages that the system has accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetCounters {
    /// Connections that were established.
    pub connects: u64,
    /// Failed attempts to connect, broken connections, and errors that the network reported.
    pub failures: u64,
    /// Messages sent, without those that begin a connection.
    pub messages: u64,
    /// Records in them.
    pub records: u64,
    /// Records lost, by reason.
    pub lost: NetLoss,
    /// Time and text of the last failure.
    pub last_error: Option<(SystemTime, String)>,
}

/// Records lost by a network output, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetLoss {
    /// The queue was full: the receiver was too slow, or not connected for too long.
    pub queue_full: u64,
    /// Left in the queue at the end of the run.
    pub unsent: u64,
    /// In a message that was being sent when the connection broke; some may have arrived. Over UDP:
    /// in a datagram that the receiver's host refused.
    pub broken: u64,
    /// In a message that is longer than a datagram.
    pub too_long: u64,
}

impl NetLoss {
    /// Returns the sum over all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.queue_full + self.unsent + self.broken + self.too_long
    }
}
