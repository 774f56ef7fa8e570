//! Mangling: a bijection on keys, drawn by the seed, that spreads keys which are alike.

use hw::random::Random;

/// A bijection on keys of some bytes.
pub struct Mangling {
    mask: u128,
    shift: u32,
    factors: [u128; 2],
    inverses: [u128; 2],
}

impl Mangling {
    /// Draws a bijection on keys of `key_bytes`, from 1 to 16.
    #[must_use]
    pub fn new(key_bytes: usize, random: &mut Random) -> Self {
        let bits = 8 * key_bytes as u32;
        let mut factor = || (u128::from(random.bits()) << 64 | u128::from(random.bits())) | 1;
        let factors = [factor(), factor()];
        Self {
            mask: u128::MAX >> (128 - bits),
            shift: bits / 2,
            factors,
            inverses: factors.map(inverse),
        }
    }

    /// Returns the largest key.
    #[must_use]
    pub const fn mask(&self) -> u128 {
        self.mask
    }

    /// Returns the mangled key. The shift carries the upper half, which depends on all bits, to the lower: a product alone leaves
    /// the lowest byte to itself.
    #[must_use]
    pub fn mangle(&self, key: u128) -> u128 {
        self.factors.iter().fold(key, |key, factor| {
            let product = key.wrapping_mul(*factor) & self.mask;
            product ^ (product >> self.shift)
        })
    }

    /// Returns the key of a mangled key. A shift by half the bits or more is its own inverse.
    #[must_use]
    pub fn unmangle(&self, mangled: u128) -> u128 {
        self.inverses.iter().rev().fold(mangled, |key, inverse| {
            (key ^ (key >> self.shift)).wrapping_mul(*inverse) & self.mask
        })
    }
}

/// Returns the inverse of an odd number modulo 2^128, by Newton's iteration: each step doubles the number
/// of correct bits, of which the start has 3.
fn inverse(odd: u128) -> u128 {
    (0..6).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2u128.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mangling_is_undone(key: u128, key_bytes in 1usize..=16, seed: u64) {
            let mangling = Mangling::new(key_bytes, &mut Random::new(seed, 0));
            let key = key & mangling.mask();
            let mangled = mangling.mangle(key);
            prop_assert!(mangled <= mangling.mask());
            prop_assert_eq!(mangling.unmangle(mangled), key);
        }
    }

    /// Addresses of one network have the upper bytes in common, and any byte of the mangled ones takes
    /// nearly all values.
    #[test]
    fn similar_addresses_differ_in_all_bytes() {
        for seed in 0..30 {
            let mangling = Mangling::new(4, &mut Random::new(seed, 0));
            for byte in 0..4 {
                let mut seen = [false; 256];
                for host in 0..2048 {
                    let mangled = mangling.mangle(0x0a00_0000 + (host << 8));
                    seen[usize::from(mangled.to_le_bytes()[byte])] = true;
                }
                let values = seen.iter().filter(|seen| **seen).count();
                assert!(values > 200, "{values} of byte {byte}, seed {seed}");
            }
        }
    }
}
