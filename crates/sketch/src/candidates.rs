//! The keys of a sketch that holds none itself: those with the largest estimates.
//!
//! A key is offered when its estimate passes a multiple of a step, not with each packet, so that an
//! update rarely leaves its straight path. The step is the largest power of two up to a quarter of the
//! smallest estimate in a full list. It is 1 until the list is full, so short intervals miss nothing.

use crate::updates::HashedKey;
use std::cmp::Reverse;

/// The largest capacity.
pub const MOST: usize = 1 << 16;

/// A key with its estimate when it was last offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    // Not a `HashedKey`, which would be padded to 32 bytes and a candidate to 48.
    key: u128,
    hash: u64,
    estimate: u64,
}

impl Candidate {
    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> HashedKey {
        HashedKey {
            key: self.key,
            hash: self.hash,
        }
    }

    /// Returns its estimate.
    #[must_use]
    pub const fn estimate(&self) -> u64 {
        self.estimate
    }
}

/// A list of candidates, with an index by hash.
#[derive(Debug)]
pub struct Candidates {
    /// More than `capacity` by up to a quarter; the smallest are dropped when it is full.
    entries: Vec<Candidate>,
    /// For each hash position the entry's number plus 1, or 0.
    index: Vec<u32>,
    capacity: usize,
    /// The largest estimate that was dropped.
    floor: u64,
    /// How heavy a key may be that neither list of a merge had.
    unlisted: u64,
    step: u64,
}

