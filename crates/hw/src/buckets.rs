//! Buckets of eight fingerprints with counts: the inner loop of a heavy-hitter table.
//!
//! A packet whose fingerprint is in its bucket adds to its count; another one replaces the slot with the
//! smallest count, or does not, as the [`Policy`] says. Whether it is found is random for the branch
//! predictor, so there is no branch on it. The vectors are stored whole: a load of 32 bytes that follows
//! a store of 4 in the same line has to wait for it.

use crate::memory::{Line, Zeroed};
use crate::prefetch;
use crate::random::Random;

/// Number of slots of a bucket.
pub const SLOTS: usize = 8;

/// What happens to a packet whose fingerprint is not in its bucket. `w` is its weight and `m` the
/// smallest count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// With probability w / (m + w) it replaces the smallest, with count m + w; otherwise nothing
    /// happens (Ben Basat, Chen, Einziger, Friedman, Kassner: "Randomized admission policy for
    /// efficient top-k, frequency, and volume estimation").
    RandomAdmission,
    /// It replaces the smallest, with count m + w (Metwally, Agrawal, El Abbadi: "Efficient computation
    /// of frequent and top-k elements in data streams").
    SpaceSaving,
    /// The smallest becomes m + w; with probability w / (m + w) the packet's key takes it over (Ting:
    /// "Data sketches for disaggregated subset sum and frequent item estimation").
    Unbiased,
}

/// A bucket with counts of 32 bits: one cache line. A fingerprint of 0 marks a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Bucket {
    /// Parts of the hashes.
    pub fingerprints: [u32; SLOTS],
    /// The counts, which stop at their largest value.
    pub counts: [u32; SLOTS],
}

// SAFETY: it consists of numbers.
unsafe impl Zeroed for Bucket {}

/// The fingerprints of a bucket whose counts of 64 bits fill a line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub struct Fingerprints(pub [u32; SLOTS]);

// SAFETY: it consists of numbers.
unsafe impl Zeroed for Fingerprints {}

/// The 64-bit counts of a bucket.
pub type WideCounts = Line<u64, SLOTS>;

/// The keys of a bucket.
pub type Keys = Line<u128, SLOTS>;

/// Returns the bucket of a hash, by its upper half. `bucket_count` must be less than 2^32.
#[inline]
#[must_use]
pub const fn bucket_of(hash: u64, bucket_count: usize) -> usize {
    (((hash >> 32) * bucket_count as u64) >> 32) as usize
}

/// Returns the fingerprint of a hash, by its lower half, which has no part in the choice of the bucket.
/// It is never 0.
#[inline]
#[must_use]
pub const fn fingerprint_of(hash: u64) -> u32 {
    let fingerprint = hash as u32;
    fingerprint + (fingerprint == 0) as u32
}

/// A batch of packets.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'b> {
    /// The key of each.
    pub keys: &'b [u128],
    /// The hash of each key.
    pub hashes: &'b [u64],
    /// The weight of each, or `None` if each weighs 1.
    pub weights: Option<&'b [u32]>,
    /// How many packets ahead buckets are prefetched; 0 for a table that the caches hold.
    pub ahead: usize,
}

impl Batch<'_> {
    fn check(&self) {
        assert_eq!(self.keys.len(), self.hashes.len());
        assert!(
            self.weights
                .is_none_or(|weights| weights.len() == self.keys.len())
        );
    }

    /// Returns the hash that is to be prefetched when packet `index` is counted.
    #[inline]
    fn ahead_of(&self, index: usize) -> u64 {
        self.hashes[(index + self.ahead).min(self.hashes.len() - 1)]
    }
}

