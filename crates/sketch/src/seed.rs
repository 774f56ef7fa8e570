//! The secret seed of all hash functions of a run, and the digest by which states recognise each other.

use hw::hash::KeyedHash;
use hw::random::Random;

/// The seed of a run. Probes whose states are to be merged share it; it must stay secret, because with
/// it an attacker can choose keys that collide.
#[derive(Clone, Copy)]
pub struct Seed(u64);

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed")
    }
}

/// Identifies a seed without revealing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeedDigest(pub u64);

impl Seed {
    /// Creates a seed from its 64 bits.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the function by which keys are hashed.
    #[must_use]
    pub const fn hash(self) -> KeyedHash {
        KeyedHash::new(self.0)
    }

    /// Returns a stream of random numbers for `purpose`, which is independent of the hash function and
    /// of other purposes.
    #[must_use]
    pub const fn random(self, purpose: u64) -> Random {
        Random::new(self.0, purpose)
    }

    /// Returns the digest. It is computed by the hash function itself, which is another one on CPUs
    /// without AES instructions: their states cannot be merged with those of CPUs that have them, and
    /// the digests differ.
    #[must_use]
    pub fn digest(self) -> SeedDigest {
        let hash = self.hash();
        let first = hash.hash_bytes(b"flowatch sketch seed");
        SeedDigest(hash.hash_bytes(&first.to_le_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn digests_identify_seeds() {
        let digests: HashSet<_> = (0..1000).map(|bits| Seed::new(bits).digest()).collect();
        assert_eq!(digests.len(), 1000);
        assert_eq!(Seed::new(7).digest(), Seed::new(7).digest());
    }
}
