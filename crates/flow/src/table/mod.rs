//! Flow tables behind one interface: batches of packets in, the slot of each one's flow out.

mod bucket;
mod combined;
mod double_hash;
mod hand;
mod linked_list;
mod nodes;
mod staged;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use combined::Combined;
pub use double_hash::DoubleHash;
pub use linked_list::LinkedList;
pub(crate) use staged::MANY_FLOWS;

use crate::batch::{BURST, Batch, Packet};
use crate::ended::{EndedFlows, Opening};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::record::EndReason;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use std::io;
use std::ops::Range;
use std::str::FromStr;
use wire::FlowKey;

/// The slot of a packet whose flow has no place.
pub const NO_SLOT: u32 = u32::MAX;

/// What has no value: the gap and the inter-arrival time of a flow's first packet.
pub const NO_VALUE: u64 = u64::MAX;

/// What a table tells of each packet beside its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the flow's last packet, in its entry.
    pub numbers: bool,
    /// The gap to the flow's previous packet, for which the entry has its number too.
    pub gaps: bool,
    /// The time since it.
    pub inter_arrival: bool,
}

impl Wanted {
    /// All that there is.
    pub const ALL: Self = Self {
        numbers: true,
        gaps: true,
        inter_arrival: true,
    };

    /// Numbers, gaps and inter-arrival times, for a function of each kind.
    const fn kind(self) -> (bool, bool, bool) {
        (self.numbers, self.gaps, self.inter_arrival)
    }
}

/// What a table tells of each packet of a burst.
#[derive(Debug)]
pub struct Observed {
    /// The slot of the packet's flow, or [`NO_SLOT`].
    pub slots: [u32; BURST],
    /// Nanoseconds since the flow's previous packet, or [`NO_VALUE`]; only when asked for.
    pub inter_arrival_ns: [u64; BURST],
    /// Packets of other flows since the flow's previous packet, or [`NO_VALUE`]; only when asked for.
    pub gaps: [u64; BURST],
    /// Packets that began a flow.
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
    /// The flow in `slot` must be taken out before packet `at` can be counted.
    Ended {
        /// Index of the packet.
        at: usize,
        /// Slot of the flow.
        slot: u32,
        /// Why the flow ends.
        reason: EndReason,
    },
}

/// Finds, makes and counts flows.
///
/// A slot belongs to a flow from its first packet until [`Table::remove`].
pub trait Table: Send {
    /// Asks for what tells where the flows of the batch are.
    fn stage(&mut self, batch: &Batch);

    /// Takes flows out so that the staged batch finds room, where the table is full: all at once, while
    /// nothing waits for any of them. Their slots are appended, and what the table knows of them.
    fn make_room(&mut self, batch: &Batch, leaving: &mut Vec<u32>, ended: &mut EndedFlows) {
        let _ = (batch, leaving, ended);
    }

    /// Counts these packets of the staged batch, in their order, as far as no flow ends before one.
    fn update(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step;

    /// The cache into which what is kept of the staged batch's flows is best asked for.
    fn level(&self) -> CacheLevel {
        CacheLevel::Second
    }

    /// Brings the entry of the flow in `slot` near.
    fn prefetch(&self, slot: u32);

    /// Asks for what tells of the flow in `slot` and takes it out, besides its entry.
    fn approach_removal(&self, slot: u32);

    /// The flow in `slot`.
    fn entry(&self, slot: u32) -> &Entry;

    /// What is kept of its first packet.
    fn opening(&self, slot: u32) -> &Opening;

    /// The same, to be corrected.
    fn opening_mut(&mut self, slot: u32) -> &mut Opening;

    /// The whole key of the flow of `entry`, which is in `slot`.
    fn key(&self, slot: u32, entry: &Entry) -> FlowKey;

    /// Appends what the table knows of the flows in these slots: entries, openings, and keys that are
    /// wide.
    fn tell(&self, slots: &[u32], ended: &mut EndedFlows);

    /// Takes the flows in these slots out, and frees the slots.
    fn remove(&mut self, slots: &[u32]);

    /// Makes the table larger where flows get crowded, up to its bound, a little at a time; to be
    /// called between batches. `moved` is told each flow that moves: its old slot and its new one.
    ///
    /// # Errors
    /// The slot of a flow that must be taken out before the table can go on growing.
    fn grow(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        let _ = moved;
        Ok(())
    }

    /// Takes all memory from the machine now, and spreads out in a part of it that a link's first flows
    /// fill without growth; to be called before the first flow comes.
    fn populate(&mut self);

    /// Number of slots in use, taken or not: those below it.
    fn slots(&self) -> u32;

    /// Number of slots that there may ever be.
    fn slots_max(&self) -> u32 {
        self.slots()
    }

    /// Number of flows.
    fn flows(&self) -> usize;

    /// Appends the slots within `from..to` whose flow has ended at `clock_ms`.
    fn expired(
        &self,
        from: u32,
        to: u32,
        clock_ms: u32,
        expiry: &Expiry,
        ended: &mut Vec<(u32, EndReason)>,
    );

    /// Appends the slots within `from..to` that hold a flow.
    fn occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>);

