//! The heavy-hitter table: keys with their counts, eight to a bucket.
//!
//! A hash chooses a bucket and gives a fingerprint of 32 bits; the inner loop is in
//! [`hw::buckets`]. Two keys of one bucket with equal fingerprints are counted as one, under the key
//! that was stored; a new key meets such a pair with a probability of 8 / 2^32.

use crate::bytes::Reader;
use crate::counter::Width;
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{
    ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch, sort_heavy_hitters,
};
use crate::seed::{Seed, SeedDigest};
use crate::updates::{HashedKey, Updates, Weights};
use hw::buckets::{
    self, Batch, Bucket, Fingerprints, Keys, SLOTS, WideCounts, bucket_of, fingerprint_of,
};
use hw::memory::HugeSlice;
use hw::random::Random;

pub use hw::buckets::Policy;

/// Buckets are prefetched in tables larger than this. In smaller ones the caches hold them, and the
/// prefetch costs more than it saves.
const PREFETCH_ABOVE: usize = 8 << 20;

/// How many packets ahead buckets are prefetched.
const AHEAD: usize = 24;

/// The most buckets: a bucket is chosen by 32 bits of the hash.
const MOST_BUCKETS: usize = u32::MAX as usize;

/// Separates the random numbers of this table from those of other purposes.
const ADMISSION: u64 = u64::from_le_bytes(*b"admitted");

enum Counts {
    Narrow(HugeSlice<Bucket>),
    Wide(HugeSlice<Fingerprints>, HugeSlice<WideCounts>),
}

/// The table.
pub struct HeavyHitters {
    counts: Counts,
    keys: HugeSlice<Keys>,
    policy: Policy,
    seed: SeedDigest,
    random: Random,
    total: u64,
    largest_weight: u32,
    /// By how much merges may have raised an over-estimate above the smallest count of its bucket.
    slack: u64,
}

/// A used slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    fingerprint: u32,
    count: u64,
    key: u128,
}

/// The used slots of a bucket.
#[derive(Clone, Copy)]
struct Slots {
    slots: [Slot; SLOTS],
    used: usize,
}

impl Slots {
    fn as_slice(&self) -> &[Slot] {
        &self.slots[..self.used]
    }

    /// Returns the smallest count if the bucket is full, and 0 otherwise: a key that is not here weighs
    /// at most that under [`Policy::SpaceSaving`].
    fn least(&self) -> u64 {
        if self.used < SLOTS {
            return 0;
        }
        self.slots.iter().map(|slot| slot.count).min().unwrap_or(0)
    }
}

impl HeavyHitters {
    /// Creates the largest table that fits in `bytes`, keys included.
    ///
    /// # Errors
    /// Fails if not even one bucket fits, or if the memory cannot be reserved.
    pub fn with_memory(
        bytes: usize,
        policy: Policy,
        width: Width,
        seed: Seed,
    ) -> Result<Self, SizeError> {
        let bucket_bytes = Self::bucket_bytes(width);
        if bytes < bucket_bytes {
            return Err(SizeError::TooSmall {
                given: bytes as u64,
                needed: bucket_bytes as u64,
            });
        }
        let buckets = (bytes / bucket_bytes).min(MOST_BUCKETS);
        Self::with_buckets(
            buckets,
            policy,
            width,
            seed.digest(),
            seed.random(ADMISSION),
        )
    }

    /// Creates a table that finds the keys with more than `error` of the total weight: it has 2 / `error`
    /// slots. What it guarantees is measured: see [`Sketch::error_bound`].
    ///
    /// # Errors
    /// Fails if `error` is not between 0 and 1, or if the memory cannot be reserved.
    pub fn with_error(
        error: f64,
        policy: Policy,
        width: Width,
        seed: Seed,
    ) -> Result<Self, SizeError> {
        let least = 1e-9;
        if !(least..1.0).contains(&error) {
            return Err(SizeError::Range {
                what: "the error",
                least,
                most: 1.0,
                given: error,
            });
        }
        let buckets = (2.0 / error / SLOTS as f64).ceil() as usize;
        Self::with_memory(buckets * Self::bucket_bytes(width), policy, width, seed)
    }

