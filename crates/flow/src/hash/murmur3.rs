//! Murmur3, variant x86_32 (Appleby, MurmurHash3), of the 16 bytes of a key, with seed 0.

use super::spread::fmix32;

/// The seed.
const SEED: u32 = 0;

/// Returns the hash of four blocks of four bytes, without a tail.
#[inline]
pub(super) fn hash(key: u128) -> u32 {
    let mut state = SEED;
    for shift in [0, 32, 64, 96] {
        let block = ((key >> shift) as u32).wrapping_mul(0xcc9e_2d51);
        state ^= block.rotate_left(15).wrapping_mul(0x1b87_3593);
        state = state
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    fmix32(state ^ size_of::<u128>() as u32)
}
