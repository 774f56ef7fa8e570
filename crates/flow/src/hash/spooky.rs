//! SpookyHash, version 2 (Jenkins, SpookyV2), in the form for short messages, of the 16 bytes of a key
//! with both seeds 0: the 64-bit result.

/// The reference's constant `sc_const`: it need only be odd, nonzero and without a pattern.
const ARBITRARY: u64 = 0xdead_beef_dead_beef;

/// Returns the hash of one half block, followed by the end of a message without a remainder.
#[inline]
pub(super) fn hash64(key: u128) -> u64 {
    let (mut a, mut b) = (0, 0);
    let mut c = ARBITRARY.wrapping_add(key as u64);
    let mut d = ARBITRARY.wrapping_add((key >> 64) as u64);
    for rotations in [[50, 52, 30, 41], [54, 48, 38, 37], [62, 34, 5, 36]] {
        [c, a] = mix(c, d, a, rotations[0]);
        [d, b] = mix(d, a, b, rotations[1]);
        [a, c] = mix(a, b, c, rotations[2]);
        [b, d] = mix(b, c, d, rotations[3]);
    }
    let length = size_of::<u128>() as u64;
    c = c.wrapping_add(ARBITRARY);
    d = d.wrapping_add(length << 56).wrapping_add(ARBITRARY);
    for rotations in [[15, 52, 26, 51], [28, 9, 47, 54]] {
        [d, c] = end(d, c, rotations[0]);
        [a, d] = end(a, d, rotations[1]);
        [b, a] = end(b, a, rotations[2]);
        [c, b] = end(c, b, rotations[3]);
    }
    let [d, _] = end(d, c, 32);
    let [a, _] = end(a, d, 25);
    a.rotate_left(63)
}

/// Does one step of the mixing function, and returns the new `rotated` and `other`.
#[inline]
const fn mix(rotated: u64, added: u64, other: u64, rotation: u32) -> [u64; 2] {
    let rotated = rotated.rotate_left(rotation).wrapping_add(added);
    [rotated, other ^ rotated]
}

/// Does one step of the final mixing, and returns the new `mixed` and `rotated`.
#[inline]
const fn end(mixed: u64, rotated: u64, rotation: u32) -> [u64; 2] {
    let (mixed, rotated) = (mixed ^ rotated, rotated.rotate_left(rotation));
    [mixed.wrapping_add(rotated), rotated]
}
