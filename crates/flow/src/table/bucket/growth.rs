//! Growth by linear hashing: one bucket is split after the other, and those of its flows move whose hash
//! says so.

use super::{Bucket, LANES, Lanes, PROBES, SENT_ON};
use crate::entry::FlowEntry;
use hw::tags::{self, TAGS};

/// Mean flows in a bucket above which the table grows. A bucket whose turn to be split has not come
/// holds up to twice as many.
const GROW_ABOVE: usize = 11;

/// The most buckets that are split before a burst; a burst of nothing but new flows needs 24.
const SPLITS: usize = 32;

/// Flows that a split looks at.
#[derive(Default)]
pub(super) struct Scratch {
    slots: Vec<u32>,
    keys: Vec<u128>,
    hashes: Vec<u64>,
}

impl Scratch {
    /// Leaves only the flows whose hashes are `wanted`.
    fn keep(&mut self, wanted: impl Fn(u64) -> bool) {
        let mut kept = 0;
        for at in 0..self.hashes.len().min(self.slots.len()) {
            let (slot, hash) = (self.slots[at], self.hashes[at]);
            self.slots[kept] = slot;
            self.hashes[kept] = hash;
            kept += usize::from(wanted(hash));
        }
        self.slots.truncate(kept);
        self.hashes.truncate(kept);
    }
}

impl Bucket {
    /// Splits buckets as long as flows are crowded, a few at most.
    ///
    /// # Errors
    /// See [`Table::grow`](crate::table::Table::grow).
    pub(super) fn split_crowded(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        for _ in 0..SPLITS {
            if self.buckets == self.buckets_max || self.flows <= self.buckets as usize * GROW_ABOVE
            {
                break;
            }
            self.split(moved)?;
            self.prefetch_split();
        }
        Ok(())
    }

    /// Splits the bucket whose turn it is: of its flows, those whose hash says so move to a new one.
    ///
    /// # Errors
    /// A flow that would have to move and finds no room: it must be taken out first. (So many flows
    /// of one bucket need hashes that collide by intent.)
    fn split(&mut self, moved: &mut dyn FnMut(u32, u32)) -> Result<(), u32> {
        let (new, grown) = (self.buckets, self.buckets + 1);
        let old = new - (1 << new.ilog2());
        let mut scratch = std::mem::take(&mut self.scratch);
        self.flows_near(old, &mut scratch);
        scratch.keep(|hash| tags::bucket_of(hash, grown) == new);
        let result = match scratch.slots.first() {
            Some(&slot) if !self.has_room_near(new, scratch.slots.len()) => Err(slot),
            _ => {
                self.buckets = grown;
                for (&from, &hash) in scratch.slots.iter().zip(&scratch.hashes) {
                    // There is room for all of them.
                    let Some(to) = self.take_lane(new, tags::tag_of(hash)) else {
                        continue;
                    };
                    self.call_back(old, from / LANES);
                    self.entries[to as usize] = self.entries[from as usize];
                    self.openings[to as usize] = self.openings[from as usize];
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

    /// The flows of `bucket` and of those that took what it sent on, and their hashes.
    fn flows_near(&self, mut bucket: u32, found: &mut Scratch) {
        found.slots.clear();
        found.keys.clear();
        for _ in 0..PROBES {
            let slots = Lanes(self.taken(bucket)).map(|lane| bucket * LANES + lane);
            found.slots.extend(slots);
            if self.tags[bucket as usize].0[SENT_ON] == 0 {
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

    /// Whether so many flows of `bucket` find room.
    fn has_room_near(&self, mut bucket: u32, flows: usize) -> bool {
        let mut room = 0;
        for _ in 0..PROBES {
            room += TAGS - self.taken(bucket).count_ones() as usize;
            if room >= flows {
                return true;
            }
            bucket = self.next(bucket);
        }
        false
    }

    /// Asks for the flows of the bucket that will be split next.
    fn prefetch_split(&self) {
        let next = self.buckets - (1 << self.buckets.ilog2());
        self.prefetch_occupied(next);
    }
}