    /// Packets and bytes that found no place, and are in no flow.
    fn miscounted(&self) -> [u64; 2] {
        [0, 0]
    }

    /// Memory that the table takes when full, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableKind {
    /// Exact, whole keys, bounded: the default.
    #[default]
    Bucket,
    /// FloWatcher's: 2^16 buckets of two entries, keyed by the hash alone.
    DoubleHash,
    /// FloWatcher's: 2^16 chains, keyed by the hash alone.
    LinkedList,
    /// FloWatcher's: the double hash with a chain for what it cannot place.
    Combined,
}

impl TableKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Bucket,
        Self::DoubleHash,
        Self::LinkedList,
        Self::Combined,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::DoubleHash => "double-hash",
            Self::LinkedList => "linked-list",
            Self::Combined => "combined",
        }
    }

    /// Whether flows are told apart by their whole keys, not by hash alone.
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
                format!("unknown table '{text}': one of {}", names.join(", "))
            })
    }
}

/// Nanoseconds since the last packet of the flow.
#[inline(always)]
fn silence_ns(entry: &Entry, packet: &Packet) -> u64 {
    let silence_ns = packet.time_ns.saturating_sub(entry.last_ns());
    silence_ns.max(0).cast_unsigned()
}

/// Counts a packet in its flow's entry and tells what was seen: gaps and inter-arrival times, where
/// they are wanted.
#[inline(always)]
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

/// Begins a flow.
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

/// Bytes of a whole key.
pub(crate) const WIDE_KEY_BYTES: usize = size_of::<[u128; 3]>();

/// Whole keys of flows whose table key is a digest.
struct WideKeys(HugeSlice<[u128; 3]>);

impl WideKeys {
    fn new(slots: usize) -> io::Result<Self> {
        HugeSlice::try_zeroed(slots).map(Self)
    }

    /// Takes all memory from the machine now; otherwise as such flows come.
    fn populate(&mut self) {
        self.0.populate();
    }

    /// Memory that they take when all keys are wide.
    fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<[u128; 3]>()
    }

    #[inline(always)]
    fn prefetch(&self, slot: u32) {
        prefetch::read(&self.0, slot as usize);
    }

    fn set(&mut self, slot: u32, batch: &Batch, packet: &Packet) {
        if let Some(key) = batch.wide_key(packet) {
            self.0[slot as usize] = crate::batch::words(&key);
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
            .is_none_or(|key| self.0[slot as usize] == crate::batch::words(&key))
    }

    /// Appends what is known of the flow in a slot.
    #[inline(always)]
    fn tell(&self, slot: u32, entry: &Entry, opening: &Opening, ended: &mut EndedFlows) {
        ended.entries.push(*entry);
        ended.openings.push(*opening);
        if entry.key() & FlowKey::WIDE_MARK != 0 {
            ended.wide_keys.push(self.flow_key(slot, entry));
        }
    }

    fn flow_key(&self, slot: u32, entry: &Entry) -> FlowKey {
        let key = entry.key();
        if key & FlowKey::WIDE_MARK != 0 {
            crate::batch::from_words(&self.0[slot as usize])
        } else {
            FlowKey::from_compact(key)
        }
    }
}
