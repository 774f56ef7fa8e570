//! Streams with known truth.

use hw::random::Random;
use sketch::{HashedKey, Seed, Sketch, Updates, Weights};
use std::collections::BTreeMap;

/// Packets with the weight of each key.
pub(crate) struct Stream {
    pub(crate) keys: Vec<u128>,
    pub(crate) weights: Vec<u32>,
    /// The weight of each key in `keys`, if each packet weighs 1.
    pub(crate) packets: BTreeMap<u128, u64>,
    /// The weight of each key in `keys`, by `weights`.
    pub(crate) bytes: BTreeMap<u128, u64>,
}

impl Stream {
    fn new(keys: Vec<u128>, random: &mut Random) -> Self {
        let weights: Vec<u32> = keys
            .iter()
            .map(|_| 40 + random.below(1461) as u32)
            .collect();
        let (mut packets, mut bytes) = (BTreeMap::new(), BTreeMap::new());
        for (&key, &weight) in keys.iter().zip(&weights) {
            *packets.entry(key).or_insert(0) += 1;
            *bytes.entry(key).or_insert(0) += u64::from(weight);
        }
        Self {
            keys,
            weights,
            packets,
            bytes,
        }
    }

    /// `length` packets of up to `population` keys, the key of rank r with a probability in proportion to
    /// r^-`exponent`. Keys are addresses below 2^32 without order.
    pub(crate) fn zipf(length: usize, population: usize, exponent: f64, seed: u64) -> Self {
        let mut random = Random::new(seed, 77);
        let mut sum = 0.0;
        let weights = (1..=population).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let weights: Vec<f64> = weights.collect();
        let names: Vec<u128> = (0..population)
            .map(|_| u128::from(random.bits() >> 32))
            .collect();
        let draw = |random: &mut Random| {
            let point = random.unit() * sum;
            names[weights
                .partition_point(|&weight| weight < point)
                .min(population - 1)]
        };
        let keys = (0..length).map(|_| draw(&mut random)).collect();
        Self::new(keys, &mut random)
    }

    /// As [`Stream::zipf`] with exponent 1, but every second packet has a new key.
    pub(crate) fn flood(length: usize, population: usize, seed: u64) -> Self {
        let mut stream = Self::zipf(length, population, 1.0, seed);
        let mut random = Random::new(seed, 78);
        for key in stream.keys.iter_mut().step_by(2) {
            *key = u128::from(random.bits()) << 32;
        }
        Self::new(stream.keys, &mut random)
    }

    pub(crate) fn hashes(&self, seed: Seed) -> Vec<u64> {
        let mut hashes = vec![0; self.keys.len()];
        seed.hash().hash(&self.keys, &mut hashes);
        hashes
    }

    /// Counts packets.
    pub(crate) fn count_packets(&self, sketch: &mut impl Sketch, seed: Seed) {
        let hashes = self.hashes(seed);
        for updates in Updates::new(&self.keys, &hashes, Weights::Ones).chunks(256) {
            sketch.update(updates);
        }
        sketch.flush();
    }

    /// Counts bytes.
    pub(crate) fn count_bytes(&self, sketch: &mut impl Sketch, seed: Seed) {
        let hashes = self.hashes(seed);
        for updates in Updates::new(&self.keys, &hashes, Weights::Each(&self.weights)).chunks(256) {
            sketch.update(updates);
        }
        sketch.flush();
    }

    /// Counts the packets for which `part` returns the number of a sketch in that sketch.
    pub(crate) fn count_parts<S: Sketch>(
        &self,
        sketches: &mut [S],
        seed: Seed,
        part: impl Fn(usize, u128) -> usize,
    ) {
        let hashes = self.hashes(seed);
        for (index, (&key, &hash)) in self.keys.iter().zip(&hashes).enumerate() {
            sketches[part(index, key)].update(Updates::new(&[key], &[hash], Weights::Ones));
        }
        sketches.iter_mut().for_each(Sketch::flush);
    }

    /// The `count` keys with most packets.
    pub(crate) fn heaviest(&self, count: usize) -> Vec<u128> {
        let mut keys: Vec<_> = self
            .packets
            .iter()
            .map(|(&key, &packets)| (packets, key))
            .collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys.into_iter().take(count).map(|(_, key)| key).collect()
    }
}

pub(crate) fn hashed(key: u128, seed: Seed) -> HashedKey {
    let mut hash = [0];
    seed.hash().hash(&[key], &mut hash);
    HashedKey { key, hash: hash[0] }
}
