//! Searches a cache line of 16-bit tags: the first step of a lookup in the bucket table.

use crate::memory::Line;

/// The tags of one bucket. The last lane holds a counter of the table instead of a tag.
pub type TagLine = Line<u16, 32>;

/// Number of lanes that hold tags.
pub const TAGS: usize = 31;

const TAG_LANES: u32 = (1 << TAGS) - 1;

/// Returns a bit mask of the lanes of `line` that hold `tag`.
#[inline]
#[must_use]
pub fn matches(line: &TagLine, tag: u16) -> u32 {
    matching_lanes(line, tag) & TAG_LANES
}

/// Returns the free lane for a new flow with `tag`, or `None` if the bucket is full. The search starts
/// at a lane that depends on the tag. If it always started at the first lane, the entries of a sparse
/// table would be a whole bucket apart, map to a few sets of the caches and waste most of their
/// capacity.
#[inline]
#[must_use]
pub fn free_lane(line: &TagLine, tag: u16) -> Option<u32> {
    let free = matches(line, 0);
    (free != 0).then(|| first_lane_from(free, tag))
}

/// Returns the first of `lanes` from a start that depends on `tag`, wrapping around. The result has no
/// meaning if `lanes` is 0.
#[inline]
fn first_lane_from(lanes: u32, tag: u16) -> u32 {
    let start = u32::from(tag >> 11);
    let rotated = lanes.rotate_right(start);
    (rotated.trailing_zeros() + start) & 31
}

/// Returns the bucket of `hash` by linear hashing: as many low bits as `bucket_count` needs if they name
/// an existing bucket, otherwise one bit less. They differ from the bits of the tag. `bucket_count` must
/// not be 0.
#[inline]
#[must_use]
pub fn bucket_of(hash: u64, bucket_count: u32) -> u32 {
    let low = (hash >> 32) as u32;
    // In 64 bits, since with a single bucket the shift is by 32.
    let mask = (u64::from(u32::MAX) >> (bucket_count - 1).leading_zeros()) as u32;
    let bucket = low & mask;
    if bucket < bucket_count {
        bucket
    } else {
        low & (mask >> 1)
    }
}

