//! Classes of single packets, as the analysis assigns them. Records contain only the totals.

use analysis::tcp::{Class, TcpColdPool};
use analysis::{Tcp, TcpCold};
use std::collections::HashMap;
use std::io;
use wire::PacketInfo;

/// Classifies the packets of many conversations.
#[derive(Debug)]
pub struct Classifier {
    /// State of each conversation, and the side of its first packet, which is the initiator.
    conversations: HashMap<usize, (Tcp, usize)>,
    pool: TcpColdPool,
}

impl Classifier {
    /// Creates a classifier for at most this many conversations.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(conversations: usize) -> io::Result<Self> {
        Ok(Self {
            conversations: HashMap::new(),
            pool: TcpColdPool::new(2 * conversations)?,
        })
    }

    /// Counts a packet. Returns its class if the analysis takes it for out of sequence.
    pub fn classify(
        &mut self,
        conversation: usize,
        side: usize,
        time_ns: i64,
        segment: &PacketInfo,
    ) -> Option<Class> {
        let new = || (Tcp::default(), side);
        let (tcp, initiator) = self.conversations.entry(conversation).or_insert_with(new);
        let side = side ^ *initiator;
        let before = cold_of(tcp, &self.pool)[side].anomalies.classes;
        tcp.count(side, time_ns, segment, &mut self.pool);
        let after = cold_of(tcp, &self.pool)[side].anomalies.classes;
        let mut classes = Class::ALL.into_iter();
        classes.find(|&class| before[class as usize] != after[class as usize])
    }

    /// Returns the state of a conversation and the cold state of each side, the initiator's first.
    ///
    /// # Panics
    /// If no packet of the conversation was counted.
    #[must_use]
    pub fn state(&self, conversation: usize) -> (Tcp, [TcpCold; 2]) {
        let (tcp, _) = self.conversations[&conversation];
        (tcp, cold_of(&tcp, &self.pool))
    }
}

/// Returns the cold state of each side.
fn cold_of(tcp: &Tcp, pool: &TcpColdPool) -> [TcpCold; 2] {
    let mut cold = Default::default();
    tcp.copy_cold(pool, &mut cold);
    cold
}
