//! MurmurHash3, variant x64_128 (Appleby), of short byte strings, as DataSketches hashes what it counts.

/// The seed of all DataSketches by default. Sketches of others can only be united with ours under it.
pub const DATASKETCHES_SEED: u64 = 9001;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Returns the two halves of the hash of `bytes`.
#[must_use]
pub fn hash128(bytes: &[u8], seed: u64) -> [u64; 2] {
    let (mut h1, mut h2) = (seed, seed);
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= scramble_low(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_high((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut tail = [0; 16];
    tail[..rest.len()].copy_from_slice(rest);
    finish128(h1, h2, u128::from_le_bytes(tail), bytes.len() as u64)
}

/// Returns the hash of the last `length` bytes, at most 16, of `key` in network order. It is that of
/// [`hash128`], without a copy of bytes.
#[inline]
#[must_use]
pub fn hash128_of_key(key: u128, length: u8, seed: u64) -> [u64; 2] {
    let bytes = key.swap_bytes();
    match length {
        0 => finish128(seed, seed, 0, 0),
        1..16 => {
            let tail = bytes >> (u128::BITS - 8 * u32::from(length));
            finish128(seed, seed, tail, length.into())
        }
        _ => hash128(&bytes.to_le_bytes(), seed),
    }
}

/// Ends a hash with fewer than 16 bytes, which are the lowest of `tail`, and the `length` of all.
#[inline]
const fn finish128(mut h1: u64, mut h2: u64, tail: u128, length: u64) -> [u64; 2] {
    h2 ^= scramble_high((tail >> 64) as u64);
    h1 ^= scramble_low(tail as u64);
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

/// 0 for 0, so that an absent half of the tail changes nothing.
const fn scramble_low(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn scramble_high(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn finish(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values by the Python package mmh3, `hash64(text, seed, signed=False)`.
    #[test]
    fn equals_mmh3() {
        for (text, seed, expected) in VALUES {
            assert_eq!(hash128(text, *seed), *expected, "{text:?}");
        }
    }

    #[test]
    fn keys_are_hashed_as_their_bytes() {
        let key = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10u128;
        for length in 0..=16 {
            let bytes = &key.to_be_bytes()[16 - usize::from(length)..];
            assert_eq!(hash128_of_key(key, length, 9001), hash128(bytes, 9001));
        }
    }

    const VALUES: &[(&[u8], u64, [u64; 2])] = &[
        (b"", 0, [0x0000_0000_0000_0000, 0x0000_0000_0000_0000]),
        (b"", 9001, [0x1e70_a322_6649_1bb9, 0x6097_36b2_5240_6b94]),
        (b"a", 9001, [0xf602_0f0a_a43b_822f, 0xc51f_4ded_6e1e_b0fe]),
        (
            b"flow 7",
            9001,
            [0x723b_440a_eb6d_8dd0, 0x031c_af4f_3f3d_17b6],
        ),
        (
            b"12345678",
            9001,
            [0x0564_20c7_4736_3c4e, 0x4f32_cbda_ea19_9a52],
        ),
        (
            b"123456789",
            9001,
            [0xc390_9146_8391_8b9a, 0xbcf9_5f9d_07ae_b601],
        ),
        (
            b"0123456789abcdef",
            9001,
            [0x257b_6066_8d28_9420, 0x7136_b9a3_e21f_b393],
        ),
        (
            b"0123456789abcdef0123456789abcde",
            9001,
            [0x6e16_2970_f54c_0830, 0x4e46_3463_9f5d_ec84],
        ),
    ];
}
