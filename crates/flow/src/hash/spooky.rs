//! SpookyHash, version 2 (Jenkins, SpookyV2), its form for short messages, of the 16 bytes of a key
//! with both seeds 0: the 64-bit result.

/// Odd, not regular, not zero: says the author of the number.
const ARBITRARY: u64 = 0xdead_beef_dead_beef;

/// Rotations of the mixing of a block.
const MIX: [u32; 12] = [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36];

/// Rotations of the end.
const END: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];

/// One half block, then the end of a message with nothing left over.
#[inline(always)]
pub(super) fn hash64(key: u128) -> u64 {
    let mut state = [0, 0, ARBITRARY, ARBITRARY];
    state[2] = ARBITRARY.wrapping_add(key as u64);
    state[3] = ARBITRARY.wrapping_add((key >> 64) as u64);
    for (step, &rotation) in MIX.iter().enumerate() {
        let (turned, added, mixed) = ((step + 2) % 4, (step + 3) % 4, step % 4);
        state[turned] = state[turned]
            .rotate_left(rotation)
            .wrapping_add(state[added]);
        state[mixed] ^= state[turned];
    }
    let length = size_of::<u128>() as u64;
    state[2] = state[2].wrapping_add(ARBITRARY);
    state[3] = state[3].wrapping_add(length << 56).wrapping_add(ARBITRARY);
    for (step, &rotation) in END.iter().enumerate() {
        let (mixed, turned) = ((step + 3) % 4, (step + 2) % 4);
        state[mixed] ^= state[turned];
        state[turned] = state[turned].rotate_left(rotation);
        state[mixed] = state[mixed].wrapping_add(state[turned]);
    }
    state[0]
}
