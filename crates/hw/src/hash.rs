//! A keyed hash of 16-byte keys and of texts: AES rounds under a secret, so that nobody outside can
//! choose keys that meet in one bucket; multiplications where the processor has no AES instructions.

use crate::random::Random;

/// A hash function drawn from a family by a secret seed.
#[derive(Clone, Copy)]
pub struct KeyedHash {
    round_keys: [u128; 4],
}

impl core::fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyedHash")
    }
}

impl KeyedHash {
    /// The function for `seed`; the same seed gives the same function on machines of one kind.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut random = Random::from_state(seed);
        let mut round_keys = [0; 4];
        let mut index = 0;
        while index < 4 {
            let (low, high) = (random.bits(), random.bits());
            round_keys[index] = (high as u128) << 64 | low as u128;
            index += 1;
        }
        Self { round_keys }
    }

    /// The hash of each key.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn hash(&self, keys: &[u128], hashes: &mut [u64]) {
        assert_eq!(keys.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("vaes")
                && std::arch::is_x86_feature_detected!("avx512f")
            {
                // SAFETY: the processor has what the function needs.
                return unsafe { hash_vaes(&self.round_keys, keys, hashes) };
            }
            if std::arch::is_x86_feature_detected!("aes") {
                // SAFETY: the processor has what the function needs.
                return unsafe { hash_aes(&self.round_keys, keys, hashes) };
            }
        }
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = multiply(&self.round_keys, *key);
        }
    }

    /// A digest of a key too wide for 16 bytes; equal keys have equal digests, and unequal ones
    /// differ but for one chance in 2^127, which the table's comparison of whole keys covers.
    #[must_use]
    pub fn digest(&self, words: &[u128; 3]) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("aes") {
            // SAFETY: the processor has what the function needs.
            return unsafe { digest_aes(&self.round_keys, words) };
        }
        words.iter().fold(self.round_keys[0], |state, &word| {
            absorb_multiplying(&self.round_keys, state, word)
        })
    }

    /// The hash of a text.
    #[must_use]
    pub fn text(&self, text: &[u8]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("aes") {
            // SAFETY: the processor has what the function needs.
            return unsafe { text_aes(&self.round_keys, text) };
        }
        text_multiplying(&self.round_keys, text)
    }
}

fn absorb_multiplying(keys: &[u128; 4], state: u128, word: u128) -> u128 {
    let low = multiply(keys, state ^ word);
    let high = multiply(keys, (state ^ word).rotate_left(64) ^ keys[3]);
    u128::from(high) << 64 | u128::from(low)
}

fn text_multiplying(keys: &[u128; 4], text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<16>();
    let state = words.iter().fold(keys[0], |state, word| {
        absorb_multiplying(keys, state, u128::from_le_bytes(*word))
    });
    let state = absorb_multiplying(keys, state, tail(rest));
    multiply(keys, state ^ text.len() as u128)
}

/// The last bytes of a text, fewer than 16, as a number; texts of one length have different ones.
#[inline(always)]
fn tail(rest: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*last)) << 64 | u128::from(u64::from_le_bytes(*first))
    } else if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        u128::from(u32::from_le_bytes(*last)) << 32 | u128::from(u32::from_le_bytes(*first))
    } else {
        rest.iter()
            .fold(0, |number, &byte| number << 8 | u128::from(byte))
    }
}

