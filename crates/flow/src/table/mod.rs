//! Flow tables behind the trait [`Table`], which maps each packet of a batch to the slot of its flow.

mod bucket;
mod clock_hand;
mod combined;
mod double_hash;
mod lanes;
mod linked_list;
mod nodes;
mod prefetcher;
#[cfg(test)]
mod tests;

pub use bucket::BucketTable;
pub use combined::Combined;
pub use double_hash::DoubleHash;
pub use linked_list::LinkedList;
pub(crate) use prefetcher::OUT_OF_CACHE_FLOWS;

use crate::batch::{BURST, Batch, Packet};
use crate::end_reason::EndReason;
use crate::ended::{EndedFlows, FlowStart};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::statistic::NO_VALUE;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use std::io;
use std::ops::{AddAssign, Range};
use std::str::FromStr;
use wire::FlowKey;

/// The slot of a packet whose flow is not in the table.
pub const NO_SLOT: u32 = u32::MAX;

/// What a table computes for each packet in addition to its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Store the number of the flow's last packet in its entry.
    pub numbers: bool,
    /// The gap since the flow's previous packet. Implies stored numbers.
    pub gaps: bool,
    /// The time since the flow's previous packet.
    pub inter_arrival: bool,
}

impl Outputs {
    /// All outputs.
    pub const ALL: Self = Self {
        numbers: true,
        gaps: true,
        inter_arrival: true,
    };

    /// Returns `(numbers, gaps, inter_arrival)`, to select a function compiled for these outputs.
    const fn as_tuple(self) -> (bool, bool, bool) {
        (self.numbers, self.gaps, self.inter_arrival)
    }
}

/// The results of [`Table::update`], indexed by packet.
#[derive(Debug)]
pub struct Observed {
    /// The slot of the packet's flow, or [`NO_SLOT`].
    pub slots: [u32; BURST],
    /// Nanoseconds since the flow's previous packet, or [`NO_VALUE`]. Valid if
    /// [`Outputs::inter_arrival`].
    pub inter_arrival_ns: [u64; BURST],
    /// Packets of other flows since the flow's previous packet, or [`NO_VALUE`]. Valid if
    /// [`Outputs::gaps`].
    pub gaps: [u64; BURST],
    /// Indices of the packets that opened a flow.
    pub opened: Vec<u16>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            slots: [NO_SLOT; BURST],
            inter_arrival_ns: [NO_VALUE; BURST],
            gaps: [NO_VALUE; BURST],
            opened: Vec::with_capacity(BURST),
        }
    }
}

/// Where [`Table::update`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All packets are counted.
    Done,
    /// The flow in `slot` must be removed before packet `at` can be counted.
    Ended {
        /// Index of the packet.
        at: usize,
        /// Slot of the flow.
        slot: u32,
        /// Why the flow ends.
        reason: EndReason,
    },
}

/// What equal or similar hashes did to a table that had room. With a hash that spreads the keys, this
/// hardly ever happens, so someone has chosen the keys, or the hash does not suit the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collisions {
    /// Flows that did not fit their bucket, although the table was nearly empty. Looking them up costs
    /// more.
    pub overflowed: u64,
    /// Flows that were evicted, although the table was not full.
    pub evicted: u64,
}

impl AddAssign for Collisions {
    fn add_assign(&mut self, other: Self) {
        self.overflowed += other.overflowed;
        self.evicted += other.evicted;
    }
}

/// A flow table: looks flows up, inserts them, and counts their packets.
///
/// A slot belongs to a flow from its first packet until [`Table::remove`].
pub trait Table: Send {
    /// Starts a batch: prefetches where its flows are looked up. The bucket table requires this call
    /// before [`Table::evict`] and [`Table::update`].
    fn prefetch_batch(&mut self, batch: &Batch);

