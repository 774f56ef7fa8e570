//! A seeded shuffle of a range too large to shuffle.

use hw::random::mix;

/// Rounds of the network; four make it look random (Luby and Rackoff 1988).
const ROUNDS: u64 = 4;

/// A bijection of 0..`size`, chosen by a seed: a Feistel network over the next even number of bits,
/// walked until it lands within the range (Black and Rogaway 2002, "cycle walking").
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    size: u128,
    seed: u64,
    half_bits: u32,
}

impl Permutation {
    /// Over 0..`size`; at least 1, at most 2^126.
    #[must_use]
    pub fn new(size: u128, seed: u64) -> Self {
        let bits = 128 - size.saturating_sub(1).leading_zeros();
        Self {
            size,
            seed,
            half_bits: bits.div_ceil(2).max(1),
        }
    }

    /// Where `index`, below the size, goes.
    #[must_use]
    pub fn apply(&self, index: u128) -> u128 {
        let mut place = self.permute(index);
        // The network has at most four times as many places: few steps.
        while place >= self.size {
            place = self.permute(place);
        }
        place
    }

    fn permute(&self, place: u128) -> u128 {
        let mask = (1u128 << self.half_bits) - 1;
        let (mut left, mut right) = ((place >> self.half_bits) & mask, place & mask);
        for round in 0..ROUNDS {
            let key = mix(self.seed ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03));
            let mixed = u128::from(mix(key.wrapping_add(right as u64)));
            (left, right) = (right, (left ^ mixed) & mask);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn every_place_once(size in 1u128..3000, seed: u64) {
            let permutation = Permutation::new(size, seed);
            let places: HashSet<u128> = (0..size).map(|index| permutation.apply(index)).collect();
            prop_assert_eq!(places.len() as u128, size);
            prop_assert!(places.iter().all(|&place| place < size));
        }

        #[test]
        fn large_ranges_stay_within(size in 1u128 << 60..1 << 120, index: u64, seed: u64) {
            prop_assert!(Permutation::new(size, seed).apply(u128::from(index)) < size);
        }
    }
}
