//! From 32 bits of hash to 64, of which a table may take any part.

/// Murmur3's finaliser (Appleby, MurmurHash3, `fmix32`): a bijection of 32 bits in which every bit
/// of the result depends on every bit of the input. A device's hash goes through it before it
/// indexes anything: the bits of Toeplitz are linear in the key's.
#[inline(always)]
#[must_use]
pub const fn fmix32(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// 64 bits from 32: the lower half is [`fmix32`] of them, the upper half a multiple of the lower
/// half by an odd number near 2^32 over the golden ratio. Each half is a bijection of the 32 bits,
/// so equal halves mean equal hashes. Bucket indices come from the highest bits, which depend on
/// all of the lower half; tags from the lowest 16: keys of one tag are spread over all buckets.
#[inline(always)]
#[must_use]
pub const fn spread(hash: u32) -> u64 {
    let low = fmix32(hash);
    let high = low.wrapping_mul(0x9e37_79b1);
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
    fn both_halves_can_be_turned_back() {
        for hash in (0..1 << 20).map(|i: u32| i.wrapping_mul(0x0019_660d).wrapping_add(i << 9)) {
            let wide = spread(hash);
            let low = ((wide >> 32) as u32).wrapping_mul(inverse(0x9e37_79b1));
            assert_eq!(low, wide as u32);
            let back = low ^ low >> 16;
            let back = back.wrapping_mul(inverse(0xc2b2_ae35));
            let back = back ^ back >> 13 ^ back >> 26;
            let back = back.wrapping_mul(inverse(0x85eb_ca6b));
            assert_eq!(back ^ back >> 16, hash);
        }
    }

    #[test]
    fn hashes_in_a_row_fill_buckets_and_tags_evenly() {
        // 2^18 hashes in 2^10 cells: mean 256, standard deviation 16; 8 of them are not chance.
        for step in [1u32, 1 << 14] {
            let mut counts = [[0i32; 1024]; 3];
            for hash in (0..1u32 << 18).map(|i| i.wrapping_mul(step)) {
                let wide = spread(hash);
                counts[0][(wide >> 54) as usize] += 1;
                counts[1][(wide & 1023) as usize] += 1;
                // Five bits of the bucket with five of the tag: the two are as good as independent.
                counts[2][(wide >> 59 | (wide & 31) << 5) as usize] += 1;
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
