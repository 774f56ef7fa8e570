//! What the three tables of the FloWatcher paper share: a store of entries in which a flow is told
//! by a hash alone. Two flows of one hash merge there, as in the paper; the key kept is the first
//! packet's.

use super::{Observed, Step, Wanted, WideKeys, count, open};
use crate::batch::{Batch, Packet};
use crate::ended::{EndedFlows, Opening, opening};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::record::EndReason;
use hw::memory::HugeSlice;
use std::io;
use wire::FlowKey;

/// Buckets, as in the paper.
pub(super) const BUCKETS: usize = 1 << 16;

/// The bucket of a hash: its low half.
#[inline(always)]
pub(super) fn bucket_of(hash: u64) -> usize {
    usize::from(hash as u16)
}

/// What is compared within a bucket: the high half of the 32-bit hash.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u16 {
    (hash >> 16) as u16
}

/// Entries, taken or free; the free ones from `unused` on were never taken.
pub(super) struct Nodes {
    pub(super) entries: HugeSlice<Entry>,
    pub(super) openings: HugeSlice<Opening>,
    wide: WideKeys,
    /// Packets and bytes that found no place.
    pub(super) miscounted: [u64; 2],
    flows: usize,
    wanted: Wanted,
}

impl Nodes {
    pub(super) fn new(slots: usize, wanted: Wanted) -> io::Result<Self> {
        Ok(Self {
            entries: HugeSlice::try_zeroed(slots)?,
            openings: HugeSlice::try_zeroed(slots)?,
            wide: WideKeys::new(slots)?,
            miscounted: [0; 2],
            flows: 0,
            wanted,
        })
    }

    /// Takes all memory from the machine now.
    pub(super) fn populate(&mut self) {
        self.entries.populate();
        self.openings.populate();
        self.wide.populate();
    }

    /// Whether `slot` holds a flow.
    #[inline(always)]
    pub(super) fn is_taken(&self, slot: u32) -> bool {
        self.entries[slot as usize].key() != 0
    }

    /// Counts packet `at` in the flow in `slot`, unless that flow has ended before it.
    #[inline(always)]
    pub(super) fn count(
        &mut self,
        slot: u32,
        packet: &Packet,
        at: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Option<Step> {
        let entry = &mut self.entries[slot as usize];
        if let Some(reason) = expiry.ended_before(entry, packet) {
            return Some(Step::Ended { at, slot, reason });
        }
        let count = match self.wanted.kind() {
            (false, false, false) => count::<false, false, false>,
            (false, false, true) => count::<false, false, true>,
            (true, false, false) => count::<true, false, false>,
            (true, false, true) => count::<true, false, true>,
            (_, true, false) => count::<true, true, false>,
            (_, true, true) => count::<true, true, true>,
        };
        count(entry, packet, at, slot, observed);
        None
    }

    /// Begins a flow in a free slot with packet `at`.
    pub(super) fn open(
        &mut self,
        slot: u32,
        batch: &Batch,
        at: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) {
        let packet = &batch.packets()[at];
        self.wide.set(slot, batch, packet);
        self.flows += 1;
        self.openings[slot as usize] = opening(packet, packet.direction);
        open(
            &mut self.entries[slot as usize],
            batch.keys()[at],
            packet,
            at,
            slot,
            expiry,
            observed,
        );
    }

    /// Counts a packet that has no place.
    pub(super) fn miscount(&mut self, packet: &Packet, at: usize, observed: &mut Observed) {
        self.miscounted[0] += 1;
        self.miscounted[1] += u64::from(packet.length);
        observed.slots[at] = super::NO_SLOT;
    }

    pub(super) fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
        self.wide.flow_key(slot, entry)
    }

    pub(super) fn tell(&self, slots: &[u32], ended: &mut EndedFlows) {
        for &slot in slots {
            let (entry, opening) = (&self.entries[slot as usize], &self.openings[slot as usize]);
            self.wide.tell(slot, entry, opening, ended);
        }
    }

    pub(super) fn remove(&mut self, slots: &[u32]) {
        self.flows -= slots.len();
        for &slot in slots {
            self.entries[slot as usize].close();
        }
    }

    pub(super) fn slots(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn flows(&self) -> usize {
        self.flows
    }

    pub(super) fn expired(
        &self,
        from: u32,
        to: u32,
        clock_ms: u32,
        expiry: &Expiry,
        ended: &mut Vec<(u32, EndReason)>,
    ) {
        for slot in from..to.min(self.slots()) {
            let entry = &self.entries[slot as usize];
            if entry.key() != 0
                && let Some(reason) = expiry.ended(entry, clock_ms)
            {
                ended.push((slot, reason));
            }
        }
    }

    pub(super) fn occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
        slots.extend((from..to.min(self.slots())).filter(|&slot| self.is_taken(slot)));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() * (size_of::<Entry>() + size_of::<Opening>()) + self.wide.memory_bytes()
    }
}

/// The part of [`Table`](super::Table) that is the same for a table over [`Nodes`] in `self.nodes`.
macro_rules! node_table {
    () => {
        fn prefetch(&self, slot: u32) {
            prefetch::read(&self.nodes.entries, slot as usize);
        }

        fn approach_removal(&self, slot: u32) {
            prefetch::read(&self.nodes.openings, slot as usize);
        }

        fn entry(&self, slot: u32) -> &Entry {
            &self.nodes.entries[slot as usize]
        }

        fn opening(&self, slot: u32) -> &$crate::ended::Opening {
            &self.nodes.openings[slot as usize]
        }

        fn opening_mut(&mut self, slot: u32) -> &mut $crate::ended::Opening {
            &mut self.nodes.openings[slot as usize]
        }

        fn tell(&self, slots: &[u32], ended: &mut $crate::ended::EndedFlows) {
            self.nodes.tell(slots, ended);
        }

        fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
            self.nodes.key(slot, entry)
        }

        fn populate(&mut self) {
            self.nodes.populate();
        }

        fn slots(&self) -> u32 {
            self.nodes.slots()
        }

        fn flows(&self) -> usize {
            self.nodes.flows()
        }

        fn expired(
            &self,
            from: u32,
            to: u32,
            clock_ms: u32,
            expiry: &Expiry,
            ended: &mut Vec<(u32, EndReason)>,
        ) {
            self.nodes.expired(from, to, clock_ms, expiry, ended);
        }

        fn occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
            self.nodes.occupied(from, to, slots);
        }

        fn miscounted(&self) -> [u64; 2] {
            self.nodes.miscounted
        }
    };
}
pub(super) use node_table;
