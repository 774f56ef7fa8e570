//! The Toeplitz hash of receive-side scaling, sixteen inputs at a time: bytes times matrices of bits,
//! by the processor's Galois field instructions where it has them.
//!
//! Bit `h` of the hash is the sum, over all bits `i` of the input, of input bit `i` times key bit
//! `i + h` (all counted from the highest, sums modulo 2). So byte `j` of the hash is the sum over all
//! places `p` of a matrix of 8 by 8 bits times the input's byte `p`, and the matrix depends on
//! `p + j` alone: its row `r` is the eight bits of key from `8 (p + j) + r` on. The four bytes of the
//! input that end at byte `q` therefore meet one matrix, the `q`-th, and what comes of them is added
//! to the hash's four bytes in the same order as they stand in a little-endian number: a hash is the
//! sum of as many products as there are such windows on the input.

/// Bytes of key that are used.
pub const KEY: usize = 40;

/// Bytes of two IPv4 addresses and two ports.
pub const NARROW: usize = 12;

/// Bytes of two IPv6 addresses and two ports.
pub const WIDE: usize = 36;

/// A key as matrices. Inputs are in network byte order: source address, destination address, source
/// port, destination port. Bytes of zero add nothing to a hash, so an input without ports is one
/// whose ports are zero, and any shorter one is filled up with zeroes.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    /// For each byte of the input that a window of four can end at, three beyond the last included,
    /// the matrix, as the processor wants it: its first row in the lowest byte.
    matrices: [u64; WIDE + 3],
}

impl Toeplitz {
    /// Prepares `key`.
    #[must_use]
    pub fn new(key: &[u8; KEY]) -> Self {
        Self {
            matrices: std::array::from_fn(|place| {
                let bits = u16::from_be_bytes([key[place], key[place + 1]]);
                u64::from_le_bytes(std::array::from_fn(|row| (bits >> (8 - row)) as u8))
            }),
        }
    }

