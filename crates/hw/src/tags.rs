//! Finding a 16-bit tag in a cache line of them: the first step of a look-up in the bucket table.

use crate::memory::Line;

/// Tags of one bucket. The last lane is not a tag: the table keeps a counter there.
pub type TagLine = Line<u16, 32>;

/// Lanes that hold tags.
pub const TAGS: usize = 31;

const TAG_LANES: u32 = (1 << TAGS) - 1;

/// A bit for each lane of `line` that holds `tag`.
#[inline(always)]
#[must_use]
pub fn matches(line: &TagLine, tag: u16) -> u32 {
    lanes(line, tag) & TAG_LANES
}

/// The free lane that a flow with `tag` takes, if `line` has one: the first from a lane on that the
/// tag picks. Were it always the first lane, the entries of a sparse table would stand a whole
/// bucket apart and meet in a few sets of the caches, which then hold a fraction of what they could.
#[inline(always)]
#[must_use]
pub fn free_lane(line: &TagLine, tag: u16) -> Option<u32> {
    let free = matches(line, 0);
    (free != 0).then(|| first_from(free, tag))
}

/// The first of `lanes` from the one on that `tag` picks, around the end; 0 if there is none.
#[inline(always)]
fn first_from(lanes: u32, tag: u16) -> u32 {
    let start = u32::from(tag >> 11);
    let turned = lanes.rotate_right(start);
    (turned.trailing_zeros() + start) & 31
}

/// The bucket of a hash among so many, at least one: all that fit a power of two by its low bits, the
/// others by one bit less (linear hashing). The tag is taken from other bits.
#[inline(always)]
#[must_use]
pub fn bucket_of(hash: u64, buckets: u32) -> u32 {
    let low = (hash >> 32) as u32;
    // In 64 bits, since a single bucket shifts all 32 out.
    let whole = (u64::from(u32::MAX) >> (buckets - 1).leading_zeros()) as u32;
    let bucket = low & whole;
    if bucket < buckets {
        bucket
    } else {
        low & (whole >> 1)
    }
}

