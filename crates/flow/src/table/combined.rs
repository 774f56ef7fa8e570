//! FloWatcher's combined table: the double hash, with a chain per bucket for the flows that do not fit
//! its two entries.

use super::linked_list::Chains;
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

/// Entries in a bucket, without its chain, as in the paper.
const WAYS: u32 = 2;

/// The first slot of the chains, after those of the buckets.
const FIRST_CHAIN_SLOT: u32 = BUCKETS as u32 * WAYS;

/// The combined table.
pub struct Combined {
    nodes: Nodes,
    tags: HugeSlice<[u16; WAYS as usize]>,
    chains: Chains,
}

impl Combined {
    /// Creates a table with buckets for 2^17 flows and chains for at most `flows_max` more, which
    /// computes `outputs` for each packet.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(flows_max: usize, outputs: Outputs) -> io::Result<Self> {
        let slots = FIRST_CHAIN_SLOT as usize + flows_max.clamp(1, u32::MAX as usize / 2);
        Ok(Self {
            nodes: Nodes::new(slots, outputs)?,
            tags: HugeSlice::try_zeroed(BUCKETS)?,
            chains: Chains::new(FIRST_CHAIN_SLOT, slots as u32)?,
        })
    }

    /// Returns the slot of the flow with `hash`, or as error the last node of its bucket's chain, if
    /// any.
    #[inline]
    fn find(&self, hash: u64) -> Result<u32, Option<u32>> {
        let bucket = bucket_of(hash);
        let first = bucket as u32 * WAYS;
        let [one, two] = self.tags[bucket];
        if one == tag_of(hash) && self.nodes.is_taken(first) {
            Ok(first)
        } else if two == tag_of(hash) && self.nodes.is_taken(first + 1) {
            Ok(first + 1)
        } else {
            self.chains.find(hash)
        }
    }

    /// Returns a free slot for a new flow, or `None` if the store is full.
    fn allocate(&mut self, hash: u64, last: Option<u32>) -> Option<u32> {
        let bucket = bucket_of(hash);
        let first = bucket as u32 * WAYS;
        for way in 0..WAYS {
            if !self.nodes.is_taken(first + way) {
                self.tags[bucket][way as usize] = tag_of(hash);
                return Some(first + way);
            }
        }
        self.chains.append(hash, last)
    }
}

impl Table for Combined {
    fn prefetch_batch(&mut self, batch: &Batch) {
        for &hash in batch.hashes() {
            let bucket = bucket_of(hash);
            prefetch::read_into(CacheLevel::L2, &self.tags, bucket);
            self.chains.prefetch_head(bucket);
            prefetch::read_into(CacheLevel::L2, &self.nodes.entries, bucket * WAYS as usize);
            prefetch::read_into(
                CacheLevel::L2,
                &self.nodes.entries,
                bucket * WAYS as usize + 1,
            );
        }
        for &hash in batch.hashes() {
            let bucket = bucket_of(hash);
            if !self.tags[bucket].contains(&tag_of(hash))
                && let Some(head) = self.chains.head(bucket)
            {
                self.chains.prefetch_link(head);
                prefetch::read_into(CacheLevel::L2, &self.nodes.entries, head as usize);
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
            match self.find(hash) {
                Ok(slot) => {
                    if let Some(step) = self.nodes.count(slot, packet, at, expiry, observed) {
                        return step;
                    }
                }
                Err(last) => match self.allocate(hash, last) {
                    Some(slot) => self.nodes.open(slot, batch, at, expiry, observed),
                    None => self.nodes.count_unattributed(packet, at, observed),
                },
            }
        }
        Step::Done
    }

    fn remove(&mut self, slots: &[u32]) {
        for &slot in slots.iter().filter(|&&slot| slot >= FIRST_CHAIN_SLOT) {
            self.chains.remove(slot);
        }
        self.nodes.remove(slots);
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + BUCKETS * size_of::<[u16; WAYS as usize]>()
            + self.chains.memory_bytes()
    }

    node_table!();
}
