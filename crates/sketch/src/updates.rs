//! What a sketch is updated with: a batch of keys, hashes and weights.

/// A key with its hash under the seed of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashedKey {
    /// The key itself, or a digest of a key that does not fit 16 bytes.
    pub key: u128,
    /// Its hash by [`Seed::hash`](crate::Seed::hash). It must not be the device's RSS hash, whose bits
    /// have already chosen the queue and are therefore nearly constant within one.
    pub hash: u64,
}

/// The weights of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'b> {
    /// Each key weighs 1: packets are counted.
    Ones,
    /// A weight per key: bytes, or values of a distribution.
    Each(&'b [u32]),
}

/// A batch of keys with their hashes and weights, all of the same length.
#[derive(Clone, Copy, Debug)]
pub struct Updates<'b> {
    keys: &'b [u128],
    hashes: &'b [u64],
    weights: Weights<'b>,
}

impl<'b> Updates<'b> {
    /// Combines keys, hashes and weights.
    ///
    /// # Panics
    /// Panics if their lengths differ.
    #[must_use]
    pub fn new(keys: &'b [u128], hashes: &'b [u64], weights: Weights<'b>) -> Self {
        assert_eq!(keys.len(), hashes.len());
        if let Weights::Each(weights) = weights {
            assert_eq!(keys.len(), weights.len());
        }
        Self {
            keys,
            hashes,
            weights,
        }
    }

    /// Returns the keys.
    #[must_use]
    pub const fn keys(&self) -> &'b [u128] {
        self.keys
    }

    /// Returns the hashes of the keys.
    #[must_use]
    pub const fn hashes(&self) -> &'b [u64] {
        self.hashes
    }

    /// Returns the weights.
    #[must_use]
    pub const fn weights(&self) -> Weights<'b> {
        self.weights
    }

    /// Returns the number of keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the sum of the weights.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.weights {
            Weights::Ones => self.len() as u64,
            Weights::Each(weights) => weights.iter().map(|&weight| u64::from(weight)).sum(),
        }
    }

    /// Returns the batch in parts of at most `length` keys, which must not be 0.
    pub fn chunks(self, length: usize) -> impl Iterator<Item = Self> {
        (0..self.len()).step_by(length).map(move |start| {
            let range = start..self.len().min(start + length);
            Self {
                keys: &self.keys[range.clone()],
                hashes: &self.hashes[range.clone()],
                weights: match self.weights {
                    Weights::Ones => Weights::Ones,
                    Weights::Each(weights) => Weights::Each(&weights[range]),
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_the_whole_batch_in_order() {
        let keys: Vec<u128> = (0..10).collect();
        let hashes: Vec<u64> = (10..20).collect();
        let weights: Vec<u32> = (20..30).collect();
        let updates = Updates::new(&keys, &hashes, Weights::Each(&weights));
        assert_eq!(updates.total(), 245);
        let mut seen = Vec::new();
        for chunk in updates.chunks(4) {
            assert!(chunk.len() <= 4);
            let Weights::Each(weights) = chunk.weights() else {
                panic!("a chunk has weights if its batch has");
            };
            let hashes = chunk.hashes().iter();
            seen.extend(
                chunk
                    .keys()
                    .iter()
                    .zip(hashes)
                    .zip(weights)
                    .map(|((k, h), w)| (*k, *h, *w)),
            );
        }
        let expected: Vec<_> = (0..10).map(|i| (i, i as u64 + 10, i as u32 + 20)).collect();
        assert_eq!(seen, expected);
    }
}
