//! A seeded permutation of a range that is too large for a table.

use hw::random::mix;

/// Rounds of the Feistel network; four make a pseudorandom permutation (Luby and Rackoff 1988).
const ROUNDS: u64 = 4;

/// A permutation of 0..`size`, selected by a seed: a Feistel network over the next even number of
/// bits, applied repeatedly until the result is in the range (Black and Rogaway 2002, "cycle walking").
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    size: u128,
    seed: u64,
    half_bits: u32,
}

impl Permutation {
    /// Creates a permutation of 0..`size`. `size` is 1 to 2^126.
    #[must_use]
    pub fn new(size: u128, seed: u64) -> Self {
        let bits = 128 - size.saturating_sub(1).leading_zeros();
        Self {
            size,
            seed,
            half_bits: bits.div_ceil(2).max(1),
        }
    }

    /// Maps `index`, which must be below the size.
    #[must_use]
    pub fn apply(&self, index: u128) -> u128 {
        let mut value = self.permute(index);
        // The domain of the network is at most four times the range, so this takes few steps.
        while value >= self.size {
            value = self.permute(value);
        }
        value
    }

    /// Applies the network once. The result may be outside the range.
    fn permute(&self, value: u128) -> u128 {
        let mask = (1u128 << self.half_bits) - 1;
        let (mut left, mut right) = ((value >> self.half_bits) & mask, value & mask);
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
        fn maps_each_index_to_a_distinct_value(size in 1u128..3000, seed: u64) {
            let permutation = Permutation::new(size, seed);
            let values: HashSet<u128> = (0..size).map(|index| permutation.apply(index)).collect();
            prop_assert_eq!(values.len() as u128, size);
            prop_assert!(values.iter().all(|&value| value < size));
        }

        #[test]
        fn stays_within_large_ranges(size in 1u128 << 60..1 << 120, index: u64, seed: u64) {
            prop_assert!(Permutation::new(size, seed).apply(u128::from(index)) < size);
        }
    }
}