/// Counts a batch in buckets with counts of 32 bits.
///
/// # Panics
/// Panics if slices that belong together differ in length, or if there is no bucket or 2^32.
pub fn count(
    buckets: &mut [Bucket],
    keys: &mut [Keys],
    batch: Batch<'_>,
    policy: Policy,
    random: &mut Random,
) {
    batch.check();
    assert!(buckets.len() == keys.len() && (1..1 << 32).contains(&buckets.len()));
    if batch.ahead > 0 {
        for hash in batch.hashes.iter().take(batch.ahead) {
            prefetch::read(buckets, bucket_of(*hash, buckets.len()));
        }
    }
    #[cfg(target_arch = "x86_64")]
    if vectors() {
        let count = match policy {
            Policy::RandomAdmission => avx512::narrow::<{ avx512::ADMIT }>,
            Policy::SpaceSaving => avx512::narrow::<{ avx512::REPLACE }>,
            Policy::Unbiased => avx512::narrow::<{ avx512::UNBIASED }>,
        };
        // SAFETY: the CPU supports the functions' target features.
        return unsafe { count(buckets, keys, batch, random) };
    }
    count_portable(buckets, keys, batch, policy, random);
}

/// Counts a batch in buckets with counts of 64 bits.
///
/// # Panics
/// Panics if slices that belong together differ in length, or if there is no bucket or 2^32.
pub fn count_wide(
    fingerprints: &mut [Fingerprints],
    counts: &mut [WideCounts],
    keys: &mut [Keys],
    batch: Batch<'_>,
    policy: Policy,
    random: &mut Random,
) {
    batch.check();
    assert!(fingerprints.len() == keys.len() && counts.len() == keys.len());
    assert!((1..1 << 32).contains(&keys.len()));
    if batch.ahead > 0 {
        for hash in batch.hashes.iter().take(batch.ahead) {
            let bucket = bucket_of(*hash, counts.len());
            prefetch::read(fingerprints, bucket);
            prefetch::read(counts, bucket);
        }
    }
    #[cfg(target_arch = "x86_64")]
    if vectors() {
        let count = match policy {
            Policy::RandomAdmission => avx512::wide::<{ avx512::ADMIT }>,
            Policy::SpaceSaving => avx512::wide::<{ avx512::REPLACE }>,
            Policy::Unbiased => avx512::wide::<{ avx512::UNBIASED }>,
        };
        // SAFETY: the CPU supports the functions' target features.
        return unsafe { count(fingerprints, counts, keys, batch, random) };
    }
    count_wide_portable(fingerprints, counts, keys, batch, policy, random);
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
}

/// Draws whether a packet of weight `weight` takes over a slot that then counts `sum`: with a probability
/// of `weight` / `sum` the result is 0, otherwise it is not.
#[inline]
fn refusal(random: u64, sum: u64, weight: u32) -> u64 {
    let below_sum = ((u128::from(random) * u128::from(sum)) >> 64) as u64;
    (below_sum + 1).saturating_sub(u64::from(weight))
}

/// A count of 32 or 64 bits.
trait Count: Copy + Ord + Into<u64> {
    fn plus(self, weight: u32) -> Self;
}

impl Count for u32 {
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(weight)
    }
}

impl Count for u64 {
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(Self::from(weight))
    }
}

fn count_portable(
    buckets: &mut [Bucket],
    keys: &mut [Keys],
    batch: Batch<'_>,
    policy: Policy,
    random: &mut Random,
) {
    for (index, (&key, &hash)) in batch.keys.iter().zip(batch.hashes).enumerate() {
        if batch.ahead > 0 {
            prefetch::read(buckets, bucket_of(batch.ahead_of(index), buckets.len()));
        }
        let weight = batch.weights.map_or(1, |weights| weights[index]);
        let number = bucket_of(hash, buckets.len());
        let bucket = &mut buckets[number];
        let slots = (
            &mut bucket.fingerprints,
            &mut bucket.counts,
            &mut keys[number].0,
        );
        count_one(slots, (key, hash, weight), policy, random.bits());
    }
}

fn count_wide_portable(
    fingerprints: &mut [Fingerprints],
    counts: &mut [WideCounts],
    keys: &mut [Keys],
    batch: Batch<'_>,
    policy: Policy,
    random: &mut Random,
) {
    for (index, (&key, &hash)) in batch.keys.iter().zip(batch.hashes).enumerate() {
        if batch.ahead > 0 {
            prefetch::read(counts, bucket_of(batch.ahead_of(index), counts.len()));
        }
        let weight = batch.weights.map_or(1, |weights| weights[index]);
        let number = bucket_of(hash, keys.len());
        let slots = (
            &mut fingerprints[number].0,
            &mut counts[number].0,
            &mut keys[number].0,
        );
        count_one(slots, (key, hash, weight), policy, random.bits());
    }
}

