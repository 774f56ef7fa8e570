//! Spreads a 32-bit hash to 64 bits, of which a table may use any part.

/// Murmur3's finaliser (Appleby, MurmurHash3, `fmix32`): a bijection of 32 bits in which every bit of
/// the result depends on every bit of the input. A device's hash needs it before it serves as an
/// index, because the bits of a Toeplitz hash are linear in those of the key.
#[inline]
#[must_use]
pub const fn fmix32(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Spreads 32 bits to 64.
///
/// The lower half is [`fmix32`] of the input. The upper half is the lower half times an odd number
/// near 2^32 over the golden ratio, with its upper 16 bits folded into the lower ones. Each half is a
/// bijection of the input, so equal halves mean equal hashes. Tags are the lowest 16 bits, and bucket
/// indices the lowest bits of the upper half. The fold is needed because the low bits of a product
/// depend only on the low bits of its factors: without it, all flows of a bucket would have the same
/// tag.
#[inline]
#[must_use]
pub const fn spread(hash: u32) -> u64 {
    let low = fmix32(hash);
    let product = low.wrapping_mul(0x9e37_79b1);
    let high = product ^ product >> 16;
    (high as u64) << 32 | low as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inverse of an odd number modulo 2^32, by Newton's iteration.
    fn inverse(odd: u32) -> u32 {
        (0..5).fold(odd, |x, _| {
            x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)))
        })
    }

    #[test]
    fn both_halves_are_invertible() {
        for hash in (0..1 << 20).map(|i: u32| i.wrapping_mul(0x0019_660d).wrapping_add(i << 9)) {
            let wide = spread(hash);
            let high = (wide >> 32) as u32;
            let low = (high ^ high >> 16).wrapping_mul(inverse(0x9e37_79b1));
            assert_eq!(low, wide as u32);
            let original = low ^ low >> 16;
            let original = original.wrapping_mul(inverse(0xc2b2_ae35));
            let original = original ^ original >> 13 ^ original >> 26;
            let original = original.wrapping_mul(inverse(0x85eb_ca6b));
            assert_eq!(original ^ original >> 16, hash);
        }
    }

    #[test]
    fn flows_of_one_bucket_have_distinct_tags() {
        // 2^18 hashes in 2^10 buckets with 2^16 tags: by chance, 512 pairs share bucket and tag.
        for step in [1u32, 1 << 14, 0x0019_660d] {
            let mut buckets_and_tags: Vec<u64> = (0..1u32 << 18)
                .map(|i| spread(i.wrapping_mul(step)))
                .map(|wide| (wide >> 32 & 1023) << 16 | wide & 0xffff)
                .collect();
            buckets_and_tags.sort_unstable();
            buckets_and_tags.dedup();
            let duplicates = (1 << 18) - buckets_and_tags.len();
            assert!(
                (300..800).contains(&duplicates),
                "step {step}: {duplicates}"
            );
        }
    }

    #[test]
    fn consecutive_hashes_fill_buckets_and_tags_evenly() {
        // 2^18 hashes in 2^10 cells: mean 256, standard deviation 16. Eight deviations are not chance.
        for step in [1u32, 1 << 14] {
            let mut counts = [[0i32; 1024]; 4];
            for hash in (0..1u32 << 18).map(|i| i.wrapping_mul(step)) {
                let wide = spread(hash);
                counts[0][(wide >> 54) as usize] += 1;
                counts[1][(wide & 1023) as usize] += 1;
                // Five bits of the bucket with five bits of the tag, which must be independent.
                counts[2][(wide >> 59 | (wide & 31) << 5) as usize] += 1;
                counts[3][(wide >> 32 & 31 | (wide & 31) << 5) as usize] += 1;
            }
            assert!(
                counts
                    .iter()
                    .flatten()
                    .all(|count| (count - 256).abs() < 128),
                "step {step}"
            );
        }
    }
}
