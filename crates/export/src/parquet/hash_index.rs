//! A hash table from distinct values to their indices.

/// Assigns indices to distinct values in order of first occurrence. The caller stores the values by
/// index.
#[derive(Debug)]
pub(super) struct HashIndex {
    /// A power of two, at most half full.
    slots: Vec<Slot>,
    used: usize,
}

/// A slot of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// Index of the value plus one; 0 if the slot is empty.
    index_plus_one: u32,
}

/// Initial number of slots.
const INITIAL_SLOTS: usize = 256;

/// Maximum number of slots probed. Only maliciously chosen values collide more often, and these do
/// not deserve a dictionary.
const PROBES_MAX: usize = 128;

impl Default for HashIndex {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); INITIAL_SLOTS],
            used: 0,
        }
    }
}

impl HashIndex {
    pub(super) fn clear(&mut self) {
        if self.used > 0 {
            self.slots.truncate(INITIAL_SLOTS);
            self.slots.fill(Slot::default());
            self.used = 0;
        }
    }

    /// Returns the index of a value with this hash; `is_same` compares it with the value at an
    /// index. A new value gets the index `next`. Returns `None` after too many collisions.
    #[inline]
    pub(super) fn find_or_insert(
        &mut self,
        hash: u32,
        next: u32,
        is_same: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        for _ in 0..PROBES_MAX {
            let slot = self.slots.get_mut(at)?;
            if slot.index_plus_one == 0 {
                *slot = Slot {
                    hash,
                    index_plus_one: next + 1,
                };
                self.used += 1;
                if 2 * self.used > self.slots.len() {
                    self.grow();
                }
                return Some(next);
            }
            if slot.hash == hash && is_same(slot.index_plus_one - 1) {
                return Some(slot.index_plus_one - 1);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Doubles the table and reinserts all values.
    #[cold]
    fn grow(&mut self) {
        let slots = vec![Slot::default(); 2 * self.slots.len()];
        let mask = slots.len() - 1;
        let before = std::mem::replace(&mut self.slots, slots);
        for known in before.into_iter().filter(|it| it.index_plus_one > 0) {
            let mut at = known.hash as usize & mask;
            while self.slots[at].index_plus_one > 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = known;
        }
    }
}

/// 2^64 divided by the golden ratio, rounded to an odd number.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a number.
#[inline]
pub(super) const fn hash_number(number: u64) -> u32 {
    let product = number as u128 * MULTIPLIER as u128;
    let folded = product as u64 ^ (product >> 64) as u64;
    (folded >> 32) as u32
}

/// The first and last eight bytes of a string and its length, which identify most strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    first: u64,
    last: u64,
    length: usize,
}

impl Fingerprint {
    pub(super) const NONE: Self = Self {
        first: 0,
        last: 0,
        length: 0,
    };

    /// Strings up to this length are identified completely.
    const BYTES: usize = 16;

    /// Creates the fingerprint of a string. `first` is loaded from its start and `last` up to its
    /// end; both may contain bytes beyond a short string.
    #[inline]
    pub(super) const fn new(first: u64, last: u64, length: usize) -> Self {
        const WORD: usize = size_of::<u64>();
        if length >= WORD {
            return Self {
                first,
                last,
                length,
            };
        }
        Self {
            first: first & ((1 << (8 * length)) - 1),
            last: 0,
            length,
        }
    }

    /// Given equal fingerprints, returns whether the strings are equal; `rest` compares all bytes.
    #[inline]
    pub(super) fn and_same_bytes(&self, rest: impl FnOnce() -> bool) -> bool {
        self.length <= Self::BYTES || rest()
    }

    /// Hashes the string with these `bytes`.
    #[inline]
    pub(super) fn hash(&self, bytes: &[u8]) -> u32 {
        let last = self.last.rotate_left(29) ^ self.length as u64;
        if self.length <= Self::BYTES {
            return hash_number(self.first ^ last);
        }
        let (words, _) = bytes.as_chunks();
        let all = words.iter().fold(last, |hash, &word| {
            (hash ^ u64::from_le_bytes(word))
                .wrapping_mul(MULTIPLIER)
                .rotate_left(29)
        });
        hash_number(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fingerprint of a string surrounded by others.
    fn ends(bytes: &[u8]) -> Fingerprint {
        let all = [b"before..", bytes, b"behind.."].concat();
        let word = |at: usize| u64::from_le_bytes(*all[at..].first_chunk().unwrap());
        Fingerprint::new(word(8), word(bytes.len()), bytes.len())
    }

    proptest! {
        #[test]
        fn equal_values_share_an_index_and_others_do_not(values in prop::collection::vec(0u64..1200, 0..3000)) {
            let mut dictionary = HashIndex::default();
            for _ in 0..2 {
                dictionary.clear();
                let mut known: Vec<u64> = Vec::new();
                for &value in &values {
                    // Few distinct hashes, so that values collide.
                    let next = known.len() as u32;
                    let is_same = |number| known[number as usize] == value;
                    let number = dictionary.find_or_insert(hash_number(value / 3), next, is_same).unwrap();
                    if number == next {
                        known.push(value);
                    }
                    prop_assert_eq!(known[number as usize], value);
                }
                let count = known.len();
                known.sort_unstable();
                known.dedup();
                prop_assert_eq!(count, known.len());
            }
        }

        #[test]
        fn fingerprints_distinguish_short_strings(one in prop::collection::vec(0u8..2, 0..20), other in prop::collection::vec(0u8..2, 0..20)) {
            let [one_ends, other_ends] = [ends(&one), ends(&other)];
            let same = one_ends == other_ends && one_ends.and_same_bytes(|| one == other);
            prop_assert_eq!(same, one == other);
        }
    }

    #[test]
    fn hash_depends_on_every_byte() {
        for length in 1..80 {
            let bytes = vec![b'a'; length];
            let hash = ends(&bytes).hash(&bytes);
            for changed in 0..length {
                let mut other = bytes.clone();
                other[changed] = b'b';
                assert_ne!(ends(&other).hash(&other), hash, "{changed} of {length}");
            }
        }
    }

    #[test]
    fn gives_up_on_values_chosen_to_collide() {
        let mut dictionary = HashIndex::default();
        let numbered =
            (0..1000).take_while(|&next| dictionary.find_or_insert(7, next, |_| false).is_some());
        assert_eq!(numbered.count(), PROBES_MAX);
    }
}