    fn with_buckets(
        buckets: usize,
        policy: Policy,
        width: Width,
        seed: SeedDigest,
        random: Random,
    ) -> Result<Self, SizeError> {
        let bytes = buckets as u64 * Self::bucket_bytes(width) as u64;
        let failed = |_| SizeError::Memory(bytes);
        let counts = match width {
            Width::Narrow => Counts::Narrow(HugeSlice::try_zeroed(buckets).map_err(failed)?),
            Width::Wide => Counts::Wide(
                HugeSlice::try_zeroed(buckets).map_err(failed)?,
                HugeSlice::try_zeroed(buckets).map_err(failed)?,
            ),
        };
        let keys = HugeSlice::try_zeroed(buckets).map_err(failed)?;
        // So that no packet waits for a page fault.
        keys.populate();
        match &counts {
            Counts::Narrow(lines) => lines.populate(),
            Counts::Wide(names, lines) => {
                names.populate();
                lines.populate();
            }
        }
        Ok(Self {
            counts,
            keys,
            policy,
            seed,
            random,
            total: 0,
            largest_weight: 0,
            slack: 0,
        })
    }

    /// Returns the bytes of a bucket with its keys.
    #[must_use]
    pub const fn bucket_bytes(width: Width) -> usize {
        size_of::<Keys>()
            + match width {
                Width::Narrow => size_of::<Bucket>(),
                Width::Wide => size_of::<Fingerprints>() + size_of::<WideCounts>(),
            }
    }

    /// Returns the width of the counts.
    #[must_use]
    pub const fn width(&self) -> Width {
        match self.counts {
            Counts::Narrow(_) => Width::Narrow,
            Counts::Wide(..) => Width::Wide,
        }
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.keys.len() * SLOTS
    }

    /// Returns the largest of the smallest counts of all buckets. Under [`Policy::SpaceSaving`] no key
    /// that is not listed weighs more, and no listed key is over-estimated by more.
    #[must_use]
    pub fn largest_minimum(&self) -> u64 {
        let buckets = 0..self.keys.len();
        buckets
            .map(|bucket| self.bucket(bucket).least())
            .max()
            .unwrap_or(0)
    }

    fn bucket(&self, bucket: usize) -> Slots {
        let (fingerprints, counts) = match &self.counts {
            Counts::Narrow(lines) => (
                &lines[bucket].fingerprints,
                lines[bucket].counts.map(u64::from),
            ),
            Counts::Wide(names, lines) => (&names[bucket].0, lines[bucket].0),
        };
        let mut slots = [Slot {
            fingerprint: 0,
            count: 0,
            key: 0,
        }; SLOTS];
        let mut used = 0;
        for ((&fingerprint, count), &key) in
            fingerprints.iter().zip(counts).zip(&self.keys[bucket].0)
        {
            if fingerprint != 0 {
                slots[used] = Slot {
                    fingerprint,
                    count,
                    key,
                };
                used += 1;
            }
        }
        Slots { slots, used }
    }

    fn set_bucket(&mut self, bucket: usize, slots: &[Slot]) {
        let largest = self.width().largest();
        for lane in 0..SLOTS {
            let free = Slot {
                fingerprint: 0,
                count: 0,
                key: 0,
            };
            let slot = slots.get(lane).copied().unwrap_or(free);
            let count = slot.count.min(largest);
            match &mut self.counts {
                Counts::Narrow(lines) => {
                    lines[bucket].fingerprints[lane] = slot.fingerprint;
                    lines[bucket].counts[lane] = count as u32;
                }
                Counts::Wide(names, lines) => {
                    names[bucket].0[lane] = slot.fingerprint;
                    lines[bucket].0[lane] = count;
                }
            }
            self.keys[bucket].0[lane] = slot.key;
        }
    }

    fn estimate(&self, slot: &Slot, least: u64) -> Estimate {
        let low = match self.policy {
            // A count is the smallest of the bucket when its key came, and its packets since; the
            // smallest count only grows.
            Policy::SpaceSaving | Policy::RandomAdmission => {
                slot.count.saturating_sub(least).saturating_sub(self.slack)
            }
            Policy::Unbiased => 0,
        };
        let stopped = slot.count == self.width().largest();
        let high = if self.policy == Policy::SpaceSaving && !stopped {
            slot.count
        } else {
            self.total
        };
        Estimate {
            value: slot.count,
            low,
            high,
        }
    }

