//! The analysis of conversations, asked after each packet: records tell only how many there were of
//! each class.

use crate::tcp::{Class, Rare, RarePool, Tcp};
use std::collections::HashMap;
use std::io;
use wire::Segment;

/// Judges the packets of many conversations.
#[derive(Debug)]
pub struct Judges {
    /// The state of each, and the side of its first packet, which is the initiator's for the analysis.
    conversations: HashMap<usize, (Tcp, usize)>,
    pool: RarePool,
}

impl Judges {
    /// Of so many conversations.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(conversations: usize) -> io::Result<Self> {
        Ok(Self {
            conversations: HashMap::new(),
            pool: RarePool::new(2 * conversations)?,
        })
    }

    /// Takes a packet in; the class that it is judged to be of, if it is judged to be out of sequence.
    pub fn judge(
        &mut self,
        conversation: usize,
        side: usize,
        time_ns: i64,
        segment: &Segment,
    ) -> Option<Class> {
        let of_new = || (Tcp::default(), side);
        let (tcp, initiator) = self
            .conversations
            .entry(conversation)
            .or_insert_with(of_new);
        let side = side ^ *initiator;
        let before = rare_of(tcp, &self.pool)[side].anomalies.classes;
        tcp.count(side, time_ns, segment, &mut self.pool);
        let after = rare_of(tcp, &self.pool)[side].anomalies.classes;
        let mut all = Class::ALL.into_iter();
        all.find(|&class| before[class as usize] != after[class as usize])
    }

    /// What is known of a conversation, of each side, the initiator's first.
    #[cfg(test)]
    pub(in crate::tcp) fn state(&self, conversation: usize) -> (Tcp, [Rare; 2]) {
        let (tcp, _) = self.conversations[&conversation];
        (tcp, rare_of(&tcp, &self.pool))
    }
}

/// What is rare, of each side.
fn rare_of(tcp: &Tcp, pool: &RarePool) -> [Rare; 2] {
    let mut told = Default::default();
    tcp.tell_rare(pool, &mut told);
    told
}
