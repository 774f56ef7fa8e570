//! The Toeplitz hash of receive-side scaling, for sixteen inputs at a time. It multiplies bytes by bit
//! matrices with the CPU's Galois field instructions (GFNI).
//!
//! Bit `h` of the hash is the sum, over all bits `i` of the input, of input bit `i` times key bit
//! `i + h` (all counted from the highest, sums modulo 2). So byte `j` of the hash is the sum, over all
//! offsets `p`, of a matrix of 8 by 8 bits times input byte `p`. The matrix depends only on `p + j`:
//! its row `r` is the eight key bits from `8 (p + j) + r`. The window of four input bytes that ends at
//! byte `q` is therefore multiplied by a single matrix, number `q`, and its four products are added to
//! the four bytes of the hash in the order of a little-endian number. A hash is the sum of one such
//! product for each window of the input.

/// Bytes of an RSS key.
pub const KEY_BYTES: usize = 40;

/// Bytes of two IPv4 addresses and two ports.
pub const IPV4_BYTES: usize = 12;

/// Bytes of two IPv6 addresses and two ports.
pub const IPV6_BYTES: usize = 36;

/// An RSS key as bit matrices. An input is the source address, destination address, source port and
/// destination port, in network byte order. Zero bytes add nothing to a hash, so an input without
/// ports, or a shorter one, is padded with zeroes.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    /// The matrix for each byte at which a window of four can end, including three past the input, in
    /// the layout of GFNI: the first row is the lowest byte.
    matrices: [u64; IPV6_BYTES + 3],
}

