//! Distinct values and their numbers.

/// Numbers values in the order in which they come first. The values themselves are kept by whoever
/// asks, by these numbers.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// By the hash of a value its number plus one, 0 where there is none; a power of two of them, at
    /// most half of them taken.
    places: Vec<u32>,
    /// The hash of each value.
    hashes: Vec<u64>,
    /// By a small number its number plus one, 0 where there is none: most numbers are small, and
    /// need no hash then.
    small: Vec<u32>,
}

/// Numbers below this are small.
const SMALL: usize = 512;

/// Places in the beginning.
const PLACES: usize = 256;

/// Places that are looked at for a value. More are looked at only where somebody has chosen values
/// whose hashes collide, and those are not worth a dictionary.
const LOOKS: usize = 128;

impl Dictionary {
    pub(super) fn clear(&mut self) {
        self.hashes.clear();
        self.places.clear();
        self.places.resize(PLACES, 0);
        self.small.clear();
        self.small.resize(SMALL, 0);
    }

    /// The number of this value, and whether that is new; none where the value is not small. The
    /// values of one column are all given to this first, or none of them.
    #[inline(always)]
    pub(super) fn small(&mut self, value: u64) -> Option<(u32, bool)> {
        let place = self.small.get_mut(usize::try_from(value).ok()?)?;
        if *place > 0 {
            return Some((*place - 1, false));
        }
        self.hashes.push(hash_number(value));
        *place = self.hashes.len() as u32;
        Some((*place - 1, true))
    }

    /// The number of a value with this hash, for which `is_it` tells whether it has a number, and
    /// whether that is new; none where hashes collide too often.
    #[inline(always)]
    pub(super) fn number(
        &mut self,
        hash: u64,
        is_it: impl Fn(usize) -> bool,
    ) -> Option<(u32, bool)> {
        let mask = self.places.len() - 1;
        let mut at = first_place(hash, mask);
        for _ in 0..LOOKS {
            match self.places.get(at) {
                Some(0) => return Some((self.add(hash, at), true)),
                Some(&place) if is_it(place as usize - 1) => return Some((place - 1, false)),
                _ => at = (at + 1) & mask,
            }
        }
        None
    }

    #[inline(never)]
    fn add(&mut self, hash: u64, at: usize) -> u32 {
        self.hashes.push(hash);
        let place = self.hashes.len() as u32;
        if 2 * self.hashes.len() > self.places.len() {
            self.grow();
        } else if let Some(free) = self.places.get_mut(at) {
            *free = place;
        }
        place - 1
    }

    /// Four times as many places, and all values in theirs.
    fn grow(&mut self) {
        let places = 4 * self.places.len();
        self.places.clear();
        self.places.resize(places, 0);
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut at = first_place(hash, places - 1);
            while self.places[at] != 0 {
                at = (at + 1) & (places - 1);
            }
            self.places[at] = number as u32 + 1;
        }
    }
}

/// The place of a hash, whose upper bits are the good ones.
#[inline(always)]
const fn first_place(hash: u64, mask: usize) -> usize {
    (hash >> 32) as usize & mask
}

/// An odd number without a pattern (the golden ratio's fraction).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a number.
#[inline(always)]
pub(super) const fn hash_number(number: u64) -> u64 {
    let product = number as u128 * MIX as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A hash of bytes.
#[inline(always)]
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let rest = rest
        .iter()
        .fold(bytes.len() as u64, |all, &byte| all << 8 | u64::from(byte));
    let begin = hash_number(rest);
    words.iter().fold(begin, |hash, &word| {
        hash_number(hash.rotate_left(29) ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_values_have_one_number_and_others_another(values in prop::collection::vec(0u64..1200, 0..3000), by_value: bool) {
            let mut dictionary = Dictionary::default();
            dictionary.clear();
            let mut known: Vec<u64> = Vec::new();
            for value in values {
                // Few hashes, so that values meet.
                let hash = hash_number(value / 3);
                let small = if by_value { dictionary.small(value) } else { None };
                let found = small.or_else(|| dictionary.number(hash, |number| known[number] == value));
                let (number, new) = found.unwrap();
                if new {
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
    fn values_chosen_to_collide_are_given_up() {
        let mut dictionary = Dictionary::default();
        dictionary.clear();
        let numbered = (0..1000).take_while(|_| dictionary.number(7, |_| false).is_some());
        assert_eq!(numbered.count(), LOOKS);
    }
}
