//! A sample of keys with their exact weights: adaptive sampling (Wegman; Flajolet, "On adaptive
//! sampling", 1990). A key is in the sample if its hash ends with enough zeros, so it is there from its
//! first packet on, or never.

use crate::bytes::Reader;
use crate::error::{SizeError, StateError};
use crate::updates::{HashedKey, Updates, Weights};

/// The sample. Which keys it contains depends only on the keys that were seen, not on their order or on
/// who saw them; so merging samples gives exactly the sample of one that saw all.
#[derive(Clone, Debug)]
pub struct FlowSample {
    /// Open addressing with linear probing; an empty slot has weight 0.
    slots: Box<[Slot]>,
    /// Slots in use, at most [`most`](Self::most).
    len: usize,
    /// Hashes of sampled keys end with this number of zeros.
    level: u32,
}

/// A sampled key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampledKey {
    /// The key.
    pub key: u128,
    /// Its hash.
    pub hash: u64,
    /// Its exact weight.
    pub weight: u64,
}

type Slot = SampledKey;

impl FlowSample {
    /// Binary logarithms of the number of slots.
    pub const LG_SLOTS: core::ops::RangeInclusive<u8> = 4..=20;

    /// Creates a sample of at most 3/4 of 2^`lg_slots` keys, 32 bytes a slot.
    ///
    /// # Errors
    /// Fails if the number is outside its range.
    pub fn new(lg_slots: u8) -> Result<Self, SizeError> {
        if !Self::LG_SLOTS.contains(&lg_slots) {
            return Err(SizeError::Range {
                what: "the binary logarithm of the slots of a sample",
                least: (*Self::LG_SLOTS.start()).into(),
                most: (*Self::LG_SLOTS.end()).into(),
                given: lg_slots.into(),
            });
        }
        Ok(Self {
            slots: vec![Slot::default(); 1 << lg_slots].into_boxed_slice(),
            len: 0,
            level: 0,
        })
    }

    /// Returns the binary logarithm of the number of slots.
    #[must_use]
    pub const fn lg_slots(&self) -> u8 {
        self.slots.len().trailing_zeros() as u8
    }

    /// Returns the share of all keys that is in the sample.
    #[must_use]
    pub fn share(&self) -> f64 {
        0.5f64.powi(self.level as i32)
    }

    /// Returns the number of sampled keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no key is sampled.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the sampled keys.
    pub fn iter(&self) -> impl Iterator<Item = &SampledKey> {
        self.slots.iter().filter(|slot| slot.weight > 0)
    }

    /// Counts a batch.
    pub fn update(&mut self, updates: Updates<'_>) {
        let keys = updates.keys().iter().zip(updates.hashes());
        match updates.weights() {
            Weights::Ones => {
                for (&key, &hash) in keys {
                    self.insert(HashedKey { key, hash }, 1);
                }
            }
            Weights::Each(weights) => {
                for ((&key, &hash), &weight) in keys.zip(weights) {
                    self.insert(HashedKey { key, hash }, weight.into());
                }
            }
        }
    }

    #[inline]
    fn insert(&mut self, key: HashedKey, weight: u64) {
        if is_sampled(key.hash, self.level) && weight > 0 {
            self.insert_sampled(key, weight);
        }
    }

    #[inline(never)]
    fn insert_sampled(&mut self, key: HashedKey, weight: u64) {
        let slot = find(&mut self.slots, key);
        let is_new = slot.weight == 0;
        *slot = Slot {
            key: key.key,
            hash: key.hash,
            weight: slot.weight.saturating_add(weight),
        };
        self.len += usize::from(is_new);
        while self.len > self.most() {
            self.halve();
        }
    }

    const fn most(&self) -> usize {
        self.slots.len() / 4 * 3
    }

