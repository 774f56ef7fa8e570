use super::*;
use crate::test_support::{disturb, read_back, written};
use hw::random::Random;
use proptest::prelude::*;

/// Sizes and gaps: uniform, heavy-tailed, and constant values.
fn values(kind: u64, seed: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(seed, kind);
    let draw = |_| match kind % 3 {
        0 => random.below(1500),
        1 => (40.0 / (1.0 - random.unit()).powf(1.5)) as u64,
        _ => 9_000_000_000,
    };
    (0..count).map(draw).collect()
}

fn of(values: &[u64]) -> Quantiles {
    let mut histogram = Quantiles::new(7).unwrap();
    histogram.insert_all(values.iter().copied());
    histogram
}

#[test]
fn error_is_within_the_stated_fraction_over_30_seeds() {
    for seed in 0..30 {
        let mut values = values(seed, seed, 20_000);
        let histogram = of(&values);
        values.sort_unstable();
        let bound = histogram.error_bound(1.0).over;
        assert_eq!(bound, 1.0 / 256.0);
        for share in [0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let truth = values[rank - 1];
            let found = histogram.quantile(share).unwrap();
            let error = found.value.abs_diff(truth) as f64;
            assert!(error <= bound * truth as f64, "{share}: {found:?}, {truth}");
            assert!((found.low..=found.high).contains(&truth));
        }
    }
}

#[test]
fn eight_parts_are_exactly_one_that_saw_all() {
    let all = values(1, 5, 40_000);
    let whole = of(&all);
    let mut merged = Quantiles::new(7).unwrap();
    for part in all.chunks(5_000) {
        merged.merge(&of(part), Overlap::Shared).unwrap();
    }
    assert_eq!(merged, whole);
    assert_eq!(merged.mean(), whole.mean());
}

#[test]
fn empty_and_extreme_values() {
    let mut histogram = Quantiles::new(7).unwrap();
    assert_eq!(histogram.quantile(0.5), None);
    assert_eq!(read_back(&histogram), Ok(histogram.clone()));
    histogram.insert_all([0, u64::MAX]);
    assert_eq!(histogram.quantile(0.0).unwrap().value, 0);
    assert_eq!(histogram.quantile(1.0).unwrap().value, u64::MAX);
    assert_eq!(read_back(&histogram), Ok(histogram.clone()));
    histogram.clear();
    assert_eq!(histogram, Quantiles::new(7).unwrap());
    assert!(Quantiles::new(1).is_err() && Quantiles::new(15).is_err());
    assert_eq!(Quantiles::for_error(0.004).unwrap().lg_buckets, 7);
    assert!(Quantiles::for_error(1e-9).is_err());
}

#[test]
fn other_dimensions_are_refused() {
    let mut histogram = of(&[1, 2]);
    let other = Quantiles::new(8).unwrap();
    let refused = histogram.merge(&other, Overlap::Shared);
    assert!(matches!(refused, Err(MergeError::Dimensions(..))));
    assert_eq!(histogram, of(&[1, 2]));
}

#[test]
fn damaged_states_are_refused_or_consistent() {
    let histogram = of(&values(1, 3, 500));
    assert_eq!(read_back(&histogram), Ok(histogram.clone()));
    disturb::<Quantiles>(&histogram.geometry(), &written(&histogram), |read| {
        let sum: u64 = read.counts.iter().sum();
        assert_eq!(sum, read.count());
        let _ = read.quantile(0.5);
    });
}

proptest! {
    #[test]
    fn each_value_is_in_its_bucket(lg in 2u8..=14, value: u64, shift in 0u32..64) {
        let value = value >> shift;
        let index = bucket_of(lg, value);
        prop_assert!(index < buckets(lg));
        let (first, last) = bucket_values(lg, index);
        prop_assert!((first..=last).contains(&value));
        let middle = first + (last - first) / 2;
        prop_assert!(middle.abs_diff(value) as f64 <= relative_error(lg) * value as f64);
        if index + 1 < buckets(lg) {
            prop_assert_eq!(bucket_values(lg, index + 1).0, last + 1);
        } else {
            prop_assert_eq!(last, u64::MAX);
        }
    }
}
