//! A keyed hash of 16-byte keys and of byte strings. It applies AES rounds under a secret seed, so that
//! an attacker cannot choose keys that collide in one bucket. A CPU without AES instructions uses
//! multiplications instead.

use crate::random::Random;

/// A hash function, drawn from a family by a secret seed.
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
    /// Creates the function for `seed`. It is the same on all CPUs with AES instructions, and the same
    /// on all without.
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

    /// Writes the hash of each key to `hashes`.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn hash(&self, keys: &[u128], hashes: &mut [u64]) {
        assert_eq!(keys.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("vaes")
                && std::arch::is_x86_feature_detected!("avx512f")
            {
                // SAFETY: the CPU supports the function's target features.
                return unsafe { hash_vaes(&self.round_keys, keys, hashes) };
            }
            if std::arch::is_x86_feature_detected!("aes") {
                // SAFETY: the CPU supports the function's target features.
                return unsafe { hash_aes(&self.round_keys, keys, hashes) };
            }
        }
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = hash_portable(&self.round_keys, *key);
        }
    }

    /// Returns a 128-bit digest of a key that does not fit 16 bytes. Two different keys have the same
    /// digest with a probability of 2^-127; the flow table compares whole keys to exclude it.
    #[must_use]
    pub fn digest(&self, words: &[u128; 3]) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("aes") {
            // SAFETY: the CPU supports the function's target features.
            return unsafe { digest_aes(&self.round_keys, words) };
        }
        words.iter().fold(self.round_keys[0], |state, &word| {
            absorb_portable(&self.round_keys, state, word)
        })
    }

    /// Returns the hash of a byte string.
    #[must_use]
    pub fn hash_bytes(&self, text: &[u8]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("aes") {
            // SAFETY: the CPU supports the function's target features.
            return unsafe { hash_bytes_aes(&self.round_keys, text) };
        }
        hash_bytes_portable(&self.round_keys, text)
    }
}

fn absorb_portable(keys: &[u128; 4], state: u128, word: u128) -> u128 {
    let low = hash_portable(keys, state ^ word);
    let high = hash_portable(keys, (state ^ word).rotate_left(64) ^ keys[3]);
    u128::from(high) << 64 | u128::from(low)
}

fn hash_bytes_portable(keys: &[u128; 4], text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<16>();
    let state = words.iter().fold(keys[0], |state, word| {
        absorb_portable(keys, state, u128::from_le_bytes(*word))
    });
    let state = absorb_portable(keys, state, tail(rest));
    hash_portable(keys, state ^ text.len() as u128)
}

/// Packs the last bytes of a string, fewer than 16, into a number. Different strings of the same length
/// give different numbers.
#[inline]
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

fn hash_portable(keys: &[u128; 4], value: u128) -> u64 {
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
#[inline]
fn load(value: &u128) -> __m128i {
    // SAFETY: 16 readable bytes, and the load needs no alignment.
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
        // SAFETY: four keys are 64 readable bytes, and the load needs no alignment.
        let state = unsafe { _mm512_loadu_si512(four.as_ptr().cast()) };
        let state = _mm512_aesenc_epi128(_mm512_xor_si512(state, k0), k1);
        let state = _mm512_aesenc_epi128(_mm512_aesenc_epi128(state, k2), k3);
        let low = _mm512_castsi512_si256(_mm512_permutexvar_epi64(low_words, state));
        // SAFETY: four hashes are 32 writable bytes, and the store needs no alignment.
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
    // SAFETY: 16 writable bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(core::ptr::from_mut(&mut digest).cast(), state) };
    digest
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes")]
fn hash_bytes_aes(round_keys: &[u128; 4], text: &[u8]) -> u64 {
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
    // The length comes after the rounds: before them, an attacker could choose a text that cancels it.
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
    fn hash_of_a_key_does_not_depend_on_its_batch() {
        let hash = KeyedHash::new(7);
        let keys = &structured_keys()[..67];
        let mut batch = vec![0; keys.len()];
        hash.hash(keys, &mut batch);
        for (key, expected) in keys.iter().zip(&batch) {
            let mut single = [0];
            hash.hash(&[*key], &mut single);
            assert_eq!(single[0], *expected);
        }
    }

    #[test]
    fn structured_keys_do_not_collide_and_spread_over_buckets() {
        let keys = structured_keys();
        for hash_one in [
            |keys: &[u128], out: &mut [u64]| KeyedHash::new(1).hash(keys, out),
            |keys: &[u128], out: &mut [u64]| {
                for (key, hash) in keys.iter().zip(out) {
                    *hash = hash_portable(&KeyedHash::new(1).round_keys, *key);
                }
            },
        ] {
            let mut hashes = vec![0; keys.len()];
            hash_one(&keys, &mut hashes);
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), keys.len());
            // 2^18 keys in 2^10 buckets: mean 256, standard deviation 16. Eight deviations are no chance.
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
    fn digests_depend_on_words_and_their_order() {
        let hash = KeyedHash::new(3);
        let mut seen = HashSet::new();
        for index in 0..3 {
            for bit in 0..128 {
                let mut words = [0; 3];
                words[index] = 1 << bit;
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
    fn string_hashes_depend_on_every_bit_the_length_and_the_seed() {
        let hash = KeyedHash::new(3);
        for hash_one in [
            |text: &[u8]| KeyedHash::new(3).hash_bytes(text),
            |text: &[u8]| hash_bytes_portable(&KeyedHash::new(3).round_keys, text),
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
            hash.hash_bytes(b"a.example"),
            KeyedHash::new(3).hash_bytes(b"a.example")
        );
        assert_ne!(
            hash.hash_bytes(b"a.example"),
            KeyedHash::new(4).hash_bytes(b"a.example")
        );
    }
}
