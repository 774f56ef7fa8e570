//! The entry store of the three tables of the FloWatcher paper. They identify a flow by its hash alone:
//! two flows with the same hash merge, as in the paper, under the key of the first packet.

use super::{Observed, Outputs, Step, WideKeys, count, open};
use crate::batch::{Batch, Packet};
use crate::end_reason::EndReason;
use crate::ended::{EndedFlows, FlowStart, flow_start};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use hw::memory::HugeSlice;
use std::io;
use wire::FlowKey;

/// The number of buckets, as in the paper.
pub(super) const BUCKETS: usize = 1 << 16;

/// Returns the bucket of a hash: its low 16 bits.
#[inline]
pub(super) fn bucket_of(hash: u64) -> usize {
    usize::from(hash as u16)
}

/// Returns the tag that is compared within a bucket: the high half of the 32-bit hash.
#[inline]
pub(super) fn tag_of(hash: u64) -> u16 {
    (hash >> 16) as u16
}

/// Entries with their flow starts and wide keys, by slot.
pub(super) struct Nodes {
    pub(super) entries: HugeSlice<Entry>,
    pub(super) starts: HugeSlice<FlowStart>,
    wide: WideKeys,
    /// Packets and bytes of flows that did not fit the table.
    pub(super) unattributed: [u64; 2],
    flows: usize,
    outputs: Outputs,
}

impl Nodes {
    pub(super) fn new(slots: usize, outputs: Outputs) -> io::Result<Self> {
        Ok(Self {
            entries: HugeSlice::try_zeroed(slots)?,
            starts: HugeSlice::try_zeroed(slots)?,
            wide: WideKeys::new(slots)?,
            unattributed: [0; 2],
            flows: 0,
            outputs,
        })
    }

    /// Maps all memory now.
    pub(super) fn populate(&mut self) {
        self.entries.populate();
        self.starts.populate();
        self.wide.populate();
    }

    /// Returns whether `slot` holds a flow.
    #[inline]
    pub(super) fn is_taken(&self, slot: u32) -> bool {
        self.entries[slot as usize].key() != 0
    }

    /// Counts packet `at` in the flow in `slot`. If the flow has ended before the packet, returns the
    /// step to stop at.
    #[inline]
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
        let count = match self.outputs.as_tuple() {
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

    /// Opens a flow in a free slot with packet `at`.
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
        self.starts[slot as usize] = flow_start(packet, expiry.initiator(packet));
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

    /// Counts a packet whose flow does not fit the table.
    pub(super) fn count_unattributed(
        &mut self,
        packet: &Packet,
        at: usize,
        observed: &mut Observed,
    ) {
        self.unattributed[0] += 1;
        self.unattributed[1] += u64::from(packet.length);
        observed.slots[at] = super::NO_SLOT;
    }

    pub(super) fn key(&self, slot: u32, entry: &Entry) -> FlowKey {
        self.wide.flow_key(slot, entry)
    }

    pub(super) fn copy_out(&self, slots: &[u32], ended: &mut EndedFlows) {
        for &slot in slots {
            let (entry, start) = (&self.entries[slot as usize], &self.starts[slot as usize]);
            self.wide.copy_out(slot, entry, start, ended);
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

    pub(super) fn find_expired(
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

    pub(super) fn find_occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
        slots.extend((from..to.min(self.slots())).filter(|&slot| self.is_taken(slot)));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() * (size_of::<Entry>() + size_of::<FlowStart>())
            + self.wide.memory_bytes()
    }
}

/// The methods of [`Table`](super::Table) that are the same for every table with [`Nodes`] in
/// `self.nodes`.
macro_rules! node_table {
    () => {
        fn prefetch_entry(&self, slot: u32) {
            prefetch::read(&self.nodes.entries, slot as usize);
        }

        fn prefetch_removal(&self, slot: u32) {
            prefetch::read(&self.nodes.starts, slot as usize);
        }

        fn entry(&self, slot: u32) -> &Entry {
            &self.nodes.entries[slot as usize]
        }

        fn start(&self, slot: u32) -> &$crate::ended::FlowStart {
            &self.nodes.starts[slot as usize]
        }

        fn start_mut(&mut self, slot: u32) -> &mut $crate::ended::FlowStart {
            &mut self.nodes.starts[slot as usize]
        }

        fn copy_out(&self, slots: &[u32], ended: &mut $crate::ended::EndedFlows) {
            self.nodes.copy_out(slots, ended);
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

        fn find_expired(
            &self,
            from: u32,
            to: u32,
            clock_ms: u32,
            expiry: &Expiry,
            ended: &mut Vec<(u32, EndReason)>,
        ) {
            self.nodes.find_expired(from, to, clock_ms, expiry, ended);
        }

        fn find_occupied(&self, from: u32, to: u32, slots: &mut Vec<u32>) {
            self.nodes.find_occupied(from, to, slots);
        }

        fn unattributed(&self) -> [u64; 2] {
            self.nodes.unattributed
        }
    };
}
pub(super) use node_table;
