//! Distinct values and their numbers.

/// Numbers values in the order in which they come first. The values themselves are kept by whoever
/// asks, by these numbers.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// A power of two of them, at most half of them taken.
    places: Vec<Known>,
    taken: usize,
}

/// A value.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    hash: u32,
    /// Its number plus one; 0 where there is none.
    number: u32,
}

/// Places in the beginning.
const PLACES: usize = 256;

/// Places that are looked at for a value. More are looked at only where somebody has chosen values
/// whose hashes collide, and those are not worth a dictionary.
const LOOKS: usize = 128;

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            places: vec![Known::default(); PLACES],
            taken: 0,
        }
    }
}

impl Dictionary {
    pub(super) fn clear(&mut self) {
        if self.taken > 0 {
            self.places.truncate(PLACES);
            self.places.fill(Known::default());
            self.taken = 0;
        }
    }

    /// The number of a value with this hash, for which `is_it` tells whether it has a number; a value
    /// without one gets `next`. None where hashes collide too often.
    #[inline(always)]
    pub(super) fn number(
        &mut self,
        hash: u32,
        next: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        for _ in 0..LOOKS {
            let place = self.places.get_mut(at)?;
            if place.number == 0 {
                *place = Known {
                    hash,
                    number: next + 1,
                };
                self.taken += 1;
                if 2 * self.taken > self.places.len() {
                    self.grow();
                }
                return Some(next);
            }
            if place.hash == hash && is_it(place.number - 1) {
                return Some(place.number - 1);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Twice as many places, and all values in theirs.
    #[cold]
    fn grow(&mut self) {
        let places = vec![Known::default(); 2 * self.places.len()];
        let mask = places.len() - 1;
        let before = std::mem::replace(&mut self.places, places);
        for known in before.into_iter().filter(|it| it.number > 0) {
            let mut at = known.hash as usize & mask;
            while self.places[at].number > 0 {
                at = (at + 1) & mask;
            }
            self.places[at] = known;
        }
    }
}

/// An odd number without a pattern (the golden ratio's fraction).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a number.
#[inline(always)]
pub(super) const fn hash_number(number: u64) -> u32 {
    let product = number as u128 * MIX as u128;
    let folded = product as u64 ^ (product >> 64) as u64;
    (folded >> 32) as u32
}

/// The first and the last eight bytes of a string, which for most say which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    first: u64,
    last: u64,
    length: usize,
}

impl Ends {
    pub(super) const NONE: Self = Self {
        first: 0,
        last: 0,
        length: 0,
    };

    /// Bytes of a string that it holds all of.
    const BYTES: usize = 16;

    /// Those of a string of so many bytes: `first` is where it begins, whatever follows it, and `last`
    /// where it ends, whatever is before.
    #[inline(always)]
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

    /// Whether strings with the same ends are the same; `rest` looks at all of their bytes.
    #[inline(always)]
    pub(super) fn decide(&self, rest: impl FnOnce() -> bool) -> bool {
        self.length <= Self::BYTES || rest()
    }

    /// A hash of the string, whose bytes these are.
    #[inline(always)]
    pub(super) fn hash(&self, bytes: &[u8]) -> u32 {
        let last = self.last.rotate_left(29) ^ self.length as u64;
        if self.length <= Self::BYTES {
            return hash_number(self.first ^ last);
        }
        let (words, _) = bytes.as_chunks();
        let all = words.iter().fold(last, |hash, &word| {
            (hash ^ u64::from_le_bytes(word))
                .wrapping_mul(MIX)
                .rotate_left(29)
        });
        hash_number(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ends of a string amid others.
    fn ends(bytes: &[u8]) -> Ends {
        let all = [b"before..", bytes, b"behind.."].concat();
        let word = |at: usize| u64::from_le_bytes(*all[at..].first_chunk().unwrap());
        Ends::new(word(8), word(bytes.len()), bytes.len())
    }

    proptest! {
        #[test]
        fn equal_values_have_one_number_and_others_another(values in prop::collection::vec(0u64..1200, 0..3000)) {
            let mut dictionary = Dictionary::default();
            for _ in 0..2 {
                dictionary.clear();
                let mut known: Vec<u64> = Vec::new();
                for &value in &values {
                    // Few hashes, so that values meet.
                    let next = known.len() as u32;
                    let is_it = |number| known[number as usize] == value;
                    let number = dictionary.number(hash_number(value / 3), next, is_it).unwrap();
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
        fn ends_tell_short_strings_apart(one in prop::collection::vec(0u8..2, 0..20), other in prop::collection::vec(0u8..2, 0..20)) {
            let [one_ends, other_ends] = [ends(&one), ends(&other)];
            let same = one_ends == other_ends && one_ends.decide(|| one == other);
            prop_assert_eq!(same, one == other);
        }
    }

    #[test]
    fn every_byte_of_a_string_counts() {
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
    fn values_chosen_to_collide_are_given_up() {
        let mut dictionary = Dictionary::default();
        let numbered =
            (0..1000).take_while(|&next| dictionary.number(7, next, |_| false).is_some());
        assert_eq!(numbered.count(), LOOKS);
    }
}
