//! What the tests of several sketches share.

use crate::bytes::Reader;
use crate::{Geometry, Seed, Sketch, StateError, Updates, Weights};

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
