//! Compares minimum, mean, standard deviation and maximum with two passes over all values.

use flow::statistic::{Moments, NO_VALUE, Statistic, Value};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use proptest::prelude::*;

const FREE: u32 = u32::MAX;

fn summary(moments: &Moments, slot: u32) -> [f64; 4] {
    let mut out = Vec::new();
    moments.summarise(slot, f64::NAN, &mut out);
    out.try_into().expect("four moments")
}

fn moments_of(values: &[u64]) -> [f64; 4] {
    let mut moments = Moments::new(Value::Gap, Lines::zeroed(2));
    for burst in values.chunks(256) {
        moments.update(&vec![1; burst.len()], burst);
    }
    summary(&moments, 1)
}

#[test]
fn zero_one_and_two_values() {
    assert!(moments_of(&[]).iter().all(|number| number.is_nan()));
    assert!(moments_of(&[NO_VALUE]).iter().all(|number| number.is_nan()));
    assert_eq!(moments_of(&[NO_VALUE, 7]), [7.0, 7.0, 0.0, 7.0]);
    assert_eq!(moments_of(&[0, 4]), [0.0, 2.0, 2.0, 4.0]);
}

#[test]
fn packets_without_a_flow_and_of_other_flows_do_not_count() {
    let mut moments = Moments::new(Value::Size, Lines::zeroed(3));
    moments.prefetch(CacheLevel::L1, &[0, FREE, 2]);
    moments.update(&[0, FREE, 2, 0, 3], &[60, 61, 1514, 64, 99]);
    assert_eq!(summary(&moments, 0), [60.0, 62.0, 2.0, 64.0]);
    assert!(summary(&moments, 1)[0].is_nan());
    assert_eq!(summary(&moments, 2), [1514.0, 1514.0, 0.0, 1514.0]);
    assert!(summary(&moments, FREE)[0].is_nan());
    moments.clear(0);
    moments.clear(FREE);
    assert!(summary(&moments, 0)[0].is_nan());
}

#[test]
fn inter_arrival_times_are_reported_in_seconds() {
    let mut moments = Moments::new(Value::InterArrivalTime, Lines::zeroed(1));
    moments.update(&[0, 0], &[1_000_000, 3_000_000]);
    assert_eq!(summary(&moments, 0), [0.001, 0.002, 0.001, 0.003]);
}

#[test]
fn a_small_deviation_from_a_large_mean_is_preserved() {
    // Sums of squares would lose it: 10^12 squared has 80 bits.
    let values: Vec<u64> = (0..10_000).map(|i| 1_000_000_000_000 + i % 2).collect();
    let [minimum, mean, deviation, maximum] = moments_of(&values);
    assert_eq!((minimum, maximum), (1e12, 1e12 + 1.0));
    assert!((mean - 1e12 - 0.5).abs() < 1e-3);
    assert!((deviation - 0.5).abs() < 1e-3, "{deviation}");
}

proptest! {
    /// The mean must be within 10^-12 of itself, the deviation within 10^-9 of itself and 10^-12 of the
    /// mean.
    #[test]
    fn equals_two_passes(values in prop::collection::vec(0u64..1 << 48, 1..2000), shift in 0u32..48) {
        let values: Vec<u64> = values.iter().map(|value| value >> shift).collect();
        let count = values.len() as f64;
        let mean = values.iter().map(|&value| u128::from(value)).sum::<u128>() as f64 / count;
        let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
        let deviation = (squares / count).sqrt();
        let [minimum, found_mean, found_deviation, maximum] = moments_of(&values);
        prop_assert_eq!(minimum, *values.iter().min().unwrap() as f64);
        prop_assert_eq!(maximum, *values.iter().max().unwrap() as f64);
        prop_assert!((found_mean - mean).abs() <= 1e-12 * mean, "mean {} for {}", found_mean, mean);
        let tolerance = 1e-9 * deviation + 1e-12 * mean;
        prop_assert!((found_deviation - deviation).abs() <= tolerance, "{} for {}", found_deviation, deviation);
    }

    #[test]
    fn accepts_any_value(values in prop::collection::vec(any::<u64>(), 1..50)) {
        let valid: Vec<u64> = values.iter().copied().filter(|value| *value != NO_VALUE).collect();
        let [minimum, _, deviation, maximum] = moments_of(&values);
        if let (Some(min), Some(max)) = (valid.iter().min(), valid.iter().max()) {
            prop_assert_eq!(minimum, *min as f64);
            prop_assert_eq!(maximum, *max as f64);
            prop_assert!(deviation >= 0.0);
        }
    }
}
