//! Growth by linear hashing: buckets are split in order, and the flows of a bucket whose hashes map to
//! the new bucket move there.

use super::scratch::Scratch;
use super::{BucketTable, OVERFLOW_LANE, PROBES_MAX};
use crate::entry::FlowEntry;
use crate::table::lanes::{LANES, Lanes};
use hw::tags::{self, TAGS};

/// The mean number of flows per bucket above which the table grows. A bucket that is not split yet in
/// this round holds up to twice as many.
const GROW_FLOWS_PER_BUCKET: usize = 11;

/// The maximum number of splits before a burst. A burst of only new flows needs 24.
const SPLITS_PER_BATCH_MAX: usize = 32;

impl BucketTable {
    /// Splits a few buckets while the table is crowded.
    ///
    /// # Errors
    /// See [`Table::grow`](crate::table::Table::grow).
    pub(super) fn split_crowded(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        for _ in 0..SPLITS_PER_BATCH_MAX {
            if self.buckets == self.buckets_max
                || self.flows <= self.buckets as usize * GROW_FLOWS_PER_BUCKET
            {
                break;
            }
            self.split(moved)?;
            self.prefetch_split();
        }
        Ok(())
    }

    /// Splits the next bucket: the flows whose hashes map to the new bucket move there.
    ///
    /// # Errors
    /// The slot of a flow that would have to move but finds no room: it must be removed first. Only
    /// hashes that collide by intent put that many flows into one bucket.
    fn split(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        let (new, grown) = (self.buckets, self.buckets + 1);
        let old = new - (1 << new.ilog2());
        let mut scratch = std::mem::take(&mut self.scratch);
        self.collect_flows(old, &mut scratch);
        scratch.retain(|hash| tags::bucket_of(hash, grown) == new);
        let result = match scratch.slots.first() {
            Some(&slot) if !self.has_room_for(new, scratch.slots.len()) => {
                self.collisions.evicted += 1;
                Err(slot)
            }
            _ => {
                self.buckets = grown;
                for (&from, &hash) in scratch.slots.iter().zip(&scratch.hashes) {
                    // Always succeeds: there is room for all of them.
                    let Some(to) = self.claim_lane(new, tags::tag_of(hash)) else {
                        continue;
                    };
                    self.dec_overflow(old, from / LANES);
                    self.entries[to as usize] = self.entries[from as usize];
                    self.starts[to as usize] = self.starts[from as usize];
                    self.free_lane(from);
                    self.wide.relocate(from, to, &self.entries[to as usize]);
                    moved(from, to);
                }
                Ok(())
            }
        };
        self.scratch = scratch;
        result
    }

    /// Collects the flows of `bucket` and of the buckets that took its overflow, with their hashes.
    fn collect_flows(&self, mut bucket: u32, found: &mut Scratch) {
        found.slots.clear();
        found.keys.clear();
        for _ in 0..PROBES_MAX {
            let slots = Lanes(self.taken_lanes(bucket)).map(|lane| bucket * LANES + lane);
            found.slots.extend(slots);
            if self.tags[bucket as usize].0[OVERFLOW_LANE] == 0 {
                break;
            }
            bucket = self.next(bucket);
        }
        let keys = found.slots.iter();
        found
            .keys
            .extend(keys.map(|&slot| self.entries[slot as usize].key()));
        found.hashes.resize(found.keys.len(), 0);
        self.hash.hash_burst(&found.keys, &mut found.hashes);
    }

    /// Returns whether `flows` more flows with this home bucket fit.
    fn has_room_for(&self, mut bucket: u32, flows: usize) -> bool {
        let mut room = 0;
        for _ in 0..PROBES_MAX {
            room += TAGS - self.taken_lanes(bucket).count_ones() as usize;
            if room >= flows {
                return true;
            }
            bucket = self.next(bucket);
        }
        false
    }

    /// Prefetches the flows of the bucket that is split next.
    fn prefetch_split(&self) {
        let next = self.buckets - (1 << self.buckets.ilog2());
        self.prefetch_occupied(next);
    }
}
