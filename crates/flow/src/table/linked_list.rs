//! FloWatcher's linked list: 2^16 chains of flows. The low half of the hash selects the chain, and the
//! high half is compared.

use super::nodes::{BUCKETS, Nodes, bucket_of, node_table, tag_of};
use super::{Observed, Outputs, Step, Table};
use crate::batch::Batch;
use crate::end_reason::EndReason;
use crate::entry::Entry;
use crate::expiry::Expiry;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use std::io;
use std::ops::Range;
use wire::FlowKey;

/// A node's link in its chain: the next node (slot + 1; 0 at the end) in the first word, the bucket
/// (low half) and the flow's tag (high half) in the second.
type Link = [u32; 2];

/// Chains over a bounded store of nodes. Flows that do not fit the store are unattributed.
pub(super) struct Chains {
    heads: HugeSlice<u32>,
    links: HugeSlice<Link>,
    /// The first slot that chains use.
    base: u32,
    /// Slots that were used and freed.
    free: Vec<u32>,
    /// The first slot that was never used.
    unused: u32,
}

impl Chains {
    /// Creates chains over the slots from `base` to `slots`.
    pub(super) fn new(base: u32, slots: u32) -> io::Result<Self> {
        Ok(Self {
            heads: HugeSlice::try_zeroed(BUCKETS)?,
            links: HugeSlice::try_zeroed((slots - base) as usize)?,
            base,
            free: Vec::new(),
            unused: base,
        })
    }

    fn link(&self, slot: u32) -> Link {
        self.links[(slot - self.base) as usize]
    }

    pub(super) fn head(&self, bucket: usize) -> Option<u32> {
        self.heads[bucket].checked_sub(1)
    }

    pub(super) fn prefetch_head(&self, bucket: usize) {
        prefetch::read_into(CacheLevel::L2, &self.heads, bucket);
    }

    pub(super) fn prefetch_link(&self, slot: u32) {
        prefetch::read_into(CacheLevel::L2, &self.links, (slot - self.base) as usize);
    }

    /// Returns the node of the hash in its chain, or as error the last node of the chain, if any.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Result<u32, Option<u32>> {
        let mut last = None;
        let mut next = self.heads[bucket_of(hash)];
        while let Some(slot) = next.checked_sub(1) {
            let [next_in_chain, bucket_and_tag] = self.link(slot);
            if (bucket_and_tag >> 16) as u16 == tag_of(hash) {
                return Ok(slot);
            }
            last = Some(slot);
            next = next_in_chain;
        }
        Err(last)
    }

    /// Appends a node for the hash after `last`. Returns its slot, or `None` if the store is full.
    pub(super) fn append(&mut self, hash: u64, last: Option<u32>) -> Option<u32> {
        let slot = self.free.pop().or_else(|| {
            let end = self.base as usize + self.links.len();
            let slot = self.unused;
            ((slot as usize) < end)
                .then(|| self.unused += 1)
                .map(|()| slot)
        })?;
        let bucket = bucket_of(hash);
        self.links[(slot - self.base) as usize] =
            [0, bucket as u32 | u32::from(tag_of(hash)) << 16];
        match last {
            Some(last) => self.links[(last - self.base) as usize][0] = slot + 1,
            None => self.heads[bucket] = slot + 1,
        }
        Some(slot)
    }

    /// Removes a node from its chain.
    pub(super) fn remove(&mut self, slot: u32) {
        let [next, bucket_and_tag] = self.link(slot);
        let bucket = usize::from(bucket_and_tag as u16);
        let mut previous = None;
        let mut current = self.head(bucket);
        while let Some(here) = current
            && here != slot
        {
            previous = current;
            current = self.link(here)[0].checked_sub(1);
        }
        match previous {
            Some(previous) => self.links[(previous - self.base) as usize][0] = next,
            None => self.heads[bucket] = next,
        }
        self.free.push(slot);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        BUCKETS * size_of::<u32>() + self.links.len() * (size_of::<Link>() + size_of::<u32>())
    }
}

/// The linked list table.
pub struct LinkedList {
    nodes: Nodes,
    chains: Chains,
}

impl LinkedList {
    /// Creates a table of at most `flows_max` flows that computes `outputs` for each packet.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(flows_max: usize, outputs: Outputs) -> io::Result<Self> {
        let slots = flows_max.clamp(1, u32::MAX as usize / 2);
        Ok(Self {
            nodes: Nodes::new(slots, outputs)?,
            chains: Chains::new(0, slots as u32)?,
        })
    }
}

impl Table for LinkedList {
    fn prefetch_batch(&mut self, batch: &Batch) {
        for &hash in batch.hashes() {
            self.chains.prefetch_head(bucket_of(hash));
        }
        for &hash in batch.hashes() {
            if let Some(slot) = self.chains.head(bucket_of(hash)) {
                self.chains.prefetch_link(slot);
                prefetch::read_into(CacheLevel::L2, &self.nodes.entries, slot as usize);
            }
        }
    }

    fn update(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        for at in packets {
            let (hash, packet) = (batch.hashes()[at], &batch.packets()[at]);
            match self.chains.find(hash) {
                Ok(slot) => {
                    if let Some(step) = self.nodes.count(slot, packet, at, expiry, observed) {
                        return step;
                    }
                }
                Err(last) => match self.chains.append(hash, last) {
                    Some(slot) => self.nodes.open(slot, batch, at, expiry, observed),
                    None => self.nodes.count_unattributed(packet, at, observed),
                },
            }
        }
        Step::Done
    }

    fn remove(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.chains.remove(slot));
        self.nodes.remove(slots);
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.chains.memory_bytes()
    }

    node_table!();
}