impl Candidates {
    /// Creates a list that keeps at least `capacity` keys, which must be from 1 to [`MOST`].
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!((1..=MOST).contains(&capacity));
        let most = Self::most_entries(capacity);
        Self {
            entries: Vec::with_capacity(most),
            index: vec![0; (2 * most).next_power_of_two()],
            capacity,
            floor: 0,
            unlisted: 0,
            step: 1,
        }
    }

    const fn most_entries(capacity: usize) -> usize {
        capacity + capacity.div_ceil(4)
    }

    /// Returns the bytes of a list with this capacity.
    #[must_use]
    pub const fn bytes(capacity: usize) -> usize {
        let most = Self::most_entries(capacity);
        most * size_of::<Candidate>() + (2 * most).next_power_of_two() * size_of::<u32>()
    }

    /// Returns the number of keys that are certainly kept.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the entries, in no order.
    #[must_use]
    pub fn entries(&self) -> &[Candidate] {
        &self.entries
    }

    /// Returns the largest estimate that was dropped, 0 if there was none.
    #[must_use]
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the estimate from which on a key is certain to be in the list when its packets raise its
    /// estimate past every multiple of the step. Only other keys in its cells can skip one.
    #[must_use]
    pub const fn complete_from(&self) -> u64 {
        if self.floor == 0 {
            return self.unlisted;
        }
        let kept = self.floor.saturating_add(self.step);
        if kept > self.unlisted {
            kept
        } else {
            self.unlisted
        }
    }

    /// Returns whether a key whose estimate grew from `before` to `after` is to be offered.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, before: u64, after: u64) -> bool {
        // Both have the same bits from the step's upwards unless a multiple of it lies between them.
        (before ^ after) >= self.step && after > self.floor
    }

    /// Inserts a key or updates its estimate.
    pub fn offer(&mut self, key: HashedKey, estimate: u64) {
        if estimate <= self.floor {
            return;
        }
        let position = self.position(key);
        if let Some(entry) = self.entry_at(position) {
            entry.estimate = estimate;
            return;
        }
        if self.entries.len() == Self::most_entries(self.capacity) {
            self.drop_smallest();
            if estimate > self.floor {
                let position = self.position(key);
                self.push(
                    position,
                    Candidate {
                        key: key.key,
                        hash: key.hash,
                        estimate,
                    },
                );
            }
            return;
        }
        self.push(
            position,
            Candidate {
                key: key.key,
                hash: key.hash,
                estimate,
            },
        );
    }

    fn push(&mut self, position: usize, candidate: Candidate) {
        self.entries.push(candidate);
        self.index[position] = self.entries.len() as u32;
    }

    fn entry_at(&mut self, position: usize) -> Option<&mut Candidate> {
        let number = self.index[position] as usize;
        number
            .checked_sub(1)
            .map(|number| &mut self.entries[number])
    }

    /// Returns the position of a key in the index, or the free one where it belongs. The index is never
    /// more than half full.
    fn position(&self, key: HashedKey) -> usize {
        let mask = self.index.len() - 1;
        let mut position = key.hash as usize & mask;
        loop {
            match (self.index[position] as usize).checked_sub(1) {
                Some(number) if self.entries[number].key() != key => {
                    position = (position + 1) & mask;
                }
                _ => return position,
            }
        }
    }

    #[cold]
    fn drop_smallest(&mut self) {
        if self.entries.len() > self.capacity {
            let rank = |entry: &Candidate| (Reverse(entry.estimate), entry.key());
            let (_, dropped, _) = self.entries.select_nth_unstable_by_key(self.capacity, rank);
            let floor = self.floor.max(dropped.estimate);
            self.entries.truncate(self.capacity);
            self.raise_floor(floor);
        }
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.index.fill(0);
        for number in 0..self.entries.len() {
            let position = self.position(self.entries[number].key());
            self.index[position] = number as u32 + 1;
        }
    }

    fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        self.step = (self.floor / 4).checked_ilog2().map_or(1, |bits| 1 << bits);
    }

    /// Replaces all estimates by those of `query`.
    pub fn refresh(&mut self, query: impl Fn(HashedKey) -> u64) {
        for entry in &mut self.entries {
            entry.estimate = query(entry.key());
        }
    }

    /// Adds the keys of another list; `query` gives the estimates of both in the merged sketch. If the same
    /// key may be in both sketches, it may be just too light for the list of each.
    pub fn merge(&mut self, other: &Self, shared: bool, query: impl Fn(HashedKey) -> u64) {
        let (ours, theirs) = (self.complete_from(), other.complete_from());
        self.unlisted = if shared {
            ours.saturating_add(theirs)
        } else {
            ours.max(theirs)
        };
        // What one side dropped says nothing about the merged estimates.
        self.floor = 0;
        self.step = 1;
        self.refresh(&query);
        for entry in &other.entries {
            self.offer(entry.key(), query(entry.key()));
        }
    }

    /// Returns the numbers that a stored list needs beside its entries.
    #[must_use]
    pub const fn limits(&self) -> [u64; 2] {
        [self.floor, self.unlisted]
    }

    /// Restores what [`Candidates::limits`] returned, after the entries.
    pub fn restore_limits(&mut self, [floor, unlisted]: [u64; 2]) {
        self.raise_floor(floor);
        self.unlisted = unlisted;
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index.fill(0);
        self.floor = 0;
        self.unlisted = 0;
        self.step = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hw::random::mix;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(number: u64) -> HashedKey {
        HashedKey {
            key: u128::from(number),
            hash: mix(number),
        }
    }

    proptest! {
        /// Estimates only grow, as in a sketch. The list holds every key above what it dropped, with its
        /// last offered estimate, and at least its capacity.
        #[test]
        fn the_largest_are_kept(offers in proptest::collection::vec((0u64..60, 1u64..50), 0..400), capacity in 1usize..20) {
            let mut list = Candidates::new(capacity);
            let mut truth = HashMap::new();
            for (number, weight) in offers {
                let estimate = truth.entry(number).or_insert(0);
                *estimate += weight;
                list.offer(key(number), *estimate);
            }
            prop_assert!(list.entries().len() >= capacity.min(truth.len()));
            prop_assert!(list.entries().len() <= Candidates::most_entries(capacity));
            for (number, estimate) in truth {
                let found = list.entries().iter().find(|entry| entry.key() == key(number));
                if estimate > list.floor() {
                    prop_assert_eq!(found.map(|entry| entry.estimate), Some(estimate));
                }
            }
        }
    }

    #[test]
    fn a_key_is_due_at_multiples_of_the_step() {
        let mut list = Candidates::new(4);
        assert!(list.is_due(0, 1) && list.is_due(1, 2) && !list.is_due(2, 2));
        list.raise_floor(130);
        assert!(!list.is_due(127, 128), "not above the floor");
        assert!(!list.is_due(150, 151) && list.is_due(159, 160) && list.is_due(140, 1000));
        assert_eq!(list.complete_from(), 162);
        list.clear();
        assert!(list.is_due(0, 1));
    }
}