    /// The hash of each key's last 12 bytes (little-endian order of the number); `false` where the
    /// processor lacks the instructions, and nothing was done.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[must_use]
    pub fn hash_narrow(&self, keys: &[u128], hashes: &mut [u32]) -> bool {
        assert_eq!(keys.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        if x86::is_there() {
            // SAFETY: the processor has what the function needs.
            unsafe { x86::hash_narrow(&self.matrices, keys, hashes) };
            return true;
        }
        false
    }

    /// The same of inputs of 36 bytes.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[must_use]
    pub fn hash_wide(&self, inputs: &[[u8; WIDE]], hashes: &mut [u32]) -> bool {
        assert_eq!(inputs.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        if x86::is_there() {
            // SAFETY: the processor has what the function needs.
            unsafe { x86::hash_wide(&self.matrices, inputs, hashes) };
            return true;
        }
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{NARROW, WIDE};
    use core::arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm512_castsi128_si512, _mm512_gf2p8affine_epi64_epi8,
        _mm512_inserti32x4, _mm512_loadu_si512, _mm512_permutexvar_epi32, _mm512_set1_epi64,
        _mm512_setr_epi32, _mm512_setzero_si512, _mm512_shrdi_epi32, _mm512_storeu_si512,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
        _mm512_xor_si512,
    };

    /// Inputs hashed together: as many as a register has hashes.
    const LANES: usize = 16;

    #[inline(always)]
    pub(super) fn is_there() -> bool {
        std::arch::is_x86_feature_detected!("gfni")
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vbmi2")
    }

    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    pub(super) fn hash_narrow(matrices: &[u64; WIDE + 3], keys: &[u128], hashes: &mut [u32]) {
        in_lanes(keys, hashes, |keys| {
            let quarter = |at: usize| {
                // SAFETY: four keys are 64 readable bytes; the load asks for no alignment.
                unsafe { _mm512_loadu_si512(keys[4 * at..4 * at + 4].as_ptr().cast()) }
            };
            let [_, first, second, third] =
                columns([quarter(0), quarter(1), quarter(2), quarter(3)]);
            sum_of_products(matrices, &[first, second, third])
        });
    }

    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    pub(super) fn hash_wide(matrices: &[u64; WIDE + 3], inputs: &[[u8; WIDE]], hashes: &mut [u32]) {
        in_lanes(inputs, hashes, |inputs| {
            let [c0, c1, c2, c3] = columns_at(inputs, 0);
            let [c4, c5, c6, c7] = columns_at(inputs, 16);
            // The last four bytes, loaded with twelve that have been seen.
            let [_, _, _, c8] = columns_at(inputs, WIDE - 16);
            sum_of_products(matrices, &[c0, c1, c2, c3, c4, c5, c6, c7, c8])
        });
    }

    /// Gives `hashes` what `hash` makes of `inputs`, sixteen at a time: inputs that are left over
    /// together with zeroes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn in_lanes<T: Copy + Zero>(
        inputs: &[T],
        hashes: &mut [u32],
        hash: impl Fn(&[T; LANES]) -> __m512i,
    ) {
        let (whole, rest) = inputs.as_chunks::<LANES>();
        let (out, out_rest) = hashes.as_chunks_mut::<LANES>();
        for (inputs, hashes) in whole.iter().zip(out) {
            // SAFETY: sixteen hashes are 64 writable bytes; the store asks for no alignment.
            unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), hash(inputs)) };
        }
        if !rest.is_empty() {
            let mut padded = [T::ZERO; LANES];
            padded[..rest.len()].copy_from_slice(rest);
            let mut made = [0u32; LANES];
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(made.as_mut_ptr().cast(), hash(&padded)) };
            out_rest.copy_from_slice(&made[..rest.len()]);
        }
    }

    trait Zero {
        const ZERO: Self;
    }

    impl Zero for u128 {
        const ZERO: Self = 0;
    }

    impl Zero for [u8; WIDE] {
        const ZERO: Self = [0; WIDE];
    }

    /// The four columns of 4 bytes from byte `at` on of sixteen rows.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn columns_at(rows: &[[u8; WIDE]; LANES], at: usize) -> [__m512i; 4] {
        let lane = |row: usize| {
            // SAFETY: 16 readable bytes; the load asks for no alignment.
            unsafe { _mm_loadu_si128(rows[row][at..at + 16].as_ptr().cast()) }
        };
        let quarter = |at: usize| {
            let lanes = _mm512_castsi128_si512(lane(4 * at));
            let lanes = _mm512_inserti32x4::<1>(lanes, lane(4 * at + 1));
            let lanes = _mm512_inserti32x4::<2>(lanes, lane(4 * at + 2));
            _mm512_inserti32x4::<3>(lanes, lane(4 * at + 3))
        };
        columns([quarter(0), quarter(1), quarter(2), quarter(3)])
    }

    /// Four columns of 4 bytes, of sixteen rows of which each register has four: the row of lane
    /// `4 l + m` of a column is row `l` of register `m`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn columns([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let ab_low = _mm512_unpacklo_epi32(a, b);
        let ab_high = _mm512_unpackhi_epi32(a, b);
        let cd_low = _mm512_unpacklo_epi32(c, d);
        let cd_high = _mm512_unpackhi_epi32(c, d);
        [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    }

    /// The hashes of sixteen rows whose `columns` of 4 bytes these are, brought into their order.
    #[inline]
    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    fn sum_of_products<const N: usize>(
        matrices: &[u64; WIDE + 3],
        columns: &[__m512i; N],
    ) -> __m512i {
        const {
            assert!(4 * N == NARROW || 4 * N == WIDE);
        }
        let zeroes = _mm512_setzero_si512();
        let product = |window, place: usize| {
            let matrix = _mm512_set1_epi64(matrices[place].cast_signed());
            _mm512_gf2p8affine_epi64_epi8::<0>(window, matrix)
        };
        // The windows that begin within the column before.
        let between = |before, column, place| {
            let first = product(_mm512_shrdi_epi32::<8>(before, column), place);
            let second = product(_mm512_shrdi_epi32::<16>(before, column), place + 1);
            let third = product(_mm512_shrdi_epi32::<24>(before, column), place + 2);
            _mm512_xor_si512(_mm512_xor_si512(first, second), third)
        };
        let mut sum = zeroes;
        let mut before = zeroes;
        for (index, &column) in columns.iter().enumerate() {
            let whole = product(column, 4 * index + 3);
            let sums = _mm512_xor_si512(between(before, column, 4 * index), whole);
            sum = _mm512_xor_si512(sum, sums);
            before = column;
        }
        sum = _mm512_xor_si512(sum, between(before, zeroes, 4 * N));
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(order, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: for every set bit of the input, the 32 bits of key under it.
    fn bit_by_bit(key: &[u8; KEY], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        (0..input.len() * 8)
            .filter(|&at| bit(input, at) == 1)
            .map(|at| (0..32).fold(0, |word, next| word << 1 | u32::from(bit(key, at + next))))
            .fold(0, |hash, under| hash ^ under)
    }

    fn rss_key() -> impl Strategy<Value = [u8; KEY]> {
        let symmetric: [u8; KEY] = std::array::from_fn(|place| [0x6d, 0x5a][place % 2]);
        prop_oneof![any::<[u8; KEY]>(), Just(symmetric)]
    }

    /// Lengths that are hashed: addresses, and addresses and ports, of IPv4 and of IPv6.
    const LENGTHS: [usize; 4] = [8, NARROW, 32, WIDE];

    proptest! {
        #[test]
        fn vectors_agree_with_the_definition(
            key in rss_key(), inputs in prop::collection::vec(any::<[u8; WIDE]>(), 0..70),
        ) {
            let toeplitz = Toeplitz::new(&key);
            for length in LENGTHS {
                let expected: Vec<u32> =
                    inputs.iter().map(|input| bit_by_bit(&key, &input[..length])).collect();
                let padded: Vec<[u8; WIDE]> = inputs
                    .iter()
                    .map(|input| std::array::from_fn(|at| if at < length { input[at] } else { 0 }))
                    .collect();
                let mut hashes = vec![0; inputs.len()];
                if toeplitz.hash_wide(&padded, &mut hashes) {
                    prop_assert_eq!(&hashes, &expected);
                }
                if length > NARROW {
                    continue;
                }
                // What else the key holds is not covered.
                let keys: Vec<u128> = padded
                    .iter()
                    .zip(&inputs)
                    .map(|(padded, input)| {
                        let mut bytes = [0; 16];
                        bytes[..16 - NARROW].copy_from_slice(&input[NARROW..16]);
                        bytes[16 - NARROW..].copy_from_slice(&padded[..NARROW]);
                        u128::from_le_bytes(bytes)
                    })
                    .collect();
                hashes.fill(0);
                if toeplitz.hash_narrow(&keys, &mut hashes) {
                    prop_assert_eq!(&hashes, &expected);
                }
            }
        }
    }
}
