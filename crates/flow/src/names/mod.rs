//! The names behind flows: per-flow state that is fed payload and yields a [`NamesRecord`].
//!
//! [`Names`] holds a word for each slot of the flow table. A flow that may still tell something has
//! a state in a bounded pool; once its names are known, or it is given up, a packet of it costs a
//! look at the word.

mod application;
mod column;
mod limits;
mod record;

pub use application::{Applications, ApplicationsError};
pub use column::{COLUMNS, NameColumn, NameKind, NameValue};
pub use limits::NamesLimits;
pub use record::{
    Application, Cut, DnsRecord, FoundBy, HttpRecord, NamesRecord, QuicRecord, ResolvedName,
    RtpRecord, TlsRecord,
};

use hw::memory::HugeSlice;
use hw::prefetch;
use std::io;
use std::sync::Arc;
use wire::FlowKey;

/// One packet of a flow, as far as names need it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Time of the packet, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// 0 from the flow's initiator, 1 to it.
    pub direction: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// TCP control bits, 0 without TCP.
    pub tcp_flags: u8,
    /// TCP sequence number of the first byte of payload (of the SYN, where there is one).
    pub sequence: u32,
    /// Port of the sender of this packet.
    pub source_port: u16,
    /// Port of its receiver.
    pub destination_port: u16,
    /// Payload behind the transport header, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

/// The names of many flows.
#[derive(Debug)]
pub struct Names {
    words: HugeSlice<u64>,
    applications: Arc<Applications>,
}

impl Names {
    /// For `slots` flows. Memory is taken as flows come, up to [`Names::memory_bytes`].
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(
        slots: usize,
        _limits: &NamesLimits,
        applications: Arc<Applications>,
    ) -> io::Result<Self> {
        Ok(Self {
            words: HugeSlice::try_zeroed(slots)?,
            applications,
        })
    }

    /// Asks for the cache lines of a flow, some time before [`Names::observe`].
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        prefetch::read(&self.words, slot as usize);
    }

    /// Takes in a packet of the flow in `slot`. Every packet of the flow is to be shown, also those
    /// without payload; `key` gives the flow's key as its initiator sent it, and is called seldom.
    #[inline]
    pub fn observe(&mut self, slot: u32, segment: &Segment<'_>, key: impl FnOnce() -> FlowKey) {
        let _ = (slot, segment, key);
    }

    /// Takes out what is known of the flow in `slot`, whose key (as its initiator sent it) is
    /// `key`, and forgets it.
    #[must_use]
    pub fn take(&mut self, slot: u32, key: &FlowKey) -> NamesRecord {
        let mut record = NamesRecord::default();
        let by_port =
            self.applications
                .by_port(key.protocol, key.source_port, key.destination_port);
        record.application =
            by_port.and_then(|class| self.applications.application(class, FoundBy::Port));
        self.clear(slot);
        record
    }

    /// Forgets the flow in `slot`.
    pub fn clear(&mut self, slot: u32) {
        if let Some(word) = self.words.get_mut(slot as usize) {
            *word = 0;
        }
    }

    /// Moves the flow in slot `from` to the free slot `to`.
    pub fn relocate(&mut self, from: u32, to: u32) {
        if from != to
            && (to as usize) < self.words.len()
            && let Some(word) = self.words.get_mut(from as usize)
        {
            let moved = std::mem::take(word);
            self.words[to as usize] = moved;
        }
    }

    /// Memory when every flow holds all that it may, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}