/// The tag of a hash; zero is that of no flow.
#[inline(always)]
#[must_use]
pub fn tag_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// The [bucket](bucket_of) of each hash among `buckets`, and its [tag](tag_of).
///
/// # Panics
/// When the slices differ in length.
pub fn homes(hashes: &[u64], buckets: u32, homes: &mut [u32], tags: &mut [u16]) {
    assert!(homes.len() == hashes.len() && tags.len() == hashes.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512bw")
    {
        // SAFETY: the processor has what the function needs.
        return unsafe { homes_avx512(hashes, buckets, homes, tags) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { homes_avx2(hashes, buckets, homes, tags) };
    }
    homes_portable(hashes, buckets, homes, tags);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn homes_avx512(hashes: &[u64], buckets: u32, homes: &mut [u32], tags: &mut [u16]) {
    homes_portable(hashes, buckets, homes, tags);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn homes_avx2(hashes: &[u64], buckets: u32, homes: &mut [u32], tags: &mut [u16]) {
    homes_portable(hashes, buckets, homes, tags);
}

/// A loop for the compiler to make the best of, whatever the instructions.
#[inline(always)]
fn homes_portable(hashes: &[u64], buckets: u32, homes: &mut [u32], tags: &mut [u16]) {
    for ((&hash, home), tag) in hashes.iter().zip(homes).zip(tags) {
        *home = bucket_of(hash, buckets);
        *tag = tag_of(hash);
    }
}

/// How many packets of a burst have a tag that is not in the line of their bucket.
///
/// # Panics
/// When the slices differ in length or a bucket is past the end of `lines`.
#[must_use]
pub fn absent(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    assert!(buckets.len() == tags.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has what the function needs.
        return unsafe { absent_avx512(lines, buckets, tags) };
    }
    absent_portable(lines, buckets, tags)
}

fn absent_portable(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    let staged = buckets.iter().zip(tags);
    staged
        .filter(|&(&bucket, &tag)| matches(&lines[bucket as usize], tag) == 0)
        .count()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn absent_avx512(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    use core::arch::x86_64::{_mm512_cmpeq_epi16_mask, _mm512_load_si512, _mm512_set1_epi16};
    let staged = buckets.iter().zip(tags).map(|(&bucket, &tag)| {
        let line = &lines[bucket as usize];
        // SAFETY: a `TagLine` is 64 bytes, aligned to 64.
        let lanes = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi16_mask(lanes, _mm512_set1_epi16(tag.cast_signed()));
        usize::from(equal & TAG_LANES == 0)
    });
    staged.sum()
}

/// For each packet of a burst, the slot (`bucket * 32 + lane`) where its flow most likely is: the
/// first lane of its bucket that holds its tag, else its [`free_lane`], else any.
///
/// # Panics
/// When the slices differ in length or a bucket is past the end of `lines`.
pub fn candidates(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    assert!(buckets.len() == slots.len() && tags.len() == slots.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has what the function needs.
        return unsafe { candidates_avx512(lines, buckets, tags, slots) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi1") {
        // SAFETY: the processor has what the function needs.
        return unsafe { candidates_avx2(lines, buckets, tags, slots) };
    }
    candidates_portable(lines, buckets, tags, slots);
}

fn candidates_portable(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    for ((&bucket, &tag), slot) in buckets.iter().zip(tags).zip(slots) {
        let line = &lines[bucket as usize];
        let found = matches(line, tag);
        let lane = if found == 0 {
            first_from(matches(line, 0), tag)
        } else {
            found.trailing_zeros()
        };
        *slot = bucket * 32 + lane;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn candidates_avx512(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    use core::arch::x86_64::{
        _mm512_cmpeq_epi16_mask, _mm512_load_si512, _mm512_set1_epi16, _mm512_testn_epi16_mask,
    };
    for ((&bucket, &tag), slot) in buckets.iter().zip(tags).zip(slots) {
        let line = &lines[bucket as usize];
        // SAFETY: a `TagLine` is 64 bytes, aligned to 64.
        let lanes = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi16_mask(lanes, _mm512_set1_epi16(tag.cast_signed()));
        let free = _mm512_testn_epi16_mask(lanes, lanes);
        let equal = equal & TAG_LANES;
        let lane = if equal == 0 {
            first_from(free & TAG_LANES, tag)
        } else {
            equal.trailing_zeros()
        };
        *slot = bucket * 32 + lane;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1")]
fn candidates_avx2(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    use core::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi16, _mm256_load_si256, _mm256_movemask_epi8, _mm256_packs_epi16,
        _mm256_permute4x64_epi64, _mm256_set1_epi16, _mm256_setzero_si256,
    };
    for ((&bucket, &tag), slot) in buckets.iter().zip(tags).zip(slots) {
        let line = &lines[bucket as usize];
        // SAFETY: a `TagLine` is 64 bytes, aligned to 64: two halves, aligned to 32.
        let (low, high) = unsafe {
            let start = line.0.as_ptr().cast::<__m256i>();
            (_mm256_load_si256(start), _mm256_load_si256(start.add(1)))
        };
        let matches = |wanted: __m256i| {
            let low = _mm256_cmpeq_epi16(low, wanted);
            let high = _mm256_cmpeq_epi16(high, wanted);
            // Quarters of both halves by turns: the middle two change places.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            _mm256_movemask_epi8(packed).cast_unsigned() & TAG_LANES
        };
        let found = matches(_mm256_set1_epi16(tag.cast_signed()));
        let lane = if found == 0 {
            first_from(matches(_mm256_setzero_si256()), tag)
        } else {
            found.trailing_zeros()
        };
        *slot = bucket * 32 + lane;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lanes(line: &TagLine, tag: u16) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    };
    // SAFETY: SSE2 is part of every x86-64, and the four loads lie within the line, which is 64
    // bytes aligned to 64.
    let (low, high) = unsafe {
        let wanted = _mm_set1_epi16(tag.cast_signed());
        let quarter = |start: usize| {
            _mm_cmpeq_epi16(_mm_load_si128(line.0.as_ptr().add(start).cast()), wanted)
        };
        (
            _mm_movemask_epi8(_mm_packs_epi16(quarter(0), quarter(8))),
            _mm_movemask_epi8(_mm_packs_epi16(quarter(16), quarter(24))),
        )
    };
    low.cast_unsigned() | high.cast_unsigned() << 16
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn lanes(line: &TagLine, tag: u16) -> u32 {
    line.0.iter().enumerate().fold(0, |found, (lane, &held)| {
        found | u32::from(held == tag) << lane
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_equals_a_look_at_each_lane(lanes in prop::array::uniform32(0u16..4), tag in 0u16..4) {
            let expected = (0..TAGS).filter(|&lane| lanes[lane] == tag).fold(0, |bits, lane| bits | 1 << lane);
            prop_assert_eq!(matches(&Line(lanes), tag), expected);
        }

        /// Whichever of them this processor is given.
        #[test]
        fn candidates_are_the_same_by_all_instructions(
            lanes in prop::array::uniform32(0u16..40), tags in prop::collection::vec(0u16..45, 1..20)
        ) {
            let (lines, buckets) = ([Line(lanes)], vec![0; tags.len()]);
            let mut expected = vec![0; tags.len()];
            candidates_portable(&lines, &buckets, &tags, &mut expected);
            let mut slots = vec![0; tags.len()];
            candidates(&lines, &buckets, &tags, &mut slots);
            prop_assert_eq!(&slots, &expected);
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi1") {
                slots.fill(u32::MAX);
                // SAFETY: the processor has what the function needs.
                unsafe { candidates_avx2(&lines, &buckets, &tags, &mut slots) };
                prop_assert_eq!(&slots, &expected);
            }
        }

        #[test]
        fn absent_tags_are_those_that_nobody_finds(
            lanes in prop::array::uniform32(0u16..40), tags in prop::collection::vec(1u16..60, 0..20)
        ) {
            let (lines, buckets) = ([Line(lanes)], vec![0; tags.len()]);
            let expected = tags.iter().filter(|tag| !lanes[..TAGS].contains(tag)).count();
            prop_assert_eq!(absent(&lines, &buckets, &tags), expected);
            prop_assert_eq!(absent_portable(&lines, &buckets, &tags), expected);
        }

        #[test]
        fn homes_are_the_same_by_all_instructions(
            hashes in prop::collection::vec(any::<u64>(), 0..300), buckets in 1u32..1 << 26
        ) {
            let bucket = |&hash: &u64| bucket_of(hash, buckets);
            let expected: (Vec<u32>, Vec<u16>) = hashes.iter().map(|hash| (bucket(hash), tag_of(*hash))).unzip();
            let (mut homes_found, mut tags) = (vec![0; hashes.len()], vec![0; hashes.len()]);
            homes(&hashes, buckets, &mut homes_found, &mut tags);
            prop_assert_eq!((&homes_found, &tags), (&expected.0, &expected.1));
            prop_assert!(homes_found.iter().all(|&home| home < buckets));
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has what the function needs.
                unsafe { homes_avx2(&hashes, buckets, &mut homes_found, &mut tags) };
                prop_assert_eq!((homes_found, tags), expected);
            }
        }

        #[test]
        fn a_single_bucket_is_the_home_of_all(hashes in prop::collection::vec(any::<u64>(), 0..100)) {
            prop_assert!(hashes.iter().all(|&hash| bucket_of(hash, 1) == 0));
            let (mut homes_found, mut tags) = (vec![9; hashes.len()], vec![0; hashes.len()]);
            homes(&hashes, 1, &mut homes_found, &mut tags);
            prop_assert!(homes_found.iter().all(|&home| home == 0));
        }

        #[test]
        fn candidates_prefer_the_tag_then_a_free_lane(
            lanes in prop::array::uniform32(0u16..40), tags in prop::collection::vec(1u16.., 1..20)
        ) {
            let lines = [Line([1; 32]), Line(lanes)];
            let mut slots = vec![0; tags.len()];
            candidates(&lines, &vec![1; tags.len()], &tags, &mut slots);
            for (&tag, &slot) in tags.iter().zip(&slots) {
                let lane = slot as usize - 32;
                match lanes[..TAGS].iter().position(|&held| held == tag) {
                    Some(first) => prop_assert_eq!(lane, first),
                    None => match free_lane(&lines[1], tag) {
                        Some(free) => {
                            prop_assert_eq!(lane, free as usize);
                            prop_assert!(lanes[lane] == 0 && lane < TAGS);
                        }
                        None => prop_assert!(!lanes[..TAGS].contains(&0)),
                    },
                }
            }
        }

        #[test]
        fn free_lanes_spread(start in 0u16..31) {
            prop_assert_eq!(free_lane(&Line([0; 32]), start << 11 | 5), Some(u32::from(start)));
        }
    }
}