    /// Evicts flows so that the new flows of the prefetched batch fit a full table.
    ///
    /// Evicting before the batch is counted, all flows at once, lets their cache misses overlap.
    /// Appends the slots to `evicted`, and the flows' entries, starts and wide keys to `ended`.
    fn evict(&mut self, batch: &Batch, evicted: &mut Vec<u32>, ended: &mut EndedFlows) {
        let _ = (batch, evicted, ended);
    }

    /// Counts these packets of the batch in order, up to the first packet before which a flow must end.
    fn update(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step;

    /// Returns the cache level into which to prefetch the states of the batch's flows.
    fn prefetch_level(&self) -> CacheLevel {
        CacheLevel::L2
    }

    /// Prefetches the entry of the flow in `slot`.
    fn prefetch_entry(&self, slot: u32);

    /// Prefetches what [`Table::copy_out`] and [`Table::remove`] need for the flow in `slot`, except
    /// its entry.
    fn prefetch_removal(&self, slot: u32);

    /// Returns the entry of the flow in `slot`.
    fn entry(&self, slot: u32) -> &Entry;

    /// Returns the start of the flow in `slot`.
    fn start(&self, slot: u32) -> &FlowStart;

    /// Returns the start of the flow in `slot`, to be corrected.
    fn start_mut(&mut self, slot: u32) -> &mut FlowStart;

    /// Returns the whole key of the flow in `slot`, whose entry is `entry`.
    fn key(&self, slot: u32, entry: &Entry) -> FlowKey;

    /// Appends the entries, starts and wide keys of the flows in these slots to `ended`.
    fn copy_out(&self, slots: &[u32], ended: &mut EndedFlows);

    /// Removes the flows in these slots, and frees the slots.
    fn remove(&mut self, slots: &[u32]);

    /// Grows the table by a small step if it is crowded and below its maximum. Must be called between
    /// batches. Calls `moved` with the old and the new slot of each flow that moves.
    ///
    /// # Errors
    /// The slot of a flow that must be removed before the table can grow.
    fn grow(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        let _ = moved;
        Ok(())
    }

    /// Maps all memory now, and grows to a size that fits the first flows of a link. Must be called
    /// before the first flow.
    fn populate(&mut self);

    /// Returns the current number of slots, taken or free.
    fn slots(&self) -> u32;

    /// Returns the maximum number of slots.
    fn slots_max(&self) -> u32 {
        self.slots()
    }

    /// Returns the number of flows.
    fn flows(&self) -> usize;

    /// Appends the slots in `from..to` whose flows have ended by `clock_ms`, with the end reasons.
    fn find_expired(
        &self,
        from: u32,
        to: u32,
        clock_ms: u32,
        expiry: &Expiry,
        ended: &mut Vec<(u32, EndReason)>,
    );

    /// Appends the slots in `from..to` that hold a flow.
    fn find_occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>);

    /// Returns the packets and bytes of flows that did not fit the table.
    fn unattributed(&self) -> [u64; 2] {
        [0, 0]
    }

    /// Returns what colliding hashes did. The tables of the paper merge such flows or leave them
    /// [unattributed](Table::unattributed) instead.
    fn collisions(&self) -> Collisions {
        Collisions::default()
    }

    /// Returns the memory of the full table, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// The kind of flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableKind {
    /// The default: exact, compares whole keys, bounded.
    #[default]
    Bucket,
    /// FloWatcher's table of 2^16 buckets with two entries, keyed by the hash alone.
    DoubleHash,
    /// FloWatcher's table of 2^16 chains, keyed by the hash alone.
    LinkedList,
    /// FloWatcher's double hash, with a chain per bucket for the flows that do not fit.
    Combined,
}

impl TableKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Bucket,
        Self::DoubleHash,
        Self::LinkedList,
        Self::Combined,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::DoubleHash => "double-hash",
            Self::LinkedList => "linked-list",
            Self::Combined => "combined",
        }
    }

    /// Returns whether the table compares whole keys, so that flows with the same hash do not merge.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Bucket)
    }
}

