//! Dictionary indices of the values of a column.

use super::column::Strings;
use super::hash_index::{Fingerprint, HashIndex, hash_number};
use super::hybrid::GROUP;
use std::ops::Range;

/// Assigns dictionary indices to the values of a column.
#[derive(Debug, Default)]
pub(super) struct Indexer {
    /// The index of each value so far.
    pub(super) indices: Vec<u32>,
    pub(super) distinct: DistinctValues,
}

/// The distinct values of a column.
#[derive(Debug)]
pub(super) struct DistinctValues {
    /// For each index, the position of the first value with that index.
    first_positions: Vec<usize>,
    /// For each small value, its index plus one, or 0 if it is new: most values are small, and this
    /// saves a hash.
    small_values: Vec<u32>,
    /// Whether `small_values` has entries.
    has_small_values: bool,
    hash_index: HashIndex,
    /// Fingerprints of strings, by index.
    fingerprints: Vec<Fingerprint>,
    /// Whether the number of hash collisions shows that the values were chosen for it.
    collided: bool,
}

/// Limit of small values.
const SMALL: usize = 512;

impl Default for DistinctValues {
    fn default() -> Self {
        Self {
            first_positions: Vec::new(),
            small_values: vec![0; SMALL],
            has_small_values: false,
            hash_index: HashIndex::default(),
            fingerprints: Vec::new(),
            collided: false,
        }
    }
}

impl Indexer {
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        self.distinct.clear();
    }

    /// Indexes the values in `range`, which follows the previous range; `number` maps distinct
    /// values to distinct numbers. Returns false after too many hash collisions.
    #[inline]
    pub(super) fn index_fixed<T: Copy>(
        &mut self,
        values: &[T],
        range: Range<usize>,
        number: impl Fn(T) -> u64,
    ) -> bool {
        let mut at = range.start;
        let (groups, rest) = values.get(range).unwrap_or_default().as_chunks::<GROUP>();
        self.indices.reserve(groups.len() * GROUP + rest.len());
        let mut find = |value: T, at| {
            let value = number(value);
            let is_same = |first: usize| values.get(first).is_some_and(|&it| number(it) == value);
            self.distinct.index_of_number(value, at, is_same)
        };
        for group in groups {
            let first = number(group[0]);
            let differs = group.iter().fold(0, |all, &it| all | (number(it) ^ first));
            let numbers = if differs == 0 {
                [find(group[0], at); GROUP]
            } else {
                std::array::from_fn(|offset| find(group[offset], at + offset))
            };
            self.indices.extend_from_slice(&numbers);
            at += GROUP;
        }
        for (offset, &value) in rest.iter().enumerate() {
            self.indices.push(find(value, at + offset));
        }
        !self.distinct.collided
    }

    /// Like [`Indexer::index_fixed`], for strings.
    pub(super) fn index_strings(&mut self, strings: &Strings, range: Range<usize>) -> bool {
        let mut last = (Fingerprint::NONE, 0..0, None);
        let ranges = range.clone().zip(strings.ranges(range));
        self.indices.extend(ranges.map(|(at, bytes)| {
            let fingerprint = strings.fingerprint(&bytes);
            let is_last = || strings.slice(&bytes) == strings.slice(&last.1);
            let number = match last.2 {
                Some(number) if fingerprint == last.0 && fingerprint.and_same_bytes(is_last) => {
                    number
                }
                _ => self
                    .distinct
                    .index_of_string(strings, at, &bytes, fingerprint),
            };
            last = (fingerprint, bytes, Some(number));
            number
        }));
        !self.distinct.collided
    }
}

impl DistinctValues {
    fn clear(&mut self) {
        self.first_positions.clear();
        self.fingerprints.clear();
        self.hash_index.clear();
        self.collided = false;
        if self.has_small_values {
            self.small_values.fill(0);
            self.has_small_values = false;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.first_positions.len()
    }

    /// For each index, the position of the first value with that index.
    pub(super) fn first_positions(&self) -> &[usize] {
        &self.first_positions
    }

    /// Returns the index of a number at a position; `is_same` compares it with the value at another
    /// position.
    // Out of line, Parquet costs 4 % more instructions: a call for each value of each column.
    #[inline(always)]
    fn index_of_number(&mut self, value: u64, at: usize, is_same: impl Fn(usize) -> bool) -> u32 {
        let next = self.first_positions.len() as u32;
        let small = usize::try_from(value).ok();
        if let Some(entry) = small.and_then(|it| self.small_values.get_mut(it)) {
            if *entry == 0 {
                *entry = next + 1;
                self.has_small_values = true;
                self.first_positions.push(at);
            }
            return *entry - 1;
        }
        let firsts = &self.first_positions;
        let is_same = |known: u32| {
            firsts
                .get(known as usize)
                .is_some_and(|&first| is_same(first))
        };
        let found = self
            .hash_index
            .find_or_insert(hash_number(value), next, is_same);
        self.record_found(found, next, at)
    }

    #[inline]
    fn index_of_string(
        &mut self,
        strings: &Strings,
        at: usize,
        range: &Range<usize>,
        fingerprint: Fingerprint,
    ) -> u32 {
        let bytes = strings.slice(range);
        let next = self.first_positions.len() as u32;
        let is_same = |known: u32| {
            let known = known as usize;
            let same = || {
                let first = self.first_positions.get(known);
                first.is_some_and(|&first| strings.get(first) == bytes)
            };
            self.fingerprints.get(known) == Some(&fingerprint) && fingerprint.and_same_bytes(same)
        };
        let found = self
            .hash_index
            .find_or_insert(fingerprint.hash(bytes), next, is_same);
        if found == Some(next) {
            self.fingerprints.push(fingerprint);
        }
        self.record_found(found, next, at)
    }

    /// Adds a new value, or notes a collision. Returns the index.
    #[inline]
    fn record_found(&mut self, found: Option<u32>, next: u32, at: usize) -> u32 {
        match found {
            Some(number) if number == next => self.first_positions.push(at),
            Some(_) => {}
            None => self.collided = true,
        }
        found.unwrap_or_default()
    }
}