impl Toeplitz {
    /// Prepares `key`.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self {
            matrices: std::array::from_fn(|index| {
                let bits = u16::from_be_bytes([key[index], key[index + 1]]);
                u64::from_le_bytes(std::array::from_fn(|row| (bits >> (8 - row)) as u8))
            }),
        }
    }

    /// Hashes the last 12 bytes of each key, in little-endian order. Returns `false`, having done
    /// nothing, if the CPU lacks the instructions.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    #[must_use]
    pub fn hash_ipv4(&self, keys: &[u128], hashes: &mut [u32]) -> bool {
        assert_eq!(keys.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        if x86::is_supported() {
            // SAFETY: the CPU supports the function's target features.
            unsafe { x86::hash_ipv4(&self.matrices, keys, hashes) };
            return true;
        }
        false
    }

    /// Hashes inputs of 36 bytes. Returns `false`, having done nothing, if the CPU lacks the instructions.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    #[must_use]
    pub fn hash_ipv6(&self, inputs: &[[u8; IPV6_BYTES]], hashes: &mut [u32]) -> bool {
        assert_eq!(inputs.len(), hashes.len());
        #[cfg(target_arch = "x86_64")]
        if x86::is_supported() {
            // SAFETY: the CPU supports the function's target features.
            unsafe { x86::hash_ipv6(&self.matrices, inputs, hashes) };
            return true;
        }
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{IPV4_BYTES, IPV6_BYTES};
    use core::arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm512_castsi128_si512, _mm512_gf2p8affine_epi64_epi8,
        _mm512_inserti32x4, _mm512_loadu_si512, _mm512_permutexvar_epi32, _mm512_set1_epi64,
        _mm512_setr_epi32, _mm512_setzero_si512, _mm512_shrdi_epi32, _mm512_storeu_si512,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
        _mm512_xor_si512,
    };

    /// Inputs that are hashed together: the 32-bit lanes of a register.
    const LANES: usize = 16;

    #[inline]
    pub(super) fn is_supported() -> bool {
        std::arch::is_x86_feature_detected!("gfni")
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vbmi2")
    }

    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    pub(super) fn hash_ipv4(matrices: &[u64; IPV6_BYTES + 3], keys: &[u128], hashes: &mut [u32]) {
        hash_lanes(keys, hashes, |keys| {
            let quarter = |at: usize| {
                // SAFETY: four keys are 64 readable bytes, and the load needs no alignment.
                unsafe { _mm512_loadu_si512(keys[4 * at..4 * at + 4].as_ptr().cast()) }
            };
            let [_, first, second, third] =
                columns([quarter(0), quarter(1), quarter(2), quarter(3)]);
            sum_of_products(matrices, &[first, second, third])
        });
    }

    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    pub(super) fn hash_ipv6(
        matrices: &[u64; IPV6_BYTES + 3],
        inputs: &[[u8; IPV6_BYTES]],
        hashes: &mut [u32],
    ) {
        hash_lanes(inputs, hashes, |inputs| {
            let [c0, c1, c2, c3] = columns_at(inputs, 0);
            let [c4, c5, c6, c7] = columns_at(inputs, 16);
            // The last four bytes, loaded together with twelve that were already hashed.
            let [_, _, _, c8] = columns_at(inputs, IPV6_BYTES - 16);
            sum_of_products(matrices, &[c0, c1, c2, c3, c4, c5, c6, c7, c8])
        });
    }

    /// Applies `hash` to sixteen inputs at a time, padding the last group with zeroes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn hash_lanes<T: Copy + Zero>(
        inputs: &[T],
        hashes: &mut [u32],
        hash: impl Fn(&[T; LANES]) -> __m512i,
    ) {
        let (whole, rest) = inputs.as_chunks::<LANES>();
        let (out, out_rest) = hashes.as_chunks_mut::<LANES>();
        for (inputs, hashes) in whole.iter().zip(out) {
            // SAFETY: sixteen hashes are 64 writable bytes, and the store needs no alignment.
            unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), hash(inputs)) };
        }
        if !rest.is_empty() {
            let mut padded = [T::ZERO; LANES];
            padded[..rest.len()].copy_from_slice(rest);
            let mut padded_hashes = [0u32; LANES];
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(padded_hashes.as_mut_ptr().cast(), hash(&padded)) };
            out_rest.copy_from_slice(&padded_hashes[..rest.len()]);
        }
    }

    trait Zero {
        const ZERO: Self;
    }

    impl Zero for u128 {
        const ZERO: Self = 0;
    }

    impl Zero for [u8; IPV6_BYTES] {
        const ZERO: Self = [0; IPV6_BYTES];
    }

    /// Returns four columns of 4 bytes, starting at byte `at` of sixteen rows.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn columns_at(rows: &[[u8; IPV6_BYTES]; LANES], at: usize) -> [__m512i; 4] {
        let lane = |row: usize| {
            // SAFETY: 16 readable bytes, and the load needs no alignment.
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

    /// Transposes sixteen rows of 16 bytes, four in each register, to four columns of 4 bytes. Lane
    /// `4 l + m` of a column belongs to row `l` of register `m`.
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

    /// Returns the hashes of sixteen rows, given as columns of 4 bytes, in the order of the rows.
    #[inline]
    #[target_feature(enable = "gfni,avx512f,avx512vbmi2")]
    fn sum_of_products<const N: usize>(
        matrices: &[u64; IPV6_BYTES + 3],
        columns: &[__m512i; N],
    ) -> __m512i {
        const {
            assert!(4 * N == IPV4_BYTES || 4 * N == IPV6_BYTES);
        }
        let zeroes = _mm512_setzero_si512();
        let product = |window, number: usize| {
            let matrix = _mm512_set1_epi64(matrices[number].cast_signed());
            _mm512_gf2p8affine_epi64_epi8::<0>(window, matrix)
        };
        // The windows that begin in the previous column.
        let between = |before, column, number| {
            let first = product(_mm512_shrdi_epi32::<8>(before, column), number);
            let second = product(_mm512_shrdi_epi32::<16>(before, column), number + 1);
            let third = product(_mm512_shrdi_epi32::<24>(before, column), number + 2);
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

    /// The definition: XORs the 32 key bits at the position of every set bit of the input.
    fn bit_by_bit(key: &[u8; KEY_BYTES], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        (0..input.len() * 8)
            .filter(|&at| bit(input, at) == 1)
            .map(|at| (0..32).fold(0, |word, next| word << 1 | u32::from(bit(key, at + next))))
            .fold(0, |hash, under| hash ^ under)
    }

    fn rss_key() -> impl Strategy<Value = [u8; KEY_BYTES]> {
        let symmetric: [u8; KEY_BYTES] = std::array::from_fn(|index| [0x6d, 0x5a][index % 2]);
        prop_oneof![any::<[u8; KEY_BYTES]>(), Just(symmetric)]
    }

    /// Input lengths: addresses without and with ports, of IPv4 and of IPv6.
    const LENGTHS: [usize; 4] = [8, IPV4_BYTES, 32, IPV6_BYTES];

    proptest! {
        #[test]
        fn vector_hash_agrees_with_the_definition(
            key in rss_key(), inputs in prop::collection::vec(any::<[u8; IPV6_BYTES]>(), 0..70),
        ) {
            let toeplitz = Toeplitz::new(&key);
            for length in LENGTHS {
                let expected: Vec<u32> =
                    inputs.iter().map(|input| bit_by_bit(&key, &input[..length])).collect();
                let padded: Vec<[u8; IPV6_BYTES]> = inputs
                    .iter()
                    .map(|input| std::array::from_fn(|at| if at < length { input[at] } else { 0 }))
                    .collect();
                let mut hashes = vec![0; inputs.len()];
                if toeplitz.hash_ipv6(&padded, &mut hashes) {
                    prop_assert_eq!(&hashes, &expected);
                }
                if length > IPV4_BYTES {
                    continue;
                }
                // The first four bytes of a key are not hashed.
                let keys: Vec<u128> = padded
                    .iter()
                    .zip(&inputs)
                    .map(|(padded, input)| {
                        let mut bytes = [0; 16];
                        bytes[..16 - IPV4_BYTES].copy_from_slice(&input[IPV4_BYTES..16]);
                        bytes[16 - IPV4_BYTES..].copy_from_slice(&padded[..IPV4_BYTES]);
                        u128::from_le_bytes(bytes)
                    })
                    .collect();
                hashes.fill(0);
                if toeplitz.hash_ipv4(&keys, &mut hashes) {
                    prop_assert_eq!(&hashes, &expected);
                }
            }
        }
    }
}