impl FromStr for TableKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
                format!(
                    "unknown table '{text}': expected one of {}",
                    names.join(", ")
                )
            })
    }
}

/// Returns the nanoseconds from the flow's last packet to `packet`; 0 if `packet` is older.
#[inline]
fn silence_ns(entry: &Entry, packet: &Packet) -> u64 {
    let silence_ns = packet.time_ns.saturating_sub(entry.last_ns());
    silence_ns.max(0).cast_unsigned()
}

/// Counts a packet in its flow's entry, and writes the selected outputs.
#[inline]
fn count<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
    entry: &mut Entry,
    packet: &Packet,
    at: usize,
    slot: u32,
    observed: &mut Observed,
) {
    const NUMBER: u64 = (1 << 48) - 1;
    if INTER_ARRIVAL {
        observed.inter_arrival_ns[at] = silence_ns(entry, packet);
    }
    if GAPS {
        observed.gaps[at] = packet
            .number
            .wrapping_sub(entry.last_number())
            .wrapping_sub(1)
            & NUMBER;
    }
    entry.count::<NUMBERS>(packet);
    observed.slots[at] = slot;
}

/// Opens a flow, and writes the outputs of its first packet.
#[inline]
fn open(
    entry: &mut Entry,
    key: u128,
    packet: &Packet,
    at: usize,
    slot: u32,
    expiry: &Expiry,
    observed: &mut Observed,
) {
    entry.open(key, packet, expiry.active_tick(packet.clock_ms));
    observed.slots[at] = slot;
    observed.inter_arrival_ns[at] = NO_VALUE;
    observed.gaps[at] = NO_VALUE;
    observed.opened.push(at as u16);
}

/// Size of a stored wide key.
pub(crate) const WIDE_KEY_BYTES: usize = size_of::<[u128; 3]>();

/// The whole keys of flows whose table key is a digest, by slot.
struct WideKeys(HugeSlice<[u128; 3]>);

impl WideKeys {
    fn new(slots: usize) -> io::Result<Self> {
        HugeSlice::try_zeroed(slots).map(Self)
    }

    /// Maps all memory now. Otherwise it is mapped as flows with wide keys come.
    fn populate(&mut self) {
        self.0.populate();
    }

    /// Returns the memory in use if all keys are wide, in bytes.
    fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<[u128; 3]>()
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        prefetch::read(&self.0, slot as usize);
    }

    fn set(&mut self, slot: u32, batch: &Batch, packet: &Packet) {
        if let Some(key) = batch.wide_key(packet) {
            self.0[slot as usize] = crate::batch::key_to_words(&key);
        }
    }

    fn relocate(&mut self, from: u32, to: u32, entry: &Entry) {
        if entry.key() & FlowKey::WIDE_MARK != 0 {
            self.0[to as usize] = self.0[from as usize];
        }
    }

    #[inline]
    fn equals(&self, slot: u32, batch: &Batch, packet: &Packet) -> bool {
        batch
            .wide_key(packet)
            .is_none_or(|key| self.0[slot as usize] == crate::batch::key_to_words(&key))
    }

    /// Appends the entry, the start and the key, if wide, of the flow in `slot`.
    #[inline]
    fn copy_out(&self, slot: u32, entry: &Entry, start: &FlowStart, ended: &mut EndedFlows) {
        ended.entries.push(*entry);
        ended.starts.push(*start);
        if entry.key() & FlowKey::WIDE_MARK != 0 {
            ended.wide_keys.push(self.flow_key(slot, entry));
        }
    }

    fn flow_key(&self, slot: u32, entry: &Entry) -> FlowKey {
        let key = entry.key();
        if key & FlowKey::WIDE_MARK != 0 {
            crate::batch::key_from_words(&self.0[slot as usize])
        } else {
            FlowKey::from_compact(key)
        }
    }
}
