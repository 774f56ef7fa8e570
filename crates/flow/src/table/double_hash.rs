//! FloWatcher's double hash: the low half of the hash selects one of 2^16 buckets, and the high half is
//! compared with its two entries. A third flow of a bucket does not fit: its packets are counted as
//! unattributed.

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

/// Entries in a bucket, as in the paper.
const WAYS: u32 = 2;

/// The double hash table.
pub struct DoubleHash {
    nodes: Nodes,
    tags: HugeSlice<[u16; WAYS as usize]>,
}

impl DoubleHash {
    /// Creates a table of 2^16 buckets that computes `outputs` for each packet.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(outputs: Outputs) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(BUCKETS * WAYS as usize, outputs)?,
            tags: HugeSlice::try_zeroed(BUCKETS)?,
        })
    }

    /// Returns the slot of the flow with this hash, or a free slot for it.
    #[inline]
    fn find_or_free(&self, hash: u64) -> Option<u32> {
        let bucket = bucket_of(hash);
        let slot = bucket as u32 * WAYS;
        let ways = self.tags[bucket];
        let taken = [self.nodes.is_taken(slot), self.nodes.is_taken(slot + 1)];
        let held = (0..2).find(|&way| taken[way] && ways[way] == tag_of(hash));
        held.or_else(|| (0..2).find(|&way| !taken[way]))
            .map(|way| slot + way as u32)
    }
}

impl Table for DoubleHash {
    fn prefetch_batch(&mut self, batch: &Batch) {
        for &hash in batch.hashes() {
            prefetch::read_into(CacheLevel::L2, &self.tags, bucket_of(hash));
            prefetch::read_into(
                CacheLevel::L2,
                &self.nodes.entries,
                bucket_of(hash) * WAYS as usize,
            );
            prefetch::read_into(
                CacheLevel::L2,
                &self.nodes.entries,
                bucket_of(hash) * WAYS as usize + 1,
            );
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
            match self.find_or_free(hash) {
                Some(slot) if self.nodes.is_taken(slot) => {
                    if let Some(step) = self.nodes.count(slot, packet, at, expiry, observed) {
                        return step;
                    }
                }
                Some(slot) => {
                    self.tags[bucket_of(hash)][(slot % WAYS) as usize] = tag_of(hash);
                    self.nodes.open(slot, batch, at, expiry, observed);
                }
                None => self.nodes.count_unattributed(packet, at, observed),
            }
        }
        Step::Done
    }

    fn remove(&mut self, slots: &[u32]) {
        self.nodes.remove(slots);
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + BUCKETS * size_of::<[u16; WAYS as usize]>()
    }

    node_table!();
}
