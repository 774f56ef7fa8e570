use super::*;
use crate::test_support::{disturb, hashed, read_back, written};
use datasketches::hll::HllType;

fn of_keys(keys: core::ops::Range<u64>, seed: u64) -> HyperLogLog {
    let seed = Seed::new(seed);
    let mut sketch = HyperLogLog::new(14, DistinctHash::Keyed, seed).unwrap();
    hashed(seed, keys.map(u128::from), |updates| sketch.update(updates));
    sketch
}

fn mean_and_deviation(errors: &[f64]) -> (f64, f64) {
    let count = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / count;
    let squares: f64 = errors.iter().map(|error| (error - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// Trap "HyperLogLog's middle": the classic estimators are off by 2 to 3 % at 40,000 of 2^14, and the
/// raw one by 1,130 % at 1,000.
#[test]
fn estimates_are_unbiased_and_within_the_bound_over_40_seeds() {
    for (count, deviation_most) in [(1_000, 0.008), (40_000, 0.009), (150_000, 0.0105)] {
        let estimates: Vec<_> = (0..40)
            .map(|seed| of_keys(0..count, seed).estimate())
            .collect();
        let error = |found: &DistinctEstimate| found.value / count as f64 - 1.0;
        let errors: Vec<f64> = estimates.iter().map(error).collect();
        let (mean, deviation) = mean_and_deviation(&errors);
        assert!(mean.abs() < 0.004, "{count}: mean error {mean}");
        assert!(deviation < deviation_most, "{count}: deviation {deviation}");
        let outside = estimates
            .iter()
            .filter(|found| !(found.low..=found.high).contains(&(count as f64)));
        assert!(outside.count() <= 5, "of 40 at 95.4 %");
        let bound = of_keys(0..0, 1).error_bound(0.95).over;
        let over = errors.iter().filter(|error| error.abs() > bound).count();
        assert!(over <= 5, "{over} of 40 outside {bound}");
    }
}

#[test]
fn one_estimate_is_datasketches_own() {
    let mut ours =
        HyperLogLog::new(12, DistinctHash::Murmur { key_bytes: 8 }, Seed::new(1)).unwrap();
    let mut theirs = HllSketch::new(12, HllType::Hll8).unwrap();
    for key in 0..30_000u64 {
        let bytes = key.to_be_bytes();
        ours.insert_bytes(&bytes);
        theirs.update(datasketches::hash::value::raw_bytes::from_slice(&bytes));
    }
    let theirs = HyperLogLog::from_image(&theirs.serialize()).unwrap();
    assert_eq!(ours.registers, theirs.registers);
    let read = HllSketch::deserialize(&ours.image()).unwrap();
    assert_eq!(read.serialize(), ours.image());
    assert_eq!(read.estimate(), ours.estimate().value);
    let mut by_key = HyperLogLog::new(12, ours.hash, Seed::new(9)).unwrap();
    hashed(Seed::new(9), 0..30_000, |updates| by_key.update(updates));
    assert_eq!(by_key.registers, ours.registers);
}

#[test]
fn images_of_all_types_and_modes_are_read() {
    for count in [0, 1, 8, 9, 200, 3_000, 200_000] {
        for kind in [HllType::Hll4, HllType::Hll6, HllType::Hll8] {
            let mut theirs = HllSketch::new(11, kind).unwrap();
            let hash = DistinctHash::Murmur { key_bytes: 8 };
            let mut ours = HyperLogLog::new(11, hash, Seed::new(1)).unwrap();
            for key in 0..count as u64 {
                theirs.update(datasketches::hash::value::raw_bytes::from_slice(
                    &key.to_be_bytes(),
                ));
                ours.insert_bytes(&key.to_be_bytes());
            }
            let image = theirs.serialize();
            let read = HyperLogLog::from_image(&image).unwrap();
            assert_eq!(read.registers, ours.registers, "{kind:?} {count}");
            for length in 0..image.len() {
                assert!(HyperLogLog::from_image(&image[..length]).is_err());
            }
        }
    }
}

#[test]
fn eight_parts_are_exactly_one_that_saw_all() {
    let whole = of_keys(0..80_000, 3);
    let mut merged = of_keys(0..0, 3);
    for part in 0..8 {
        // Neighbours share half of their keys, as probes on one path do.
        let first = part * 10_000;
        let part = of_keys(first..(first + 15_000).min(80_000), 3);
        merged.merge(&part, Overlap::Shared).unwrap();
    }
    assert_eq!(merged.registers, whole.registers);
    assert_eq!(merged.estimate(), whole.estimate());
}

#[test]
fn other_seeds_sizes_and_hashes_are_refused() {
    let mut sketch = of_keys(0..10, 1);
    let before = sketch.clone();
    let keyed = DistinctHash::Keyed;
    let murmur = DistinctHash::Murmur { key_bytes: 4 };
    let other = of_keys(0..10, 2);
    assert_eq!(sketch.merge(&other, Overlap::Shared), Err(MergeError::Seed));
    for (lg, hash) in [(13, keyed), (14, murmur)] {
        let other = HyperLogLog::new(lg, hash, Seed::new(1)).unwrap();
        let refused = sketch.merge(&other, Overlap::Shared);
        assert!(matches!(refused, Err(MergeError::Dimensions(..))));
    }
    assert_eq!(sketch, before);
    assert!(HyperLogLog::new(22, keyed, Seed::new(1)).is_err());
    let long = DistinctHash::Murmur { key_bytes: 17 };
    assert!(HyperLogLog::new(14, long, Seed::new(1)).is_err());
    let small = HyperLogLog::for_error(0.01, keyed, Seed::new(1)).unwrap();
    assert_eq!(small.lg_registers, 14);
    assert!(HyperLogLog::for_error(1e-6, keyed, Seed::new(1)).is_err());
}

#[test]
fn damaged_states_are_refused() {
    let seed = Seed::new(4);
    let mut sketch = HyperLogLog::new(8, DistinctHash::Keyed, seed).unwrap();
    hashed(seed, 0..1000, |updates| sketch.update(updates));
    assert_eq!(read_back(&sketch), Ok(sketch.clone()));
    disturb::<HyperLogLog>(&sketch.geometry(), &written(&sketch), |read| {
        assert!(read.estimate().value.is_finite());
    });
    sketch.clear();
    assert_eq!(sketch.estimate().value, 0.0);
}