/// Counts one packet (key, hash and weight) in its bucket.
fn count_one<C: Count>(
    (fingerprints, counts, keys): (&mut [u32; SLOTS], &mut [C; SLOTS], &mut [u128; SLOTS]),
    (key, hash, weight): (u128, u64, u32),
    policy: Policy,
    random: u64,
) {
    let fingerprint = fingerprint_of(hash);
    let found = fingerprints.iter().position(|&other| other == fingerprint);
    let smallest = (1..SLOTS).fold(0, |best, lane| {
        if counts[lane] < counts[best] {
            lane
        } else {
            best
        }
    });
    let lane = found.unwrap_or(smallest);
    let sum = counts[lane].plus(weight);
    let admitted = found.is_none() && refusal(random, sum.into(), weight) == 0;
    if policy != Policy::RandomAdmission || found.is_some() || admitted {
        counts[lane] = sum;
    }
    if admitted || policy == Policy::SpaceSaving {
        fingerprints[lane] = fingerprint;
        keys[lane] = key;
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{
        Batch, Bucket, Fingerprints, Keys, WideCounts, bucket_of, fingerprint_of, prefetch, refusal,
    };
    use crate::random::Random;
    use core::arch::x86_64::{
        __m256i, __m512i, _mm_cvtsi128_si32, _mm_min_epu32, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_broadcastd_epi32, _mm256_castsi256_si128, _mm256_cmpeq_epi32_mask,
        _mm256_extracti128_si256, _mm256_load_si256, _mm256_mask_mov_epi32,
        _mm256_maskz_set1_epi32, _mm256_min_epu32, _mm256_set1_epi32, _mm256_store_si256,
        _mm256_xor_si256, _mm512_add_epi64, _mm512_cmpeq_epi64_mask, _mm512_load_si512,
        _mm512_maskz_set1_epi64, _mm512_min_epu64, _mm512_reduce_min_epu64, _mm512_set1_epi64,
        _mm512_store_si512, _mm512_xor_si512,
    };

    /// The policies, as parameters of functions that are compiled for each.
    pub(super) const ADMIT: u8 = 0;
    pub(super) const REPLACE: u8 = 1;
    pub(super) const UNBIASED: u8 = 2;

    #[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2")]
    pub(super) fn narrow<const POLICY: u8>(
        buckets: &mut [Bucket],
        keys: &mut [Keys],
        batch: Batch<'_>,
        random: &mut Random,
    ) {
        match batch.weights {
            None => narrow_weighted::<POLICY>(buckets, keys, batch, |_| 1, random),
            Some(weights) => {
                narrow_weighted::<POLICY>(buckets, keys, batch, |index| weights[index], random);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2")]
    fn narrow_weighted<const POLICY: u8>(
        buckets: &mut [Bucket],
        keys: &mut [Keys],
        batch: Batch<'_>,
        weight_of: impl Fn(usize) -> u32,
        random: &mut Random,
    ) {
        // A copy, so that its state stays in a register.
        let mut numbers = random.clone();
        for (index, (&key, &hash)) in batch.keys.iter().zip(batch.hashes).enumerate() {
            if batch.ahead > 0 {
                prefetch::read(buckets, bucket_of(batch.ahead_of(index), buckets.len()));
            }
            let number = bucket_of(hash, buckets.len());
            let bucket = &mut buckets[number];
            let weight = weight_of(index);
            let (fingerprints, counts) = (load(&bucket.fingerprints), load(&bucket.counts));
            let fingerprint = _mm256_set1_epi32(fingerprint_of(hash).cast_signed());
            let found = _mm256_cmpeq_epi32_mask(fingerprints, fingerprint);
            let halves = _mm_min_epu32(
                _mm256_castsi256_si128(counts),
                _mm256_extracti128_si256::<1>(counts),
            );
            let pairs = _mm_min_epu32(halves, _mm_shuffle_epi32::<0x4e>(halves));
            let smallest = _mm_min_epu32(pairs, _mm_shuffle_epi32::<0xb1>(pairs));
            let least = _mm256_cmpeq_epi32_mask(counts, _mm256_broadcastd_epi32(smallest));
            let lane = (u32::from(found) | u32::from(least) << 8).trailing_zeros() & 7;
            let only = 1u8 << lane;

            if POLICY == REPLACE {
                store(&mut bucket.counts, plus(counts, only, weight));
                let replaced = _mm256_mask_mov_epi32(fingerprints, only, fingerprint);
                store(&mut bucket.fingerprints, replaced);
                keys[number].0[lane as usize] = key;
                numbers.bits();
                continue;
            }
            let sum = (_mm_cvtsi128_si32(smallest).cast_unsigned()).saturating_add(weight);
            let refused = refusal(numbers.bits(), u64::from(sum), weight);
            // One number to compare: of two conditions the compiler would make two branches.
            let admitted = refused | u64::from(found) == 0;
            let added = if POLICY == UNBIASED {
                only
            } else {
                // A mask of all lanes or none.
                only & u8::from(admitted | (found != 0)).wrapping_neg()
            };
            store(&mut bucket.counts, plus(counts, added, weight));
            if admitted {
                let replaced = _mm256_mask_mov_epi32(fingerprints, only, fingerprint);
                store(&mut bucket.fingerprints, replaced);
                keys[number].0[lane as usize] = key;
            }
        }
        *random = numbers;
    }

    #[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2")]
    pub(super) fn wide<const POLICY: u8>(
        fingerprints: &mut [Fingerprints],
        counts: &mut [WideCounts],
        keys: &mut [Keys],
        batch: Batch<'_>,
        random: &mut Random,
    ) {
        let mut numbers = random.clone();
        let bucket_count = counts.len();
        for (index, (&key, &hash)) in batch.keys.iter().zip(batch.hashes).enumerate() {
            if batch.ahead > 0 {
                let later = bucket_of(batch.ahead_of(index), bucket_count);
                prefetch::read(counts, later);
                prefetch::read(fingerprints, later);
            }
            let weight = batch.weights.map_or(1, |weights| weights[index]);
            let number = bucket_of(hash, bucket_count);
            let (names, line) = (&mut fingerprints[number].0, &mut counts[number]);
            let present = load(names);
            // SAFETY: a line is 64 bytes, aligned to 64.
            let current = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
            let fingerprint = _mm256_set1_epi32(fingerprint_of(hash).cast_signed());
            let found = _mm256_cmpeq_epi32_mask(present, fingerprint);
            let smallest = _mm512_reduce_min_epu64(current);
            let least = _mm512_cmpeq_epi64_mask(current, _mm512_set1_epi64(smallest.cast_signed()));
            let lane = (u32::from(found) | u32::from(least) << 8).trailing_zeros() & 7;
            let only = 1u8 << lane;
            let wide_weight = u64::from(weight);
            let sum = smallest.saturating_add(wide_weight);
            let admitted = refusal(numbers.bits(), sum, weight) | u64::from(found) == 0;
            let added = if POLICY == ADMIT {
                only & u8::from(admitted | (found != 0)).wrapping_neg()
            } else {
                only
            };
            let sums = plus_wide(current, added, wide_weight);
            // SAFETY: as for the load, and the borrow is unique.
            unsafe { _mm512_store_si512(line.0.as_mut_ptr().cast(), sums) };
            if admitted | (POLICY == REPLACE) {
                store(names, _mm256_mask_mov_epi32(present, only, fingerprint));
                keys[number].0[lane as usize] = key;
            }
        }
        *random = numbers;
    }

    /// Adds `weight` to `lanes`, up to the largest number.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    fn plus(counts: __m256i, lanes: u8, weight: u32) -> __m256i {
        let addend = _mm256_maskz_set1_epi32(lanes, weight.cast_signed());
        let room = _mm256_xor_si256(addend, _mm256_set1_epi32(-1));
        _mm256_add_epi32(_mm256_min_epu32(counts, room), addend)
    }

    /// As [`plus`], for counts of 64 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn plus_wide(counts: __m512i, lanes: u8, weight: u64) -> __m512i {
        let addend = _mm512_maskz_set1_epi64(lanes, weight.cast_signed());
        let room = _mm512_xor_si512(addend, _mm512_set1_epi64(-1));
        _mm512_add_epi64(_mm512_min_epu64(counts, room), addend)
    }

    /// Loads half a line. `lanes` must be aligned to 32 bytes, as both halves of a [`Bucket`] and
    /// [`Fingerprints`] are.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(lanes: &[u32; 8]) -> __m256i {
        debug_assert!(lanes.as_ptr().cast::<__m256i>().is_aligned());
        // SAFETY: 32 readable bytes. Both callers pass the halves of a `Bucket` (aligned to 64) or
        // `Fingerprints` (aligned to 32).
        unsafe { _mm256_load_si256(lanes.as_ptr().cast()) }
    }

    /// Stores half a line, aligned as for [`load`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(lanes: &mut [u32; 8], value: __m256i) {
        debug_assert!(lanes.as_ptr().cast::<__m256i>().is_aligned());
        // SAFETY: as for `load`, and the borrow is unique.
        unsafe { _mm256_store_si256(lanes.as_mut_ptr().cast(), value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICIES: [Policy; 3] = [
        Policy::RandomAdmission,
        Policy::SpaceSaving,
        Policy::Unbiased,
    ];

    /// Few hashes in few buckets, so that slots are found, replaced and full; weights near the largest
    /// count, so that counts saturate.
    fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
        let hash = (0u64..4, 0u64..24).prop_map(|(bucket, name)| bucket << 62 | name);
        let weight = prop_oneof![3 => Just(1u32), 3 => 0..2000u32, 1 => u32::MAX - 9..=u32::MAX];
        proptest::collection::vec((hash, weight), 0..600)
    }

    proptest! {
        #[test]
        fn vectors_count_like_the_portable_code(
            packets in packets(),
            bucket_count in 1usize..5,
            weighted: bool,
            ahead in 0usize..40,
            seed: u64,
        ) {
            let keys: Vec<u128> = packets.iter().map(|(hash, _)| u128::from(*hash) * 3).collect();
            let (hashes, weights): (Vec<u64>, Vec<u32>) = packets.into_iter().unzip();
            let weights = weighted.then_some(&weights[..]);
            let batch = Batch { keys: &keys, hashes: &hashes, weights, ahead };
            for policy in POLICIES {
                let mut narrow = [(); 2].map(|()| {
                    (vec![Bucket::default(); bucket_count], vec![Keys::default(); bucket_count])
                });
                let [(buckets, keys), (other, other_keys)] = &mut narrow;
                let mut random = [(); 2].map(|()| Random::new(seed, 0));
                count(buckets, keys, batch, policy, &mut random[0]);
                count_portable(other, other_keys, batch, policy, &mut random[1]);
                prop_assert_eq!(&narrow[0], &narrow[1]);
                prop_assert_eq!(random[0].bits(), random[1].bits());

                let mut wide = [(); 2].map(|()| (
                    vec![Fingerprints::default(); bucket_count],
                    vec![WideCounts::default(); bucket_count],
                    vec![Keys::default(); bucket_count],
                ));
                let [(names, counts, keys), (other, others, other_keys)] = &mut wide;
                count_wide(names, counts, keys, batch, policy, &mut random[0]);
                count_wide_portable(other, others, other_keys, batch, policy, &mut random[1]);
                prop_assert_eq!(&wide[0], &wide[1]);
            }
        }
    }

    #[test]
    fn counts_stop_at_the_largest_value() {
        for policy in POLICIES {
            let mut buckets = [Bucket::default()];
            let mut keys = [Keys::default()];
            let batch = Batch {
                keys: &[7; 3],
                hashes: &[9; 3],
                weights: Some(&[u32::MAX; 3]),
                ahead: 0,
            };
            count(
                &mut buckets,
                &mut keys,
                batch,
                policy,
                &mut Random::new(1, 1),
            );
            assert_eq!(
                buckets[0].counts,
                [u32::MAX, 0, 0, 0, 0, 0, 0, 0],
                "{policy:?}"
            );
        }
    }

    #[test]
    fn buckets_and_fingerprints_are_in_range() {
        for hash in [0, 1, u64::MAX, 1 << 32, 0xffff_ffff_0000_0000] {
            assert!(bucket_of(hash, 3) < 3);
            assert_ne!(fingerprint_of(hash), 0);
        }
    }
}
