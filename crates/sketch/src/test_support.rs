//! What the tests of several sketches share.

use crate::bytes::Reader;
use crate::{
    Geometry, HashedKey, HeavyHitters, Policy, Seed, Sketch, StateError, Updates, Weights, Width,
};
use hw::random::{Random, mix};
use std::collections::HashMap;

/// Passes `keys` to `update` in batches, hashed by `seed`, each with weight 1.
pub(crate) fn hashed(
    seed: Seed,
    keys: impl IntoIterator<Item = u128>,
    mut update: impl FnMut(Updates<'_>),
) {
    let keys: Vec<u128> = keys.into_iter().collect();
    for keys in keys.chunks(256) {
        let mut hashes = vec![0; keys.len()];
        seed.hash().hash(keys, &mut hashes);
        update(Updates::new(keys, &hashes, Weights::Ones));
    }
}

/// Returns the state of a sketch.
pub(crate) fn written(sketch: &impl Sketch) -> Vec<u8> {
    let mut state = Vec::new();
    sketch.write(&mut state);
    state
}

/// Writes a sketch and reads it again, without its seed.
pub(crate) fn read_back<S: Sketch>(sketch: &S) -> Result<S, StateError> {
    let state = written(sketch);
    let mut reader = Reader::new(&state);
    let read = S::read(&sketch.geometry(), None, &mut reader)?;
    reader.end()?;
    Ok(read)
}

/// Reads a state after changing any one byte of it, and each of its beginnings. What is read in spite
/// of that is passed to `check`; beginnings must be refused.
pub(crate) fn disturb<S: Sketch>(geometry: &Geometry, state: &[u8], check: impl Fn(&S)) {
    let read = |bytes: &[u8]| S::read(geometry, None, &mut Reader::new(bytes));
    let step = state.len() / 300 + 1;
    for index in (0..state.len()).step_by(step) {
        assert!(read(&state[..index]).is_err(), "{index} bytes of it");
        for change in [1, 0x80, 0xff] {
            let mut other = state.to_vec();
            other[index] ^= change;
            if let Ok(sketch) = read(&other) {
                check(&sketch);
            }
        }
    }
    for dimension in 0..geometry.dimensions.len() {
        for value in [1, 5, 63, 64, 1 << 32, u64::MAX] {
            let mut other = *geometry;
            other.dimensions[dimension] = value;
            if let Ok(sketch) = S::read(&other, None, &mut Reader::new(state)) {
                check(&sketch);
            }
        }
    }
}

/// Packets of flows whose sizes follow Zipf's law, in random order, and the packets of each flow.
pub(crate) struct Zipf {
    pub(crate) packets: Vec<u128>,
    pub(crate) truth: HashMap<u128, u64>,
}

impl Zipf {
    /// Draws packets of `keys` flows, the flow of rank r in proportion to r^-`exponent`.
    pub(crate) fn new(seed: u64, keys: usize, packets: usize, exponent: f64) -> Self {
        let mut random = Random::new(seed, 0);
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        let draw = |_| {
            let at = random.unit() * sum;
            let rank = sums.partition_point(|&sum| sum < at).min(keys - 1);
            // Keys that say nothing of the rank.
            u128::from(mix(rank as u64 + 1))
        };
        Self::of((0..packets).map(draw).collect())
    }

    /// Counts packets.
    pub(crate) fn of(packets: Vec<u128>) -> Self {
        let mut truth = HashMap::new();
        for &packet in &packets {
            *truth.entry(packet).or_default() += 1;
        }
        Self { packets, truth }
    }
}

/// Returns the key with its hash.
pub(crate) fn hashed_key(seed: Seed, key: u128) -> HashedKey {
    let mut hash = [0];
    seed.hash().hash(&[key], &mut hash);
    HashedKey { key, hash: hash[0] }
}

/// Returns a table of random admission or another policy.
pub(crate) fn table(bytes: usize, policy: Policy, seed: Seed) -> HeavyHitters {
    HeavyHitters::with_memory(bytes, policy, Width::Wide, seed).unwrap()
}
