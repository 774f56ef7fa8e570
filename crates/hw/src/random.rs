//! Random numbers that repeat with their seed.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// its draws do not wait for one another, so a processor makes several at a time.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The step between two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits: a bijection in which each bit of the input moves about half of the output.
#[inline]
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    /// The sequence of `seed`; `use_` sets the sequences of one seed apart, so that what is drawn for
    /// one purpose does not move when another draws more.
    #[must_use]
    pub const fn new(seed: u64, use_: u64) -> Self {
        Self {
            state: mix(mix(seed.wrapping_add(STEP)) ^ use_.wrapping_mul(STEP)),
        }
    }

    /// The sequence that the paper has for a seed, which it begins with.
    #[must_use]
    pub const fn from_state(state: u64) -> Self {
        Self { state }
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `bound`, which is not 0; off from uniform by less than `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to 1, 1 not among them.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_from_its_state_equals_the_authors_program() {
        // Vigna's splitmix64.c, from 1234567.
        let mut random = Random::from_state(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| random.bits()), expected);
    }

    #[test]
    fn a_seed_repeats_and_uses_differ() {
        let draw = |seed, use_| {
            let mut random = Random::new(seed, use_);
            [(); 4].map(|()| random.bits())
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        let mut random = Random::new(0, 0);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