/// Returns the tag of a hash. It is never 0, which marks a free lane.
#[inline]
#[must_use]
pub fn tag_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// Computes the [bucket](bucket_of) and the [tag](tag_of) of each hash.
///
/// # Panics
/// Panics if the slices differ in length.
pub fn buckets_and_tags(hashes: &[u64], bucket_count: u32, buckets: &mut [u32], tags: &mut [u16]) {
    assert!(buckets.len() == hashes.len() && tags.len() == hashes.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512bw")
    {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { buckets_and_tags_avx512(hashes, bucket_count, buckets, tags) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { buckets_and_tags_avx2(hashes, bucket_count, buckets, tags) };
    }
    buckets_and_tags_portable(hashes, bucket_count, buckets, tags);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn buckets_and_tags_avx512(
    hashes: &[u64],
    bucket_count: u32,
    buckets: &mut [u32],
    tags: &mut [u16],
) {
    buckets_and_tags_portable(hashes, bucket_count, buckets, tags);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn buckets_and_tags_avx2(hashes: &[u64], bucket_count: u32, buckets: &mut [u32], tags: &mut [u16]) {
    buckets_and_tags_portable(hashes, bucket_count, buckets, tags);
}

/// The loop that the compiler vectorises for each set of instructions.
// Each caller enables its own CPU features, for which this code is compiled only where it is
// inlined.
#[inline(always)]
fn buckets_and_tags_portable(
    hashes: &[u64],
    bucket_count: u32,
    buckets: &mut [u32],
    tags: &mut [u16],
) {
    for ((&hash, bucket), tag) in hashes.iter().zip(buckets).zip(tags) {
        *bucket = bucket_of(hash, bucket_count);
        *tag = tag_of(hash);
    }
}

/// Returns the number of packets of a burst whose tag is not in the line of their bucket.
///
/// # Panics
/// Panics if the slices differ in length or a bucket is past the end of `lines`.
#[must_use]
pub fn count_misses(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    assert!(buckets.len() == tags.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { count_misses_avx512(lines, buckets, tags) };
    }
    count_misses_portable(lines, buckets, tags)
}

fn count_misses_portable(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    let packets = buckets.iter().zip(tags);
    packets
        .filter(|&(&bucket, &tag)| matches(&lines[bucket as usize], tag) == 0)
        .count()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn count_misses_avx512(lines: &[TagLine], buckets: &[u32], tags: &[u16]) -> usize {
    use core::arch::x86_64::{_mm512_cmpeq_epi16_mask, _mm512_load_si512, _mm512_set1_epi16};
    let packets = buckets.iter().zip(tags).map(|(&bucket, &tag)| {
        let line = &lines[bucket as usize];
        // SAFETY: a `TagLine` is 64 bytes, aligned to 64.
        let lanes = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi16_mask(lanes, _mm512_set1_epi16(tag.cast_signed()));
        usize::from(equal & TAG_LANES == 0)
    });
    packets.sum()
}

/// Computes for each packet of a burst the slot (`bucket * 32 + lane`) that most likely holds its flow:
/// the first lane of its bucket with its tag, otherwise its [`free_lane`], otherwise any lane.
///
/// # Panics
/// Panics if the slices differ in length or a bucket is past the end of `lines`.
pub fn candidates(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    assert!(buckets.len() == slots.len() && tags.len() == slots.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { candidates_avx512(lines, buckets, tags, slots) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi1") {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { candidates_avx2(lines, buckets, tags, slots) };
    }
    candidates_portable(lines, buckets, tags, slots);
}

fn candidates_portable(lines: &[TagLine], buckets: &[u32], tags: &[u16], slots: &mut [u32]) {
    for ((&bucket, &tag), slot) in buckets.iter().zip(tags).zip(slots) {
        let line = &lines[bucket as usize];
        let found = matches(line, tag);
        let lane = if found == 0 {
            first_lane_from(matches(line, 0), tag)
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
            first_lane_from(free & TAG_LANES, tag)
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
        // SAFETY: a `TagLine` is 64 bytes, aligned to 64, so both halves are aligned to 32.
        let (low, high) = unsafe {
            let start = line.0.as_ptr().cast::<__m256i>();
            (_mm256_load_si256(start), _mm256_load_si256(start.add(1)))
        };
        let matches = |wanted: __m256i| {
            let low = _mm256_cmpeq_epi16(low, wanted);
            let high = _mm256_cmpeq_epi16(high, wanted);
            // The packed quarters alternate between the halves; swapping the middle two sorts them.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            _mm256_movemask_epi8(packed).cast_unsigned() & TAG_LANES
        };
        let found = matches(_mm256_set1_epi16(tag.cast_signed()));
        let lane = if found == 0 {
            first_lane_from(matches(_mm256_setzero_si256()), tag)
        } else {
            found.trailing_zeros()
        };
        *slot = bucket * 32 + lane;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn matching_lanes(line: &TagLine, tag: u16) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    };
    // SAFETY: every x86-64 CPU has SSE2, and the four loads are within the line, which is 64 bytes
    // aligned to 64.
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
#[inline]
fn matching_lanes(line: &TagLine, tag: u16) -> u32 {
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
        fn matches_agrees_with_a_scan_of_the_lanes(lanes in prop::array::uniform32(0u16..4), tag in 0u16..4) {
            let expected = (0..TAGS).filter(|&lane| lanes[lane] == tag).fold(0, |bits, lane| bits | 1 << lane);
            prop_assert_eq!(matches(&Line(lanes), tag), expected);
        }

        /// Tests those that this CPU supports.
        #[test]
        fn candidates_are_the_same_for_all_instruction_sets(
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
                // SAFETY: the CPU supports the function's target features.
                unsafe { candidates_avx2(&lines, &buckets, &tags, &mut slots) };
                prop_assert_eq!(&slots, &expected);
            }
        }

        #[test]
        fn misses_are_the_tags_in_no_lane(
            lanes in prop::array::uniform32(0u16..40), tags in prop::collection::vec(1u16..60, 0..20)
        ) {
            let (lines, buckets) = ([Line(lanes)], vec![0; tags.len()]);
            let expected = tags.iter().filter(|tag| !lanes[..TAGS].contains(tag)).count();
            prop_assert_eq!(count_misses(&lines, &buckets, &tags), expected);
            prop_assert_eq!(count_misses_portable(&lines, &buckets, &tags), expected);
        }

        #[test]
        fn buckets_and_tags_are_the_same_for_all_instruction_sets(
            hashes in prop::collection::vec(any::<u64>(), 0..300), buckets in 1u32..1 << 26
        ) {
            let bucket = |&hash: &u64| bucket_of(hash, buckets);
            let expected: (Vec<u32>, Vec<u16>) = hashes.iter().map(|hash| (bucket(hash), tag_of(*hash))).unzip();
            let (mut found, mut tags) = (vec![0; hashes.len()], vec![0; hashes.len()]);
            buckets_and_tags(&hashes, buckets, &mut found, &mut tags);
            prop_assert_eq!((&found, &tags), (&expected.0, &expected.1));
            prop_assert!(found.iter().all(|&bucket| bucket < buckets));
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU supports the function's target features.
                unsafe { buckets_and_tags_avx2(&hashes, buckets, &mut found, &mut tags) };
                prop_assert_eq!((found, tags), expected);
            }
        }

        #[test]
        fn a_single_bucket_takes_all_hashes(hashes in prop::collection::vec(any::<u64>(), 0..100)) {
            prop_assert!(hashes.iter().all(|&hash| bucket_of(hash, 1) == 0));
            let (mut found, mut tags) = (vec![9; hashes.len()], vec![0; hashes.len()]);
            buckets_and_tags(&hashes, 1, &mut found, &mut tags);
            prop_assert!(found.iter().all(|&bucket| bucket == 0));
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
        fn free_lane_depends_on_the_tag(start in 0u16..31) {
            prop_assert_eq!(free_lane(&Line([0; 32]), start << 11 | 5), Some(u32::from(start)));
        }
    }
}