fn multiply(keys: &[u128; 4], value: u128) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let (low, high) = (value as u64, (value >> 64) as u64);
    let first = fold(low ^ keys[0] as u64, high ^ keys[1] as u64);
    let second = fold(low ^ (keys[2] >> 64) as u64, high ^ (keys[3] >> 64) as u64);
    fold(first ^ keys[2] as u64, second ^ keys[3] as u64)
}

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{__m128i, _mm_aesenc_si128, _mm_loadu_si128, _mm_xor_si128};

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load(value: &u128) -> __m128i {
    // SAFETY: 16 readable bytes; the load asks for no alignment.
    unsafe { _mm_loadu_si128(core::ptr::from_ref(value).cast()) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes")]
fn hash_aes(round_keys: &[u128; 4], keys: &[u128], hashes: &mut [u64]) {
    use core::arch::x86_64::_mm_cvtsi128_si64;
    let [k0, k1, k2, k3] = round_keys.each_ref().map(load);
    for (key, hash) in keys.iter().zip(hashes) {
        let state = _mm_aesenc_si128(_mm_xor_si128(load(key), k0), k1);
        let state = _mm_aesenc_si128(_mm_aesenc_si128(state, k2), k3);
        *hash = _mm_cvtsi128_si64(state).cast_unsigned();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes,avx512f,vaes")]
fn hash_vaes(round_keys: &[u128; 4], keys: &[u128], hashes: &mut [u64]) {
    use core::arch::x86_64::{
        _mm256_storeu_si256, _mm512_aesenc_epi128, _mm512_broadcast_i32x4, _mm512_castsi512_si256,
        _mm512_loadu_si512, _mm512_permutexvar_epi64, _mm512_setr_epi64, _mm512_xor_si512,
    };
    let [k0, k1, k2, k3] = round_keys
        .each_ref()
        .map(|key| _mm512_broadcast_i32x4(load(key)));
    let low_words = _mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0);
    let (fours, rest) = keys.as_chunks::<4>();
    let (out, out_rest) = hashes.as_chunks_mut::<4>();
    for (four, hash) in fours.iter().zip(out) {
        // SAFETY: four keys are 64 readable bytes; the load asks for no alignment.
        let state = unsafe { _mm512_loadu_si512(four.as_ptr().cast()) };
        let state = _mm512_aesenc_epi128(_mm512_xor_si512(state, k0), k1);
        let state = _mm512_aesenc_epi128(_mm512_aesenc_epi128(state, k2), k3);
        let low = _mm512_castsi512_si256(_mm512_permutexvar_epi64(low_words, state));
        // SAFETY: four hashes are 32 writable bytes; the store asks for no alignment.
        unsafe { _mm256_storeu_si256(hash.as_mut_ptr().cast(), low) };
    }
    hash_aes(round_keys, rest, out_rest);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes")]
fn digest_aes(round_keys: &[u128; 4], words: &[u128; 3]) -> u128 {
    use core::arch::x86_64::_mm_storeu_si128;
    let [k0, k1, k2, k3] = round_keys.each_ref().map(load);
    let mut state = k0;
    for word in words {
        state = _mm_xor_si128(state, load(word));
        state = _mm_aesenc_si128(_mm_aesenc_si128(state, k1), k2);
    }
    state = _mm_aesenc_si128(_mm_aesenc_si128(state, k3), k0);
    let mut digest = 0u128;
    // SAFETY: 16 writable bytes; the store asks for no alignment.
    unsafe { _mm_storeu_si128(core::ptr::from_mut(&mut digest).cast(), state) };
    digest
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes")]
fn text_aes(round_keys: &[u128; 4], text: &[u8]) -> u64 {
    use core::arch::x86_64::_mm_cvtsi128_si64;
    let [k0, k1, k2, k3] = round_keys.each_ref().map(load);
    let (words, rest) = text.as_chunks::<16>();
    let mut state = k0;
    for word in words {
        state = _mm_xor_si128(state, load(&u128::from_le_bytes(*word)));
        state = _mm_aesenc_si128(_mm_aesenc_si128(state, k1), k2);
    }
    if !rest.is_empty() {
        state = _mm_xor_si128(state, load(&tail(rest)));
        state = _mm_aesenc_si128(_mm_aesenc_si128(state, k1), k2);
    }
    // Behind the rounds: before them, a text could be chosen to undo its length.
    state = _mm_xor_si128(state, load(&(text.len() as u128)));
    state = _mm_aesenc_si128(_mm_aesenc_si128(state, k3), k0);
    _mm_cvtsi128_si64(state).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn structured_keys() -> Vec<u128> {
        (0..1u128 << 18)
            .map(|i| (0x0a00_0000 + (i & 0x3ff)) | ((0xc0a8_0000 + (i >> 10)) << 32))
            .collect()
    }

    #[test]
    fn any_count_of_keys_gives_the_hash_of_each() {
        let hash = KeyedHash::new(7);
        let keys = &structured_keys()[..67];
        let mut together = vec![0; keys.len()];
        hash.hash(keys, &mut together);
        for (key, expected) in keys.iter().zip(&together) {
            let mut alone = [0];
            hash.hash(&[*key], &mut alone);
            assert_eq!(alone[0], *expected);
        }
    }

    #[test]
    fn structured_keys_do_not_collide_and_spread_over_buckets() {
        let keys = structured_keys();
        for hash_one in [
            |keys: &[u128], out: &mut [u64]| KeyedHash::new(1).hash(keys, out),
            |keys: &[u128], out: &mut [u64]| {
                for (key, hash) in keys.iter().zip(out) {
                    *hash = multiply(&KeyedHash::new(1).round_keys, *key);
                }
            },
        ] {
            let mut hashes = vec![0; keys.len()];
            hash_one(&keys, &mut hashes);
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), keys.len());
            // 2^18 keys in 2^10 buckets: mean 256, standard deviation 16; 8 of them are not chance.
            for shift in [0, 16, 32, 54] {
                let mut counts = vec![0i32; 1024];
                for hash in &hashes {
                    counts[(hash >> shift & 1023) as usize] += 1;
                }
                assert!(
                    counts.iter().all(|count| (count - 256).abs() < 128),
                    "bits from {shift}"
                );
            }
        }
    }

    #[test]
    fn digests_tell_words_and_their_places_apart() {
        let hash = KeyedHash::new(3);
        let mut seen = HashSet::new();
        for place in 0..3 {
            for bit in 0..128 {
                let mut words = [0; 3];
                words[place] = 1 << bit;
                assert!(seen.insert(hash.digest(&words)));
            }
        }
        assert_eq!(
            hash.digest(&[1, 2, 3]),
            KeyedHash::new(3).digest(&[1, 2, 3])
        );
        assert_ne!(
            hash.digest(&[1, 2, 3]),
            KeyedHash::new(4).digest(&[1, 2, 3])
        );
    }

    #[test]
    fn texts_are_told_apart_by_every_bit_their_length_and_the_key() {
        let hash = KeyedHash::new(3);
        for hash_one in [
            |text: &[u8]| KeyedHash::new(3).text(text),
            |text: &[u8]| text_multiplying(&KeyedHash::new(3).round_keys, text),
        ] {
            let mut seen = HashSet::new();
            for length in 0..70 {
                let mut text = vec![0; length];
                assert!(seen.insert(hash_one(&text)), "{length} zeroes");
                for bit in 0..8 * length {
                    text[bit / 8] ^= 1 << (bit % 8);
                    assert!(seen.insert(hash_one(&text)), "bit {bit} of {length} bytes");
                    text[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
        assert_eq!(
            hash.text(b"a.example"),
            KeyedHash::new(3).text(b"a.example")
        );
        assert_ne!(
            hash.text(b"a.example"),
            KeyedHash::new(4).text(b"a.example")
        );
    }
}
