//! FloWatcher's linked list: 2^16 chains of flows, picked by the low half of the hash and compared
//! by the high half.

use super::nodes::{BUCKETS, Nodes, bucket_of, node_table, tag_of};
use super::{Observed, Step, Table, Wanted};
use crate::batch::Batch;
use crate::entry::Entry;
use crate::expiry::Expiry;
use crate::record::EndReason;
use hw::memory::HugeSlice;
use hw::prefetch::{self, CacheLevel};
use std::io;
use std::ops::Range;
use wire::FlowKey;

/// A node's place in its chain: where the chain goes on (slot + 1, 0 at its end), the bucket that
/// it hangs from, and the tag that tells its flow.
type Link = [u32; 2];

/// Chains over a bounded store of nodes. What the store cannot hold is miscounted.
pub(super) struct Chains {
    heads: HugeSlice<u32>,
    links: HugeSlice<Link>,
    /// First slot of the store that chains use.
    base: u32,
    free: Vec<u32>,
    unused: u32,
}

impl Chains {
    /// Chains over the slots from `base` to `slots`.
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
        prefetch::into(CacheLevel::Second, &self.heads, bucket);
    }

    pub(super) fn prefetch_link(&self, slot: u32) {
        prefetch::into(CacheLevel::Second, &self.links, (slot - self.base) as usize);
    }

    /// The node of the hash in its chain, or the last node of the chain, if any.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Result<u32, Option<u32>> {
        let mut last = None;
        let mut next = self.heads[bucket_of(hash)];
        while let Some(slot) = next.checked_sub(1) {
            let [following, place] = self.link(slot);
            if (place >> 16) as u16 == tag_of(hash) {
                return Ok(slot);
            }
            last = Some(slot);
            next = following;
        }
        Err(last)
    }

    /// A node for the hash, hung behind `last`.
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

    /// Takes a node out of its chain.
    pub(super) fn remove(&mut self, slot: u32) {
        let [following, place] = self.link(slot);
        let bucket = usize::from(place as u16);
        let mut before = None;
        let mut current = self.head(bucket);
        while let Some(here) = current
            && here != slot
        {
            before = current;
            current = self.link(here)[0].checked_sub(1);
        }
        match before {
            Some(before) => self.links[(before - self.base) as usize][0] = following,
            None => self.heads[bucket] = following,
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
    /// Chains of at most `flows_max` flows in all. `wanted`: what to tell of each packet.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub fn new(flows_max: usize, wanted: Wanted) -> io::Result<Self> {
        let slots = flows_max.clamp(1, u32::MAX as usize / 2);
        Ok(Self {
            nodes: Nodes::new(slots, wanted)?,
            chains: Chains::new(0, slots as u32)?,
        })
    }
}

impl Table for LinkedList {
    fn stage(&mut self, batch: &Batch) {
        for &hash in batch.hashes() {
            self.chains.prefetch_head(bucket_of(hash));
        }
        for &hash in batch.hashes() {
            if let Some(slot) = self.chains.head(bucket_of(hash)) {
                self.chains.prefetch_link(slot);
                prefetch::into(CacheLevel::Second, &self.nodes.entries, slot as usize);
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
                    None => self.nodes.miscount(packet, at, observed),
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