    /// Drops the keys whose hash has no zero more than required: about half. It happens at most 64
    /// times in an interval and takes as long as the sample is large, so it needs no further bound.
    #[cold]
    fn halve(&mut self) {
        if self.level >= u64::BITS {
            // Only if most hashes are 0, which is no hash function. An arbitrary key has to go.
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.weight > 0) {
                *slot = Slot::default();
            }
        } else {
            self.level += 1;
        }
        let empty = vec![Slot::default(); self.slots.len()].into_boxed_slice();
        let old = core::mem::replace(&mut self.slots, empty);
        self.len = 0;
        for slot in old.iter().filter(|slot| slot.weight > 0) {
            if is_sampled(slot.hash, self.level) {
                *find(&mut self.slots, slot.hashed()) = *slot;
                self.len += 1;
            }
        }
    }

    /// Adds a sample of the same seed.
    pub fn merge(&mut self, other: &Self) {
        while self.level < other.level {
            self.halve();
        }
        for slot in other.iter() {
            self.insert(slot.hashed(), slot.weight);
        }
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::default());
        (self.len, self.level) = (0, 0);
    }

    /// Returns the memory of the slots.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Appends the sample, in the order of the keys.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.lg_slots());
        out.push(self.level as u8);
        out.extend((self.len as u32).to_le_bytes());
        let mut sorted: Vec<_> = self.iter().collect();
        sorted.sort_unstable();
        for slot in sorted {
            out.extend(slot.key.to_le_bytes());
            out.extend(slot.hash.to_le_bytes());
            out.extend(slot.weight.to_le_bytes());
        }
    }

    /// Reads a sample as [`write`](Self::write) wrote it.
    ///
    /// # Errors
    /// Fails if the bytes are none.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let lg_slots = reader.u8()?;
        let level = reader.u8()?.into();
        let len = reader.u32()? as usize;
        reader.check_left(len, size_of::<Slot>())?;
        let mut sample = Self::new(lg_slots)?;
        if level > u64::BITS || len > sample.most() {
            return Err(StateError::Damaged("a sample has more keys than slots"));
        }
        sample.level = level;
        for _ in 0..len {
            let (key, hash) = (reader.u128()?, reader.u64()?);
            let weight = reader.u64()?;
            if weight == 0 || !is_sampled(hash, level) {
                return Err(StateError::Damaged("a key does not belong to its sample"));
            }
            sample.insert_sampled(HashedKey { key, hash }, weight);
        }
        if sample.len != len {
            return Err(StateError::Damaged("a sampled key occurs twice"));
        }
        Ok(sample)
    }
}

/// Samples are equal if they have the same keys, in whatever slots.
impl PartialEq for FlowSample {
    fn eq(&self, other: &Self) -> bool {
        let written = |sample: &Self| {
            let mut bytes = Vec::new();
            sample.write(&mut bytes);
            bytes
        };
        written(self) == written(other)
    }
}

impl SampledKey {
    const fn hashed(&self) -> HashedKey {
        HashedKey {
            key: self.key,
            hash: self.hash,
        }
    }
}

#[inline]
const fn is_sampled(hash: u64, level: u32) -> bool {
    hash.trailing_zeros() >= level
}

/// Returns the slot of a key, or the empty one where it belongs. The highest bits choose where to start,
/// as the lowest have chosen the sample.
fn find(slots: &mut [Slot], key: HashedKey) -> &mut Slot {
    let mask = slots.len() - 1;
    let mut index = (key.hash >> (u64::BITS - slots.len().trailing_zeros())) as usize;
    while slots[index].weight > 0 && slots[index].key != key.key {
        index = (index + 1) & mask;
    }
    &mut slots[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::test_support::hashed;

    fn of_keys(keys: impl IntoIterator<Item = u128>) -> FlowSample {
        let mut sample = FlowSample::new(8).unwrap();
        hashed(Seed::new(5), keys, |updates| sample.update(updates));
        sample
    }

    #[test]
    fn few_keys_are_all_sampled_exactly() {
        let sample = of_keys((0..192).chain(0..100));
        assert_eq!((sample.len(), sample.share()), (192, 1.0));
        for sampled in sample.iter() {
            assert_eq!(sampled.weight, 1 + u64::from(sampled.key < 100));
        }
    }

    #[test]
    fn eight_parts_are_exactly_one_that_saw_all() {
        let whole = of_keys((0..9_000).chain(0..500));
        assert!(whole.len() <= 192 && whole.len() > 60);
        let parts = (0..8).map(|part| of_keys((0..9_000).chain(0..500).skip(part).step_by(8)));
        let mut merged = of_keys([]);
        parts.for_each(|part| merged.merge(&part));
        assert_eq!(merged, whole);
    }

    #[test]
    fn the_number_of_keys_is_estimated_without_bias() {
        let estimate = |seed| {
            let mut sample = FlowSample::new(8).unwrap();
            hashed(Seed::new(seed), 0..20_000, |updates| sample.update(updates));
            sample.len() as f64 / sample.share()
        };
        let mean = (0..60).map(estimate).sum::<f64>() / 60.0;
        assert!((mean / 20_000.0 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn constant_hashes_do_not_hang() {
        let mut sample = FlowSample::new(4).unwrap();
        let keys: Vec<u128> = (0..100).collect();
        sample.update(Updates::new(&keys, &[0; 100], Weights::Ones));
        assert_eq!(sample.len(), 12);
    }

    #[test]
    fn damaged_samples_are_refused_or_consistent() {
        let sample = of_keys(0..1000);
        let mut written = Vec::new();
        sample.write(&mut written);
        assert_eq!(FlowSample::read(&mut Reader::new(&written)), Ok(sample));
        for index in 0..written.len() {
            assert!(FlowSample::read(&mut Reader::new(&written[..index])).is_err());
            let mut other = written.clone();
            other[index] ^= 0x40;
            if let Ok(read) = FlowSample::read(&mut Reader::new(&other)) {
                assert_eq!(read.len(), read.iter().count());
            }
        }
    }
}