    /// Returns up to 16 slots of two buckets as one bucket of at most eight.
    fn merged(&mut self, ours: &Slots, theirs: &Slots, overlap: Overlap) -> Vec<Slot> {
        // A key that is absent from one side may have weighed up to its smallest count there, unless it
        // can only be on one side. The other policies do not bound it and add nothing.
        let add_least = overlap == Overlap::Shared && self.policy == Policy::SpaceSaving;
        let absent = |slots: &Slots| if add_least { slots.least() } else { 0 };
        let mut merged: Vec<Slot> = ours.as_slice().to_vec();
        for slot in &mut merged {
            let same = |other: &&Slot| other.fingerprint == slot.fingerprint;
            if let Some(other) = theirs.as_slice().iter().find(same) {
                if other.count > slot.count {
                    slot.key = other.key;
                }
                slot.count = slot.count.saturating_add(other.count);
            } else {
                slot.count = slot.count.saturating_add(absent(theirs));
            }
        }
        let known = merged.len();
        for slot in theirs.as_slice() {
            if merged[..known]
                .iter()
                .all(|other| other.fingerprint != slot.fingerprint)
            {
                let count = slot.count.saturating_add(absent(ours));
                merged.push(Slot { count, ..*slot });
            }
        }
        merged.sort_unstable_by_key(|slot| (std::cmp::Reverse(slot.count), slot.key));
        while merged.len() > SLOTS {
            let Some(dropped) = merged.pop() else { break };
            if self.policy == Policy::Unbiased {
                self.join(&mut merged, dropped);
            }
        }
        merged
    }

    /// Adds the count of `dropped` to the smallest of `slots`, whose key is then drawn in proportion to
    /// both counts: each key keeps its expected count.
    fn join(&mut self, slots: &mut [Slot], dropped: Slot) {
        let Some(last) = slots.last_mut() else { return };
        let count = last.count.saturating_add(dropped.count);
        if self.random.below(count.max(1)) < dropped.count {
            *last = dropped;
        }
        last.count = count;
        // No over-estimate is larger than the count.
        self.slack = self.slack.max(count);
        slots.sort_unstable_by_key(|slot| (std::cmp::Reverse(slot.count), slot.key));
    }
}

impl Sketch for HeavyHitters {
    fn update(&mut self, updates: Updates<'_>) {
        let weights = match updates.weights() {
            Weights::Ones => None,
            Weights::Each(weights) => Some(weights),
        };
        let largest = weights.map_or(1, |weights| weights.iter().copied().max().unwrap_or(0));
        self.largest_weight = self.largest_weight.max(largest);
        self.total = self.total.saturating_add(updates.total());
        let batch = Batch {
            keys: updates.keys(),
            hashes: updates.hashes(),
            weights,
            ahead: if self.memory() > PREFETCH_ABOVE {
                AHEAD
            } else {
                0
            },
        };
        match &mut self.counts {
            Counts::Narrow(lines) => {
                buckets::count(lines, &mut self.keys, batch, self.policy, &mut self.random);
            }
            Counts::Wide(names, lines) => {
                let keys = &mut self.keys;
                buckets::count_wide(names, lines, keys, batch, self.policy, &mut self.random);
            }
        }
    }

    fn clear(&mut self) {
        match &mut self.counts {
            Counts::Narrow(lines) => lines.fill(Bucket::default()),
            Counts::Wide(names, lines) => {
                names.fill(Fingerprints::default());
                lines.fill(WideCounts::default());
            }
        }
        // Keys need no clearing: a slot without a fingerprint has none.
        self.total = 0;
        self.largest_weight = 0;
        self.slack = 0;
    }

    fn total(&self) -> u64 {
        self.total
    }

    /// Dimensions: buckets, bits of a count, policy (0 random admission, 1 Space-Saving, 2 unbiased).
    fn geometry(&self) -> Geometry {
        let policy = match self.policy {
            Policy::RandomAdmission => 0,
            Policy::SpaceSaving => 1,
            Policy::Unbiased => 2,
        };
        Geometry {
            kind: Kind::HeavyHitters,
            dimensions: [self.keys.len() as u64, self.width().bits(), policy, 0, 0, 0],
            seed: self.seed,
        }
    }

    fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        // Both sides may have over-estimated a key; the merged bucket's smallest count covers the larger
        // of both errors only. Space-Saving adds the smallest counts, which raises it enough.
        let smaller = self.largest_minimum().min(other.largest_minimum());
        let sum = self
            .slack
            .saturating_add(other.slack)
            .saturating_add(smaller);
        self.slack = match (self.policy, overlap) {
            (Policy::Unbiased, _) => sum.saturating_add(other.largest_weight.into()),
            (Policy::RandomAdmission, Overlap::Shared) => sum,
            _ => self.slack.max(other.slack),
        };
        for bucket in 0..self.keys.len() {
            let (ours, theirs) = (self.bucket(bucket), other.bucket(bucket));
            if theirs.used > 0 {
                let merged = self.merged(&ours, &theirs, overlap);
                self.set_bucket(bucket, &merged);
            }
        }
        self.total = self.total.saturating_add(other.total);
        self.largest_weight = self.largest_weight.max(other.largest_weight);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.keys.len() * Self::bucket_bytes(self.width())
    }

    /// For Space-Saving the bound is certain: the largest smallest count of a bucket. With random
    /// admission it is certain for over-estimates. Each packet of weight w of a key that is not in the
    /// table is admitted with a probability of at least w / (m + w), so a weight of more than
    /// (m + w) ln(1 / (1 - confidence)) goes unseen with less than 1 - `confidence`.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let minimum = self.largest_minimum() as f64;
        let unseen = || {
            let weight = f64::from(self.largest_weight.max(1));
            (minimum + weight) * -(1.0 - confidence.clamp(0.0, 1.0)).ln()
        };
        let over = minimum + self.slack as f64;
        let (over, under, confidence) = match self.policy {
            Policy::SpaceSaving => (minimum, minimum, 1.0),
            Policy::RandomAdmission => (over, unseen(), confidence),
            // A slot may also have been the smallest when the packet of another key was added.
            Policy::Unbiased => (over + f64::from(self.largest_weight), unseen(), confidence),
        };
        ErrorBound {
            over,
            under,
            relative: false,
            confidence,
        }
    }

    /// Total, largest weight, slack; per bucket the number of used slots and for each its fingerprint,
    /// count and key.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        out.extend(self.largest_weight.to_le_bytes());
        out.extend(self.slack.to_le_bytes());
        for bucket in 0..self.keys.len() {
            let slots = self.bucket(bucket);
            out.push(slots.used as u8);
            for slot in slots.as_slice() {
                out.extend(slot.fingerprint.to_le_bytes());
                out.extend(slot.count.to_le_bytes());
                out.extend(slot.key.to_le_bytes());
            }
        }
    }

    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [buckets, bits, policy, ..] = geometry.dimensions;
        let width = Width::from_bits(bits).ok_or(StateError::Damaged("the width of counters"))?;
        let policy = match policy {
            0 => Policy::RandomAdmission,
            1 => Policy::SpaceSaving,
            2 => Policy::Unbiased,
            _ => return Err(StateError::Damaged("the policy")),
        };
        if !(1..=MOST_BUCKETS as u64).contains(&buckets) {
            return Err(StateError::Damaged("the number of buckets"));
        }
        let (total, largest_weight, slack) = (reader.u64()?, reader.u32()?, reader.u64()?);
        // Each bucket is at least a byte of the state.
        reader.check_left(buckets as usize, 1)?;
        let random = seed.unwrap_or(Seed::new(geometry.seed.0)).random(ADMISSION);
        let mut table = Self::with_buckets(buckets as usize, policy, width, geometry.seed, random)?;
        (table.total, table.largest_weight, table.slack) = (total, largest_weight, slack);
        for bucket in 0..buckets as usize {
            let used = usize::from(reader.u8()?);
            if used > SLOTS {
                return Err(StateError::Damaged("more slots than a bucket has"));
            }
            let mut slots = Vec::with_capacity(used);
            for _ in 0..used {
                let slot = Slot {
                    fingerprint: reader.u32()?,
                    count: reader.u64()?,
                    key: reader.u128()?,
                };
                let twice = slots
                    .iter()
                    .any(|other: &Slot| other.fingerprint == slot.fingerprint);
                if slot.fingerprint == 0 || twice || slot.count > width.largest() {
                    return Err(StateError::Damaged("a slot"));
                }
                slots.push(slot);
            }
            table.set_bucket(bucket, &slots);
        }
        Ok(table)
    }
}

impl FrequencySketch for HeavyHitters {
    fn query(&self, key: HashedKey) -> Estimate {
        let slots = self.bucket(bucket_of(key.hash, self.keys.len()));
        let least = slots.least();
        let fingerprint = fingerprint_of(key.hash);
        let same = |slot: &&Slot| slot.fingerprint == fingerprint && slot.key == key.key;
        if let Some(slot) = slots.as_slice().iter().find(same) {
            return self.estimate(slot, least);
        }
        let stopped = least == self.width().largest();
        let bounded = self.policy == Policy::SpaceSaving && !stopped;
        Estimate {
            value: 0,
            low: 0,
            high: if bounded { least } else { self.total },
        }
    }

    fn heavy_hitters(&self, threshold: u64) -> Vec<HeavyHitter> {
        let mut found = Vec::new();
        for bucket in 0..self.keys.len() {
            let slots = self.bucket(bucket);
            let least = slots.least();
            let heavy = slots
                .as_slice()
                .iter()
                .filter(|slot| slot.count >= threshold);
            found.extend(heavy.map(|slot| HeavyHitter {
                key: slot.key,
                estimate: self.estimate(slot, least),
            }));
        }
        sort_heavy_hitters(&mut found);
        found
    }
}
